"""Search by CTranslate2, as one more search: inputs, formats, order and n-best are those of every other."""

from __future__ import annotations

__all__ = ["ExportedSearch", "open_export"]

from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch

from s2s.decoding import BeamConfig, GreedyConfig, Hypothesis
from s2s.decoding.constraints import build_constraint
from s2s.decoding.limits import max_output_length
from s2s.decoding.penalties import PENALTIES
from s2s.durable import digest
from s2s.errors import CheckpointError, ConfigError, DataError
from s2s.export.ctranslate2 import FORBIDDEN, Served
from s2s.export.exporting import read_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from s2s.config import GenerateConfig
    from s2s.model import Seq2Seq
    from s2s.registry import Choice
    from s2s.run import Run
    from s2s.task import Constraint, Task, Vocab

COMPUTE = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def open_export(folder: Path, run: Run, config: GenerateConfig, chosen: Choice, device: torch.device) -> ExportedSearch:
    """The exported model of a run's checkpoint, ready to search; an error for what it cannot do."""
    written, checkpoint = read_manifest(folder), run.checkpoint_path
    if written.get("checkpoint_sha256") != digest(checkpoint / "MANIFEST.json"):
        raise CheckpointError(
            f"{folder} was exported from {written.get('checkpoint')}, not from {checkpoint.name}; run s2s-export "
            f"run={config.run} checkpoint={checkpoint.name}, or give checkpoint={written.get('checkpoint')}"
        )
    _refuse_unsupported(config, chosen)
    _refuse_constraint(config, run.task)
    compute = "int8" if config.quantization == "int8" else COMPUTE[config.precision]
    served = Served(folder, compute_type=compute, device=device.type, intra_threads=config.threads)
    if config.max_source > served.n_positions and not run.model.max_len:
        raise ConfigError(f"max_source={config.max_source}: the exported model has {served.n_positions} positions")
    assert isinstance(chosen, BeamConfig | GreedyConfig)
    return ExportedSearch(served, chosen, compute)


def _refuse_unsupported(config: GenerateConfig, chosen: Choice) -> None:
    """ConfigError for each option that would otherwise do nothing."""
    if not isinstance(chosen, BeamConfig | GreedyConfig):
        raise ConfigError(f"backend=ctranslate2 searches by beam or greedy, not by search={chosen.name}")
    if isinstance(chosen, BeamConfig) and chosen.num_beam_groups > 1:
        raise ConfigError(
            f"search.num_beam_groups={chosen.num_beam_groups}: backend=ctranslate2 has no groups; "
            "give search.num_beam_groups=1"
        )
    if config.workers != 1:
        raise ConfigError(f"backend=ctranslate2 has threads of its own: give threads={config.workers} and no workers")
    if "log_probs" in config.fields:
        raise ConfigError("backend=ctranslate2 does not tell log_probs of symbols; leave them out of fields")
    if isinstance(chosen, BeamConfig) and config.nbest > chosen.beam:
        raise ConfigError(f"nbest={config.nbest} is more than the beam, which is {chosen.beam}; give search.beam")


def _refuse_constraint(config: GenerateConfig, task: Task) -> None:
    if build_constraint(config, task) is not None:
        raise ConfigError(
            "backend=ctranslate2 cannot keep to what the task, min_len, no_repeat_ngram_size or bad_words allow; "
            "leave these out and give constrained=false, or backend=native"
        )


class ExportedSearch:
    """The `Search` of a model that CTranslate2 has loaded.

    Its own penalty is a power of the length. With another, as the paper's, what it found for that power is ranked anew:
    the scores are right, but a better output may have been dropped on the way.
    """

    def __init__(self, served: Served, config: BeamConfig | GreedyConfig, compute: str) -> None:
        self.served, self.config, self.compute = served, config, compute
        beam = config if isinstance(config, BeamConfig) else BeamConfig(beam=1, length_penalty="none")
        self.beam, self.ranked_by = beam.beam, beam.length_penalty
        self.penalty = PENALTIES[self.ranked_by]
        self.alpha = 0.0 if self.ranked_by == "none" else beam.alpha

    def describe(self) -> str:
        """What computes, and how near its search is to ours."""
        rescored = self.ranked_by == "gnmt" and self.alpha != 0 and self.beam > 1
        how = f"approximate: |Y| ** {self.alpha:g} in search, its {self.beam} best re-scored with {self.ranked_by}"
        return f"ctranslate2 in {self.compute}, with its own stop rule" + (f"; {how}" if rescored else "")

    def __call__(
        self,
        model: Seq2Seq,
        src: Tensor,
        pad: Tensor,
        vocab: Vocab,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> list[list[Hypothesis]]:
        """At most `nbest` outputs for each source, best first: src, pad [B, S]."""
        if constraint is not None:  # that of the options was refused when the model was opened
            raise DataError(
                "a line asks for a prefix or phrases, which backend=ctranslate2 cannot do; give backend=native"
            )
        sources = [row[~gap].tolist()[:-1] for row, gap in zip(src, pad, strict=True)]
        found: dict[int, list[Hypothesis]] = {}
        places = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        for _, alike in groupby(places, key=lambda i: len(sources[i])):  # the limit is one for a whole call
            group = list(alike)
            found |= zip(group, self._search([sources[i] for i in group], model, nbest), strict=True)
        return [found[i] for i in range(len(sources))]

    def _search(self, sources: list[list[int]], model: Seq2Seq, nbest: int) -> list[list[Hypothesis]]:
        """Sources of one length."""
        limit = min(max_output_length(self.config, model, len(sources[0])), self.served.n_positions - 2)
        results = self._translate(sources, limit)
        odd = [i for i, result in enumerate(results) if self.served.has_forbidden(result.hypotheses)]
        if odd:
            without = self._translate([sources[i] for i in odd], limit, suppress_sequences=FORBIDDEN)
            results = [without[odd.index(i)] if i in odd else result for i, result in enumerate(results)]
        renormalised = set(range(len(sources)) if self.config.ban_unk else odd)
        found = [self._scored(ids, results[i], limit, i in renormalised) for i, ids in enumerate(sources)]
        return [sorted(hypotheses, key=lambda h: -h.score)[:nbest] for hypotheses in found]

    def _translate(self, sources: list[list[int]], limit: int, **options: Any) -> list[Any]:
        return self.served.translate(
            sources,
            beam_size=self.beam,
            num_hypotheses=self.beam,
            length_penalty=self.alpha,
            max_decoding_length=limit + 1,  # it counts eos
            disable_unk=self.config.ban_unk,
            return_scores=True,
            **options,
        )

    def _scored(self, source: list[int], result: Any, limit: int, renormalised: bool) -> list[Hypothesis]:
        """The penalty that was asked for, over log p(tokens, eos | source).

        CTranslate2 shares out the probability of symbols that it must not write, and an output that did not end lacks
        its eos: these are scored anew.
        """
        found = []
        for symbols, score in zip(result.hypotheses, result.scores, strict=True):
            tokens, length = self.served.without_end(symbols)
            log_prob = score * length**self.alpha
            if renormalised or length == len(tokens):
                tokens = tokens[:limit]
                log_prob = sum(self.served.log_probs([source], [tokens])[0])
            penalty = self.penalty(torch.tensor(len(tokens) + 1.0, dtype=torch.float64), self.alpha)
            found.append(Hypothesis(tokens, log_prob / float(penalty), log_prob, []))
        return found
