"""What tools read of the project agrees with the project: citation, type marker, hosted CI."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from folders import ROOT

import s2s

if TYPE_CHECKING:
    import pytest


def test_the_citation_names_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == s2s.__version__
    assert citation["license"] == "MIT"


def test_every_package_says_that_it_is_typed() -> None:
    packages = [
        ROOT / "s2s",
        *(p.parent for folder in ("plugins", "tasks") for p in (ROOT / folder).glob("*/__init__.py")),
    ]
    assert [package.name for package in packages if not (package / "py.typed").is_file()] == []


def test_the_hosted_ci_runs_what_everybody_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step] == ["bash .ci/run"]


def test_every_test_has_a_time_limit(pytestconfig: pytest.Config) -> None:
    """Beyond it the process ends with the Python stacks of all threads, also where the test blocks in C."""
    assert 60 <= float(pytestconfig.getini("faulthandler_timeout")) <= 1200
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True
