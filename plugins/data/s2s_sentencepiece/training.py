"""Training of subword models by sentencepiece."""

from __future__ import annotations

__all__ = ["Trained", "train_subwords"]

import io
import re
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import sentencepiece

from s2s import ConfigError, DataError
from s2s.data import Tokenizer
from s2s.io import write_file
from s2s_sentencepiece.byte_fallback import ByteFallback
from s2s_sentencepiece.normalization import visible_normalizer
from s2s_sentencepiece.subwords import without_surrogates
from s2s_sentencepiece.threads import check_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s_sentencepiece.subwords import Algorithm

MAX_BYTES = 4192  # sentencepiece silently skips longer lines
MAX_LINES = 10_000_000
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
                yield without_surrogates(line)


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
