"""Each conformance check accepts what is right and names what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pytest
import torch
from torch import Tensor, nn

import s2s_testing as testing
from s2s.model import AttentionMap, Memory, Seq2Seq, State
from s2s.registry import Choice, Entry
from s2s.task import Constraint, Dependencies, Encoded, Example, Rejected, Task, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s.task import Side


class Averager(Seq2Seq):
    """A small model with its own cached step: the mean of the source, and a running sum of the target."""

    def __init__(self, config: Choice, vocab: Vocab) -> None:
        super().__init__()
        self.src, self.tgt = nn.Embedding(vocab.src, 24), nn.Embedding(vocab.tgt, 24)
        self.dropout, self.out = nn.Dropout(0.1), nn.Linear(48, vocab.tgt)

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(self.dropout(self.src(src)).masked_fill(pad[..., None], 0.0), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return self.join(self.tgt(tgt).cumsum(1), memory)

    def join(self, target: Tensor, memory: Memory) -> Tensor:
        source = memory.hidden.sum(1, keepdim=True).expand_as(target)
        return torch.cat([source, target], -1).tanh()

    def project(self, hidden: Tensor) -> Tensor:
        return self.out(hidden)

    def start(self, memory: Memory) -> State:
        return State(memory, self.tgt.weight.new_zeros(memory.pad.size(0), 1, 24))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        total = state.hypothesis + self.tgt(token)
        return self.project(self.join(total, state.sentence)), replace(state, hypothesis=total)


class ForgetsTheBias(Averager):
    def output_matrix(self) -> Tensor | None:
        return self.out.weight


class LooksAhead(Averager):
    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return self.join(self.tgt(tgt).cumsum(1) + 0.1 * self.tgt(tgt).sum(1, keepdim=True), memory)


class SeesSourcePadding(Averager):
    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(self.src(src), pad)


class SeesMemoryPadding(Averager):
    """The encoder hides padding, but the decoder counts it."""

    def join(self, target: Tensor, memory: Memory) -> Tensor:
        return super().join(target, replace(memory, hidden=memory.hidden / memory.pad.size(1)))


class SeesItsNeighbours(Averager):
    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        memory = super().encode(src, pad)
        return replace(memory, hidden=memory.hidden - memory.hidden.mean(0, keepdim=True))


class BreaksOnEmptySources(Averager):
    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        memory = super().encode(src, pad)
        return replace(memory, hidden=memory.hidden * ((~pad).sum(1) / (~pad).sum(1))[:, None, None])


class StepsWrongly(Averager):
    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        logits, state = super().step(token, state)
        return logits, replace(state, hypothesis=state.hypothesis * 0.9)


class StartsWrongly(Averager):
    def start(self, memory: Memory) -> State:
        state = super().start(memory)
        return replace(state, hypothesis=state.hypothesis + 1)


class SelectsTheFirst(State):
    def reorder(self, parents: Tensor) -> Self:
        return super().reorder(torch.zeros_like(parents))


class SelectsWrongly(Averager):
    def start(self, memory: Memory) -> State:
        return SelectsTheFirst(**vars(super().start(memory)))


class KeepsTheFirst(State):
    def select(self, rows: Tensor) -> Self:
        return super().select(torch.arange(len(rows)))


class KeepsWrongly(Averager):
    def start(self, memory: Memory) -> State:
        return KeepsTheFirst(**vars(super().start(memory)))


class KeepsHypothesesWithTheSentence(Averager):
    """Its cache lies where `reorder` does not look."""

    def start(self, memory: Memory) -> State:
        state = super().start(memory)
        return State((state.sentence, [state.hypothesis]), state.hypothesis)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        memory, cache = state.sentence
        total = cache[0].expand(-1, token.size(1), -1) + self.tgt(token)
        return self.project(self.join(total, memory)), replace(state, sentence=(memory, [total]))


class IsRandom(Averager):
    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return super().decode(tgt, memory) + 1e-6 * torch.rand(1)


class ForgetsAWeight(Averager):
    def __init__(self, config: Choice, vocab: Vocab) -> None:
        super().__init__(config, vocab)
        self.register_buffer("shift", torch.rand(48), persistent=False)

    def join(self, target: Tensor, memory: Memory) -> Tensor:
        return super().join(target, memory) + self.shift


class HasADeadWeight(Averager):
    def __init__(self, config: Choice, vocab: Vocab) -> None:
        super().__init__(config, vocab)
        self.dead = nn.Parameter(torch.zeros(1))


class DoesNotLearn(Averager):
    def project(self, hidden: Tensor) -> Tensor:
        return self.out(hidden) * 1e-4


class Attends(Averager):
    """Looks at every source symbol alike."""

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor:
        return self.weights((~pad).float()[:, None, :].expand(-1, tgt.size(1), -1), tgt)

    def weights(self, there: Tensor, tgt: Tensor) -> Tensor:
        return there / there.sum(-1, keepdim=True)


class AttendsToPadding(Attends):
    def weights(self, there: Tensor, tgt: Tensor) -> Tensor:
        return torch.full_like(there, 1 / there.size(-1))


class AttendsTooMuch(Attends):
    def weights(self, there: Tensor, tgt: Tensor) -> Tensor:
        return there


class AttendsByLookingAhead(Attends):
    def weights(self, there: Tensor, tgt: Tensor) -> Tensor:
        scores = 0.1 * tgt.sum(1)[:, None, None] * torch.arange(there.size(-1))
        return scores.masked_fill(there == 0, -torch.inf).softmax(-1)


class AttendsSideways(Attends):
    def weights(self, there: Tensor, tgt: Tensor) -> Tensor:
        return super().weights(there, tgt).transpose(1, 2)


class MapsAhead(Attends):
    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
        even = torch.full((len(tgt), 2, tgt.size(1), tgt.size(1)), 1 / tgt.size(1))
        return [AttentionMap("decoder", 3, "tgt", "tgt", even)]


class MapsTooMuch(MapsAhead):
    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
        return [super().attention_maps(src, pad, tgt)[0]._replace(weights=torch.ones(len(tgt), 2, *[tgt.size(1)] * 2))]


def entry(kind: type[Seq2Seq]) -> Entry:
    return Entry("arch", "toy", Choice, kind, "test")


def test_a_sound_architecture_passes() -> None:
    testing.check_arch(entry(Averager), Choice())


def test_attention_that_is_sound_passes() -> None:
    testing.check_arch(entry(Attends), Choice())


class NamesItsRows(Averager):
    def vocab_rows(self) -> dict[str, Side]:
        return {"src.weight": "src", "tgt.weight": "tgt", "out.weight": "tgt", "out.bias": "tgt"}


class ForgetsARow(Averager):
    def vocab_rows(self) -> dict[str, Side]:
        return {"src.weight": "src", "tgt.weight": "tgt", "out.weight": "tgt"}


class ConfusesSides(NamesItsRows):
    def vocab_rows(self) -> dict[str, Side]:
        return {**super().vocab_rows(), "src.weight": "tgt"}


def test_rows_that_are_named_pass() -> None:
    for vocab in (testing.VOCAB, Vocab(src=19, tgt=19), Vocab(src=9, tgt=12)):
        testing.assert_vocab_rows(NamesItsRows(Choice(), vocab), vocab)


@pytest.mark.parametrize(
    ("kind", "vocab", "message"),
    [
        (ForgetsARow, testing.VOCAB, "leaves out a tensor"),
        (ConfusesSides, Vocab(src=19, tgt=19), "leaves out a tensor"),
        (ConfusesSides, Vocab(src=9, tgt=12), "'src.weight' has 9 rows for 12 tgt tokens"),
    ],
)
def test_rows_that_are_named_wrongly_do_not(kind: type[Averager], vocab: Vocab, message: str) -> None:
    model = kind(Choice(), vocab)
    torch.nn.init.normal_(model.out.bias)
    with pytest.raises(AssertionError, match=message):
        testing.assert_vocab_rows(model, vocab)


def test_the_default_steps_pass() -> None:
    class Plain(Averager):
        start, step = Seq2Seq.start, Seq2Seq.step

    testing.check_arch(entry(Plain), Choice())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ForgetsTheBias, "project differs from products with output_matrix"),
        (LooksAhead, "decode looks ahead"),
        (SeesSourcePadding, "padding or a neighbour is seen"),
        (SeesMemoryPadding, "padding or a neighbour is seen"),
        (SeesItsNeighbours, "padding or a neighbour is seen"),
        (BreaksOnEmptySources, "NaN"),
        (AttendsToPadding, "attention looks at padding"),
        (AttendsTooMuch, "attention does not sum to 1"),
        (AttendsByLookingAhead, "attention looks ahead"),
        (MapsAhead, "attention map decoder 3 looks ahead"),
        (MapsTooMuch, "attention map decoder 3 does not sum to 1"),
        (AttendsSideways, "attention has the shape"),
        (StartsWrongly, "the first step differs from decode"),
        (StepsWrongly, "step differs from decode"),
        (SelectsWrongly, r"State.reorder\("),
        (KeepsWrongly, r"State.select\("),
        (KeepsHypothesesWithTheSentence, r"State.reorder\("),
        (IsRandom, "two runs differ"),
        (ForgetsAWeight, "state dict"),
        (HasADeadWeight, "no gradient reaches dead"),
        (DoesNotLearn, "the loss fell from"),
    ],
)
def test_a_broken_architecture_is_told_what_is_broken(kind: type[Averager], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        testing.check_arch(entry(kind), Choice())


class Letters(Task):
    """Words as letters, target reversed; "x" is not allowed."""

    def dependencies(self) -> Dependencies:
        return Dependencies()

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        return [("words", 1.0)] if split == "train" else []

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        yield from (Example(w, w[::-1]) if "x" not in w else Rejected("x") for w in ("ab", "cab", "xa", "bbca"))

    def learn(self, directory: Path) -> None:
        (directory / "letters").write_text("abc")
        self.load(directory)

    def load(self, directory: Path) -> None:
        self.letters = (directory / "letters").read_text()
        self.vocab = Vocab(src=4 + len(self.letters), tgt=4 + len(self.letters), joint=True)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [
            Encoded(*(self.encode_source([text])[0] for text in (example.src, example.tgt))) for example in examples
        ]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [[4 + self.letters.index(c) for c in line] for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join(self.letters[i - 4] for i in ids)


class LosesTheLastLetter(Letters):
    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return super().detokenize(ids[:-1], src)


class AddsTheEnd(Letters):
    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(e.src, [*e.tgt, self.vocab.eos]) for e in super().encode(examples)]


class CountsLettersThatAreNot(Letters):
    def source_offsets(self, src: str) -> Sequence[tuple[int, int] | None]:
        return [(n, n + 2) for n in range(len(src))]


class HasNoPlaceForSome(Letters):
    def target_offsets(self, ids: Sequence[int], src: str) -> Sequence[tuple[int, int] | None]:
        return [(0, 1)] * (len(ids) - 1)


class ReadsThemAsOne(Letters):
    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        return [self.detokenize(ids, src)]


class KnowsFewerSymbols(Letters):
    def load(self, directory: Path) -> None:
        super().load(directory)
        self.vocab = Vocab(src=6, tgt=7)


class EncodesSourcesAnotherWay(Letters):
    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [ids[::-1] for ids in super().encode_source(lines)]

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(e.src[::-1], e.tgt[::-1]) for e in super().encode(examples)]


class NoRepeats(Constraint):
    """The state is the last symbol, which may not come again."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.zeros(src.size(0), 1, 1, dtype=torch.long)

    def allowed(self, state: Tensor) -> Tensor:
        return torch.arange(7) != state

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return token[..., None]


