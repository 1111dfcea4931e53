"""Lexical shortlists of Marian and Firefox: what is written is what restricts outputs, and damaged ones are refused."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import sentencepiece

import s2s
from harness.marian_bin import bin_file, shortlist_file
from harness.marian_npz import SSRU, Equations, marian_options, random_tensors
from harness.published import LINES
from harness.recorded_loads import use_empty_cache
from s2s.decoding.shortlist import Shortlist
from s2s.errors import CheckpointError
from s2s.plugin import load_plugins
from s2s.run import published
from s2s_cpu.prepacked import has_linear
from s2s_import.marian_shortlist import find_shortlist, read_shortlist
from s2s_import.marian_vocabularies import Vocabulary

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["</s>", "<unk>", *(f"w{i}" for i in range(30))]
N, LONGEST = len(WORDS), 8
LISTS = [random.Random(i).sample(range(N), i % 4) for i in range(N)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_empty_cache(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)


def vocabularies(folder: Path) -> tuple[Vocabulary, Vocabulary]:
    """One for each side, of the same words."""
    files = [folder / f"{side}.yml" for side in ("src", "trg")]
    for file in files:
        file.write_text("".join(f"{word}: {i}\n" for i, word in enumerate(WORDS)))
    src, tgt = (Vocabulary(file, folder / "source.spm") for file in files)
    return src, tgt


def read(folder: Path, options: dict[str, Any] | None = None, *, shared: bool = False) -> dict[int, set[int]]:
    """The tokens of each source token, and as those of -1 the frequent ones."""
    src, tgt = vocabularies(folder)
    file = find_shortlist(folder / "model.bin", options or {})
    assert file is not None
    tensors = read_shortlist(file, src, src if shared else tgt).tensors(N, None)
    always, offsets, tokens = (x.tolist() for x in Shortlist.of(tensors, N))
    return {-1: {*always}} | {i: {*tokens[offsets[i] : offsets[i + 1]]} for i in range(N)}


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_binary_list_is_what_was_written(packed: Any, shared: bool, tmp_path: Path) -> None:
    (tmp_path / "lex.50.50.ende.s2t.bin").write_bytes(packed(shortlist_file(7, LISTS)))
    expected = {i: {*tokens, *([i] if shared else [])} for i, tokens in enumerate(LISTS)}
    assert read(tmp_path, shared=shared) == {-1: {*range(7)}} | expected


def test_a_text_has_the_best_of_each_source_token(tmp_path: Path) -> None:
    """The later of two equal probabilities, and nothing at or below the threshold."""
    lines = [
        "w3 w1 0.5",
        "w4 w1 0.5",
        "w5 w1 0.9",
        "w6 w1 0.1",
        "NULL w1 1",
        "w7 NULL 1",
        "w8 w2 0.2",
        "strange w4 0.3",
    ]
    (tmp_path / "lex.s2t.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    found = read(tmp_path, {"shortlist": ["/there/lex.s2t.gz", 3, 2, 0.2]})
    ids = {word: i for i, word in enumerate(WORDS)}
    assert found.pop(-1) == {0, 1, 2}
    assert {i: tokens for i, tokens in found.items() if tokens} == {ids["w1"]: {ids["w5"], ids["w4"]}, ids["w4"]: {1}}
    assert len(read(tmp_path, {"shortlist": ["lex.s2t"]})[ids["w1"]]) == 4


def test_another_vocabulary_has_the_pairs_of_its_tokens(tmp_path: Path) -> None:
    """A token that is made of several brings what they bring, and every source brings it."""
    (tmp_path / "lex.bin").write_bytes(shortlist_file(7, LISTS))
    src, tgt = vocabularies(tmp_path)
    file = find_shortlist(tmp_path / "model.npz", {"shortlist": ["lex.bin", False]})
    assert file is not None
    kept = [*range(0, N, 3), N]  # N: padding
    rows = [[i] for i in kept] + [[3, 7], [7, 11]]
    tensors = read_shortlist(file, src, tgt).tensors(N, {"src": rows, "tgt": rows})
    made = Shortlist.of(tensors, len(rows))
    assert [rows[i] for i in made.always] == [[0], [3], [6], [3, 7], [7, 11]]
    for new, old in enumerate(rows):
        tokens = made.tokens[made.offsets[new] : made.offsets[new + 1]].tolist()
        assert {kept[i] for i in tokens} == {token for i in old if i < N for token in LISTS[i] if token in kept}


def test_a_model_without_a_list_has_none(tmp_path: Path) -> None:
    (tmp_path / "lex.s2t.bin").write_bytes(b"")
    assert find_shortlist(tmp_path / "model.npz", {}) is None
    assert find_shortlist(tmp_path / "model.bin", {"shortlist": ["other.bin"]}) is None


GOOD = shortlist_file(7, LISTS)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD[:-4], "cut off"),
        (GOOD[:20], "cut off"),
        (GOOD[:60] + b"x" + GOOD[61:], "its checksum is another"),
        (shortlist_file(7, [*LISTS, [1]]), "that of another model"),
        (shortlist_file(7, [[N]]), "that of another model"),
        (b"a b", "lines are"),
        (b"a b c", "could not convert"),
        (gzip.compress(GOOD)[:-9], "cut off"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",  # the content has the second in which it was compressed
)
def test_a_damaged_list_is_refused_in_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "lex.s2t.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match=said) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


def greedy(model: Equations, source: list[int], tokens: set[int]) -> list[int]:
    output: list[int] = []
    while len(output) < LONGEST:
        scores = model.log_probs([*source, 0], output)[-1]
        scores[[token not in tokens for token in range(len(scores))]] = -np.inf
        if (token := int(scores.argmax())) == 0:
            break
        output.append(token)
    return output


class Firefox(NamedTuple):
    """A folder "ende" as Firefox has them, of random numbers."""

    folder: Path
    vocab: Any
    lists: list[list[int]]
    options: dict[str, Any]
    tensors: dict[str, Any]


@pytest.fixture
def firefox(tmp_path: Path) -> Firefox:
    folder, spm = tmp_path / "ende", io.BytesIO()
    folder.mkdir()
    special = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1, "hard_vocab_limit": False, "minloglevel": 2}
    lines = iter([*LINES["src"], *LINES["tgt"]])
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=spm, vocab_size=70, **special)
    (folder / "vocab.ende.spm").write_bytes(spm.getvalue())
    vocab = sentencepiece.SentencePieceProcessor(model_proto=spm.getvalue())
    lists = [random.Random(i).sample(range(len(vocab)), 2) for i in range(len(vocab))]
    (folder / "lex.50.50.ende.s2t.bin").write_bytes(shortlist_file(4, lists))
    options = marian_options(**SSRU, **{"tied-embeddings": False, "tied-embeddings-all": True})
    tensors = random_tensors(options, len(vocab), len(vocab))
    (folder / "model.ende.bin").write_bytes(bin_file(options, tensors))
    return Firefox(folder, vocab, lists, options, tensors)


def test_a_folder_of_firefox_writes_what_its_shortlist_has(firefox: Firefox) -> None:
    _, vocab, lists, options, tensors = firefox
    ours, theirs = s2s.load("ende"), Equations(options, tensors)
    search = {"name": "greedy", "max_len_a": 0, "max_len_b": LONGEST}
    for shortlist in (True, False):
        found = ours.translate(LINES["src"][:6], search=search, shortlist=shortlist)
        for line, text in zip(LINES["src"][:6], found, strict=True):
            source = vocab.encode(line)
            tokens = {*range(4), *source, 0, *(token for i in [*source, 0] for token in lists[i])}
            following = (token for token in range(4, len(vocab)) if token not in tokens)
            tokens |= {next(following) for _ in range(-len(tokens) % 8)} if shortlist else {*range(len(vocab))}
            output = greedy(theirs, source, tokens)
            assert text == "".join("⁇" if i == 1 else vocab.id_to_piece(i) for i in output).replace("▁", " ").strip()


def test_a_folder_is_opened_again_when_a_file_has_changed(firefox: Firefox, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins, opened, open_published = load_plugins(), list[str](), published.open_published

    def recorded(name: str, *given: Any) -> Any:
        opened.append(name)
        return open_published(name, *given)

    monkeypatch.setattr(published, "open_published", recorded)
    run = published.find_model("ende", plugins)
    assert published.find_model("ende", plugins) == run
    assert published.find_model(str(firefox.folder), plugins) == run
    assert len(opened) == 1
    (firefox.folder / "lex.50.50.ende.s2t.bin").write_bytes(shortlist_file(5, firefox.lists))
    other = published.find_model("ende", plugins)
    assert other != run
    assert published.find_model("ende", plugins) == other
    assert len(opened) == 2
    shutil.rmtree(other)
    assert published.find_model("ende", plugins) == other
    assert len(opened) == 3
    (record,) = run.parent.glob(".*.json")  # that of the folder as it was has been replaced
    record.write_text("[]")
    assert published.find_model("ende", plugins) == other
    assert len(opened) == 4
    (firefox.folder / "model.second.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match="2 models"):
        published.find_model("ende", plugins)


@pytest.mark.skipif(not has_linear(), reason="no functions in C")
def test_a_line_is_decoded_with_a_shortlist_without_torch(firefox: Firefox, tmp_path: Path) -> None:
    """By the second command; the first makes a run of the folder."""
    (tmp_path / "in.txt").write_text("\n".join(LINES["src"][:6]) + "\n")
    code = (
        "import sys; from s2s.cli.generate import main; code = main(sys.argv[1:]); print('torch' in sys.modules, code)"
    )
    options = ["matmul=native", "search.max_len_a=0", "search.max_len_b=8", "workers=1"]
    command = [sys.executable, "-c", code, f"run={firefox.folder.name}", "input=in.txt", *options]
    done = [
        subprocess.run([*command, f"output=out{i}"], capture_output=True, text=True, check=True).stdout.split()[-2:]
        for i in range(2)
    ]
    assert done == [["True", "0"], ["False", "0"]]
    assert (tmp_path / "out0").read_bytes() == (tmp_path / "out1").read_bytes()
