"""A model in a file and the settings of a search in numbers, against the search of the model that they were made of."""

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.packed_models import SEARCH_OPTIONS, VARIANTS, model, needs_bytes, shortlist, source_rows
from harness.search_calls import StepByStep, find_queued
from harness.tree_texts import EOS, START, small
from s2s import Choice
from s2s.decoding import BeamConfig, BeamSearch, ConstraintSet, GreedyConfig, SearchRequest, SourceSentence, greedy
from s2s.decoding.queue import FixedQueue
from s2s.decoding.token_constraints import MinLength
from s2s_cpu import packed_files
from s2s_cpu.library import native_library
from s2s_cpu.packed_files import PackedFiles
from s2s_cpu.prepacked import has_linear
from s2s_parsing.linear import FORMS
from s2s_testing import VOCAB

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.decoding import Hypothesis
    from s2s.model import Seq2Seq

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
]
SENTENCES = [SourceSentence(i, row) for i, row in enumerate(source_rows(9))]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackedFiles:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return PackedFiles(Choice())


def request(one: Seq2Seq, nbest: int, **options: Any) -> SearchRequest:
    options = {"vocab": VOCAB, **options}
    return SearchRequest(model=one, queue=FixedQueue([], 1), device=torch.device("cpu"), nbest=nbest, **options)


def packed(
    files: PackedFiles, search: BeamSearch, one: Seq2Seq, sentences: list[SourceSentence] = SENTENCES, **options: Any
) -> Any:
    nbest = search.config.beam
    assert files.keep("search", "model", search, request(one, nbest, **options), {"of": "this test"})
    found = files.find("search")
    assert found
    assert found[0] == {"of": "this test"}
    assert all(map(found[1].accepts, sentences))
    results = [result for some in found[1](FixedQueue(sentences, 20)) for result in some]
    return [result.hypotheses for result in sorted(results, key=lambda result: result.index)]


def expected(search: BeamSearch, one: Seq2Seq, **options: Any) -> list[list[Hypothesis]]:
    options = {"nbest": search.config.beam, **options}
    return find_queued(StepByStep(search.config), one, FixedQueue(SENTENCES, 1000), VOCAB, **options)


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {"BART"}))
def test_outputs_are_those_of_the_model(name: str, files: PackedFiles) -> None:
    one, search = model(**VARIANTS[name]), BeamSearch(BeamConfig(beam=3, max_len_b=4))
    assert packed(files, search, one) == expected(search, one)


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
@pytest.mark.parametrize("options", SEARCH_OPTIONS, ids=str)
def test_options_hold(options: dict[str, Any], quantization: Any, files: PackedFiles) -> None:
    one, search = model(quantization, d_model=64), BeamSearch(BeamConfig(**({"max_len_b": 4} | options)))
    assert packed(files, search, one) == expected(search, one)


def test_a_greedy_search_is_kept(files: PackedFiles) -> None:
    one, search = model(), greedy(GreedyConfig(max_len_b=4))
    assert packed(files, search, one) == expected(search, one)


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
@pytest.mark.parametrize("options", SEARCH_OPTIONS, ids=str)
def test_a_shortlist_is_kept(options: dict[str, Any], quantization: Any, files: PackedFiles) -> None:
    one, lists = model(quantization, d_model=48), shortlist()
    search = BeamSearch(BeamConfig(**({"max_len_b": 4} | options)))
    found = packed(files, search, one, shortlist=lists)
    assert found == expected(search, one, shortlist=lists)
    assert found != expected(search, one)


def test_searches_with_and_without_a_shortlist_are_kept_beside_one_another(files: PackedFiles, tmp_path: Path) -> None:
    one, lists, search = model(), shortlist(), BeamSearch(BeamConfig(max_len_b=4))
    for options in ({}, {"shortlist": lists}, {"shortlist": lists._replace(always=torch.arange(0))}, {}):
        for file in tmp_path.rglob("*-listed.bin"):
            file.unlink()
        assert packed(files, search, one, **options) == expected(search, one, **options)


