"""What tools read of the project agrees with the project: citation, type marker, hosted CI."""

from __future__ import annotations

import yaml
from folders import ROOT

import s2s


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
