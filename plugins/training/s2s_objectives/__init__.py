"""Objectives other than cross-entropy: R-Drop, SimCut, minimum risk, reward, distillation. No torch at import."""

from __future__ import annotations

__all__ = ["DistillConfig", "GnmtRlConfig", "RDropConfig", "RiskConfig", "SimCutConfig", "s2s_register"]

from dataclasses import dataclass
from typing import Any

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import Range, above, at_least, check_ranges


@dataclass(kw_only=True)
class RDropConfig(Choice):
    """R-Drop: two passes with different dropout, regularised to give similar distributions (Liang et al., 2021)."""

    alpha: float = 5.0
    """Weight of the symmetric KL divergence; 5 for translation in the paper."""
    eps: float = 0.1
    """Label smoothing of the cross-entropy: probability moved to the wrong tokens."""
    chunk: int | None = None
    """Target positions whose logits, of both passes, are held at a time. null: 128 on a CPU, 256 in bf16, else 512;
    0: all of them."""

    def __post_init__(self) -> None:
        check_ranges("objective", self, alpha=at_least(0), eps=Range(0, 1, without_high=True), chunk=at_least(0))


@dataclass(kw_only=True)
class SimCutConfig(Choice):
    """SimCut: a second pass with tokens cut out, trained to give the distributions of the first (Gao et al., 2022)."""

    alpha: float = 3.0
    """Weight of the KL divergence; 3 in the paper."""
    cut: float = 0.05
    """Share of each side's tokens that are cut, 0.05 in the paper. The others are scaled up, as in word dropout."""
    eps: float = 0.1
    """Label smoothing of the cross-entropy: probability moved to the wrong tokens."""
    chunk: int | None = None
    """Target positions whose logits, of both passes, are held at a time. null: 128 on a CPU, 256 in bf16, else 512;
    0: all of them."""

    def __post_init__(self) -> None:
        shares = dict.fromkeys(("cut", "eps"), Range(0, 1, without_high=True))
        check_ranges("objective", self, alpha=at_least(0), **shares, chunk=at_least(0))


@dataclass(kw_only=True)
class RiskConfig(Choice):
    """Minimum risk training: the expected cost of outputs sampled from the model (Shen et al., 2016).

    For a model that is trained already: give its run as train.init_from.
    """

    search: Any = "sample"
    """The search that draws outputs: a name, or {name: sample, temperature: 0.8}."""
    n: int = 10
    """Outputs sampled per sentence; duplicates count once. The paper uses 100."""
    reference: bool = True
    """Add the reference to the outputs, as the paper does."""
    alpha: float = 0.005
    """Sharpness: an output's weight is its probability to the power of alpha, renormalised over the sampled outputs."""
    metric: Any = "bleu"
    """The cost of an output is 1 - its sentence score / scale: a metric's name, or {name: bleu, lowercase: true}."""
    scale: float = 100.0
    """The metric's perfect score. Where less is better, the cost is score / scale."""
    chunk: int = 1024
    """Target positions whose logits are held at a time."""

    def __post_init__(self) -> None:
        check_ranges("objective", self, n=at_least(1), alpha=above(0), scale=above(0), chunk=at_least(1))


@dataclass(kw_only=True)
class GnmtRlConfig(Choice):
    """Maximum likelihood plus the expected reward of sampled outputs, as GNMT was refined (Wu et al., 2016).

    For a model that is trained already: give its run as train.init_from.
    """

    alpha: float = 0.25
    """Weight of the references' log-likelihood; 0.25 in the paper (section 8.5)."""
    search: Any = "sample"
    """The search that draws outputs: a name, or {name: sample, temperature: 0.8}."""
    n: int = 15
    """Outputs sampled per sentence; their mean reward is subtracted from each reward. 15 in the paper."""
    metric: Any = "gleu"
    """The reward is its sentence score / scale: a metric's name, or {name: gleu, tokenize: none}."""
    scale: float = 100.0
    """The metric's perfect score. Where less is better, the reward is -score / scale."""
    chunk: int = 1024
    """Target positions whose logits are held at a time."""

    def __post_init__(self) -> None:
        check_ranges("objective", self, n=at_least(2), alpha=at_least(0), scale=above(0), chunk=at_least(1))


@dataclass(kw_only=True)
class DistillConfig(Choice):
    """Word-level knowledge distillation from other runs with the same vocabulary (Kim and Rush, 2016)."""

    teachers: list[str]
    """Teacher runs, optionally with a checkpoint: [big1, big2@best]. The mean of their probabilities is the target.
    Training needs them whenever it starts or resumes; s2s-generate with the student does not."""
    weight: float = 0.5
    """Weight of the divergence from the teachers; the rest is cross-entropy against the target."""
    temperature: float = 1.0
    """Divides the logits of teachers and student; the divergence is multiplied by its square."""
    chunk: int = 512
    """Target positions whose logits are held at a time."""

    def __post_init__(self) -> None:
        check_ranges("objective", self, weight=Range(0, 1), temperature=above(0), chunk=at_least(1))
        if not self.teachers:
            raise ConfigError("objective.teachers=[]: give the runs to learn from, such as objective.teachers=[big]")


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The objectives, under their names."""
    registry.objective("rdrop", RDropConfig, "s2s_objectives.rdrop:RDrop")
    registry.objective("simcut", SimCutConfig, "s2s_objectives.simcut:SimCut")
    registry.objective("risk", RiskConfig, "s2s_objectives.risk:Risk")
    registry.objective("gnmt_rl", GnmtRlConfig, "s2s_objectives.gnmt_rl:GnmtRl")
    registry.objective("distill", DistillConfig, "s2s_objectives.distill:Distill")
