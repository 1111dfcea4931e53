"""Checkpoints of fairseq as runs: their dictionaries, what cuts their texts, and the weights."""

from __future__ import annotations

import io
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sacremoses
import sentencepiece
import torch

import s2s
from harness.published import LINES
from s2s.cli.generate import main as generate
from s2s.task import Vocab
from s2s_import.command import main as import_model
from s2s_tokenizers import FairseqConfig
from s2s_tokenizers.fairseq import FairseqKind
from s2s_transformer import TransformerConfig
from s2s_transformer.fairseq import Fairseq
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
MERGES = [
    ("t", "h"),
    ("th", "e</w>"),
    ("d", "o"),
    ("do", "g</w>"),
    ("s", "e"),
    ("se", "e"),
    ("see", "s</w>"),
    ("a", "l"),
]
SIZES = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 24, "n_heads": 2}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()


def reference_bpe(word: str, merges: Sequence[tuple[str, str]]) -> list[str]:
    """As Sennrich et al. (2016) apply codes: the earliest pair is merged wherever it occurs, again and again."""
    symbols = [*word[:-1], word[-1] + "</w>"]
    while pairs := [pair for pair in merges if pair in set(pairwise(symbols))]:
        first, new, i = pairs[0], [], 0
        while i < len(symbols):
            is_pair = tuple(symbols[i : i + 2]) == first
            new.append("".join(first) if is_pair else symbols[i])
            i += 2 if is_pair else 1
        symbols = new
    symbols[-1] = symbols[-1].removesuffix("</w>")
    return [*(symbol + "@@" for symbol in symbols[:-1]), symbols[-1]]


def words(line: str, language: str) -> list[str]:
    found: list[str] = sacremoses.MosesTokenizer(language).tokenize(line, aggressive_dash_splits=True, escape=True)
    return found


def with_codes(line: str, language: str) -> list[str]:
    return [part for word in words(line, language) for part in reference_bpe(word, MERGES)]


def dictionary(tokens: Sequence[str], name: str) -> list[str]:
    """Write a dictionary as fairseq-preprocess does; returns the tokens by their ids."""
    unique = [*dict.fromkeys(tokens), "madeupword0000"]
    Path("model", name).write_text("".join(f"{token} {99 - i % 90}\n" for i, token in enumerate(unique)))
    return [*SPECIAL, *unique]


def checkpoint(sides: tuple[list[str], list[str]], share: str, texts: dict[str, Any], *, in_cfg: bool) -> Transformer:
    """Write a random model; returns it."""
    vocab = Vocab(
        src=len(sides[0]), tgt=len(sides[1]), pad=1, bos=2, eos=2, unk=3, joint=sides[0] == sides[1], src_pad=1
    )
    form = Fairseq()
    config = TransformerConfig(
        **{**{name: values[0] for name, values in form.implied.items()}, "norm_eps": 1e-5, "scale_positions": True},
        **SIZES,
        share_embeddings=share,
        positions="sinusoid_t2t",
    )
    torch.manual_seed(4)
    model = Transformer(config, vocab).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.4 * torch.randn_like(weight))
    options, tensors = form.write_options(config), dict(form.names(config).to_foreign(model.state_dict()))
    if in_cfg:
        parts = {name: {"_name": texts.pop(name), **texts} for name in ("bpe", "tokenizer") if texts.get(name)}
        task = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
        written = {"args": None, "cfg": {"model": Namespace(**options), "task": task, **parts}}
    else:
        written = {"args": Namespace(**options, task="translation", source_lang="en", target_lang="de", **texts)}
    torch.save({**written, "model": tensors, "extra_state": {"epoch": 3}}, "model/checkpoint_best.pt")
    return model


def codes(version: str = "#version: 0.2\n", counts: str = "") -> None:
    Path("model", "bpecodes").write_text(version + "".join(f"{left} {right}{counts}\n" for left, right in MERGES))


def subword_nmt() -> tuple[Transformer, Callable[[str], list[str]], tuple[list[str], list[str]]]:
    codes()
    both = [with_codes(line, language) for language, side in (("en", "src"), ("de", "tgt")) for line in LINES[side]]
    tokens = dictionary([token for line in both for token in line], "dict.en.txt")
    dictionary(tokens[4:-1], "dict.de.txt")
    texts = {"bpe": "subword_nmt", "bpe_codes": "/somewhere/bpecodes", "tokenizer": "moses"}
    return (
        checkpoint((tokens, tokens), "shared", texts, in_cfg=True),
        lambda line: with_codes(line, "en"),
        (tokens, tokens),
    )


def fastbpe() -> tuple[Transformer, Callable[[str], list[str]], tuple[list[str], list[str]]]:
    codes("", " 17")
    sides = [
        [token for line in LINES[s] for token in with_codes(line, lang)] for s, lang in (("src", "en"), ("tgt", "de"))
    ]
    tokens = dictionary(sides[0], "dict.en.txt"), dictionary(sides[1], "dict.de.txt")
    return checkpoint(tokens, "target", {"bpe": "fastbpe"}, in_cfg=False), lambda line: with_codes(line, "en"), tokens


