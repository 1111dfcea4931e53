"""Files of s2s whose functions run in one update of training, and for one line of generation: what a reader opens.

    python benchmarks/entered_files.py

The run is a tiny one on the synthetic corpus. Everything is warm: the second update and the third translation are
followed, in all threads, so that what only happens at the start is not counted.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import s2s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

ROOT = Path(s2s.__file__).resolve().parents[1]
PRODUCT = ("s2s", "plugins", "tasks")
ARGUMENTS = (
    *("task=translation_tiny", "arch=transformer_tiny", "train.steps=4", "train.tokens=1500", "run=entered"),
    *("train.threads=1", "train.device=cpu", "valid.every=0", "valid.score=false"),
)


@contextmanager
def entered_files() -> Iterator[set[Path]]:
    """Collect the product's files whose functions are called inside of the block; class bodies and imports are not."""
    names: set[str] = set()

    def follow(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            names.add(frame.f_code.co_filename)

    files: set[Path] = set()
    if sys.version_info >= (3, 12):
        threading.setprofile_all_threads(follow)
    else:
        threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        files |= {Path(name) for name in names if _is_product(name)}


def _is_product(name: str) -> bool:
    return any(Path(name).is_relative_to(ROOT / part) for part in PRODUCT)


class Follower(s2s.Observer):
    """Follows the update after the second one."""

    def __init__(self) -> None:
        self.block = entered_files()
        self.files: set[Path] = set()
        self.n_updates = 0

    def updated(self, record: Mapping[str, Any]) -> None:
        """Begin after the second update, end after the third."""
        self.n_updates += 1
        if self.n_updates == 2:
            self.files = self.block.__enter__()
        elif self.n_updates == 3:
            self.block.__exit__(None, None, None)


def files_of_update(plugin: str = "entered_files_observer") -> set[Path]:
    """Train a tiny run and give the files that its third update enters."""
    follower = Follower()

    class Plugin:
        @staticmethod
        @s2s.hookimpl
        def s2s_observe() -> s2s.Observer:
            return follower

    sys.modules[plugin] = Plugin  # type: ignore[assignment]
    s2s.train(*ARGUMENTS, f"plugins=[{plugin}]", quiet=True)
    return follower.files


def files_of_line() -> set[Path]:
    """Translate with the run that `files_of_update` trained; the files that the third translation enters."""
    model = s2s.load("entered", device="cpu", matmul="native")  # by default it is measured, and may differ under load
    for _ in range(2):
        model.translate("The old dog sees a cat.")
    with entered_files() as files:
        model.translate("The old dog sees a cat.")
    return files


def main() -> None:
    """Print both lists."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for what, files in (("one update", files_of_update()), ("one line of generation", files_of_line())):
            print(f"{what}: {len(files)} files")
            for path in sorted(files):
                print(f"  {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
