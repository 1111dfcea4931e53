"""A local plugin: proximal policy optimization as on the page about objectives; it can be killed between two updates.

The reward of an output is the share of its tokens that occur in the source. KILL="9 file folder": the process kills
itself in its ninth update, counted by the size of the file, once the folder has a checkpoint, which a thread writes.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from s2s import Batch, Context, Registry, Sums, hookimpl, rows_without_eos

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Seq2Seq

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins" / "objectives.md"


def _page_module() -> Any:
    """The page's ppo.py as a module."""
    (code,) = re.findall(
        r"^```python\n# ppo\.py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    module = sys.modules["ppo_of_the_page"] = ModuleType("ppo_of_the_page")
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return module


ppo = _page_module()


class MortalPPO(ppo.PPO):  # type: ignore[misc]
    """With a reward that needs no text."""

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.sample = context.search({"name": "sample", "max_len_a": 1.0, "max_len_b": 3}, "objective.search")

    def rewards(self, batch: Batch, drawn: Sequence[Sequence[Sequence[int]]]) -> list[float]:
        """The shares of tokens."""
        sources = rows_without_eos(batch.src, batch.src_pad)
        pairs = [(source, ids) for source, of in zip(sources, drawn, strict=True) for ids in of]
        return [sum(i in source for i in ids) / max(len(ids), 1) for source, ids in pairs]

    def forward(self, model: Seq2Seq, batch: Batch) -> Sums:
        """As on the page."""
        if model.training:
            _die()
        return super().forward(model, batch)  # type: ignore[no-any-return]


def _die() -> None:
    if "KILL" not in os.environ:
        return
    at, file, checkpoints = os.environ["KILL"].split()
    with Path(file).open("a") as calls:
        calls.write("x")
    if Path(file).stat().st_size == int(at):
        until = time.monotonic() + 60
        while not any(Path(checkpoints).glob("step-*")) and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.objective("ppo", ppo.PPOConfig, MortalPPO)
