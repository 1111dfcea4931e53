"""The configuration of every command: options with their defaults, types and documentation.

A group that is chosen by name (task, arch, objective, optim, schedule, search) is a `Choice`, whose options stand
beside the component. A value may refer to another option, anywhere in the configuration: `${arch.d_model}`.
"""

from __future__ import annotations

__all__ = [
    "AT_START",
    "NEUTRAL",
    "OF_FILES",
    "OF_MODELS",
    "RERANKS",
    "SHARE",
    "Config",
    "GenerateConfig",
    "Precision",
    "Range",
    "TrainConfig",
    "above",
    "at_least",
    "check_all_used",
    "check_ranges",
    "format_duration",
    "options_marked",
]

from s2s.config.duration import format_duration
from s2s.config.generate import GenerateConfig
from s2s.config.marks import AT_START, NEUTRAL, OF_FILES, OF_MODELS, RERANKS, options_marked
from s2s.config.ranges import SHARE, Range, above, at_least, check_all_used, check_ranges
from s2s.config.run import Config
from s2s.config.training import Precision, TrainConfig