def of_sentencepiece() -> tuple[Transformer, Callable[[str], list[str]], tuple[list[str], list[str]]]:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*LINES["src"], *LINES["tgt"]]),
        model_writer=written,
        vocab_size=80,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    Path("model", "sentencepiece.bpe.model").write_bytes(written.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    tokens = dictionary([processor.id_to_piece(i) for i in range(3, processor.get_piece_size())], "dict.en.txt")
    dictionary(tokens[4:-1], "dict.de.txt")
    texts = {"bpe": "sentencepiece", "sentencepiece_model": "/far/sentencepiece.bpe.model"}
    model = checkpoint((tokens, tokens), "shared", texts, in_cfg=True)
    return model, lambda line: list(processor.encode(line, out_type=str)), (tokens, tokens)


def of_words() -> tuple[Transformer, Callable[[str], list[str]], tuple[list[str], list[str]]]:
    sides = [[token for line in LINES[side] for token in line.split()] for side in ("src", "tgt")]
    tokens = dictionary(sides[0], "dict.en.txt"), dictionary(sides[1], "dict.de.txt")
    return checkpoint(tokens, "none", {}, in_cfg=False), str.split, tokens


@pytest.mark.parametrize("made", [subword_nmt, fastbpe, of_sentencepiece, of_words])
def test_a_checkpoint_is_a_run_with_the_same_logits(made: Callable[[], Any]) -> None:
    model, cut, (src_tokens, tgt_tokens) = made()
    assert import_model(["model=model", "run=ours", "--quiet"]) == 0
    ours = s2s.load("ours")
    target = [5, 9, 7]
    for line in [*LINES["src"][:4], "the cow sees § — unknown-words & more."]:
        expected = [src_tokens.index(token) if token in src_tokens else 3 for token in cut(line)]
        (src,) = ours.task.encode_inputs([s2s.Example(line, "")])
        assert src == expected
        batch = s2s.make_batch([(src, target)], ours.task.vocab)
        there = torch.tensor([[*src, 2]])
        with torch.no_grad():
            logits = ours.model.project(ours.model(*batch.inputs))
            expected_logits = model.project(model(there, there == 1, torch.tensor([[2, *target]])))
        assert logits.shape[-1] == len(tgt_tokens)
        torch.testing.assert_close(logits, expected_logits, atol=1e-5, rtol=0)
    for line in LINES["tgt"][:5]:
        (pair,) = ours.task.encode([s2s.Example("a", line)])
        assert ours.task.detokenize(pair.tgt, "") == line
    assert ours.translate(LINES["src"][0], search={"max_len_b": 4}) is not None


def test_codes_of_the_first_version_have_an_end_of_their_own() -> None:
    codes = [("o", "w"), ("ow", "</w>"), ("l", "ow</w>")]
    Path("model", "codes").write_text("".join(f"{left} {right}\n" for left, right in codes))
    for name in ("vocab.json", "target_vocab.json"):
        Path("model", name).write_text(
            '{"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "low": 4, "l@@": 5, "ow@@": 6, "s": 7}'
        )
    kind = FairseqKind(FairseqConfig(folder="model"))
    kind.learn([], Path("copy"), 0, option="task.vocab_size")
    assert kind.load(Path("copy")).encode(["low lows"]) == [[4, 5, 6, 7]]
    assert kind.load(Path("copy")).decode([4, 5, 6, 7]) == "low lows"


def spoil_task() -> None:
    checkpoint_file({"task": "translation_multi_simple_epoch"})


def spoil_bpe() -> None:
    checkpoint_file({"bpe": "gpt2"})


def checkpoint_file(changed: dict[str, Any]) -> None:
    content = torch.load("model/checkpoint_best.pt", weights_only=False)
    content["args"] = Namespace(**{**vars(content["args"]), **changed})
    torch.save(content, "model/checkpoint_best.pt")


SPOILT: dict[str, tuple[Callable[[], Any], str]] = {
    "no-dictionary": (
        lambda: Path("model/dict.en.txt").rename("model/dict.fr.txt"),
        "needs its dictionary dict.en.txt",
    ),
    "no-codes": (lambda: Path("model/bpecodes").unlink(), "needs what cuts its texts into tokens beside it"),
    "several-languages": (spoil_task, "is of task=translation_multi_simple_epoch, which is not read"),
    "gpt2": (spoil_bpe, "has texts in bpe=gpt2, which is not read"),
    "damaged-dictionary": (
        lambda: Path("model/dict.en.txt").write_text("a 1\nb\n"),
        "line 2 is no token with its number",
    ),
    "fewer-rows": (lambda: Path("model/dict.en.txt").write_text("a 1\n" + "".join(f"{i} 1\n" for i in range(900))), ""),
    "damaged": (lambda: Path("model/checkpoint_best.pt").write_bytes(b"PK"), "is no checkpoint of fairseq"),
}


@pytest.mark.parametrize(("spoil", "message"), SPOILT.values(), ids=SPOILT)
def test_what_is_not_read_is_named_in_one_line(
    spoil: Callable[[], Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fastbpe()
    spoil()
    capsys.readouterr()
    assert import_model(["model=model", "run=ours"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("runs/ours").exists()


def test_a_checkpoint_translates_without_a_step_of_conversion() -> None:
    subword_nmt()
    Path("in.txt").write_text("the dog sees a car.\n")
    assert generate(["model=model/checkpoint_best.pt", "input=in.txt", "output=out.txt", "--quiet"]) == 0
    assert Path("out.txt").read_text().count("\n") == 1
