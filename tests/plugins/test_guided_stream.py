"""The search in C of models with a guide, words from parts, labels and recurrent layers, against encoder and single
steps by torch: outputs have the same tokens, and numbers differ by rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.arch_checks import plugins
from harness.monotonic_guide import guided
from harness.packed_models import needs_bytes, recorded_stream_calls
from harness.search_calls import StepByStep, find_queued
from s2s import Choice, Vocab, make_batch
from s2s.backend import fused
from s2s.backend.linear import prepack
from s2s.decoding import BeamConfig, BeamSearch, SampleConfig, SearchRequest, SourceSentence
from s2s.decoding.queue import FixedQueue
from s2s.generation.source_labels import word_labels
from s2s.nn import SourceWords
from s2s_cpu.library import native_library
from s2s_cpu.packed_files import PackedFiles
from s2s_cpu.prepacked import Fp32Linear, has_linear
from s2s_cpu.recurrent_layers import accepts_cells
from s2s_parsing.linear import Action, Kind
from s2s_parsing.stack_guide import StackGuide
from s2s_recurrent import RNNConfig
from s2s_search.sampling import Sampling
from s2s_transformer import TransformerConfig

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.decoding import Hypothesis, Search
    from s2s.model import Seq2Seq

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
]

ACTIONS = [
    *[None] * 4,
    Action(Kind.WORD),
    *(Action(kind, label) for kind in (Kind.OPEN, Kind.PROJECT) for label in "AB"),
    *(Action(kind) for kind in (Kind.CLOSE, Kind.WORD)),
]
N_SOURCE, N_LABELS = 30, 3
SMALL: dict[str, Any] = {"d_model": 16, "dropout": 0.0, "n_encoder_layers": 1, "n_decoder_layers": 1}
POINTERS: dict[str, Any] = {**SMALL, "attention": "none", "readout": "none", "guide": "stack", "words": "pooled"}
TRANSFORMER: dict[str, Any] = {**SMALL, "n_heads": 2, "d_ff": 24, "share_embeddings": "none"}
MODELS = {
    "both ways": RNNConfig(**POINTERS, directions="bidirectional", d_embedding=24),
    "two layers": RNNConfig(**POINTERS | {"n_encoder_layers": 2, "n_decoder_layers": 2}, directions="bidirectional"),
    "the first both ways": RNNConfig(**POINTERS | {"n_encoder_layers": 3}, directions="first", d_embedding=48),
    "one way": RNNConfig(**POINTERS, directions="forward", d_embedding=8),
    "words alone": RNNConfig(**POINTERS | {"guide": "words"}, directions="bidirectional"),
    "tokens": RNNConfig(**POINTERS | {"words": "tokens"}, directions="bidirectional"),
    "labels": RNNConfig(**POINTERS, directions="bidirectional", label_loss=0.5),
    "Transformer": TransformerConfig(**TRANSFORMER, guide="stack", words="pooled"),
    "Transformer, tokens": TransformerConfig(**TRANSFORMER, guide="stack", norm="pre", zero_start=True),
    "Transformer, words alone": TransformerConfig(**TRANSFORMER, guide="words", scale_output=True),
    "Transformer without a guide": TransformerConfig(**TRANSFORMER, words="pooled", label_loss=0.5),
}
"""By what is special about each"""


def vocab(depth: int = 2) -> Vocab:
    """Every third source token begins a word; the last ones are labels. Brackets beyond a depth are forgotten."""
    begins = [i % 3 == 0 and i < N_SOURCE - N_LABELS for i in range(N_SOURCE)]
    labels = range(N_SOURCE - N_LABELS, N_SOURCE)
    guide = StackGuide(ACTIONS, depth)
    return Vocab(src=N_SOURCE, tgt=len(ACTIONS), word_begins=begins, labels=labels, guide=guide)


def build(name: str, of: Vocab | None = None, quantization: Any = "none") -> Seq2Seq:
    """Packed for functions in C, with weights that are not those of an untrained model."""
    torch.manual_seed(2)
    of, config = of or vocab(), MODELS[name]
    one: Seq2Seq = (
        plugins()
        .registry.get("arch", "rnn" if isinstance(config, RNNConfig) else "transformer")
        .build(config, of)
        .eval()
    )
    for parameter in one.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    prepack(one, "native", quantization)
    return one


def sources(n: int = 9) -> list[list[int]]:
    """Of different lengths, each with eos; some of their words have parts, and some parts are labels."""
    draw = torch.Generator().manual_seed(4)
    lengths = torch.randint(1, 14, (n,), generator=draw).tolist()
    rows = [torch.randint(4, N_SOURCE - N_LABELS, (length,), generator=draw).tolist() for length in lengths]
    with_labels = [[*row[:2], N_SOURCE - 1 - i % N_LABELS, *row[2:]] for i, row in enumerate(rows)]
    return [[*(row if i % 2 else some), 3] for i, (row, some) in enumerate(zip(rows, with_labels, strict=True))]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return recorded_stream_calls(monkeypatch)


def outputs(search: Search, one: Seq2Seq, of: Vocab | None = None, **options: Any) -> list[list[Hypothesis]]:
    """Sentences leave and others take their places, since there is room for a part of them."""
    queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(sources())), 30)
    return find_queued(search, one, queue, of or vocab(), **({"nbest": 3} | options))


def assert_alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]], atol: float = 2e-5) -> None:
    assert [[one.tokens for one in some] for some in found] == [[one.tokens for one in some] for some in expected]
    for one, other in zip((h for some in found for h in some), (h for some in expected for h in some), strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=atol)
        assert one.score == pytest.approx(other.score, abs=10 * atol)


CONFIG = BeamConfig(beam=3, max_len_a=1.0, max_len_b=12)


@pytest.mark.parametrize("name", MODELS)
def test_a_stream_finds_what_single_steps_by_torch_find(name: str, calls: list[str], monkeypatch: Any) -> None:
    one = build(name)
    found = outputs(BeamSearch(CONFIG), one)
    assert calls[:3] == ["new", "admit", "run"]
    monkeypatch.setattr(one, "stream_search", lambda: None)
    calls.clear()
    expected = outputs(StepByStep(CONFIG), one)
    assert not calls
    assert_alike(found, expected)
    assert len({token for some in found for h in some for token in h.tokens}) > 1, "outputs are of one token alone"


@pytest.mark.parametrize(("quantization", "atol"), [("bf16", 0.02), pytest.param("int8", 0.02, marks=needs_bytes)])
@pytest.mark.parametrize("name", ["both ways", "Transformer"])
def test_weights_may_be_rounded(name: str, quantization: str, atol: float, calls: list[str], monkeypatch: Any) -> None:
    """What is rounded before a product may fall on the other side, so that outputs that are nearly as good differ."""
    one = build(name, quantization=quantization)
    found = outputs(BeamSearch(CONFIG), one)
    assert calls
    monkeypatch.setattr(one, "stream_search", lambda: None)
    for some, others in zip(found, outputs(StepByStep(CONFIG), one), strict=True):
        assert [h.score for h in some] == pytest.approx([h.score for h in others], abs=10 * atol)


@pytest.mark.parametrize("depth", [0, 1, 5])
@pytest.mark.parametrize("name", ["both ways", "Transformer"])
def test_brackets_beyond_the_depth_are_forgotten(name: str, depth: int, calls: list[str], monkeypatch: Any) -> None:
    of = vocab(depth)
    one = build(name, of)
    found = outputs(BeamSearch(CONFIG), one, of)
    assert calls
    monkeypatch.setattr(one, "stream_search", lambda: None)
    assert_alike(found, outputs(StepByStep(CONFIG), one, of))


@pytest.mark.parametrize("name", ["both ways", "two layers", "Transformer"])
def test_sentences_do_not_depend_on_their_neighbours(name: str) -> None:
    one, search = build(name), BeamSearch(CONFIG)
    alone = [find_queued(search, one, FixedQueue([SourceSentence(0, row)], 30), vocab(), nbest=3) for row in sources()]
    assert outputs(search, one) == [found[0] for found in alone]


@pytest.mark.parametrize("name", ["both ways", "two layers", "Transformer"])
def test_samples_follow_their_own_guide(name: str, calls: list[str], monkeypatch: Any) -> None:
    one, search = build(name), Sampling(SampleConfig(max_len_a=0.0, max_len_b=15))
    found = outputs(search, one)
    assert "run" in calls
    monkeypatch.setattr(one, "stream_search", lambda: None)
    assert_alike(found, outputs(search, one))


@pytest.mark.parametrize("name", ["both ways", "Transformer"])
def test_the_guide_follows_all_starting_tokens(name: str, calls: list[str], monkeypatch: Any) -> None:
    """Those of a sentence may be any tokens, also ones that open brackets."""
    one, starts = build(name), [(2, 7, 4), (4, 9), (2,), (6, 6, 4)]
    sentences = [SourceSentence(i, row, starting_tokens=starts[i % 4]) for i, row in enumerate(sources())]

    def found(search: Search, nbest: int) -> list[list[Hypothesis]]:
        return find_queued(search, one, FixedQueue(sentences, 30), vocab(), nbest=nbest)

    sampling = Sampling(SampleConfig(max_len_a=0.0, max_len_b=15))
    streamed, drawn = found(BeamSearch(CONFIG), 3), found(sampling, 1)
    assert "run" in calls
    monkeypatch.setattr(one, "stream_search", lambda: None)
    assert_alike(streamed, found(StepByStep(CONFIG), 3))
    assert_alike(drawn, found(sampling, 1))


def cells(width: int, n_inputs: int) -> fused.RecurrentCell:
    return fused.RecurrentCell(*(Fp32Linear(torch.randn(4 * width, n), None) for n in (n_inputs, width)))


def test_cells_of_other_widths_are_not_accepted() -> None:
    """Functions in C would write outside of their memory."""
    embedding = torch.zeros(9, 24)
    assert accepts_cells([[cells(16, 24), cells(16, 24)]], embedding)
    layers = [[cells(16, 24)], [cells(16, 24)]]
    for wrong in ([[cells(16, 24), cells(64, 24)]], layers, [[cells(8, 24)]], [[cells(16, 8)]]):
        assert not accepts_cells(wrong, embedding)
    assert accepts_cells([[cells(32, 24)], [cells(32, 32)]], embedding, 32)
    assert not accepts_cells([[cells(64, 24)], [cells(32, 64)]], embedding, 32)


@pytest.mark.parametrize("begins", ["as they are", "every token"])
def test_a_network_labels_the_same_words(begins: str) -> None:
    """Also where no token begins the first word, or each token is a word."""
    of = vocab() if begins == "as they are" else replace(vocab(), word_begins=())
    one = build("labels", of)
    unlabelled = [row for row in sources() if max(row) < of.labels.start]
    rows = [[5, 7, 3], [5, 7, 6, 3], [6, 3], [3], *(unlabelled if begins == "every token" else sources())]
    queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(rows)), 30)
    found = [some[0].source_labels for some in find_queued(BeamSearch(CONFIG), one, queue, of)]
    assert found == word_labels([row[:-1] for row in rows], one, SourceWords(of), 20)


@pytest.mark.parametrize("name", ["labels", "Transformer without a guide"])
def test_each_word_has_its_most_probable_label(name: str) -> None:
    one, of = build(name), vocab()
    labels = set()
    for row, found in zip(sources(), outputs(BeamSearch(CONFIG), one), strict=True):
        batch = make_batch([(row[:-1], [])], of)
        with torch.no_grad():
            expected = one.label_logits(batch.src, batch.src_pad)
        assert expected is not None
        assert {tuple(h.source_labels or []) for h in found} == {tuple(expected[0].argmax(-1).tolist()[:-1])}
        labels.update(found[0].source_labels or [])
    assert len(labels) > 1, "else all words have the same"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [CONFIG, SampleConfig(max_len_a=0.0, max_len_b=15)], ids=["beam", "sample"])
def test_a_packed_model_finds_the_same_bits(name: str, options: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, of, kept = build(name), vocab(), PackedFiles(Choice())
    sentences = [SourceSentence(i, row) for i, row in enumerate(sources())]
    request = SearchRequest(model=one, vocab=of, queue=FixedQueue([], 1), device=torch.device("cpu"), nbest=3)
    assert kept.keep("key", request, {})
    _, model = kept.find("key")  # type: ignore[misc]  # it is there
    packed = model.search(options, of, 3, constrained=False, listed=False)
    assert packed
    assert all(packed.accepts(sentence) for sentence in sentences)
    results = (one for some in packed(FixedQueue(sentences, 30)) for one in some)
    found = {result.index: result.hypotheses[:3] for result in results}
    search = BeamSearch(options) if isinstance(options, BeamConfig) else Sampling(options)
    assert [found[i] for i in range(len(sentences))] == outputs(search, one)


def test_a_packed_model_without_positions_takes_sources_of_any_length(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, of, kept = build("both ways"), vocab(), PackedFiles(Choice())
    request = SearchRequest(model=one, vocab=of, queue=FixedQueue([], 1), device=torch.device("cpu"))
    assert kept.keep("key", request, {})
    packed = kept.find("key")[1].search(CONFIG, of, 1, constrained=False, listed=False)  # type: ignore[index]
    assert packed
    long = SourceSentence(0, [6, 7] * 2000 + [3])
    assert packed.accepts(long)
    ((found,),) = (list(some) for some in packed(FixedQueue([long], 30)) if list(some))
    assert [found.hypotheses[:1]] == find_queued(BeamSearch(CONFIG), one, FixedQueue([long], 30), of)


@pytest.mark.parametrize("name", ["words alone", "Transformer, words alone"])
def test_a_guide_of_another_kind_is_asked_step_by_step(name: str, calls: list[str]) -> None:
    """A third party's, which says nothing of labels."""
    of = guided(Vocab(src=N_SOURCE, tgt=len(ACTIONS)))
    assert outputs(BeamSearch(CONFIG), build(name, of), of)
    assert not calls


