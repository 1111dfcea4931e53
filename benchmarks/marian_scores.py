"""Log-probabilities of models that Marian trained, by Marian and here: the largest differences.

    pip install pymarian==1.12.42   # in an environment of its own, 1 GB
    python benchmarks/marian_scores.py …/bin/pymarian FOLDER [OUTPUT.json]

FOLDER has train.en and train.de, the first 840 lines of which are read. Marian prints words with five decimals, so that
its rounding alone is 5e-6 of a word.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import torch

from s2s import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.marian_files import open_marian
from s2s_transformer.marian_npz import MarianNpz
from s2s_transformer.model import Transformer

N_TRAIN, N_SCORED = 800, 40
SIZES = "--enc-depth 2 --dec-depth 2 --dim-emb 32 --transformer-heads 4 --transformer-dim-ffn 48"
TRAINING = "--after-batches 40 --mini-batch 32 --learn-rate 0.003 --seed 7 --cpu-threads 1 -w 512 --quiet"
TIED, ALL = "--tied-embeddings", "--tied-embeddings-all"
SSRU = f"{TIED} --transformer-decoder-autoreg rnn --dec-cell ssru --transformer-ffn-activation relu"
PRE = "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n"
KINDS = {
    "post-norm": TIED,
    "pre-norm": f"{TIED} {PRE}",
    "SSRU": SSRU,
    "SSRU, pre-norm": f"{SSRU} {PRE}",
    "norm of embeddings": f"{TIED} --transformer-postprocess-emb nd",
    "tied layers": f"{TIED} --transformer-tied-layers 1 1",
    "untied": "",
    "all tied": ALL,
    "inputs tied": "--tied-embeddings-src",
    "no output bias": f"{TIED} --output-omit-bias",
    "model.bin": SSRU,
}
"""Options of Marian; the last is converted by marian-conv, whose scorer reads no model of integers"""


class Corpus(NamedTuple):
    """Sentences to score, as Marian's ids, eos at the end, and the vocabularies' files."""

    pairs: list[tuple[list[int], list[int]]]
    vocabs: list[Path]


def main(arguments: list[str]) -> None:
    pymarian, folder, *output = arguments
    torch.set_num_threads(1)
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        corpora = {joint: prepare(Path(folder), work, joint=joint) for joint in (False, True)}
        for kind, options in KINDS.items():
            corpus = corpora["-all" in options or "-src" in options]
            rows[kind] = differences(pymarian, work, options, corpus, convert=kind == "model.bin")
            print(f"{kind:20} {rows[kind]['word']:.1e} of a word  {rows[kind]['sentence']:.1e} of a sentence")
    if output:
        Path(output[0]).write_text(json.dumps(rows, indent=1) + "\n")


def prepare(folder: Path, work: Path, *, joint: bool) -> Corpus:
    """Write vocabularies of words and the texts."""
    texts, vocabs, ids = {}, [], []
    for language in ("en", "de"):
        with (folder / f"train.{language}").open(encoding="utf-8") as file:
            texts[language] = [file.readline() for _ in range(N_TRAIN + N_SCORED)]
        (work / f"train.{language}").write_text("".join(texts[language][:N_TRAIN]), encoding="utf-8")
        (work / f"scored.{language}").write_text("".join(texts[language][N_TRAIN:]), encoding="utf-8")
    for language in ("en", "de"):
        lines = texts["en"] + texts["de"] if joint else texts[language]
        counts = Counter(word for line in lines for word in line.split())
        words = ["</s>", "<unk>", *(word for word, n in counts.most_common() if n >= 3)]
        vocabs.append(work / f"{'joint' if joint else language}.yml")
        vocabs[-1].write_text("".join(f"{json.dumps(word)}: {i}\n" for i, word in enumerate(words)), encoding="utf-8")
        index = {word: i for i, word in enumerate(words)}
        ids.append([[*(index.get(word, 1) for word in line.split()), 0] for line in texts[language][N_TRAIN:]])
    return Corpus(list(zip(*ids, strict=True)), vocabs)


def differences(pymarian: str, work: Path, options: str, corpus: Corpus, *, convert: bool) -> dict[str, float]:
    """Train a model, convert it if asked to, score with it in both programs, and compare."""
    model, vocabs = work / "model.npz", [str(path) for path in corpus.vocabs]
    sets = [str(work / f"train.{language}") for language in ("en", "de")]
    train = [pymarian, "train", "--type", "transformer", "--model", str(model), "--train-sets", *sets, "--vocabs"]
    subprocess.run(
        [*train, *vocabs, *SIZES.split(), *TRAINING.split(), *options.split(), "--overwrite"], check=True, cwd=work
    )
    if convert:
        trained, model = model, work / "model.npz.bin"  # removed with the others below
        conversion = [pymarian, "convert", "-f", str(trained), "-t", str(model)]
        subprocess.run(conversion, check=True, cwd=work, capture_output=True)
    scored = [str(work / f"scored.{language}") for language in ("en", "de")]
    score = [pymarian, "score", "-m", str(model), "-t", *scored, "-v", *vocabs, "--cpu-threads", "1", "-w", "512"]
    printed = subprocess.run([*score, "--quiet", "--word-scores"], check=True, cwd=work, capture_output=True, text=True)
    ours = load(model)
    for state in work.glob("model.npz*"):
        state.unlink()
    word = sentence = 0.0
    for (src, tgt), line in zip(corpus.pairs, printed.stdout.splitlines(), strict=True):
        total, words = line.split(" ||| WordScores=")
        expected = torch.tensor([float(x) for x in words.split()])
        found = log_probs(ours, src, tgt)
        word = max(word, float((found - expected).abs().max()))
        sentence = max(sentence, abs(float(total) - float(found.sum())))
    return {"word": word, "sentence": sentence, "sentences": len(corpus.pairs)}


def load(path: Path) -> Transformer:
    """The model here."""
    options, tensors = open_marian(path)
    form = MarianNpz()
    config = TransformerConfig(**form.read_options(options, tensors))
    n = len(tensors["Wemb" if "Wemb" in tensors else "encoder_Wemb"])
    model = Transformer(config, Vocab(src=n, tgt=n, pad=n - 1, bos=n - 1, eos=0, unk=1, joint=True)).eval()
    form.names(config).load(model.state_dict(), tensors)
    return model


@torch.no_grad()
def log_probs(model: Transformer, src: list[int], tgt: list[int]) -> torch.Tensor:
    """Of each target token"""
    source, target = torch.tensor([src]), torch.tensor([[model.vocab.pad, *tgt[:-1]]])
    logits = model.project(model(source, source == model.vocab.pad, target))
    return logits.log_softmax(-1)[0].gather(1, torch.tensor(tgt)[:, None])[:, 0]


if __name__ == "__main__":
    main(sys.argv[1:])
