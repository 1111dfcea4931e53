"""The contracts of architectures and tasks as checks, for the tests of a plugin.

    def test_my_architecture_keeps_the_contract():
        check_arch(registry.get("arch", "my_arch"), MyConfig(d_model=16))

    def test_my_task_keeps_the_contract(tmp_path):
        check_task(registry.get("task", "my_task"), MyTaskConfig(train=["few.src", "few.tgt"]), tmp_path)

Each check raises AssertionError describing what is broken, and can be called separately.
"""

from s2s_testing.arch import (
    VOCAB,
    assert_causal,
    assert_deterministic,
    assert_ignores_padding,
    assert_prepacks,
    assert_saves_everything,
    assert_state_joins,
    assert_state_reorders,
    assert_step_is_decode,
    assert_trains,
    check_arch,
)
from s2s_testing.attention import assert_attention, assert_attention_maps
from s2s_testing.task import assert_constraint_allows_references, assert_task_round_trips, check_task
from s2s_testing.vocab_rows import assert_vocab_rows

__all__ = [
    "VOCAB",
    "assert_attention",
    "assert_attention_maps",
    "assert_causal",
    "assert_constraint_allows_references",
    "assert_deterministic",
    "assert_ignores_padding",
    "assert_prepacks",
    "assert_saves_everything",
    "assert_state_joins",
    "assert_state_reorders",
    "assert_step_is_decode",
    "assert_task_round_trips",
    "assert_trains",
    "assert_vocab_rows",
    "check_arch",
    "check_task",
]
