"""`make benchmarks`: its list agrees with the folder, and it continues where it was stopped."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness.folders import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LEARNERS = {"plain": 1.0, "plain, kept": 3.0, "s2s fp32": 2.0}


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


def test_the_options_of_the_demo_are_known(tables: Any, tmp_path: Path) -> None:
    demo = tables.TABLES["demo"]
    words = [word.format(out=tmp_path) for word in (*demo.command, *demo.small)]
    command = [sys.executable, *words, "task.pairs=300", "--dry-run"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


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


def test_the_page_of_a_machine_says_first_what_is_lost(tmp_path: Path) -> None:
    first = {"roofline": {"gemm onednn GFLOP/s": 200.0, "read GB/s": 12.0}, "commit": "abc"}
    rows = [
        {"case": "tiny batch 1", "rate": {"s2s": 1500.0, "peer": 1000.0}, "ratio": {"s2s": 1.0, "peer": 1.5}},
        {"case": "tiny batch 8", "rate": {"s2s": 800.0, "peer": 1000.0}, "ratio": {"s2s": 1.0, "peer": 0.8}},
    ]
    (tmp_path / "decode_fp32.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (first, *rows)))
    (tmp_path / "train").mkdir()
    engines = [{"name": name, "tokens_per_second": r * 100, "ratio": r, "peak": 2**30} for name, r in LEARNERS.items()]
    report = {"GFLOP/s of products": {"fp32": 190.0}, "against plain loops": engines}
    report["over the loop that keeps memory, bf16"] = [{"ratio": 1.0}, {"ratio": 1.57}]
    (tmp_path / "train/base-synthetic.json").write_text(json.dumps(report))
    whole = {"s2s-generate, lines: 10": 2.0, "CTranslate2, lines: 10": 0.5, "import torch": 1.0}
    costs = [{"program": name, "cpu": wall / 4, "wall": wall, "megabytes": 100.0} for name, wall in whole.items()]
    (tmp_path / "whole_process.jsonl").write_text("".join(json.dumps(row) + "\n" for row in costs))
    for name in ("decode_fp32", "train_base", "whole_process", "serve"):
        (tmp_path / f"{name}.txt").write_text(f"# python {name}\n# commit abc; a processor\n# Python 3\n")
    with (tmp_path / "serve.txt").open("a") as file:
        file.write("serving  http://127.0.0.1:1\n| clients |\n|---|\n| 8 |\n")
    ran = subprocess.run(
        [sys.executable, ROOT / "benchmarks/speed_page.py", tmp_path], capture_output=True, text=True, check=True
    )
    assert ran.stdout == (tmp_path / "README.md").read_text() + "\n"
    losses = ran.stdout.partition("## Where another is faster\n\n")[2].partition("\n\n")[0].splitlines()
    assert losses == [
        "- fp32: tiny batch 8: peer 1.25 times",
        "- training base: plain, kept 1.50 times",
        "- whole process, 10 lines, wall seconds: CTranslate2 4.0 times",
        "- whole process, 10 lines, cpu seconds: CTranslate2 4.0 times",
    ]
    assert "| tiny batch 1 | 1,500 | 1,000 (1.50) |" in ran.stdout
    assert "| s2s fp32 | 200, 2.00, 1.0 GiB |" in ran.stdout
    assert "| bf16 | 1.57 |" in ran.stdout
    assert "## Server\n\n    python serve\n\n| clients |\n|---|\n| 8 |\n" in ran.stdout
    assert "- commit abc; a processor · Python 3" in ran.stdout
    (tmp_path / "decode_fp32.txt").unlink()  # as where the command has failed
    (tmp_path / "decode_int8.jsonl").write_text(json.dumps(first) + "\n")
    ran = subprocess.run([*ran.args], capture_output=True, text=True, check=True)
    assert "## Decoding" not in ran.stdout
