"""Several tasks as one: source vocabularies share only the special tokens, target vocabularies share their ids."""

from __future__ import annotations

__all__ = ["Multitask"]

from dataclasses import fields, make_dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Dependencies, Encoded, Example, Rejected, Task, UserError, Vocab, load_plugins
from s2s.compose import entry_config
from s2s_multitask.task_prefix import add_prefix, split_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from s2s import Registry, Side, TokenNames
    from s2s_multitask import MultitaskConfig
    from s2s_multitask.constraint import MultitaskConstraint

N_SPECIAL = 4
"""Ids shared by all tasks: pad, unk, bos and eos"""
MIXED = "mixed"
"""Name of the one development or test corpus, in which tasks alternate so that any prefix of it has some of each"""


class Multitask(Task):
    """Source ids: the special ones, a tag for each task, then the tokens of each task in turn."""

    config: MultitaskConfig

    def __init__(self, config: MultitaskConfig, registry: Registry | None = None) -> None:
        """Without a `registry`, tasks are those of the installed plugins."""
        super().__init__(config)
        if not config.tasks:
            raise ConfigError("task.tasks names nothing; give task.tasks.NAME.name=TASK for each task to be learnt")
        registry = registry or load_plugins().registry
        self.tasks = {name: _task(name, options, registry) for name, options in config.tasks.items()}
        for name, task in self.tasks.items():
            task.counts = self.counts
            if task.context:
                raise ConfigError(f"task.tasks.{name}.context={task.context}: train a model of documents by itself")
        read = dict.fromkeys(task.fields for task in self.tasks.values() if task.fields)
        self.fields = make_dataclass("Fields", [], bases=tuple(read), kw_only=True) if read else None
        metrics = (_metrics(name, task, registry) for name, task in self.tasks.items())
        self.metrics = list(chain.from_iterable(metrics))

    def dependencies(self) -> Dependencies:
        """The sources of all tasks; the ratio does not change prepared files."""
        return self._merged({name: task.dependencies() for name, task in self.tasks.items()})

    def _merged(self, of: Mapping[str, Dependencies]) -> Dependencies:
        settings = {name: [self.tasks[name].config.name, one.settings] for name, one in of.items()}
        return Dependencies(list(chain.from_iterable(one.files for one in of.values())), settings)

    def test_dependencies(self) -> Dependencies:
        """The test corpora of all tasks."""
        return self._merged({name: task.test_dependencies() for name, task in self.tasks.items()})

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        """Training corpora are separate, such as parse/gold, with their weights multiplied by the ratio."""
        named = [
            (f"{name}/{corpus}", weight * self.config.ratio.get(name, 1.0))
            for name, task in self.tasks.items()
            for corpus, weight in task.corpora(split)
        ]
        return named if split == "train" or not named else [(MIXED, 1.0)]

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The pairs of one task's corpus, or of all tasks in turn, both sides prefixed with the task's name."""
        if split == "train":
            name, _, inner_corpus = corpus.partition("/")
            return self._examples(name, split, [inner_corpus])
        all_of = (self._examples(n, split, [c for c, _ in t.corpora(split)]) for n, t in self.tasks.items())
        return (one for turn in zip_longest(*all_of) for one in turn if one is not None)

    def learn(self, directory: Path) -> None:
        """Prepare each task in a folder of its own."""
        for name, task in self.tasks.items():
            (directory / name).mkdir(exist_ok=True)
            task.learn(directory / name)
        self._number()

    def load(self, directory: Path) -> None:
        """Load each task from its folder."""
        for name, task in self.tasks.items():
            task.load(directory / name)
        self._number()

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Ids of both sides, without bos and eos; a source begins with its tag."""
        pairs = [(*split_prefix(example.src, self.tasks), example.tgt) for example in examples]
        encoded: list[Encoded] = [Encoded([], [])] * len(pairs)
        for name, task in self.tasks.items():
            indices = [index for index, (of, _, _) in enumerate(pairs) if of == name]
            batch = [
                Example(pairs[index][1], split_prefix(pairs[index][2], [name])[1], examples[index].fields)
                for index in indices
            ]
            for index, (src, tgt) in zip(indices, task.encode(batch), strict=True):
                encoded[index] = Encoded(self._tagged(name, src), tgt)
        return encoded

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of new inputs, without bos and eos, beginning with the tag; empty for an empty input."""
        return self.encode_inputs([Example(line) for line in lines])

    def encode_inputs(self, inputs: Sequence[Example]) -> list[list[int]]:
        """The same, with fields for the tasks that read some."""
        texts = {index: split_prefix(one.src, self.tasks) for index, one in enumerate(inputs) if one.src}
        encoded: list[list[int]] = [[]] * len(inputs)
        for name, task in self.tasks.items():
            indices = [index for index, (of, _) in texts.items() if of == name]
            own = [Example(texts[index][1], fields=inputs[index].fields) for index in indices]
            for index, src in zip(indices, task.encode_inputs(own), strict=True):
                encoded[index] = self._tagged(name, src)
        return encoded

    def forced_tokens(self, example: Example) -> Sequence[int]:
        """Those of the source's task."""
        if not example.src.strip():
            return ()
        name, text = split_prefix(example.src, self.tasks)
        return self.tasks[name].forced_tokens(replace(example, src=text))

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The output of the source's task, without tokens of other tasks."""
        name, text = split_prefix(src, self.tasks)
        task = self.tasks[name]
        return add_prefix(name, task.detokenize([i for i in ids if i < task.vocab.tgt], text))

    def source_text(self, ids: Sequence[int]) -> str:
        """The text of source ids, prefixed with the task of their tag; without a tag, with the first task."""
        name = next((name for name, tag in self.tags.items() if [tag] == [*ids[:1]]), next(iter(self.tags)))
        task_ids = [i if i < N_SPECIAL else i - self.offsets[name] for i in ids[1:]]
        return add_prefix(name, self.tasks[name].source_text(task_ids))

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """The pieces of the source's task; empty for a token of another task."""
        name, text = split_prefix(src, self.tasks)
        task = self.tasks[name]
        return [task.pieces([i], text)[0] if i < task.vocab.tgt else "" for i in ids]

    def vocabulary(self, side: Side) -> Sequence[TokenNames] | None:
        """Each token named with its task's name, then by its own, so that runs of a single task match as well."""
        names_by_task = {name: task.vocabulary(side) for name, task in self.tasks.items()}
        if None in names_by_task.values():
            return None
        named = {name: [_first(names) for names in tokens or ()] for name, tokens in names_by_task.items()}
        if side == "src":
            special = next(iter(named.values()))[:N_SPECIAL]
            tags = [f"<task {name}>" for name in self.tasks]
            return special + tags + [(f"{name}: {t}", t) for name, ts in named.items() for t in ts[N_SPECIAL:]]
        return [
            _shared({name: tokens[i] for name, tokens in named.items() if i < len(tokens)})
            for i in range(self.vocab.tgt)
        ]

    def source_offsets(self, src: str) -> Sequence[tuple[int, int] | None]:
        """Those of the source's task, shifted past its name; the tag stands for no characters."""
        name, text = split_prefix(src, self.tasks)
        return [None, *_behind(len(src) - len(text), self.tasks[name].source_offsets(text))]

    def target_offsets(self, ids: Sequence[int], src: str) -> Sequence[tuple[int, int] | None]:
        """Those of the source's task, shifted past its name."""
        name, text = split_prefix(src, self.tasks)
        task = self.tasks[name]
        own = task.target_offsets([i for i in ids if i < task.vocab.tgt], text)
        offsets = iter(_behind(len(add_prefix(name, "")), own))
        return [next(offsets) if i < task.vocab.tgt else None for i in ids]

    def looks_raw(self, line: str) -> bool:
        """As its task finds."""
        if not line.strip():
            return False
        name, text = split_prefix(line, self.tasks)
        return self.tasks[name].looks_raw(text)

    def read_raw(self, line: str) -> str:
        """The input as its task reads it."""
        if not line.strip():
            return line
        name, text = split_prefix(line, self.tasks)
        return add_prefix(name, self.tasks[name].read_raw(text))

    def fallback(self, src: str) -> str:
        """The fallback of the source's task."""
        name, text = split_prefix(src, self.tasks)
        return add_prefix(name, self.tasks[name].fallback(text))

    def constraint(self) -> MultitaskConstraint:
        """The constraint of each task, without tokens outside its vocabulary."""
        from s2s_multitask.constraint import MultitaskConstraint, TaskConstraint  # torch

        tasks = self.tasks.items()
        parts = [TaskConstraint(task.constraint(), task.vocab.tgt, self.offsets[name]) for name, task in tasks]
        return MultitaskConstraint(parts, self.vocab.tag_ids.start)

    def variation(self) -> Callable[[Encoded, int], Encoded] | None:
        """Re-encodes a pair by the variation of its tag's task, if that task has one."""
        variations = {self.tags[name]: (name, task.variation()) for name, task in self.tasks.items()}
        if not any(vary for _, vary in variations.values()):
            return None

        def vary(pair: Encoded, seed: int) -> Encoded:
            name, variation = variations[pair.src[0]]
            if variation is None:
                return pair
            offset = self.offsets[name]
            again = variation(Encoded([i if i < N_SPECIAL else i - offset for i in pair.src[1:]], pair.tgt), seed)
            return Encoded(self._tagged(name, again.src), again.tgt)

        return vary

    def varied_share(self) -> float:
        """The largest of the tasks that have a variation."""
        return max((task.varied_share() for task in self.tasks.values() if task.variation()), default=0.0)

    def describe(self) -> Iterable[str]:
        """The lines that all tasks report."""
        return [add_prefix(name, line) for name, task in self.tasks.items() for line in task.describe()]

    def _number(self) -> None:
        """Assign the tags, and the offset of each task's source ids."""
        self.offsets, n_src = {}, N_SPECIAL + len(self.tasks)
        for name, task in self.tasks.items():
            special = task.vocab.pad, task.vocab.unk, task.vocab.bos, task.vocab.eos
            if special != (0, 1, 2, 3):
                raise ConfigError(f"task.tasks.{name}: its special ids are {special}, but can be mixed only if 0 to 3")
            if task.vocab.labels:
                raise ConfigError(
                    f"task.tasks.{name} labels the words of training pairs, and a model of several tasks would read "
                    "the labels as input; train it without labels, or by itself"
                )
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
                if isinstance(one, Rejected):
                    yield one
                else:
                    yield Example(add_prefix(name, one.src), add_prefix(name, one.tgt), one.fields)


