"""BLEU, chrF and TER by sacrebleu, with its numbers and signatures unchanged.

sacrebleu's sentence statistics are additive, so that a bootstrap sample costs one sum. Those of BLEU are counted here,
the others by the methods that its own significance tests use.
"""

from __future__ import annotations

__all__ = ["Bleu", "Chrf", "SacreMetric", "Ter", "bleu_detail", "check_aligned"]

import hashlib
import os
from abc import abstractmethod
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest as SacrePairedTest
from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from s2s import ConfigError, DataError
from s2s.io import expand_user
from s2s.metrics import Metric, PairedTest, Score, bootstrap, interval
from s2s_metrics.bleu_statistics import bleu_statistics
from s2s_metrics.pairwise import bleu_pairwise, chrf_pairwise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sacrebleu.metrics.base import Metric as Scorer
    from sacrebleu.metrics.base import Score as SacreScore
    from sacrebleu.metrics.base import Signature

    from s2s_metrics import BleuConfig, ChrfConfig, TerConfig

TESTS = {"bootstrap": "bs", "randomization": "ar"}
"""Names of paired tests, ours and sacrebleu's"""


class SacreMetric(Metric):
    """Base class of the metrics computed by sacrebleu."""

    def __init__(self, name: str, scorer: Scorer) -> None:
        self.name = name
        self.scorer = scorer

    @abstractmethod
    def detail(self, score: Any) -> dict[str, Any]:
        """Parts of sacrebleu's score."""

    def prepare(self, lines: Sequence[str]) -> Sequence[str]:
        """Preprocess outputs and references for sacrebleu."""
        return lines

    def sign(self, signature: Signature) -> None:
        """Add the effect of `prepare` to sacrebleu's signature."""

    def signature(self, samples: int, seed: int) -> str:
        """sacrebleu's own signature; available only after scoring, since it includes the number of references."""
        signature = self.scorer.get_signature()
        if samples:
            signature.update("bs", samples)
            signature.update("seed", seed)
        self.sign(signature)
        return signature.format()

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        """The score; the interval is sacrebleu's bootstrap, as its two percentiles rather than mean ± half-width."""
        check_aligned(hyps, refs)
        prepared = [self.prepare(ref) for ref in refs]
        stats = self._statistics(self.prepare(hyps), prepared)
        score = self._score(stats.sum(0))
        low = high = None
        if samples:
            low, high = interval(bootstrap(stats, lambda sums: self._score(sums).score, samples, seed))
        return Score(
            name=self.name,
            value=float(score.score),
            signature=self.signature(samples, seed),
            low=low,
            high=high,
            higher_is_better=self.higher_is_better,
            detail=self.detail(score),
        )

    def _statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """[N, K] of N sentences, whose sums have a score."""
        if isinstance(self.scorer, BLEU):
            return bleu_statistics(self.scorer, hyps, refs).astype(np.float64)
        return np.array(self.scorer._extract_corpus_statistics(hyps, refs), dtype=np.float64)

    def per_sentence(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Each sentence's score by sacrebleu's `sentence_score`; BLEU uses the effective n-gram order."""
        scorer = self._of_sentences()
        prepared = [self.prepare(ref) for ref in refs]
        rows = zip(self.prepare(hyps), *prepared, strict=True)
        return [{"score": float(scorer.sentence_score(hyp, of).score)} for hyp, *of in rows]

    def pairwise(self, texts: Sequence[str]) -> list[list[float]]:
        """Sentence scores of every text against every other, counting the n-grams of each text once."""
        scorer = self._of_sentences()
        ready = [scorer._preprocess_segment(text) for text in self.prepare(texts)]
        if isinstance(scorer, BLEU):
            return bleu_pairwise(scorer, ready).tolist()
        if isinstance(scorer, CHRF) and not scorer.eps_smoothing:
            return chrf_pairwise(scorer, ready).tolist()
        return super().pairwise(texts)

    def _of_sentences(self) -> Scorer:
        scorer = copy(self.scorer)
        if isinstance(scorer, BLEU):
            scorer.effective_order = True
        return scorer

    def p_values(
        self, baseline: Sequence[str], systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]], test: PairedTest
    ) -> list[float]:
        """sacrebleu's own tests."""
        named = [(str(i), self.prepare(lines)) for i, lines in enumerate([baseline, *systems])]
        prepared, scorers = [self.prepare(ref) for ref in refs], {self.name: self.scorer}
        with _sacrebleu_seed(test.seed):
            theirs = SacrePairedTest(named, scorers, prepared, test_type=TESTS[test.kind], n_samples=test.samples)
            _, results = theirs()
        (column,) = results.keys() - {"System"}
        return [float(result.p_value) for result in results[column][1:]]  # type: ignore[union-attr, arg-type]

    def _score(self, sums: np.ndarray[Any, Any]) -> SacreScore:
        return self.scorer._compute_score_from_stats(sums)  # type: ignore[arg-type]  # takes arrays, annotated as list


class SubwordTokenizer(BaseTokenizer):
    """Subwords of a sentencepiece model in a file, as sacrebleu's flores101 and flores200 after a download."""

    def __init__(self, path: Path, name: str) -> None:
        import sentencepiece

        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
        except OSError as error:
            raise ConfigError(f"metrics.bleu.tokenizer_file={path}: {error.strerror}") from None
        except RuntimeError:
            raise ConfigError(f"metrics.bleu.tokenizer_file={path} is no model of sentencepiece") from None
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        self.name = f"spm-{digest}" if name == "spm" else name

    def signature(self) -> str:
        """Its name; of any other model than those of sacrebleu with a part of the file's sha256."""
        return self.name

    def __call__(self, line: str) -> str:
        """The pieces of a line between blanks."""
        return " ".join(self.processor.encode(line, out_type=str))


class Bleu(SacreMetric):
    """BLEU on detokenised text."""

    def __init__(self, config: BleuConfig) -> None:
        file = config.tokenizer_file
        try:
            scorer = BLEU(
                tokenize="none" if file else config.tokenize,
                lowercase=config.lowercase,
                smooth_method=config.smooth,
                smooth_value=config.smooth_value,
                max_ngram_order=config.max_ngram_order,
                effective_order=config.effective_order,
            )
        except (ImportError, RuntimeError) as error:  # a tokeniser that needs a package of its own
            raise ConfigError(f"metrics.bleu.tokenize={config.tokenize}: {' '.join(str(error).split())}") from error
        if file:
            scorer.tokenizer = SubwordTokenizer(expand_user(file, "metrics.bleu.tokenizer_file"), config.tokenize)
            scorer.tokenizer_signature = scorer.tokenizer.signature()
        super().__init__(config.name, scorer)

    def detail(self, score: Any) -> dict[str, Any]:
        """Precisions, brevity penalty and lengths."""
        return bleu_detail(score)


class Chrf(SacreMetric):
    """chrF and chrF++."""

    def __init__(self, config: ChrfConfig) -> None:
        scorer = CHRF(
            char_order=config.char_order,
            word_order=config.word_order,
            beta=config.beta,
            lowercase=config.lowercase,
            whitespace=config.whitespace,
        )
        super().__init__(config.name, scorer)

    def detail(self, score: Any) -> dict[str, Any]:
        """The usual name of the variant, such as chrF2++."""
        return {"variant": score.name}


class Ter(SacreMetric):
    """Translation edit rate."""

    higher_is_better = False

    def __init__(self, config: TerConfig) -> None:
        scorer = TER(
            case_sensitive=not config.lowercase,
            normalized=config.normalize,
            no_punct=not config.punctuation,
            asian_support=config.asian_support,
        )
        super().__init__(config.name, scorer)

    def detail(self, score: Any) -> dict[str, Any]:
        """Edits, and the mean reference length that they are divided by."""
        return {"edits": int(score.num_edits), "ref_len": float(score.ref_length)}


def bleu_detail(score: Any) -> dict[str, Any]:
    """Precisions, brevity penalty and lengths of sacrebleu's BLEU."""
    return {
        "precisions": [float(p) for p in score.precisions],
        "brevity_penalty": float(score.bp),
        "hyp_len": int(score.sys_len),
        "ref_len": int(score.ref_len),
    }


def check_aligned(hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> None:
    """Raise DataError unless there are outputs, and every reference has as many lines."""
    if not hyps or not refs:
        raise DataError(f"nothing to score: {len(hyps)} outputs, {len(refs)} references")
    for number, ref in enumerate(refs, start=1):
        if len(ref) != len(hyps):
            raise DataError(f"{len(hyps)} outputs, but reference {number} has {len(ref)} lines")


@contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """Set the seed in the environment, the only place from which sacrebleu's tests read it."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        del os.environ["SACREBLEU_SEED"]
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before
