"""What a wheel holds beside the sources: the functions in C, compiled for each level of this machine's instructions.

Without a C compiler that knows all levels (GCC 11, clang 12), elsewhere than on Linux, and with S2S_PURE_WHEEL=1, the
wheel is pure, and the functions are compiled where it is installed.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledFunctions(BuildHookInterface[Any]):
    """Compiles them, and names the wheel after the machine that they are for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is written; `version` says whether it is an editable one."""
        if version == "editable" or sys.platform != "linux" or os.environ.get("S2S_PURE_WHEEL"):
            return
        root = Path(self.root)
        compiled = load_compiled(root)
        folder = root / "build" / "shipped"
        folder.mkdir(parents=True, exist_ok=True)
        parts = compiled.SHIPPED.relative_to(root).parts
        inside = Path(*parts[2 if parts[0] == "plugins" else 0 :])  # plugins/<kind>/ is no part of a wheel
        files = {}
        for level in compiled.LEVELS.get(platform.machine(), ()):
            path = folder / f"{level.name}.so"
            try:
                compiled.compile_library(path, level.flags)
            except OSError as error:
                self.app.display_warning(f"a wheel without compiled functions: {error}")
                return
            for file in (path, path.with_suffix(".sha256")):
                file.chmod(0o755 if file is path else 0o644)
                files[str(file)] = str(inside / file.name)
        if not files:
            return
        build_data["force_include"] |= files
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def load_compiled(root: Path) -> Any:
    """The module that compiles the functions, without the packages around it, which need torch."""
    (path,) = (path for part in ("s2s", "plugins") for path in (root / part).rglob("compiled.py"))
    spec = importlib.util.spec_from_file_location("compiled", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compiled"] = module  # its annotations are looked up there
    spec.loader.exec_module(module)
    return module
