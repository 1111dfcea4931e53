"""What the commands print about themselves, as text: help, configurations with where each value comes from, listings.

    python benchmarks/same_texts.py before    # on the tree before the change
    python benchmarks/same_texts.py after     # on the tree after it
    diff -r before after

A file for each command line, with the command line, what it prints, and its exit status if it fails. ROOT is the folder
of the tree.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import forked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = (
    "task.train=[a.en,a.de] task.valid=[b.en,b.de] task.src_lang=en task.tgt_lang=de",
    "task.train={gold: a.mrg} task.valid=b.mrg task.style=gold",
    "task.train=a.mrg task.valid=b.mrg",
    "task.train=a.de task.tokenizer=run",
    "task.tasks={one: {name: translation}}",
    "objective.teachers=[teacher]",
    "train.init_from=base",
    "run=run",
)
"""Options that a command line may need: where it is refused, the first with which it is accepted"""
CHOICES = {
    "arch": "task=translation_tiny",
    "task": "arch=transformer_tiny",
    "objective": "task=translation_tiny arch=transformer_tiny",
    "optim": "task=translation_tiny arch=transformer_tiny",
    "schedule": "task=translation_tiny arch=transformer_tiny",
    "recipe": "task=translation_tiny arch=transformer_tiny train.precision=fp32",  # else measured
    "search": "task=translation_tiny arch=transformer_tiny",
    "experiment": "",
}
"""Group of s2s-train -> what else a configuration needs"""
OTHER_COMMANDS = ("s2s-prepare", "s2s-score", "s2s-pcfg train")
"""Commands with tasks"""
WITHOUT_TASK = ("s2s-generate", "s2s-average", "s2s-export", "s2s-report", "s2s-serve", "s2s-pcfg parse")
SHOWN = (*CHOICES, "metric", "corpus", "linear", "tokenizer", "strategy", "exporter", "input_format", "output_format")
"""Groups of s2s-plugins show"""


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        names = listed(Path(folder))
        lines = {*listings(names), *configurations(names), *helps(Path(folder))}
        for line in sorted(lines):
            write(Path(folder), target, line)
    print(f"{len(lines)} texts in {target}")
    return 0


def listings(names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Everything that is installed, and the options of each choice."""
    yield "s2s-plugins list"
    yield from (f"s2s-plugins show {group}={name}" for group in SHOWN for name in names[group])
    yield from (f"s2s-completion {shell}" for shell in ("bash", "zsh", "fish"))


def configurations(names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The configuration of every preset and choice."""
    for group, needed in CHOICES.items():
        yield from (f"s2s-train {group}={name} {needed} --print-config" for name in names[group])
    for command in OTHER_COMMANDS:
        yield from (f"{command} task={name} --print-config" for name in names["task"])
    yield from (f"s2s-study {name} --print-config" for name in names["study"])
    yield from (f"{command} --print-config" for command in WITHOUT_TASK)


def helps(folder: Path) -> Iterator[str]:
    """The help of every command, and of each of its groups, sections and options."""
    yield from (f"{command} --help" for command in forked.commands())
    task = "task=translation_tiny"
    complete = [f"s2s-train {task} arch=transformer_tiny", "s2s-study table2_cpu", *WITHOUT_TASK]
    for line in [*complete, *(f"{command} {task}" for command in OTHER_COMMANDS)]:
        command = " ".join(word for word in line.split() if word in ("train", "parse") or word.startswith("s2s-"))
        shown = forked.run(folder, f"{line} --print-config").out
        yield f"{command} --help"
        yield from (f"{command} --help {key}" for key in re.findall(r"^(\w+):", shown, re.MULTILINE))


def listed(folder: Path) -> dict[str, list[str]]:
    """Group -> its registered names and presets, as `s2s-plugins list` has them."""
    names: dict[str, list[str]] = {}
    text = re.sub(r",\n +", ", ", forked.run(folder, "s2s-plugins list").out)
    for group, row in re.findall(r"^  (\w[\w ]*?)  +(\w.*)$", text, re.MULTILINE):
        names[group] = sorted({*names.get(group, []), *row.split(", ")})
    return names


def write(folder: Path, target: Path, line: str) -> None:
    """Write what a command line prints to a file that is named after it."""
    command, *rest = line.split()
    done, full = accepted(folder, line)
    text = f"{full}\n{done.out}" + (f"exit status {done.code}: {done.err}" if done.code else "")
    path = target / command / f"{' '.join(word for word in rest if word != '--print-config') or 'nothing'}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(str(ROOT), "ROOT"), encoding="utf-8")


def accepted(folder: Path, line: str) -> tuple[forked.Done, str]:
    """The result of a command line, with further options if it is refused without them; the complete line."""
    first = forked.run(folder, line)
    for options in OPTIONS if first.code else ():
        done = forked.run(folder, f"{line} {options}")
        if not done.code:
            return done, f"{line} {options}"
    return first, line


if __name__ == "__main__":
    sys.exit(main())
