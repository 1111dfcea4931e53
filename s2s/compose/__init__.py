"""From the command line, presets and files to one typed configuration, every value with its origin.

arguments → settings (presets, files, command line) → selection (the entry of each group) → merging (the last value of
every option) → references → conversion → the config dataclasses
"""

from __future__ import annotations

__all__ = [
    "ComposedConfig",
    "Setting",
    "arguments_of",
    "choice_config",
    "compose",
    "differences",
    "entry_config",
    "flatten",
    "to_yaml",
]

from s2s.compose.arguments import arguments_of
from s2s.compose.composition import ComposedConfig, choice_config, compose
from s2s.compose.conversion import entry_config
from s2s.compose.printing import differences, flatten, to_yaml
from s2s.compose.settings import Setting
