"""Many runs as one table, as a plugin: the command s2s-study, its engines, and the interface of an engine.

rows → `jobs` (one run for each row and seed) → an engine → `job` (train, then `evaluation`) → `results` → `table`
"""

from __future__ import annotations

__all__ = ["Engine", "EvaluateConfig", "StudyConfig", "TuneConfig", "s2s_register"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import above, at_least, check_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


@dataclass(kw_only=True)
class EvaluateConfig:
    """What is decoded and scored after a run."""

    split: str = "valid"
    """Examples of the task that are decoded: valid or test."""
    sentences: int = 500
    """Number of examples, from the first; 0: all."""
    checkpoint: str = "auto"
    """Checkpoint that is decoded, as s2s-generate takes it."""
    options: dict[str, Any] = field(default_factory=dict)
    """Other options of s2s-generate, such as {search: {beam: 8}}."""

    def __post_init__(self) -> None:
        check_ranges("evaluate", self, sentences=at_least(0))


@dataclass(kw_only=True)
class TuneConfig:
    """Rows from a search over the values of options, tried on every given row."""

    method: Literal["none", "grid", "random", "halving"] = "none"
    """grid: every combination. random: `trials` draws. halving: `trials` draws, trained for a part of train.steps, of
    which the best 1 / eta go on, until train.steps is reached (Jamieson & Talwalkar, 2016)."""
    space: dict[str, Any] = field(default_factory=dict)
    """Option, with dots, -> a list of values, or {low: 1e-4, high: 1e-2, log: true}."""
    trials: int = 9
    """Draws of random and halving."""
    seed: int = 1
    """Seed of the draws."""
    measure: str = "nll"
    """Measure by which halving chooses."""
    eta: int = 3
    """halving: the number of trials is divided, and their updates multiplied, by this."""
    first: int = 0
    """halving: updates before the first choice; 0: chosen such that one trial is left at train.steps."""

    def __post_init__(self) -> None:
        check_ranges("tune", self, trials=at_least(1), eta=at_least(2), first=at_least(0))
        if (self.method == "none") == bool(self.space):
            raise ConfigError(f"tune.method={self.method} tune.space={self.space}: give both, or neither")


@dataclass(kw_only=True)
class StudyConfig:
    """s2s-study: many runs as one table; run again, it continues.

    s2s-study my_study.yaml jobs=2
    s2s-study table3_cpu engine=slurm jobs=16 engine_options.sbatch=[--gpus=1]
    """

    title: str = ""
    """Caption of the table."""
    output: str = ""
    """Folder of jobs, runs and tables; empty: studies/ and the name of the study's file."""
    overwrite: bool = False
    """Replace tables in it even if s2s-study did not write them, or they have been changed since."""
    base: dict[str, Any] = field(default_factory=dict)
    """Settings that all runs share, in the form of a configuration file of s2s-train."""
    rows: dict[str, Any] = field(default_factory=dict)
    """Name of a row -> its changes to `base`, in the same form; {init_from_row: ROW} starts with the weights of another
    row, {ensemble_of: ROW} decodes with the runs of all seeds of that row. Empty: the base alone."""
    seeds: list[int] = field(default_factory=lambda: [1])
    """Each row has one run per seed."""
    measures: list[str] = field(default_factory=lambda: ["steps", "ppl", "bleu", "parameters"])
    """Columns: steps, ppl, nll, parameters, flops, paper_flops, hours, tokens, memory, sentences_per_second, and the
    names of the task's metrics and of the objective's extra values."""
    compare: list[str] = field(default_factory=list)
    """Measures whose differences from the first row are tested; empty: the first metric among the measures."""
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    """What is decoded and scored after a run."""
    tune: TuneConfig = field(default_factory=TuneConfig)
    """Grid, random search, successive halving."""
    device_tflops: float | None = None
    """Sustained TFLOPS of a device, for paper_flops = time x devices x this (section 6.1; a P100: 9.5). null: the rate
    of large matrix products, as measured by s2s-train."""
    samples: int = 1000
    """Bootstrap samples of intervals and tests."""
    engine: str = "local"
    """Where jobs run: local, slurm, ray, or an engine that a plugin registers."""
    engine_options: dict[str, Any] = field(default_factory=dict)
    """Options of the engine; `s2s-plugins show study_engine=slurm` lists them."""
    jobs: int = 1
    """Maximum number of jobs running at the same time."""
    only_table: bool = False
    """Run nothing; make the table from the finished jobs."""

    def __post_init__(self) -> None:
        check_ranges("", self, jobs=at_least(1), samples=at_least(0), device_tflops=above(0))
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"seeds={self.seeds}: give one or more, each once")


@dataclass(kw_only=True)
class LocalConfig(Choice):
    """Processes on this machine."""

    attempts: int = 3
    """Maximum number of starts of a job that was killed, or that saved and stopped."""


@dataclass(kw_only=True)
class SlurmConfig(Choice):
    """A Slurm array job; the command waits until it ends, and all nodes must see the working directory."""

    sbatch: list[str] = field(default_factory=list)
    """Options of sbatch, such as [--gpus=1, --time=24:00:00, --partition=main]."""
    notice: int = 120
    """Seconds before the time limit at which a job is signalled to save; it then requeues itself."""


@dataclass(kw_only=True)
class RayConfig(Choice):
    """Tasks on a Ray cluster (extra `ray`); all nodes must see the working directory."""

    address: str = "auto"
    """Address of the cluster; auto: the one running here, local: one started for this study."""
    cpus: float = 1
    """CPUs of a job."""
    gpus: float = 0
    """GPUs of a job."""
    attempts: int = 5
    """Maximum number of starts of a job whose worker or node was lost, or that saved and stopped."""


class Engine(Protocol):
    """Runs jobs somewhere. The factory receives the engine's config."""

    def run(self, jobs: Sequence[Path], n: int, ended: Callable[[Path], None]) -> None:
        """Runs `python -m s2s_study.job FILE` in the current directory for every file, at most `n` at once.

        Returns when all have ended, successfully or not; calls `ended` with each file once the end of its job is known.
        """


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The engines."""
    registry.group("study_engine", "where jobs of s2s-study run: factory(config) -> s2s_study.Engine")
    registry.add("study_engine", "local", LocalConfig, "s2s_study.engines:LocalEngine")
    registry.add("study_engine", "slurm", SlurmConfig, "s2s_study.engines:SlurmEngine")
    registry.add("study_engine", "ray", RayConfig, "s2s_study.engines:RayEngine")
