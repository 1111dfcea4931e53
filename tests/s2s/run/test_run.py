from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from harness.forked_children import in_child
from harness.small_runs import CPU, PLUGIN, begin, letters_config, make_run, read
from s2s.compose import compose
from s2s.config import Config
from s2s.distributed import World
from s2s.errors import CheckpointError, ConfigError
from s2s.run import Run, find_run, run_path
from s2s.run.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.plugin import Plugins


def test_a_run_records_what_it_is(plugins: Plugins) -> None:
    path = run_path("x")
    assert begin(path, plugins, "train.steps=7", "arch.d_model=12") == []
    env = read(path / "env.json")
    assert env["packages"]["torch"] == version("torch")
    assert env["threads"] == torch.get_num_threads()
    assert env["device"].startswith("cpu")
    assert env["command"] == sys.argv
    assert len(env["plugins"][PLUGIN]["sha256"]) == 64
    assert env["plugins"]["transformer"]["origin"].startswith("s2s-toolkit")
    assert read(path / "status.json")["state"] == "running"


def test_both_configurations_of_a_run_repeat_it(plugins: Plugins) -> None:
    path = run_path("x")
    begin(path, plugins, "train.steps=7", "arch.d_model=12")
    given = letters_config(plugins, "train.steps=7", "arch.d_model=12").config
    for name in ("config.yaml", "resolved.yaml"):
        assert compose(Config, [str(path / name)], plugins).config == given
    assert "train" in (path / "config.yaml").read_text()
    assert len((path / "config.yaml").read_text().splitlines()) < 15


def test_last_is_the_run_that_was_started_last(plugins: Plugins) -> None:
    for name in ("one", "two"):
        begin(run_path(name), plugins)
    assert find_run("last").resolve() == Path("runs/two").resolve()
    begin(run_path("one"), plugins)
    assert find_run("last").resolve() == Path("runs/one").resolve()
    assert run_path("last").resolve() == Path("runs/one").resolve()


@pytest.mark.parametrize("name", ["x", "runs/x", "./runs/x", "last"])
def test_a_run_is_found_by_name_and_by_path(name: str, plugins: Plugins) -> None:
    begin(run_path("x"), plugins)
    assert find_run(name).resolve() == Path("runs/x").resolve()


def test_a_run_may_lie_anywhere_and_be_called_anything(plugins: Plugins, tmp_path: Path) -> None:
    path = tmp_path / "else where" / "lr=1e-3"
    make_run(path, plugins, [1])
    begin(path, plugins)
    assert find_run(str(path)) == path
    os.chdir(path.parent)
    assert Run.load(find_run("lr=1e-3"), "auto", plugins, CPU).checkpoint_path.name == "step-000001"


def test_a_run_that_is_not_there_is_one_clear_error(plugins: Plugins) -> None:
    with pytest.raises(CheckpointError, match="There are no runs under runs/ yet"):
        find_run("x")
    with pytest.raises(CheckpointError, match="no run was started here yet"):
        find_run("last")
    begin(run_path("multi30k"), plugins)
    with pytest.raises(CheckpointError, match="Did you mean 'multi30k'"):
        find_run("multi30")
    Path("runs/folder").mkdir()
    with pytest.raises(CheckpointError, match=r"runs/folder is no run directory: it has no resolved\.yaml"):
        find_run("folder")


