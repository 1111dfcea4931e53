"""The options of updates: `train.*`."""

from __future__ import annotations

__all__ = ["Precision", "TrainConfig"]

from dataclasses import dataclass, field
from typing import Literal

from s2s.config.marks import Mark
from s2s.config.ranges import SHARE, THREADS, Range, above, at_least, check_all_used, check_ranges
from s2s.errors import ConfigError

Precision = Literal["fp32", "bf16", "fp16", "auto"]


@dataclass(kw_only=True)
class TrainConfig:
    """One training run."""

    steps: int = field(default=100_000, metadata=Mark.NEUTRAL)
    """Updates in all (section 5.2)."""
    tokens: int | str = 25_000
    """Tokens on each side of one update's batch, over all devices (section 5.1). auto: as many as fit into memory at
    once, measured when the run begins."""
    micro_tokens: int | str | None = field(default="auto", metadata=Mark.NEUTRAL)
    """Tokens on each side that one device processes at once; gradients are accumulated over the rest, with the same
    result. auto: all of them where memory suffices, else as many as fit. null: all of them."""
    precision: Precision = "fp32"
    """Arithmetic of forward and backward; master weights stay in fp32. auto: fp32 or bf16 on a CPU, as measured."""
    matmul: Literal["auto", "torch", "onednn"] = "auto"
    """Library for fp32 matrix products on a CPU. auto: oneDNN on processors other than Intel's where the product stays
    fp32, else torch's default."""
    packed: bool | None = None
    """Sentences of a batch concatenated (varlen) instead of padded. null: where it is faster, which is on GPUs in bf16
    or fp16; batches then have one shape, and hold pairs of all lengths."""
    graph: bool | None = None
    """Record forward and backward as a CUDA graph and replay it. null: on a GPU where batches have one shape."""
    compile: bool = False
    """Compile the model with torch.compile."""
    recompile: Literal["allow", "fail"] = "allow"
    """If a batch requires compiling the model again: allow it, or fail, which ends the run; for tests."""
    activations: Literal["keep", "recompute"] = "keep"
    """recompute: layers keep only their input, and backward computes the rest again, which takes a third more time."""
    clip: float | None = None
    """Largest norm of the gradient; null never clips (the paper does not)."""
    ema: float | None = None
    """Decay of an exponential moving average of the weights, used for validation; null keeps none."""
    average: int = field(default=0, metadata=Mark.NEUTRAL)
    """Checkpoints whose mean is written at the end of the run (base: 5, big: 20); 0 writes none."""
    average_of: Literal["last", "best"] = field(default="last", metadata=Mark.NEUTRAL)
    """Which checkpoints are averaged."""
    init_weight: float = 0.0
    """Share of the weights that the run began with in those that it ends with, saved as the average (WiSE-FT, Wortsman
    et al., 2022), so that a fine-tuned model forgets less."""
    max_bad: int = field(default=10, metadata=Mark.NEUTRAL)
    """Consecutive updates skipped for a loss or gradient that is not finite, after which the run ends; in a run of
    less than twice as many, half of its updates."""
    device: str = field(default="auto", metadata=Mark.NEUTRAL)
    """Where to compute: auto, cpu, cuda, mps, xpu, or a plugin's device; cuda:1 is the second of its type."""
    timeout: float = field(default=600.0, metadata=Mark.NEUTRAL)
    """Seconds that a process waits for the others before the run ends with an error that names the missing ranks."""
    threads: int = field(default=0, metadata=Mark.NEUTRAL)
    """Threads on the CPU; 0: as many as an update has work for, up to torch's default, or fewer under a
    container's CPU quota."""

    def __post_init__(self) -> None:
        check_ranges(
            "train",
            self,
            steps=at_least(0),
            clip=above(0),
            ema=SHARE,
            average=at_least(0),
            init_weight=Range(0, 1),
            max_bad=at_least(1),
            timeout=at_least(0.1, 1e7),
            threads=THREADS,
        )
        self._check_numbers()
        check_all_used(self, "average_of", "train.average", self.average, section="train")

    def _check_numbers(self) -> None:
        """Check the options that take a word besides numbers."""
        if self.micro_tokens is not None and not _is_count_or_auto(self.micro_tokens):
            raise ConfigError(f"train.micro_tokens={self.micro_tokens} must be at least 1, or auto, or null")
        if not _is_count_or_auto(self.tokens):
            raise ConfigError(f"train.tokens={self.tokens} must be at least 1, or auto")

    @property
    def n_micro_tokens(self) -> int | None:
        """micro_tokens; None for all, and until auto is resolved."""
        return None if isinstance(self.micro_tokens, str) else self.micro_tokens

    @property
    def n_tokens(self) -> int:
        """`tokens`, once auto is resolved."""
        assert isinstance(self.tokens, int), "auto is resolved first"
        return self.tokens


def _is_count_or_auto(value: int | str) -> bool:
    return value == "auto" or (isinstance(value, int) and value >= 1)
