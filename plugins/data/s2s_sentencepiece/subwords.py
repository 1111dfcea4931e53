"""Subword tokenisation by sentencepiece."""

from __future__ import annotations

__all__ = ["SentencePiece", "Subwords", "Trained", "train_subwords"]

import io
import re
import unicodedata
from array import array
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Literal

import sentencepiece

from s2s import ConfigError, DataError
from s2s.data import MAX_LINE, Tokenizer, TokenizerKind, missing_file_error
from s2s.io import read_bytes, write_file
from s2s_sentencepiece.byte_fallback import ByteFallback
from s2s_sentencepiece.extension import new_pieces
from s2s_sentencepiece.model_file import fixed_pieces, piece_field
from s2s_sentencepiece.normalization import visible_normalizer
from s2s_sentencepiece.sampling import SubwordSampler
from s2s_sentencepiece.threads import check_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s_sentencepiece import SentencePieceConfig

Algorithm = Literal["bpe", "unigram", "char", "word"]
BLANK, UNKNOWN = "▁", "⁇"
MAX_BYTES = 4192  # sentencepiece silently skips longer lines
MAX_LINES = 10_000_000
FEW = 10
"""Lines for which a call each takes less time than the thread that sentencepiece starts for a list"""
GOLDEN_RATIO = (1 + 5**0.5) / 2
N_THREADS = 16  # fixed: the vocabulary of unigram depends on it


@dataclass(frozen=True)
class Trained:
    """What a vocabulary was trained on."""

    n_lines: int
    """Lines used"""
    n_too_long: int
    """Lines of more than 4192 bytes, which were skipped"""
    n_usable: int
    """Lines that could have been used"""


def train_subwords(
    lines: Iterable[str],
    path: Path,
    kind: Algorithm,
    size: int,
    *,
    character_coverage: float = 1.0,
    byte_fallback: bool | None = False,
    invisible: Literal["drop", "keep"] = "drop",
    max_lines: int = MAX_LINES,
    symbols: Sequence[str] = (),
    option: str = "task.vocab_size",
) -> Trained:
    """Train a model of `size` tokens, the four special ones included, and write it to `path` atomically.

    `byte_fallback`: None: if the lines ask for it. `invisible`: what becomes of invisible characters without meaning.
    `symbols` are texts of which each is one token. `option` sets the size, for error messages.
    """
    if size < 5:
        raise ConfigError(f"{option}={size} must be 5 or more: four tokens are special")
    sample = _Sample(lines, max_lines)
    fallback = ByteFallback.decide(sample.lines, size, byte_fallback, character_coverage)
    model = io.BytesIO()
    check_threads(N_THREADS)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sample.feed(),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            pad_id=Tokenizer.pad,
            unk_id=Tokenizer.unk,
            bos_id=Tokenizer.bos,
            eos_id=Tokenizer.eos,
            character_coverage=fallback.coverage,
            byte_fallback=fallback.is_on,
            max_sentence_length=MAX_BYTES,
            num_threads=N_THREADS,
            minloglevel=2,
            user_defined_symbols=list(symbols),
            normalizer=visible_normalizer() if invisible == "drop" else None,
        )
    except (RuntimeError, ValueError) as error:
        raise _explained(str(error), option, size, sample) from None
    write_file(path, model.getvalue())
    return Trained(sample.n_lines, sample.n_too_long, sample.n_usable)


