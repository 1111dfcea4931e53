"""train.precision=auto: fp32 or bf16 on a CPU, whichever trains faster there, measured with trial updates."""

from __future__ import annotations

__all__ = ["s2s_choose_precision"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.config import Precision
    from s2s.data import MappedCorpus
    from s2s.training import TrainStep


@hookimpl
def s2s_choose_precision(
    train_step: TrainStep, corpora: Sequence[MappedCorpus], directory: Path
) -> tuple[Precision, str]:
    """The faster precision, and a line for the first screen."""
    from s2s_precision.measuring import choose_precision

    return choose_precision(train_step, corpora, directory)
