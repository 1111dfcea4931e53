"""Training on pairs that the task encodes anew: resuming, and the limit of their lengths."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from harness.tiny_runs import SMALL, write_corpus
from s2s.cli import train
from s2s.task import Encoded
from s2s.training.data_loader import varied

if TYPE_CHECKING:
    from pathlib import Path


def weights(run: Path) -> str:
    """The hash of the weights after the last update."""
    newest = max((run / "checkpoints").glob("step-*"))
    return hashlib.sha256((newest / "model.safetensors").read_bytes()).hexdigest()


ALTERED = ["task.unknown_symbols=0.3", "task.noise=[{name: upper_case, share: 0.2}]", "task.vocab_size=60"]


@pytest.mark.parametrize("altered", [["task.subword_sampling=0.3"], ALTERED], ids=["subwords", "noise"])
def test_a_run_whose_pairs_vary_goes_on_as_if_it_had_never_ended(tmp_path: Path, altered: list[str]) -> None:
    """To the byte, in the middle of an epoch, and unlike a run whose pairs stay as they are."""
    write_corpus(tmp_path, n=60)
    runs = tmp_path / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for run, *stages in (("whole", 9), ("parted", 4, 9), ("plain", 9)):
            options = ["task.unknown_symbols=0"] if run == "plain" else altered
            for steps in stages:
                arguments = [*SMALL, *options, "schedule=constant", f"train.steps={steps}", f"run={run}", "--quiet"]
                assert train.main(arguments) == 0
    assert weights(runs / "whole") == weights(runs / "parted") != weights(runs / "plain")


@pytest.mark.parametrize("max_len", [8, 9, None])
def test_a_pair_that_would_grow_too_long_stays_as_it_is(max_len: int | None) -> None:
    doubled: Any = SimpleNamespace(variation=lambda: lambda pair, _: Encoded(pair.src * 2, pair.tgt))
    vary = varied(doubled, max_len)
    assert vary
    for n in range(1, 9):
        src, tgt = vary((np.arange(n), np.arange(3)), 0)
        assert len(src) == (2 * n if max_len is None or 2 * n + 1 <= max_len else n), "eos counts, too"
        assert len(tgt) == 3
    still: Any = SimpleNamespace(variation=lambda: None)
    assert varied(still, 9) is None
