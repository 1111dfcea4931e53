"""What a run takes over from the run in train.init_from: the options of task and model that the user leaves open.

A run that has begun takes over its own, so that it needs the other run no more.
"""

from __future__ import annotations

__all__ = ["inherited"]

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from s2s import CheckpointError, Choice, ConfigError
from s2s.checkpoint import steps
from s2s.compose import Setting, choice_config
from s2s.run import run_path
from s2s_fine_tuning.source import find_source, is_published, replay_obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from dataclasses import Field
    from pathlib import Path

    from s2s import Plugins

CORPORA = ("train", "valid", "test")
VOCABULARY = ("vocab_size", "src_vocab_size", "tgt_vocab_size", "joint", "subword", "character_coverage", "lowercase")
"""Options of a task that its vocabulary depends on"""
SECTIONS = {
    "data": ("max_len", "max_ratio"),
    "train": ("tokens", "precision", "clip", "activations"),
    "valid": ("best", "score", "sentences"),
}
"""Options that a new run takes over, beside those of groups; a published model does not say how it was trained"""
OWN = ("data", "train", "valid", "checkpoint")
"""Sections of which a run that has begun takes over all options"""
NEW_TOKENS = 1000
"""Most tokens by which a vocabulary is extended"""
REPLAYED = 0.8
"""Share of an epoch that is the other run's text"""
START = 0.65
"""Without that text, share of the other run's weights in the result: a tenth of what is forgotten otherwise remains"""
SHARE, WARMUP = 0.25, 20
"""Learning rate, as a share of the highest of the other run; updates until it is reached: Adam's moments begin anew"""
USUAL_STEPS = 100_000
"""Assumed length of the training of a published model, which reaches the highest rate of the default schedule"""


def inherited(settings: Sequence[Setting], plugins: Plugins) -> list[Setting]:
    """What follows from train.init_from among these settings; raises ConfigError for settings that contradict it."""
    given = {key: value for setting in settings for key, value in _leaves(setting.key, setting.value)}
    source = given.get("train.init_from")
    if not isinstance(source, str) or not source:
        return []
    named = str(given.get("run") or "")
    if named and steps(run_path(named) / "checkpoints"):
        return list(_Options(given, run_path(named), "as the run began", plugins).all())
    try:
        directory, _ = find_source(source, plugins)
    except CheckpointError:
        if any(key in given for key in ("task", "task.name", "task.base")):
            return []  # it is missed where its weights are: until then, it may still have to be trained
        raise
    name = Setting(("run",), named or f"{directory.name}-tuned", f"train.init_from={source}")
    if not named and steps(run_path(name.value) / "checkpoints"):
        return [name, *_Options(given, run_path(name.value), "as the run began", plugins).all()]
    return [name, *_Options(given, directory, name.origin, plugins).for_a_new_run()]


def _leaves(key: tuple[str, ...], value: Any) -> Iterator[tuple[str, Any]]:
    """Dotted key -> value; a mapping is a section, or the value of an option."""
    if isinstance(value, Mapping) and len(key) == 1:
        for name, below in value.items():
            yield f"{key[0]}.{name}", below
    else:
        yield ".".join(key), value


