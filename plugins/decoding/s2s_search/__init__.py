"""Named searches: beam search, optionally in groups, and sampling. No torch at import."""

from __future__ import annotations

__all__ = ["DiverseBeamConfig", "s2s_register"]

from dataclasses import dataclass

from s2s import ConfigError, Registry, hookimpl
from s2s.config import at_least, check_all_used, check_ranges
from s2s.decoding import BeamConfig, SampleConfig


@dataclass(kw_only=True)
class DiverseBeamConfig(BeamConfig):
    """Beam search as in section 6.1."""

    num_beam_groups: int = 1
    """Diverse beam search: the beam is divided into this many groups of equal size, which choose their tokens one after
    another in each step (Vijayakumar et al., 2018)."""
    diversity_penalty: float = 0.5
    """With groups, the amount by which a candidate's score is lowered for each hypothesis of an earlier group that
    chose the same token in this step; the scores of outputs stay those of the model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("search", self, num_beam_groups=at_least(1), diversity_penalty=at_least(0))
        in_groups = self.num_beam_groups > 1
        check_all_used(self, "diversity_penalty", "search.num_beam_groups=2 or more", in_groups, section="search")
        if self.beam % self.num_beam_groups:
            raise ConfigError(
                f"search.beam={self.beam} must be a multiple of search.num_beam_groups={self.num_beam_groups}"
            )

    @property
    def group_size(self) -> int:
        """Number of hypotheses in a group."""
        return self.beam // self.num_beam_groups


def streamed_beam_search(config: DiverseBeamConfig) -> BeamConfig | None:
    """What a stream in C reads; None: it has no groups."""
    return config if config.num_beam_groups == 1 else None


def streamed_sampling(config: SampleConfig) -> SampleConfig:
    """What a stream in C reads."""
    return config


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.search("beam", DiverseBeamConfig, "s2s_search.diverse:build_beam_search")
    registry.search("sample", SampleConfig, "s2s_search.sampling:Sampling")
    registry.add("streamed_search", "beam", DiverseBeamConfig, streamed_beam_search)
    registry.add("streamed_search", "sample", SampleConfig, streamed_sampling)
