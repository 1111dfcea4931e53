"""From the command line, presets and files to one typed configuration, every value with where it came from.

arguments → layers (presets, files, command line) → draft (what is said last, and by whom) → interpolation → typed
"""

from __future__ import annotations

__all__ = [
    "ComposedConfig",
    "choose",
    "compose",
    "differences",
    "entry_config",
    "finish",
    "flatten",
    "local_plugins",
    "recompose",
    "resolve",
    "to_yaml",
    "typed",
]

from s2s.compose.arguments import local_plugins
from s2s.compose.composed import (
    ComposedConfig,
    choose,
    compose,
    differences,
    finish,
    flatten,
    recompose,
    resolve,
    to_yaml,
)
from s2s.compose.entry import entry_config
from s2s.compose.typed import typed
