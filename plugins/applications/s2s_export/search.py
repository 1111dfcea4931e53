"""Search by CTranslate2: `backend=ctranslate2` of s2s-generate."""

from __future__ import annotations

__all__ = ["ExportedSearch", "open_export"]

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import CheckpointError, ConfigError, DataError
from s2s.decoding import BeamConfig, GreedyConfig, Hypothesis, SearchResult
from s2s.io import sha256
from s2s_export import InferenceOptions
from s2s_export.ctranslate2 import CTranslate2Model, compute_types
from s2s_export.export import read_export

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s import Choice, Seq2Seq
    from s2s.config import GenerateConfig
    from s2s.decoding import SearchRequest
    from s2s.generation import EngineInput

NEUTRAL = {"repetition_penalty": 1, "temperature": 1, "min_len": 0, "no_repeat_ngram_size": 0}
"""Options of searches that CTranslate2 has not, or means otherwise, with the value that changes nothing"""
COMPUTE = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "int8": "int8"}


def open_export(engine_input: EngineInput) -> ExportedSearch:
    """The search of a run's exported checkpoint; raises ConfigError for options that it does not support."""
    config, chosen, run = engine_input.config, engine_input.search, engine_input.run
    assert isinstance(config, InferenceOptions)
    folder = Path(config.exported) if config.exported else engine_input.directory / "export" / config.backend
    manifest, checkpoint = read_export(folder), run.checkpoint_path
    if manifest.get("checkpoint_sha256") != sha256(checkpoint / "MANIFEST.json"):
        raise CheckpointError(
            f"{folder} was exported from {manifest.get('checkpoint')}, not from {checkpoint.name}; run s2s-export "
            f"run={config.run} checkpoint={checkpoint.name}, or give checkpoint={manifest.get('checkpoint')}"
        )
    _check_supported(config, chosen)
    if engine_input.constraint is not None:
        raise ConfigError(
            "backend=ctranslate2 cannot keep to what the task or bad_words allow; "
            "leave these out and give constrained=false, or backend=native"
        )
    compute = COMPUTE[config.precision if config.quantization == "none" else config.quantization]
    if compute not in (known := compute_types(engine_input.device.type)):
        raise ConfigError(
            f"precision={config.precision} quantization={config.quantization}: CTranslate2 has no {compute} here, only "
            f"{', '.join(sorted(known))}"
        )
    exported = CTranslate2Model(
        folder, compute_type=compute, device=engine_input.device.type, intra_threads=config.threads
    )
    vocab = run.task.vocab
    if (len(exported.src), len(exported.tgt)) != (vocab.src, vocab.tgt):
        raise CheckpointError(f"{folder} has {len(exported.src):,} source and {len(exported.tgt):,} target tokens, and "
                              f"the run {vocab.src:,} and {vocab.tgt:,}; run s2s-export again")  # fmt: skip
    if config.max_source > exported.n_positions and not run.model.max_len:
        raise ConfigError(f"max_source={config.max_source}: the exported model has {exported.n_positions} positions")
    assert isinstance(chosen, BeamConfig | GreedyConfig)
    return ExportedSearch(exported, chosen, compute)


def _check_supported(config: GenerateConfig, chosen: Choice) -> None:
    """Raise ConfigError for an option that would have no effect."""
    if not isinstance(chosen, BeamConfig | GreedyConfig):
        raise ConfigError(f"backend=ctranslate2 searches by beam or greedy, not by search={chosen.name}")
    if (n_groups := getattr(chosen, "num_beam_groups", 1)) > 1:
        raise ConfigError(
            f"search.num_beam_groups={n_groups}: backend=ctranslate2 has no groups; give search.num_beam_groups=1"
        )
    for name, neutral in NEUTRAL.items():
        if (value := getattr(chosen, name, neutral)) != neutral:
            raise ConfigError(
                f"backend=ctranslate2 has no search.{name}={value:g}; give search.{name}={neutral}, or backend=native"
            )
    if "log_probs" in config.fields:
        raise ConfigError("backend=ctranslate2 has no log_probs of tokens; leave them out of fields")
    if isinstance(chosen, BeamConfig) and config.nbest > chosen.beam:
        raise ConfigError(f"nbest={config.nbest} is more than the beam, which is {chosen.beam}; give search.beam")


