"""One of two ranks is given something else than the other: both are refused, in one line that names it.

Every option of a small run that composes with another value, the contents of each file, and the kernels.
"""

from __future__ import annotations

import random
import shutil
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from attack.ranks import both
from attack.sandbox import Child
from attack.scene import BEGIN, Scene
from attack.verdicts import Case, Verdict, judge, worst
from harness.ports import free_port
from harness.shipped_plugins import shipped
from s2s.compose import compose, flatten
from s2s.compose.options import hints_of
from s2s.compose.yaml12 import to_text
from s2s.config import Config
from s2s.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ARGUMENTS = [*BEGIN, "train.steps=6", "task.valid=[few.en,few.de]", "train.timeout=20", "run=y"]
COMPOSED = [argument for argument in ARGUMENTS if argument != "--quiet"]
MAY_DIFFER = ("data.prepared",)
"""Options that each rank may have its own of: both train"""
OF_DEVICES = ("train.device",)
"""Options with which a rank that has no other device is refused before it joins"""
WORDS = ("fsdp", "json", "a.b")


class Difference(NamedTuple):
    """What rank 1 has of its own."""

    key: str
    """As the error names it"""
    arguments: Sequence[str] = ()
    kernels: str = ""
    file: str = ""


class Disagreements:
    """The two ranks begin the same run, each in a folder of its own, as on two machines."""

    def __init__(self, root: Path) -> None:
        self.scene = Scene(root)

    @cached_property
    def differences(self) -> list[Difference]:
        """One for each key."""
        config = compose(Config, COMPOSED, shipped()).config
        options = [
            found
            for key, value in flatten(config).items()
            if key not in OF_DEVICES and (found := another(key, value, config))
        ]
        files = [
            *(Difference("the training data", file=name) for name in ("a.en", "a.de")),
            *(Difference("the development data", file=name) for name in ("few.en", "few.de")),
        ]
        kernels = [
            Difference("S2S_KERNELS", kernels="torch"),
            Difference("a hash of plugin", ["plugins=[mine.py]"]),
        ]
        return [*options, *files, *kernels]

    def case(self, number: int, seed: int) -> Case:
        """The difference of this number; the seed draws an order."""
        own = random.Random(f"disagreements {seed}").sample(self.differences, len(self.differences))
        difference = own[number % len(own)]
        folders = [self.scene.copy()]
        folders.append(shutil.copytree(folders[0], folders[0].with_name("other"), dirs_exist_ok=True))
        (folders[1] / "mine.py").write_text("")
        if difference.file:
            exchange(folders[1] / difference.file, random.Random(f"{seed} {number}"))
        ended = both(begin(folders, difference))
        shutil.rmtree(folders[1])
        what = f"{difference.key} {[*difference.arguments, difference.kernels, difference.file]}"
        cases = [judge(number, f"{what}, rank {rank}", one, is_same=True) for rank, one in enumerate(ended)]
        if difference.key in MAY_DIFFER:
            return worst(cases)
        named = [e.code == 2 and f"different things: {difference.key}" in e.err for e in ended]
        silent = [
            case._replace(verdict=Verdict.SILENT) for case, is_named in zip(cases, named, strict=True) if not is_named
        ]
        return worst([*cases, *silent])


def another(key: str, value: Any, config: Config) -> Difference | None:
    """The option with another value with which the run composes; None if there is none."""
    for other in others(key, value, config):
        argument = f"{key.removesuffix('.name')}={to_text(other)}"
        try:
            composed = compose(Config, [*COMPOSED, argument], shipped()).config
        except UserError:
            continue
        if flatten(composed).get(key, value) != value:
            return Difference(key, [argument])
    return None


def others(key: str, value: Any, config: Config) -> list[Any]:
    """Values of the same kind."""
    section, _, name = key.rpartition(".")
    words = [*WORDS, *literals(hints_of(type(getattr(config, section) if section else config))[name])]
    if name == "name":
        words = shipped().registry.names(section)
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value + 2, value * 2, value / 2, 0.5, 0.1, 1, 8]
    if isinstance(value, list):
        return [value[::-1], ["^encoder"], [*value, "x"]]
    if isinstance(value, dict):
        return [{"^encoder": None}]
    return [1, 0.5, True, 2, 3, *words] if value is None else [*words, 50]


def literals(hint: Any) -> list[str]:
    """The words among which an option with this type chooses."""
    return [word for part in get_args(hint) for word in ([part] if isinstance(part, str) else literals(part))]


def exchange(file: Path, draw: random.Random) -> None:
    """Two words of a text exchanged, so that its size and its vocabulary stay the same."""
    words = file.read_text().split(" ")
    inside = [i for i, word in enumerate(words) if "\n" not in word]
    one = draw.choice(inside)
    two = draw.choice([i for i in inside if words[i] != words[one]])
    words[one], words[two] = words[two], words[one]
    file.write_text(" ".join(words))


def begin(folders: list[Path], own: Difference) -> list[Child]:
    """Both ranks, the second with what is its own."""
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [{**meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    kernels = {"S2S_KERNELS": own.kernels} if own.kernels else {}
    first = Child(folders[0], "s2s-train", ARGUMENTS, ranks[0])
    return [first, Child(folders[1], "s2s-train", [*ARGUMENTS, *own.arguments], ranks[1] | kernels)]
