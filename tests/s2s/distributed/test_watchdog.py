"""A process that does not join is named; one that is killed under torch's agent is replaced, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from harness.forked_children import in_child, in_children
from harness.ports import free_port
from harness.sorting_runs import outcome, train, train_in_ranks
from s2s.io.exit_status import ExitStatus
from s2s_distributed import process_group, watchdog
from s2s_distributed.process_group import join

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

PATIENCE = 300
"""Seconds after which a run hangs: less than the timeout of its collectives, more than a busy machine needs"""
ARGUMENTS = ["train.steps=30", "valid.every=6", "checkpoint.every=3", "train.average=3"]


@pytest.mark.parametrize(
    ("place", "strategy"), [("updating 3", "ddp"), pytest.param("validating 4", "fsdp", marks=pytest.mark.slow)]
)
def test_a_rank_that_hangs_is_named_with_its_update(tmp_path: Path, place: str, strategy: str) -> None:
    began = time.monotonic()
    arguments = ["train.steps=9", "valid.every=4", "train.timeout=3", f"train.strategy={strategy}"]
    codes = train_in_ranks(tmp_path / "a", 2, *arguments, env={1: {"SIGNAL": f"HANG {place}"}})
    said = (tmp_path / "a.log").read_text()
    assert codes == [1, 1], said
    assert time.monotonic() - began < 150  # starting takes most of it where the machine is busy
    (line,) = [line for line in said.splitlines() if line.startswith("s2s-train: error")]
    step = int(place[-1])
    assert line.startswith(
        f"s2s-train: error: rank 1 hangs in update {step}: for 3 s it has not entered the collective for "
    )
    assert "rank 1 hangs here:" in said
    assert "watch_plugin.py" in said.partition("rank 1 hangs here:")[2]


def test_a_main_rank_that_is_stopped_in_what_it_does_first_is_found(tmp_path: Path) -> None:
    """SIGSTOP, as of a machine that is suspended: no thread of the process can say anything any more."""

    began = time.monotonic()

    def rank(number: int) -> None:
        os.environ |= {"RANK": str(number), "WORLD_SIZE": "2", "S2S_STORE": str(tmp_path / "store")}
        os.environ["S2S_ERROR_DIR"] = str(tmp_path)
        world = join("cpu", timedelta(seconds=3))
        with world.main_process_first("prepare"):
            time.sleep(8)  # any time, as long as it lives
            (tmp_path / "pid").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)

    def end_rank_0() -> None:
        while not list(tmp_path.glob("*.json")):
            time.sleep(0.1)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    assert in_children([partial(rank, 0), partial(rank, 1), end_rank_0]) == [-signal.SIGKILL, 1, 0]
    assert time.monotonic() - began > 8 + 3
    (said,) = ExitStatus.read_files(tmp_path)
    assert said.cause == "hang"
    assert "rank 0 is stopped, or hangs, in what it does first (prepare): for 3 s" in said.message


@pytest.mark.parametrize("place", ["while it joins", "in training"])
def test_a_rank_that_is_stopped_with_the_store_in_it_is_found(place: str, tmp_path: Path) -> None:
    """As torchrun lets ranks meet: rank 0 is the server of the store, whose calls then never return."""

    port = str(free_port())

    def rank(number: int) -> None:
        os.environ |= {"RANK": str(number), "WORLD_SIZE": "2", "S2S_ERROR_DIR": str(tmp_path)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        watchdog.STORE_SECONDS = 1.0
        if number == 0 and place == "while it joins":
            process_group.private_store = lambda *_: os.kill(os.getpid(), signal.SIGSTOP)  # type: ignore[attr-defined]
        joined = join("cpu", timedelta(seconds=2))
        if number == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        joined.barrier()

    def end_rank_0() -> None:
        while not list(tmp_path.glob("*.json")):
            time.sleep(0.1)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    def first() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        rank(0)

    assert in_children([first, partial(rank, 1), end_rank_0]) == [-signal.SIGKILL, 1, 0]
    (said,) = ExitStatus.read_files(tmp_path)
    assert (said.rank, said.cause) == (1, "hang")
    assert "rank 0 or torchrun, has not answered for" in said.message


def under_an_agent(folder: Path, backend: str, *arguments: str, **env: str) -> int:
    """s2s-train in two processes that torchrun's agent starts, and starts again where one is killed."""
    port = random.randrange(20_000, 60_000)
    endpoint = "localhost:0" if backend == "c10d" else f"127.0.0.1:{port}"
    static = {"rank": 0} if backend == "static" else {}
    return in_child(partial(agent, folder, arguments, env, endpoint, n_machines=1, backend=backend, configs=static))


