"""Outputs come in the order of the inputs, whatever the batches, and the model is left as it was."""

from __future__ import annotations

import logging
import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from harness.capital_tasks import Capitals
from harness.full_stops import FullStops
from harness.generators import generator_of
from harness.search_calls import find
from harness.shipped_plugins import generate_config, shipped
from harness.table_model import Table
from s2s.config import GenerateConfig
from s2s.decoding import BeamConfig, Hypothesis, SearchResult
from s2s.decoding.beam_search import BeamSearch
from s2s.errors import ConfigError, DataError, PluginError
from s2s.generation import Input
from s2s.generation.searching import Searcher
from s2s.generation.text_layout import TextLayout
from s2s.model import Memory, Seq2Seq
from s2s.task import Encoded, Example

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.decoding import SearchRequest
    from s2s.generation.generator import Generator


class Copy(Seq2Seq):
    """Says again what it reads, or, in training mode, the same letter for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(20.0))
        self.inner, self.frozen = nn.Dropout(0.5), nn.Dropout(0.5).eval()
        self.batches: list[int] = []

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        self.batches.append(len(src))
        return Memory(hidden=src, pad=pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        src = memory.hidden
        src = torch.cat([src, torch.full((len(src), 64), 3)], dim=1)[:, : tgt.size(1)]
        seen = torch.where(src == 0, 3, src)
        return self.scale * nn.functional.one_hot(seen * 0 + 4 if self.training else seen, 30).float()


@pytest.fixture
def model() -> Copy:
    return Copy()


def generator(model: Seq2Seq, task: Capitals | None = None, **options: Any) -> Generator:
    search, config = BeamSearch(BeamConfig()), generate_config(**options)
    return generator_of(model, task or Capitals(), search, config, shipped())


def words(n: int, longest: int = 12, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices("abcxyz ", k=draw.randint(0, longest))) for _ in range(n)]


def capitals(line: str) -> str:
    return line.replace(" ", "").upper()


@pytest.mark.parametrize("window", [1, 7, 1000])
@pytest.mark.parametrize("tokens", [1, 30, 4000])
def test_outputs_come_in_the_order_of_the_inputs(model: Copy, window: int, tokens: int) -> None:
    lines = words(60)
    found = list(generator(model, buffer_size=window, tokens=tokens)(lines))
    assert [output.src for output in found] == lines
    assert [output.hyp for output in found] == [capitals(line) for line in lines]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (lambda results: [r for r in results if r.index != 1], "gave no result for 1 sentences: index 1"),
        (lambda results: [*results, *results], "gave two results for a sentence, or one for none: index [01]"),
        (lambda results: [replace(r, index=7) for r in results], "gave two results .*, or one for none: index 7"),
    ],
    ids=["none", "two", "another"],
)
def test_a_search_gives_one_result_for_each_sentence(model: Copy, changed: Any, error: str) -> None:
    class Other(BeamSearch):
        def __call__(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
            yield from map(changed, super().__call__(request))

    search, config = Other(BeamConfig()), generate_config()
    with pytest.raises(PluginError, match=f"^Other, or what processes its results, {error}"):
        list(generator_of(model, Capitals(), search, config, shipped())(["ab", "c"]))


def test_an_error_names_a_search_that_is_a_function(model: Copy) -> None:
    def own(request: SearchRequest) -> Iterator[list[SearchResult]]:
        for batch in request.batches():
            yield [SearchResult(one.index, [Hypothesis([4], math.nan, -1.0, [-1.0])]) for one in batch.sentences]

    with pytest.raises(PluginError, match=r"own, or what processes its results, gave an output of 'ab' .* NaN"):
        list(generator_of(model, Capitals(), own, generate_config(), shipped())(["ab"]))


def test_words_are_counted_where_tokens_are_their_parts(model: Copy) -> None:
    task = Capitals()
    list(generator(model, task, tokens=8)(["abc"] * 4))
    assert model.batches == [2, 2], "of four tokens each, eos among them"
    model.batches.clear()
    task.vocab = replace(task.vocab, word_begins=[i in (4, task.vocab.eos) for i in range(30)])
    list(generator(model, task, tokens=8)(["abc"] * 4))
    assert model.batches == [4], "of two words each"
    model.batches.clear()
    task.vocab = replace(task.vocab, word_begins=[False] * 30)
    list(generator(model, task, tokens=1)(["abc"] * 4))
    assert model.batches == [4], "parts of a single word, where none begins"


@pytest.mark.parametrize("line", ["", " ", "\t \u3000"])
def test_an_empty_line_gives_an_empty_output_without_a_search(model: Copy, line: str) -> None:
    found = list(generator(model)([line, "ab", line]))
    assert [(o.hyp, o.tokens) for o in found] == [("", []), ("AB", [4, 5]), ("", [])]
    assert found[0].score == 0.0
    assert model.batches == [1]


def test_only_as_much_is_read_as_the_window_holds(model: Copy) -> None:
    read = []

    def lines() -> Iterator[str]:
        for line in words(20):
            read.append(line)
            yield line

    outputs = generator(model, buffer_size=5)(lines())
    next(outputs)
    assert len(read) == 5


def test_an_output_is_given_as_soon_as_those_before_it_are_there(model: Copy) -> None:
    """The first line is the longest, so it is decoded first and need not wait for the others."""
    outputs = generator(model, tokens=5)(["abcd", "a", "b", "c"])
    assert next(outputs).hyp == "ABCD"
    assert len(model.batches) == 1


def test_the_model_comes_back_in_the_mode_it_was_in(model: Copy) -> None:
    """Module by module: one that is kept out of training stays out of it."""
    model.train()
    model.frozen.eval()
    assert next(generator(model)(["abc"])).hyp == "ABC"
    assert (model.training, model.inner.training, model.frozen.training) == (True, True, False)
    assert all(p.grad_fn is None and p.requires_grad for p in model.parameters())


def test_the_n_best_are_texts_best_first(model: Copy) -> None:
    output = next(generator(model, nbest=3)(["abc"]))
    assert output.nbest[0].hyp == output.hyp == "ABC"
    assert [c.score for c in output.nbest] == sorted((c.score for c in output.nbest), reverse=True)
    assert len({c.hyp for c in output.nbest}) == 3


def test_long_inputs_are_cut_with_one_warning_and_a_count(model: Copy, caplog: pytest.LogCaptureFixture) -> None:
    generate = generator(model, max_source=4)
    assert [o.hyp for o in generate(["abcd", "abc", "xyzab"])] == ["ABC", "ABC", "XYZ"]
    assert generate.counts.truncated == 2
    assert [r.getMessage()[:60] for r in caplog.records] == [
        "an input of 5 tokens is longer than the 4 allowed (max_sourc"
    ]


def test_the_models_own_limit_counts_too(model: Copy) -> None:
    model.max_len = 3
    assert next(generator(model)(["abcd"])).hyp == "AB"


def test_a_long_input_can_be_an_error_after_what_comes_before_it(model: Copy) -> None:
    outputs = generator(model, max_source=4, too_long="error")(["ab", "c", "abcdefg", "a"])
    assert [next(outputs).hyp, next(outputs).hyp] == ["AB", "C"]
    with pytest.raises(DataError, match=r"an input of 8 tokens is longer than the 4 allowed.*'abcdefg'"):
        next(outputs)


class Mute(Capitals):
    def constraint(self) -> Any:
        class Nothing:
            def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
                return src[:, :1, None]

            def allowed(self, state: Tensor) -> Tensor:
                return (state == 4).expand(-1, -1, 30)

            def advance(self, state: Tensor, token: Tensor) -> Tensor:
                return state

        return Nothing()


def test_an_input_without_any_possible_output_is_counted_and_stops_nothing(
    model: Copy, caplog: pytest.LogCaptureFixture
) -> None:
    """The constraint of this task lets only inputs that begin with an a have outputs."""
    generate = generator(model, Mute(), nbest=2)
    found = list(generate(["ab", "cd", "a", "x"]))
    assert [(o.hyp, len(o.nbest)) for o in found] == [("AB", 2), ("", 1), ("A", 2), ("", 1)]
    assert found[1].score == -math.inf
    assert generate.counts.unanswered == 2
    (record,) = caplog.records
    assert record.getMessage().startswith("no output within the length limit")
    assert "for 'cd': the task's constraint" in record.getMessage()


def test_counts_add_up(model: Copy) -> None:
    generate = generator(model)
    list(generate(["ab", "", "abc"]))
    counts = generate.counts
    assert (counts.inputs, counts.empty, counts.tokens) == (3, 1, 3 + 4)


def test_half_precision_is_taken_from_the_configuration() -> None:
    seen = []

    class Linear(Copy):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def encode(self, src: Tensor, pad: Tensor) -> Memory:
            seen.append(self.linear(torch.ones(1, 4)).dtype)
            return super().encode(src, pad)

    for precision in ("fp32", "bf16"):
        assert next(generator(Linear(), precision=precision)(["abc"])).hyp == "ABC"
    assert seen == [torch.float32, torch.bfloat16]


def test_how_many_symbols_there_are_at_once_follows_the_device_unless_it_is_said(model: Copy) -> None:
    """What is written of an output says the number, for outputs' last digits may depend on it."""
    assert generator(model).config.tokens == 1000
    assert generator(model, tokens=7).config.tokens == 7
    elsewhere = Searcher.build(model, Capitals(), BeamSearch(BeamConfig()), "meta", GenerateConfig())
    assert elsewhere.config.tokens == 4000


