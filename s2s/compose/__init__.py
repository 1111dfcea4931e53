"""From the command line, presets and files to one typed configuration, every value with its origin.

arguments → settings (presets, files, command line) → selection (the entry of each group) → merging (the last value of
every option) → references → conversion → the config dataclasses
"""

from __future__ import annotations

__all__ = [
    "ComposedConfig",
    "Setting",
    "arguments_of",
    "build_config",
    "choice_config",
    "compose",
    "differences",
    "entry_config",
    "experiment_settings",
    "flatten",
    "local_plugins",
    "merge_groups",
    "options_of",
    "recompose",
    "resolve",
    "to_yaml",
]

from s2s.compose.arguments import arguments_of, local_plugins
from s2s.compose.composition import (
    ComposedConfig,
    build_config,
    choice_config,
    compose,
    merge_groups,
    recompose,
)
from s2s.compose.conversion import entry_config
from s2s.compose.options import options_of
from s2s.compose.printing import differences, flatten, to_yaml
from s2s.compose.references import resolve
from s2s.compose.selection import experiment_settings
from s2s.compose.settings import Setting
