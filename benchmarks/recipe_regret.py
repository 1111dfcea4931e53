"""How far the sizes chosen by recipe=auto fall behind the best of the training runs that others have recorded.

    python benchmarks/recipe_regret.py FOLDER [words=1.5]

FOLDER contains the files that recorded_runs.py reads: 1,865 Transformers, one seed each.

A policy chooses a size for each corpus, and is scored by the nearest recorded size. Their schedule is not ours, so each
size is scored with its best learning rate; for recipe=auto also with the one nearest to its own. Regret: the best
BLEU of all runs minus that, so 0 is best. Beaten: the share of all runs that are worse. words=1.5: as if every pair had
one and a half times as many words.
"""

from __future__ import annotations

import sys
from functools import partial
from math import log2
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from recorded_runs import Size, Table, nearest, read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from s2s_plan import Fingerprint

HOURS = 8
RATES = 2e13, 2e14
"""Assumed fp32 and bf16 operations per second of the machine, one GPU with 40 GiB"""


class Corpus(NamedTuple):
    """The training corpus of a table of runs."""

    n_pairs: int
    """Zhang and Duh (2020), at second hand but for so-en, where the README of the runs has it"""
    words: float
    """Target words of a pair: assumed; 20 is what the README of the multitarget TED talks comes to"""


CORPORA = {
    "sw-en": Corpus(24_000, 20),
    "so-en": Corpus(24_000, 20),
    "ru-en": Corpus(170_000, 20),
    "ja-en": Corpus(4_000_000, 10),
    "en-ja": Corpus(4_000_000, 10),
}
"""zh-en is left out: the parameters of its runs do not depend on the merges, and in 28 of 44 groups BLEU does not"""

ARAABI_MONZ = {
    5_000: Size(5_000, 5, 512, 512, 2),
    10_000: Size(10_000, 5, 512, 1024, 2),
    20_000: Size(10_000, 5, 512, 1024, 2),
    40_000: Size(12_000, 5, 512, 2048, 2),
    80_000: Size(15_000, 5, 512, 2048, 2),
    165_000: Size(20_000, 5, 512, 2048, 2),
}
"""Pairs -> the size that Araabi and Monz (2020) found best there, at second hand; its dropout is not in the runs"""
BASE = Size(32_000, 6, 512, 2048, 8)


def fingerprint(corpus: Corpus) -> Fingerprint:
    """The fingerprint that the rule reads; vocabulary types by Heaps' law, which do not affect the result here."""
    from s2s_plan import Fingerprint, Side

    length, words = round(corpus.words), round(corpus.n_pairs * corpus.words)
    side = Side(words, 6 * words, 5 * int(words**0.65), (length, 2 * length, 3 * length, 4 * length))
    return Fingerprint(corpus.n_pairs, 0, side, side, 0.0)


def planned(corpora: Mapping[str, Corpus]) -> dict[str, tuple[Size, float]]:
    """Sizes, with a joint vocabulary, and learning rates that recipe=auto plans for one GPU and eight hours."""
    from s2s import load_plugins
    from s2s.compose import compose
    from s2s.config import Config
    from s2s_plan import AutoConfig, Hardware, Situation
    from s2s_plan.rule import auto

    config = compose(Config, ["task=translation"], load_plugins()).config
    hardware = Hardware("cuda", 1, 0, *RATES, 40 * 2**30)
    found = {}
    for name, corpus in corpora.items():
        seconds, option = 3600.0 * HOURS, "task.vocab_size"
        situation = Situation(fingerprint(corpus), hardware, config, {}, seconds, vocab_size_option=option)
        plan = {decision.key: decision.value for decision in auto(AutoConfig(name="auto"))(situation)}
        options = (plan[f"arch.{o}"] for o in ("n_encoder_layers", "d_model", "d_ff", "n_heads"))
        found[name] = Size(plan["task.vocab_size"], *options), plan["schedule.lr"]
    return found


def scaled(plans: Mapping[str, Size], corpus: str, **factors: float) -> Size:
    """A plan with some options scaled."""
    plan = plans[corpus]
    return plan._replace(**{option: factor * getattr(plan, option) for option, factor in factors.items()})


def araabi_monz(corpus: str) -> Size | None:
    """The size in Araabi and Monz's row nearest in pairs; None if the corpus is more than twice as large as theirs."""
    pairs = CORPORA[corpus].n_pairs
    row = min(ARAABI_MONZ, key=lambda n: abs(log2(n / pairs)))
    return ARAABI_MONZ[row] if pairs <= 2 * row else None


def winner_elsewhere(tables: Mapping[str, Table], corpus: str) -> Size:
    """The best recorded size on the other corpus nearest in pairs (the first on a tie)."""
    pairs = CORPORA[corpus].n_pairs
    other = min((c for c in tables if c != corpus), key=lambda c: abs(log2(CORPORA[c].n_pairs / pairs)))
    return max(tables[other].sizes, key=lambda size: tables[other].sizes[size])


