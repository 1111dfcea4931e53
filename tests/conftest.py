"""What all tests share: one thread each, since several tests run side by side on few cores."""

from __future__ import annotations

import gc
import logging
import os
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the commands that tests start, too

import pytest
import torch
from hypothesis import HealthCheck, settings

from harness.pictures import without_pictures
from harness.recorded_loads import record_loads
from s2s import backend
from s2s.backend.operators import OPERATORS
from s2s.backend.operators.operator import description
from s2s.plugin import load_plugins
from s2s.run import environment
from s2s_cpu.library import native_library

if TYPE_CHECKING:
    from collections.abc import Iterator

torch.set_num_threads(1)
gc.set_threshold(5_000, 10, 20)  # a collection of all that the process holds takes 0.3 s

# An example's time says more about who else is at work on the machine than about the code.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a CUDA device are skipped with their reason where there is none."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device"))


@pytest.fixture(scope="session", autouse=True)
def quick_runs() -> Iterator[None]:
    """A run of some updates would take four times as long with the pictures of its report, and a measured device.

    So reports have tables instead (tests of pictures use `pictures`), and a device is measured once in a process, which
    also reads the sources of a plugin, and asks git for their commit, once.
    """
    with without_pictures(), pytest.MonkeyPatch.context() as patch:
        for module, name in ((backend, "matmul_rate"), (environment, "_code"), (environment, "_git")):
            patch.setattr(module, name, cache(getattr(module, name)))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What commands keep for later ones goes to a folder of the tests, which has the functions compiled before."""
    kept, folder = native_library().functions, tmp_path_factory.mktemp("cache")
    if kept and Path(kept._name).parent.name == "s2s":
        (folder / "s2s").mkdir(mode=0o700)
        for path in Path(kept._name).parent.glob(f"{Path(kept._name).stem}.*"):
            shutil.copy(path, folder / "s2s")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield


@pytest.fixture(autouse=True)
def logging_of_the_test() -> Iterator[None]:
    """A server that a test starts in this process logs to its standard error, which is closed afterwards."""
    handlers = list(logging.root.handlers)
    yield
    logging.root.handlers[:] = handlers
    logging.captureWarnings(capture=False)


@pytest.fixture(autouse=True)
def collections_of_the_test() -> Iterator[None]:
    """A command that a test runs as its process would excludes all objects of this one from garbage collections.

    Left so, the process would look like a command alone to all later tests: each of theirs would count those objects,
    0.2 s, and keep its garbage for good.
    """
    yield
    gc.unfreeze()


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose models were loaded."""
    return record_loads(monkeypatch)


@pytest.fixture(scope="session")
def plugin_operators() -> str:
    """Operators as the plugins implement them on this machine; in words."""
    load_plugins()
    return description()


@pytest.fixture
def native_operators(plugin_operators: str) -> None:
    """The same, where C functions are among them."""
    if not OPERATORS["top_k"].implementations:
        pytest.skip(plugin_operators)
