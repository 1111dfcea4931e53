"""Metadata that tools read agrees with the project: citation, type marker, hosted CI."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
import yaml

import s2s
from harness.folders import ROOT
from lower_bounds import lower_bounds
from quick_tests import FIXED, related

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


ENTRY = re.compile(r"^([\w.-]+)==([^\s+]+)\S* \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", re.MULTILINE)


def test_the_lock_has_hashes_and_the_versions_of_the_constraints() -> None:
    lock, constraints = ((ROOT / name).read_text(encoding="utf-8") for name in ("requirements.lock", "constraints.txt"))
    others = [line for line in ENTRY.sub("", lock).splitlines() if line and not line.startswith("#")]
    assert others == [], "such as the address of an index"
    locked = {match[1]: match[2] for match in ENTRY.finditer(lock)}
    pinned = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)$", constraints))
    assert {name: pinned[name] for name in locked.keys() & pinned.keys()}.items() <= locked.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["serve"], *extras["documents"], *extras["hf"]]
    assert {re.split(r"[<>=;\[ ]", one)[0] for one in wanted} <= locked.keys()


@pytest.mark.slow
def test_the_site_builds_and_no_link_of_it_leads_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = [page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (tmp_path / page / "index.html").is_file()] == []
    reference = (tmp_path / "reference" / "index.html").read_text()
    assert 'id="s2s.api.load"' in reference, "functions are described"
    assert "<th>parameter</th>" in reference
    assert "<th>field</th>" in reference


WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def steps(job: str) -> list[str]:
    return [step["run"] for step in WORKFLOW["jobs"][job]["steps"] if "run" in step]


def test_the_hosted_ci_runs_what_everybody_runs() -> None:
    assert steps("test") == ["bash .ci/run"]
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = [re.match(r"make ([\w-]+)", step) for job in WORKFLOW["jobs"] for step in steps(job)]
    assert {call[1] for call in called if call} <= targets


def test_ci_tests_the_python_versions_that_are_promised() -> None:
    versions = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c]
    assert WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"] == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_the_oldest_versions_are_those_of_the_project() -> None:
    oldest = lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "torch==2.11" in oldest
    assert "fastapi==0.115" in oldest
    text = '[project]\ndependencies = ["a>=1", "b"]\n[project.optional-dependencies]\nx = ["c[d]>=2.1", "a>=1"]\n'
    assert lower_bounds(text) == ["a==1", "c==2.1"]


def test_torch_is_bounded_by_what_was_tested() -> None:
    (bound,) = (one for one in PROJECT["dependencies"] if one.startswith("torch>="))
    pinned = re.search(r"^torch==(\d+)\.(\d+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned
    assert bound.endswith(f",<{pinned[1]}.{int(pinned[2]) + 1}")


def test_all_extras_are_those_of_all_but_the_tools() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert sorted(re.findall(r"[\w-]+", everything)[1:]) == sorted(extras.keys() - {"all", "dev", "docs"})


def test_the_page_on_installation_lists_every_extra() -> None:
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`([\w-]+)`", " ".join(rows))) == sorted(PROJECT["optional-dependencies"])


def test_every_small_dependency_is_pinned() -> None:
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    large = {"ray", "wandb", "mlflow-skinny"}
    lists = (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    names = {re.split(r"[\[>]", one)[0] for one in itertools.chain(*lists)} - {"s2s-toolkit"}
    assert sorted(names - large - set(pinned)) == []


def test_quick_tests_are_near_the_changes() -> None:
    assert related("s2s/io/lock.py") == ["tests/s2s/io/test_lock.py"]
    assert "tests/plugins/test_moe_ranks.py" in related("plugins/architectures/s2s_moe/layer.py")
    assert "tests/plugins/s2s_cpu/test_linear.py" in related("plugins/backends/s2s_cpu/onednn.py")
    assert "tests/tasks/test_parsing_evalb.py" in related("tasks/s2s_parsing/evalb/score.py")
    assert related("tests/test_docs.py") == ["tests/test_docs.py"]
    assert related("tests/harness/folders.py") == []
    assert [file for file in FIXED if not (ROOT / file).is_file()] == []


def test_every_test_has_a_time_limit(pytestconfig: pytest.Config) -> None:
    """Beyond it the process ends with the Python stacks of all threads, also where the test blocks in C."""
    assert 60 <= float(pytestconfig.getini("faulthandler_timeout")) <= 1200
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True
