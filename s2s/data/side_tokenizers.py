"""The tokenisers of a task of text to text, in a folder: one of both sides, or one of each."""

from __future__ import annotations

__all__ = ["SideTokenizers"]

import json
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.errors import DataError
from s2s.io.json_files import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from s2s.data.tokenizer import Tokenizer, TokenizerKind
    from s2s.vocab import Side

T = TypeVar("T")
SIDES: tuple[Side, Side] = ("src", "tgt")
TASK_FILE = "task.json"
"""Beside the tokenisers: which they are, and how their texts are cased"""


class SideTokenizers:
    """Learns, changes and loads the tokenisers of both sides; each file is named after its side, or `joint`."""

    def __init__(self, kind: TokenizerKind, sizes: Mapping[str, tuple[str, int]], *, lowercase: bool) -> None:
        """sizes: as `TextConfig.sizes` gives them. lowercase: whether the task lower-cases texts."""
        self.kind, self.sizes, self.lowercase = kind, sizes, lowercase
        self.samples: dict[str, str] = {}
        """Which of its lines each was learnt from, if not from all"""

    def learn(self, directory: Path, lines: Callable[[str], Iterable[str]], symbols: Sequence[str]) -> None:
        """Train them; lines: the texts of a side, or of `joint`."""
        for side, (option, size) in self.sizes.items():
            sample = self.kind.learn(lines(side), _file(directory, side), size, symbols=symbols, option=option)
            if sample:
                self.samples[side] = sample
        self._record(directory)

    def extend(self, directory: Path, lines: Callable[[str], Iterable[str]], n_tokens: int) -> None:
        """Add frequent tokens, as `TokenizerKind.extend`."""
        for side in self.sizes:
            self.kind.extend(lines(side), _file(directory, side), n_tokens)
        self._record(directory)

    def changed(self, directory: Path, change: Callable[[Path], Mapping[Side, T]]) -> dict[Side, T]:
        """What a change of the files returns for each side."""
        changes = {name: change(_file(directory, name)) for name in self.sizes}
        self._record(directory)
        return {side: changes[side if side in changes else "joint"][side] for side in SIDES}

    def load(self, directory: Path) -> tuple[Tokenizer, Tokenizer]:
        """Those of sources and of targets; raises DataError if they do not fit the configuration."""
        written = _read_settings(directory / TASK_FILE)
        if written["lowercase"] is not self.lowercase:
            raise DataError(
                f"{directory}: made with task.lowercase={str(written['lowercase']).lower()}; "
                "configure the same, or prepare again"
            )
        models, self.samples = self._models(directory), dict(written.get("samples", {}))
        for side, model in models.items():
            if model.identity != written["models"].get(side):
                raise DataError(
                    f"{model.path}: its vocabulary is {model.identity[:12]}, but {TASK_FILE} beside it was written "
                    f"for {str(written['models'].get(side))[:12]}; copy the folder whole, or prepare again"
                )
        src, tgt = (models[side if side in models else "joint"].for_side(side) for side in SIDES)
        return src, tgt

    def _models(self, directory: Path) -> dict[str, Tokenizer]:
        return {side: self.kind.load(_file(directory, side)) for side in self.sizes}

    def _record(self, directory: Path) -> None:
        """Write which tokenisers these are."""
        models = {side: model.identity for side, model in self._models(directory).items()}
        written = {"lowercase": self.lowercase, "models": models}
        if self.samples:
            written["samples"] = self.samples
        (directory / TASK_FILE).write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


def _file(directory: Path, side: str) -> Path:
    return directory / f"{side}.model"


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        written = read_json(path)
        if isinstance(written["models"], dict) and isinstance(written["lowercase"], bool):
            return written
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise DataError(f"{path}: missing or damaged; delete its folder and prepare again")
