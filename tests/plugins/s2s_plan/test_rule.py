"""recipe=auto: what it decides for corpora and machines of several sizes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from s2s import Choice
from s2s.compose import compose, flatten
from s2s.config import Config
from s2s.plugin import load_plugins
from s2s_plan import AutoConfig, Fingerprint, Hardware, Side, Situation
from s2s_plan.fine_tuning import fine_tuning
from s2s_plan.plan import Plan
from s2s_plan.rule import LADDER, UTILISATION, auto
from s2s_plan.situation import is_advice, recipe_of

if TYPE_CHECKING:
    from s2s import Plugins

PLUGINS = load_plugins()
CPU = Hardware("cpu", 1, 2, 1e11, 5e10, 20 * 2**30)
GPU = Hardware("cuda", 8, 0, 8 * 5e13, 8 * 5e14, 70 * 2**30)


def corpus(n_pairs: int, length: int = 20, *, from_files: bool = True) -> Fingerprint:
    words = n_pairs * length
    side = Side(words, 6 * words, 5 * int(words**0.65), (length, 2 * length, 3 * length, 4 * length))
    return Fingerprint(n_pairs, 0, side, side, 0.0, from_files=from_files)


def decide(
    fingerprint: Fingerprint, hardware: Hardware = CPU, seconds: float | None = None, *arguments: str
) -> dict[str, Any]:
    composed = compose(Config, ["task=translation", *arguments], PLUGINS)
    pairs = (argument.partition("=")[::2] for argument in arguments)
    given = {"arch.name" if key == "arch" else key: int(v) if v.isdecimal() else v for key, v in pairs}
    situation = Situation(fingerprint, hardware, composed.config, given, seconds, vocab_size_option="task.vocab_size")
    found = auto(AutoConfig(name="auto"))(situation)
    return {decision.key: decision.value for decision in found}


def test_more_time_takes_a_model_that_is_no_smaller_and_sees_more() -> None:
    plans = [decide(corpus(160_000), seconds=60.0 * minutes) for minutes in (5, 20, 60, 480, 5000)]
    widths = [plan["arch.d_model"] for plan in plans]
    assert widths == sorted(widths)
    assert len(set(widths)) > 2


def test_a_plan_counts_epochs_as_the_run_does() -> None:
    """A large general corpus of weight 0.1 adds a tenth of its pairs to an epoch."""
    own = corpus(20_000)
    both = replace(corpus(120_000), weighted_pairs=30_000.0, weighted_words=600_000.0)
    composed = compose(Config, ["task=translation"], PLUGINS)
    situation = Situation(both, GPU, composed.config, {}, None, vocab_size_option="task.vocab_size")
    found = auto(AutoConfig(name="auto"))(situation)
    plan = {decision.key: decision for decision in found}
    epochs, pairs = re.match(r"([\d.]+) epochs of ([\d,]+) pairs", plan["train.steps"].reason).groups()  # type: ignore[union-attr]
    assert pairs == "30,000"
    n_tokens = plan["train.steps"].value * plan["train.tokens"].value
    assert float(epochs) == pytest.approx(n_tokens / (1.35 * 600_000 + 30_000), rel=0.01)
    assert plan["task.vocab_size"].value > decide(own, GPU)["task.vocab_size"], (
        "it is text of which subwords are learnt"
    )


def test_more_text_takes_more_subwords_and_less_dropout() -> None:
    plans = [decide(corpus(n), GPU) for n in (5_000, 160_000, 4_500_000)]
    sizes = [plan["task.vocab_size"] for plan in plans]
    assert sizes == sorted(sizes)
    assert 1000 <= sizes[0] <= 3000
    assert sizes[-1] > 25_000
    dropouts = [plan["arch.dropout"] for plan in plans]
    assert dropouts == sorted(dropouts, reverse=True)


def test_the_papers_corpus_on_the_papers_machine_gets_the_papers_width() -> None:
    plan = decide(corpus(4_500_000, 25), GPU, 12 * 3600.0)
    assert (plan["arch.d_model"], plan["arch.n_encoder_layers"], plan["train.tokens"]) == (512, 6, 25_000)


def test_the_first_validation_and_checkpoint_come_within_the_first_tenth() -> None:
    for n in (500, 30_000, 160_000):
        plan = decide(corpus(n), CPU, 600.0)
        assert max(plan["valid.every"], plan["checkpoint.every"]) <= plan["train.steps"] / 10
        assert plan["schedule.warmup"] <= plan["train.steps"] / 2


def test_what_is_given_is_kept_and_the_rest_follows() -> None:
    plan = decide(corpus(30_000), CPU, None, "train.steps=500", "train.tokens=2000")
    assert (plan["train.steps"], plan["schedule.warmup"], plan["valid.every"]) == (500, 50, 25)
    assert plan["train.tokens"] == 2000


@pytest.mark.parametrize("given", ["arch=transformer_tiny", "arch.d_model=64"])
def test_the_learning_rate_is_that_of_the_width_that_is_given(given: str) -> None:
    """By a preset, too."""
    assert decide(corpus(30_000), GPU, None, given)["schedule.lr"] == 0.004
    assert decide(corpus(30_000), GPU, None)["schedule.lr"] < 0.004


def test_a_built_in_corpus_keeps_its_subwords() -> None:
    assert "task.vocab_size" not in decide(corpus(20_000, 8, from_files=False))


@pytest.mark.parametrize("memory", [2**28, 2**31])
def test_a_model_that_memory_does_not_hold_is_not_taken(memory: int) -> None:
    small = Hardware("cuda", 1, 0, 5e13, 5e14, memory)
    width = decide(corpus(4_500_000, 25), small, 1e6)["arch.d_model"]
    size = next(size for size in LADDER if size.d_model == width)
    assert 28 * size.n_weights < memory


def test_every_decision_composes_and_says_why() -> None:
    composed = compose(Config, ["task=translation"], PLUGINS)
    for n in (0, 1, 5_000, 30_000_000):
        situation = Situation(corpus(n), CPU, composed.config, {}, None)
        decisions = list(auto(AutoConfig(name="auto"))(situation))
        assert all(decision.reason for decision in decisions)
        plan = Plan("recipe=auto", tuple(decisions))
        config = compose(Config, ["task=translation"], PLUGINS, plan.settings()).config
        assert config.arch.d_model in {size.d_model for size in LADDER}


def test_a_task_gets_the_kind_of_model_that_its_preset_advises() -> None:
    parts = "task.tasks={a: {name: translation, joint: false}, b: {name: parsing}}"
    text = ["task.train=a.txt", "task.tokenizer=runs/mine"]
    for arguments, kind in (
        (["task=translation"], "transformer"),
        (["task=multitask", parts], "multidecoder"),
        (["task=language_model", *text], "transformer_lm"),
    ):
        composed = compose(Config, arguments, PLUGINS)
        assert recipe_of(composed) == "auto"
        decisions = auto(AutoConfig(name="auto"))(Situation(corpus(30_000), CPU, composed.config, {}, None))
        config = compose(Config, arguments, PLUGINS, Plan("recipe=auto", tuple(decisions)).settings()).config
        assert config.arch.name == kind
        assert config.arch.d_model in {size.d_model for size in LADDER}  # type: ignore[attr-defined]


def test_a_speed_that_was_reached_counts_for_the_size_that_reached_it() -> None:
    composed = compose(Config, ["task=translation"], PLUGINS)

    def width(reached: float | None) -> int:
        decisions = auto(AutoConfig(name="auto"))(Situation(corpus(160_000), CPU, composed.config, {}, 1200.0, reached))
        return next(d.value for d in decisions if d.key == "arch.d_model")

    estimated = UTILISATION[width(None)] * CPU.fp32
    assert width(estimated) == width(None), "the estimate was right"
    assert width(8 * estimated) > width(None) >= width(estimated / 8)


def planned(plugins: Plugins, *arguments: str) -> Config:
    """The configuration of a run of a few pairs with recipe=auto."""
    composed = compose(Config, arguments, plugins)
    advised = frozenset(key for key, origin in composed.origins.items() if is_advice(origin))
    situation = Situation(corpus(5_000), CPU, composed.config, {}, None, advised=advised)
    decisions = tuple(auto(AutoConfig(name="auto"))(situation))
    return compose(Config, arguments, plugins, Plan("recipe=auto", decisions).settings()).config


@pytest.mark.parametrize(
    ("advice", "kept"),
    [
        ({"arch": "rnn_tiny"}, {"arch.name": "rnn", "arch.d_embedding": 64, "schedule.name": "cosine"}),
        ({"arch": {"base": "transformer_tiny", "dropout": 0.25}}, {"arch.name": "transformer", "arch.dropout": 0.25}),
        ({"arch": "transformer_modern_tiny"}, {"arch.name": "transformer", "arch.positions": "rotary"}),
        (
            {"arch": "transformer_tiny", "schedule": "noam", "train": {"tokens": 777}},
            {"schedule.name": "noam", "train.tokens": 777, "train.clip": 1.0},
        ),
    ],
)
def test_what_a_tasks_preset_recommends_stays(advice: dict[str, Any], kept: dict[str, Any]) -> None:
    plugins = load_plugins()
    plugins.registry.preset("task", "digits", {"name": "translation", "defaults": advice})
    found = flatten(planned(plugins, "task=digits"))
    assert {key: found[key] for key in kept} == kept


def test_the_size_of_a_known_architecture_is_chosen_whatever_its_preset_says() -> None:
    plugins = load_plugins()
    plugins.registry.preset("task", "digits", {"name": "translation", "defaults": {"arch": "transformer_big"}})
    assert planned(plugins, "task=digits").arch.d_model < 1024  # type: ignore[attr-defined]


def test_a_small_corpus_has_batches_of_an_eighth_of_an_epoch() -> None:
    tokens = [decide(corpus(n, 6))["train.tokens"] for n in (10, 300, 1_000, 5_000)]
    assert tokens == [64, 256, 1024, 1024]


@pytest.mark.parametrize(
    ("given", "penalty"),
    [
        ("seed=1", "power"),
        ("search.beam=8", "power"),
        ("search.alpha=0", "gnmt"),
        ("search.length_penalty=none", "none"),
    ],
)
def test_outputs_are_scored_by_their_mean_unless_a_penalty_is_given(given: str, penalty: str) -> None:
    arguments = ["task=translation", given]
    composed = compose(Config, arguments, PLUGINS)
    situation = Situation(corpus(5_000), CPU, composed.config, {given.partition("=")[0]: 0}, None)
    settings = Plan("recipe=auto", tuple(auto(AutoConfig(name="auto"))(situation))).settings()
    search: Any = compose(Config, arguments, PLUGINS, settings).config.search
    assert search.length_penalty == penalty
    assert (search.alpha == 1.0) is (penalty == "power")


@pytest.mark.parametrize(("n_pairs", "tokens"), [(100, 1024), (5_000, 16_384), (1_000_000, 25_000)])
def test_fine_tuning_chooses_batch_and_precision_where_nothing_says_them(n_pairs: int, tokens: int) -> None:
    """At least eight batches in an epoch, of 1.5 tokens for each of 20 words and an eos; bf16 where it is faster."""
    config = compose(Config, ["task=translation"], PLUGINS).config
    unset = frozenset({"train.tokens", "train.precision"})
    for hardware, keys, precision in ((GPU, unset, "bf16"), (CPU, unset, None), (GPU, frozenset[str](), None)):
        situation = Situation(corpus(n_pairs), hardware, config, {}, None, unset=keys)
        found = {decision.key: decision.value for decision in fine_tuning(Choice(name="fine_tuning"))(situation)}
        assert found.get("train.precision") == precision
        assert found.get("train.tokens") == (tokens if keys else None)
