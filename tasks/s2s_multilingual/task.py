"""The multilingual task: text to text in many directions, with tokens for the languages."""

from __future__ import annotations

__all__ = ["Multilingual"]

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Example
from s2s.data import TextTask
from s2s_multilingual.directions import Directed, directed, fitting
from s2s_multilingual.languages import Languages, base_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from s2s import Registry, Rejected
    from s2s.data import CorpusOptions
    from s2s_multilingual import MultilingualConfig

UNITS = {"zh": "zh", **dict.fromkeys(("yue", "ja", "th", "lo", "km", "my", "bo"), "char")}
"""What metrics such as BLEU take for words in languages without blanks; Japanese words would need mecab"""


class Multilingual(TextTask):
    """Pairs of texts, each in a direction. A development or test set has one corpus for each direction."""

    config: MultilingualConfig
    running_text = True
    file_form = TextTask.file_form._replace(accepts=bool)

    def __init__(self, config: MultilingualConfig, registry: Registry | None = None) -> None:
        """Without a `registry`, corpora and tokenisers are those of the installed plugins."""
        self.config, self.registry = config, registry
        self.marks, self.end_marks = self._marks_of(config.before), self._marks_of(config.end)
        self.start_marks = self._marks_of(config.start)
        self.own_start = config.start[0] != "bos"
        self.known = self._known()
        self.fields = self._fields()
        super().__init__(config, registry)
        if not self.known.targets:
            raise ConfigError(
                "task=multilingual: which languages? Give task.train={NAME: {files: [a.en,a.de]}, …}, or task.languages"
            )
        if len(self.known.targets) > 1 and not self._reads("tgt"):
            raise ConfigError("task.before, task.end, task.start: one must have tgt, or outputs have any language")

    def _marks_of(self, tags: Sequence[str]) -> list[str]:
        """Patterns of the tokens of languages among these, with the names of fields."""
        return [self.config.tag.format(f"{{{tag}_lang}}") for tag in tags if tag in ("src", "tgt")]

    def _reads(self, side: str) -> bool:
        """Whether the model reads the language of a side."""
        return any(side in tags for tags in (self.config.before, self.config.end, self.config.start))

    def _known(self, others: Sequence[str] = ()) -> Languages:
        """The languages of the training text and of task.languages, and others."""
        others = [*self.config.languages, *others]
        sources = [self.config.src_lang] if self.config.src_lang and not self._reads("src") else others
        pairs = [(one.src, one.tgt) for split in ("train", "valid") for one in self._directed[split] if one.src]
        pairs = pairs or [(src, tgt) for src in sources for tgt in others if src != tgt]
        defaults = (self.config.src_lang, self.config.tgt_lang)
        return Languages(list(dict.fromkeys(pairs)), others, defaults, needs_src=self._reads("src"))

    def _fields(self) -> type:
        """The languages of an input, completed by the languages of the model."""

        @dataclass(kw_only=True)
        class Direction:
            src_lang: str = ""
            tgt_lang: str = ""

            def __post_init__(direction) -> None:  # noqa: N805  self is the task
                direction.src_lang, direction.tgt_lang = self.known.completed(direction.src_lang, direction.tgt_lang)

        return Direction

    @cached_property
    def _directed(self) -> dict[str, list[Directed]]:
        """The corpora of each split by direction; of development and test text, those that the model could learn."""
        trained = fitting(self._both_ways("train"), self.config.directions)
        sources = {*self.config.languages, *(one.src for one in trained)}
        targets = {*self.config.languages, *(one.tgt for one in trained)}
        others = {split: self._both_ways(split) for split in ("valid", "test")}
        order = list(dict.fromkeys(one.direction for one in trained))
        return {"train": trained} | {
            split: sorted(
                (one for one in corpora if not one.src or (one.src in sources and one.tgt in targets)),
                key=lambda one: order.index(one.direction) if one.direction in order else len(order),
            )
            for split, corpora in others.items()
        }

    def _both_ways(self, split: str) -> list[Directed]:
        """The corpora of a split in all directions, between languages as task.languages spells them."""
        spelt = Languages([], self.config.languages, ("", ""), needs_src=False)
        return directed(super().named_corpora(split), spelt.spelt)

    def named_corpora(self, split: str) -> list[CorpusOptions]:
        """Each corpus once for each of its directions."""
        return [one.corpus for one in self._directed[split]]

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        """Of training text, corpora in each direction; else directions, which have no weight if they are zero-shot."""
        if split == "train":
            return super().corpora(split)
        trained = {one.direction for one in self._directed["train"]}
        names = dict.fromkeys(one.direction for one in self._directed[split])
        are_trained = {one.direction: not one.src or one.direction in trained for one in self._directed[split]}
        return [(name, float(are_trained[name])) for name in names]

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The pairs of a training corpus, or of all corpora of a direction."""
        if split == "train":
            return super().examples(split, corpus)
        names = [one.corpus.name for one in self._directed[split] if one.direction == corpus]
        return chain.from_iterable(super(Multilingual, self).examples(split, name) for name in names)

    def scored_apart(self, corpus: str) -> Mapping[str, Any]:
        """Every direction; the language of its outputs, for metrics that depend on it."""
        return _metric_options(
            next(one.tgt for one in chain.from_iterable(self._directed.values()) if one.direction == corpus)
        )

    def scored_group(self, fields: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """The direction; mul-en, from any language, where the model does not read which and none is given."""
        src, tgt = (str(fields[side]) for side in ("src_lang", "tgt_lang"))
        return f"{src or 'mul'}-{tgt}", _metric_options(tgt)

    def weights(self, n_pairs: Mapping[str, int]) -> Mapping[str, float]:
        """Those of the options, times what gives each direction its share by task.temperature."""
        weights = dict(self.corpora("train"))
        directions = {one.corpus.name: one.direction for one in self._directed["train"]}
        sizes = defaultdict[str, float](float)
        for name, n in n_pairs.items():
            sizes[directions[name]] += weights[name] * n
        shares = {direction: size ** (1 / self.config.temperature) for direction, size in sizes.items() if size}
        scale = sum(sizes.values()) / sum(shares.values()) if shares else 1.0
        factors = {direction: scale * share / sizes[direction] for direction, share in shares.items()}
        return {name: weight * factors.get(directions[name], 1.0) for name, weight in weights.items()}

    def usable(self, split: str = "train") -> Iterator[Example]:
        """The examples of a split; those of training as often as task.temperature says, from once up.

        Of a joint vocabulary, which is learnt from both sides, a corpus is read in one direction only.
        """
        if split != "train" or self.config.temperature == 1:
            yield from super().usable(split)
            return
        counts = {
            name: sum(isinstance(e, Example) for e in self.examples(split, name)) for name, _ in self.corpora(split)
        }
        weights = self.weights(counts)
        least = min(weights.values())
        for name, weight in weights.items():
            due = 0.0
            for example in self.examples(split, name):
                if isinstance(example, Example):
                    due += weight / least
                    yield from [example] * int(due)
                    due -= int(due)

    @property
    def languages(self) -> tuple[str, str]:
        """Those of the only direction; empty where there are several."""
        return self.known.directions[0] if len(self.known.directions) == 1 else ("", "")

    def directions(self) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
        """Those that are trained or have development text; of a model without any, all between its languages."""
        return self.known.offered()

    def leading_fields(self, src: str) -> tuple[Mapping[str, Any], str]:
        """The target language of a text that begins with its token, where those stand before sources."""
        before, after = map(re.escape, self.config.tag.split("{}"))
        found = re.match(f"{before}(.+?){after}", src) if "tgt" in self.config.before and before and after else None
        if found is None or found[1] not in self.known.targets:
            return {}, src
        return {"tgt_lang": found[1]}, src[found.end() :].lstrip()

    def source_language(self, fields: Mapping[str, Any]) -> str:
        """That of the input, as far as it is known."""
        return base_of(str(fields.get("src_lang", "")))

    def symbols(self) -> Sequence[str]:
        """The tokens of the languages that the model reads."""
        return [
            self.config.tag.format(code) for code in (self.known.codes if self._reads("src") else self.known.targets)
        ]

    def settings(self) -> dict[str, Any]:
        """As in the base class, with the places of the tokens of languages."""
        config = self.config
        return super().settings() | {"tags": [config.before, config.end, config.start]}

    def load(self, directory: Path) -> None:
        """As in the base class; languages whose tokens the vocabulary has, such as another run's, are known, too."""
        super().load(directory)
        before, after = map(re.escape, self.config.tag.split("{}"))
        found = (re.fullmatch(f"{before}(.+){after}", piece) for piece in self.tgt.pieces) if before and after else ()
        self.known = self._known([match[1] for match in found if match])

    def describe(self) -> Iterable[str]:
        """The directions, then the lines that corpora report."""
        trained = dict.fromkeys(one.direction for one in self._directed["train"])
        zero_shot = [name for name, weight in self.corpora("valid") if not weight]
        yield f"directions: {', '.join(trained)}" + (f"; zero-shot: {', '.join(zero_shot)}" if zero_shot else "")
        yield from super().describe()


def _metric_options(tgt: str) -> dict[str, str]:
    """The options of metrics on outputs in a language; none if it is not known."""
    units = {"tokenize": UNITS[base_of(tgt)]} if base_of(tgt) in UNITS else {}
    return {"lang": base_of(tgt), **units} if tgt else {}
