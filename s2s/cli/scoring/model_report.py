"""The output of s2s-score model=RUN: the probability of given outputs under models, printed while they are read."""

from __future__ import annotations

__all__ = ["JsonReport", "ScoreReport", "ScoredOutput", "TextReport"]

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from s2s.cli.scoring.total import Total, perplexity
from s2s.generation.scoring import ScoredTarget

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class ScoredOutput:
    """One target with its score, and its tokens as text."""

    scored: ScoredTarget
    pieces: list[str]


class ScoreReport(Protocol):
    """An output format; its methods are called in the order of the output."""

    def model(self, name: str, checkpoint: str) -> None: ...
    def file(self, name: str, sentences: Iterable[ScoredOutput], total: Total) -> None:
        """Print the scores of a file; `total` is complete once all `sentences` are consumed."""

    def end(self) -> None: ...


class TextReport:
    """For people: a block per model, a line per file, preceded, with `per_sentence`, by a line per sentence."""

    def __init__(self, n_sentences: int, per_sentence: bool) -> None:
        self.head, self.per_sentence = f"{n_sentences:,} sentences\n", per_sentence

    def model(self, name: str, checkpoint: str) -> None:
        print(f"{self.head}\nppl (lower is better)  model:{name}|checkpoint:{checkpoint}|ends:counted")
        self.head = ""

    def file(self, name: str, sentences: Iterable[ScoredOutput], total: Total) -> None:
        if self.per_sentence:
            print(f"\n  {name}\n  sentence      log p   tokens        ppl")
        for number, judged in enumerate(sentences, 1):
            if self.per_sentence:
                log_prob, n = judged.scored.log_prob, len(judged.scored.log_probs)
                print(f"  {number:8}  {log_prob:9.2f}  {n:7}  {perplexity(log_prob, n):9.2f}")
        print(
            f"  {name}  {total.ppl:.2f}  per word {total.word_ppl:.2f}, "
            f"log p {total.log_prob:.2f} of {total.n_tokens:,} tokens, {total.words:,} words"
        )

    def end(self) -> None:
        pass


class JsonReport:
    """One object; `scores` has an entry for every model and file, whose `sentences` are printed as they are scored."""

    def __init__(self, n_sentences: int, per_sentence: bool) -> None:
        self.before, self.per_sentence = f'{{"sentences": {n_sentences}, "scores": [\n', per_sentence
        self.of: dict[str, str] = {}

    def model(self, name: str, checkpoint: str) -> None:
        self.of = {"model": name, "checkpoint": checkpoint}

    def file(self, name: str, sentences: Iterable[ScoredOutput], total: Total) -> None:
        print(self.before, json.dumps({**self.of, "system": name}, ensure_ascii=False)[:-1], sep="", end="")
        self.before = ","
        if self.per_sentence:
            print(', "sentences": [', end="")
        for number, judged in enumerate(sentences):
            if self.per_sentence:
                print(",\n " if number else "\n ", json.dumps(_sentence(judged), ensure_ascii=False), end="")
        print("]" if self.per_sentence else "", end="")
        totals = {"name": "ppl", "value": _number(total.ppl), "word_ppl": _number(total.word_ppl)}
        counts = {"log_prob": _number(total.log_prob), "n_tokens": total.n_tokens, "words": total.words}
        print(f", {json.dumps(totals | counts)[1:]}")

    def end(self) -> None:
        print("]}")


def _sentence(judged: ScoredOutput) -> dict[str, Any]:
    scored = judged.scored
    log_probs = [_number(p) for p in scored.log_probs]
    own = {"log_prob": _number(scored.log_prob), "ppl": _number(perplexity(scored.log_prob, len(scored.log_probs)))}
    return {**own, "tokens": scored.tokens, "pieces": judged.pieces, "log_probs": log_probs}


def _number(value: float) -> float | None:
    """A JSON-serialisable number; None if not finite."""
    return round(value, 6) if math.isfinite(value) else None
