"""Sections about outputs: verdict, scores, buckets, flags, data, and the sentences that tell most."""

from __future__ import annotations

__all__ = ["bucket_section", "data_section", "flag_section", "score_section", "sentence_section", "verdict"]

from collections import Counter
from html import escape
from statistics import mean
from typing import TYPE_CHECKING

from s2s_report.brackets import compare_brackets, drawn, read
from s2s_report.document import Details, Picture, Section, Table, Text
from s2s_report.flags import FLAGS, flags_of
from s2s_report.outcome import ENOUGH, FREQUENCIES, LENGTHS, buckets
from s2s_report.word_diff import diff_html

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.metrics import Comparison, Score
    from s2s_report.brackets import Bracket
    from s2s_report.document import Block
    from s2s_report.outcome import DataStatistics, Outcome

SIGNIFICANT = 0.05


def verdict(outcome: Outcome, split: str) -> str:
    """What the main metric says, in a sentence for each run."""
    base, *others = outcome.compared[0]
    name, n = base.score.name, len(outcome.examples)
    said = [f"{base.system}: {name} {_with_interval(base.score)} on {n:,} sentences of the {split} set."]
    for other in others:
        assert other.difference is not None
        better = (other.difference > 0) == other.score.higher_is_better
        sure = other.p_value is not None and other.p_value < SIGNIFICANT
        p = "" if other.p_value is None else f", p = {other.p_value:.3f}"
        how = f"{'better' if better else 'worse'} than" if sure else "not shown to differ from"
        said.append(f"{other.system} is {how} {base.system}: {name} {other.difference:+.2f}{p}.")
    return " ".join(said)


def score_section(outcome: Outcome) -> Section:
    """Every metric and run."""
    rows = [_score_row(each) for compared in outcome.compared for each in compared]
    head = ["metric", "run", "score", "95% interval", "difference", "p", "signature"]
    note = "Intervals by bootstrap, p by paired bootstrap against the first run (Koehn, 2004)."
    return Section("Scores", [Table(head, rows, (2, 3, 4, 5)), Text(note)])


def _score_row(each: Comparison) -> list[str]:
    score = each.score
    interval = "" if score.low is None else f"{score.low:.2f}–{score.high:.2f}"
    difference = "" if each.difference is None else f"{each.difference:+.2f}"
    p = "" if each.p_value is None else f"{each.p_value:.4f}"
    arrow = "" if score.higher_is_better else " (lower is better)"
    return [score.name + arrow, each.system, f"{score.value:.2f}", interval, difference, p, score.signature]


def bucket_section(outcome: Outcome, statistics: DataStatistics, samples: int) -> Section:
    """Scores by the length of the source, and by how often the rarest word of the reference was seen in training."""
    lengths = [len(example.src.split()) for example in outcome.examples]
    blocks: list[Block] = [_bucket_table("words of the source", outcome, lengths, LENGTHS, samples)]
    if statistics.n_pairs and read(outcome.examples[0].tgt) is None:
        rarest = [statistics.rarest(example.tgt) for example in outcome.examples]
        title = "occurrences in training of the reference's rarest word"
        blocks.append(_bucket_table(title, outcome, rarest, FREQUENCIES, samples))
    blocks.append(Text(f"Of fewer than {ENOUGH} sentences no score is shown."))
    return Section("Where it is good and bad", blocks)


def _bucket_table(title: str, outcome: Outcome, values: Sequence[int], edges: Sequence[int], samples: int) -> Table:
    refs = [example.tgt for example in outcome.examples]
    rows = []
    for bucket in buckets(values, edges):
        cells = []
        for name in outcome.outputs:
            hyps = outcome.hyps(name)
            enough = len(bucket.indices) >= ENOUGH
            of = [hyps[i] for i in bucket.indices], [[refs[i] for i in bucket.indices]]
            cells.append(_with_interval(outcome.main(*of, samples)) if enough else "")
        rows.append([bucket.name, f"{len(bucket.indices):,}", *cells])
    head = [title, "sentences", *(f"{name}: {outcome.main.name}" for name in outcome.outputs)]
    return Table(head, rows, range(1, len(head)))


