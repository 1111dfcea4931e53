"""Several tasks as one: their sources share the special symbols alone, their targets may be the same ids."""

from __future__ import annotations

__all__ = ["Multitask"]

from dataclasses import fields
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from s2s.compose import entry_config
from s2s.errors import ConfigError, UserError
from s2s.plugin import load_plugins
from s2s.task import Encoded, Example, Rejected, Sources, Task, Vocab
from s2s_multitask.constraint import EachItsOwn, Part
from s2s_multitask.line import parted, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from s2s.registry import Registry
    from s2s.task import Side, TokenNames
    from s2s_multitask import MultitaskConfig

N_SPECIAL = 4
"""Ids that all tasks share: pad, unk, bos and eos"""
MIXED = "mixed"
"""Development and test sets are one corpus, of all tasks in turn: whoever takes the first few has some of each"""


class Multitask(Task):
    """Source ids: the special ones, a tag for each task, then each task's symbols, one behind the other."""

    config: MultitaskConfig

    def __init__(self, config: MultitaskConfig, registry: Registry | None = None) -> None:
        """Without a `registry`, the tasks are among those that are installed."""
        super().__init__(config)
        if not config.tasks:
            raise ConfigError("task.tasks names nothing; give task.tasks.NAME.name=TASK for each task to be learnt")
        registry = registry or load_plugins().registry
        self.tasks = {name: _task(name, options, registry) for name, options in config.tasks.items()}
        for task in self.tasks.values():
            task.counts = self.counts
        metrics = (_metrics(name, task, registry) for name, task in self.tasks.items())
        self.metrics = list(chain.from_iterable(metrics))

    def sources(self) -> Sources:
        """Those of all tasks. How they are mixed changes no corpus."""
        of = {name: task.sources() for name, task in self.tasks.items()}
        settings = {name: [self.tasks[name].config.name, one.settings] for name, one in of.items()}
        return Sources(list(chain.from_iterable(one.files for one in of.values())), settings)

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        """Corpora of training keep apart, as parse/gold, with their weights times the ratio."""
        named = [
            (f"{name}/{corpus}", weight * self.config.ratio.get(name, 1.0))
            for name, task in self.tasks.items()
            for corpus, weight in task.corpora(split)
        ]
        return named if split == "train" or not named else [(MIXED, 1.0)]

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The pairs of one task's corpus, or those of all tasks in turn, both sides saying their task."""
        if split == "train":
            name, _, own = corpus.partition("/")
            return self._examples(name, split, [own])
        all_of = (self._examples(n, split, [c for c, _ in t.corpora(split)]) for n, t in self.tasks.items())
        return (one for turn in zip_longest(*all_of) for one in turn if one is not None)

    def learn(self, directory: Path) -> None:
        """Each task in a folder of its own."""
        for name, task in self.tasks.items():
            (directory / name).mkdir(exist_ok=True)
            task.learn(directory / name)
        self._number()

    def load(self, directory: Path) -> None:
        """Each task from its folder."""
        for name, task in self.tasks.items():
            task.load(directory / name)
        self._number()

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Ids of both sides, without bos and eos; a source begins with its tag."""
        pairs = [(*parted(example.src, self.tasks), example.tgt) for example in examples]
        encoded: list[Encoded] = [Encoded([], [])] * len(pairs)
        for name, task in self.tasks.items():
            places = [place for place, (of, _, _) in enumerate(pairs) if of == name]
            own = [Example(pairs[place][1], parted(pairs[place][2], [name])[1]) for place in places]
            for place, (src, tgt) in zip(places, task.encode(own), strict=True):
                encoded[place] = Encoded(self._tagged(name, src), tgt)
        return encoded

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of new inputs, without bos and eos, beginning with the tag; of nothing but the task's name, none."""
        texts = [parted(line, self.tasks) for line in lines]
        encoded: list[list[int]] = [[]] * len(texts)
        for name, task in self.tasks.items():
            places = [place for place, (of, _) in enumerate(texts) if of == name]
            for place, src in zip(places, task.encode_source([texts[place][1] for place in places]), strict=True):
                encoded[place] = self._tagged(name, src)
        return encoded

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The output of the source's task, which leaves out the symbols of others."""
        name, text = parted(src, self.tasks)
        task = self.tasks[name]
        return said(name, task.detokenize([i for i in ids if i < task.vocab.tgt], text))

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """As the source's task writes them; empty where a symbol is another's."""
        name, text = parted(src, self.tasks)
        task = self.tasks[name]
        return [task.pieces([i], text)[0] if i < task.vocab.tgt else "" for i in ids]

    def vocabulary(self, side: Side) -> Sequence[TokenNames] | None:
        """Tokens by the names of their tasks, then by their own, so that runs of one task match as well."""
        own = {name: task.vocabulary(side) for name, task in self.tasks.items()}
        if None in own.values():
            return None
        named = {name: [_first(names) for names in tokens or ()] for name, tokens in own.items()}
        if side == "src":
            special = next(iter(named.values()))[:N_SPECIAL]
            tags = [f"<task {name}>" for name in self.tasks]
            return special + tags + [(f"{name}: {t}", t) for name, ts in named.items() for t in ts[N_SPECIAL:]]
        return [
            _shared({name: tokens[i] for name, tokens in named.items() if i < len(tokens)})
            for i in range(self.vocab.tgt)
        ]

    def source_words(self, src: str) -> Sequence[int | None]:
        """As the source's task numbers them, behind its name; the tag belongs to no word."""
        name, text = parted(src, self.tasks)
        before = len(src.split()) - len(text.split())
        return [None, *_behind(before, self.tasks[name].source_words(text))]

    def target_words(self, ids: Sequence[int], src: str) -> Sequence[int | None]:
        """As the source's task numbers them, behind its name."""
        name, text = parted(src, self.tasks)
        task = self.tasks[name]
        own = iter(_behind(1, task.target_words([i for i in ids if i < task.vocab.tgt], text)))
        return [next(own) if i < task.vocab.tgt else None for i in ids]

    def read_raw(self, line: str) -> str:
        """The input as its task reads it."""
        if not line.strip():
            return line
        name, text = parted(line, self.tasks)
        return said(name, self.tasks[name].read_raw(text))

    def fallback(self, src: str) -> str:
        """What the source's task falls back on."""
        name, text = parted(src, self.tasks)
        return said(name, self.tasks[name].fallback(text))

    def constraint(self) -> EachItsOwn:
        """Every task's own, and no symbol of a larger vocabulary."""
        tasks = self.tasks.items()
        parts = [Part(task.constraint(), task.vocab.tgt, self.offsets[name]) for name, task in tasks]
        return EachItsOwn(parts, self.vocab.tag_ids.start)

    def describe(self) -> Iterable[str]:
        """What the tasks say."""
        return [said(name, line) for name, task in self.tasks.items() for line in task.describe()]

    def _number(self) -> None:
        """Give the tasks their tags, and their source symbols places behind one another."""
        self.offsets, n_src = {}, N_SPECIAL + len(self.tasks)
        for name, task in self.tasks.items():
            special = task.vocab.pad, task.vocab.unk, task.vocab.bos, task.vocab.eos
            if special != (0, 1, 2, 3):
                raise ConfigError(f"task.tasks.{name}: its special ids are {special}, but can be mixed only if 0 to 3")
            self.offsets[name] = n_src - N_SPECIAL
            n_src += task.vocab.src - N_SPECIAL
        n_tgt = max(task.vocab.tgt for task in self.tasks.values())
        self.vocab = Vocab(src=n_src, tgt=n_tgt, tags=len(self.tasks))
        self.tags = dict(zip(self.tasks, self.vocab.tag_ids, strict=True))

    def _tagged(self, name: str, src: Sequence[int]) -> list[int]:
        offset = self.offsets[name]
        return [self.tags[name], *(i if i < N_SPECIAL else i + offset for i in src)] if src else []

    def _examples(self, name: str, split: str, corpora: Iterable[str]) -> Iterator[Example | Rejected]:
        for corpus in corpora:
            for one in self.tasks[name].examples(split, corpus):
                yield one if isinstance(one, Rejected) else Example(said(name, one.src), said(name, one.tgt))


