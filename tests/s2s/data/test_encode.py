"""Encoding a corpus: which pairs are dropped and why, what is counted, and in which order threads give it."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from s2s.data import encode
from s2s.data.encode import encode_corpus
from s2s.data.ledger import CorpusReport, Drops
from s2s.data.pair_rules import EMPTY, LengthLimits, PairRules
from s2s.errors import DataError
from s2s.task import Encoded, Example, Rejected, Vocab

if TYPE_CHECKING:
    from collections.abc import Sequence

LONG, UNEVEN = "longer than data.max_len=5", "lengths over data.max_ratio=1.5"


def reason(src: int, tgt: int, limits: LengthLimits) -> str | None:
    """The rules in words: empty, then too long with eos, then too uneven."""
    if not src or not tgt:
        return EMPTY
    if limits.max_len is not None and max(src, tgt) + 1 > limits.max_len:
        return LONG
    if limits.max_ratio is not None and max(src, tgt) > limits.max_ratio * min(src, tgt):
        return UNEVEN
    return None


@pytest.mark.parametrize("limits", [LengthLimits(), LengthLimits(5), LengthLimits(None, 1.5), LengthLimits(5, 1.5)])
def test_a_pair_is_dropped_for_the_first_reason(limits: LengthLimits) -> None:
    src, tgt = (side.flatten() for side in np.meshgrid(np.arange(8), np.arange(8)))
    found = limits.reasons(src, tgt)
    for i, (s, t) in enumerate(zip(src.tolist(), tgt.tolist(), strict=True)):
        assert [name for name, gone in found.items() if gone[i]] == [r for r in [reason(s, t, limits)] if r], (s, t)


def test_the_report_says_how_many_of_what() -> None:
    report = CorpusReport(
        "train", "a", 12_000, 11_990, Drops({"b": 3, "c": 6, "a": 3}), n_src=900, n_tgt=1_100, n_unk=25
    )
    assert report.drop_summary() == ", 12 dropped (6 c, 3 a, 3 b)"
    assert report.summary() == (
        "train a: 12,000 pairs read, 11,990 kept, 12 dropped (6 c, 3 a, 3 b); "
        "900 source and 1,100 target tokens, 1.25% unknown"
    )
    nothing = CorpusReport("valid", "b")
    assert nothing.summary(0.5) == (
        "valid b (weight 0.5): 0 pairs read, 0 kept; 0 source and 0 target tokens, 0.00% unknown"
    )


class Letters:
    """A task whose tokens are letters; z is unknown."""

    vocab, context = Vocab(src=30, tgt=30), 0

    def __init__(self, pairs: Sequence[Example | Rejected], lost: int = 0) -> None:
        self.pairs, self.lost = pairs, lost

    def examples(self, split: str, corpus: str) -> Sequence[Example | Rejected]:
        return self.pairs

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        ids = lambda text: [1 if c == "z" else ord(c) - 93 for c in text]  # noqa: E731
        return [Encoded(ids(one.src), ids(one.tgt)) for one in examples][self.lost :]


PAIRS = [
    Example("abz", "bz"),
    Rejected("NUL character"),
    Example("", "a"),
    Example("ccccc", "c"),
    Example("zz", "dd"),
    Rejected("NUL character"),
    Example("ab", "abcd"),
]


def encoded(task: Any, workers: int = 1) -> tuple[list[Encoded], CorpusReport]:
    written: list[Encoded] = []

    def append(src: Any, tgt: Any) -> None:
        if len(src.lengths):
            sides = ([part.tolist() for part in np.split(x.ids, np.cumsum(x.lengths)[:-1])] for x in (src, tgt))
            written.extend(Encoded(*pair) for pair in zip(*sides, strict=True))

    report = CorpusReport("train", "x")
    writer: Any = SimpleNamespace(append=append)
    for each in encode_corpus(task, writer, report, PairRules(LengthLimits(5, 2.0)), workers):
        assert each is report
    return written, report


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_kept_pairs_are_written_in_order_and_everything_is_counted(
    workers: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "CHUNK", chunk)
    kept = [PAIRS[0], PAIRS[4], PAIRS[6]]
    written, report = encoded(Letters(PAIRS), workers)
    assert written == Letters([]).encode(kept)  # type: ignore[arg-type]
    assert (report.n_read, report.n_kept) == (len(PAIRS), 3)
    assert (report.n_src, report.n_tgt, report.n_unk) == (3 + 2 + 2, 2 + 2 + 4, 4)
    assert report.drops.counts == {"NUL character": 2, EMPTY: 1, LONG: 1}


def test_a_task_that_loses_a_pair_is_named() -> None:
    with pytest.raises(DataError, match=r"^Letters\.encode gave 4 pairs for 5 examples$"):
        encoded(Letters(PAIRS, lost=1))


@pytest.mark.parametrize("pair", [([5], [6]), (), None], ids=str)
def test_pairs_without_names_for_their_sides_are_refused(pair: Any) -> None:
    class Bare(Letters):
        def encode(self, examples: Sequence[Example]) -> list[Any]:
            return [pair for _ in examples]

    with pytest.raises(DataError) as caught:
        encoded(Bare(PAIRS))
    assert str(caught.value) == f"Bare.encode: expected s2s.Encoded(src, tgt) of each example, got {pair!r}"


@pytest.mark.parametrize("ids", [[5.7, 6.0], ["5", "6"], [None], 5], ids=str)
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_ids_that_are_no_whole_numbers_are_refused(side: str, ids: Any) -> None:
    """numpy would round 5.7, and read "5" as 5."""

    class Rounded(Letters):
        def encode(self, examples: Sequence[Example]) -> list[Encoded]:
            return [pair._replace(**{side: ids}) for pair in super().encode(examples)]

    with pytest.raises(DataError, match=rf"^Rounded\.encode: expected a list of ids as {side}: .*(float|str|None|int)"):
        encoded(Rounded(PAIRS))


@pytest.mark.parametrize(("name", "number"), [("pad", 0), ("bos", 2), ("eos", 3)])
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_ids_that_batches_add_by_themselves_are_refused(side: str, name: str, number: int) -> None:
    """With an eos of its own, each target would be trained to end twice, with a loss that is too low."""

    class Ended(Letters):
        def encode(self, examples: Sequence[Example]) -> list[Encoded]:
            return [pair._replace(**{side: [*getattr(pair, side), number]}) for pair in super().encode(examples)]

    with pytest.raises(DataError, match=rf"^Ended\.encode gave {name} \({number}\) in a {side}: "):
        encoded(Ended(PAIRS))


def test_threads_run_ahead_by_a_few_items_and_results_keep_the_order() -> None:
    begun: list[int] = []

    def items() -> Any:
        for i in range(50):
            begun.append(i)
            yield i

    results = encode._in_order(lambda i: (time.sleep(0.001 * (i % 3)), i)[1], items(), 2)
    assert next(results) == 0
    assert len(begun) == 2 * 2 + 1
    assert list(results) == list(range(1, 50))
    names = set(encode._in_order(lambda _: threading.current_thread().name, range(3), 1))
    assert names == {threading.current_thread().name}
