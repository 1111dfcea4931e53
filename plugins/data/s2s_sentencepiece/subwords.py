"""Subword tokenisation by sentencepiece."""

from __future__ import annotations

__all__ = ["Algorithm", "Subwords", "without_surrogates"]

import unicodedata
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Literal

import sentencepiece

from s2s import DataError
from s2s.data import MAX_LINE, Tokenizer, missing_file_error
from s2s.io import read_bytes
from s2s_sentencepiece.model_file import fixed_pieces
from s2s_sentencepiece.sampling import SubwordSampler
from s2s_sentencepiece.threads import check_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


Algorithm = Literal["bpe", "unigram", "char", "word"]
BLANK, UNKNOWN = "▁", "⁇"
FEW = 10
"""Lines for which a call each takes less time than the thread that sentencepiece starts for a list"""


class Subwords(Tokenizer):
    """Text to ids and back, by a model that `s2s_sentencepiece.training` wrote."""

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
        return self._processor.normalize(without_surrogates(text)).replace(BLANK, " ").encode()

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
            return self._encoded([without_surrogates(line) for line in lines], threads)

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
        line = without_surrogates(text)
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


def without_surrogates(line: str) -> str:
    """The line with U+FFFD for every lone surrogate, which UTF-8 cannot encode."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return line
