"""train.init_from: start from the weights of another run; tokens in both vocabularies keep their rows."""

from __future__ import annotations

__all__ = ["init_from"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from s2s import CheckpointError, ConfigError, Side, Task
from s2s.config import Config
from s2s.io import sha256
from s2s.run import find_run, load_task, read_weights, tokenizer
from s2s_fine_tuning.init_map import missing_part, names_in_source
from s2s_fine_tuning.vocab_rows import match_tokens, rows_by_size, take_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    given, init_map = options.init_from, options.init_map
    assert given is not None
    try:
        directory, wanted = _find(given)
        path, weights = read_weights(directory, wanted)
        other_config, other_task = load_task(directory, plugins)
        weights = _merged(other_config.arch, weights, plugins.registry)
    except CheckpointError as error:
        raise CheckpointError(f"train.init_from={given}: {error}") from error
    _check_same_ranks(path, world)
    own = Vocabularies(config, task, tokenizer)
    other = Vocabularies(other_config, other_task, directory / "tokenizer")
    if _must_match(own, other, init_map):
        own, other = _with_rows(own, model, plugins), _with_rows(other, None, plugins)
    state = model.state_dict()
    names = names_in_source(state, init_map)
    loaded = Loader(given, own, other).load(state, weights, names)
    model.load_state_dict(loaded.tensors, strict=False)
    left = [name for name in weights if name not in {*names.values(), *(state.keys() - names.keys())}]
    more = _listed("as initialised", [name for name in state if name not in loaded.tensors]) + _listed(
        "not taken", left
    )
    return [f"{len(loaded.tensors)} of {len(state)} tensors from {path}{more}", *loaded.report]


@dataclass
class Loaded:
    """The tensors that a model takes from another run, with lines for the first screen."""

    tensors: dict[str, Tensor]
    report: list[str]


@dataclass
class Loader:
    """Takes tensors from another run, row by row where the vocabularies differ."""

    given: str
    own: Vocabularies
    other: Vocabularies

    def __post_init__(self) -> None:
        self.matches: dict[tuple[Side, Side], Tensor] = {}
        """Side of this model, side of the other run -> `match_tokens`"""

    def load(self, state: Mapping[str, Tensor], weights: Mapping[str, Tensor], names: Mapping[str, str]) -> Loaded:
        """state: of this model. names: this model's names -> those in `weights`."""
        tensors: dict[str, Tensor] = {}
        wrong: list[tuple[str, str]] = []
        """The error, and the part of this model that it concerns"""
        for name, there in names.items():
            if there not in weights:
                as_what = f" as '{there}'" if there != name else ""
                wrong.append((f"'{name}' is not there{as_what}", missing_part(name, there, weights)))
                continue
            found = self._taken(name, there, state[name], weights[there])
            if found.shape == state[name].shape:
                tensors[name] = found
            else:
                wrong.append((f"'{name}' is {list(found.shape)} there and {list(state[name].shape)} here", f"{name}$"))
        if wrong:
            raise CheckpointError(f"train.init_from={self.given}: {self._advice(wrong)}")
        if not tensors:
            raise ConfigError(f"train.init_from={self.given}: train.init_map leaves nothing to take from it")
        return Loaded(tensors, [self._line(own, there) for own, there in self.matches])

    def _taken(self, name: str, there: str, own: Tensor, tensor: Tensor) -> Tensor:
        """The other run's tensor, or its rows in the order of this model's tokens."""
        sides = self.own.rows.get(name), self.other.rows.get(there)
        if sides == (None, None) or own.shape[1:] != tensor.shape[1:]:
            return tensor
        if sides[0] is None or sides[1] is None:
            raise ConfigError(
                f"train.init_from={self.given}: of '{name}' here and '{there}' there, one has a row for each token and "
                "the other has not: say in train.init_map what to take instead, or null"
            )
        return take_rows(own, tensor, self._matched(sides[0], sides[1]))

    def _matched(self, own: Side, there: Side) -> Tensor:
        if (own, there) not in self.matches:
            tokens, tokens_there = self.own.tokens(own, self.other), self.other.tokens(there, self.own)
            if tokens is None or tokens_there is None:
                names = " or ".join(dict.fromkeys(of.config.task.name for of in (self.own, self.other)))
                raise ConfigError(
                    f"train.init_from={self.given}: the tokenisers differ, and task={names} does not list its tokens: "
                    "define Task.vocabulary, or take a run with the same tokeniser"
                )
            self.matches[own, there] = match_tokens(tokens, tokens_there)
        return self.matches[own, there]

    def _line(self, own: Side, there: Side) -> str:
        ids = self.matches[own, there]
        n_known, n = int((ids >= 0).sum()), len(ids)
        whose = "joint" if self.own.task.vocab.joint else NAMED[own]
        of = "" if own == there or self.own.task.vocab.joint else f" (from the {NAMED[there]} side there)"
        return f"{whose} vocabulary: the rows of {n_known:,} of {n:,} tokens are taken{of}, {n - n_known:,} are new"

    @staticmethod
    def _advice(wrong: Sequence[tuple[str, str]]) -> str:
        what, part = wrong[0]
        more = f" (and {len(wrong) - 1} more like this)" if len(wrong) > 1 else ""
        pattern = "^" + part.replace(".", r"\.")
        return (
            f"{what}{more}: give the arch.* options of that run, or train.init_map={{'{pattern}': null}} to leave it "
            "as initialised, or the name of another tensor there instead of null"
        )


def _find(given: str) -> tuple[Path, str]:
    """The directory and checkpoint of RUN or RUN@CHECKPOINT; an existing run with @ in its name takes precedence."""
    run, at, wanted = given.rpartition("@")
    if "last" in (given, run):
        raise ConfigError(f"train.init_from={given}: name the run, since run=last means this one once it has begun")
    if not at:
        return find_run(given, "train.init_from"), "auto"
    try:
        return find_run(given, "train.init_from"), "auto"
    except CheckpointError:
        return find_run(run, "train.init_from"), wanted


def _check_same_ranks(path: Path, world: World) -> None:
    """Raise CheckpointError if ranks read different checkpoints: a run still in training may have written a new one."""
    if len(set(world.all_gather(sha256(path / "MANIFEST.json")))) > 1:
        raise CheckpointError(
            f"the ranks found different checkpoints of train.init_from, such as {path}: name one, as in "
            f"train.init_from={path.parent.parent}@{path.name}"
        )


def _must_match(own: Vocabularies, other: Vocabularies, init_map: Mapping[str, str | None]) -> bool:
    """Whether any row has to move: the vocabularies differ, or tensors are taken from those of the other side."""
    here, there = ([one.tokens(side, two) for side in SIDES] for one, two in ((own, other), (other, own)))
    return None in here or here != there or (bool(init_map) and here[0] != here[1])


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
