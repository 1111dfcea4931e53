"""The configuration of every command: options with their defaults, types and documentation.

A group that is chosen by name (task, arch, objective, optim, schedule, search) is a `Choice`, whose options stand
beside the component. A value may refer to another option, anywhere in the configuration: `${arch.d_model}`.
"""

from __future__ import annotations

__all__ = [
    "SHARE",
    "AverageConfig",
    "CheckpointConfig",
    "Config",
    "DataConfig",
    "GenerateConfig",
    "LogConfig",
    "PrepareConfig",
    "Range",
    "TrainConfig",
    "ValidConfig",
    "above",
    "at_least",
    "refuse_outside",
]

from s2s.config.commands import AverageConfig, GenerateConfig, PrepareConfig
from s2s.config.ranges import SHARE, Range, above, at_least, refuse_outside
from s2s.config.training import CheckpointConfig, Config, DataConfig, LogConfig, TrainConfig, ValidConfig
