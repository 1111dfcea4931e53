"""torch imported in part: deferred modules work as soon as they are used."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from s2s_generate.torch_import import DEFERRED, TESTED, DeferredFinder, import_torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = importlib.metadata.version("torch")
PROGRAM = """
import json, sys
from s2s_generate.torch_import import DEFERRED, DeferredModule, import_torch
import_torch()
import torch, s2s.generation.build
deferred = {name for name, module in sys.modules.items() if type(module) is DeferredModule}
drawn = torch.rand(2, generator=torch.Generator().manual_seed(1)).tolist()
weight = torch.nn.Parameter(torch.ones(2))
weight.grad = torch.ones(2)
torch.optim.SGD([weight], lr=0.5).step()
assert torch._meta_registrations.register_meta
mapped = torch.vmap(lambda x: 2 * x)(torch.ones(2)).tolist()
compiled = torch.compile(lambda x: 3 * x, backend="eager")(torch.ones(2)).tolist()
shape = torch.linalg.householder_product(torch.empty(3, 2, device="meta"), torch.empty(2, device="meta")).shape
print(json.dumps([sorted(deferred), drawn, weight.tolist(), list(shape), mapped, compiled]))
"""


FILES = {
    "__init__.py": "from s2s_late import slow, second, first\nfrom s2s_late.first import double\n",
    "first.py": "import sys\nsys.s2s_executed += ['first']\nseven = 7\ndef double(x): return 2 * x\n",
    "second/__init__.py": "import sys\nsys.s2s_executed += ['second']\nfrom s2s_late.third import nine\neight = 8\n",
    "second/part.py": "import sys\nsys.s2s_executed += ['part']\n",
    "third.py": "import sys\nsys.s2s_executed += ['third']\nnine = 9\n",
    "slow.py": "import time\ntime.sleep(0.2)\nten = 10\n",
    "other.py": "import sys\nsys.s2s_executed += ['other']\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package of which `first` and `second` are deferred; `sys.s2s_executed` names what has been executed."""
    deferred = {"s2s_late.first": ("double",), "s2s_late.second": (), "s2s_late.slow": ()}
    finder = DeferredFinder("s2s_late", deferred)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.setattr(sys, "s2s_executed", [], raising=False)
    for name, text in FILES.items():
        (tmp_path / "s2s_late" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "s2s_late" / name).write_text(text)
    package = importlib.import_module("s2s_late")
    finder.phase = "imported"
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "s2s_late"]:
        del sys.modules[name]


def executed() -> list[str]:
    return sys.s2s_executed  # type: ignore[attr-defined, no-any-return]


def test_the_first_name_asked_of_a_deferred_module_executes_all_in_order(package: ModuleType) -> None:
    assert executed() == []
    assert (package.second.eight, package.second.eight, package.first.seven) == (8, 8, 7)
    assert executed() == ["first", "second", "third"]
    with pytest.raises(AttributeError, match="absent"):
        _ = package.second.absent
    assert {type(module) for module in (package.first, package.second, package.slow)} == {ModuleType}


def test_a_function_that_the_import_took_is_deferred_until_its_call(package: ModuleType) -> None:
    package.copy = taken = package.double
    assert executed() == []
    assert (taken(4), package.double(4), taken(5)) == (8, 8, 10)
    assert executed() == ["first", "second", "third"]
    assert package.double is package.copy is package.first.double
    assert taken is not package.double
    assert taken.__name__ == "double"


@pytest.mark.parametrize(
    ("name", "order"),
    [("other", ["first", "second", "third", "other"]), ("second.part", ["first", "second", "third", "part"])],
)
def test_any_later_import_of_the_package_executes_all_before(package: ModuleType, name: str, order: list[str]) -> None:
    importlib.import_module(f"{package.__name__}.{name}")
    assert executed() == order


def test_other_threads_wait_for_what_one_executes(package: ModuleType) -> None:
    names = [(package.slow, "ten"), (package.first, "seven"), (package.second, "eight")]
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(lambda module=module, name=name: getattr(module, name)) for module, name in names]
    assert [each.result() for each in asked] == [10, 7, 8]
    assert executed() == ["first", "second", "third"]


def test_what_fails_stays_deferred(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "s2s_executed", None)  # to which nothing can be added
    with pytest.raises(TypeError):
        _ = package.first.seven
    monkeypatch.setattr(sys, "s2s_executed", [])
    assert (package.second.eight, package.first.seven, package.double(1)) == (8, 7, 2)
    assert executed() == ["first", "second", "third"]


def test_an_import_that_fails_leaves_no_finder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: f"{TESTED}0+cpu")
    monkeypatch.delitem(sys.modules, "torch")
    before = [*sys.meta_path]
    monkeypatch.setattr(DeferredFinder, "find_spec", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        import_torch()
    assert sys.meta_path == before


@pytest.mark.skipif(not VERSION.startswith(TESTED) or not VERSION.endswith("+cpu"), reason="imported whole")
def test_generation_executes_no_deferred_module_and_each_works_when_asked_for() -> None:
    """The numbers are those of a process that imported torch whole, this one."""
    import torch

    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    deferred, drawn, *values = json.loads(ran.stdout)
    assert set(deferred) == set(DEFERRED)
    assert drawn == torch.rand(2, generator=torch.Generator().manual_seed(1)).tolist()
    assert values == [[0.5, 0.5], [3, 2], [2.0, 2.0], [3.0, 3.0]]
