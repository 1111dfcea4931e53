"""Marian's model.npz with its vocabularies: outputs are those of Marian's equations."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
import sentencepiece

import s2s
from harness.marian_npz import PRE, SSRU, Equations, marian_options, random_tensors, written
from harness.published import LINES
from s2s_import.command import main as import_model

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 10


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def vocabulary(path: Path, lines: list[str]) -> sentencepiece.SentencePieceProcessor:
    """As Marian learns one: </s> and <unk> first, and no other special token."""
    model = io.BytesIO()
    special = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
        **special,
    )
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def greedy(model: Equations, source: list[int]) -> list[int]:
    output: list[int] = []
    while len(output) < LONGEST and (token := int(model.log_probs([*source, 0], output)[-1].argmax())) != 0:
        output.append(token)
    return output


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "separate"])
@pytest.mark.parametrize("changes", [{}, PRE, SSRU], ids=["post", "pre", "ssru"])
def test_a_model_of_marian_translates_by_its_equations(changes: dict[str, Any], joint: bool, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    if joint:
        src = tgt = vocabulary(folder / "vocab.spm", [*LINES["src"], *LINES["tgt"]])
    else:
        src, tgt = vocabulary(folder / "source.spm", LINES["src"]), vocabulary(folder / "target.spm", LINES["tgt"])
    tied = {"tied-embeddings": not joint, "tied-embeddings-all": joint}
    options = marian_options(**changes, **tied)
    tensors = random_tensors(options, len(src), len(tgt))
    written(options, folder / "model.npz", tensors)
    (folder / "model.npz.decoder.yml").write_text("beam-size: 3\nnormalize: 0.6\n")
    ours = s2s.load("model")
    assert (ours.config.search.beam, ours.config.search.alpha, ours.config.search.length_penalty) == (3, 0.6, "power")
    theirs = Equations(options, tensors)
    expected = [tgt.decode(greedy(theirs, src.encode(line))) for line in LINES["src"][:8]]
    found = ours.translate(LINES["src"][:8], search={"name": "greedy", "max_len_a": 0, "max_len_b": LONGEST})
    assert found == [text.replace(" ⁇ ", "⁇").strip() for text in expected]
    assert any(expected)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "vocab.spm").unlink(), "has no vocabularies that are read beside it"),
        (lambda folder: (folder / "vocab.spm").write_bytes(b"no"), "vocab.spm is no model of sentencepiece"),
        (lambda folder: vocabulary_of_s2s(folder / "vocab.spm"), "begins with </s> and <unk>"),
        (lambda folder: (folder / "other.npz").write_bytes(b""), "has 2 models, such as model.npz: name one"),
        (lambda folder: (folder / "model.npz").write_bytes(b"no"), "model.npz is no .npz file"),
        (lambda folder: (folder / "model.npz.decoder.yml").write_text("a: [b"), "decoder.yml is not readable"),
    ],
    ids=["no-vocabulary", "no-model", "other-ids", "two", "no-archive", "no-yaml"],
)
def test_what_is_not_read_is_named_in_one_line(
    spoil: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    n = len(vocabulary(folder / "vocab.spm", LINES["src"]))
    options = marian_options(**{"tied-embeddings": False, "tied-embeddings-all": True})
    written(options, folder / "model.npz", random_tensors(options, n, n))
    spoil(folder)
    assert import_model(["model=model", "run=ours"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def vocabulary_of_s2s(path: Path) -> None:
    """Of other special ids."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES["src"]), model_writer=model, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    path.write_bytes(model.getvalue())
