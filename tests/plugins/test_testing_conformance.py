"""Every architecture and task that this installation ships keeps its contract."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from s2s.compose import compose
from s2s.config import Config
from s2s.plugin import Plugins, load_plugins
from s2s.task import Vocab
from s2s_testing import check_arch, check_task
from s2s_testing.arch import VOCAB

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.registry import Entry


VOCABS = {"multidecoder": Vocab(src=19, tgt=19, tags=2)}
"""Of the architectures that ask more of a task than symbols"""


WITHIN_ANOTHER = ("lora", "lora_per_tag")
"""Architectures that freeze the one that they wrap, so that alone they learn little: they have tests of their own"""


OF_BRACKETS = ("rnng",)
"""Architectures that read the effects of a guide, which a list of tokens has not: their own tests check them"""


OF_OTHERS = ("language_model", "multilingual")
"""Tasks whose symbols or texts are another run's or the user's, so that no preset stands alone: they have own tests"""


@cache
def plugins() -> Plugins:
    return load_plugins()


def entries(group: str) -> list[Any]:
    return [pytest.param(e, id=name) for (g, name), e in plugins().registry.entries.items() if g == group]


def tiny(entry: Entry) -> Config:
    """The configuration of the preset `<entry>_tiny`, which every shipped architecture and task brings for tests."""
    name = f"{entry.name}_tiny"
    assert (entry.group, name) in plugins().registry.presets, (
        f"{entry.group} '{entry.name}' has no preset '{name}': write configs/{entry.group}/{name}.yaml, small enough "
        "to be checked in a second"
    )
    chosen = {"task": "translation_tiny", "arch": "transformer_tiny", entry.group: name}
    return compose(Config, [f"{group}={choice}" for group, choice in chosen.items()], plugins()).config


@pytest.mark.parametrize(
    "entry", [param for param in entries("arch") if param.id not in (*WITHIN_ANOTHER, *OF_BRACKETS)]
)
def test_architecture_keeps_the_contract(entry: Entry) -> None:
    check_arch(entry, tiny(entry).arch, VOCABS.get(entry.name, VOCAB))


@pytest.mark.parametrize("entry", [param for param in entries("task") if param.id not in OF_OTHERS])
def test_task_keeps_the_contract(entry: Entry, tmp_path: Path) -> None:
    check_task(entry, tiny(entry).task, tmp_path)
