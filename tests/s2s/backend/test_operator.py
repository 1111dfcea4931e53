"""Operators without any plugin's code: which function a call uses, and when plugins are queried for theirs."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch

from harness.reference_operators import use_references
from s2s.backend import Operator, providers
from s2s.backend.linear import prepack
from s2s.backend.operators import top_k
from s2s.backend.operators.operator import description
from s2s.errors import ConfigError


@Operator
def double(x: torch.Tensor) -> str:
    """In torch."""
    return "reference"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plugin has been asked, and none is waiting."""
    monkeypatch.setattr(providers, "pending", [])
    monkeypatch.setattr(providers, "_descriptions", {})
    monkeypatch.setattr(double, "implementations", ())
    monkeypatch.setattr(prepack, "implementations", ())


def test_an_operator_is_documented_as_its_reference() -> None:
    assert "of equal values the first comes first" in str(top_k.__doc__)
    assert repr(top_k) == "Operator(top_k)"


def fast(x: torch.Tensor) -> str:
    return "fast"


def test_the_first_implementation_that_accepts_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2)
    assert double(x) == "reference"
    double.implement(fast, lambda x: x.dtype is torch.float64)
    double.implement(lambda x: "other", lambda x: True)
    assert double(x) == "other"
    assert double(x.double()) == "fast"
    with monkeypatch.context() as patch:
        use_references(patch)
        assert double(x.double()) == "reference"
    double.implement(fast, lambda x: True)  # again: now the last
    assert double(x.double()) == "other"


def test_plugins_are_asked_at_the_first_call_and_for_those_that_are_loaded_later_again() -> None:
    asked: list[str] = []

    def brings() -> list[str]:
        double.implement(fast, lambda x: True)
        asked.append("fast")
        return ["fast functions"]

    def brings_more() -> list[str]:
        double.implement(lambda x: "faster", lambda x: True)
        return ["faster functions", *brings()]

    providers.add_provider(brings)
    assert asked == []
    assert [double(torch.ones(1)) for _ in range(3)] == ["fast"] * 3
    assert asked == ["fast"]
    providers.add_provider(brings_more)
    assert double(torch.ones(1)) == "faster"
    assert description() == "fast functions, faster functions"
    assert asked == ["fast", "fast"]


def test_a_plugin_may_call_operators_while_it_is_asked() -> None:
    found: list[str] = []

    def tries() -> list[str]:
        found.append(double(torch.ones(1)))
        double.implement(fast, lambda x: True)
        found.append(double(torch.ones(1)))
        return []

    providers.add_provider(tries)
    assert double(torch.ones(1)) == "fast"
    assert found == ["reference", "fast"]


def test_threads_wait_until_all_is_there() -> None:
    began, go_on = Event(), Event()

    def slow() -> list[str]:
        began.set()
        assert go_on.wait(60)
        double.implement(fast, lambda x: True)
        return []

    providers.add_provider(slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(double, torch.ones(1))
        assert began.wait(60)
        second = pool.submit(double, torch.ones(1))
        go_on.set()
        assert (first.result(60), second.result(60)) == ("fast", "fast")


def test_a_plugin_that_fails_is_asked_again_so_that_no_later_call_hides_the_error() -> None:
    def fails() -> list[str]:
        raise ConfigError("not here")

    providers.add_provider(fails)
    for _ in range(2):
        with pytest.raises(ConfigError, match="not here"):
            double(torch.ones(1))


def test_without_a_plugin_linear_maps_are_left_to_torch() -> None:
    model = torch.nn.Linear(3, 2)
    assert prepack(model, "auto", "none") == "linear maps by torch (no plugin has others)"
    assert prepack(model, "torch", "none") == "linear maps by torch (matmul=torch)"
    with pytest.raises(ConfigError, match="matmul=native: no plugin has such linear maps for this; leave the option"):
        prepack(model, "native", "none")
    with pytest.raises(ConfigError, match="quantization=int8: no plugin has"):
        prepack(model, "auto", "int8")


@pytest.mark.parametrize("wanted", ["native", "compile"])
def test_kernels_that_no_plugin_has_are_an_error(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert description() == "torch kernels (no plugin has others)"
    monkeypatch.setenv("S2S_KERNELS", wanted)
    with pytest.raises(ConfigError, match=f"S2S_KERNELS={wanted}: no plugin has such kernels"):
        description()


def test_where_the_plugin_is_blocked_the_references_are_called_and_the_log_says_so() -> None:
    code = (
        "import s2s, torch; s2s.load_plugins(); from s2s.backend.operators import top_k;"
        "from s2s.backend.operators.operator import description;"
        "print(description(), top_k(torch.tensor([[1.0, 3.0, 2.0]]), 1)[1].tolist(), top_k.implementations)"
    )
    env = {"S2S_BLOCK_PLUGINS": "cpu", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "torch kernels (no plugin has others) [[1]] ()\n"
