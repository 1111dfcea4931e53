"""A tokenizer.json of the package tokenizers: its tokens keep their ids."""

from __future__ import annotations

__all__ = ["HuggingFace", "HuggingFaceKind"]

import hashlib
import json
import math
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, DataError
from s2s.data import MAX_LINE, TokenizerKind, missing_file_error
from s2s.io import expand_user, parse_json, read_bytes, write_file
from s2s_tokenizers.extending import complete, extended_json, new_texts, spelling
from s2s_tokenizers.pruning import kept_with_parts, pruned_json
from s2s_tokenizers.published import MAX_TOKENS, PublishedTokenizer, unused_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set
    from pathlib import Path

    from s2s import Side
    from s2s_tokenizers import HuggingFaceConfig

FILE = "tokenizer.json"
USUAL = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unk": ("<unk>", "[UNK]"),
    "bos": ("<s>", "<bos>", "[CLS]", "<|startoftext|>"),
    "eos": ("</s>", "<eos>", "[SEP]", "<|endoftext|>"),
}
"""Names of special tokens, looked up in this order"""
UNKNOWN = "⁇"
LONGEST, RULES = 4096, b"precompiled_charsmap"
"""Bytes of a token, and the key of rules of normalisation, which are longer"""


class HuggingFaceKind(TokenizerKind):
    """Takes over a complete tokeniser; symbols that it lacks are added behind its tokens."""

    learns = False

    def __init__(self, config: HuggingFaceConfig) -> None:
        self.config = config

    def learn(self, lines: Iterable[str], path: Path, size: int, *, symbols: Sequence[str] = (), option: str) -> None:
        """Copy the file into the folder `path`, with the symbols as tokens."""
        tokenizers = _package()
        if not self.config.file:
            raise ConfigError("task.subword=hf: which file? Give task.subword={name: hf, file: tokenizer.json}")
        tokenizer = _read(self.files()[0])
        known = tokenizer.get_vocab(with_added_tokens=True)
        unused = unused_tokens(max(known.values(), default=-1) + 1, self.config.size)
        added = [*unused, *(symbol for symbol in symbols if symbol not in known)]
        tokenizer.add_tokens([tokenizers.AddedToken(symbol, normalized=False) for symbol in added])
        path.mkdir()
        write_file(path / FILE, tokenizer.to_str().encode())

    def extend(self, lines: Iterable[str], path: Path, n_tokens: int) -> None:
        """Characters without a token first, then words of several tokens."""
        self._add(new_texts(lines, self.load(path), self.LEAST_NEW), path, n_tokens)

    def add(self, tokens: Sequence[str], path: Path) -> Mapping[Side, list[list[int]]]:
        """As pieces of its model; BPE has those on the way to a token, too."""
        rows = self._add(tokens, path, math.inf)
        return {"src": rows, "tgt": rows}

    def _add(self, texts: Iterable[str], path: Path, most: float) -> list[list[int]]:
        before = self.load(path)
        content = complete(parse_json(read_bytes(path / FILE)))
        content, new = extended_json(content, before.as_pieces(texts), most)
        write_file(path / FILE, json.dumps(content, ensure_ascii=False).encode())
        if self.load(path).pieces != [*before.pieces, *(token.piece for token in new)]:
            raise ConfigError(f"{path / FILE}: this kind of tokeniser cannot be extended")
        return before.rows_of(new)

    def prune(self, lines: Iterable[str], path: Path, *, symbols: Sequence[str] = ()) -> Mapping[Side, list[int]]:
        """By rewriting the file; BPE keeps what it merges on the way to a token."""
        before = self.load(path)
        content = complete(parse_json(read_bytes(path / FILE)))
        kept = sorted(kept_with_parts(content, before.kept(lines, [before], symbols)))
        write_file(path / FILE, json.dumps(pruned_json(content, kept), ensure_ascii=False).encode())
        if self.load(path).pieces != [before.pieces[i] for i in kept]:
            raise ConfigError(f"{path / FILE}: this kind of tokeniser cannot be pruned; leave out vocab")
        return {"src": kept, "tgt": kept}

    def load(self, path: Path) -> HuggingFace:
        """Read the copy."""
        return HuggingFace(path / FILE, self.config)

    def files(self) -> Sequence[Path]:
        """The file that the options name; none for a run that has its own."""
        return [expand_user(self.config.file, "task.subword.file")] if self.config.file else ()


