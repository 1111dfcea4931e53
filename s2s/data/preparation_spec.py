"""What a prepared folder depends on, and where it is."""

from __future__ import annotations

__all__ = ["PreparationSpec"]

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.config.data import DataConfig
from s2s.data.manifest import MANIFEST, Manifest
from s2s.data.pair_rules import LengthLimits, PairRules
from s2s.errors import DataError, PluginError
from s2s.io.paths import expand_user
from s2s.task import Task

if TYPE_CHECKING:
    from s2s.data.file_stamp import FileStamp

FORMAT = 2
SPLITS = ("train", "valid")
"""Prepared splits; a test set is read as it is"""


@dataclass(frozen=True)
class PreparationSpec:
    """Everything that determines the contents of a prepared folder."""

    task: Task
    config: DataConfig

    @cached_property
    def files(self) -> list[Path]:
        """The input files, sorted."""
        return sorted({*map(Path, self.task.dependencies().files), *self.tokenizer_files})

    @cached_property
    def tokenizer(self) -> Path | None:
        """The folder of data.tokenizer, in which a run has its tokeniser; None: a vocabulary is learnt."""
        if not self.config.tokenizer:
            return None
        folder = expand_user(self.config.tokenizer, "data.tokenizer")
        return folder / "tokenizer" if (folder / "tokenizer").is_dir() else folder

    @cached_property
    def tokenizer_files(self) -> list[Path]:
        """The files of that tokeniser, without what a run records of them."""
        files = sorted(self.tokenizer.rglob("[!.]*")) if self.tokenizer else []
        return [file for file in files if file.is_file() and file.name != MANIFEST]

    @cached_property
    def corpora(self) -> list[tuple[str, str, float]]:
        """Split, name and weight of every corpus; raises PluginError for what is no such pair."""
        corpora = [(split, corpus) for split in SPLITS for corpus in self.task.corpora(split)]
        for split, corpus in corpora:
            if not _has_name_and_weight(corpus, may_be_zero=split != "train"):
                raise PluginError(
                    f"{type(self.task).__name__}.corpora({split!r}): expected pairs of a name and a positive weight, "
                    f"got {corpus!r}"
                )
        return [(split, *corpus) for split, corpus in corpora]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything but the contents of the files; weights are not included, since they change no prepared file."""
        return {
            "format": FORMAT,
            "task": self.task.config.name,
            "options": self.task.dependencies().settings,
            "files": [str(file) for file in self.task.dependencies().files],  # in order: [en, de] is not [de, en]
            "corpora": [[split, name] for split, name, _ in self.corpora],
            "max_len": self.config.max_len,
            "max_ratio": self.config.max_ratio,
            **({"tokenizer": self.config.tokenizer} if self.config.tokenizer else {}),
            **({"new_tokens": self.config.new_tokens} if self.config.new_tokens else {}),
        }

    @cached_property
    def directory(self) -> Path:
        """The prepared folder: one for each set of settings, whose hash is in its name."""
        text = json.dumps(self.settings, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        return expand_user(self.config.prepared, "data.prepared") / f"{self.task.config.name or 'task'}-{key}"

    def recorded_inputs(self) -> dict[str, FileStamp]:
        """The input files as they were when the prepared folder was made; DataError if there is no such folder."""
        try:
            return Manifest.read(self.directory).inputs
        except (OSError, KeyError, TypeError, ValueError):
            raise DataError(f"{self.directory} is missing or damaged: s2s-prepare makes it anew") from None

    def rules(self, split: str) -> PairRules:
        """From a development set only empty pairs are dropped, so that its score does not depend on an option."""
        longest = self.config.max_len
        if split != "train":
            return PairRules(LengthLimits(None, None, longest))
        return PairRules(LengthLimits(longest, self.config.max_ratio, longest))


def _has_name_and_weight(corpus: Any, *, may_be_zero: bool) -> bool:
    match corpus:
        case (str(), int() | float() as weight):
            return 0 < weight < inf or (may_be_zero and weight == 0)
    return False
