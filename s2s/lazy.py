"""Public names of a package, imported when first used, so that `import s2s` and every --help do not load torch."""

from __future__ import annotations

__all__ = ["lazy_names"]

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_names(package: str, *modules: str) -> Callable[[str], Any]:
    """A package's `__getattr__`: finds a name of its `__all__` in the modules below it that export the name, or as one
    of these modules.

    The package imports the same names under TYPE_CHECKING, which is where a reader and a type checker find them.
    """

    def find(name: str) -> Any:
        if name not in sys.modules[package].__all__:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        for below in modules:
            module = importlib.import_module(f"{package}.{below}")
            if name in module.__all__:
                return getattr(module, name)
        raise AssertionError(f"{package}.__all__ names '{name}', which none of {', '.join(modules)} exports")

    return find