@pytest.fixture
def holder(plugins: Plugins) -> Iterator[int]:
    """Another process that holds the lock of runs/x."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        run = RunDirectory(run_path("x"))
        run.begin(letters_config(plugins), plugins, World())
        if os.fork() == 0:  # a data worker, say, which will outlive it by half a second
            time.sleep(0.5)
            os._exit(0)
        os.write(writing, b"!")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_second_process_is_told_who_has_the_run(holder: int, plugins: Plugins) -> None:
    with pytest.raises(CheckpointError, match=rf"runs/x is in use by process {holder} on \S+, started \d+"):
        begin(run_path("x"), plugins)


def test_a_kill_releases_the_lock_even_if_a_worker_lives_on(plugins: Plugins) -> None:
    reading, writing = os.pipe()

    def child() -> None:
        RunDirectory(run_path("x")).begin(letters_config(plugins), plugins, World())
        if os.fork() == 0:
            os.read(reading, 1)  # until the test is over
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(child) == -signal.SIGKILL
    begin(run_path("x"), plugins)
    os.write(writing, b"!")


def test_the_lock_is_free_after_the_run(plugins: Plugins) -> None:
    begin(run_path("x"), plugins)
    begin(run_path("x"), plugins)


def test_other_ranks_write_nothing(plugins: Plugins) -> None:
    with RunDirectory(run_path("x"), is_main=False) as run:
        assert run.begin(letters_config(plugins), plugins, World(rank=1, size=2)) == []
        run.copy_tokenizer(Path("nowhere"))
        run.status("done")
    assert not Path("runs").exists()


def test_a_directory_that_cannot_be_written_to_is_an_error_before_the_first_step(
    plugins: Plugins, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"run directory .*file/x cannot be written to"):
        begin(tmp_path / "file" / "x", plugins)


def test_a_read_only_directory_is_an_error_before_the_first_step(plugins: Plugins, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() == 0:
        if os.system(f"mount -t tmpfs -o ro tmpfs {disk} 2>/dev/null"):
            pytest.skip("needs the right to mount a tmpfs, or to be no superuser")
    else:
        disk.chmod(0o555)
    try:
        with pytest.raises(CheckpointError, match=r"cannot be written to: .*(Read-only|Permission)"):
            begin(disk / "x", plugins)
    finally:
        if os.geteuid() == 0:
            os.system(f"umount {disk}")
        disk.chmod(0o755)


def test_a_folder_of_another_kind_loses_nothing_to_a_run(plugins: Plugins, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "config.yaml").write_text("# mine")
    with pytest.raises(CheckpointError, match=r"holds config.yaml, tokenizer, which a run would replace"):
        begin(folder, plugins)
    assert {path.name for path in folder.iterdir()} == {"config.yaml", "tokenizer"}
    assert (folder / "config.yaml").read_text() == "# mine"


def test_a_folder_may_hold_what_a_run_does_not_write(plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "job.out").write_text("")
    assert begin(tmp_path / "x", plugins) == []


def test_checkpoints_without_their_configuration_are_not_continued(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    for damaged in ("task: [", "", "task: nothing"):
        (run_path("x") / "resolved.yaml").write_text(damaged)
        with pytest.raises(CheckpointError, match=r"since its resolved\.yaml is damaged"):
            begin(run_path("x"), plugins)
    (run_path("x") / "resolved.yaml").unlink()
    (run_path("x") / "config.yaml").unlink()
    with pytest.raises(CheckpointError, match=r"is no run to continue: it has no resolved\.yaml"):
        begin(run_path("x"), plugins)


def test_a_file_where_a_run_should_be_is_named(plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"File exists \(.*file\); make room there, or give another run=…"):
        begin(tmp_path / "file", plugins)


def test_the_root_of_the_file_system_is_no_run(plugins: Plugins) -> None:
    with pytest.raises(CheckpointError, match="run=/ is all of the file system; give a name"):
        begin(Path("/"), plugins)
    assert not Path("/resolved.yaml").exists()


def test_dots_and_a_tilde_are_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_path(".") == Path()
    assert run_path("..") == Path("..")
    assert run_path("~/x") == tmp_path / "x"
    assert run_path("~") == Path("runs/~")
    with pytest.raises(ConfigError, match="no such user"):
        run_path("~no-such-user/x")


def test_a_run_of_an_impossible_name_is_not_found() -> None:
    for name in ("x" * 5000, "a/" * 3000):
        with pytest.raises(CheckpointError, match="no such run"):
            find_run(name)


@pytest.mark.parametrize("before", ["nothing", "a folder", "a checkpoint"])
def test_what_a_failed_start_removes_is_its_own_new_folder(before: str, plugins: Plugins) -> None:
    path = run_path("x")
    if before == "a folder":
        path.mkdir(parents=True)
    if before == "a checkpoint":
        make_run(path, plugins, [1])
    with RunDirectory(path) as run:
        run.begin(letters_config(plugins), plugins, World())
        RunDirectory(path, is_main=False).discard()
        assert path.exists()
        run.discard()
    assert path.exists() == (before != "nothing")


def test_a_new_folder_that_somebody_has_removed_is_discarded_without_a_word(plugins: Plugins) -> None:
    with RunDirectory(run_path("x")) as run:
        run.begin(letters_config(plugins), plugins, World())
        shutil.rmtree(run.path)
        run.discard()
    assert not run.path.exists()


def test_files_of_plugins_are_written_and_removed_by_the_first_rank() -> None:
    path = Path("x")
    path.mkdir()
    (path / "old").write_text("")
    RunDirectory(path).write_files({"new": b"1", "old": None, "never there": None})
    assert {file.name: file.read_bytes() for file in path.iterdir()} == {"new": b"1"}
    RunDirectory(path, is_main=False).write_files({"new": None, "other": b"2"})
    assert [file.name for file in path.iterdir()] == ["new"]


def test_a_run_knows_its_newest_checkpoint(plugins: Plugins) -> None:
    run = RunDirectory(run_path("x"))
    assert (run.is_new, run.is_resumed, run.saved_step) == (True, False, 0)
    make_run(run_path("x"), plugins, [3, 12])
    run = RunDirectory(run_path("x"))
    assert (run.is_new, run.is_resumed, run.saved_step) == (False, True, 12)


def test_a_folder_that_is_not_locked_is_not_removed() -> None:
    run = RunDirectory(run_path("x"))
    run_path("x").mkdir(parents=True)
    run.discard()
    assert run_path("x").exists()


def test_other_ranks_keep_nothing(tmp_path: Path) -> None:
    other = RunDirectory(tmp_path / "x", is_main=False)
    assert other.__enter__() is other
    other.record_data("a", tmp_path)
    other.status("done")
    other.set_as_last()
    other.copy_tokenizer(tmp_path / "nowhere")
    assert not (tmp_path / "x").exists()


def test_of_many_files_in_the_way_the_first_are_named(plugins: Plugins, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("config.yaml", "env.json", "status.json"):
        (folder / name).write_text("")
    with pytest.raises(CheckpointError, match=r"holds config\.yaml, env\.json, status\.json, which a run"):
        begin(folder, plugins)
    (folder / "best").symlink_to("nowhere")
    with pytest.raises(CheckpointError, match=r"holds config\.yaml, env\.json, status\.json, …, which a run would"):
        begin(folder, plugins)
