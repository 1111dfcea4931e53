"""Mistakes in a user's input: options of every command, and files that are not text, not pairs, not JSON."""

from __future__ import annotations

import random
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING

from attack.odd_text import odd_file
from attack.sandbox import run, run_command
from attack.scene import Scene, written
from attack.verdicts import Case, Verdict, judge
from harness.tiny_runs import SMALL
from s2s.compose import compose
from s2s.config import Config, GenerateConfig
from s2s.config.average import AverageConfig
from s2s.config.data import PrepareConfig
from s2s.config.score import ScoreConfig
from s2s.plugin import load_plugins
from s2s_export import ExportConfig

if TYPE_CHECKING:
    from pathlib import Path

BASE = {
    "s2s-train": [*SMALL, "run=x", "--quiet"],
    "s2s-generate": ["run=x", "threads=1", "input=few.en", "--quiet"],
    "s2s-score": ["task=translation", "hyp=few.de", "ref=few.de", "samples=0"],
    "s2s-prepare": [*SMALL[:3], "recipe=none"],
    "s2s-average": ["run=x", "last=2"],
    "s2s-export": ["run=x", "format=hf", "output=exported", "sentences=2"],
    "s2s-plugins": ["show", "arch=transformer_tiny"],
}
"""What each of them is asked before something in it is made wrong"""
SCHEMAS = {
    "s2s-generate": GenerateConfig,
    "s2s-score": ScoreConfig,
    "s2s-prepare": PrepareConfig,
    "s2s-average": AverageConfig,
    "s2s-export": ExportConfig,
}
ODD = ["", "[", "[a,b]", "{a: 1}", "[few.en,few.de]", "[spoilt,few.de]", "[empty,empty]", "\x00", "\udcff", "\u2028"]
VALUES = """*a &a ${run} ${oc.env:HOME} !!python/name:os.system 0 -1 1 3 1e9 99999999999999999999 nan inf true no null
    1/2 0/0 3/2 a.en few.de spoilt empty folder missing/file runs/x x last ../.. /dev/null spoilt.gz transformer_tiny
    beam greedy translation parsing cuda cpu:9 text tsv jsonl svg ctranslate2 hf marian step-000004 average best"""
FLAGS = """--help --version --dry-run --print-config --quiet --nonsense -h - -- spoilt few.en = bad.yaml
    runs/x/resolved.yaml runs/x/config.yaml"""
LONG = {"train.steps", "train.devices", "train.compile", "train.profile", "arch", "experiment", "task"}
"""Options whose mistakes may be no mistakes, but a long run: what comes of them is only printed"""


@cache
def keys(command: str) -> list[str]:
    """Every option of a command, and some that it does not have."""
    plugins = load_plugins()
    if command == "s2s-plugins":
        return ["list", "show", "arch", "task"]
    if command == "s2s-train":
        options = [argument for argument in BASE[command] if not argument.startswith("--")]
        return [*compose(Config, options, plugins).origins, "experiment", "plugins", "train", "task.x"]
    own = [field.name for field in fields(plugins.registry.with_options(SCHEMAS[command]))]
    return [*own, "task.src", "search.beam", "search.alpha", "plugins", "data.prepared", "data.max_len", "nonsense"]


def mistaken(draw: random.Random, command: str) -> list[str]:
    """The arguments of a command, a few of which are replaced, doubled, left out or cut."""
    arguments = list(BASE[command])
    for _ in range(draw.randint(1, 3)):
        kind = draw.randrange(5)
        if kind < 3 or len(arguments) == 1:
            arguments.append(f"{draw.choice(keys(command))}={draw.choice([*ODD, *VALUES.split()])}")
        elif kind == 3:
            arguments.append(draw.choice(FLAGS.split()))
        else:
            del arguments[draw.randrange(len(arguments))]
    if command in ("s2s-train", "s2s-export") and draw.random() < 0.75:
        arguments.append("--dry-run")  # the mistakes that count are found before the first update
    if command == "s2s-train":
        arguments.insert(0, "train.steps=4")
    if command == "s2s-train" and any(a.partition("=")[0] in LONG for a in arguments[len(SMALL) :]):
        arguments.append("--print-config")
    return arguments


def write_odd_files(folder: Path) -> None:
    """Files that are not what they should be, under the names that `VALUES` has."""
    (folder / "empty").write_bytes(b"")
    (folder / "spoilt").write_bytes(b"\xff\xfe\x00a\n\n\r\n\xed\xa0\x80\n" + bytes(range(256)))
    (folder / "spoilt.gz").write_bytes(b"\x1f\x8b\x08\x00spoilt")
    (folder / "bad.yaml").write_text("train: {steps: [1\n- x")
    (folder / "folder").mkdir()


class Mistakes:
    """Three cases of four are arguments, one is a file; each line of it counts if each has its output."""

    def __init__(self, root: Path) -> None:
        self.scene = Scene(root)
        self.scene.warm_up({command: arguments for command, arguments in BASE.items() if command != "s2s-train"})
        write_odd_files(self.scene.whole)
        self.folder = self.scene.copy()
        for command in SCHEMAS | {"s2s-train": Config}:
            keys(command)  # here, and not in each child again

    def case(self, number: int, seed: int) -> Case:
        """One mistake, in a folder that is renewed now and then."""
        draw = random.Random(f"mistakes {seed} {number}")
        if number % 25 == 0:
            self.folder = self.scene.copy()
        if number % 4 == 3:
            return self._odd_input(number, draw)
        command = draw.choice(list(BASE))
        arguments = mistaken(draw, command)
        ended = (run_command if number % 20 == 18 else run)(self.folder, command, arguments)
        return judge(number, f"{command} {arguments}", ended, is_same=True)

    def _odd_input(self, number: int, draw: random.Random) -> Case:
        """A file of odd lines: refused, or as many outputs as it has lines; or learnt from, each line with its own."""
        data = odd_file(draw)
        (self.folder / "odd").write_bytes(data)
        (self.folder / "odd.out").unlink(missing_ok=True)
        command = draw.choice(("s2s-generate", "s2s-score", "s2s-prepare"))
        arguments = {
            "s2s-generate": ["run=x", "threads=1", "input=odd", "output=odd.out", "--quiet"],
            "s2s-score": ["task=translation", "hyp=odd", "ref=odd", "samples=0"],
            "s2s-prepare": [
                *SMALL[:1],
                "task.train=[odd,odd]",
                "task.vocab_size=40",
                "recipe=none",
                "data.workers=1",
                "data.prepared=p",
            ],
        }[command]
        if draw.random() < 0.5 and command == "s2s-prepare":
            arguments.append("task.invalid=drop")
        ended = run(self.folder, command, arguments)
        is_same = (
            command != "s2s-generate" or ended.code != 0 or _n_lines(written(self.folder, "odd.out")) == _n_lines(data)
        )
        case = judge(number, f"{command} {arguments[1:]} of {data[:300]!r}", ended, is_same)
        if not is_same:  # a warning does not make up for lost lines
            return case._replace(verdict=Verdict.SILENT)
        return case._replace(n_faults=max(1, _n_lines(data)) if ended.code == 0 else 1)


def _n_lines(data: bytes | None) -> int:
    """As editors count: the last line may lack its end."""
    return -1 if data is None else data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