def policies(plans: Mapping[str, Size], tables: Mapping[str, Table]) -> dict[str, Callable[[str], Size | None]]:
    """A joint vocabulary serves both sides: each uses at least half of it, and the runs have one for each side."""
    return {
        "recipe=auto, half of its vocabulary a side": partial(scaled, plans, vocab=0.5),
        "recipe=auto, its whole vocabulary a side": partial(scaled, plans),
        "Transformer base, 32k": lambda _: BASE,
        "Araabi and Monz (2020), size alone": araabi_monz,
        "winner of the other corpus nearest in pairs": partial(winner_elsewhere, tables),
    }


def variants(plans: Mapping[str, Size]) -> dict[str, Callable[[str], Size]]:
    """The rule, and the rule with one constant changed."""
    return {
        "as it is": partial(scaled, plans, vocab=0.5),
        "two layers at width 256": lambda corpus: _two_layers(scaled(plans, corpus, vocab=0.5)),
        "half as many subwords": partial(scaled, plans, vocab=0.25),
        "twice as many subwords": partial(scaled, plans, vocab=1),
        "two thirds of the layers": partial(scaled, plans, vocab=0.5, n_layers=2 / 3),
        "half as wide": partial(scaled, plans, vocab=0.5, d_model=0.5, d_ff=0.5),
        "twice as wide": partial(scaled, plans, vocab=0.5, d_model=2, d_ff=2),
    }


def _two_layers(size: Size) -> Size:
    return size._replace(n_layers=2) if size.d_model == 256 else size


def left_out(regrets: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[str, float]]:
    """Corpus -> the variant with the lowest mean regret on the other corpora, and its regret on this one.

    regrets: variant -> corpus -> regret.
    """
    corpora = next(iter(regrets.values())).keys()

    def elsewhere(corpus: str, name: str) -> float:
        return fmean(regret for c, regret in regrets[name].items() if c != corpus)

    chosen = {corpus: min(regrets, key=partial(elsewhere, corpus)) for corpus in corpora}
    return {corpus: (name, regrets[name][corpus]) for corpus, name in chosen.items()}


def describe(size: Size) -> str:
    """16k 4 x 256/1024/8"""
    vocab, *rest = (f"{value:g}" for value in (size.vocab / 1000, *size[1:]))
    return f"{vocab}k {rest[0]} x {'/'.join(rest[1:])}"


def row(*cells: object) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def print_policies(tables: Mapping[str, Table], plans: Mapping[str, Size], rates: Mapping[str, float]) -> None:
    """Print a row for each corpus and policy."""
    print(row("corpus", "policy", "size", "nearest recorded", "BLEU", "regret", "beaten", "at its rate"))
    print(row(*8 * ["---"]))
    for corpus, table in tables.items():
        top = max(table.sizes, key=lambda size: table.sizes[size])
        scores = [(f"best of {len(table.bleu)} runs", describe(top), "", table.best, "")]
        for name, policy in policies(plans, tables).items():
            if size := policy(corpus):
                close, own = "; ".join(map(describe, nearest(table.sizes, size))), name.startswith("recipe")
                at_rate = f"{table.best - table.of(size, rates[corpus]):.2f}" if own else ""
                scores.append((name, describe(size), close, table.of(size), at_rate))
        scores.append(("a size at random, its best learning rate", "", "", fmean(table.sizes.values()), ""))
        scores.append(("a run at random", "", "", fmean(table.bleu), ""))
        scores.append(("the median run", "", "", median(table.bleu), ""))
        for *cells, bleu, at_rate in scores:
            figures = f"{bleu:.2f}", f"{table.best - bleu:.2f}", f"{table.beaten(bleu):.0%}"
            print(row(corpus, *cells, *figures, at_rate))


def print_variants(tables: Mapping[str, Table], plans: Mapping[str, Size]) -> None:
    """Print a row of regrets for each changed constant, and one for the change selected on the other corpora."""
    regrets = {
        name: {corpus: table.best - table.of(change(corpus)) for corpus, table in tables.items()}
        for name, change in variants(plans).items()
    }
    print(row("constant", *tables, "mean"), row(*(len(tables) + 2) * ["---"]), sep="\n")
    for name, of in regrets.items():
        print(row(name, *(f"{regret:.2f}" for regret in of.values()), f"{fmean(of.values()):.2f}"))
    chosen = left_out(regrets)
    cells = (f"{regret:.2f} ({name})" for name, regret in chosen.values())
    print(row("chosen on the other corpora", *cells, f"{fmean(regret for _, regret in chosen.values()):.2f}"))


def main(folder: str, *arguments: str) -> None:
    """Print both tables."""
    factor = float(dict(argument.split("=", 1) for argument in arguments).get("words", 1))
    tables = {corpus: read_table(Path(folder), corpus) for corpus in CORPORA}
    corpora = {name: corpus._replace(words=factor * corpus.words) for name, corpus in CORPORA.items()}
    found = planned(corpora)
    plans = {name: size for name, (size, _) in found.items()}
    print_policies(tables, plans, {name: rate for name, (_, rate) in found.items()})
    print()
    print_variants(tables, plans)


if __name__ == "__main__":
    main(*sys.argv[1:])
