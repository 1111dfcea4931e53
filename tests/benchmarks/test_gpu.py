"""`benchmarks/gpu.py` loses one row by a crash, goes on after a kill, and keeps to its time; its numbers can fail."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.benchmark_scripts import load_benchmark
from harness.folders import HARNESS, ROOT
from s2s.compose import compose
from s2s.config import Config
from s2s.plugin import load_plugins

if TYPE_CHECKING:
    from pathlib import Path

gpu, checks = load_benchmark("gpu"), load_benchmark("gpu_checks")
SMALL = ("transformer_modern_tiny", "rnn_tiny", "convs2s_tiny", "mixture_tiny", "moe_lstm_tiny")
ON_A_GPU = [pytest.param(arch, "cuda", marks=pytest.mark.gpu) for arch in gpu.ARCHS]


def stage(code: str, seconds: float = 60.0, file: str = "") -> Any:
    return gpu.Stage([sys.executable, "-c", f"import json, os, sys, time; {code}"], seconds, file)


def call(monkeypatch: pytest.MonkeyPatch, out: Path, stages: dict[str, Any], *arguments: str) -> tuple[int, Any]:
    """The exit code, and the results."""
    monkeypatch.setattr(gpu, "stages", lambda _: stages)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    code = gpu.main([f"out={out}", *arguments])
    return code, json.loads((out / "results.json").read_text())["stages"]


def test_a_crash_costs_a_row_and_what_is_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = f"open({str(tmp_path / 'calls')!r}, 'a').write('x'); print(json.dumps({{'name': 'a card'}}))"
    lines = tmp_path / "lines"
    half = f"open({str(lines)!r}, 'w').write(json.dumps({{'a': 1}})); os.kill(os.getpid(), 11)"
    stages = {
        "machine": stage(count),
        "decode tiny": stage(half, file=str(lines)),
        "train": stage("raise ValueError('no such | kernel')"),
        "scaling ddp": stage("print(json.dumps({'skipped': 'one device'}))"),
        "score": stage("time.sleep(60)", 0.5),
    }
    for _ in range(2):
        code, found = call(monkeypatch, tmp_path / "out", stages)
        assert code == 1
        states = ["done", "failed", "failed", "skipped", "took too long"]
        assert [one["state"] for one in found.values()] == states
    assert (tmp_path / "calls").read_text() == "x"
    assert found["decode tiny"]["result"] == [{"a": 1}]  # what it wrote before it crashed
    page = (tmp_path / "out" / "results.md").read_text()
    assert "# s2s on a card" in page
    assert "ValueError: no such \\| kernel" in page
    assert "| scaling ddp | skipped |" in page
    stages["train"] = stage("print(json.dumps({'options': {'tokens': 1}}))")
    _, found = call(monkeypatch, tmp_path / "out", stages, "only=train")
    assert found["train"]["state"] == "done"


def test_what_has_no_time_is_made_by_a_later_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LEAST_SECONDS", 0.2)
    stages = {"first": stage("time.sleep(60)"), "second": stage("print(json.dumps({'a': 1}))")}
    code, found = call(monkeypatch, tmp_path, stages, "minutes=0.02")
    assert (code, [one["state"] for one in found.values()]) == (0, ["no time left", "no time left"])
    stages["first"] = stages["second"]
    code, found = call(monkeypatch, tmp_path, stages, "minutes=5")
    assert (code, [one["state"] for one in found.values()]) == (0, ["done", "done"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["minute=3"], "minute: no such option; there are device, minutes"),
        (["minutes=x"], "minutes=x: expected a number"),
        (["size=big"], "size=big: expected full or small"),
        (["size=small"], "was begun with"),
    ],
    ids=["option", "minutes", "size", "other results"],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    options = {"device": "auto", "size": "full", "plugins": ""}
    before = json.dumps({"options": options, "by": "", "stages": {}})
    (tmp_path / "results.json").write_text(before)
    assert gpu.main([f"out={tmp_path}", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gpu.py: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert (tmp_path / "results.json").read_text() == before


@pytest.mark.slow
def test_the_same_command_goes_on_after_a_kill(tmp_path: Path) -> None:
    """The real stages, each as small as it can be."""
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "device=cpu", "size=small", f"out={tmp_path}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    file, deadline = tmp_path / "results.json", time.monotonic() + 300
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait() in (143, -signal.SIGTERM)
    before = json.loads(file.read_text())["stages"]["machine"]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0
    found = json.loads(file.read_text())["stages"]
    assert found["machine"] == before
    assert {one["state"] for one in found.values()} == {"done"}
    assert "target tokens/s" in (tmp_path / "results.md").read_text()


@pytest.mark.slow
def test_what_can_be_measured_without_a_gpu_is_on_a_device_of_a_plugin(tmp_path: Path) -> None:
    """Where tensors of two devices do not mix."""
    device = ["device=pretend", f"plugins={HARNESS / 'pretend_plugin.py'}", "size=small", f"out={tmp_path}"]
    environment = {**os.environ, "PYTHONPATH": str(HARNESS.parent)}
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), *device]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False, env=environment).returncode == 0
    found = json.loads((tmp_path / "results.json").read_text())["stages"]
    states = {name.split()[0]: one["state"] for name, one in found.items()}
    assert states == {"machine": "done", "numerics": "done", "score": "done", "scaling": "skipped"}
    assert found["machine"]["result"]["device"] == "pretend:0"


@pytest.mark.parametrize(
    ("arch", "device"),
    [
        ("transformer_tiny", "cpu"),
        *(pytest.param(arch, "cpu", marks=pytest.mark.slow) for arch in SMALL),
        *ON_A_GPU,
    ],
)
def test_numbers_are_near_float64_and_outputs_equal(arch: str, device: str) -> None:
    found = checks.numerics(arch, load_plugins(), torch.device(device))
    assert found["fp32 as expected"], found
    assert found["bf16 as expected"], found
    assert found["outputs, beam 1"] == found["outputs, beam 4"] == "6/6", found


@pytest.mark.parametrize("arch", gpu.ARCHS)
def test_no_architecture_draws_random_numbers(arch: str) -> None:
    """Two models of the same weights would otherwise differ by more than their devices."""
    plugins, chosen = load_plugins(), [f"arch={arch}", "task=translation_tiny"]
    options = list(checks.without_noise(compose(Config, chosen, plugins).config.arch))
    config: Any = compose(Config, [*chosen, *options], plugins).config.arch
    left = re.findall(r"\w*(?:drop|noisy)\w*=(?!0\.0|False|None)[^,)]*", repr(config))
    assert not left


def test_a_number_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = checks.vectors

    def spoilt(model: Any, vocab: Any, device: Any, dtype: torch.dtype) -> Any:
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1.001 if p.dtype == torch.float32 else 1.0)
        return plain(model, vocab, device, dtype)

    monkeypatch.setattr(checks, "vectors", spoilt)
    assert not checks.numerics("transformer_tiny", load_plugins(), torch.device("cpu"))["fp32 as expected"]
