"""train.precision=auto: fp32 or bf16 on a CPU, whichever trains faster there, measured with trial updates."""

from __future__ import annotations

__all__ = ["s2s_fit_batch"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.config import Config
    from s2s.data import MappedCorpus
    from s2s.training import TrainStep


@hookimpl(tryfirst=True)  # what a token takes of memory depends on it
def s2s_fit_batch(config: Config, train_step: TrainStep, corpora: Sequence[MappedCorpus], directory: Path) -> list[str]:
    """Replace it by the faster of both."""
    from s2s_precision.measuring import choose_precision

    return choose_precision(config.train, train_step, corpora, directory)
