"""Lines in, outputs out, in the order of the lines.

A window of lines is read ahead and encoded at once; the longest are decoded first, as many as there is room for.
"""

from __future__ import annotations

__all__ = ["Candidate", "Counts", "Generator", "Output", "evaluating"]

import contextlib
import itertools
import logging
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from s2s.batch import make_batch
from s2s.config import GenerateConfig
from s2s.decoding import Found, Hypothesis, StreamingSearch
from s2s.decoding.constraints import constraint_of
from s2s.decoding.queue import Queue, Source
from s2s.errors import DataError
from s2s.forking import in_forks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.decoding import Search
    from s2s.model import Seq2Seq
    from s2s.task import Task

logger = logging.getLogger(__name__)

AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}

WORTH_A_WORKER = 8
"""Inputs without which another process is not worth its beginning"""


@dataclass(frozen=True)
class Candidate:
    """One possible output for an input."""

    hyp: str
    """Text"""
    score: float
    """What candidates are ranked by: the log-probability over the length penalty"""
    tokens: list[int]
    """Ids of its symbols, without bos and eos"""
    log_probs: list[float]
    """Of each symbol under the model, and last of eos"""


NOTHING = Candidate(hyp="", score=0.0, tokens=[], log_probs=[])
"""All that an empty input can become: it is not searched"""
UNANSWERED = Candidate(hyp="", score=-math.inf, tokens=[], log_probs=[])
"""Stands for the output of an input for which the search found none, with what the task falls back on"""


@dataclass(frozen=True)
class Output:
    """What came out for one input."""

    src: str
    nbest: list[Candidate]
    """Best first; one of score -inf where the search found nothing"""

    @property
    def best(self) -> Candidate:
        """The best candidate."""
        return self.nbest[0]

    @property
    def hyp(self) -> str:
        """Text of the best candidate."""
        return self.best.hyp

    @property
    def score(self) -> float:
        """Score of the best candidate."""
        return self.best.score

    @property
    def tokens(self) -> list[int]:
        """Ids of the best candidate."""
        return self.best.tokens


@dataclass
class Counts:
    """What a generator has done so far."""

    inputs: int = 0
    empty: int = 0
    """Inputs without a symbol, whose output is empty"""
    truncated: int = 0
    """Inputs that were cut to the longest allowed"""
    unanswered: int = 0
    """Inputs for which the search found no output"""
    tokens: int = 0
    """Symbols of the best outputs, with eos"""


