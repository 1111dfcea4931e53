"""A search that overrides a method of beam search does the same with operators in C and with those in torch."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.reference_operators import use_references
from harness.search_calls import find
from harness.table_model import Table
from s2s.decoding import BeamConfig, Hypothesis, SearchRequest, SearchResult
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.errors import PluginError
from s2s.task import Vocab
from s2s_search import DiverseBeamConfig
from s2s_search.diverse import DiverseBeamSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from s2s.decoding import Beams, Candidates, FinishedHypotheses, SourceSentence
    from s2s.decoding.beams import BeamRun

pytestmark = pytest.mark.usefixtures("native_operators")

VOCAB = Vocab(src=9, tgt=9)
FORBIDDEN = 5


class Allowed(BeamSearch):
    def allowed(self, beams: Beams, slack: int, n_tokens: int) -> Tensor | None:
        allowed = super().allowed(beams, slack, n_tokens)
        others = (torch.arange(n_tokens) != FORBIDDEN).expand(len(beams.sentences), beams.n_hypotheses, -1)
        return others if allowed is None else allowed & others


class Expand(BeamSearch):
    def expand(self, beams: Beams, logits: Tensor, allowed: Tensor | None) -> Candidates:
        return super().expand(beams, logits.roll(1, dims=-1), allowed)


class Select(BeamSearch):
    def select(
        self, beams: Beams, logits: Tensor, allowed: Tensor | None, length: Tensor
    ) -> tuple[FinishedHypotheses, Candidates]:
        return super().select(beams, 2 * logits, allowed, length)


class Finish(BeamSearch):
    def finish(self, beams: Beams, candidates: Candidates, length: Tensor) -> FinishedHypotheses:
        """No empty output."""
        return beams.finished if int(length[0]) == 1 else super().finish(beams, candidates, length)


class Unfinished(BeamSearch):
    def unfinished(self, beams: Beams, candidates: Candidates, n: int) -> Candidates:
        """Not the best candidate, but the next n."""
        return type(candidates)(*(values[:, 1:] for values in super().unfinished(beams, candidates, n + 1)))


class Penalty(BeamSearch):
    def penalty(self, length: Tensor) -> Tensor:
        return length**2


class CannotImprove(BeamSearch):
    def cannot_improve(self, beams: Beams, live: Tensor, finished: Tensor) -> Tensor:
        """After two tokens, whatever was found."""
        return beams.length >= 2


class IsDone(BeamSearch):
    def is_done(self, batch: Beams) -> Tensor:
        return batch.length >= 3


class Result(BeamSearch):
    def result(self, batch: Beams, row: int) -> SearchResult:
        found = super().result(batch, row)
        return replace(found, hypotheses=found.hypotheses[::-1])


class Outputs(BeamSearch):
    def outputs(self, batch: Beams, row: int, n: int) -> list[Hypothesis]:
        return super().outputs(batch, row, n)[1:]


class Results(BeamSearch):
    def results(self, batch: Beams, rows: Sequence[int]) -> list[SearchResult]:
        return [replace(result, hypotheses=result.hypotheses[1:]) for result in super().results(batch, rows)]


class Start(BeamSearch):
    def start(self, run: BeamRun, sentences: list[SourceSentence]) -> Beams:
        beams = super().start(run, sentences)
        return replace(beams, limit=torch.ones_like(beams.limit), slack=0)


class Step(BeamSearch):
    def step(self, batch: Beams) -> Beams:
        """Only the best hypothesis lives on."""
        beams = super().step(batch)
        return replace(beams, score=beams.score.masked_fill(torch.arange(beams.n_hypotheses) > 0, -torch.inf))


class Steps(BeamSearch):
    def steps(self, batch: Beams, max_steps: int) -> Beams:
        """Only the best hypothesis lives on."""
        beams = super().steps(batch, max_steps)
        return replace(beams, score=beams.score.masked_fill(torch.arange(beams.n_hypotheses) > 0, -torch.inf))


class Begin(BeamSearch):
    def begin(self, request: SearchRequest) -> BeamRun:
        run = super().begin(request)
        run.banned = torch.tensor([VOCAB.pad, VOCAB.bos, FORBIDDEN])
        return run


DERIVED: dict[str, type[BeamSearch]] = {
    "allowed": Allowed,
    "begin": Begin,
    "expand": Expand,
    "finish": Finish,
    "cannot_improve": CannotImprove,
    "is_done": IsDone,
    "outputs": Outputs,
    "penalty": Penalty,
    "result": Result,
    "results": Results,
    "select": Select,
    "start": Start,
    "step": Step,
    "steps": Steps,
    "unfinished": Unfinished,
}
NO_EFFECT_ON_VALUES = {"drop", "extend_penalties"}
"""Called where nothing is decided, or where the model has a function for it"""


def hypotheses(search: BeamSearch, nbest: int = 4) -> list[list[tuple[float, list[int]]]]:
    src = torch.tensor([[4, 5, 6, 3], [7, 8, 4, 3], [5, 5, 5, 3], [8, 6, 7, 3]])
    found: Any = find(search, Table(VOCAB.tgt, seed=3, spread=1.5), src, src == 0, VOCAB, nbest=nbest)
    return [[(round(h.score, 4), h.tokens) for h in row] for row in found]


@pytest.mark.parametrize("stop", ["exact", "best", "first_k"])
@pytest.mark.parametrize("method", DERIVED)
def test_an_overridden_method_is_called_in_both_modes(method: str, stop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = BeamConfig(beam=4, stop=stop, max_len_a=0.0, max_len_b=5)
    in_c, plain = hypotheses(DERIVED[method](config)), hypotheses(BeamSearch(config))
    use_references(monkeypatch)
    assert hypotheses(DERIVED[method](config)) == in_c
    assert (method == "penalty" and stop == "first_k") or in_c != plain


@pytest.mark.parametrize(
    "changed",
    [lambda x: x.double(), lambda x: x.long(), lambda x: torch.stack([x, x], dim=-1)[..., 0]],
    ids=["double", "whole numbers", "strided"],
)
def test_penalties_may_have_any_type_and_layout(changed: Callable[[Tensor], Tensor]) -> None:
    class Other(Penalty):
        def penalty(self, length: Tensor) -> Tensor:
            return changed(super().penalty(length))

    config = BeamConfig(beam=4, max_len_a=0.0, max_len_b=5)
    assert hypotheses(Other(config)) == hypotheses(Penalty(config))


@pytest.mark.parametrize("length_penalty", ["gnmt", "power"])
def test_penalties_are_rounded_from_fp64_in_tables_of_any_size(length_penalty: Any) -> None:
    config = BeamConfig(alpha=0.6, length_penalty=length_penalty, max_len_a=0.0)
    exact = [((5 + n) / 6 if length_penalty == "gnmt" else n) ** 0.6 for n in (1, *range(1, 103))]
    for limit in range(5, 51):
        search = BeamSearch(replace(config, max_len_b=limit))
        queue = FixedQueue([], 1)
        model = Table(VOCAB.tgt, seed=3)
        run = search.begin(SearchRequest(model=model, vocab=VOCAB, queue=queue, device=torch.device("cpu")))
        search.extend_penalties(run, limit)
        assert torch.equal(run.penalties, torch.tensor(exact[: 2 * limit + 3]))


def test_penalties_are_computed_once_for_many_lengths() -> None:
    calls = list[int]()

    class Other(Penalty):
        def penalty(self, length: Tensor) -> Tensor:
            calls.append(len(length))
            return super().penalty(length)

    search = Other(BeamConfig(beam=4, max_len_a=0.0, max_len_b=5))
    assert hypotheses(search) == hypotheses(search)
    assert calls == [13]
    search.config.max_len_b = 11
    assert hypotheses(search) == hypotheses(Penalty(search.config))
    assert calls == [13, 25]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda x: x[:3], r"Other.penalty: expected a tensor of as many penalties as lengths, \[13\], got \[3\]"),
        (lambda _: 1.0, "got float"),
        (lambda x: -x, "Other.penalty: expected positive numbers, got -12"),
        (lambda x: x * torch.nan, "Other.penalty: expected positive numbers, got nan"),
    ],
    ids=["too few", "one number", "negative", "NaN"],
)
def test_penalties_by_which_no_score_can_be_divided_are_refused(wrong: Callable[[Tensor], Any], error: str) -> None:
    """Functions in C would read beyond them, and with NaN no sentence would be finished."""

    class Other(BeamSearch):
        def penalty(self, length: Tensor) -> Any:
            return wrong(length)

    with pytest.raises(PluginError, match=error):
        hypotheses(Other(BeamConfig(beam=4, max_len_a=0.0, max_len_b=5)))


def test_every_public_method_is_in_the_table() -> None:
    public = {name for name, _ in inspect.getmembers(BeamSearch, inspect.isfunction) if not name.startswith("_")}
    own = public & set(vars(BeamSearch))
    assert own == DERIVED.keys() | NO_EFFECT_ON_VALUES


def test_groups_are_searched_by_the_same_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search in groups inherits is replaced there, too."""

    class Derived(Finish, Unfinished, Penalty, DiverseBeamSearch):
        pass

    config = DiverseBeamConfig(beam=4, num_beam_groups=2, max_len_a=0.0, max_len_b=5)
    in_c, plain = hypotheses(Derived(config)), hypotheses(DiverseBeamSearch(config))
    use_references(monkeypatch)
    assert hypotheses(Derived(config)) == in_c != plain