class Constrained(Letters):
    def constraint(self) -> Constraint:
        return NoRepeats()


class WithoutRepeats(Constrained):
    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        yield from (e for e in super().examples(split, corpus) if isinstance(e, Example) and "bb" not in e.src)


def check(kind: type[Task], directory: Path) -> None:
    testing.check_task(Entry("task", "toy", Choice, kind, "test"), Choice(), directory)


@pytest.mark.parametrize("kind", [Letters, WithoutRepeats])
def test_a_sound_task_passes(kind: type[Task], tmp_path: Path) -> None:
    check(kind, tmp_path)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (LosesTheLastLetter, "comes back as"),
        (AddsTheEnd, r"special ids \[3\]"),
        (CountsLettersThatAreNot, r"source_offsets gives \[\(1, 3\)\], but 'ab' has 2 characters"),
        (HasNoPlaceForSome, "target_offsets gives 1 for 2 tokens of 'ba'"),
        (ReadsThemAsOne, "pieces gives 1 for 2 tokens"),
        (KnowsFewerSymbols, r"src ids \[6\] are not in 0..5"),
        (EncodesSourcesAnotherWay, "encode_inputs and encode disagree"),
        (Constrained, "constraint forbids token 3 .* of the reference 'acbb'"),
    ],
)
def test_a_broken_task_is_told_what_is_broken(kind: type[Task], message: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=message):
        check(kind, tmp_path)


def test_a_task_must_load_what_it_learnt(tmp_path: Path) -> None:
    class LearnsMore(Letters):
        def learn(self, directory: Path) -> None:
            super().learn(directory)
            (directory / "letters").write_text("ab")

    with pytest.raises(AssertionError, match="load gives"):
        check(LearnsMore, tmp_path)


def test_a_task_may_say_how_its_text_changes(tmp_path: Path) -> None:
    class Shouts(Letters):
        def detokenize(self, ids: Sequence[int], src: str) -> str:
            return super().detokenize(ids, src).upper()

    normalise: Any = str.lower
    testing.assert_task_round_trips(Shouts(Choice()), tmp_path, normalise=normalise)
