"""An option under a former name, or its name in another toolkit: the error gives its name here."""

from __future__ import annotations

import pytest

import s2s.config
from s2s.compose import compose
from s2s.compose.options import options_of
from s2s.compose.renamed import renamed_options, targets
from s2s.config import Config, GenerateConfig
from s2s.errors import ConfigError
from s2s.plugin import load_plugins
from s2s.registry import GROUPS

CHOSEN = ["task=translation", "arch=transformer_tiny"]
PLANNED = {"train.init_from", "objective.eps"}
"""Options that do not exist yet, and are not suggested until they do."""


def shipped() -> set[str]:
    """Every option and section of every command, whatever is chosen."""
    registry = load_plugins().registry
    entries = [e for e in registry.entries.values() if e.group in GROUPS]
    found = {option.key for entry in entries for option in options_of(entry.config, f"{entry.group}.")}
    for name in (name for name in s2s.config.__all__ if name.endswith("Config")):
        found |= {option.key for option in options_of(registry.with_options(getattr(s2s.config, name)))}
    return found | {key.rpartition(".")[0] for key in found}


def test_what_is_suggested_exists_and_what_is_answered_does_not() -> None:
    existing = shipped()
    renamed, synonyms = renamed_options()
    for old, new in (renamed | synonyms).items():
        assert any(target in existing for target in new) or set(new) <= PLANNED, old
        assert "." not in old or old not in existing, old
    assert not {old for old in renamed if old in existing}


@pytest.mark.parametrize(
    ("argument", "suggested"),
    [
        ("train.batch_size=5", "train.tokens"),
        ("batch_size=5", "train.tokens"),
        ("train.max_steps=5", "train.steps"),
        ("train.max_epochs=5", "train.steps"),
        ("optim.label_smoothing=0.1", "objective.eps"),
        ("arch.dropout_rate=0.1", "arch.dropout"),
        ("arch.num_layers=3", "arch.n_encoder_layers"),
        ("search.num_beams=5", "search.beam"),
        ("search.beam_size=5", "search.beam"),
        ("beam_size=5", "search.beam"),
        ("search.lenpen=1", "search.alpha"),
        ("train.lr=1", "schedule.scale"),
        ("output_dir=x", "run"),
    ],
)
def test_names_of_other_toolkits_are_understood(argument: str, suggested: str) -> None:
    with pytest.raises(ConfigError, match=rf"no such option\. Did you mean '{suggested}'\?$"):
        compose(Config, [*CHOSEN, argument], load_plugins())


def test_of_several_targets_the_one_that_exists_here_is_suggested() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'schedule\.lr'\?$"):
        compose(Config, [*CHOSEN, "schedule=cosine", "train.lr=1"], load_plugins())
    with pytest.raises(ConfigError, match=r"Did you mean 'tokens'\?$"):
        compose(GenerateConfig, ["batch_size=1"], load_plugins())


def test_an_old_name_is_answered_in_its_section_and_for_a_whole_section(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed, _ = renamed_options()
    monkeypatch.setitem(renamed, "search.width", ["search.beam"])
    monkeypatch.setitem(renamed, "learn", ["train"])
    for argument, suggested in {"search.width=5": "search.beam", "learn.steps=5": "train.steps"}.items():
        with pytest.raises(ConfigError, match=rf"Did you mean '{suggested}'\?$"):
            compose(Config, [*CHOSEN, argument], load_plugins())


def test_only_what_was_renamed_here_answers_for_a_whole_section(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed, synonyms = renamed_options()
    monkeypatch.setitem(renamed, "learn", ["train", "schedule"])
    monkeypatch.setitem(synonyms, "trainer", ["train"])
    assert list(targets("learn.zzz")) == ["train.zzz", "schedule.zzz"]
    assert list(targets("learn.a.b")) == ["train.a.b", "schedule.a.b"]
    assert list(targets("trainer.zzz")) == []
    assert list(targets("any.lenpen")) == ["search.alpha"]
