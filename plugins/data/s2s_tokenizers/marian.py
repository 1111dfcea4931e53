"""The tokeniser of a MarianMTModel: subwords by sentencepiece, with the ids of vocab.json."""

from __future__ import annotations

__all__ = ["Marian", "MarianKind"]

import hashlib
import json
import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sentencepiece

from s2s import ConfigError, DataError
from s2s.data import MAX_LINE, TokenizerKind
from s2s.io import expand_user, parse_json, write_file
from s2s_tokenizers.extending import extended_sentencepiece, new_texts, spelling
from s2s_tokenizers.pruning import pruned_sentencepiece, sentencepiece_proto
from s2s_tokenizers.published import PublishedTokenizer, read_model, unused_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from pathlib import Path

    from s2s import Side
    from s2s_tokenizers import MarianConfig
    from s2s_tokenizers.extending import NewToken

VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"
SPM: dict[Side, str] = {"src": "source.spm", "tgt": "target.spm"}
"""The model that segments the texts of a side"""
BLANK, UNKNOWN = "▁", "⁇"
CODE = re.compile(r"<s>|__[a-z]{2,3}__")
"""Tokens of M2M-100 that add nothing to a text"""


class MarianKind(TokenizerKind):
    """Takes over the files of a folder, as MarianTokenizer of transformers writes them."""

    learns = False

    def __init__(self, config: MarianConfig) -> None:
        self.config = config

    def learn(self, lines: Iterable[str], path: Path, size: int, *, symbols: Sequence[str] = (), option: str) -> None:
        """Copy the files into the folder `path`; raises ConfigError for symbols that are no tokens in vocab.json."""
        tokens = Marian(self._folder, self.config)  # an error of its files names them, not the copy
        if missing := sorted(set(symbols) - set(tokens.pieces)):
            raise ConfigError(f"task.subword=marian has no tokens for {', '.join(missing)}; choose another tokeniser")
        contents = {file.name: read_model(file) for file in self.files()}
        if unused := unused_tokens(tokens.size, self.config.size):
            contents[VOCAB] = _as_json([*tokens.pieces, *unused])
        path.mkdir()
        for name, content in contents.items():
            write_file(path / name, content)

    def extend(self, lines: Iterable[str], path: Path, n_tokens: int) -> None:
        """Characters without a token first, then words of several tokens."""
        self._add(new_texts(lines, self.load(path), self.LEAST_NEW), path, n_tokens)

    def add(self, tokens: Sequence[str], path: Path) -> Mapping[Side, list[list[int]]]:
        """To the models of both sides; if each side has tokens of its own, to both vocabularies."""
        return self._add(tokens, path, math.inf)

    def _add(self, texts: Sequence[str], path: Path, most: float) -> Mapping[Side, list[list[int]]]:
        sides: dict[Side, Marian] = {side: self.load(path).for_side(side) for side in SPM}
        new: dict[Side, list[NewToken]] = {}
        for side, tokens in sides.items():
            proto = sentencepiece_proto(read_model(path / SPM[side]))
            new[side] = extended_sentencepiece(proto, tokens.as_pieces(texts), most)
            write_file(path / SPM[side], proto.SerializeToString())
        if _is_joint(path):  # a token that only one of the models lacked is in the vocabulary
            both = {token.piece: token for token in [*new["tgt"], *new["src"]]}
            lacking = [token for token in both.values() if token.piece not in sides["src"].pieces]
            new = dict.fromkeys(SPM, lacking)
        for side, name in _tables(path).items():
            pieces = [*sides[side].pieces, *(token.piece for token in new[side])]
            write_file(path / name, _as_json(pieces))
        return {side: tokens.rows_of(new[side]) for side, tokens in sides.items()}

    def prune(self, lines: Iterable[str], path: Path, *, symbols: Sequence[str] = ()) -> Mapping[Side, list[int]]:
        """The model of each side then segments texts into these tokens alone."""
        sides: dict[Side, Marian] = {side: self.load(path).for_side(side) for side in SPM}
        kept: dict[Side, list[int]] = {}
        for side, name in _tables(path).items():
            ways = list(sides.values()) if _is_joint(path) else [sides[side]]
            kept[side] = sorted(sides[side].kept(lines, ways, symbols))
            write_file(path / name, _as_json([sides[side].pieces[i] for i in kept[side]]))
        kept.setdefault("tgt", kept["src"])
        for side, name in SPM.items():
            pieces = {sides[side].pieces[i] for i in kept[side]}
            write_file(path / name, pruned_sentencepiece(read_model(path / name), pieces))
        return kept

    def load(self, path: Path) -> Marian:
        """Read the copy."""
        return Marian(path, self.config)

    def files(self) -> Sequence[Path]:
        """vocab.json, source.spm, target.spm and perhaps target_vocab.json; none for a run that has its own."""
        return _files(self._folder) if self.config.folder else ()

    @property
    def _folder(self) -> Path:
        if not self.config.folder:
            raise ConfigError("task.subword=marian: which folder? Give task.subword={name: marian, folder: FOLDER}")
        return expand_user(self.config.folder, "task.subword.folder")


