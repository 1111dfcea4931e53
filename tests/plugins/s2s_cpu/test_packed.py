"""Searches with a model in a file, against those of the model that it was made of."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.packed_models import SEARCH_OPTIONS, VARIANTS, model, needs_bytes, shortlist, source_rows
from harness.search_calls import StepByStep, find_queued
from harness.tree_texts import EOS, START, small
from s2s import Choice, ConfigError
from s2s.decoding import (
    BeamConfig,
    BeamSearch,
    ConstraintSet,
    GreedyConfig,
    SampleConfig,
    SearchRequest,
    SourceSentence,
)
from s2s.decoding.queue import FixedQueue
from s2s.decoding.token_constraints import MinLength
from s2s_cpu import packed_files, packed_model
from s2s_cpu.library import native_library
from s2s_cpu.packed_files import PackedFiles
from s2s_cpu.prepacked import has_linear
from s2s_parsing.linear import FORMS
from s2s_search.sampling import Sampling
from s2s_testing import VOCAB

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.decoding import Hypothesis
    from s2s.model import Seq2Seq
    from s2s.task import Vocab

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
]
OPTIONS: list[dict[str, Any]] = [
    *SEARCH_OPTIONS,
    *({"beam": beam} for beam in (2, 3, 5, 8, VOCAB.tgt, VOCAB.tgt + 9)),
    *(
        {"alpha": alpha, "length_penalty": kind}
        for alpha in (-1.0, 0.3, 1.0, 1.7)
        for kind in ("gnmt", "power", "none")
    ),
    *({"stop": stop, "beam": 3, "alpha": 1.3} for stop in ("best", "exact", "first_k", "heuristic")),
    {"length_penalty": "power", "alpha": 1.0, "length_offset": 3},
    {"temperature": 1.9},
    {"renormalize": True, "ban_unk": True},
    {"renormalize": True, "temperature": 0.3},
    {"max_len_a": 0.4, "max_len_b": 2},
    *({"min_len": n, "stop": stop} for n in (1, 5, 40) for stop in ("best", "first_k")),
    {"min_len": 4, "temperature": 0.3, "ban_unk": True, "beam": VOCAB.tgt},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2, "min_len": 5, "repetition_penalty": 1.3},
    *({"repetition_penalty": p, "temperature": 0.7} for p in (0.5, 1.8)),
    {"repetition_penalty": 1.5, "renormalize": True},
]
"""Of beam search; every option that functions in C can follow has several values"""
SAMPLING_OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3},
    {"temperature": 2.5, "seed": 7},
    {"top_k": 3},
    {"top_p": 0.6},
    {"top_k": 5, "top_p": 0.8, "temperature": 1.4, "ban_unk": True},
    {"max_len_a": 0.0, "max_len_b": 2},
    *({"min_len": n, "top_k": 2} for n in (1, 5, 40)),
    {"no_repeat_ngram_size": 2, "repetition_penalty": 1.6},
]
SENTENCES = [SourceSentence(i, row) for i, row in enumerate(source_rows(9))]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackedFiles:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return PackedFiles(Choice())


def request(one: Seq2Seq, **options: Any) -> SearchRequest:
    options = {"vocab": VOCAB, **options}
    return SearchRequest(model=one, queue=FixedQueue([], 1), device=torch.device("cpu"), **options)


def opened(files: PackedFiles, options: Any, nbest: int = 1, vocab: Vocab = VOCAB, *, listed: bool = True) -> Any:
    """The search that options describe, of the model that was kept; None: there is none."""
    found = files.find("model")
    return found and found[1].search(options, vocab, nbest, constrained=True, listed=listed)


def outputs(search: Any, sentences: list[SourceSentence] = SENTENCES) -> list[list[Hypothesis]]:
    assert all(map(search.accepts, sentences))
    results = [result for some in search(FixedQueue(sentences, 20)) for result in some]
    return [result.hypotheses for result in sorted(results, key=lambda result: result.index)]


def packed(
    files: PackedFiles, options: BeamConfig, one: Seq2Seq, sentences: list[SourceSentence] = SENTENCES, **others: Any
) -> list[list[Hypothesis]]:
    assert files.keep("model", request(one, **others), {"of": "this test"})
    found = files.find("model")
    assert found
    assert found[0] == {"of": "this test"}
    return outputs(opened(files, options, options.beam), sentences)


def expected(options: BeamConfig, one: Seq2Seq, **others: Any) -> list[list[Hypothesis]]:
    others = {"nbest": options.beam, **others}
    return find_queued(StepByStep(options), one, FixedQueue(SENTENCES, 1000), VOCAB, **others)


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {"BART"}))
def test_outputs_are_those_of_the_model(name: str, files: PackedFiles) -> None:
    one, options = model(**VARIANTS[name]), BeamConfig(beam=3, max_len_b=4)
    assert packed(files, options, one) == expected(options, one)


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
def test_one_file_serves_all_options(quantization: Any, files: PackedFiles, tmp_path: Path) -> None:
    """Also those of greedy search; their outputs differ."""
    one, found = model(quantization, d_model=64), []
    assert files.keep("model", request(one), {})
    every = [BeamConfig(**({"max_len_b": 4} | options)) for options in OPTIONS]
    for options in (*every, GreedyConfig(max_len_b=4).as_beam()):
        found.append(outputs(opened(files, options, options.beam)))
        assert found[-1] == expected(options, one), options
    assert len({repr(one) for one in found}) > len(found) // 2
    assert len(list(tmp_path.rglob("packed/*"))) == 2


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
def test_sampling_options_are_read_from_the_same_file(quantization: Any, files: PackedFiles) -> None:
    one = model(quantization, d_model=64)
    assert files.keep("model", request(one), {})
    for others in SAMPLING_OPTIONS:
        options = SampleConfig(**({"max_len_b": 4} | others))
        whole = find_queued(Sampling(options), one, FixedQueue(SENTENCES, 1000), VOCAB, nbest=3)
        assert outputs(opened(files, options, 3)) == whole, options


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
@pytest.mark.parametrize("options", SEARCH_OPTIONS, ids=str)
def test_a_shortlist_is_kept_and_may_be_left_out(
    options: dict[str, Any], quantization: Any, files: PackedFiles
) -> None:
    one, lists = model(quantization, d_model=48), shortlist()
    config = BeamConfig(**({"max_len_b": 4} | options))
    found = packed(files, config, one, shortlist=lists)
    assert found == expected(config, one, shortlist=lists)
    assert found != expected(config, one)
    assert outputs(opened(files, config, config.beam, listed=False)) == expected(config, one)


def test_a_sentence_may_want_fewer_outputs_than_others(files: PackedFiles) -> None:
    one, options = model(), BeamConfig(max_len_b=4)
    sentences = [replace(sentence, nbest=1 + sentence.index % 4) for sentence in SENTENCES]
    found = packed(files, options, one, sentences)
    for sentence, hypotheses in zip(sentences, found, strict=True):
        queue = FixedQueue([replace(sentence, index=0)], 1000)
        assert [hypotheses] == find_queued(StepByStep(options), one, queue, VOCAB, nbest=sentence.nbest)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_sentence_may_have_starting_tokens_of_its_own(n: int, files: PackedFiles) -> None:
    one, options = model(positions="learned", max_positions=20), BeamConfig(max_len_a=0.0, max_len_b=50)
    sentences = [
        replace(sentence, starting_tokens=(5 + sentence.index, 4, 6, 4, 8, 5, 9)[:n]) for sentence in SENTENCES
    ]
    found = packed(files, options, one, sentences)
    assert found == find_queued(StepByStep(options), one, FixedQueue(sentences, 1000), VOCAB, nbest=4)
    assert found != expected(options, one)


@pytest.mark.parametrize("name", FORMS)
def test_trees_are_those_of_the_model(name: str, files: PackedFiles) -> None:
    written = small(FORMS[name]())
    one, constraint = model(vocab=written.vocab, d_model=16, share_embeddings="none"), written.constraint(6, 3)
    rows = [[START] * n + [EOS] for n in range(12)]
    assert files.keep("model", request(one, constraint=constraint, vocab=written.vocab), {})
    for beam, max_len, min_len in ((1, 40, 0), (4, 9, 0), (13, 14, 0), (4, 14, 12), (1, 9, 40)):
        options = BeamConfig(beam=beam, max_len_a=0.0, max_len_b=max_len, min_len=min_len)
        search = opened(files, options, beam, written.vocab)
        possible = [one for one in (SourceSentence(i, row) for i, row in enumerate(rows)) if search.accepts(one)]
        assert [sentence.index for sentence in possible] == [n for n in range(12) if 0 < n <= max_len]
        results = {result.index: result.hypotheses for some in search(FixedQueue(possible, 20)) for result in some}
        every = FixedQueue([SourceSentence(i, row) for i, row in enumerate(rows)], 1000)
        steps = find_queued(StepByStep(options), one, every, written.vocab, nbest=beam, constraint=constraint)
        assert results == {sentence.index: steps[sentence.index] for sentence in possible}
        assert all(results.values()) or min_len, "few words make no long tree"
        assert any(results.values()) or min_len > max_len
        assert all(len(one.tokens) >= min(min_len, max_len) for found in results.values() for one in found)


def test_a_model_whose_constraint_has_impossible_tables_is_not_kept(
    files: PackedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no error of a search that is not constrained, whose output may have been written already."""
    written = small(FORMS["released"]())
    one, constraint = model(vocab=written.vocab, d_model=16, share_embeddings="none"), written.constraint(6, 3)
    tables = constraint.automaton()
    impossible = tables._replace(label=tables.label + len(tables.allowed))
    monkeypatch.setattr(constraint, "automaton", lambda: impossible)
    assert not files.keep("model", request(one, constraint=constraint, vocab=written.vocab), {})


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
    assert files.keep("model", request(one), {})
    search = opened(files, BeamConfig(max_len_b=4))
    assert not search.accepts(sentence)
    assert search.accepts(SourceSentence(0, [5] * 15 + [VOCAB.eos]))


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
def test_a_minimum_length_has_all_tokens_where_there_is_a_shortlist(quantization: Any, files: PackedFiles) -> None:
    one, options = model(quantization, d_model=48), BeamConfig(max_len_b=4, min_len=6)
    found = packed(files, options, one, shortlist=shortlist())
    assert found == expected(options, one, shortlist=shortlist()) == expected(options, one)
    assert all(len(output.tokens) >= 5 for outputs in found for output in outputs), "5: the least limit"


