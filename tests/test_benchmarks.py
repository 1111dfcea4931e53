"""`make benchmarks`: its list agrees with the folder, and it goes on where it was stopped."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import pytest
from folders import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def tables() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("benchmark_tables", ROOT / "benchmarks/tables.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_every_listed_script_exists(tables: Any) -> None:
    named = [table.command[0] for table in tables.TABLES.values() if table.command[0] != "-m"]
    assert [name for name in named if not (ROOT / name).is_file()] == []
    scripts = [word for how in tables.BY_HAND.values() for word in how.split() if word.startswith("benchmarks/")]
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


def test_every_folder_of_results_is_made_by_a_table_or_by_hand(tables: Any) -> None:
    folders = {path.name for path in (ROOT / "benchmarks/results").iterdir()}
    names = {*tables.TABLES, *tables.BY_HAND}
    assert {folder for folder in folders if not any(name.startswith(folder) for name in names)} == set()
    assert tables.BY_HAND.keys() <= folders


def test_what_is_there_is_not_made_again_and_what_failed_is(tables: Any, tmp_path: Path, monkeypatch: Any) -> None:
    count = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text() + 'x')"
    (tmp_path / "runs").write_text("")
    first = tables.Table(["-c", f"{count}; print('figures')", "{out}/runs"], ["small"], ["full"])
    second = tables.Table(["-c", "import sys; print('half'); sys.exit(1)"], [], [])
    monkeypatch.setattr(tables, "TABLES", {"first": first, "second": second})
    assert tables.main([f"out={tmp_path}"]) == 1
    assert not (tmp_path / "second.txt").exists()
    monkeypatch.setattr(tables, "TABLES", {"first": first, "second": tables.Table(["-c", "print(2)"], [], [])})
    assert tables.main([f"out={tmp_path}"]) == 0
    assert (tmp_path / "runs").read_text() == "x"
    *head, figures = (tmp_path / "first.txt").read_text().splitlines()
    assert figures == "figures"
    assert head[0].endswith("runs small")
    assert ["commit" in line for line in head] == [False, True, False]
    assert (tmp_path / "second.txt").read_text().endswith("2\n")


@pytest.mark.parametrize("argument", ["nothing", "to=here"])
def test_a_name_that_is_no_table_is_refused(tables: Any, argument: str) -> None:
    with pytest.raises(SystemExit, match=r"no such table|unknown options"):
        tables.main([argument])