def _first(names: TokenNames) -> str:
    return names if isinstance(names, str) else names[0]


def _shared(tokens: Mapping[str, str]) -> TokenNames:
    """A target id that is a token of several tasks: all of them together, then each by itself."""
    return (" ".join(f"{name}: {token}" for name, token in tokens.items()), *dict.fromkeys(tokens.values()))


def _behind(n: int, words: Iterable[int | None]) -> list[int | None]:
    """The numbers of words that stand behind n others."""
    return [None if word is None else n + word for word in words]


def _task(name: str, options: Mapping[str, Any], registry: Registry) -> Task:
    """One of the tasks, or an error that says which."""
    try:
        entry = registry.get("task", options["name"])
        return entry.build(entry_config(entry, options, "task"))
    except UserError as error:
        raise type(error)(f"task.tasks.{name}: {error}") from error


def _metrics(name: str, task: Task, registry: Registry) -> Iterator[dict[str, Any]]:
    """The task's metrics on its own lines, with what the task tells those that ask."""
    for spec in task.metrics:
        chosen = {"name": spec} if isinstance(spec, str) else spec
        known = {item.name for item in fields(registry.get("metric", chosen["name"]).config)}
        told = {key: value for key, value in task.metric_options.items() if key in known}
        yield {"name": "own_rows", "task": name, "of": told | chosen}