class _Options:
    """The options of the run in `directory`, as settings; `given` are the user's."""

    def __init__(self, given: Mapping[str, Any], directory: Path, origin: str, plugins: Plugins) -> None:
        from s2s.run import Run  # torch, which an error about the name of a run does without

        self.given, self.directory, self.origin, self.plugins = given, directory, origin, plugins
        self.registry = plugins.registry
        self.config, _ = Run.load_task(directory, plugins)
        self.groups = [f.name for f in fields(self.config) if isinstance(getattr(self.config, f.name), Choice)]

    def all(self) -> Iterator[Setting]:
        """Every option but those of the log."""
        yield Setting(("seed",), self.config.seed, self.origin)
        for group in self.groups:
            yield from self._group(group)
        for section in OWN:
            yield from self._options(section)

    def for_a_new_run(self) -> Iterator[Setting]:
        """Those of task, model, optimizer and search, and what fine-tuning needs: a vocabulary and a schedule."""
        own_corpora = any(key.startswith(f"task.{name}") for key in self.given for name in CORPORA)
        yield from self._group("task", without=CORPORA if own_corpora else ())
        for group in ("arch", "optim", "search"):
            yield from self._group(group)
        if self.config.objective.name == "label_smoothed":  # others may name runs and files
            yield from self._group("objective")
        for section, names in SECTIONS.items():
            if section == "data" or not is_published(self.directory):
                yield from self._options(section, only=names)
        yield from self._text()
        if not self._adapts(self._entry("arch")) and not self._is_preset("objective"):  # which have schedules
            yield from self._schedule()

    def _group(self, group: str, without: Sequence[str] = ()) -> Iterator[Setting]:
        """The choice of a group with its options, unless the user chooses another; for adapters, what they adapt."""
        config: Choice = getattr(self.config, group)
        entry = self._entry(group)
        if config.name and entry == config.name:
            yield Setting((group,), config.name, self.origin)
            yield from self._options(group, without=("name", *without))
        elif group == "arch" and self._adapts(entry):
            yield Setting((group,), self._chosen(group), self.origin)
            yield Setting((group, "of"), _short(config), self.origin)

    def _chosen(self, group: str) -> str:
        """The name that the user chooses a group by; empty: none."""
        names = (self.given.get(key) for key in (group, f"{group}.name", f"{group}.base"))
        return next((name for name in names if isinstance(name, str) and name), "")

    def _entry(self, group: str) -> str:
        """The entry that the user chooses, or else the other run's."""
        chosen = self._chosen(group)
        known = chosen in self.registry.names(group)  # others are reported when the configuration is composed
        return choice_config(group, chosen, {}, self.registry).name if known else getattr(self.config, group).name

    def _is_preset(self, group: str) -> bool:
        """Whether the user chooses a group by a preset with a name of its own, such as objective=risk_tuning."""
        return self._chosen(group) not in ("", self._entry(group))

    def _adapts(self, arch: str) -> bool:
        return ("merged_weights", arch) in self.registry.entries

    def _options(
        self, section: str, only: Sequence[str] | None = None, without: Sequence[str] = ()
    ) -> Iterator[Setting]:
        """The options of a section, but those that follow others by default."""
        config = getattr(self.config, section)
        for item in fields(config):
            wanted = item.name not in without and (only is None or item.name in only)
            if wanted and not str(item.default).startswith("${"):
                yield Setting((section, item.name), getattr(config, item.name), self.origin)

    def _text(self) -> Iterator[Setting]:
        """The other run's tokeniser, and its text or weights, unless train.init_vocab=new or the task is another."""
        kind = self.given.get("train.init_vocab")
        if kind == "new" or self._entry("task") != self.config.task.name:
            return
        for key in self.given:
            self._check_vocabulary(key)
        yield Setting(("data", "tokenizer"), str(self.directory), self.origin)
        if kind == "extend":
            yield Setting(("data", "new_tokens"), NEW_TOKENS, self.origin)
        yield from self._text_or_weights()

    def _text_or_weights(self) -> Iterator[Setting]:
        """The other run's training text is mixed in or, without it, its weights; on the same text, what it mixed in."""
        share: Any = self.given.get("train.init_replay", "auto")
        if share == "auto" and not self._has_own_text():
            yield from self._options("data", only=("replay", "replay_share"))
            return
        if share == "auto":
            share = 0 if self._obstacle() else REPLAYED
        if isinstance(share, int | float) and 0 < share < 1:  # any other is refused as an option
            yield Setting(("data", "replay"), str(self.directory), self.origin)
            yield Setting(("data", "replay_share"), share, self.origin)
        elif self._has_own_text():
            yield Setting(("train", "init_weight"), START, f"{self.origin}, without replay")

    def _has_own_text(self) -> bool:
        """Whether the new run is given other training text than the other run had."""
        given = {key: value for key, value in self.given.items() if key.startswith("task.train")}
        return bool(given) and given != {"task.train": vars(self.config.task).get("train")}

    def _obstacle(self) -> str:
        prepared = self.given.get("data.prepared", self.config.data.prepared)
        return replay_obstacle(self.directory, str(prepared), self.plugins)

    def _check_vocabulary(self, key: str) -> None:
        """Raise ConfigError if the user gives an option of the vocabulary another value than the other run has."""
        section, _, name = key.partition(".")
        if section != "task" or name.partition(".")[0] not in VOCABULARY:
            return
        value, old = self.given[key], vars(self.config.task).get(name)
        if value != old and not (isinstance(old, Mapping) and value == old.get("name")):
            raise ConfigError(
                f"{key}={value}: {self.origin} keeps the vocabulary of that run; leave it out, or give "
                "train.init_vocab=new"
            )

    def _schedule(self) -> Iterator[Setting]:
        """A low rate that falls: a quarter of the highest one that the weights have been trained with."""
        config = self.config.schedule
        n_steps = USUAL_STEPS if is_published(self.directory) else self.config.train.steps
        rate = self.registry.get("schedule", config.name).build(config)
        tried = {1, *range(1, n_steps + 1, max(n_steps // 1000, 1))}
        highest = max((float(rate(step)) for step in tried), default=0.0)
        share = 1.0 if vars(self.config.train).get("init_from") else SHARE
        for name, value in (("name", "cosine"), ("lr", float(f"{share * highest:.2g}")), ("warmup", WARMUP)):
            key = ("schedule",) if name == "name" else ("schedule", name)
            yield Setting(key, value, f"{self.origin}, to fine-tune")


def _short(config: Choice) -> str | dict[str, Any]:
    """A choice as its name, or as a mapping with the options that are not at their defaults."""
    options = {f.name: getattr(config, f.name) for f in fields(config) if getattr(config, f.name) != _default(f)}
    return config.name if options.keys() == {"name"} else {"name": config.name, **options}


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()
