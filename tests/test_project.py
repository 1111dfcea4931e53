"""Metadata that tools read agrees with the project: citation, type marker, hosted CI."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

import s2s
from harness.folders import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_the_citation_names_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == s2s.__version__
    assert citation["license"] == "MIT"


def test_every_package_says_that_it_is_typed() -> None:
    packages = [
        ROOT / "s2s",
        *(p.parent for pattern in ("plugins/*/*", "tasks/*") for p in ROOT.glob(f"{pattern}/__init__.py")),
    ]
    assert [package.name for package in packages if not (package / "py.typed").is_file()] == []


@pytest.mark.slow
def test_the_site_builds_and_no_link_of_it_leads_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = [page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (tmp_path / page / "index.html").is_file()] == []
    assert 'id="s2s.api.load"' in (tmp_path / "reference" / "index.html").read_text(), "functions are described"


def test_the_hosted_ci_runs_what_everybody_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step] == ["bash .ci/run"]


def test_every_test_has_a_time_limit(pytestconfig: pytest.Config) -> None:
    """Beyond it the process ends with the Python stacks of all threads, also where the test blocks in C."""
    assert 60 <= float(pytestconfig.getini("faulthandler_timeout")) <= 1200
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True