def test_options_of_plugins_are_at_their_defaults_where_none_are_given(model: Copy) -> None:
    alone = generator_of(model, Capitals(), BeamSearch(BeamConfig()))
    assert type(alone.config) is GenerateConfig
    among_plugins = generator_of(model, Capitals(), BeamSearch(BeamConfig()), plugins=shipped())
    assert among_plugins.config == generate_config(tokens=1000)


@pytest.mark.parametrize("option", ["nbest", "buffer_size", "max_source"])
def test_sizes_must_be_positive(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}=0 must be at least"):
        GenerateConfig(**{option: 0})


def test_workers_change_nothing(model: Copy) -> None:
    """The same outputs in the same order, to the last bit of their scores."""
    lines = words(50)
    alone, shared = (list(generator(model, workers=n, nbest=2, buffer_size=30)(lines)) for n in (1, 3))
    assert alone == shared
    assert len(model.batches) == 2  # the workers' batches were made elsewhere


def test_threads_change_nothing(model: Copy) -> None:
    lines = words(50)
    alone, shared = (list(generator(model, threads=n, nbest=2, buffer_size=30)(lines)) for n in (1, 3))
    assert alone == shared
    assert len(model.batches) == 2 + 3 + 2  # three threads, and two, since a thread is given eight sentences
    assert model.training


