"""The tokeniser of a model of fairseq whose texts are words in parts: its dictionaries, and codes of BPE.

The codes are those of subword-nmt and of fastBPE: a part of a word but the last ends in @@.
"""

from __future__ import annotations

__all__ = ["Fairseq", "FairseqKind"]

import hashlib
from typing import TYPE_CHECKING

import sacremoses

from s2s import ConfigError, DataError
from s2s.data import MAX_LINE, TokenizerKind
from s2s.io import expand_user, parse_json, write_file
from s2s_tokenizers.extending import merged
from s2s_tokenizers.published import PublishedTokenizer, read_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from s2s import Side
    from s2s_tokenizers import FairseqConfig

TABLES: dict[Side, str] = {"src": "vocab.json", "tgt": "target_vocab.json"}
CODES, VERSION, END, PART = "codes", "#version: 0.2", "</w>", "@@"
UNKNOWN = "⁇"


class FairseqKind(TokenizerKind):
    """Takes over the files of a folder."""

    learns = False

    def __init__(self, config: FairseqConfig) -> None:
        self.config = config

    def learn(self, lines: Iterable[str], path: Path, size: int, *, symbols: Sequence[str] = (), option: str) -> None:
        """Copy the files into the folder `path`; raises ConfigError for symbols that are no tokens."""
        files = self.files()
        if not files:
            raise ConfigError("task.subword=fairseq: which folder? Give task.subword={name: fairseq, folder: FOLDER}")
        tokens = Fairseq(files[0].parent, self.config)
        if missing := sorted(set(symbols) - set(tokens.pieces)):
            raise ConfigError(f"task.subword=fairseq has no tokens for {', '.join(missing)}; choose another tokeniser")
        path.mkdir()
        for file in files:
            write_file(path / file.name, read_model(file))

    def load(self, path: Path) -> Fairseq:
        """Read the copy."""
        return Fairseq(path, self.config)

    def files(self) -> Sequence[Path]:
        """vocab.json, target_vocab.json and perhaps codes; none for a run that has its own."""
        if not self.config.folder:
            return ()
        folder = expand_user(self.config.folder, "task.subword.folder")
        return [*(folder / name for name in TABLES.values()), *([folder / CODES] if (folder / CODES).is_file() else [])]


class Fairseq(PublishedTokenizer):
    """Text to ids and back."""

    def __init__(self, path: Path, config: FairseqConfig, side: Side = "src") -> None:
        self.path, self._config = path, config
        table = path / TABLES[side]
        try:
            ids = {str(piece): int(i) for piece, i in parse_json(read_model(table)).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{table}: no vocabulary: {error}") from None
        if sorted(ids.values()) != list(range(len(ids))) or not {"<pad>", "<unk>", "</s>"} <= ids.keys():
            raise DataError(f"{table}: no vocabulary: it needs <pad>, <unk>, </s>, and ids from 0, each of one token")
        self.pieces = [*sorted(ids, key=ids.__getitem__)]
        self.pad, self.unk, self.eos = (ids[piece] for piece in ("<pad>", "<unk>", "</s>"))
        self._put_around(config)
        self.bos = self.starting_tokens[0] if self.starting_tokens else self.eos
        self._codes = _codes(path / CODES) if (path / CODES).is_file() else None
        language = dict(zip(TABLES, config.moses, strict=False)).get(side, "")
        self._tokenizer = sacremoses.MosesTokenizer(language) if language else None
        self._detokenizer = sacremoses.MosesDetokenizer(language) if language else None
        self._parts: dict[str, list[str]] = {}
        """Of words that have been cut"""

    def for_side(self, side: Side) -> Fairseq:
        """With the side's dictionary."""
        return Fairseq(self.path, self._config, side)

    def _identity(self, targets: Sequence[int], sources: Sequence[int]) -> str:
        files = [self.path / name for name in (*TABLES.values(), CODES)]
        contents = b"".join(read_model(file) for file in files if file.is_file())
        return hashlib.sha256(contents + f"{self._config.moses}{targets}{sources}".encode()).hexdigest()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line; raises DataError for one that is too long."""
        if (longest := max(map(len, lines), default=0)) > MAX_LINE:
            raise DataError(f"a text of {longest:,} characters is too long: at most {MAX_LINE:,} are encoded")
        return [
            [self._ids.get(part, self.unk) for word in self._words(line) for part in self._cut(word)] for line in lines
        ]

    def _words(self, line: str) -> list[str]:
        if self._tokenizer is None:
            return line.split()
        words: list[str] = self._tokenizer.tokenize(line, aggressive_dash_splits=True, escape=True)
        return words

    def _cut(self, word: str) -> list[str]:
        """The parts of a word, as they stand in the dictionary."""
        if self._codes is None:
            return [word]
        if word not in self._parts:
            ranks = self._codes
            last = [word[-1] + END] if ("", "") not in ranks else [word[-1], END]
            parts = merged([*word[:-1], *last], lambda left, right: ranks.get((left, right)))
            shown = [part for part in (part.removesuffix(END) for part in parts) if part]
            self._parts[word] = [*(part + PART for part in shown[:-1]), shown[-1]]
        return self._parts[word]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are skipped, unk becomes ⁇."""
        shown = [int(i) for i in ids if int(i) not in self._skipped]
        text = " ".join(UNKNOWN if i == self.unk else self.pieces[i] for i in shown).replace(f"{PART} ", "")
        text = text.removesuffix(PART)
        return text if self._detokenizer is None else str(self._detokenizer.detokenize(text.split()))

    @property
    def spellings(self) -> None:
        """Not known: blanks between words follow from the words."""


def _codes(path: Path) -> dict[tuple[str, str], int]:
    """Merges with their ranks; of the first version of subword-nmt also ("", ""), where the end is a symbol of its own.

    fastBPE writes how often each occurred behind it.
    """
    try:
        lines = read_model(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: no codes of BPE: {error}") from None
    ranks: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines, 1):
        parts = line.rstrip("\r ").split(" ")
        if line.startswith("#version") or parts == [""]:
            continue
        if len(parts) not in (2, 3) or (len(parts) == 3 and not parts[2].isdigit()):
            raise DataError(f"{path}: line {number} is no code of BPE: {line[:60]!r}")
        ranks.setdefault((parts[0], parts[1]), len(ranks))
    is_old = not lines[0].startswith(VERSION) and any(right == END for _, right in ranks)
    return ranks | ({("", ""): len(ranks)} if is_old else {})
