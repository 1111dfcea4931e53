"""train.init_from: start from the weights of another run; tokens in both vocabularies keep their rows."""

from __future__ import annotations

__all__ = ["init_from"]

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor

from s2s import CheckpointError, ConfigError, Side, Task
from s2s.compose import flatten
from s2s.config import Config
from s2s.io import sha256
from s2s.run import Run, tokenizer
from s2s_fine_tuning.init_map import missing_part, names_in_source
from s2s_fine_tuning.source import find_source
from s2s_fine_tuning.vocab_rows import match_tokens, pieces_of_new, rows_by_size, take_rows

if TYPE_CHECKING:
    from s2s import Choice, Plugins, Registry, Seq2Seq, TokenNames
    from s2s.distributed import World
    from s2s_fine_tuning import FineTuningOptions

SIDES: tuple[Side, Side] = ("src", "tgt")
NAMED = {"src": "source", "tgt": "target"}


@dataclass(frozen=True)
class Vocabularies:
    """A model, the task whose tokens it reads and writes, and the directory of their tokeniser."""

    config: Config
    task: Task
    tokenizer: Path
    rows: Mapping[str, Side] = field(default_factory=dict)
    """`Seq2Seq.vocab_rows`; empty if no row has to move"""

    def tokens(self, side: Side, other: Vocabularies) -> list[TokenNames] | None:
        """`Task.vocabulary`; for tasks that do not define it, the ids, if both runs have the same tokeniser."""
        names = self.task.vocabulary(side)
        if names is not None and other.task.vocabulary(side) is not None:
            return list(names)
        if tokenizer.identity(self.tokenizer) != tokenizer.identity(other.tokenizer):
            return None
        sides = "" if self.task.vocab.joint else side
        return [f"{sides}{i}" for i in range(getattr(self.task.vocab, side))]


def init_from(model: Seq2Seq, config: Config, task: Task, tokenizer: Path, plugins: Plugins, world: World) -> list[str]:
    """Load the weights named by train.init_from into `model`, before it is sharded; lines for the first screen.

    tokenizer: directory of this run's tokeniser. Raises CheckpointError or ConfigError if a tensor is missing or has
    another shape, unless train.init_map leaves it as initialised.
    """
    options = cast("FineTuningOptions", config.train)
    source, init_map = options.init_from, options.init_map
    assert source is not None
    try:
        directory, checkpoint_name = find_source(source, plugins)
        path, weights = Run.read_weights(directory, checkpoint_name)
        other_config, other_task = Run.load_task(directory, plugins)
        weights = _merged(other_config.arch, weights, plugins.registry)
    except CheckpointError as error:
        raise CheckpointError(f"train.init_from={source}: {error}") from error
    _check_same_ranks(path, world)
    vocabularies = Vocabularies(config, task, tokenizer)
    other = Vocabularies(other_config, other_task, directory / "tokenizer")
    if _must_match(vocabularies, other, init_map):
        vocabularies, other = _with_rows(vocabularies, model, plugins), _with_rows(other, None, plugins)
    state = model.state_dict()
    names = names_in_source(state, init_map)
    loaded = Loader(source, vocabularies, other).load(state, weights, names)
    model.load_state_dict(loaded.tensors, strict=False)
    left = [name for name in weights if name not in {*names.values(), *(state.keys() - names.keys())}]
    more = _listed("as initialised", [name for name in state if name not in loaded.tensors]) + _listed(
        "not taken", left
    )
    return [f"{len(loaded.tensors)} of {len(state)} tensors from {path}{more}", *loaded.report]


class Match(NamedTuple):
    """Tokens of this model in another one's vocabulary."""

    ids: Tensor
    """`match_tokens`"""
    pieces: Mapping[int, Sequence[int]]
    """New token -> tokens there that spell it"""


@dataclass
class Loaded:
    """The tensors that a model takes from another run, with lines for the first screen."""

    tensors: dict[str, Tensor]
    report: list[str]


