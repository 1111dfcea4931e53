"""Commands under a limit on the addresses of a process."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from s2s.cli.addresses import ADDRESSES, enough_for_torch

if TYPE_CHECKING:
    from pathlib import Path


class EmptyFinder:
    """Finds no module."""

    def find_spec(self, *_: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("n_bytes", "is_enough"), [(resource.RLIM_INFINITY, True), (ADDRESSES, True), (ADDRESSES - 1, False), (0, False)]
)
def test_torch_is_not_imported_without_the_addresses_that_it_needs(
    n_bytes: int, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (n_bytes, resource.RLIM_INFINITY))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    empty: Any = EmptyFinder()
    monkeypatch.setattr(sys, "meta_path", [empty])
    message = rf"may have {n_bytes >> 20} MB of addresses, and torch alone needs 700; allow"
    error, expected = (ImportError, "No module named 'torch'") if is_enough else (MemoryError, message)
    with enough_for_torch(), pytest.raises(error, match=expected):
        import torch  # noqa: F401
    assert sys.meta_path == [empty]


def limited(folder: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that may have 390 MB."""
    script = f'ulimit -v 400000; exec "$0" -m s2s {arguments}'
    command = ["bash", "-c", script, sys.executable]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "command", ["train task=translation arch=transformer_tiny task.train=[a.en,a.de]", "plugins show arch=rnn"]
)
def test_a_command_that_needs_torch_ends_in_one_line(command: str, tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("x\n")
    done = limited(tmp_path, command)
    assert done.returncode == 1
    what = f"s2s-{command.split()[0]}: error: out of memory; this process may have 390 MB of addresses"
    assert done.stderr.startswith(what), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("is_optional", [True, False])
def test_a_plugin_may_do_without_torch_and_one_that_needs_it_is_named(is_optional: bool, tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("ein alter Hund bellt\n")
    optional = "try:\n    import torch\nexcept ImportError:\n    print('without torch')\n"
    (tmp_path / "own.py").write_text(optional if is_optional else "import torch\n")
    done = limited(tmp_path, "score hyp=a.de ref=a.de metrics=[bleu] plugins=[./own.py]")
    if is_optional:
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("without torch\n")
        return
    assert done.returncode == 2
    assert "own.py" in done.stderr
    assert ": this process may have 390 MB of addresses, and torch alone needs 700; allow more" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_command_that_needs_no_torch_needs_no_addresses_for_it(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("ein alter Hund bellt\n")
    done = limited(tmp_path, "score hyp=a.de ref=a.de metrics=[bleu]")
    assert (done.returncode, done.stderr) == (0, "")
    assert "100.0" in done.stdout