CHANGES: Sequence[dict[str, Any]] = [
    {"attention": "additive"},
    {"residual_from": 1, "d_embedding": 16, "directions": "forward"},
    {"cell": "gru"},
    {"d_projection": 16},
    {"n_groups": 2},
    {"d_factor": 8},
    {"directions": "interleaved"},
    {"reverse_source": True},
    {"start": "tanh"},
    {"d_model": 24},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_other_recurrent_models_are_computed_by_torch(
    change: dict[str, Any], calls: list[str], monkeypatch: Any
) -> None:
    monkeypatch.setitem(MODELS, "other", RNNConfig(**POINTERS | {"directions": "bidirectional"} | change))
    assert outputs(BeamSearch(CONFIG), build("other"))
    assert not calls


def test_hooks_of_a_recurrent_model_are_called(calls: list[str]) -> None:
    one = build("both ways")
    seen = list[object]()
    one.decoder.register_forward_hook(lambda *_: seen.append(None))  # type: ignore[union-attr, operator]
    one.encoder.register_forward_hook(lambda *_: seen.append(None))  # type: ignore[union-attr, operator]
    assert outputs(BeamSearch(CONFIG), one)
    assert seen
    assert not calls


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("labels", [0], "11 labels and effects"),
        ("effects", ["takes"] * 12, "11 labels and effects"),
        ("labels", [9] * 11, "from 0 to 3"),
        ("depth", -1, "not be below 0"),
        ("kinds", (4, 4, 4), "labels of 3 items"),
        ("kinds", (4, 5, 3, 2), "labels of 3 items"),
        ("effects", ["eats"] * 11, "not known: eats"),
        ("n_places", 4, "5 places"),
    ],
)
def test_impossible_tables_of_a_guide_are_refused(name: str, value: Any, message: str) -> None:
    of = vocab()
    one = build("both ways", of)
    setattr(of.guide, name, value)
    with pytest.raises(ValueError, match=message):
        one.stream_search()  # type: ignore[attr-defined]
