"""Operators of `s2s.backend` on a CPU: functions in C, compiled by the machine's own compiler; linear maps of oneDNN.

The functions take fp32 tensors and run in one thread. Those for training (loss, attention, dropout, norms and LSTMs)
take bf16 as well, and use as many threads as torch. S2S_KERNELS selects whether they are used:
auto, torch (never), native (an error if there are none), or compile (those of a wheel are ignored).
"""

from __future__ import annotations

__all__ = ["s2s_operators", "s2s_register"]

from s2s import Choice, Registry, hookimpl


@hookimpl
def s2s_operators() -> str:
    """Compile and load the functions, and let operators call them."""
    from s2s_cpu.implementations import implement

    return implement()


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("packed_format", "c", Choice, "s2s_cpu.packed_files:PackedFiles")