class Generator:
    """Turns lines into outputs with a model in memory, which stays in the mode in which it is."""

    def __init__(
        self,
        model: Seq2Seq,
        task: Task,
        search: Search,
        device: torch.device | str,
        config: GenerateConfig | None = None,
    ) -> None:
        self.model, self.task, self.search = model, task, search
        self.device = torch.device(device)
        self.config = config or GenerateConfig()
        self.constraint = constraint_of(self.config, task)
        self.counts = Counts()

    @property
    def longest(self) -> int:
        """Most symbols of an input, with eos."""
        limit = self.model.max_len
        return self.config.max_source if limit is None else min(self.config.max_source, limit)

    def __call__(self, lines: Iterable[str]) -> Iterator[Output]:
        """An output for each line, in order; while the first are taken, at most a window is read ahead."""
        lines = iter(lines)
        while window := list(itertools.islice(lines, self.config.window)):
            yield from self.window(window)

    def window(self, lines: Sequence[str]) -> Iterator[Output]:
        """An output for each of these lines, in order, each as soon as those before it are there."""
        yield from self._window([self.task.read_raw(line) for line in lines] if self.config.raw else lines)

    def _window(self, lines: Sequence[str]) -> Iterator[Output]:
        encoded = self._encode(lines)
        if len(encoded) < len(lines):
            yield from self._window(lines[: len(encoded)])
            raise DataError(self._too_long(lines[len(encoded)]))
        outputs = [None if ids else Output(line, [NOTHING]) for line, ids in zip(lines, encoded, strict=True)]
        n_given = 0
        for found in itertools.chain(self._search(encoded), [[]]):
            for place, hypotheses in found:
                outputs[place] = self._output(lines[place], hypotheses)
            while n_given < len(lines) and (output := outputs[n_given]):
                self._count(output)
                yield output
                n_given += 1

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, cut where too long; where that is an error, of those before the first."""
        ids_of_filled = iter(self.task.encode_source([line for line in lines if line.strip()]))
        encoded = [next(ids_of_filled) if line.strip() else [] for line in lines]
        room = self.longest - 1  # for eos
        for place, ids in enumerate(encoded):
            if len(ids) <= room:
                continue
            if self.config.too_long == "error":
                return encoded[:place]
            if not self.counts.truncated:
                logger.warning("%s; cut, and so will others be", self._too_long(lines[place]))
            self.counts.truncated += 1
            encoded[place] = ids[:room]
        return encoded

    def _too_long(self, line: str) -> str:
        n_symbols = len(self.task.encode_source([line])[0]) + 1
        return (
            f"an input of {n_symbols:,} symbols is longer than the {self.longest:,} allowed (max_source, or "
            f"the model's own limit): {line[:60]!r}{'…' if len(line) > 60 else ''}"
        )

    def _search(self, encoded: Sequence[list[int]]) -> Iterator[Iterable[Found]]:
        """What is found for those that have symbols, the longest first, as soon as it is there."""
        places = sorted((i for i, ids in enumerate(encoded) if ids), key=lambda i: -len(encoded[i]))
        sources = [Source(i, [*encoded[i], self.task.vocab.eos]) for i in places]
        n_workers = min(self.config.workers, len(sources) // WORTH_A_WORKER)
        if n_workers < 2:
            return self._found(sources)
        shares = [sources[i::n_workers] for i in range(n_workers)]
        values = in_forks([lambda share=share: map(_as_values, self._found(share)) for share in shares])  # type: ignore[misc]
        return map(_from_values, values)

    def _found(self, sources: list[Source]) -> Iterator[Iterable[Found]]:
        dtype = AUTOCAST[self.config.precision]
        found = self._stream(sources) if isinstance(self.search, StreamingSearch) else self._batches(sources)
        while True:
            with evaluating(self.model), torch.autocast(self.device.type, dtype, enabled=dtype is not None):
                some = next(found, None)
            if some is None:
                return
            yield some

    def _stream(self, sources: list[Source]) -> Iterator[Iterable[Found]]:
        assert isinstance(self.search, StreamingSearch)
        queue, vocab = Queue(sources, self.config.tokens), self.task.vocab
        return self.search.stream(self.model, queue, vocab, self.device, self.constraint, self.config.nbest)

    def _batches(self, sources: list[Source]) -> Iterator[Iterable[Found]]:
        """For a search that knows batches alone: one ends before the next begins."""
        queue, vocab = Queue(sources, self.config.tokens), self.task.vocab
        while batch := queue.admit(0):
            rows = make_batch([(source.ids[:-1], []) for source in batch], vocab).to(self.device)
            outputs = self.search(self.model, rows.src, rows.src_pad, vocab, self.constraint, self.config.nbest)
            yield [Found(source.place, hypotheses) for source, hypotheses in zip(batch, outputs, strict=True)]

    def _output(self, line: str, hypotheses: Sequence[Hypothesis]) -> Output:
        if not hypotheses and not self.counts.unanswered:
            logger.warning(
                "no output within the length limit (search.max_len_a, search.max_len_b) for %r: the task's "
                "constraint allows none, or the model's logits are not finite",
                line[:60],
            )
        if not hypotheses:
            self.counts.unanswered += 1
            return Output(line, [replace(UNANSWERED, hyp=self.task.fallback(line))])
        texts = (self.task.detokenize(h.tokens, line) for h in hypotheses)
        pairs = zip(texts, hypotheses, strict=True)
        return Output(line, [Candidate(text, h.score, h.tokens, h.token_log_probs) for text, h in pairs])

    def _count(self, output: Output) -> None:
        self.counts.inputs += 1
        self.counts.empty += output.best is NOTHING
        self.counts.tokens += 0 if output.best is NOTHING or output.score == -math.inf else len(output.tokens) + 1


def _as_values(some: Iterable[Found]) -> list[tuple[int, list[dict[str, Any]]]]:
    """As JSON can hold it; numbers come back to the bit."""
    return [(found.place, [asdict(hypothesis) for hypothesis in found.hypotheses]) for found in some]


def _from_values(values: Iterable[tuple[int, list[dict[str, Any]]]]) -> list[Found]:
    return [Found(place, [Hypothesis(**fields) for fields in hypotheses]) for place, hypotheses in values]


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Without dropout; afterwards every module is in the mode in which it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
