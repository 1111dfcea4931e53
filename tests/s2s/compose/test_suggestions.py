"""What an error says about a key that is no option."""

from __future__ import annotations

import pytest

from harness.toy_plugins import refusal
from s2s.compose.suggestions import unknown_option, unknown_root
from s2s.config import Config
from s2s.config.run import LogConfig
from s2s.registry import Registry


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("log.zzz.yyy.xxx", "log.zzz.yyy.xxx: no such option of log (LogConfig). Known: "),
        ("arch.encoder.zzz", "arch.encoder.zzz: no such option. Did you mean 'arch.encoder'?"),
        ("valdi.zzzzzzzzzzzzz", "valdi.zzzzzzzzzzzzz: no such option. Did you mean 'valid'?"),
        ("zzz.yyy", "zzz.yyy: no such option. Known: arch, checkpoint, data, "),
        ("arch.n_headz", "arch.n_headz: no such option. Did you mean 'arch.n_heads'?"),
    ],
)
def test_an_unknown_key_is_answered_by_the_nearest_or_by_its_section(key: str, message: str) -> None:
    assert refusal(f"{key}=1").startswith(message)


def test_a_key_in_no_section_is_answered_by_what_stands_in_none() -> None:
    said = unknown_option("zzz.yyy", Config, {"log": LogConfig}, ["run", "seed", "log.every"])
    assert said == "no such option of s2s-train. Known: run, seed."


def test_of_several_near_keys_the_nearest_is_suggested() -> None:
    known = ["a.warmup_tokens", "a.warmup_step", "a.warmups"]
    assert unknown_option("a.warmup_stepz", Config, {}, known) == "no such option. Did you mean 'a.warmup_step'?"


def test_what_others_call_an_option_of_a_group_is_answered_by_it() -> None:
    assert unknown_root("label_smoothing", Config, Registry()).endswith(" Did you mean 'objective.eps'?")


def test_an_option_of_any_entry_is_suggested_by_its_name_alone() -> None:
    assert refusal("beam=4") == "beam: no such option. Did you mean 'search.beam'?"