class HuggingFace(PublishedTokenizer):
    """Text to ids and back by the package; no special token is added to a text."""

    library = "tokenizers"

    def __init__(self, path: Path, config: HuggingFaceConfig) -> None:
        self.path, self._tokenizer, self._named = path, _read(path), config.file or str(path)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        ids = self._tokenizer.get_vocab(with_added_tokens=True)
        self.pieces = [f"<unused {i}>" for i in range(max(ids.values(), default=-1) + 1)]
        for piece, i in ids.items():
            self.pieces[i] = piece
        self.pad, self.bos, self.eos = (self._special(name, getattr(config, name)) for name in ("pad", "bos", "eos"))
        self._put_around(config)
        self.unk = self._special("unk", config.unk or getattr(self._tokenizer.model, "unk_token", None), self.pad)

    def _special(self, name: str, token: str | None, default: int | None = None) -> int:
        """The id of a special token: the one that is named, or else a usual one; then `default`."""
        names = (token,) if token else USUAL[name]
        token_id = next((self._ids[one] for one in names if one in self._ids), None if token else default)
        if token_id is None:
            raise ConfigError(
                f"{self._named}: no token {' or '.join(names)}; name its {name} with task.subword.{name}=TOKEN"
            )
        return token_id

    def _identity(self, targets: Sequence[int], sources: Sequence[int]) -> str:
        content = json.dumps(json.loads(self._tokenizer.to_str()), sort_keys=True)
        return hashlib.sha256(f"{content}{targets}{sources}".encode()).hexdigest()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line, without special tokens that it spells; raises DataError for one that is too long."""
        if (longest := max(map(len, lines), default=0)) > MAX_LINE:
            raise DataError(f"a text of {longest:,} characters is too long: at most {MAX_LINE:,} are encoded")
        try:
            batch = self._tokenizer.encode_batch(list(map(_without_surrogates, lines)), add_special_tokens=False)
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of Rust, as for a pattern that takes too long; no Exception
                raise
            raise DataError(f"{self.path}: a text cannot be encoded: {str(error)[:120]}") from None
        return [[i for i in encoding.ids if i not in self._reserved] for encoding in batch]

    @cached_property
    def _skipped(self) -> Set[int]:
        """Also the tokens that the file calls special, such as the codes of languages."""
        added = self._tokenizer.get_added_tokens_decoder()
        return super()._skipped | {i for i, token in added.items() if token.special and i != self.unk}

    @property
    def _reserved(self) -> set[int]:
        """Special tokens that a text cannot spell."""
        return {self.pad, self.bos, self.eos}

    def as_pieces(self, texts: Iterable[str]) -> list[str]:
        """How the file's model spells texts."""
        normalizer, pieces = self._tokenizer.normalizer, list[str]()
        written = {byte: character for character, byte in _byte_alphabet().items()}
        for text in filter(self.lacks, texts):
            normal = text if normalizer is None else normalizer.normalize_str(text)
            if self._has_bytes:
                pieces.append("".join(written[byte] for byte in f" {normal}".encode()))
            else:
                pieces += spelling(text, normal)
        return pieces

    @cached_property
    def _has_bytes(self) -> bool:
        return '"ByteLevel"' in json.dumps(json.loads(self._tokenizer.to_str())["decoder"])

    def covers(self, text: str) -> bool:
        """Whether tokens spell a text, without unk, which stands for unknown words if tokens are words."""
        return type(self._tokenizer.model).__name__ == "WordLevel" or super().covers(text)

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Which characters of a text each of its tokens stands for, before normalisation."""
        line = _without_surrogates(text)
        if len(line) != len(text):
            return super().offsets(text)
        encoding = self._tokenizer.encode(line, add_special_tokens=False)
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        return [(begin, end) for i, (begin, end) in pairs if i not in self._reserved]

    @cached_property
    def spellings(self) -> list[bytes] | None:
        """What each token adds to a text, in UTF-8; None if the decoder shows too little of it."""
        if not self._has_bytes:
            return super().spellings
        added = self._tokenizer.get_added_tokens_decoder()
        written = [piece.encode() if i in added else _bytes_of(piece) for i, piece in enumerate(self.pieces)]
        return [b"" if i in self.special or i in self._skipped else spelling for i, spelling in enumerate(written)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are skipped, unk becomes ⁇."""
        shown = [int(i) for i in ids if int(i) not in self._skipped]
        text: str = self._tokenizer.decode(shown, skip_special_tokens=False)
        return text.replace(self.pieces[self.unk], UNKNOWN) if self.unk in shown else text


def _without_surrogates(line: str) -> str:
    """The line with U+FFFD for every lone surrogate, which UTF-8 cannot encode."""
    return line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bytes_of(piece: str) -> bytes:
    """The bytes for which the characters of a token of byte-level BPE stand."""
    return bytes(_byte_alphabet().get(character, ord("?")) for character in piece)


@cache
def _byte_alphabet() -> dict[str, int]:
    """By character: printable ones of Latin-1 are themselves, the other bytes are U+0100, U+0101, …"""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def _package() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ConfigError(f"task.subword=hf: {error}; install the package: pip install tokenizers (extra hf)") from None
    return tokenizers


def _has_long_token(content: bytes) -> bool:
    """Whether a text of JSON is longer than any token."""
    before, _, rest = content.partition(RULES)
    rest = rest.split(b'"', 3)[-1]  # behind the key and its value
    return max(map(len, b'"'.join([before, rest]).replace(b'\\"', b"__").split(b'"'))) > LONGEST


def _read(path: Path) -> Any:
    """The tokeniser in a file; raises DataError if it is missing or damaged."""
    try:
        content = read_bytes(path)
        if _has_long_token(content):  # the package would end the process
            raise ValueError(f"a token has more than {LONGEST:,} bytes")
        tokenizer = _package().Tokenizer.from_str(content.decode())
        if (largest := max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)) >= MAX_TOKENS:
            raise ValueError(f"a token has the id {largest:,}; at most {MAX_TOKENS:,} tokens are read")
        ids = list(tokenizer.get_vocab(with_added_tokens=False).values())
        if len(set(ids)) < len(
            ids
        ):  # written again, one of the tokens would be gone, and the package panics at its merges
            raise ValueError("two tokens have the same id")
        return tokenizer
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except ConfigError:
        raise
    except Exception as error:  # the package raises Exception itself
        raise DataError(f"{path}: no tokenizer.json: {str(error)[:120]}") from None
