"""From what a search found back to text."""

from __future__ import annotations

__all__ = ["Writer"]

import logging
import math
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from s2s.generator.texts import NOTHING, UNANSWERED, Candidate, Counts, Input, Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding import Hypothesis
    from s2s.generator.reading import Unit
    from s2s.task import Task

logger = logging.getLogger(__name__)


class Writer:
    """Writes outputs, and counts them."""

    def __init__(self, task: Task, counts: Counts) -> None:
        self.task, self.counts = task, counts

    def output(self, unit: Unit, hypotheses: Sequence[Hypothesis]) -> Output:
        """The output of a unit that was searched; without hypotheses, what the task falls back on."""
        if not hypotheses and not self.counts.unanswered:
            logger.warning(
                "no output within the length limit (search.max_len_a, search.max_len_b) for %r: the task's constraint "
                "or what is asked of the output allows none, or the model's logits are not finite",
                unit.src[:60],
            )
        if not hypotheses:
            self.counts.unanswered += 1
            return Output(unit.src, [replace(UNANSWERED, hyp=self.task.fallback(unit.src))])
        texts = (self.task.detokenize(h.tokens, unit.src) for h in hypotheses)
        pairs = zip(texts, hypotheses, strict=True)
        return Output(unit.src, [Candidate(text, h.score, h.tokens, h.token_log_probs) for text, h in pairs])

    def whole(self, given: Input, outputs: Sequence[Output]) -> Output:
        """The output of an input from those of its parts, the k-th best of each with the k-th best of the others."""
        output = replace(outputs[0], src=given.src) if len(outputs) == 1 else self._joined(given, outputs)
        self.counts.inputs += 1
        self.counts.empty += output.best is NOTHING
        self.counts.tokens += 0 if output.score == -math.inf else len(output.best.log_probs)
        return output

    def _joined(self, given: Input, outputs: Sequence[Output]) -> Output:
        candidates = []
        for k in range(max(len(output.nbest) for output in outputs)):
            parts = [output.nbest[min(k, len(output.nbest) - 1)] for output in outputs]
            text = self.task.join([part.hyp for part in parts])
            tokens = list(chain.from_iterable(part.tokens for part in parts))
            log_probs = list(chain.from_iterable(part.log_probs for part in parts))
            candidates.append(Candidate(text, sum(part.score for part in parts), tokens, log_probs))
        return Output(given.src, candidates)