def flag_section(outcome: Outcome, shown: int) -> Section:
    """How many outputs are suspicious, and why, with examples."""
    flagged = {name: list(_flagged(outcome, name)) for name in outcome.outputs}
    counts = {name: Counter(flag for _, flags in found for flag in flags) for name, found in flagged.items()}
    rows = [[text, *(f"{counts[name][flag]:,}" for name in flagged)] for flag, text in FLAGS.items()]
    details = []
    for name, found in flagged.items():
        rows_of = [
            [", ".join(f), outcome.examples[i].src, outcome.hyps(name)[i], outcome.examples[i].tgt] for i, f in found
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
    pieces = sorted(statistics.pieces.values(), reverse=True)
    once = sum(count == 1 for count in statistics.words.values())
    rare = sum(count < 20 for count in pieces)
    said = (
        f"The first {n:,} pairs of each corpus were read, {statistics.n_pairs:,} of them usable. "
        f"{len(statistics.words):,} different target words, {once:,} of them once; "
        f"{len(pieces):,} different target tokens, {rare:,} of them fewer than 20 times."
    )
    head = ["", "mean", "shortest", "median", "95%", "longest"]
    return Section(
        "Training data",
        [Text(said), Table(head, rows, range(1, 6)), Table(["not used because", "pairs"], rejected, (1,))],
    )


def sentence_section(outcome: Outcome, shown: int) -> list[Section]:
    """Of one run its worst sentences; of several, what each other run wins and loses most."""
    base, *others = outcome.outputs
    of_base = outcome.sentences[base]
    sign = 1 if outcome.compared[0][0].score.higher_is_better else -1
    if not others:
        worst = sorted(range(len(of_base)), key=lambda i: (sign * of_base[i], i))[:shown]
        return [Section("Worst sentences", [_sentence(outcome, i, [base]) for i in worst])]
    sections = []
    for other in others:
        gains = [sign * (own - before) for own, before in zip(outcome.sentences[other], of_base, strict=True)]
        order = sorted(range(len(gains)), key=lambda i: (-gains[i], i))
        for title, chosen in (("wins", order[:shown]), ("losses", order[::-1][:shown])):
            blocks: list[Block] = [
                _sentence(outcome, i, [base, other]) for i in chosen if (gains[i] > 0) == (title == "wins") and gains[i]
            ]
            sections.append(Section(f"Largest {title} of {other}", blocks or [Text("None.")]))
    return sections


def _sentence(outcome: Outcome, i: int, names: Sequence[str]) -> Details:
    example = outcome.examples[i]
    scores = ", ".join(f"{name} {outcome.sentences[name][i]:.1f}" for name in names)
    blocks: list[Block] = []
    gold = read(example.tgt)
    html = [("source", escape(example.src))]
    if gold is None:
        html.append(("reference", escape(example.tgt)))
        html += [(name, diff_html(example.tgt, outcome.hyps(name)[i])) for name in names]
    text = "; ".join(f"{name}: {outcome.hyps(name)[i]}" for name in names)
    said = "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in html) + "</dl>"
    blocks.append(Text(f"source: {example.src}; reference: {example.tgt}; {text}", said))
    for name in names:
        if gold is not None:
            blocks += _trees(name, outcome.hyps(name)[i], example.tgt)
        others = [candidate.hyp for candidate in outcome.outputs[name][i].nbest[1:]]
        if others:
            rows = [[f"{k}", hyp] for k, hyp in enumerate(others, 2)]
            blocks.append(Details(f"Alternatives of {name}", [Table(["rank", "output"], rows, (0,))]))
    return Details(f"{scores}: {example.src[:90]}", blocks)


def _trees(name: str, hyp: str, gold: str) -> list[Block]:
    """Both trees; brackets that only one of them has are framed and marked."""
    one, other = read(hyp), read(gold)
    if one is None or other is None:
        return [Text(f"{name}: {hyp}")]
    extra, missing = compare_brackets(one, other)

    said = f"{name}: wrong brackets (+): {_words(extra)}; missing from it (−): {_words(missing)}."
    return [
        Text(said),
        Picture(drawn(one, extra, "+"), f"The tree of {name}: {hyp}"),
        Picture(drawn(other, missing, "−"), f"The gold tree: {gold}"),
    ]


def _words(wrong: Counter[Bracket]) -> str:
    """Brackets, by the numbers of their words from 1."""
    return ", ".join(f"{b.label} over words {b.begin + 1} to {b.end}" for b in sorted(wrong.elements())) or "none"


def _with_interval(score: Score) -> str:
    interval = "" if score.low is None else f" [{score.low:.1f}, {score.high:.1f}]"
    return f"{score.value:.1f}{interval}"
