"""The rows of a study: as given, or drawn from a space of options."""

from __future__ import annotations

__all__ = ["Row", "rows_of", "trials"]

import itertools
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, did_you_mean
from s2s_study import EvaluateConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from s2s_study import StudyConfig, TuneConfig

LINKS = ("init_from_row", "ensemble_of", "after_row")
OTHERS = ("commands", "evaluate", "seeds", "published")
"""Settings of a row besides the options of its run"""
DIGITS = (*(f".{n}g" for n in range(3, 18)), "#.17g")
"""Formats of a number in a name, the shortest first; the last distinguishes any number from the name of any other"""


@dataclass(frozen=True)
class Row:
    """A row as the study's file gives it, or as a search over options draws it."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its changes to the base, in the form of a configuration file"""
    init_from_row: str = ""
    """Row from whose run of the same seed it starts"""
    ensemble_of: str = ""
    """Row whose runs of all seeds form the ensemble that it decodes with; it is not trained itself"""
    after_row: str = ""
    """Row whose job of the same seed must end first, because this row uses files that it writes"""
    commands: tuple[str, ...] = ()
    """Run instead of s2s-train and s2s-generate; see `commands`"""
    evaluate: Mapping[str, Any] = field(default_factory=dict)
    """Differences from the study's `evaluate`"""
    seeds: tuple[int, ...] = ()
    """In place of the study's"""
    published: Mapping[str, float] = field(default_factory=dict)
    """Measure -> its value in the publication that the study repeats"""


def rows_of(config: StudyConfig) -> list[Row]:
    """All rows; a search makes a row for every trial on every given row."""
    named_rows = [_row(name, settings) for name, settings in (config.rows or {"base": {}}).items()]
    names = [row.name for row in named_rows]
    for row in named_rows:
        for link in LINKS:
            target = getattr(row, link)
            if target and target not in names[: names.index(row.name)]:
                raise ConfigError(f"rows: {row.name}: {link}={target}: no row above it.{did_you_mean(target, names)}")
            if target and link != "after_row" and named_rows[names.index(target)].commands:
                raise ConfigError(f"rows: {row.name}: {link}={target}: that row has commands, and no run")
    if config.tune.method == "none":
        return named_rows
    if any(row.commands or any(getattr(row, link) for link in LINKS) for row in named_rows):
        what = " or ".join((*LINKS, "commands"))
        raise ConfigError(f"tune.method={config.tune.method}: rows with {what} cannot be tuned")
    tried = _named(trials(config.tune)).items()
    return [_tried(row, name, trial, alone=len(named_rows) == 1) for row in named_rows for name, trial in tried]


def _row(name: str, settings: Any) -> Row:
    if settings is None:
        settings = {}
    if not isinstance(settings, dict):
        raise ConfigError(f"rows: {name}: {settings}: expected a mapping of options, or {{}} for the base itself")
    links = {link: str(settings[link]) for link in LINKS if link in settings}
    options = {key: value for key, value in settings.items() if key not in (*LINKS, *OTHERS)}
    commands, evaluate = settings.get("commands", []), settings.get("evaluate", {})
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        raise ConfigError(f"rows: {name}: commands={commands}: expected a list of commands")
    known = [option.name for option in fields(EvaluateConfig)]
    for option in evaluate if isinstance(evaluate, dict) else [str(evaluate)]:
        if option not in known:
            raise ConfigError(f"rows: {name}: evaluate.{option}: no such option.{did_you_mean(option, known)}")
    seeds, published = settings.get("seeds", []), settings.get("published", {})
    if "seeds" in settings:
        _check_seeds(str(name), seeds, ensemble_of=links.get("ensemble_of", ""))
    if not isinstance(published, dict) or not all(_is_number(value) for value in published.values()):
        raise ConfigError(f"rows: {name}: published={published}: expected measures and numbers, such as {{bleu: 27.3}}")
    return Row(
        str(name),
        options,
        **links,
        commands=tuple(commands),
        evaluate=evaluate,
        seeds=tuple(seeds),
        published=published,
    )


def _check_seeds(name: str, seeds: Any, *, ensemble_of: str) -> None:
    if ensemble_of:
        raise ConfigError(f"rows: {name}: seeds={seeds}: an ensemble has those of {ensemble_of}; leave seeds out")
    numbers = isinstance(seeds, list) and all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds)
    if not numbers or not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"rows: {name}: seeds={seeds}: give a list of one or more, each once")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _named(settings: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Name -> trial, each trial once; a number has three digits, or as many as distinguish it from earlier trials."""
    named: dict[str, Mapping[str, Any]] = {}
    known = set()
    for trial in settings:
        names = [_name(trial, digits) for digits in DIGITS]
        if names[-1] not in known:
            known.add(names[-1])
            named[next(name for name in names if name not in named)] = trial
    return named


def _name(trial: Mapping[str, Any], digits: str) -> str:
    return ", ".join(f"{option}={_short(value, digits)}" for option, value in trial.items())


def _short(value: Any, digits: str) -> str:
    return f"{value:{digits}}" if isinstance(value, float) else str(value)


def _tried(row: Row, name: str, trial: Mapping[str, Any], *, alone: bool) -> Row:
    settings = dict(row.settings)
    for option, value in trial.items():
        settings = _with(settings, option.split("."), value)
    return replace(row, name=name if alone else f"{row.name}, {name}", settings=settings)


def _with(tree: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """A copy of a nested mapping with one value set; a group that was chosen by its name keeps its choice."""
    if len(path) == 1:
        return {**tree, path[0]: value}
    below = tree.get(path[0], {})
    below = {"base": below} if isinstance(below, str) else below
    return {**tree, path[0]: _with(below, path[1:], value)}


def trials(tune: TuneConfig) -> Iterator[dict[str, Any]]:
    """Option -> value, for every trial."""
    if tune.method == "grid":
        lists = [values for option, values in tune.space.items() if _is_list(option, values)]
        yield from (dict(zip(tune.space, values, strict=True)) for values in itertools.product(*lists))
        return
    rng = random.Random(tune.seed)
    for _ in range(tune.trials):
        yield {option: _draw(rng, option, values) for option, values in tune.space.items()}


def _is_list(option: str, values: Any) -> bool:
    if not isinstance(values, list) or not values:
        raise ConfigError(f"tune.space: {option}: {values}: a grid needs a list of values; or give tune.method=random")
    return True


def _draw(rng: random.Random, option: str, values: Any) -> Any:
    if isinstance(values, list) and values:
        return rng.choice(values)
    try:
        low, high, log = float(values["low"]), float(values["high"]), bool(values.get("log", False))
        number = math.exp(rng.uniform(math.log(low), math.log(high))) if log else rng.uniform(low, high)
    except (TypeError, KeyError, ValueError):
        expected = "a list of values, or {low: 1e-4, high: 1e-2, log: true}"
        raise ConfigError(f"tune.space: {option}: {values}: expected {expected}") from None
    return round(number) if isinstance(values["low"], int) and isinstance(values["high"], int) else number
