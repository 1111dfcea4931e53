"""From the command line, presets and files to one typed configuration, every value with its origin.

arguments → settings (presets, files, command line) → selection (the entry of each group) → merging (the last value of
every option) → references → conversion → the config dataclasses
"""

from __future__ import annotations

__all__ = [
    "ComposedConfig",
    "Option",
    "Setting",
    "arguments_of",
    "build_config",
    "choice_config",
    "compose",
    "default_choice",
    "differences",
    "entry_config",
    "experiment_settings",
    "flatten",
    "hints_of",
    "is_section",
    "local_plugins",
    "merge_groups",
    "options_of",
    "recompose",
    "resolve",
    "to_text",
    "to_yaml",
    "type_text",
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
from s2s.compose.merging import default_choice
from s2s.compose.options import Option, hints_of, is_section, options_of, type_text
from s2s.compose.printing import differences, flatten, to_yaml
from s2s.compose.references import resolve
from s2s.compose.selection import experiment_settings
from s2s.compose.settings import Setting
from s2s.compose.yaml12 import to_text
