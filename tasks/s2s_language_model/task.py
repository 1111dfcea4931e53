"""Lines as targets, each with the same source, which says nothing."""

from __future__ import annotations

__all__ = ["LanguageModel"]

import json
import shutil
from itertools import chain
from typing import TYPE_CHECKING

from s2s.data.files import expanded
from s2s.data.parallel import EMPTY
from s2s.data.subwords import Subwords
from s2s.data.text import blocks
from s2s.errors import ConfigError, DataError
from s2s.run import find_run
from s2s.run.tokenizer import MANIFEST, identity
from s2s.task import Encoded, Example, Rejected, Sources, Task, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s_language_model import LanguageModelConfig

NO_SOURCE = 4
"""The one source symbol beside the special ones"""
MODELS = ("tgt.model", "joint.model")
"""Where a run keeps the subwords of its outputs"""


class LanguageModel(Task):
    """Text in the symbols of another run, whose tokeniser is copied whole: so all can tell that they are the same."""

    config: LanguageModelConfig
    subwords: Subwords
    """Known, as `lowercase`, once `learn` or `load` has run"""
    lowercase: bool

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__(config)
        if not config.train or not config.tokenizer:
            raise ConfigError(
                f"task.train={config.train} task.tokenizer={config.tokenizer}: give both, the text and the run whose "
                "symbols it is cut into, as in task.train=news.de task.tokenizer=runs/my_run"
            )

    def sources(self) -> Sources:
        """The files, and the tokeniser."""
        files = [expanded(file, f"task.{split}") for split in ("train", "valid") for file in self._files(split)]
        return Sources(files, {"tokenizer": identity(self._tokenizer()), "invalid": self.config.invalid})

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        """Each file."""
        return [(file, 1.0) for file in self._files(split)]

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The lines of a file."""
        for line in chain.from_iterable(blocks(expanded(corpus, f"task.{split}"), self.config.invalid)):
            if isinstance(line, Rejected):
                yield line
            else:
                yield Example("", line) if line.strip() else EMPTY

    def learn(self, directory: Path) -> None:
        """Copy the tokeniser."""
        shutil.copytree(self._tokenizer(), directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST, ".*"))
        self.load(directory)

    def load(self, directory: Path) -> None:
        """Read the subwords of the target side."""
        path = next((path for name in MODELS if (path := directory / name).is_file()), None)
        if path is None:
            raise DataError(f"{directory}: neither {' nor '.join(MODELS)} is there; give a run that writes subwords")
        self.subwords = Subwords(path)
        try:
            self.lowercase = bool(json.loads((directory / "task.json").read_text(encoding="utf-8"))["lowercase"])
        except (OSError, ValueError, KeyError, TypeError):
            self.lowercase = False
        self.vocab = Vocab(src=NO_SOURCE + 1, tgt=self.subwords.size)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Ids of the lines, without bos and eos."""
        lines = [example.tgt.lower() if self.lowercase else example.tgt for example in examples]
        return [Encoded([NO_SOURCE], ids) for ids in self.subwords.encode(lines)]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """The same, whatever stands there."""
        return [[NO_SOURCE] for _ in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The text of target ids."""
        return self.subwords.decode(ids)

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """The subwords, of which ▁ begins a word."""
        return [self.subwords.pieces[i] for i in ids]

    def describe(self) -> Iterable[str]:
        """Whose symbols these are."""
        yield f"symbols of {self.config.tokenizer}, for fusion with runs that have the same"

    def _files(self, split: str) -> list[str]:
        given = getattr(self.config, split)
        files = [given] if isinstance(given, str) else list(given)
        if len(set(files)) < len(files):
            raise ConfigError(f"task.{split}={files} names a file twice; leave one out")
        return [file for file in files if file]

    def _tokenizer(self) -> Path:
        """The folder that is copied."""
        folder = expanded(self.config.tokenizer, "task.tokenizer")
        if any((folder / name).is_file() for name in MODELS):
            return folder
        return find_run(self.config.tokenizer, "task.tokenizer") / "tokenizer"