class ExportedSearch:
    """A `Search` by CTranslate2.

    Its length penalty is a power of the length. For other penalties, such as the paper's, the n-best found with that
    power are re-scored: the scores are exact, the search is approximate.
    """

    def __init__(self, exported: CTranslate2Model, config: BeamConfig | GreedyConfig, compute: str) -> None:
        self.exported, self.config, self.compute = exported, config, compute
        beam = config if isinstance(config, BeamConfig) else BeamConfig(beam=1, length_penalty="none")
        self.beam, self.ranked_by, self.penalty = beam.beam, beam.length_penalty, beam.penalty
        self.alpha, self.offset = 0.0 if self.ranked_by == "none" else beam.alpha, beam.length_offset

    def describe(self) -> str:
        """The number format, and whether the search is approximate."""
        differs = self.ranked_by == "gnmt" or self.offset
        rescored = differs and self.alpha != 0 and self.beam > 1
        by = self.ranked_by + (f" of {self.offset} tokens more" if self.offset else "")
        how = f"approximate: |Y| ** {self.alpha:g} in search, its {self.beam} best re-scored with {by}"
        return f"ctranslate2 in {self.compute}, with its own stop rule" + (f"; {how}" if rescored else "")

    def __call__(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
        """At most `nbest` outputs for each sentence, best first, batch by batch."""
        for batch in request.batches():
            if batch.constraint is not None:  # constraints from options were refused on opening
                raise DataError(
                    "a line has a prefix, phrases or terms, which backend=ctranslate2 cannot do; give backend=native"
                )
            if any(request.starting_tokens(sentence) != request.vocab.starting_tokens for sentence in batch.sentences):
                raise DataError("a sentence has starting tokens of its own, which backend=ctranslate2 cannot do")
            n_tokens = lambda sentence: len(sentence.ids)  # noqa: E731  a call has one length limit
            for _, alike in groupby(sorted(batch.sentences, key=n_tokens), key=n_tokens):
                group = list(alike)
                found = self._search([request.vocab.without_end(s.ids) for s in group], request.model, request.nbest)
                yield [SearchResult(s.index, hypotheses) for s, hypotheses in zip(group, found, strict=True)]

    def _search(self, sources: list[list[int]], model: Seq2Seq, nbest: int) -> list[list[Hypothesis]]:
        """Search for sources of one length."""
        limit = min(self.config.max_output_length(len(sources[0]), model.max_len), self.exported.n_positions - 2)
        results = self._translate(sources, limit)
        odd = [i for i, result in enumerate(results) if self.exported.has_forbidden(result.hypotheses)]
        if odd:
            without = self._translate([sources[i] for i in odd], limit, suppress_sequences=self.exported.forbidden)
            results = [without[odd.index(i)] if i in odd else result for i, result in enumerate(results)]
        renormalised = set(range(len(sources)) if self.config.ban_unk else odd)
        scored = [self._scored(ids, results[i], limit, i in renormalised) for i, ids in enumerate(sources)]
        return [sorted(hypotheses, key=lambda h: -h.score)[:nbest] for hypotheses in scored]

    def _translate(self, sources: list[list[int]], limit: int, **options: Any) -> list[Any]:
        return self.exported.translate(
            sources,
            limit + 1,  # it counts eos
            beam_size=self.beam,
            num_hypotheses=self.beam,
            length_penalty=self.alpha,
            disable_unk=self.config.ban_unk,
            return_scores=True,
            **options,
        )

    def _scored(self, source: list[int], result: Any, limit: int, renormalised: bool) -> list[Hypothesis]:
        """Hypotheses scored by log p(tokens, eos | source) over the configured penalty.

        CTranslate2 renormalises over the allowed tokens, and an output cut off at the limit has no eos: such outputs
        are scored again.
        """
        hypotheses = []
        for output, score in zip(result.hypotheses, result.scores, strict=True):
            tokens, length = self.exported.without_eos(output)
            log_prob = score * length**self.alpha
            is_cut = length == len(tokens)
            if renormalised or is_cut:
                tokens = tokens[:limit]
                log_prob = sum(self.exported.log_probs([source], [tokens])[0])
            penalty = self.penalty(len(tokens) + 1)
            hypotheses.append(Hypothesis(tokens, log_prob / penalty, log_prob, [], finished=not is_cut))
        return hypotheses