class Encoding(Capitals):
    """Encodes the texts of constraints, too."""

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(*self.encode_source([pair.src, pair.tgt])) for pair in examples]


def at_full_stops(generate: Generator) -> Generator:
    """The same generator, for texts whose sentences end at a full stop; they are split where they are too long."""
    generate.read.layout = TextLayout(lambda _: FullStops(), "text")
    return generate


def test_what_is_too_long_is_decoded_in_parts(model: Copy) -> None:
    generate = at_full_stops(generator(model, max_source=4, nbest=2))
    lines = ["ab.c", "abc.de. .x", "", "a.bcdefg.h", "ab.c.d"]
    found = list(generate(lines))
    assert [output.hyp for output in found] == ["ABC", "ABC.DE. .X", "", "A.BCD.H", "AB.C.D"]
    assert [output.src for output in found] == lines
    assert (generate.counts.split, generate.counts.truncated, generate.counts.inputs) == (3, 1, 5)
    list(generate(["abcde.abcde"]))
    assert generate.counts.truncated == 2  # of an input, however many of its parts
    alone = list(generator(model, nbest=2)(["abc", "de", "x"]))
    for k, candidate in enumerate(found[1].nbest):
        assert candidate.score == pytest.approx(sum(output.nbest[k].score for output in alone))
        assert candidate.tokens == [i for output in alone for i in output.nbest[k].tokens]
        assert candidate.log_probs == [p for output in alone for p in output.nbest[k].log_probs]
    again = at_full_stops(generator(model, max_source=4))
    assert again.counts.tokens == 0
    assert sum(len(output.best.log_probs) for output in again(lines)) == again.counts.tokens


