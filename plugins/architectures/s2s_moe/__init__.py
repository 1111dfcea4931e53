"""Sparsely gated mixtures of experts (Shazeer et al., 2017): in any architecture, and between LSTM layers. No torch at
import."""

from __future__ import annotations

__all__ = ["ExpertsConfig", "GatingConfig", "MixtureConfig", "MoELSTMConfig", "s2s_register"]

from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.compose import entry_config
from s2s.config import SHARE, at_least, check_ranges
from s2s.distributed import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import torch

    from s2s import Vocab
    from s2s.config import TrainConfig
    from s2s.distributed import Sharding, World
    from s2s_moe.mixture import Mixture


@dataclass(kw_only=True)
class GatingConfig(Choice):
    """Options of every mixture layer; sections are those of Shazeer et al. (2017)."""

    n_experts: int = 8
    """Experts of a mixture layer."""
    n_groups: int = 0
    """Groups of equal size into which the experts are divided, each with a gating network of its own (appendix B);
    0: one flat gating network."""
    k: int = 2
    """Active experts per token (section 2.1). With groups: active groups, and active experts in each of them."""
    noisy: bool = True
    """Add tunable Gaussian noise to the gating logits in training (equation 4)."""
    importance: float = 0.01
    """Weight of the importance loss: squared coefficient of variation of the experts' gates (equation 7)."""
    load: float = 0.01
    """Weight of the load loss: the same for the expected number of tokens of each expert (equation 11); needs noise."""
    balance: Literal["sentence", "micro_batch"] = "sentence"
    """Tokens over which both losses sum. sentence: updates do not depend on how a batch is split into micro-batches and
    over ranks. micro_batch: all tokens computed at once, as in the paper."""
    log_experts: bool = False
    """Log each expert's share of the tokens, over all mixture layers."""

    def __post_init__(self) -> None:
        check_ranges("arch", self, n_experts=at_least(2), n_groups=at_least(0), k=at_least(1))
        check_ranges("arch", self, importance=at_least(0), load=at_least(0))
        if self.n_groups and self.n_experts % self.n_groups:
            raise ConfigError(f"arch.n_experts={self.n_experts} must be a multiple of arch.n_groups={self.n_groups}")
        smallest = min(self.n_groups, self.n_experts // self.n_groups) if self.n_groups else self.n_experts
        if self.k >= smallest:
            raise ConfigError(f"arch.k={self.k}: a gate chooses among {smallest}, so give a smaller number")
        if self.load and not self.noisy:
            raise ConfigError("arch.load is defined by the noise of the gates: give arch.load=0 with arch.noisy=false")

    @property
    def n_active(self) -> int:
        """Number of experts that compute a token."""
        return self.k**2 if self.n_groups else self.k


@dataclass(kw_only=True)
class MixtureConfig(GatingConfig):
    """An architecture with some of its position-wise modules replaced by mixtures of such modules."""

    of: dict[str, Any] = field(default_factory=lambda: {"name": "transformer"})
    """The architecture, by its name and with its options: {name: transformer, d_ff: 512, …}; for another architecture,
    give all of it at once, as in arch.of={name: …}."""
    d_model: int = 512
    """Width of the model, if its architecture has that option."""
    encoder: str = "encoder.*.feed_forward"
    """Modules of the encoder that become mixtures, as a pattern; each maps vectors of width d_model to such vectors.
    Empty: none."""
    decoder: str = "decoder.*.feed_forward"
    """The same for the decoder."""
    every: int = 2
    """The last of every so many matching modules becomes a mixture: 2, every other layer (Lepikhin et al., 2021); 1,
    all of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("arch", self, d_model=at_least(1), every=at_least(1))
        if "d_model" in self.of:
            raise ConfigError("arch.of.d_model: the schedule may follow it, so give it as arch.d_model")
        if not isinstance(self.of.get("name"), str):
            raise ConfigError("arch.of must name an architecture; give arch.of.name=… and its options beside it")


@dataclass(kw_only=True)
class MoELSTMConfig(GatingConfig):
    """The translation model of Shazeer et al. (2017), appendix E: GNMT with fewer LSTM layers and two mixtures."""

    d_model: int = 512
    """Width of embeddings and of every layer's output."""
    d_cell: int = 2048
    """Cells of an LSTM layer, which are projected to d_model."""
    n_encoder_layers: int = 3
    """LSTM layers of the encoder, the first bidirectional; the mixture precedes the last."""
    n_decoder_layers: int = 2
    """LSTM layers of the decoder; the mixture follows the first."""
    d_expert: int = 2048
    """Inner width of an expert, which has one hidden layer with ReLU."""
    mixture: bool = True
    """False: the paper's baseline without mixture layers."""
    n_experts: int = 32
    """Experts of a mixture layer."""
    k: int = 4
    """Active experts per token (section 2.1). With groups: active groups, and active experts in each of them."""
    dropout: float = 0.4
    """Dropout on the output of embeddings, LSTM and mixture layers."""
    init: float = 0.04
    """Weights are drawn uniformly from [-init, init], as in GNMT; gates start at 0 (appendix A)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = ("d_model", "d_cell", "d_expert", "n_decoder_layers")
        check_ranges("arch", self, **dict.fromkeys(sizes, at_least(1)), n_encoder_layers=at_least(2), dropout=SHARE)
        if self.d_model % 2 or self.d_cell <= self.d_model:
            raise ConfigError(
                f"arch.d_model={self.d_model} must be even and less than arch.d_cell={self.d_cell}, which are projected"
            )


@dataclass(kw_only=True)
class ExpertsConfig(Choice):
    """Each process holds a share of the experts; tokens are sent to their experts and back."""


@dataclass(frozen=True)
class Experts:
    """train.strategy=experts, in processes that are started and joined as those of ddp."""

    ddp: Strategy

    def launch(self, train: TrainConfig, arguments: Sequence[str]) -> int | None:
        """The processes' exit code; None: train in this one."""
        return self.ddp.launch(train, arguments)

    def join(self, device: str, timeout: timedelta) -> World | None:
        """The process group; None: there are no others."""
        return self.ddp.join(device, timeout)

    def share(self, world: World, dtype: torch.dtype) -> Sharding:
        """A share of the experts, and all other parameters, on every rank."""
        from s2s_moe.expert_parallel import ExpertParallel

        return ExpertParallel(world, dtype)


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The architectures, under their names, and the strategy that divides experts over the ranks."""
    registry.add("strategy", "experts", ExpertsConfig, lambda _: Experts(registry.build_default("strategy", "ddp")))
    registry.arch("mixture", MixtureConfig, partial(_mixture, registry))
    registry.arch("moe_lstm", MoELSTMConfig, "s2s_moe.lstm:MoELSTM")


def _mixture(registry: Registry, config: MixtureConfig, vocab: Vocab) -> Mixture:
    """The named architecture, with experts taken from `n_experts` models of it."""
    from s2s_moe.mixture import Mixture  # brings torch

    entry = registry.get("arch", config.of["name"])
    width = {"d_model": config.d_model} if any(item.name == "d_model" for item in fields(entry.config)) else {}
    inner = entry_config(entry, width | config.of, "arch.of")
    return Mixture(config, vocab, lambda: entry.build(inner, vocab))
