"""The configuration of every command: what stands here is its default, its type and its documentation.

What is chosen by name (task, arch, loss, optim, schedule, search) is a `Choice`, whose fields stand beside
the component; the rest is here. A value may be another's, anywhere in the configuration: `${arch.d_model}`.
"""

from __future__ import annotations

__all__ = [
    "AverageConfig",
    "CheckpointConfig",
    "Config",
    "DataConfig",
    "GenerateConfig",
    "LogConfig",
    "PrepareConfig",
    "ScoreConfig",
    "TrainConfig",
    "ValidConfig",
]

from s2s.config.commands import AverageConfig, GenerateConfig, PrepareConfig
from s2s.config.score import ScoreConfig
from s2s.config.training import CheckpointConfig, Config, DataConfig, LogConfig, TrainConfig, ValidConfig