def agent(
    folder: Path,
    arguments: tuple[str, ...],
    env: dict[str, str],
    endpoint: str,
    *,
    n_machines: int,
    backend: str = "c10d",
    configs: dict[str, int],
) -> None:
    """torchrun's agent on one of `n_machines`, with so many of two processes as fall to it."""

    def worker() -> None:
        os.environ.update(env)
        torch.set_num_threads(1)
        with (folder.parent / f"{folder.name}.log").open("a", buffering=1) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout = sys.stderr = file
            code = train(folder, *arguments)
        if code:
            raise SystemExit(code)

    signal.alarm(PATIENCE)
    config = LaunchConfig(
        min_nodes=n_machines,
        max_nodes=n_machines,
        nproc_per_node=2 // n_machines,
        run_id=f"{folder.parent.name}-{endpoint}",
        rdzv_backend=backend,
        rdzv_endpoint=endpoint,
        rdzv_configs=configs,
        max_restarts=2,
        start_method="fork",
    )
    elastic_launch(config, worker)()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent") / "whole"
    assert train_in_ranks(folder, 2, *ARGUMENTS) == [0, 0]
    return folder


def kill(undisturbed: Path, tmp_path: Path, seed: int) -> None:
    """At a random place of the run one of its processes is killed; it must end with the same bytes."""
    draw = random.Random(seed)
    place = draw.choice([f"updating {draw.randint(1, 30)}", f"validating {6 * draw.randint(1, 5)}", "starting 0"])
    env = {"SIGNAL": f"KILL {place}", "SIGNAL_RANK": str(draw.randrange(2)), "ONCE": str(tmp_path / "once")}
    code = under_an_agent(tmp_path / "a", draw.choice(["c10d", "static"]), *ARGUMENTS, **env)
    said = (tmp_path / "a.log").read_text()
    assert code == 0, said
    assert (tmp_path / "once").exists(), f"not killed: {env}"
    assert outcome(tmp_path / "a") == outcome(undisturbed)


def test_a_rank_that_is_killed_is_replaced_and_the_end_is_the_same(undisturbed: Path, tmp_path: Path) -> None:
    kill(undisturbed, tmp_path, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 50))
def test_fifty_of_fifty_recover(undisturbed: Path, tmp_path: Path, seed: int) -> None:
    kill(undisturbed, tmp_path, seed)


@pytest.mark.slow
def test_machines_whose_agents_count_restarts_differently_meet_again(undisturbed: Path, tmp_path: Path) -> None:
    """Two agents on one machine; one says that it has restarted more often, as one that came back would."""
    endpoint = f"127.0.0.1:{free_port()}"
    fault = {"SIGNAL": "KILL updating 17", "SIGNAL_RANK": "1", "ONCE": str(tmp_path / "once")}

    def machine(count: str) -> Callable[[], None]:
        env = {**fault, "TORCHELASTIC_RESTART_COUNT": count}
        return partial(
            agent, tmp_path / "a", (*ARGUMENTS,), env, endpoint, n_machines=2, configs={"is_host": int(count == "0")}
        )

    codes = in_children([machine("0"), machine("7")])
    assert codes == [0, 0], (tmp_path / "a.log").read_text()
    assert (tmp_path / "once").exists(), "not killed"
    assert outcome(tmp_path / "a") == outcome(undisturbed)
