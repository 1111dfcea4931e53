"""The paper's BLEU (section 6.1), which is not comparable with sacreBLEU's.

Outputs and references both go through the Moses tokeniser, a hyphen between two characters becomes a word of
its own, and BLEU is computed on the result, without smoothing, as the scripts of that time did.
"""

from __future__ import annotations

__all__ = ["BleuMoses", "split_hyphens"]

import re
from typing import TYPE_CHECKING, Any

import sacremoses
from sacrebleu.metrics.bleu import BLEU
from sacremoses.corpus import NonbreakingPrefixes

from s2s import ConfigError, did_you_mean
from s2s_metrics.sacre import SacreMetric, bleu_detail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sacrebleu.metrics.base import Signature

    from s2s_metrics import BleuMosesConfig

HYPHEN = re.compile(r"(\S)-(\S)")


def split_hyphens(line: str) -> str:
    """Write a hyphen between two characters as a word of its own, ` ##AT##-##AT## `.

    A match consumes both neighbours, as in the authors' own substitution: of `A-B-C` only the first is split.
    """
    return HYPHEN.sub(r"\1 ##AT##-##AT## \2", line)


class BleuMoses(SacreMetric):
    """BLEU over Moses tokens."""

    def __init__(self, config: BleuMosesConfig) -> None:
        # force: sacrebleu would otherwise warn that the text looks tokenised, as it is
        scorer = BLEU(tokenize="none", lowercase=config.lowercase, smooth_method="none", force=True)
        super().__init__(config.name, scorer)
        self.config = config
        self.tokenizer = sacremoses.MosesTokenizer(lang=_known(config.lang))
        self.normalizer = sacremoses.MosesPunctNormalizer(lang=config.lang)

    def prepare(self, lines: Sequence[str]) -> Sequence[str]:
        """Lower-case, normalise punctuation, tokenise, split hyphens: the requested steps, in this order."""
        return [self._tokenize(line) for line in lines]

    def _tokenize(self, line: str) -> str:
        if self.config.lowercase:
            line = line.lower()
        if self.config.normalize:
            line = self.normalizer.normalize(line)
        line = self.tokenizer.tokenize(line, return_str=True)
        return split_hyphens(line) if self.config.split_hyphens else line

    def sign(self, signature: Signature) -> None:
        """The tokenisation, in place of sacrebleu's `tok:none`."""
        signature.update("tok", f"moses.{self.config.lang}")
        signature.update("hyphen", "split" if self.config.split_hyphens else "kept")
        signature.update("punct", "normalized" if self.config.normalize else "kept")
        signature.update("sacremoses", sacremoses.__version__)

    def detail(self, score: Any) -> dict[str, Any]:
        """Precisions, brevity penalty and lengths, in Moses tokens."""
        return bleu_detail(score)


def _known(lang: str) -> str:
    """The language, if Moses has rules for it; for others, sacremoses would silently use the English ones."""
    known = {code for code in NonbreakingPrefixes().available_langs if len(code) <= 3}
    if not lang:
        raise ConfigError(
            "metric bleu_moses needs the outputs' language: task.tgt_lang=de, or {name: bleu_moses, lang: de}"
        )
    if lang not in known:
        raise ConfigError(
            f"metrics.bleu_moses.lang={lang}: Moses has no rules for it; en gives its general ones."
            + did_you_mean(lang, known)
        )
    return lang
