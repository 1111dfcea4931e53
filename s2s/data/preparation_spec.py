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

from s2s.compose.conversion import build_choice
from s2s.config.data import DataConfig
from s2s.data.held_out import HeldOutTexts
from s2s.data.manifest import MANIFEST, Manifest
from s2s.data.pair_rules import LengthLimits, PairRules, TextRule
from s2s.errors import DataError, PluginError
from s2s.io.paths import expand_user
from s2s.plugin import load_plugins
from s2s.registry import Registry
from s2s.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.data.file_stamp import FileStamp

FORMAT = 2
SPLITS = ("train", "valid")
"""Prepared splits; a test set is read as it is"""
HELD_OUT = ("valid", "test")
"""Splits with which training text is compared"""


@dataclass(frozen=True)
class PreparationSpec:
    """Everything that determines the contents of a prepared folder."""

    task: Task
    config: DataConfig
    registry: Registry | None = None
    """Where data.rules are looked up; None: among the installed plugins"""

    @cached_property
    def files(self) -> list[Path]:
        """The input files, sorted."""
        tests = self.task.test_dependencies().files if self.held_out else ()
        return sorted({*map(Path, self.task.dependencies().files), *map(Path, tests), *self.tokenizer_files})

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
        return self._named(SPLITS)

    @cached_property
    def held_out(self) -> list[tuple[str, str]]:
        """Split and name of the corpora whose texts may not be trained on; none if data.decontaminate is off."""
        return [(split, name) for split, name, _ in self._named(HELD_OUT)] if self.config.decontaminate else []

    def _named(self, splits: Sequence[str]) -> list[tuple[str, str, float]]:
        corpora = [(split, corpus) for split in splits for corpus in self.task.corpora(split)]
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
            **({"held_out": self._held_out_settings()} if self.held_out else {}),
            **({"rules": self.config.rules} if self.config.rules else {}),
        }

    def _held_out_settings(self) -> dict[str, Any]:
        tests = self.task.test_dependencies()
        files = [str(file) for file in tests.files]
        return {
            "letters": self.config.decontaminate_letters,
            "corpora": self.held_out,
            "tests": [tests.settings, files],
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

    def rules(self, split: str, held_out: HeldOutTexts | None = None) -> PairRules:
        """From a development set only empty pairs are dropped, so that its score does not depend on an option."""
        longest = self.config.max_len
        if split != "train":
            return PairRules(LengthLimits(None, None, longest))
        texts: list[TextRule] = [held_out] if held_out else []
        return PairRules(LengthLimits(longest, self.config.max_ratio, longest), [*texts, *self._chosen_rules])

    @cached_property
    def _chosen_rules(self) -> list[TextRule]:
        """Those of data.rules."""
        registry = self.registry or load_plugins().registry
        return [build_choice(one, "pair_rule", registry, f"data.rules[{n}]") for n, one in enumerate(self.config.rules)]

    def read_held_out(self) -> HeldOutTexts | None:
        """The texts that may not be trained on; None if there are none. DataError names a test set that is missing."""
        texts = HeldOutTexts(self.config.decontaminate_letters)
        for split, name in self.held_out:
            try:
                texts.add(f"{split} {name}", self.task.examples(split, name))
            except DataError as error:
                hint = "training text is compared with it, unless data.decontaminate=false"
                raise DataError(f"{error}; {hint}" if split == "test" else str(error)) from None
        return texts if self.held_out else None


def _has_name_and_weight(corpus: Any, *, may_be_zero: bool) -> bool:
    match corpus:
        case (str(), int() | float() as weight):
            return 0 < weight < inf or (may_be_zero and weight == 0)
    return False