@dataclass
class Loader:
    """Takes tensors from another run, row by row where the vocabularies differ."""

    source: str
    vocabularies: Vocabularies
    other: Vocabularies

    def __post_init__(self) -> None:
        self.matches: dict[tuple[Side, Side], Match] = {}
        """Side of this model, side of the other run -> where its tokens are there"""

    def load(self, state: Mapping[str, Tensor], weights: Mapping[str, Tensor], names: Mapping[str, str]) -> Loaded:
        """state: of this model. names: this model's names -> those in `weights`."""
        tensors: dict[str, Tensor] = {}
        wrong: list[tuple[str, str]] = []
        """The error, and the part of this model that it concerns"""
        for name, source_name in names.items():
            if source_name not in weights:
                as_what = f" as '{source_name}'" if source_name != name else ""
                wrong.append((f"'{name}' is not there{as_what}", missing_part(name, source_name, weights)))
                continue
            taken = self._taken(name, source_name, state[name], weights[source_name])
            if taken.shape == state[name].shape:
                tensors[name] = taken
            else:
                wrong.append((f"'{name}' is {list(taken.shape)} there and {list(state[name].shape)} here", f"{name}$"))
        if wrong:
            raise CheckpointError(f"train.init_from={self.source}: {self._advice(wrong)}")
        if not tensors:
            raise ConfigError(f"train.init_from={self.source}: train.init_map leaves nothing to take from it")
        return Loaded(tensors, [self._line(side, source_name) for side, source_name in self.matches])

    def _taken(self, name: str, source_name: str, current: Tensor, tensor: Tensor) -> Tensor:
        """The other run's tensor, or its rows in the order of this model's tokens."""
        sides = self.vocabularies.rows.get(name), self.other.rows.get(source_name)
        if sides == (None, None) or current.shape[1:] != tensor.shape[1:]:
            return tensor
        if sides[0] is None or sides[1] is None:
            raise ConfigError(
                f"train.init_from={self.source}: of '{name}' here and '{source_name}' there, one has a row for each "
                "token and the other has not: say in train.init_map what to take instead, or null"
            )
        match = self._matched(sides[0], sides[1])
        return take_rows(current, tensor, match.ids, match.pieces)

    def _matched(self, side: Side, other_side: Side) -> Match:
        if (side, other_side) not in self.matches:
            tokens, tokens_there = (
                self.vocabularies.tokens(side, self.other),
                self.other.tokens(other_side, self.vocabularies),
            )
            if tokens is None or tokens_there is None:
                names = " or ".join(dict.fromkeys(of.config.task.name for of in (self.vocabularies, self.other)))
                raise ConfigError(
                    f"train.init_from={self.source}: the tokenisers differ, and task={names} does not list its tokens: "
                    "define Task.vocabulary, or take a run with the same tokeniser"
                )
            ids = match_tokens(tokens, tokens_there)
            split = partial(self.other.task.token_pieces, side=other_side)
            self.matches[side, other_side] = Match(ids, pieces_of_new(tokens, ids, split))
        return self.matches[side, other_side]

    def _line(self, side: Side, other_side: Side) -> str:
        ids, pieces = self.matches[side, other_side]
        n_known, n = int((ids >= 0).sum()), len(ids)
        spelt = f", {len(pieces):,} of them from their pieces" if pieces else ""
        whose = "joint" if self.vocabularies.task.vocab.joint else NAMED[side]
        of = (
            ""
            if side == other_side or self.vocabularies.task.vocab.joint
            else f" (from the {NAMED[other_side]} side there)"
        )
        return (
            f"{whose} vocabulary: the rows of {n_known:,} of {n:,} tokens are taken{of}, {n - n_known:,} are new{spelt}"
        )

    def _advice(self, wrong: Sequence[tuple[str, str]]) -> str:
        what, part = wrong[0]
        more = f" (and {len(wrong) - 1} more like this)" if len(wrong) > 1 else ""
        pattern, there = "^" + part.replace(".", r"\."), _other_options(self.vocabularies.config, self.other.config)
        return (
            f"{what}{more}: give the arch.* options of that run{there}, or train.init_map={{'{pattern}': null}} to "
            "leave it as initialised, or the name of another tensor there instead of null"
        )


def _other_options(config: Config, other: Config) -> str:
    """The options with which the other run has another architecture, for an error message; empty if they are equal.

    An architecture that adapts another, such as lora, names it with its option `of`.
    """
    here, there = ({k: v for k, v in flatten(one).items() if k.startswith("arch.")} for one in (config, other))
    if config.arch.name != other.arch.name and "arch.of" in here:
        defaults = flatten(type(other.arch)(name=other.arch.name))
        options = {key.removeprefix("arch."): value for key, value in there.items()}
        chosen = {key: value for key, value in options.items() if key == "name" or value != defaults[key]}
        return f", arch.of='{json.dumps(chosen)}'"
    differing = [f"{key.removesuffix('.name')}={value}" for key, value in there.items() if here.get(key) != value]
    return ", " + " ".join(differing) if differing else ""


def _check_same_ranks(path: Path, world: World) -> None:
    """Raise CheckpointError if ranks read different checkpoints: a run still in training may have written a new one."""
    if len(set(world.all_gather(sha256(path / "MANIFEST.json")))) > 1:
        raise CheckpointError(
            f"the ranks found different checkpoints of train.init_from, such as {path}: name one, as in "
            f"train.init_from={path.parent.parent}@{path.name}"
        )


def _must_match(vocabularies: Vocabularies, other: Vocabularies, init_map: Mapping[str, str | None]) -> bool:
    """Whether any row has to move: the vocabularies differ, or tensors are taken from those of the other side."""
    here, other_tokens = (
        [one.tokens(side, two) for side in SIDES] for one, two in ((vocabularies, other), (other, vocabularies))
    )
    return None in here or here != other_tokens or (bool(init_map) and here[0] != here[1])


def _with_rows(of: Vocabularies, model: Seq2Seq | None, plugins: Plugins) -> Vocabularies:
    """`of` with the names of tensors that have a row per token; without `model`, one is built on the meta device."""
    vocab = of.task.vocab
    if model is None:
        with torch.device("meta"):
            model = plugins.hook.s2s_build_model(config=of.config, vocab=vocab, registry=plugins.registry)
    assert model is not None
    rows = model.vocab_rows()
    rows = rows_by_size(model, vocab, of.config.arch.name) if rows is None else rows
    return Vocabularies(of.config, of.task, of.tokenizer, rows)


def _merged(arch: Choice, weights: dict[str, Tensor], registry: Registry) -> dict[str, Tensor]:
    """The weights of the model that the other run's architecture adapts, if it adapts one; else the weights."""
    if ("merged_weights", arch.name) not in registry.entries:
        return weights
    merged: dict[str, Tensor]
    _, merged = registry.get("merged_weights", arch.name).build(arch, weights)
    return merged


def _listed(what: str, names: Sequence[str]) -> str:
    """The first names, for the first screen; empty if there are none."""
    return f"; {what}: {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}" if names else ""
