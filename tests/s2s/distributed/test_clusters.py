"""The templates for schedulers: Slurm's against a scheduler of three small scripts, the others for their form."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from harness.folders import ROOT
from harness.sorting_runs import SMALL, WATCH, outcome, train_in_ranks
from s2s.compose import compose
from s2s.config import Config, GenerateConfig
from s2s.plugin import load_plugins

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

CLUSTERS = ROOT / "docs" / "clusters"

FAKES = {
    # Runs the job as Slurm would, tells it once that its time is almost over, and again as long as it asks for it.
    "sbatch": """
        script=$1; shift
        export SLURM_JOB_ID=$$ SLURM_JOB_NODELIST=localhost SLURM_JOB_NUM_NODES=1 SLURM_GPUS_ON_NODE=2
        for SLURM_RESTART_COUNT in 0 1 2 3; do
            export SLURM_RESTART_COUNT; rm -f "$FAKE/requeue"
            bash "$script" "$@" & job=$!
            if [ $SLURM_RESTART_COUNT = 0 ]; then
                until grep -qs '"step": 4,' "$FAKE/run/log.jsonl"; do sleep 0.2; kill -0 $job || exit 9; done
                kill -$NOTICE $job
            fi
            wait $job; code=$?
            echo "job ended with $code" >> "$FAKE/slurm.log"
            [ -e "$FAKE/requeue" ] || exit $code
        done
    """,
    "srun": 'while [[ $1 == -* ]]; do shift; done; exec "$@"',
    "scontrol": 'if [ "$1" = requeue ]; then touch "$FAKE/requeue"; else echo localhost; fi',
}


@pytest.mark.slow
@pytest.mark.parametrize("notice", ["USR1", "TERM"])
def test_a_slurm_job_that_is_told_to_stop_saves_is_queued_again_and_loses_nothing(tmp_path: Path, notice: str) -> None:
    arguments = ["train.steps=150", "valid.every=0", "checkpoint.every=50"]
    assert train_in_ranks(tmp_path / "whole", 2, *arguments) == [0, 0]
    folder = tmp_path / "parts"
    (folder / "bin").mkdir(parents=True)
    for name, body in FAKES.items():
        (folder / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / "bin" / name).chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "examples/s2s-example"), *sys.path[1:]]),
        "PYTHON": sys.executable,
        "FAKE": str(folder),
        "NOTICE": notice,
    }
    places = [f"plugins=[s2s_example,{WATCH}]", f"run={folder / 'run'}", f"data.prepared={tmp_path / 'prepared'}"]
    command = ["sbatch", str(CLUSTERS / "slurm.sh"), *SMALL, *places, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "saved; the same command continues" in done.stderr
    assert (folder / "slurm.log").read_text().splitlines() == ["job ended with 1", "job ended with 0"]
    assert outcome(folder) == outcome(tmp_path / "whole")


def commands(text: str) -> list[list[str]]:
    """The arguments of every s2s command in a template."""
    text = text.replace("\\\n", " ").replace("\n                - ", " ")
    return [
        found.split()
        for found in re.findall(r"(?:s2s\.cli\.train\]?|s2s-generate)((?:\s+(?:args:|[\w.]+=\S+))+)", text)
    ]


@pytest.mark.parametrize("name", ["kubernetes.yaml", "skypilot.yaml"])
def test_the_options_in_a_template_are_real(name: str) -> None:
    text = (CLUSTERS / name).read_text()
    assert all(isinstance(document, dict) for document in yaml.safe_load_all(text))
    found = commands(text)
    assert found
    for arguments in found:
        given = [argument.replace("$((JOB_COMPLETION_INDEX", "1") for argument in arguments if "=" in argument]
        schema = GenerateConfig if any(a.startswith("input=") for a in given) else Config
        assert compose(schema, given, load_plugins()).config.run == "/shared/runs/mine"


def test_every_template_is_on_the_page() -> None:
    page = (ROOT / "docs" / "clusters.md").read_text()
    assert [path.name for path in CLUSTERS.iterdir() if f"(clusters/{path.name})" not in page] == []


@pytest.mark.parametrize("name", ["slurm.sh", "slurm-generate.sh", "slurm-prepare.sh"])
def test_a_script_is_well_formed(name: str) -> None:
    subprocess.run(["bash", "-n", str(CLUSTERS / name)], check=True)