class Marian(PublishedTokenizer):
    """Text to ids and back. Each side segments text by a model of its own, and may have tokens of its own."""

    library = "sentencepiece"

    def __init__(self, path: Path, config: MarianConfig, side: Side = "src") -> None:
        """side: whose model segments texts."""
        self.path, self._config, self._side = path, config, side
        self._processor = _processor(path / SPM[side])
        table = path / (TARGET_VOCAB if side == "tgt" and (path / TARGET_VOCAB).is_file() else VOCAB)
        try:
            ids = {str(piece): int(i) for piece, i in parse_json(read_model(table)).items()}
            self.pieces = [piece for piece, _ in sorted(ids.items(), key=lambda item: item[1])]
            self.pad, self.unk, self.eos = (ids[piece] for piece in ("<pad>", "<unk>", "</s>"))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise DataError(f"{table}: no vocabulary of a MarianMTModel: {error}") from None
        if sorted(ids.values()) != list(range(len(ids))):
            raise DataError(f"{table}: its ids must be 0 to {len(ids) - 1:,}, each of one token")
        self._put_around(config)
        self.bos = self.starting_tokens[0] if self.starting_tokens else self.pad

    def as_pieces(self, texts: Iterable[str]) -> list[str]:
        """How the side's model spells texts."""
        missing = list(filter(self.lacks, texts))
        normal = [self._processor.normalize(text).replace(BLANK, "") for text in missing]
        spelt = [BLANK + own if text.startswith(BLANK) else own for text, own in zip(missing, normal, strict=True)]
        return [piece for text, own in zip(missing, spelt, strict=True) for piece in spelling(text, own)]

    @property
    def library_file(self) -> Path:
        """The side's model."""
        return self.path / SPM[self._side]

    def for_side(self, side: Side) -> Marian:
        """The same tokens, with the model of a side."""
        return Marian(self.path, self._config, side)

    def _identity(self, targets: Sequence[int], sources: Sequence[int]) -> str:
        contents = b"".join(map(read_model, _files(self.path)))
        return hashlib.sha256(contents + f"{targets}{sources}".encode()).hexdigest()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line; one that begins with the tag of a language, such as >>fr<<, keeps it as a token.

        Raises DataError for a line that is too long.
        """
        if (longest := max(map(len, lines), default=0)) > MAX_LINE:
            raise DataError(f"a text of {longest:,} characters is too long: at most {MAX_LINE:,} are encoded")
        return [self._encode(line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) for line in lines]

    def _encode(self, line: str) -> list[int]:
        tag, text = self._parted(line)
        pieces = [tag] if tag else []
        pieces += self._processor.encode(text, out_type=str)
        return [self._ids.get(piece, self.unk) for piece in pieces]

    def _parted(self, line: str) -> tuple[str, str]:
        """The tag of a language with which a line begins, empty if there is none, and the text behind it."""
        tag, end, text = line.partition("<<") if self._config.tags and line.startswith(">>") else ("", "", line)
        return (tag + end, text) if end else ("", line)

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Which characters of a text each of its tokens stands for, before normalisation."""
        if any("\ud800" <= character <= "\udfff" for character in text):
            return super().offsets(text)
        tag, rest = self._parted(text)
        n, inner = len(tag), self._processor.encode(rest, return_type="offset_mapping")["offsets"]
        return [*([(0, n)] if tag else []), *((n + begin, n + end) for begin, end in inner)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are skipped, unk becomes ⁇."""
        shown = [int(i) for i in ids if int(i) not in self._skipped]
        pieces = [UNKNOWN if i == self.unk else self.pieces[i] for i in shown]
        return "".join(pieces).replace(BLANK, " ").strip(" ")

    @cached_property
    def _skipped(self) -> Set[int]:
        codes = {i for i, piece in enumerate(self.pieces) if CODE.fullmatch(piece)} if not self._config.tags else ()
        return {*super()._skipped, *codes}

    @cached_property
    def spellings(self) -> list[bytes]:
        """What each token adds to a text, in UTF-8; empty for special ones."""
        texts = [piece.replace(BLANK, " ").encode() for piece in self.pieces]
        return [b"" if i in self.special or i in self._skipped else text for i, text in enumerate(texts)]


def _as_json(pieces: Sequence[str]) -> bytes:
    """A vocab.json of tokens in the order of their ids."""
    return json.dumps({piece: i for i, piece in enumerate(pieces)}, ensure_ascii=False).encode()


def _files(folder: Path) -> list[Path]:
    """Those of the tokeniser in a folder."""
    vocab, *others = (folder / name for name in _tables(folder).values())
    return [vocab, *(folder / name for name in SPM.values()), *others]


def _is_joint(folder: Path) -> bool:
    """Whether both sides have the same tokens."""
    return not (folder / TARGET_VOCAB).is_file()


def _tables(folder: Path) -> dict[Side, str]:
    """The files of ids: of both sides, or of each."""
    return {"src": VOCAB} if _is_joint(folder) else {"src": VOCAB, "tgt": TARGET_VOCAB}


def _processor(path: Path) -> Any:
    """The model of a side."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(read_model(path))
    except RuntimeError:
        raise DataError(f"{path}: not a model of sentencepiece, or damaged") from None
    return processor
