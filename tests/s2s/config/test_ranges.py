"""Numbers that make no sense are refused where they are given, in one form, before anything is read or built."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pytest

from s2s.compose import compose
from s2s.config import Config, GenerateConfig, TrainConfig
from s2s.config.data import DataConfig
from s2s.config.ranges import SHARE, Range, above, at_least, check_all_used, check_ranges
from s2s.config.run import CheckpointConfig, LogConfig, ValidConfig
from s2s.errors import ConfigError
from s2s.plugin import load_plugins

CHOSEN = ["task=translation", "arch=transformer_tiny"]


@pytest.mark.parametrize(
    ("allowed", "inside", "outside", "words"),
    [
        (at_least(1), [1, 1.5, 10**30], [0, 0.99, -1, math.inf, -math.inf, math.nan], "at least 1"),
        (at_least(0, 1024), [0, 1024], [-1, 1025, math.inf], "at least 0 and at most 1024"),
        (above(0), [1e-300, 5], [0, -0.0, -1, math.inf], "above 0"),
        (SHARE, [0, 0.5, 0.999], [1, -0.1, math.nan], "at least 0 and less than 1"),
        (Range(), [-5, 0, 1e300], [math.inf, -math.inf, math.nan], "a finite number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_range_holds_finite_numbers_only(
    allowed: Range, inside: list[float], outside: list[float], words: str
) -> None:
    assert all(value in allowed for value in inside)
    assert not any(value in allowed for value in outside)
    assert str(allowed) == words


def test_null_is_no_number_and_the_first_fault_is_named() -> None:
    @dataclass
    class Two:
        a: float | None = None
        b: float = math.inf

    check_ranges("x", Two(b=1), a=at_least(1), b=at_least(1))
    with pytest.raises(ConfigError, match=r"^x\.b=inf must be at least 1 and finite$"):
        check_ranges("x", Two(), a=at_least(1), b=at_least(1))
    with pytest.raises(ConfigError, match=r"^a=0 must be at least 1$"):
        check_ranges("", Two(a=0), a=at_least(1), b=at_least(1))


@pytest.mark.parametrize(
    "argument",
    [
        *("data.max_len=1", "data.max_ratio=0.5", "data.workers=-1", "data.workers=1_000_000"),
        *("train.steps=-1", "train.tokens=0", "train.micro_tokens=0", "train.clip=0", "train.clip=.inf"),
        *("train.ema=1", "train.ema=-1", "train.average=-1", "train.max_bad=0", "train.threads=-1"),
        *("train.threads=999_999_999", "valid.every=-1", "valid.sentences=-1", "valid.patience=-1"),
        *("checkpoint.every=-1", "checkpoint.minutes=.inf", "checkpoint.keep_last=0", "checkpoint.keep_best=0"),
        *("log.every=-1", "optim.beta1=1", "optim.beta2=-1", "optim.eps=-1", "schedule.warmup=0"),
        *("schedule.warmup=-1", "schedule.scale=.inf", "schedule.d_model=0", "search.beam=0", "search.beam=-1"),
        *(
            "search.alpha=.inf",
            "search.alpha=1e9",
            "search.max_len_a=.inf",
            "search.max_len_b=1_000_000_000_000",
            "objective.eps=1",
        ),
        *("objective.chunk=-1", "arch.d_k=0", "arch.d_v=-1", "arch.norm_eps=-1", "arch.dropout=1"),
    ],
)
def test_a_number_out_of_range_is_refused_by_its_key(argument: str) -> None:
    key = argument.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^{key}=\S+ must be "):
        compose(Config, [*CHOSEN, argument], load_plugins())


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["optim=adamw", "optim.weight_decay=-1"],
            ["optim=adamw", "optim.beta1=1"],
            ["optim=sgd", "optim.momentum=1"],
        ),
        *(["schedule=inverse_sqrt", "schedule.warmup=-1"], ["schedule=cosine", "schedule.lr=.inf"]),
        *(["schedule=linear", "schedule.end=-1"], ["search=greedy", "search.max_len_b=-1"]),
    ],
    ids=lambda arguments: arguments[1],
)
def test_so_it_is_in_what_is_chosen_by_name(arguments: list[str]) -> None:
    key = arguments[1].partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^{key}=\S+ must be "):
        compose(Config, [*CHOSEN, *arguments], load_plugins())


@pytest.mark.parametrize("argument", ["nbest=0", "tokens=-1", "buffer_size=-1", "max_source=1", "threads=-1"])
def test_generation_has_its_ranges(argument: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{argument} must be "):
        compose(GenerateConfig, [argument], load_plugins())


def test_nesterov_needs_momentum() -> None:
    with pytest.raises(ConfigError, match=r"give optim\.momentum"):
        compose(Config, [*CHOSEN, "optim=sgd", "optim.nesterov=true"], load_plugins())


@pytest.mark.parametrize(
    ("kind", "name", "allowed", "refused"),
    [
        (DataConfig, "max_len", 2, 1),
        (DataConfig, "max_ratio", 1.0, 0.99),
        (DataConfig, "workers", 0, -1),
        (DataConfig, "workers", 1024, 1025),
        (DataConfig, "timeout", 0.1, 0.09),
        (DataConfig, "timeout", 1e7, 1e7 + 1),
        (GenerateConfig, "nbest", 1, 0),
        (GenerateConfig, "buffer_size", 1, 0),
        (GenerateConfig, "max_source", 2, 1),
        (GenerateConfig, "tokens", 0, -1),
        (GenerateConfig, "candidates", 0, -1),
        (GenerateConfig, "threads", 1024, 1025),
        (ValidConfig, "every", 0, -1),
        (ValidConfig, "sentences", 0, -1),
        (ValidConfig, "patience", 0, -1),
        (CheckpointConfig, "every", 0, -1),
        (CheckpointConfig, "minutes", 0.0, -0.1),
        (CheckpointConfig, "keep_last", 1, 0),
        (CheckpointConfig, "keep_best", 1, 0),
        (LogConfig, "every", 0, -1),
        (TrainConfig, "steps", 0, -1),
        (TrainConfig, "ema", 0.0, 1.0),
        (TrainConfig, "tokens", 1, 0),
        (TrainConfig, "micro_tokens", 1, 0),
        (TrainConfig, "max_bad", 1, 0),
        (TrainConfig, "average", 0, -1),
        (TrainConfig, "threads", 1024, 1025),
        (TrainConfig, "clip", 1e-9, 0.0),
    ],
)
def test_the_last_number_inside_is_taken_and_the_first_outside_is_not(
    kind: type, name: str, allowed: float, refused: float
) -> None:
    assert getattr(kind(**{name: allowed}), name) == allowed
    with pytest.raises(ConfigError, match=rf"{name}={re.escape(str(refused))} must be "):
        kind(**{name: refused})


def test_an_option_without_effect_is_refused_unless_it_is_at_its_default() -> None:
    @dataclass
    class Two:
        a: int = 3
        b: str = "x"

    check_all_used(Two(), "b", "c", other=False)
    check_all_used(Two(a=4), "b", "c", other=None)
    check_all_used(Two(b="y"), "b", "c", other="z")
    with pytest.raises(ConfigError, match=r"^b=y has no effect without c; give that, too, or leave it out$"):
        check_all_used(Two(b="y"), "b", "c", other="")
    with pytest.raises(ConfigError, match=r"^train.b=y has no effect without train.c; "):
        check_all_used(Two(b="y"), "b", "train.c", other="", section="train")


def test_averaging_of_no_checkpoints_is_refused() -> None:
    assert TrainConfig(average=2, average_of="best").average_of == "best"
    with pytest.raises(ConfigError, match=r"^train.average_of=best has no effect without train.average; "):
        TrainConfig(average_of="best")