def test_a_line_of_ten_thousand_symbols_is_no_trouble(model: Copy) -> None:
    words_of_it = words(3000, seed=1)
    (output,) = at_full_stops(generator(model))([".".join(words_of_it)])
    assert output.hyp.replace(" ", "") == ".".join(capitals(word) for word in words_of_it)


class Folded(Capitals):
    """Every second letter is shown as the letter before it, so that tokens differ where texts are equal."""

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return super().detokenize([i - i % 2 for i in ids], src)


@pytest.mark.parametrize("nbest", [1, 2, 5, 20])
def test_a_list_has_the_best_of_equal_texts_and_as_many_texts_as_the_search_has(nbest: int) -> None:
    """Against all outputs in the order of their scores, of a beam as wide as they are many."""
    task, beam = Folded(), 50
    task.vocab = replace(task.vocab, tgt=8)
    config = BeamConfig(beam=beam, max_len_a=0.0, max_len_b=2, alpha=0.0)
    table = Table(8, seed=1)
    src = torch.tensor([[4, 5, 3]])
    (every,) = find(BeamSearch(config), table, src, src == 0, task.vocab, nbest=beam)
    expected: dict[str, float] = {}
    for one in every:
        expected.setdefault(task.detokenize(one.tokens, ""), one.score)
    assert len(expected) < len(every)
    generate = generator_of(table, task, BeamSearch(config), generate_config(nbest=nbest), shipped())
    (output,) = generate(["ab"])
    assert [c.hyp for c in output.nbest] == list(expected)[:nbest]
    assert [c.score for c in output.nbest] == pytest.approx(list(expected.values())[:nbest])


def test_what_is_asked_of_an_output_is_kept(model: Copy) -> None:
    inputs = [
        Input("abc", prefix="xa"),
        "abc",
        Input("abc", phrases=("zz", "y")),
        Input("abc", prefix="c", phrases=("q",)),
    ]
    search = BeamSearch(BeamConfig(min_len=2))
    asked = generator_of(model, Encoding(), search, generate_config(), shipped())
    first, second, third, fourth = (output.hyp for output in asked(inputs))
    assert first.startswith("XA")
    assert second == "ABC"
    assert "ZZ" in third
    assert "Y" in third
    assert fourth.startswith("C")
    assert "Q" in fourth


def test_what_is_asked_must_have_symbols(model: Copy) -> None:
    outputs = generator(model, Encoding())(["a", Input("abc", phrases=("b", "1"))])
    assert next(outputs).hyp == "A"
    with pytest.raises(DataError, match="'1' has no tokens"):
        next(outputs)


@pytest.mark.parametrize("asked", [{"prefix": "b?"}, {"phrases": ("?",)}])
def test_what_is_asked_must_come_out_as_it_is(model: Copy, asked: dict[str, Any]) -> None:
    class WithUnknown(Capitals):
        def encode(self, examples: Any) -> Any:
            unk = self.vocab.unk
            return [Encoded([4], [unk if c == "?" else 4 for c in example.tgt]) for example in examples]

    with pytest.raises(DataError, match="has symbols that are not in the vocabulary of task="):
        next(generator(model, WithUnknown())([Input("abc", **asked)]))