@pytest.mark.parametrize("options", [{"min_len": 2}, {"no_repeat_ngram_size": 2}], ids=str)
def test_renormalized_probabilities_of_some_tokens_are_left_to_the_model(options: Any, files: PackedFiles) -> None:
    assert files.keep("model", request(model()), {})
    assert opened(files, BeamConfig(renormalize=True, **options)) is None


def test_a_constraint_that_is_not_tables_alone_is_left_to_the_model(files: PackedFiles) -> None:
    at_least = ConstraintSet(None, [MinLength(3, VOCAB.tgt, VOCAB.eos)])
    assert files.keep("model", request(model(), constraint=at_least), {})
    assert opened(files, BeamConfig()) is None
    found = files.find("model")
    assert found
    assert found[1].search(BeamConfig(), VOCAB, 1, constrained=False, listed=True)


def test_more_outputs_than_the_beam_holds_are_the_error_of_the_model(files: PackedFiles) -> None:
    one = model()
    assert files.keep("model", request(one), {})
    messages = []
    for search in (
        opened(files, BeamConfig(beam=2), 3),
        lambda _: BeamSearch(BeamConfig(beam=2))(request(one, nbest=3)),
    ):
        with pytest.raises(ConfigError) as error:
            list(search(FixedQueue(SENTENCES, 20)))
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert "nbest=3" in messages[0]


