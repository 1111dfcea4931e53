"""Studies as processes: killed, on a real Slurm and on a real Ray cluster, where there is one."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.tiny_runs import write_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

STUDY: dict[str, Any] = {
    "base": {
        "task": {"name": "translation", "train": ["a.en", "a.de"], "valid": ["a.en", "a.de"], "vocab_size": 40},
        "arch": {"base": "transformer_tiny", "d_model": 8, "d_ff": 8, "n_heads": 2, "n_encoder_layers": 1},
        "train": {"steps": 100, "tokens": 300, "threads": 1},
        "schedule": {"warmup": 50},
        "data": {"workers": 1},
        "valid": {"every": 0, "score": False},
        "checkpoint": {"every": 10},
    },
    "rows": {"base": {}, "wide": {"arch": {"d_ff": 16}}},
    "measures": ["steps", "ppl", "bleu"],
    "evaluate": {"sentences": 5},
}
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def command(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """s2s-study in `folder`."""
    folder.mkdir(exist_ok=True)
    write_corpus(folder)
    (folder / "tiny.yaml").write_text(json.dumps(STUDY))
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    script = "import sys; from s2s_study.command import main; sys.exit(main())"
    return subprocess.Popen([sys.executable, "-c", script, "tiny.yaml", *arguments], cwd=folder, env=env)


def values(folder: Path) -> dict[str, dict[str, float]]:
    """Row -> what came out of its run."""
    files = (folder / "studies" / "tiny" / "jobs").glob("*.result.json")
    found = [json.loads(path.read_text()) for path in files]
    return {one["row"]: {m: one["values"][m] for m in STUDY["measures"]} for one in found}


def processes(*words: str) -> list[tuple[int, int]]:
    """Number and parent's number of every process whose command line holds all words."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if all(word in line for word in words):
            found.append((int(entry.name), parent))
    return found


def until(true: Callable[[], Any], seconds: float = 240) -> Any:
    """What it returns, once that is something."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)
    return found


def begun(folder: Path) -> bool:
    """Whether a run has saved a checkpoint, and is not finished."""
    return any((folder / "studies" / "tiny" / "runs").glob("*/checkpoints/step-*"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """What comes out undisturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "study"
    assert command(folder, "jobs=2", "--quiet").wait() == 0
    return values(folder)


def test_a_study_that_is_killed_goes_on_and_ends_with_the_same_numbers(
    tmp_path: Path, expected: dict[str, dict[str, float]]
) -> None:
    folder = tmp_path / "killed"
    process = command(folder, "jobs=2", "--quiet")
    until(lambda: begun(folder))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert command(folder, "jobs=2", "--quiet").wait() == 0
    assert values(folder) == expected
    until(lambda: not processes(str(folder)), 20)


def test_a_job_that_is_killed_is_started_again(tmp_path: Path, expected: dict[str, dict[str, float]]) -> None:
    folder = tmp_path / "job"
    process = command(folder, "--quiet")
    until(lambda: begun(folder))
    for number, _ in processes("s2s_study.job", "base-1-"):
        if Path(f"/proc/{number}/cwd").resolve() == folder:
            os.kill(number, signal.SIGKILL)
    assert process.wait() == 0
    assert values(folder) == expected


@pytest.mark.skipif(not shutil.which("sbatch"), reason="no Slurm here")
def test_slurm_runs_the_same_study(tmp_path: Path, expected: dict[str, dict[str, float]]) -> None:
    if subprocess.run(["sinfo"], capture_output=True, check=False).returncode:
        pytest.skip("Slurm is installed, but no controller answers")
    folder = tmp_path / "slurm"
    assert command(folder, "engine=slurm", "jobs=2", "--quiet").wait() == 0
    assert values(folder) == expected


@pytest.fixture
def ray_address() -> Iterator[str]:
    """A cluster of two nodes on this machine."""
    if not importlib.util.find_spec("ray"):
        pytest.skip("the extra `ray` is not installed")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    cluster = subprocess.Popen([sys.executable, "-c", CLUSTER], **pipes, text=True)  # type: ignore[call-overload]
    yield cluster.stdout.readline().strip()
    cluster.communicate("")


def test_ray_ends_the_study_although_a_worker_is_killed(
    tmp_path: Path, ray_address: str, expected: dict[str, dict[str, float]]
) -> None:
    folder = tmp_path / "ray"
    process = command(folder, "engine=ray", f"engine_options.address={ray_address}", "jobs=2", "--quiet")
    until(lambda: begun(folder))
    workers = [worker for _, worker in processes("s2s_study.job", str(folder))]
    os.kill(workers[0], signal.SIGKILL)
    assert process.wait() == 0
    assert values(folder) == expected
