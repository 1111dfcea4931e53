"""s2s: a plugin-based framework for sequence-to-sequence models.

A plugin needs only what is here: `hookimpl`, `Registry`, `Choice`, and the two contracts `Seq2Seq` and `Task`.
The contracts need torch, so they are imported when first asked for: `import s2s` alone is quick.
"""

from __future__ import annotations

__all__ = [
    "Choice",
    "Corpus",
    "Memory",
    "Registry",
    "Seq2Seq",
    "State",
    "Task",
    "Vocab",
    "__version__",
    "hookimpl",
]

import importlib
from typing import TYPE_CHECKING, Any

from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from s2s.corpus import Corpus
    from s2s.model import Memory, Seq2Seq, State
    from s2s.task import Task, Vocab

__version__ = "0.1.0"

_LAZY = {"Corpus": "corpus", "Memory": "model", "Seq2Seq": "model", "State": "model", "Task": "task", "Vocab": "task"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 's2s' has no attribute '{name}'")
    return getattr(importlib.import_module(f"s2s.{_LAZY[name]}"), name)
