"""Alignment error rates of attention with and without objective=guided_alignment, and of the aligner that guides it.

    python benchmarks/alignment.py [FOLDER]

A language of which the alignment is known: sentences of noun phrases and a verb, whose translation puts adjectives
behind nouns and the verb at the end, spells articles by the noun's gender, splits some words into two, and leaves some
particles without a translation. Two Transformers are trained on it, one guided. Outputs are forced: the attention is
that of the references. AER as in Och and Ney (2003), every link being sure.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Links = set[tuple[int, int]]
"""Numbers of a source word and a target word"""
N_NOUNS, N_ADJECTIVES, N_VERBS, N_PARTICLES = 80, 40, 40, 8
GUIDED: dict[str, Any] = {"objective": "guided_alignment", "arch.alignment_heads": 1}
TRAIN, TEST, STEPS = 3000, 300, 600


class AlignedPair(NamedTuple):
    """Words of both sides, and the links that made them."""

    src: list[str]
    tgt: list[str]
    links: Links


def aligned_pairs(n: int, seed: int) -> list[AlignedPair]:
    """`n` pairs, which depend on the seed alone."""
    draw = random.Random(seed)
    return [_pair(draw) for _ in range(n)]


def aer(found: Iterable[Links], true: Iterable[Links]) -> float:
    """Alignment error rate of all pairs together, in percent, every true link being sure and possible."""
    counts = [(len(a & s), len(a) + len(s)) for a, s in zip(found, true, strict=True)]
    return 100 * (1 - 2 * sum(both for both, _ in counts) / sum(total for _, total in counts))


def _pair(draw: random.Random) -> AlignedPair:
    """A subject, a verb, and up to two objects and particles, in the order of the source; the target's verb is last."""
    src: list[str] = []
    tgt = _noun_phrase(draw, src)
    verb, at_verb = draw.randrange(N_VERBS), len(src)
    src.append(f"v{verb}")
    for _ in range(draw.randint(0, 2)):
        src += [f"p{draw.randrange(N_PARTICLES)}"] * (draw.random() < 0.4)
        tgt += _noun_phrase(draw, src)
    tgt += [(f"V{verb}", at_verb), *([(f"ge{verb % 5}", at_verb)] if verb % 4 == 0 else [])]
    return AlignedPair(src, [word for word, _ in tgt], {(j, i) for i, (_, j) in enumerate(tgt)})


def _noun_phrase(draw: random.Random, src: list[str]) -> list[tuple[str, int]]:
    """Adds article, adjectives and noun to the source; target words with the numbers of theirs."""
    noun = draw.randrange(N_NOUNS)
    adjectives = draw.sample(range(N_ADJECTIVES), draw.choice((0, 0, 1, 2)))
    first = len(src)
    src += ["the", *(f"a{one}" for one in adjectives), f"n{noun}"]
    at_noun = len(src) - 1
    words = [(f"D{noun % 3}", first), (f"N{noun}", at_noun)]
    words += [(f"suf{noun % 7}", at_noun)] if noun % 5 == 0 else []
    return words + [(f"A{one}", first + 1 + n) for n, one in enumerate(adjectives)]


def main() -> None:
    """Train both runs in a folder, and print one JSON object for each row."""
    import s2s

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/alignment"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    pairs = aligned_pairs(TRAIN, 1)
    for side in ("src", "tgt"):
        (folder / side).write_text("".join(f"{' '.join(getattr(pair, side))}\n" for pair in pairs))
    test = aligned_pairs(TEST, 2)
    for name, options in (("plain", {}), ("guided", GUIDED)):
        s2s.train(quiet=True, **_options(folder, name), **options)
        model = s2s.load(str(folder / name), "device=cpu", "matmul=exact")
        scores = model.score([" ".join(one.src) for one in test], [" ".join(one.tgt) for one in test])
        nll = -sum(one.log_prob for one in scores) / sum(len(one.log_probs) for one in scores)
        _show(run=name, aer=_aer_of_model(model, test), nll=round(nll, 4))
        if name == "guided":
            _show(run="aligner", aer=_aer_of_aligner(model, test))


def _options(folder: Path, name: str) -> dict[str, Any]:
    return {
        "task": "translation",
        "task.train": [str(folder / "src"), str(folder / "tgt")],
        "task.subword": "whitespace",
        "data.prepared": str(folder / "prepared"),
        "arch": "transformer_tiny",
        "arch.d_model": 64,
        "arch.d_ff": 128,
        "arch.n_heads": 4,
        "schedule": "inverse_sqrt",
        "schedule.lr": 2e-3,
        "schedule.warmup": 100,
        "train.steps": STEPS,
        "train.tokens": 400,
        "run": str(folder / name),
    }


def _aer_of_model(model: Any, test: Sequence[AlignedPair]) -> float:
    """Every target word linked to the source word that it attends to most, as s2s-generate does."""
    import torch

    from s2s.batch import make_batch

    found = []
    for pair in test:
        (encoded,) = model.task.encode([_example(pair)])
        batch = make_batch([encoded], model.task.vocab)
        with torch.no_grad():
            weights = model.model.attention(batch.src, batch.src_pad, batch.tgt_in)
        best = weights[0, : len(encoded.tgt), : len(encoded.src)].argmax(-1).tolist()
        found.append({(j, i) for i, j in enumerate(best)})
    return round(aer(found, [pair.links for pair in test]), 2)


def _aer_of_aligner(model: Any, test: Sequence[AlignedPair]) -> float:
    """The links that guide, learnt from the training pairs alone."""
    from s2s_guided_alignment import GuidedAlignmentConfig
    from s2s_guided_alignment.alignments import LearntAlignments

    align = LearntAlignments(GuidedAlignmentConfig(), model.task)
    encoded = model.task.encode([_example(pair) for pair in test])
    found = [{(int(j), int(i)) for i, j in zip(*align(one.src, one.tgt).nonzero(), strict=True)} for one in encoded]
    return round(aer(found, [pair.links for pair in test]), 2)


def _example(pair: AlignedPair) -> Any:
    from s2s import Example

    return Example(" ".join(pair.src), " ".join(pair.tgt))


def _show(**row: Any) -> None:
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