@pytest.mark.parametrize(
    "options",
    [{"mbr_weights": "model"}, {"attention_layer": 2}, {"fusion_checkpoint": "last"}, {"fusion_weight": 0.5}],
    ids=str,
)
def test_what_says_something_of_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"has no effect without .*; give that, too, or leave it out"):
        generate_config(**options)


def running(model: Seq2Seq, **options: Any) -> Generator:
    """A generator for running text that is split at full stops."""
    generate = generator(model, Encoding(), **options)
    generate.read.layout = TextLayout(lambda _: FullStops(), "sentence")
    return generate


def test_every_sentence_of_a_text_is_decoded_and_the_rest_is_copied(model: Copy) -> None:
    generate = running(model)
    (output,) = generate(["  ab. cd.\r\n\n\tx\u2028y. \u00a0"])
    assert output.hyp == "  AB. CD.\r\n\n\tX\u2028Y. \u00a0"
    assert [part.src for part in output.parts] == ["ab", "cd", "x", "y"]
    assert (generate.counts.split, generate.counts.inputs, generate.counts.empty) == (1, 1, 0)
    (blank,) = generate([" \n"])
    assert (blank.hyp, blank.parts, generate.counts.empty) == (" \n", [], 1)


@pytest.mark.parametrize("nbest", [1, 3])
def test_a_line_of_one_sentence_is_decoded_as_without_splitting(model: Copy, nbest: int) -> None:
    lines = words(40)
    stripped = [line.strip() for line in lines]
    plain = list(generator(model, nbest=nbest)(stripped))
    split = list(running(model, nbest=nbest)(stripped))
    assert split == plain
    edges = [line[: len(line) - len(line.lstrip())] for line in lines]
    found = running(model, nbest=nbest)(lines)
    assert [output.hyp for output in found if output.hyp.strip()] == [
        f"{edge}{output.hyp}{line[len(line.rstrip()) :]}"
        for edge, output, line in zip(edges, plain, lines, strict=True)
        if output.hyp
    ]


def test_a_prefix_is_kept_in_the_first_sentence_and_a_phrase_in_its_own(model: Copy) -> None:
    (output,) = running(model)([Input("abc. dxy.", prefix="xa", phrases=("xy",))])
    first, second = output.parts
    assert first.hyp.startswith("XA")
    assert "XY" in second.hyp
    with pytest.raises(DataError, match=r"phrase 'q': .* split=false"):
        next(running(model)([Input("abc. dxy.", phrases=("q",))]))


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_what_the_limit_cuts_is_marked_and_counted(model: Copy, search: str) -> None:
    options = {"max_len_a": 0.0, "max_len_b": 3}
    plugins = shipped()
    entry = plugins.registry.get("search", search)
    cutting = entry.build(entry.config(name=search, **options))
    generate = generator_of(model, Capitals(), cutting, generate_config(), plugins)
    outputs = list(generate(["abc", "abcdef", "x", "abcd", ""]))
    assert [(output.hyp, output.best.finished) for output in outputs] == [
        ("ABC", True),
        ("ABC", False),
        ("X", True),
        ("ABC", False),
        ("", True),
    ]
    assert ", 2 outputs cut at the limit in " in generate.counts.describe({}, 1.0)


def test_inputs_longer_than_any_of_training_are_counted_and_told_of_once(
    model: Copy, caplog: pytest.LogCaptureFixture
) -> None:
    generate = running(model)
    generate.read.longest_trained = 3
    with caplog.at_level(logging.WARNING):
        list(generate(["abc. abc", "abcd", "ab. abcde. abcdef", "abc"]))
    assert generate.counts.longer == 2
    (record,) = caplog.records
    assert "an input of 4 tokens is longer than any source of the training text (3)" in record.getMessage()