def test_a_sentence_may_want_fewer_outputs_than_others(files: PackedFiles) -> None:
    one, search = model(), BeamSearch(BeamConfig(max_len_b=4))
    sentences = [replace(sentence, nbest=1 + sentence.index % 4) for sentence in SENTENCES]
    found = packed(files, search, one, sentences)
    for sentence, hypotheses in zip(sentences, found, strict=True):
        queue = FixedQueue([replace(sentence, index=0)], 1000)
        assert [hypotheses] == find_queued(StepByStep(search.config), one, queue, VOCAB, nbest=sentence.nbest)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_sentence_may_have_starting_tokens_of_its_own(n: int, files: PackedFiles) -> None:
    one, search = model(positions="learned", max_positions=20), BeamSearch(BeamConfig(max_len_a=0.0, max_len_b=50))
    sentences = [
        replace(sentence, starting_tokens=(5 + sentence.index, 4, 6, 4, 8, 5, 9)[:n]) for sentence in SENTENCES
    ]
    found = packed(files, search, one, sentences)
    assert found == find_queued(StepByStep(search.config), one, FixedQueue(sentences, 1000), VOCAB, nbest=4)
    assert found != expected(search, one)


@pytest.mark.parametrize(("beam", "max_len"), [(1, 40), (4, 9), (13, 14)])
@pytest.mark.parametrize("name", FORMS)
def test_trees_are_those_of_the_model(name: str, max_len: int, beam: int, files: PackedFiles) -> None:
    written = small(FORMS[name]())
    one, constraint = model(vocab=written.vocab, d_model=16, share_embeddings="none"), written.constraint(6, 3)
    search = BeamSearch(BeamConfig(beam=beam, max_len_a=0.0, max_len_b=max_len))
    rows = [[START] * n + [EOS] for n in range(12)]
    kept = request(one, beam, constraint=constraint, vocab=written.vocab)
    assert files.keep("search", "model", search, kept, {})
    found = files.find("search")
    assert found
    possible = [one for one in (SourceSentence(i, row) for i, row in enumerate(rows)) if found[1].accepts(one)]
    assert [sentence.index for sentence in possible] == [n for n in range(12) if 0 < n <= max_len]
    results = {result.index: result.hypotheses for some in found[1](FixedQueue(possible, 20)) for result in some}
    every = FixedQueue([SourceSentence(i, row) for i, row in enumerate(rows)], 1000)
    steps = find_queued(StepByStep(search.config), one, every, written.vocab, nbest=beam, constraint=constraint)
    assert results == {sentence.index: steps[sentence.index] for sentence in possible}
    assert all(results.values())


@pytest.mark.parametrize(
    "sentence",
    [
        SourceSentence(0, [VOCAB.src, VOCAB.eos]),
        SourceSentence(0, [-1, VOCAB.eos]),
        SourceSentence(0, []),
        SourceSentence(0, [5] * 16 + [VOCAB.eos]),
        SourceSentence(0, [5, VOCAB.eos], starting_tokens=(VOCAB.tgt,)),
        SourceSentence(0, [5, VOCAB.eos], starting_tokens=(4, -1)),
        SourceSentence(0, [5, VOCAB.eos], starting_tokens=(4,) * 16),
        SourceSentence(0, [5, VOCAB.eos], constraint=MinLength(3, VOCAB.tgt, VOCAB.eos)),  # type: ignore[arg-type]
    ],
    ids=["after the last", "before the first", "empty", "long", "no such start", "another", "no room", "a constraint"],
)
def test_other_sentences_are_left_to_the_model(sentence: SourceSentence, files: PackedFiles) -> None:
    one = model(positions="learned", max_positions=16)
    assert files.keep("search", "model", BeamSearch(BeamConfig(max_len_b=4)), request(one, 1), {})
    found = files.find("search")
    assert found
    assert not found[1].accepts(sentence)
    assert found[1].accepts(SourceSentence(0, [5] * 15 + [VOCAB.eos]))


class OtherSteps(BeamSearch):
    """Another search."""

    def step(self, batch: Any) -> Any:
        return super().step(batch)


class OtherResults(BeamSearch):
    """One that changes what is found."""

    def __call__(self, request: SearchRequest) -> Any:
        return super().__call__(request)


