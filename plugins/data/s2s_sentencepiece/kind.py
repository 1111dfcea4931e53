"""The tokenisers of sentencepiece's four algorithms: trained, extended and loaded."""

from __future__ import annotations

__all__ = ["SentencePiece"]

from typing import TYPE_CHECKING

from s2s.data import TokenizerKind
from s2s.io import read_bytes, write_file
from s2s_sentencepiece.model_file import piece_field
from s2s_sentencepiece.subwords import Subwords, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from s2s_sentencepiece import SentencePieceConfig
    from s2s_sentencepiece.subwords import Algorithm


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
        from s2s_sentencepiece.training import train_subwords  # which encoding does without

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
        from s2s_sentencepiece.extension import new_pieces

        model = self.load(path)
        known = dict(zip(model.pieces, model.scores, strict=True))
        fixed = {piece for piece, is_fixed in zip(model.pieces, model.fixed, strict=True) if is_fixed}
        words = (word for line in lines for word in model.words(without_surrogates(line)))
        tokens = new_pieces(model.kind, known, fixed, words, n_tokens, self.LEAST_NEW)
        write_file(path, read_bytes(path) + b"".join(piece_field(*token) for token in tokens))

    def load(self, path: Path) -> Subwords:
        """Read a model."""
        return Subwords(path, self.algorithm)
