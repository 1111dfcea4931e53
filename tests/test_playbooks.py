"""The plugin of the page about ports: a stranger's importer of a foreign checkpoint, with public names alone."""

from __future__ import annotations

import ast
import io
import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest
import sentencepiece
import torch

import s2s
from harness.folders import ROOT
from harness.tiny_runs import SMALL, call, write_corpus
from s2s.checkpoint.directory import load
from s2s_tokenizers import MarianConfig
from s2s_tokenizers.marian import MarianKind

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (ROOT / "docs" / "playbooks" / "port_a_model.md").read_text(encoding="utf-8")
((NAME, CODE),) = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
V = 40
OPTIONS = ["arch.norm_eps=1e-5", "arch.activation=silu", "arch.output_bias=true"]


def save_marian(folder: Path, **options: int) -> None:
    """A random MarianMTModel of the size of `SMALL`."""
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    torch.manual_seed(5)
    ends = {"layers": 1, "attention_heads": 2, "ffn_dim": 8}
    sizes = {f"{side}_{end}": n for side in ("encoder", "decoder") for end, n in ends.items()}
    ids = {"pad_token_id": 0, "eos_token_id": 3, "bos_token_id": 2, "decoder_start_token_id": 0}
    sizes |= {"vocab_size": V, "decoder_vocab_size": V, "d_model": 8, "max_position_embeddings": 32, **ids, **options}
    config = transformers.MarianConfig(**sizes, activation_function="swish", scale_embedding=True)
    model = transformers.MarianMTModel(config)
    model.final_logits_bias.normal_()
    model.save_pretrained(folder)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    (tmp_path / NAME).write_text(CODE, encoding="utf-8")
    return tmp_path


def train(*arguments: str) -> list[str]:
    plugin = [f"plugins=[{NAME}]", "train.from_marian=marian"]
    return [*plugin, *SMALL, "run=x", "train.steps=0", "--quiet", *arguments]