class _Sample:
    """The training lines: all, or a half, a quarter, … of more than `max_lines`; deterministic.

    Lines are taken by the fractional parts of multiples of the golden ratio, which spread them evenly over the text and
    over the lines of any period: every second line would be one side of a joint vocabulary.
    """

    def __init__(self, lines: Iterable[str], max_lines: int) -> None:
        self.n_too_long = self.n_usable = 0
        self.lines: list[str] = []
        parts, share = array("d"), 1.0
        for line in self._short_enough(lines):
            part = self.n_usable * GOLDEN_RATIO % 1
            if part < share:
                self.lines.append(line)
                parts.append(part)
            self.n_usable += 1
            while len(self.lines) > max_lines:
                share /= 2
                self.lines = [one for one, part in zip(self.lines, parts, strict=True) if part < share]
                parts = array("d", (part for part in parts if part < share))
        self.n_lines = len(self.lines)

    def feed(self) -> Iterator[str]:
        """The lines, each released once it is yielded: sentencepiece keeps its own copy."""
        self.lines.reverse()
        while self.lines:
            yield self.lines.pop()

    def _short_enough(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if len(line) * 4 > MAX_BYTES and len(line.encode(errors="replace")) > MAX_BYTES:
                self.n_too_long += 1
            elif line and not line.isspace():
                yield _without_surrogates(line)


def _explained(message: str, option: str, size: int, sample: _Sample) -> ConfigError | DataError:
    """The error of sentencepiece in terms of the option."""
    read = f"the {sample.n_lines:,} lines read"
    if most := re.search(r"too high .*<= (\d+)", message):
        return ConfigError(
            f"{option}={size} is too large: {read} give at most {most[1]} tokens. "
            f"Give {option}={most[1]} or less, or more text"
        )
    if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ConfigError(
            f"{option}={size} is too small: {read} have characters for {least[1]} tokens. "
            f"Give {option}={least[1]} or more, or a smaller task.character_coverage"
        )
    if not sample.n_lines or "all_chars_count" in message:
        long = f" ({sample.n_too_long:,} were longer than {MAX_BYTES} bytes)" if sample.n_too_long else ""
        return DataError(f"{option}: there is no text to learn a vocabulary from{long}; check the training files")
    return DataError(f"{option}={size}: sentencepiece could not learn from {read}: {_without_place(message)}")


def _without_place(message: str) -> str:
    """An error of sentencepiece without its source file: what it says, or else the condition that does not hold."""
    parts = re.fullmatch(r"\w+: \S+\.cc\(\d+\) \[(.*?)\]\s*(.*)", message.strip(), re.DOTALL)
    return " ".join((parts[2] or f"{parts[1]} does not hold" if parts else message).split())


class SentencePiece(TokenizerKind):
    """Trains and loads models of one algorithm."""

    def __init__(self, config: SentencePieceConfig) -> None:
        self.config = config
        self.algorithm: Algorithm = config.name  # type: ignore[assignment]  # registered under these names
        self.byte_fallback = config.byte_fallback
        if config.byte_fallback is None and self.algorithm == "word":
            self.byte_fallback = False  # most unknown words have no new character

    def learn(self, lines: Iterable[str], path: Path, size: int, *, symbols: Sequence[str] = (), option: str) -> str:
        """Train a model and write it to the file `path`."""
        symbols = list(dict.fromkeys([*symbols, *self.config.symbols]))
        self.check_symbols(symbols)
        trained = train_subwords(
            lines,
            path,
            self.algorithm,
            size,
            character_coverage=self.config.character_coverage,
            byte_fallback=self.byte_fallback,
            invisible=self.config.invisible,
            max_lines=self.config.max_lines,
            symbols=symbols,
            option=option,
        )
        if trained.n_lines == trained.n_usable:
            return ""
        return f"{trained.n_lines:,} of {trained.n_usable:,} lines, evenly spread"

    def extend(self, lines: Iterable[str], path: Path, n_tokens: int) -> None:
        """Append pieces to the model in the file `path`."""
        model = self.load(path)
        known = dict(zip(model.pieces, model.scores, strict=True))
        fixed = {piece for piece, is_fixed in zip(model.pieces, model.fixed, strict=True) if is_fixed}
        words = (word for line in lines for word in model.words(_without_surrogates(line)))
        tokens = new_pieces(model.kind, known, fixed, words, n_tokens, self.LEAST_NEW)
        write_file(path, read_bytes(path) + b"".join(piece_field(*token) for token in tokens))

    def load(self, path: Path) -> Subwords:
        """Read a model."""
        return Subwords(path, self.algorithm)


class Subwords(Tokenizer):
    """Text to ids and back, by a model that `train_subwords` wrote."""

    library = "sentencepiece"

    def __init__(self, path: Path, kind: Algorithm = "bpe") -> None:
        """kind: how other subwords are sampled; for encoding, the kind that the model was trained as counts."""
        self.path, self.kind = path, kind
        try:
            model = read_bytes(path)
        except FileNotFoundError:
            raise missing_file_error(path) from None
        except OSError as error:
            raise DataError(f"{path}: the subword model cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise DataError(f"{path}: no subword model: {error}") from None
        self._processor = sentencepiece.SentencePieceProcessor()
        self.pieces = self._load(model)
        self._spelt: set[str] = set()
        """Characters of texts that pieces spell; a text of these alone is not encoded again"""

    def _load(self, model: bytes) -> list[str]:
        processor = self._processor
        damaged = DataError(f"{self.path}: not a subword model, or damaged; delete its folder and prepare again")
        try:
            processor.load_from_serialized_proto(model)
            special = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
            pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
        except (RuntimeError, ValueError, OSError, TypeError):
            raise damaged from None
        if special != (Tokenizer.pad, Tokenizer.unk, Tokenizer.bos, Tokenizer.eos):
            raise damaged
        return pieces

    @cached_property
    def scores(self) -> list[float]:
        """By id: log-probabilities (unigram), or priorities of merges, of which the highest is merged first (bpe)."""
        return [self._processor.get_score(i) for i in range(self.size)]

    @cached_property
    def spellings(self) -> list[bytes]:
        """What each token adds to a text, in UTF-8: a byte of byte_fallback by itself; empty for special ones."""
        return [self._spelling(i, piece) for i, piece in enumerate(self.pieces)]

    def _spelling(self, i: int, piece: str) -> bytes:
        if self._processor.is_byte(i):
            return bytes.fromhex(piece[3:5])  # <0xC3>
        return b"" if i in self.special else piece.replace(BLANK, " ").encode()

    def spell(self, text: str) -> bytes:
        """A text normalised, with a blank before its first word."""
        return self._processor.normalize(_without_surrogates(text)).replace(BLANK, " ").encode()

    def words(self, line: str) -> list[list[str]]:
        """The pieces of each word of a line; a character without a piece is one, spelt by itself."""
        words: list[list[str]] = []
        for text, i in zip(self._processor.encode(line, out_type=str), self.encode([line])[0], strict=True):
            for piece in text if i == Tokenizer.unk else [text]:  # unk stands for any number of unknown characters
                if piece.startswith(BLANK) or not words:
                    words.append([])
                words[-1].append(piece)
        return words

    def split(self, token: str) -> list[int]:
        """As texts are encoded, for a token that begins a word; the fewest pieces for others."""
        ids = [i for i in self.encode([token.replace(BLANK, " ")])[0] if i not in self.special]
        return ids if "".join(self.pieces[i] for i in ids) == token else super().split(token)

    @cached_property
    def fixed(self) -> list[bool]:
        """By id, whether a piece is never part of another."""
        return fixed_pieces(self._processor.serialized_model_proto())

    def sampler(self, alpha: float) -> Callable[[Sequence[int], int], list[int]]:
        """A sampler of other subwords; see `SubwordSampler` for alpha."""
        if self.kind == "char" or self.kind == "word":
            return super().sampler(alpha)
        return SubwordSampler(self.pieces, self.scores, self.kind, alpha, self.fixed)

    def encode(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Ids of every line, without bos and eos; the same for any number of threads, which release the GIL.

        Raises DataError for a line of more than MAX_LINE characters, for which sentencepiece may end the process.
        """
        if (longest := max(map(len, lines), default=0)) > MAX_LINE:
            raise DataError(f"a text of {longest:,} characters is too long: at most {MAX_LINE:,} are encoded")
        try:
            return self._encoded(list(lines), threads)
        except (RuntimeError, TypeError):  # a lone surrogate, which UTF-8 cannot encode
            return self._encoded([_without_surrogates(line) for line in lines], threads)

    def _encoded(self, lines: list[str], threads: int) -> list[list[int]]:
        if len(lines) <= FEW:
            return list(map(self._processor.encode, lines))
        check_threads(threads)
        return self._processor.encode(lines, num_threads=threads)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are skipped, unk becomes ⁇."""
        text = ""
        for is_unk, run in groupby(map(int, ids), key=lambda i: i == Tokenizer.unk):
            known = list(run)
            if is_unk:  # sentencepiece would surround it with blanks: two more words
                text += UNKNOWN * len(known)
                continue
            blank = " " if text and self.pieces[known[0]].startswith(BLANK) else ""
            text += blank + self._processor.decode(known)
        return text

    def covers(self, text: str) -> bool:
        """Whether pieces spell a text, without unk and the bytes of byte_fallback; True if pieces are words."""
        if self.kind == "word" or self._spelt.issuperset(text):
            return True
        if any(i == Tokenizer.unk or self._processor.is_byte(i) for i in self.encode([text])[0]):
            return False
        self._spelt.update(c for c in text if unicodedata.category(c)[0] != "M")  # a mark may combine with a letter
        return True

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Which characters of a text each of its tokens stands for, before normalisation."""
        line = _without_surrogates(text)
        if len(line) != len(text):
            return super().offsets(text)
        offsets = self._processor.encode(line, return_type="offset_mapping")["offsets"]
        return _shared(offsets)

    def decoded_offsets(self, ids: Sequence[int]) -> Sequence[tuple[int, int]]:
        """Which characters each token adds to the text that `decode` gives."""
        spelt = [UNKNOWN if i == Tokenizer.unk else self.spellings[i].decode(errors="replace") for i in ids]
        n_before = len(joined := "".join(spelt)) - len(text := self.decode(ids))  # a blank, which is not written
        if any(map(self._processor.is_byte, ids)) or joined[n_before:] != text:
            return super().decoded_offsets(ids)
        ends = [max(end - n_before, 0) for end in accumulate(map(len, spelt), initial=0)]
        return list(pairwise(ends))


def _shared(offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The offsets, where the tokens of one character, of which sentencepiece gives it to the last, all have it."""
    shared, following = [], (-1, -1)
    for begin, end in reversed(offsets):
        if begin < end or begin != following[0]:
            following = (begin, end)
        shared.append(following)
    return shared[::-1]


def _without_surrogates(line: str) -> str:
    """The line with U+FFFD for every lone surrogate, which UTF-8 cannot encode."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return line
