"""The most informative sentences: the worst of a run, or the largest wins and losses of one run against another."""

from __future__ import annotations

__all__ = ["sentence_sections", "word_diff"]

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from s2s_report.attention import attention_of, explorer
from s2s_report.brackets import compare_brackets, draw_svg, read
from s2s_report.document import Details, Differences, Explorer, Picture, Section, Table, Text

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from s2s import TrainedModel
    from s2s.generation import Output
    from s2s_report import ReportConfig
    from s2s_report.brackets import Bracket
    from s2s_report.document import Block
    from s2s_report.outcome import Outcome


def sentence_sections(outcome: Outcome, config: ReportConfig, models: Mapping[str, TrainedModel]) -> list[Section]:
    """For one run, its worst sentences; for several, the largest wins and losses of each run against the first."""
    base, *others = outcome.outputs
    base_scores, shown = outcome.sentences[base], config.shown
    sign = 1 if outcome.compared[0][0].score.higher_is_better else -1

    def blocks(chosen: Sequence[int], names: Sequence[str]) -> list[Block]:
        with_attention = {name: models[name] for name in names if name in models}
        return [
            _sentence(outcome, i, names, with_attention if k < config.attention else {}) for k, i in enumerate(chosen)
        ]

    if not others:
        worst = sorted(range(len(base_scores)), key=lambda i: (sign * base_scores[i], i))[:shown]
        return [Section("Worst sentences", blocks(worst, [base]))]
    sections = []
    for other in others:
        gains = [sign * (after - before) for after, before in zip(outcome.sentences[other], base_scores, strict=True)]
        order = sorted(range(len(gains)), key=lambda i: (-gains[i], i))
        wins = [i for i in order[:shown] if gains[i] > 0]
        losses = [i for i in order[::-1][:shown] if gains[i] < 0]
        for title, chosen in (("wins", wins), ("losses", losses)):
            sections.append(Section(f"Largest {title} of {other}", blocks(chosen, [base, other]) or [Text("None.")]))
    return sections


def _sentence(outcome: Outcome, i: int, names: Sequence[str], models: Mapping[str, TrainedModel]) -> Details:
    """A sentence with the outputs of some runs, and with their attention for those in `models`."""
    example = outcome.examples[i]
    scores = ", ".join(f"{name} {outcome.sentences[name][i]:.1f}" for name in names)
    blocks: list[Block] = []
    gold = read(example.tgt)
    texts = [("source", [("", example.src)])] if example.src else []
    if gold is None:
        texts.append(("reference", [("", example.tgt)]))
        texts += [(name, word_diff(example.tgt, outcome.hyps(name)[i])) for name in names]
    text = "; ".join(f"{name}: {outcome.hyps(name)[i]}" for name in names)
    source = f"source: {example.src}; " if example.src else ""
    blocks.append(Differences(texts, f"{source}reference: {example.tgt}; {text}"))
    for name in names:
        if gold is not None:
            blocks += _trees(name, outcome.hyps(name)[i], example.tgt)
        others = [candidate.hyp for candidate in outcome.outputs[name][i].nbest[1:]]
        if others:
            rows = [[f"{k}", hyp] for k, hyp in enumerate(others, 2)]
            blocks.append(Details(f"Alternatives of {name}", [Table(["rank", "output"], rows, (0,))]))
        if name in models:
            blocks += _attention(name, models[name], outcome.outputs[name][i])
    return Details(f"{scores}: {(example.src or example.tgt)[:90]}", blocks)


def _attention(name: str, model: TrainedModel, output: Output) -> list[Block]:
    """The attention of every kind, layer and head; empty if the output is empty or the architecture provides none."""
    if not output.tokens:
        return []
    seen = attention_of(model.model, model.task, model.device, output.src, output.tokens)
    return [Details(f"Attention of {name}", [Explorer(explorer(seen), seen.words)])] if seen.maps else []


def _trees(name: str, hyp: str, gold: str) -> list[Block]:
    """Both trees, with brackets that only one of them has framed and marked."""
    one, other = read(hyp), read(gold)
    if one is None or other is None:
        return [Text(f"{name}: {hyp}")]
    extra, missing = compare_brackets(one, other)

    said = f"{name}: wrong brackets (+): {_words(extra)}; missing from it (−): {_words(missing)}."
    return [
        Text(said),
        Picture(draw_svg(one, extra, "+"), f"The tree of {name}: {hyp}", name),
        Picture(draw_svg(other, missing, "−"), f"The gold tree: {gold}", "gold"),
    ]


def _words(wrong: Counter[Bracket]) -> str:
    """Brackets in words, with word numbers from 1."""
    return ", ".join(map(_bracket, sorted(wrong.elements()))) or "none"


def _bracket(b: Bracket) -> str:
    where = f"word {b.end}" if b.end == b.begin + 1 else f"words {b.begin + 1} to {b.end}"
    return f"{b.label} over {where}"


def word_diff(old: str, new: str) -> list[tuple[str, str]]:
    """`new` in parts, each unmarked (""), missing from it ("del") or new in it ("ins")."""
    before, after = old.split(), new.split()
    parts = []
    for kind, i, j, k, m in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(("", " ".join(after[k:m])))
            continue
        parts += [("del", " ".join(before[i:j]))] * (j > i)
        parts += [("ins", " ".join(after[k:m]))] * (m > k)
    return parts
