"""The key under which a packed model is kept: a digest of all that it depends on."""

from __future__ import annotations

__all__ = ["key_of"]

import hashlib
import json
import os
import stat
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import s2s
from s2s.config import Mark
from s2s.deferred import module_files
from s2s.run import find_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from s2s.config import GenerateConfig
    from s2s.plugin import Plugins

READ_OF_A_RUN = ("resolved.yaml", "provenance.json", "env.json", "tokenizer", "checkpoints", "best")
"""Files and folders of a run on which its outputs depend"""
ACCELERATORS = ("nvidia*", "kfd", "dri/renderD*", "accel*")
"""Files in /dev of what device=auto might take in place of the CPU"""


NOT_IN_KEY = ("run", "checkpoint", "workers", "threads")
"""Options of models that are part of no key as they are given"""


def key_of(config: GenerateConfig, plugins: Plugins, identity: str) -> str:
    """That of the model of a command; identity: of the functions that it may use.

    Options that may differ from one call of a loaded model to the next are no part of it.
    """
    ((name, checkpoint),) = config.members()
    directory = find_model(name, plugins)
    options = [option for option in Mark.options(type(config), Mark.OF_MODELS) if option not in NOT_IN_KEY]
    return _digest(
        {
            "run": str(directory.resolve()),
            "checkpoint": checkpoint,
            "files": list(_files([*(str(directory / name) for name in READ_OF_A_RUN), *_checkpoint(checkpoint)])),
            "options": {option: getattr(config, option) for option in options},
            "functions": identity,
            "machine": [sys.version, *_accelerators()],
            "torch": list(_files(_torch_version())),
            "variables": {k: v for k, v in os.environ.items() if k.startswith(("S2S_", "CUDA_VISIBLE"))},
            "plugins": plugins.loaded,
            "code": _code(plugins),
        }
    )


def _checkpoint(name: str) -> list[str]:
    """Its folder, if the option names one that may be outside of the run."""
    return [name] if Path(name, "MANIFEST.json").is_file() else []


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, default=str, sort_keys=True).encode()).hexdigest()[:32]


def _files(paths: Iterable[str], suffix: str = "") -> Iterator[tuple[Any, ...]]:
    """What changes with these files, and with those below these folders, also behind links; what is not there is left
    out."""
    seen = set[tuple[int, int]]()  # links may lead back
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        try:
            status = os.stat(path)  # noqa: PTH116  there are hundreds
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield path, status.st_size, status.st_mtime_ns, status.st_ino
        elif (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield path, os.path.realpath(path)
            waiting += sorted((entry.path for entry in os.scandir(path) if _counts(entry, suffix)), reverse=True)


def _counts(entry: os.DirEntry[str], suffix: str) -> bool:
    return entry.name.endswith(suffix) or (entry.is_dir() and entry.name != "__pycache__")


def _code(plugins: Plugins) -> list[tuple[Any, ...]]:
    """The sources of s2s and of all loaded plugins: whole packages, and single modules."""
    files = {str(s2s.__file__), *module_files(plugins.modules)}
    return list(_files(sorted(file.removesuffix("/__init__.py") for file in files), ".py"))


def _torch_version() -> list[str]:
    """The file that changes with torch, which is not imported. It computes encodings of positions, quantized and merged
    weights, whose last bits no version promises."""
    spec = PathFinder.find_spec("torch")
    return [str(Path(spec.origin).with_name("version.py"))] if spec and spec.origin else []


def _accelerators() -> list[str]:
    return sorted(str(path) for pattern in ACCELERATORS for path in Path("/dev").glob(pattern))
