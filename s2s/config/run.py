"""The options of s2s-train: the groups that are chosen by name, and the sections that every run has."""

from __future__ import annotations

__all__ = ["CheckpointConfig", "Config", "LogConfig", "ValidConfig"]

from dataclasses import dataclass, field

from s2s.config.data import DataConfig
from s2s.config.marks import Mark
from s2s.config.ranges import at_least, check_ranges
from s2s.config.training import TrainConfig
from s2s.errors import ConfigError
from s2s.registry import Choice


@dataclass(kw_only=True)
class ValidConfig:
    """When and how a run is validated."""

    every: int = 1000
    """Updates between two validations; 0 validates at the end only."""
    score: bool = True
    """Also decode the development set and score it; the loss is always computed."""
    sentences: int = 500
    """Sentences that are decoded for the score; 0 takes all."""
    best: str = "nll"
    """Score by which the best checkpoint is chosen: nll, or one of the task's metrics, such as bleu."""
    patience: int = 0
    """Validations without improvement after which training stops; 0 never stops early."""

    def __post_init__(self) -> None:
        check_ranges("valid", self, every=at_least(0), sentences=at_least(0), patience=at_least(0))
        if self.patience and not self.every:
            raise ConfigError(f"valid.patience={self.patience} counts validations; give valid.every=…, too")


@dataclass(kw_only=True)
class CheckpointConfig:
    """When checkpoints are saved, and which are kept."""

    every: int = 1000
    """Updates between two checkpoints; 0 saves at the end only."""
    minutes: float = 0.0
    """Minutes between two checkpoints, beside `every`; 0 counts updates only."""
    keep_last: int = 5
    """Newest checkpoints to keep; at least as many as train.average needs."""
    keep_best: int = 1
    """Best checkpoints to keep beside them; at least as many as train.average needs with average_of=best."""

    def __post_init__(self) -> None:
        none, one = at_least(0), at_least(1)
        check_ranges("checkpoint", self, every=none, minutes=none, keep_last=one, keep_best=one)


@dataclass(kw_only=True)
class LogConfig:
    """Screen, log files and TensorBoard."""

    every: int = 50
    """Updates between two lines of the log; 0 shows none."""
    format: str = "text"
    """Format of standard output: text, json, or what a plugin registers; log.jsonl in the run directory is always
    written."""
    tensorboard: bool = True
    """Write TensorBoard's event files when it is installed."""

    def __post_init__(self) -> None:
        check_ranges("log", self, every=at_least(0))


@dataclass(kw_only=True)
class Config:
    """s2s-train: train a model; the same command continues a run that was stopped.

    s2s-train task=translation arch=transformer_tiny
    s2s-train task=translation task.train=[text.en,text.de] train.budget=2h
    s2s-train runs/my_run/config.yaml train.steps=200_000
    """

    run: str = field(default="", metadata=Mark.NEUTRAL)
    """Run directory, or its name under runs/; empty: runs/<task>-<arch>."""
    seed: int = 1
    """Seed of initialisation, dropout and the order of the data."""
    task: Choice = field(default_factory=Choice)
    """The task: data, vocabulary and metrics."""
    arch: Choice = field(default_factory=Choice)
    """The model."""
    objective: Choice = field(default_factory=lambda: Choice(name="label_smoothed"))
    """What is minimised."""
    optim: Choice = field(default_factory=lambda: Choice(name="adam"))
    """The optimizer."""
    schedule: Choice = field(default_factory=lambda: Choice(name="noam"))
    """The learning rate schedule."""
    recipe: Choice = field(default_factory=Choice, metadata={"may_stay_open": True})
    """Chooses values that are not given. Empty: auto, if neither arch nor an experiment is given. none: no recipe."""
    search: Choice = field(default_factory=lambda: Choice(name="beam"), metadata=Mark.NEUTRAL)
    """The search, at validation and by default in s2s-generate."""
    data: DataConfig = field(default_factory=DataConfig)
    """From raw examples to batches."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """Updates, precision, devices."""
    valid: ValidConfig = field(default_factory=ValidConfig, metadata=Mark.NEUTRAL)
    """When and how the run is validated."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig, metadata=Mark.NEUTRAL)
    """When checkpoints are written, and which are kept."""
    log: LogConfig = field(default_factory=LogConfig, metadata=Mark.NEUTRAL)
    """Screen, files and TensorBoard."""

    def __post_init__(self) -> None:
        check_ranges("", self, seed=at_least(0, 2**63 - 1))
