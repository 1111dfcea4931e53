"""Damaged files of a finished study, whose table is then made again: the same table, or a word of what is left out."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, Any

from attack.damages import spoil
from attack.sandbox import run
from attack.scene import call_here
from attack.verdicts import Case, judge
from harness.study_engine import ENGINE
from harness.tiny_runs import write_corpus
from s2s.cli import train
from s2s_study import job

if TYPE_CHECKING:
    from pathlib import Path

STUDY: dict[str, Any] = {
    "base": {
        "task": {"name": "translation", "train": ["a.en", "a.de"], "valid": ["few.en", "few.de"], "vocab_size": 40},
        "arch": {"base": "transformer_tiny", "d_model": 8, "d_ff": 8, "n_heads": 2, "n_encoder_layers": 1},
        "train": {"steps": 4, "tokens": 300, "threads": 1},
        "data": {"workers": 1},
        "checkpoint": {"every": 2},
        "schedule": {"warmup": 1},
        "valid": {"every": 2, "score": False},
        "log": {"tensorboard": False},
    },
    "rows": {"base": {}, "wide": {"arch": {"d_ff": 16}}},
    "measures": ["steps", "ppl", "bleu", "parameters"],
    "evaluate": {"sentences": 5, "options": {"matmul": "torch"}},
    "samples": 20,
    "engine": "here",
}
COMMAND = ["tiny.yaml", "plugins=[./here.py]", "--quiet"]
TABLE = "studies/tiny/table.csv"


class Results:
    """A study of two rows; of half of the cases that damage a run, the result is removed, so that it is made again."""

    def __init__(self, root: Path) -> None:
        # a job runs in the process of the study, not in one of its own, which takes seconds
        job.call = lambda command, lock: train.main(command[3:])  # noqa: ARG005
        job.end_with_parent = lambda _: None
        self.root, self.whole = root, root / "whole"
        self.place = root / "here"
        """Always the same one, since the files of a study name it"""
        self.place.mkdir()
        write_corpus(self.place)
        for side in ("en", "de"):
            lines = (self.place / f"a.{side}").read_text().splitlines(keepends=True)
            (self.place / f"few.{side}").write_text("".join(lines[:20]))
        (self.place / "here.py").write_text(ENGINE)
        (self.place / "tiny.yaml").write_text(json.dumps(STUDY))
        call_here(self.place, "s2s-study", COMMAND)
        shutil.copytree(self.place, self.whole, symlinks=True)
        self.expected = (self.whole / TABLE).read_bytes()

    def case(self, number: int, seed: int) -> Case:
        """Damage a file of a job or of a run; then make the table, of what is there, or of all."""
        draw = random.Random(f"results {seed} {number}")
        place = self.place
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.whole, place, symlinks=True)
        study = place / "studies/tiny"
        of = study / draw.choice(("jobs", "jobs", "runs"))
        files = sorted(path for path in of.rglob("*") if path.is_file() and not path.is_symlink())
        what = spoil(draw, [path for path in files if path.suffix not in (".log", ".lock")], place, place / "nowhere")
        if of.name == "runs" and draw.random() < 0.5:
            for path in (study / "jobs").glob("*.result.json"):
                path.unlink()
            what += ", without results"
        only = ["only_table=true"] if draw.random() < 0.3 and "without" not in what else []
        ended = run(place, "s2s-study", [*COMMAND, *only])
        table = place / TABLE
        # that a job has failed is a line, too
        ended = ended._replace(err=ended.err.replace(" failed: ", ": error: "))
        return judge(number, what, ended, table.is_file() and table.read_bytes() == self.expected)
