"""Parts of an input, processed in any order, killed and restarted: joined, they equal what one command writes."""

from __future__ import annotations

import os
import random
import signal
from typing import TYPE_CHECKING

import pytest

from harness.forked_children import in_child, in_children
from harness.tiny_runs import WORDS, train_tiny
from s2s.cli.generate import main
from s2s.generation.files.resumable_file import ResumableFile
from s2s.generation.files.sharding import OutputShard

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

COMMON = [
    *["run=x", "input=in.txt", "buffer_size=4", "threads=1", "search.max_len_b=4", "--quiet", "format=tsv", "nbest=2"]
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, an input of 30 lines, and what one command makes of it."""
    folder = tmp_path_factory.mktemp("sharding")
    train_tiny(folder)
    draw = random.Random(1)
    (folder / "in.txt").write_text("".join(f"{' '.join(draw.choices(list(WORDS), k=i % 7))}\n" for i in range(30)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*COMMON, "output=whole.tsv"]) == 0
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    for path in [*folder.glob("out.tsv*"), *folder.glob(".out.tsv*")]:
        path.unlink()
    return folder


@pytest.mark.parametrize("n_lines", [0, 1, 4, 29, 30, 1000])
@pytest.mark.parametrize("of", [1, 2, 7, 40])
def test_shares_are_whole_windows_and_every_line_is_in_one(n_lines: int, of: int) -> None:
    parts = [OutputShard(number, of).lines(n_lines, 4) for number in range(1, of + 1)]
    assert [line for part in parts for line in part] == list(range(n_lines))
    assert all(part.start % 4 == 0 for part in parts if part)
    assert max(map(len, parts)) - min(map(len, parts)) <= 4 + 3


def test_parts_done_in_any_order_are_joined_by_the_last(here: Path) -> None:
    for number in random.Random(2).sample(range(1, 8), 7):
        assert not (here / "out.tsv").exists()
        assert main([*COMMON, "output=out.tsv", f"shard={number}/7"]) == 0
    assert (here / "out.tsv").read_bytes() == (here / "whole.tsv").read_bytes()
    assert [path.name for path in here.glob("out.tsv*")] == ["out.tsv"]


def test_a_part_that_is_done_is_not_done_again(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMON, "output=out.tsv", "shard=2/3"]) == 0
    monkeypatch.setattr("s2s.generation.files.pipeline.generate_file", lambda *_: pytest.fail("generated"))
    assert main([*[a for a in COMMON if a != "--quiet"], "output=out.tsv", "shard=2/3"]) == 0
    assert "is finished" in capsys.readouterr().err


def test_killed_parts_are_continued_and_the_whole_is_the_same(here: Path) -> None:
    """Each is killed as it writes its second window, those of the odd numbers a second time while joining."""
    write, rename = ResumableFile.write, os.replace

    def die_writing(self: ResumableFile, lines: list[str], end: str) -> None:
        write(self, lines, end)
        if self.partial.stat().st_size > 150:
            os.kill(os.getpid(), signal.SIGKILL)

    def die_joining(source: object, target: object) -> None:
        if str(target).endswith("out.tsv"):
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)  # type: ignore[arg-type]

    def attempt(number: int, fault: str) -> int:
        def run() -> None:
            with pytest.MonkeyPatch.context() as patch:
                if fault == "writing":
                    patch.setattr(ResumableFile, "write", die_writing)
                if fault == "joining":
                    patch.setattr(os, "replace", die_joining)
                os._exit(main([*COMMON, "output=out.tsv", f"shard={number}/2"]))

        return in_child(run)

    assert [attempt(number, "writing") for number in (1, 2)] == [-signal.SIGKILL] * 2
    assert attempt(1, "") == 0
    assert attempt(2, "joining") == -signal.SIGKILL
    assert not (here / "out.tsv").exists()
    assert attempt(2, "") == 0
    assert (here / "out.tsv").read_bytes() == (here / "whole.tsv").read_bytes()
    assert [path.name for path in here.glob("out.tsv*")] == ["out.tsv"]


def test_processes_of_torchrun_share_the_input_and_one_speaks(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def process(rank: int) -> None:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "3"}
        os._exit(main([*[a for a in COMMON if a != "--quiet"], "output=out.tsv"]))

    assert in_children([lambda rank=rank: process(rank) for rank in range(3)]) == [0, 0, 0]
    assert (here / "out.tsv").read_bytes() == (here / "whole.tsv").read_bytes()
    assert capfd.readouterr().err.count("sentences/s") == 1


def test_a_part_says_who_multiplied(here: Path) -> None:
    """Not whoever was faster just then: another part, or the same continued, must find the same."""
    assert main([*COMMON, "output=out.tsv", "shard=1/2"]) == 0
    provenance = ResumableFile(here / "out.tsv.shard-00001-of-00002").provenance()
    assert provenance["matmul"] in ("native", "onednn", "torch")


def test_parts_of_different_making_are_not_joined(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMON, "output=out.tsv", "shard=1/2"]) == 0
    assert main([*COMMON, "output=out.tsv", "shard=2/2", "search.beam=2"]) == 2
    assert "are not shards of one output: search.beam was 4 and 2; remove" in capsys.readouterr().err
    assert not (here / "out.tsv").exists()


@pytest.mark.parametrize("shard", ["0/4", "5/4", "1", "1/0", "a/b", "-1/4", "1/4/2"])
def test_a_part_that_cannot_be_is_one_line(here: Path, shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMON, "output=out.tsv", f"shard={shard}"]) == 2
    assert "expected a number and how many shards there are, from 1/4 to 4/4" in capsys.readouterr().err


def test_parts_need_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMON, "shard=1/2"]) == 2
    assert "give input=FILE and output=FILE" in capsys.readouterr().err