def test_a_model_of_more_than_functions_is_not_kept(files: PackedFiles) -> None:
    assert not files.keep("model", request(model(**VARIANTS["BART"])), {})
    assert files.find("model") is None


def test_one_model_under_several_keys_has_one_file(files: PackedFiles, tmp_path: Path) -> None:
    for key in ("quantization=auto", "quantization=none"):
        assert files.keep(key, request(model()), {"of": key})
    assert len(list(tmp_path.rglob("packed/*.bin"))) == 1
    assert [files.find(key)[0]["of"] for key in ("quantization=auto", "quantization=none")] == [  # type: ignore[index]
        "quantization=auto",
        "quantization=none",
    ]


@pytest.mark.parametrize("contents", [b"[]", b"null", b"{}", b'{"format": 1}', b"not JSON"])
def test_files_of_other_contents_are_no_error(contents: bytes, files: PackedFiles, tmp_path: Path) -> None:
    one, options = model(), BeamConfig(max_len_b=4)
    known = packed(files, options, one)
    for file in sorted(tmp_path.rglob("packed/*")):
        body = contents + b"\n"
        file.write_bytes(sha256(body).hexdigest().encode() + body)
        assert opened(files, options) is None
        assert packed(files, options, one) == known
    for file in sorted(tmp_path.rglob("packed/*")):
        file.unlink()
        os.mkfifo(file, 0o600)
        assert opened(files, options) is None
        file.unlink()
        assert packed(files, options, one) == known