def _first(names: TokenNames) -> str:
    return names if isinstance(names, str) else names[0]


def _shared(tokens: Mapping[str, str]) -> TokenNames:
    """The names of a target id that is a token of several tasks: all of them together, then each separately."""
    return (" ".join(f"{name}: {token}" for name, token in tokens.items()), *dict.fromkeys(tokens.values()))


def _behind(n: int, offsets: Iterable[tuple[int, int] | None]) -> list[tuple[int, int] | None]:
    """Offsets, shifted by n characters."""
    return [None if one is None else (n + one[0], n + one[1]) for one in offsets]


def _task(name: str, options: Mapping[str, Any], registry: Registry) -> Task:
    """One of the tasks; errors are prefixed with its name."""
    try:
        entry = registry.get("task", options["name"])
        return entry.build(entry_config(entry, options, "task"))
    except UserError as error:
        raise type(error)(f"task.tasks.{name}: {error}") from error


def _metrics(name: str, task: Task, registry: Registry) -> Iterator[dict[str, Any]]:
    """The task's metrics on its own lines, with the task's metric options."""
    for spec in task.metrics:
        chosen = {"name": spec} if isinstance(spec, str) else spec
        known = {item.name for item in fields(registry.get("metric", chosen["name"]).config)}
        shared = {key: value for key, value in task.metric_options.items() if key in known}
        yield {"name": "on_task", "task": name, "of": shared | chosen}
