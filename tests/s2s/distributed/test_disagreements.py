"""Two real ranks that were given different things: refused by name, with nothing written."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from harness.forked_children import in_children
from harness.ports import free_port
from harness.tiny_runs import SMALL, write_corpus
from s2s.cli.train import main

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ARGUMENTS = [*SMALL, "schedule.warmup=1", "train.steps=1", "run=x", "train.timeout=60", "--quiet"]


def train_two(
    folder: Path, own: list[str], env: Mapping[str, str], place: str = "a", *both: str
) -> tuple[list[int], list[str]]:
    """Exit codes and lines of error of two ranks of s2s-train, of which the second one has something of its `own`."""
    port = str(free_port())

    def rank(number: int) -> None:
        os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(env if number else {})}
        os.chdir(folder / (place if number else "a"))
        with (folder / f"{number}.log").open("w", buffering=1) as sys.stderr:
            os._exit(main([*ARGUMENTS, *both, *(own if number else [])]))

    codes = in_children([lambda: rank(0), lambda: rank(1)])
    said = [(folder / f"{number}.log").read_text() for number in (0, 1)]
    return codes, [line for text in said for line in text.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A corpus in `a`, and in `b` another of equal size under the same names."""
    for name in "ab":
        (tmp_path / name).mkdir()
        write_corpus(tmp_path / name)
    text = tmp_path / "b" / "a.de"
    text.write_text(text.read_text().replace("hund", "hand"))
    return tmp_path


@pytest.mark.parametrize(
    ("own", "env", "what"),
    [
        (["seed=7"], {}, "seed is 1 and 7"),
        pytest.param(["schedule.warmup=2"], {}, "schedule.warmup is 1 and 2", marks=pytest.mark.slow),
        pytest.param(["train.tokens=200"], {}, "train.tokens is 300 and 200", marks=pytest.mark.slow),
        pytest.param(["train.steps=2"], {}, "train.steps is 1 and 2", marks=pytest.mark.slow),
        pytest.param(["arch.d_ff=16"], {}, "arch.d_ff is 8 and 16", marks=pytest.mark.slow),
        pytest.param([], {"S2S_KERNELS": "torch"}, "S2S_KERNELS is null and torch", marks=pytest.mark.slow),
    ],
    ids=["seed", "warm-up", "tokens", "steps", "width", "kernels"],
)
def test_ranks_with_another_option_are_refused_before_anything_is_written(
    folder: Path, own: list[str], env: dict[str, str], what: str
) -> None:
    codes, said = train_two(folder, own, env)
    message = f"s2s-train: error: ranks 0 and 1 were given different things: {what}; start all ranks with the same"
    assert codes == [2, 2], said
    assert [line.startswith(message) for line in said] == [True, True], said
    assert not (folder / "a" / "runs").exists()


def test_ranks_with_another_text_are_refused(folder: Path) -> None:
    codes, said = train_two(folder, [], {}, "b")
    assert codes == [2, 2], said
    assert len(said) == 2, said
    assert all("ranks 0 and 1 were given different things: the training data is " in line for line in said), said
    assert not (folder / "a" / "runs" / "x").exists()


def test_a_rank_that_is_refused_before_it_joins_does_not_leave_the_other_waiting_for_ever(folder: Path) -> None:
    codes, said = train_two(folder, ["seed=-1"], {}, "a", "train.timeout=2")
    assert codes == [1, 2], said
    assert said[0] == "s2s-train: error: another process of this run has ended; its own message says why"
    assert "seed=-1" in said[1]
