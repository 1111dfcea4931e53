"""The configuration of every command: options with their defaults, types and documentation.

A group that is chosen by name (task, arch, objective, optim, schedule, search) is a `Choice`, whose options stand
beside the component. A value may refer to another option, anywhere in the configuration: `${arch.d_model}`.
"""

from __future__ import annotations

__all__ = [
    "SHARE",
    "Config",
    "GenerateConfig",
    "Mark",
    "Precision",
    "Range",
    "TrainConfig",
    "above",
    "at_least",
    "check_all_used",
    "check_ranges",
    "format_duration",
]

from s2s.config.duration import format_duration
from s2s.config.generate import GenerateConfig
from s2s.config.marks import Mark
from s2s.config.ranges import SHARE, Range, above, at_least, check_all_used, check_ranges
from s2s.config.run import Config
from s2s.config.training import Precision, TrainConfig