def test_the_plugin_is_short_and_imports_public_names_alone() -> None:
    assert len(CODE.splitlines()) < 60
    for node in ast.walk(ast.parse(CODE)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "s2s":
            assert node.module in s2s.PUBLIC
    assert "environ" not in CODE


def test_a_run_starts_from_a_foreign_checkpoint(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_marian(here / "marian")
    code, _, err = call("s2s-train", train(*OPTIONS), capsys)
    assert code == 0, err
    first = load(here / "runs/x/checkpoints/step-000000").tensors["model"]
    from transformers import MarianMTModel

    theirs = MarianMTModel.from_pretrained(here / "marian").state_dict()
    assert torch.equal(first["embeddings.bias"], theirs["final_logits_bias"][0])
    assert torch.equal(first["encoder.0.feed_forward.inner.bias"], theirs["model.encoder.layers.0.fc1.bias"])
    qkv = torch.cat([theirs[f"model.decoder.layers.0.self_attn.{name}_proj.bias"] for name in "qkv"])
    assert torch.equal(first["decoder.0.attention.qkv.bias"], qkv)
    shutil.rmtree(here / "marian")  # a resumed run has weights of its own
    code, _, err = call("s2s-train", train(*OPTIONS, "train.steps=2"), capsys)
    assert code == 0, err
    last = load(here / "runs/x/checkpoints/step-000002").tensors["model"]
    assert not torch.equal(last["embeddings.bias"], first["embeddings.bias"])


@pytest.mark.parametrize(
    ("options", "size", "error"),
    [
        ([], {}, "give arch.norm_eps=1e-05 arch.activation=silu arch.output_bias=true"),
        (OPTIONS, {"encoder_layers": 2}, "give arch.n_encoder_layers=2"),
        (OPTIONS, {"vocab_size": 41, "decoder_vocab_size": 41}, "'model.shared.weight' is [41, 8]"),
    ],
    ids=["options", "layers", "vocabulary"],
)
def test_what_does_not_fit_is_named(
    options: list[str], size: dict[str, int], error: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_marian(here / "marian", **size)
    code, _, err = call("s2s-train", train(*options), capsys)
    assert code == 2
    assert error in err


@pytest.fixture
def published(here: Path) -> list[str]:
    """A folder `marian` as it is published, with the files of a tokeniser; the options of a run from it."""
    pieces: dict[str, None] = {}
    for side, name in (("en", "source.spm"), ("de", "target.spm")):
        model = io.BytesIO()
        lines = (here / f"a.{side}").read_text().splitlines()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size=30, minloglevel=2, hard_vocab_limit=False
        )
        (here / "marian").mkdir(exist_ok=True)
        (here / "marian" / name).write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pieces |= dict.fromkeys(processor.id_to_piece(i) for i in range(3, processor.get_piece_size()))
    names = ["</s>", "<unk>", ">>de<<", *pieces, "<pad>"]
    (here / "marian" / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    v, pad = len(names), len(names) - 1
    ids = {"pad_token_id": pad, "eos_token_id": 0, "bos_token_id": 0, "decoder_start_token_id": pad}
    save_marian(here / "marian", vocab_size=v, decoder_vocab_size=v, **ids)
    without = [option for option in SMALL if not option.startswith("task.vocab_size")]
    subword = "task.subword={name: marian, folder: marian}"
    return [*without, *OPTIONS, subword, "run=x", "train.steps=0", "--quiet"]


def test_an_imported_run_translates_text(here: Path, published: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Ids and outputs are those of transformers, for which `MarianTokenizer` needs no network."""
    from transformers import MarianMTModel, MarianTokenizer

    plugin = [f"plugins=[./{NAME}]", "train.from_marian=marian"]
    code, _, err = call("s2s-train", [*plugin, *published], capsys)
    assert code == 0, err
    trained = s2s.load("x", device="cpu")
    theirs = MarianTokenizer.from_pretrained(here / "marian")
    theirs.punc_normalizer = str
    lines = (here / "a.en").read_text().splitlines()[:5]
    outputs = (here / "a.de").read_text().splitlines()[:5]
    sources = [ids[:-1] for ids in theirs(lines).input_ids]
    task = trained.task
    assert task.encode_source(lines) == sources
    assert [list(pair.tgt) for pair in task.encode([s2s.Example("a", line) for line in outputs])] == [
        ids[:-1] for ids in theirs(text_target=outputs).input_ids
    ]
    assert [task.detokenize(ids, "") for ids in task.tgt.encode(outputs)] == outputs
    assert task.encode_source([">>de<<" + lines[0]])[0] == [2, *sources[0]]
    vocab = task.vocab
    assert (vocab.eos, vocab.unk, vocab.pad, vocab.starting_tokens) == (0, 1, vocab.src - 1, (vocab.src - 1,))
    model = MarianMTModel.from_pretrained(here / "marian").eval()
    for line, ids in zip(lines, sources, strict=True):
        prefix = [vocab.pad]
        with torch.no_grad():
            for _ in range(4):
                logits = model(input_ids=torch.tensor([[*ids, 0]]), decoder_input_ids=torch.tensor([prefix])).logits
                prefix.append(int(logits[0, -1].argmax()))
        best = [i for i in prefix[1:] if i != vocab.pad]
        output = trained.translate([line], search={"name": "greedy"})[0]
        assert output.startswith(task.detokenize(best[: best.index(0)] if 0 in best else best, ""))


def test_symbols_of_a_task_are_tokens_of_the_folder(here: Path, published: list[str]) -> None:
    kind = MarianKind(MarianConfig(folder=str(here / "marian")))
    kind.learn([], here / "copy", 0, symbols=(">>de<<",), option="task.vocab_size")
    assert kind.load(here / "copy").id_of(">>de<<") == 2
    with pytest.raises(
        s2s.ConfigError, match=r"task.subword=marian has no tokens for >>fr<<; choose another tokeniser"
    ):
        kind.learn([], here / "other", 0, symbols=(">>fr<<", ">>de<<"), option="task.vocab_size")
    assert not (here / "other").exists()


def test_an_imported_run_is_continued_without_the_plugin(
    here: Path, published: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = [f"plugins=[./{NAME}]", "train.from_marian=marian"]
    code, _, err = call("s2s-train", [*plugin, *published], capsys)
    assert code == 0, err
    (here / NAME).unlink()
    code, _, err = call("s2s-train", [*published, "train.steps=2"], capsys)
    assert code == 0, err
    assert (here / "runs/x/checkpoints/step-000002").exists()
