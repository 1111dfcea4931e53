"""Defaults, and options that only make sense together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from s2s.config import Config, GenerateConfig, Mark, TrainConfig
from s2s.config.data import DataConfig, PrepareConfig
from s2s.config.run import CheckpointConfig, LogConfig, ValidConfig
from s2s.errors import ConfigError
from s2s_distributed import DistributedConfig

if TYPE_CHECKING:
    from collections.abc import Callable


def refusal(make: Callable[[], object]) -> str:
    """The error of a configuration that cannot be."""
    with pytest.raises(ConfigError) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (DataConfig, {"max_len": 256, "workers": 0, "timeout": 300}),
        (TrainConfig, {"steps": 100_000, "tokens": 25_000, "average": 0}),  # Vaswani et al. (2017), sections 5.1, 5.2
        (TrainConfig, {"compile": False, "max_bad": 10}),
        (TrainConfig, {"timeout": 600, "threads": 0}),
        (DistributedConfig, {"devices": 1, "restarts": 3, "strategy": "ddp"}),
        (ValidConfig, {"every": 1000, "score": True, "sentences": 500, "patience": 0}),
        (CheckpointConfig, {"every": 1000, "minutes": 0, "keep_last": 5, "keep_best": 1}),
        (LogConfig, {"every": 50, "tensorboard": True}),
        (GenerateConfig, {"raw": None, "nbest": 1, "tokens": 0, "constrained": True, "candidates": 0, "threads": 0}),
        (GenerateConfig, {"buffer_size": 2000, "max_source": 1024}),
        (Config, {"seed": 1}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_is_not_given_is_as_documented(kind: type, values: dict[str, Any]) -> None:
    found = asdict(kind())
    assert {name: found[name] for name in values} == values


@pytest.mark.parametrize(("kind", "name"), [(Config, "recipe"), (PrepareConfig, "recipe"), (GenerateConfig, "search")])
def test_some_choices_need_not_be_made(kind: Any, name: str) -> None:
    assert kind.__dataclass_fields__[name].metadata["may_stay_open"] is True


def test_options_are_found_by_all_of_their_metadata() -> None:
    @dataclass(kw_only=True)
    class More(GenerateConfig):
        own: int = field(default=0, metadata=dict(Mark.OF_MODELS))

    assert {"run", "precision", "own"} <= set(Mark.options(More, Mark.OF_MODELS))
    assert not {"nbest", "input"} & set(Mark.options(More, Mark.OF_MODELS))
    assert set(Mark.options(More, Mark.OF_MODELS | Mark.NEUTRAL)) == set(Mark.options(More, Mark.OF_MODELS)) & set(
        Mark.options(More, Mark.NEUTRAL)
    )
    assert "search" in Mark.options(More, {"neutral": True})


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_a_seed_is_what_64_bits_with_a_sign_hold(seed: int) -> None:
    assert Config(seed=seed).seed == seed
    outside = -1 if seed == 0 else seed + 1
    with pytest.raises(ConfigError, match=rf"^seed={outside} must be at least 0 and at most"):
        Config(seed=outside)


def test_a_folder_for_prepared_data_has_a_name() -> None:
    assert DataConfig(prepared=" x ").prepared == " x "
    with pytest.raises(ConfigError, match=r"^data\.prepared=: give a folder"):
        DataConfig(prepared="  ")


def test_patience_counts_validations() -> None:
    assert ValidConfig(patience=2, every=5).patience == 2
    assert ValidConfig(patience=0, every=0).every == 0
    with pytest.raises(ConfigError, match=r"^valid\.patience=2 counts validations; give valid\.every=…, too$"):
        ValidConfig(patience=2, every=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"timeout": 0.09}, "train.timeout=0.09 must be at least 0.1 and at most 1e+07"),
        ({"timeout": 1e7 + 1}, "train.timeout=10000001.0 must be at least 0.1 and at most 1e+07"),
        ({"tokens": "many"}, "train.tokens=many must be at least 1, or auto"),
        ({"micro_tokens": "many"}, "train.micro_tokens=many must be at least 1, or auto, or null"),
    ],
    ids=str,
)  # fmt: skip
def test_an_option_of_training_that_makes_no_sense_is_refused(given: dict[str, Any], message: str) -> None:
    assert refusal(lambda: TrainConfig(**given)) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"restarts": -1}, "train.restarts=-1 must be at least 0"),
        ({"devices": 0}, "train.devices=0: expected a number of processes, or auto"),
        ({"devices": "all"}, "train.devices=all: expected a number of processes, or auto"),
        ({"devices": 2, "device": "cuda:1"}, "train.device=cuda:1 is one device, and train.devices=2 asks for several; "
            "give train.device=cuda"),
        ({"devices": "auto", "device": "cuda:1"}, "train.device=cuda:1 is one device, and train.devices=auto asks for "
            "several; give train.device=cuda"),
    ],
    ids=str,
)  # fmt: skip
def test_processes_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    assert refusal(lambda: DistributedConfig(**given)) == message


@pytest.mark.parametrize(
    "given",
    [{"restarts": 0}, {"devices": 1, "device": "cuda:1"}, {"devices": 2, "device": "cuda"}, {"devices": "auto"}],
    ids=str,
)
def test_processes_that_make_sense_are_taken(given: dict[str, Any]) -> None:
    config = DistributedConfig(**given)
    assert {name: getattr(config, name) for name in given} == given


@pytest.mark.parametrize(
    "given",
    [
        {"timeout": 0.1},
        {"timeout": 1e7},
        {"tokens": "auto", "micro_tokens": None},
    ],
    ids=str,
)
def test_an_option_of_training_that_makes_sense_is_taken(given: dict[str, Any]) -> None:
    config = TrainConfig(**given)
    assert {name: getattr(config, name) for name in given} == given


def test_numbers_that_are_not_known_yet_are_none() -> None:
    assert TrainConfig(tokens=70).n_tokens == 70
    assert [TrainConfig(micro_tokens=n).n_micro_tokens for n in (5, "auto", None)] == [5, None, None]
    with pytest.raises(AssertionError):
        _ = TrainConfig(tokens="auto").n_tokens


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fields": ["scores"], "format": "jsonl"}, "fields=['scores']: 'scores' is none of them; choose of tokens, "
            "pieces, log_probs, align"),
        ({"fields": ["tokens"]}, "fields=['tokens'] needs format=jsonl: format=text has no room for them"),
        ({"candidates": 5}, "candidates=5 are for an option to choose from, such as coverage or mbr; give one"),
        ({"candidates": 100_001}, "candidates=100001 must be at least 0 and at most 100000"),
    ],
    ids=str,
)  # fmt: skip
def test_an_option_of_generation_that_makes_no_sense_is_refused(given: dict[str, Any], message: str) -> None:
    assert refusal(lambda: GenerateConfig(**given)) == message


@dataclass(kw_only=True)
class Reranked(GenerateConfig):
    """With an option of a plugin that ranks outputs anew."""

    mbr: str = field(default="", metadata=Mark.RERANKS)


def test_candidates_are_requested_of_the_search_where_something_chooses_among_them() -> None:
    assert GenerateConfig(nbest=3).n_candidates == 3
    assert GenerateConfig(nbest=3).reranked_by == ""
    assert Reranked(mbr="chrf").reranked_by == "mbr=chrf"
    assert [Reranked(nbest=3, mbr="chrf", candidates=n).n_candidates for n in (0, 2, 100_000)] == [3, 3, 100_000]
    with pytest.raises(ConfigError, match="candidates=5 are for an option to choose from"):
        Reranked(candidates=5)
