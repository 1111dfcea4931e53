"""Sections about outputs: verdict, scores, buckets, flags and data."""

from __future__ import annotations

__all__ = ["bucket_section", "data_section", "flag_section", "score_section", "verdict"]

from collections import Counter
from itertools import chain
from statistics import mean
from typing import TYPE_CHECKING

from s2s_report.brackets import read
from s2s_report.document import Details, Section, Table, Text
from s2s_report.flags import FLAGS, flags_of
from s2s_report.outcome import ENOUGH, FREQUENCIES, LENGTHS, buckets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s import Side
    from s2s.metrics import Comparison, Score
    from s2s_report.document import Block
    from s2s_report.outcome import DataStatistics, Outcome, Part

SIGNIFICANT = 0.05
SIDES: dict[Side, str] = {"src": "source", "tgt": "reference"}


def verdict(outcome: Outcome, place: str) -> str:
    """The result by the main metric, in one sentence per run and part; place: where the sentences are from."""
    return " ".join(chain.from_iterable(_verdict(part, compared, place) for part, compared in outcome.main))


def _verdict(part: Part, compared: Sequence[Comparison], place: str) -> Iterator[str]:
    base, *others = compared
    name = base.score.name
    yield f"{base.system}: {name} {_with_interval(base.score)} on {len(part.rows):,} sentences of {place}."
    for other in others:
        assert other.difference is not None
        better = (other.difference > 0) == other.score.higher_is_better
        sure = other.p_value is not None and other.p_value < SIGNIFICANT
        p = "" if other.p_value is None else f", p = {other.p_value:.3f}"
        how = f"{'better' if better else 'worse'} than" if sure else "not shown to differ from"
        yield f"{other.system} is {how} {base.system}: {name} {other.difference:+.2f}{p}."


def score_section(outcome: Outcome) -> Section:
    """The scores of every run by every metric."""
    rows = [_score_row(each) for compared in outcome.compared for each in compared]
    head = ["metric", "system", "score", "95% interval", "difference", "p", "signature"]
    note = "Intervals by bootstrap, p by paired bootstrap against the first system (Koehn, 2004)."
    return Section("Scores", [Table(head, rows, (2, 3, 4, 5)), Text(note)])


def _score_row(each: Comparison) -> list[str]:
    score = each.score
    interval = "" if score.low is None else f"{score.low:.2f}–{score.high:.2f}"
    difference = "" if each.difference is None else f"{each.difference:+.2f}"
    p = "" if each.p_value is None else f"{each.p_value:.4f}"
    arrow = "" if score.higher_is_better else " (lower is better)"
    return [score.name + arrow, each.system, f"{score.value:.2f}", interval, difference, p, score.signature]


def bucket_section(outcome: Outcome, statistics: DataStatistics, samples: int) -> Section:
    """Scores by the length of the source, and by how often the rarest word of the reference was seen in training, of
    examples that have one score.

    Without sources, lengths are those of the references.
    """
    by: Side = "src" if any(example.src for example in outcome.examples) else "tgt"
    lengths = [len(getattr(example, by).split()) for example in outcome.examples]
    blocks: list[Block] = [_bucket_table(f"words of the {SIDES[by]}", outcome, lengths, LENGTHS, samples)]
    if statistics.n_pairs:
        side: Side = "src" if read(outcome.examples[0].tgt) else "tgt"  # the words of a tree are those of its source
        rarest = [statistics.rarest(getattr(example, side), side) for example in outcome.examples]
        title = f"occurrences in {statistics.place} of the {SIDES[side]}'s rarest word"
        blocks.append(_bucket_table(title, outcome, rarest, FREQUENCIES, samples))
    blocks.append(Text(f"Of fewer than {ENOUGH} sentences no score is shown."))
    return Section("Where it is good and bad", blocks)


