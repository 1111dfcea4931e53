"""s2s-score model=RUN: how probable models find given outputs, written while they are read."""

from __future__ import annotations

__all__ = ["likelihood"]

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from s2s.cli.aligned import names, stream_aligned
from s2s.distributed import pick_device
from s2s.errors import ConfigError, DataError
from s2s.run import find_run, load_run
from s2s.scoring import Scored, Total, perplexity, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from s2s.cli.command import Options
    from s2s.compose import ComposedConfig
    from s2s.config import ScoreConfig
    from s2s.plugin import Plugins
    from s2s.run import Run
    from s2s.task import Example


@dataclass(frozen=True)
class Judged:
    """One target, as its model sees it."""

    scored: Scored
    pieces: list[str]


class Report(Protocol):
    """A way to write it all down; calls come in the order of the file."""

    def model(self, name: str, checkpoint: str) -> None: ...
    def file(self, name: str, sentences: Iterable[Judged], total: Total) -> None:
        """`total` is right once all of the sentences were taken."""

    def end(self) -> None: ...


def likelihood(composed: ComposedConfig[ScoreConfig], plugins: Plugins, options: Options) -> None:
    """Print what every model says of every file of `hyp` and `ref`."""
    config = composed.config
    _refuse_others(composed)
    models = names(config.model, "model", "a run")
    files = [path for key in ("hyp", "ref") for path in _files(getattr(config, key), key)]
    if not files:
        raise ConfigError(f"model={config.model}: of which outputs? Give hyp=FILE, ref=FILE or both")
    n_sentences, pairs = stream_aligned(config.src, files)
    if options.dry_run:
        return print(f"{n_sentences:,} sentences, {len(files)} files, {len(models)} models: ready")
    form = JsonReport if config.format == "json" else TextReport
    report: Report = form(n_sentences, config.per_sentence)
    device = pick_device(config.device, "device")
    for name in models:
        run = load_run(find_run(name), config.model_checkpoint, plugins, device)
        report.model(name, run.checkpoint_path.name)
        for path in files:
            total = Total()
            report.file(path, _judged(run, pairs, path, config, total), total)
    return report.end()


def _judged(
    run: Run, pairs: Callable[[str], Iterator[Example]], path: str, config: ScoreConfig, total: Total
) -> Iterator[Judged]:
    device = next(run.model.parameters()).device
    scored = score(run.model, run.task, pairs(path), device, config.tokens)
    for example in pairs(path):
        try:
            one = next(scored)
        except DataError as error:
            raise DataError(f"{config.src} and {path}, {error}") from None
        total.add(one, example.tgt)
        yield Judged(one, run.task.pieces(one.tokens, example.src) if config.per_sentence else [])


def _files(value: Any, key: str) -> list[str]:
    return names(value, key, "a file") if value else []


def _refuse_others(composed: ComposedConfig[ScoreConfig]) -> None:
    """What is for metrics alone says nothing here, and is not passed over in silence."""
    config = composed.config
    for key in config.metric_options:
        raise ConfigError(f"{key}: no such option of s2s-score with model={config.model}")
    if config.metrics is not None or composed.given.get("task"):
        key = "task" if config.metrics is None else "metrics"
        raise ConfigError(f"model={config.model} and {key}: the task is the run's, and no metric is taken; give one")


class TextReport:
    """For a reader: a block for every model, a line for every file, and before it one for every sentence."""

    def __init__(self, n_sentences: int, per_sentence: bool) -> None:
        self.head, self.per_sentence = f"{n_sentences:,} sentences\n", per_sentence

    def model(self, name: str, checkpoint: str) -> None:
        print(f"{self.head}\nppl (lower is better)  model:{name}|checkpoint:{checkpoint}|ends:counted")
        self.head = ""

    def file(self, name: str, sentences: Iterable[Judged], total: Total) -> None:
        if self.per_sentence:
            print(f"\n  {name}\n  sentence      log p  symbols        ppl")
        for number, judged in enumerate(sentences, 1):
            if self.per_sentence:
                log_prob, n = judged.scored.log_prob, len(judged.scored.log_probs)
                print(f"  {number:8}  {log_prob:9.2f}  {n:7}  {perplexity(log_prob, n):9.2f}")
        print(
            f"  {name}  {total.ppl:.2f}  per word {total.word_ppl:.2f}, "
            f"log p {total.log_prob:.2f} of {total.symbols:,} symbols, {total.words:,} words"
        )

    def end(self) -> None:
        pass


class JsonReport:
    """One object; `scores` has an entry for every model and file, whose `sentences` are written as they come."""

    def __init__(self, n_sentences: int, per_sentence: bool) -> None:
        self.before, self.per_sentence = f'{{"sentences": {n_sentences}, "scores": [\n', per_sentence
        self.of: dict[str, str] = {}

    def model(self, name: str, checkpoint: str) -> None:
        self.of = {"model": name, "checkpoint": checkpoint}

    def file(self, name: str, sentences: Iterable[Judged], total: Total) -> None:
        print(self.before, json.dumps({**self.of, "system": name}, ensure_ascii=False)[:-1], sep="", end="")
        self.before = ","
        if self.per_sentence:
            print(', "sentences": [', end="")
        for number, judged in enumerate(sentences):
            if self.per_sentence:
                print(",\n " if number else "\n ", json.dumps(_sentence(judged), ensure_ascii=False), end="")
        print("]" if self.per_sentence else "", end="")
        totals = {"name": "ppl", "value": _number(total.ppl), "word_ppl": _number(total.word_ppl)}
        counts = {"log_prob": _number(total.log_prob), "symbols": total.symbols, "words": total.words}
        print(f", {json.dumps(totals | counts)[1:]}")

    def end(self) -> None:
        print("]}")


def _sentence(judged: Judged) -> dict[str, Any]:
    scored = judged.scored
    log_probs = [_number(p) for p in scored.log_probs]
    own = {"log_prob": _number(scored.log_prob), "ppl": _number(perplexity(scored.log_prob, len(scored.log_probs)))}
    return {**own, "tokens": scored.tokens, "pieces": judged.pieces, "log_probs": log_probs}


def _number(value: float) -> float | None:
    """As JSON can hold it."""
    return round(value, 6) if math.isfinite(value) else None
