"""The language model task: lines as targets, each with the same constant source."""

from __future__ import annotations

__all__ = ["LanguageModel"]

import shutil
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, DataError, Encoded, Example, Vocab
from s2s.data import CorpusOptions, CorpusTask, FileForm, tokenizer_kind
from s2s.io import expand_user, read_json
from s2s.run import find_run, tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from s2s import Registry, Side, TokenNames
    from s2s.data import Tokenizer
    from s2s_language_model import LanguageModelConfig

MODELS = ("tgt.model", "joint.model")
"""Files in which a run keeps the subword model of its outputs"""


MONOLINGUAL = FileForm(
    "monolingual",
    is_one=lambda _: False,
    accepts=lambda _: True,
    name_of=lambda files: str(files[0]),
    expected="a file, or several as {key}=[news.de,books.de]",
)
"""Every file is a corpus of its own."""


class LanguageModel(CorpusTask):
    """Text in the vocabulary of another run, whose tokeniser is copied so that both have the same identity."""

    config: LanguageModelConfig
    file_form = MONOLINGUAL
    subwords: Tokenizer
    """Set, as `lowercase` and `no_source`, by `learn` or `load`"""
    lowercase: bool
    no_source: int
    """Id of the only source token that is not special"""

    def __init__(self, config: LanguageModelConfig, registry: Registry | None = None) -> None:
        """Without a `registry`, corpora are those of the installed plugins."""
        if not config.train or not config.tokenizer:
            raise ConfigError(
                f"task.train={config.train} task.tokenizer={config.tokenizer}: give both, the text and the run whose "
                "vocabulary it gets, as in task.train=news.de task.tokenizer=runs/my_run"
            )
        super().__init__(config, registry, {"invalid": config.invalid})
        self._kind = tokenizer_kind(config.subword, self.data_sources.registry)

    def settings(self) -> dict[str, Any]:
        """The tokeniser with how its files are read."""
        return {"tokenizer": tokenizer.identity(self._tokenizer()), "subword": self._kind.recorded}

    def named_corpora(self, split: str) -> list[CorpusOptions]:
        """The corpora that the option of a split names; raises ConfigError for a file that is named twice."""
        given = getattr(self.config, split)
        if isinstance(given, list) and len(set(map(str, given))) < len(given):
            raise ConfigError(f"task.{split}={given} names a file twice; leave one out")
        return super().named_corpora(split)

    def learn(self, directory: Path) -> None:
        """Copy the tokeniser."""
        shutil.copytree(
            self._tokenizer(), directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(tokenizer.MANIFEST, ".*")
        )
        self.load(directory)

    def load(self, directory: Path) -> None:
        """Read the subwords of the target side."""
        path = next((path for name in MODELS if (path := directory / name).exists()), None)
        if path is None:
            raise DataError(f"{directory}: neither {' nor '.join(MODELS)} is there; give a run that writes subwords")
        self.subwords = self._kind.load(path)
        try:
            self.lowercase = bool(read_json(directory / "task.json")["lowercase"])
        except (OSError, ValueError, KeyError, TypeError):
            self.lowercase = False
        self.no_source = 1 + max(self.subwords.special)
        pad, unk, bos, eos = self.subwords.special
        self.vocab = Vocab(src=self.no_source + 1, tgt=self.subwords.size, pad=pad, unk=unk, bos=bos, eos=eos)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Ids of the lines, without bos and eos."""
        lines = [example.tgt.lower() if self.lowercase else example.tgt for example in examples]
        return [Encoded([self.no_source], ids) for ids in self.subwords.encode(lines)]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """The same ids for every line."""
        return [[self.no_source] for _ in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The text of target ids."""
        return self.subwords.decode(ids)

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """The subwords, of which ▁ begins a word."""
        return [self.subwords.pieces[i] for i in ids]

    def spellings(self) -> Sequence[bytes] | None:
        """As the tokeniser."""
        return self.subwords.spellings

    def spell(self, text: str) -> bytes:
        """As the tokeniser, in lower case if the runs with its vocabulary lower-case."""
        return self.subwords.spell(text.lower() if self.lowercase else text)

    def vocabulary(self, side: Side) -> Sequence[TokenNames]:
        """The subwords; of sources, the special tokens and the constant source token."""
        return self.subwords.pieces if side == "tgt" else [*self.subwords.pieces[: self.no_source], "<no source>"]

    def describe(self) -> Iterable[str]:
        """Whose vocabulary is used."""
        yield f"vocabulary of {self.config.tokenizer}, for fusion with runs that have the same one"

    def _tokenizer(self) -> Path:
        """The folder that is copied."""
        folder = expand_user(self.config.tokenizer, "task.tokenizer")
        if any((folder / name).exists() for name in MODELS):
            return folder
        return find_run(self.config.tokenizer, "task.tokenizer") / "tokenizer"