def test_what_consists_of_more_than_functions_is_not_kept(files: PackedFiles) -> None:
    config, at_least = BeamConfig(max_len_b=4), ConstraintSet(None, [MinLength(3, VOCAB.tgt, VOCAB.eos)])
    search, unpacked = BeamSearch(config), model(**VARIANTS["BART"])
    for other in (OtherSteps, OtherResults):
        assert not files.keep("search", "model", other(config), request(model(), 1), {})
    assert not files.keep(
        "search", "model", BeamSearch(replace(config, repetition_penalty=1.1)), request(model(), 1), {}
    )
    assert not files.keep("search", "model", search, request(model(), 1, constraint=at_least), {})
    assert not files.keep("search", "model", search, request(unpacked, 1), {})
    assert files.find("search") is None


def test_models_are_shared_by_searches(files: PackedFiles, tmp_path: Path) -> None:
    one = model()
    for beam in (1, 2):
        assert files.keep(
            f"beam {beam}", "model", BeamSearch(BeamConfig(beam=beam)), request(one, beam), {"beam": beam}
        )
    assert len(list(tmp_path.rglob("*.bin"))) == 1
    assert [files.find(f"beam {beam}")[0]["beam"] for beam in (1, 2)] == [1, 2]  # type: ignore[index]


@pytest.mark.parametrize("contents", [b"[]", b"null", b"{}", b'{"format": 1}', b"not JSON"])
def test_files_of_other_contents_are_no_error(contents: bytes, files: PackedFiles, tmp_path: Path) -> None:
    one, search = model(), BeamSearch(BeamConfig(max_len_b=4))
    known = packed(files, search, one)
    for file in sorted(tmp_path.rglob("packed/*")):
        body = contents + b"\n"
        file.write_bytes(sha256(body).hexdigest().encode() + body)
        assert files.find("search") is None
        assert packed(files, search, one) == known
    for file in sorted(tmp_path.rglob("packed/*")):
        file.unlink()
        os.mkfifo(file, 0o600)
        assert files.find("search") is None
        file.unlink()
        assert packed(files, search, one) == known


def test_damaged_files_are_written_again(files: PackedFiles, tmp_path: Path) -> None:
    one, search = model(), BeamSearch(BeamConfig(max_len_b=4))
    known = packed(files, search, one)
    for file in sorted(tmp_path.rglob("packed/*")):
        whole = file.read_bytes()
        for damaged in (
            whole[: len(whole) // 2],
            whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
            b"",
            b"{}\n",
            b"\xff",
        ):
            file.write_bytes(damaged)
            assert files.find("search") is None
            assert packed(files, search, one) == known


def test_files_that_others_can_have_written_are_not_read(files: PackedFiles, tmp_path: Path) -> None:
    assert files.keep("search", "model", BeamSearch(BeamConfig()), request(model(), 1), {})
    for path in (*tmp_path.rglob("packed/*"), tmp_path / "s2s" / "packed", tmp_path / "s2s"):
        mode = path.stat().st_mode
        path.chmod(mode | 0o020)
        assert files.find("search") is None
        path.chmod(mode)
        assert files.find("search")


def test_those_used_least_recently_are_removed(
    files: PackedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, search = model(), BeamSearch(BeamConfig())
    for i in range(3):
        assert files.keep(f"search {i}", f"model {i}", search, request(one, 1), {})
        for path in tmp_path.rglob(f"*{i}.*"):
            os.utime(path, (i, i))
    assert files.find("search 0")
    monkeypatch.setattr(packed_files, "MOST_BYTES", int(2.5 * next(tmp_path.rglob("*.bin")).stat().st_size))
    assert files.keep("search 3", "model 3", search, request(one, 1), {})
    assert [bool(files.find(f"search {i}")) for i in range(4)] == [True, False, False, True]


def test_a_model_that_would_be_removed_at_once_is_not_written(
    files: PackedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_files, "MOST_BYTES", 20_000)
    assert not files.keep("search", "model", BeamSearch(BeamConfig()), request(model(), 1), {})
    assert not list(tmp_path.rglob("packed/*"))


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    files = PackedFiles(Choice())
    assert not files.keep("search", "model", BeamSearch(BeamConfig()), request(model(), 1), {})
    assert files.find("search") is None
