"""Where s2s-generate writes: standard output, or a file that a killed command can continue."""

from __future__ import annotations

__all__ = ["Screen", "made_of", "open_output", "summary"]

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.cli.records import FORMATS
from s2s.cli.resumable import ResumableFile
from s2s.data.lines import open_bytes
from s2s.durable import digest
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from s2s.config import GenerateConfig
    from s2s.generator import Counts
    from s2s.registry import Choice

SHAPING = ("format", "nbest", "tokens", "window", "max_source", "too_long", "precision")
"""Options on which the bytes of an output depend, beside input, checkpoint and search"""


class Screen:
    """Standard output, in UTF-8 whatever the locale, flushed at once: somebody may be waiting for it."""

    def is_done(self) -> bool:
        """Never."""
        return False

    def begin(self, made_of: Mapping[str, Any]) -> int:
        """0 outputs are there."""
        return 0

    resume = begin

    def write(self, lines: Iterable[str]) -> None:
        """Write lines."""
        sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode())
        sys.stdout.buffer.flush()

    def finish(self) -> None:
        """All is written."""

    def close(self) -> None:
        """Others may still write there."""

    def unfinished(self) -> str:
        """Nothing needs to be said."""
        return ""


def open_output(config: GenerateConfig) -> Screen | ResumableFile:
    """What `output` names; nothing is written yet."""
    _check(config)
    if config.output == "-":
        return Screen()
    return ResumableFile(Path(config.output), FORMATS[config.format].n_lines(config.nbest))


def _check(config: GenerateConfig) -> None:
    """What can be said about input and output before a model is loaded."""
    if config.nbest > 1 and config.format == "text":
        raise ConfigError(f"nbest={config.nbest} needs format=tsv or jsonl: text has one line for each input")
    source, target = Path(config.input), Path(config.output)
    if config.input != "-" and (source.is_file() or source.is_dir() or not source.exists()):
        with open_bytes(source):
            pass  # it can be opened, or says why not
    if config.resume and (config.output == "-" or not source.is_file()):
        raise ConfigError("resume=true compares files: give input=FILE and output=FILE")
    if source.is_file() and target.exists() and target.samefile(source):
        raise ConfigError(f"input and output are one file, {source}; give another output")


def made_of(config: GenerateConfig, checkpoint: Path, search: Choice, device: str) -> dict[str, Any]:
    """All that the bytes of an output file depend on; nothing where there is no such file."""
    if config.output == "-":
        return {}
    return {
        "input": digest(Path(config.input)) if Path(config.input).is_file() else config.input,
        "checkpoint": digest(checkpoint / "MANIFEST.json"),
        "search": asdict(search),
        "device": device,
        **{name: getattr(config, name) for name in SHAPING},
    }


def summary(counts: Counts, seconds: float) -> str:
    """How much was done, and how fast."""
    special = {"empty": counts.empty, "cut": counts.truncated, "without any output": counts.unanswered}
    notes = "".join(f", {count:,} {what}" for what, count in special.items() if count)
    n_inputs, n_tokens = counts.inputs / max(seconds, 1e-9), counts.tokens / max(seconds, 1e-9)
    return f"{counts.inputs:,} inputs{notes} in {seconds:.1f} s: {n_inputs:,.1f} sentences/s, {n_tokens:,.0f} tokens/s"
