"""torch imported in part: what is deferred works as soon as it is asked for."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from s2s_generate import torch_import
from s2s_generate.torch_import import DEFERRED, TESTED, DeferredFinder

if TYPE_CHECKING:
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
import torch._dynamo
left = {name for name, module in sys.modules.items() if type(module) is DeferredModule}
shape = torch.linalg.householder_product(torch.empty(3, 2, device="meta"), torch.empty(2, device="meta")).shape
print(json.dumps([sorted(deferred), sorted(left), drawn, weight.tolist(), list(shape)]))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that counts how often it is executed, and whose import is deferred."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(torch_import, "DEFERRED", {"s2s_late"})
    monkeypatch.setattr(sys, "meta_path", [DeferredFinder(), *sys.meta_path])
    (tmp_path / "s2s_late").mkdir()
    (tmp_path / "s2s_late/__init__.py").write_text("import sys\nsys.s2s_executed += 1\nvalue = 7\n")
    (tmp_path / "s2s_late/part.py").write_text("inner = 8\n")
    monkeypatch.setattr(sys, "s2s_executed", 0, raising=False)
    for name in ("s2s_late", "s2s_late.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "s2s_late"


def executed() -> int:
    return sys.s2s_executed  # type: ignore[attr-defined]


def test_a_deferred_module_is_executed_once_by_the_first_name_asked_of_it(package: str) -> None:
    module = __import__(package)
    assert executed() == 0
    assert (module.value, module.value, executed()) == (7, 7, 1)
    with pytest.raises(AttributeError, match="absent"):
        _ = module.absent


def test_a_deferred_package_is_executed_before_its_modules(package: str) -> None:
    module = __import__(package)
    assert __import__(f"{package}.part").part.inner == 8
    assert (executed(), module.value) == (1, 7)


@pytest.mark.skipif(not VERSION.startswith(TESTED) or not VERSION.endswith("+cpu"), reason="imported whole")
def test_generation_executes_no_deferred_module_and_each_works_when_asked_for() -> None:
    """The numbers are those of a process that imported torch whole, this one."""
    import torch

    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    deferred, left, drawn, weight, shape = json.loads(ran.stdout)
    assert set(deferred) == set(DEFERRED)
    assert left == []
    assert drawn == torch.rand(2, generator=torch.Generator().manual_seed(1)).tolist()
    assert (weight, shape) == ([0.5, 0.5], [3, 2])