def test_damaged_files_are_not_found_again(files: PackedFiles, tmp_path: Path) -> None:
    one, options = model(), BeamConfig(max_len_b=4)
    known = packed(files, options, one)
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
            assert opened(files, options) is None
            assert files.find("model") is None
            assert packed(files, options, one) == known


def test_a_model_for_which_memory_lacks_stays(
    files: PackedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mmap(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    options = BeamConfig(max_len_b=4)
    packed(files, options, model())
    with monkeypatch.context() as patch:
        patch.setattr(packed_model.mmap, "mmap", mmap)
        assert opened(files, options) is None
    assert opened(files, options)


def test_files_that_others_can_have_written_are_not_read(files: PackedFiles, tmp_path: Path) -> None:
    assert files.keep("model", request(model()), {})
    for path in (*tmp_path.rglob("packed/*"), tmp_path / "s2s" / "packed", tmp_path / "s2s"):
        mode = path.stat().st_mode
        path.chmod(mode | 0o020)
        assert files.find("model") is None
        path.chmod(mode)
        assert files.find("model")


def test_those_used_least_recently_are_removed(
    files: PackedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [model(d_ff=48 + 8 * i) for i in range(4)]
    for i in range(3):
        before = set(tmp_path.rglob("packed/*"))
        assert files.keep(f"model {i}", request(models[i]), {})
        for path in set(tmp_path.rglob("packed/*")) - before:
            os.utime(path, (i, i))
    assert files.find("model 0")
    monkeypatch.setattr(packed_files, "MOST_BYTES", int(2.5 * next(tmp_path.rglob("*.bin")).stat().st_size))
    assert files.keep("model 3", request(models[3]), {})
    assert [bool(files.find(f"model {i}")) for i in range(4)] == [True, False, False, True]


def test_a_model_that_would_be_removed_at_once_is_not_written(
    files: PackedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_files, "MOST_BYTES", 20_000)
    assert not files.keep("model", request(model()), {})
    assert not list(tmp_path.rglob("packed/*"))


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    files = PackedFiles(Choice())
    assert not files.keep("model", request(model()), {})
    assert files.find("model") is None