def _bucket_table(title: str, outcome: Outcome, values: Sequence[int], edges: Sequence[int], samples: int) -> Table:
    refs = [example.tgt for example in outcome.examples]
    (part,) = outcome.parts
    metric, rows = part.metrics[0], []
    for bucket in buckets(values, edges):
        cells = []
        for name in outcome.outputs:
            hyps = outcome.hyps(name)
            enough = len(bucket.indices) >= ENOUGH
            of = [hyps[i] for i in bucket.indices], [[refs[i] for i in bucket.indices]]
            cells.append(_with_interval(metric(*of, samples)) if enough else "")
        rows.append([bucket.name, f"{len(bucket.indices):,}", *cells])
    head = [title, "sentences", *(f"{name}: {metric.name}" for name in outcome.outputs)]
    return Table(head, rows, range(1, len(head)))


def flag_section(outcome: Outcome, shown: int) -> Section:
    """How many outputs are suspicious, and why, with examples."""
    flagged = {name: list(_flagged(outcome, name)) for name in outcome.outputs}
    counts = {name: Counter(flag for _, flags in run_flags for flag in flags) for name, run_flags in flagged.items()}
    rows = [[text, *(f"{counts[name][flag]:,}" for name in flagged)] for flag, text in FLAGS.items()]
    details = []
    for name, run_flags in flagged.items():
        rows_of = [
            [", ".join(f), outcome.examples[i].src, outcome.hyps(name)[i], outcome.examples[i].tgt]
            for i, f in run_flags
        ]
        if rows_of:
            details.append(
                Details(f"Examples of {name}", [Table(["sign", "source", "output", "reference"], rows_of[:shown])])
            )
    return Section("Signs of hallucination", [Table(["sign", *flagged], rows, range(1, 1 + len(flagged))), *details])


def _flagged(outcome: Outcome, name: str) -> Iterator[tuple[int, list[str]]]:
    for i, (example, hyp) in enumerate(zip(outcome.examples, outcome.hyps(name), strict=True)):
        if flags := flags_of(example.src, hyp, example.tgt):
            yield i, flags


def data_section(statistics: DataStatistics, n: int) -> Section:
    """Lengths, rejected pairs, and how often words and tokens occur."""
    if not statistics.n_pairs:
        return Section("Training data", [Text("It cannot be read any more, or was not asked for.")])
    rows = []
    for side, name in (("src", "source"), ("tgt", "target")):
        ordered = sorted(statistics.lengths[side])
        at = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.0, 0.5, 0.95, 1.0)]
        rows.append([f"words of a {name}", f"{mean(ordered):.1f}", *(f"{value:,}" for value in at)])
    rejected = [[reason, f"{count:,}"] for reason, count in statistics.rejected.most_common()] or [["none", "0"]]
    words = statistics.words["tgt"]
    said = (
        f"The first {n:,} pairs of each corpus were read, {statistics.n_pairs:,} of them usable. "
        f"{len(words):,} different target words, {sum(count == 1 for count in words.values()):,} of them once."
    )
    head = ["", "mean", "shortest", "median", "95%", "longest"]
    return Section(
        "Training data",
        [
            Text(said),
            Table(head, rows, range(1, 6)),
            _frequency_table(statistics),
            Table(["not used because", "pairs"], rejected, (1,)),
        ],
    )


def _frequency_table(statistics: DataStatistics) -> Table:
    """How many target words and tokens occur how often; only tokens can have zero occurrences."""
    words, pieces = list(statistics.words["tgt"].values()), list(statistics.pieces.values())
    n_never = max(0, statistics.n_vocab - len(pieces))
    n_words, n_pieces = (
        {bucket.name: len(bucket.indices) for bucket in buckets(counts, FREQUENCIES)}
        for counts in (words, [*pieces, *[0] * n_never])
    )
    names = [bucket.name for bucket in buckets([*words, *pieces, *[0] * min(1, n_never)], FREQUENCIES)]
    rows = [[name, f"{n_words.get(name, 0):,}", f"{n_pieces.get(name, 0):,}"] for name in names]
    return Table(["occurrences", "target words", "target tokens"], rows, range(3))


def _with_interval(score: Score) -> str:
    interval = "" if score.low is None else f" [{score.low:.1f}, {score.high:.1f}]"
    return f"{score.value:.1f}{interval}"
