"""The settings of a search for functions in C, from its options; tables of numbers are left out. No torch at import."""

from __future__ import annotations

__all__ = ["SamplingOptions", "beam_settings", "repeats_struct", "sampling_rule", "sampling_settings"]

from typing import TYPE_CHECKING, Protocol

from s2s_cpu.structs import RepeatsStruct, SamplingRuleStruct, SearchStruct

if TYPE_CHECKING:
    from array import array

    from s2s.decoding import BeamConfig


class SamplingOptions(Protocol):
    """From which distribution tokens are drawn: a `SampleConfig`, or a `SamplingRule` of s2s.backend.operators."""

    @property
    def temperature(self) -> float:
        """Above 0."""

    @property
    def top_k(self) -> int:
        """0: all tokens"""

    @property
    def top_p(self) -> float:
        """In (0, 1]"""


def beam_settings(options: BeamConfig, eos: int, n_best: int, *, normalize: bool) -> SearchStruct:
    """Those of beam search.

    n_best: the outputs wanted of each sentence; 0: each has its own number. normalize: whether logits are normalised.
    """
    beam, stop = options.beam, options.stop
    return SearchStruct(
        beam=beam,
        E=beam,
        eos=eos,
        n=2 * beam,
        n_finishable=beam if stop in ("first_k", "heuristic") else 2 * beam,
        stop_rank=min(n_best, beam) if stop == "best" else beam,
        first_k=stop == "first_k",
        at_present=stop == "heuristic",
        normalize=normalize,
    )


def sampling_settings(options: SamplingOptions, eos: int, n_best: int, *, normalize: bool) -> SearchStruct:
    """Those of up to `n_best` samples of each sentence; there are no candidates and no penalties."""
    rule = sampling_rule(options)
    return SearchStruct(beam=n_best, E=n_best, eos=eos, normalize=normalize, sampling=rule)


def sampling_rule(options: SamplingOptions) -> SamplingRuleStruct:
    """The rule for functions in C."""
    return SamplingRuleStruct(options.top_k, options.top_p, options.temperature)


def repeats_struct(n_gram: int, penalty: float, always: array[int], *, changes_log_probs: bool) -> RepeatsStruct:
    """How the tokens that an output already has change the choice of the next one; penalty 1: not at all.

    always: tokens that are penalised in any case, which the structure points to.
    """
    return RepeatsStruct(
        n_gram, changes_log_probs, 0.0 if penalty == 1 else penalty, always.buffer_info()[0], len(always)
    )
