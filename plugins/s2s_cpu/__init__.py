"""Operators of `s2s.backend` on a CPU: functions in C, compiled by the machine's own compiler; linear maps of oneDNN.

The functions take fp32 tensors, in one thread; those of training, which are the loss, attention, dropout, norms and
LSTMs, take bf16 as well, and all but the last as many threads as torch has. S2S_KERNELS says whether they are used:
auto, torch (never), native, which makes it an error that there are none, or compile, which passes over those of a
wheel.
"""

from __future__ import annotations

__all__ = ["s2s_operators"]

from s2s import hookimpl


@hookimpl
def s2s_operators() -> str:
    """Compile and load the functions, and let operators call them."""
    from s2s_cpu.implementations import implement

    return implement()
