"""The stories task: from a text whose last sentence is a question to its answer.

Each sentence of a source begins with a token of its own, and the model's source words (`Vocab.word_begins`) are whole
sentences, so that an architecture that reads words from their parts has a position, or a memory, for each.
"""

from __future__ import annotations

__all__ = ["Stories", "sentences"]

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import DataError, Encoded, Vocab
from s2s.data import CorpusOptions, CorpusTask, FileForm, missing_file_error
from s2s.io import read_json, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s import Example, Registry, Side, TokenNames
    from s2s_stories import StoriesConfig

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<sentence>")
SENTENCE = SPECIAL.index("<sentence>")
WORDS = "words.json"
WORD = re.compile(r"\w+(?:['’-]\w+)*")
"""A word within a blank-separated string; punctuation is ignored"""

FILES = FileForm(
    "babi",
    is_one=lambda items: all(isinstance(item, str | Path) for item in items),
    accepts=lambda _: True,
    name_of=lambda paths: paths[0].stem,
    expected="a file in the format of bAbI, a list of them, or {{name: {{files: [qa1.txt], weight: 2}}, …}}",
)
"""Any number of files are one corpus."""


class Stories(CorpusTask):
    """Words separated by blanks; a sentence ends with . ? or !"""

    config: StoriesConfig
    file_form = FILES
    names: list[str]
    """By id; set, as `ids`, by `learn` or `load`"""
    ids: dict[str, int]

    def __init__(self, config: StoriesConfig, registry: Registry | None = None) -> None:
        """Without a `registry`, corpora are those of the installed plugins."""
        super().__init__(config, registry, {"invalid": config.invalid})
        self.metrics = config.metrics

    def named_corpora(self, split: str) -> list[CorpusOptions]:
        """The corpora that the option of a split names, or without task.train the generated one."""
        config = self.config
        if config.train:
            return super().named_corpora(split)
        options = {"facts": config.facts, "stories": config.stories, "sentences": config.sentences}
        return [CorpusOptions("stories", "stories", {**options, "seed": config.synthetic_seed}, key="task")]

    def settings(self) -> dict[str, Any]:
        """Words are all that determines ids."""
        return {}

    def learn(self, directory: Path) -> None:
        """All words of the training stories and answers."""
        words: set[str] = set()
        for example in self.usable():
            words.update(WORD.findall(example.src), example.tgt.split())
        if not words:
            raise DataError("task.train: there is no story to learn from")
        write_file(directory / WORDS, json.dumps(sorted(words), ensure_ascii=False, indent=0).encode() + b"\n")
        self.load(directory)

    def load(self, directory: Path) -> None:
        """Read the words."""
        try:
            words = [str(word) for word in read_json(directory / WORDS)]
        except FileNotFoundError:
            raise missing_file_error(directory / WORDS) from None
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{directory / WORDS}: cannot be read ({error}); prepare again") from None
        self.names = [*SPECIAL, *words]
        self.ids = {name: i for i, name in enumerate(self.names)}
        n = len(self.names)
        self.vocab = Vocab(src=n, tgt=n, joint=True, word_begins=[i == SENTENCE for i in range(n)])

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Ids of both sides, without bos and eos."""
        sources = self.encode_source([example.src for example in examples])
        answers = ([self._id(word) for word in example.tgt.split()] for example in examples)
        return [Encoded(src, tgt) for src, tgt in zip(sources, answers, strict=True)]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of texts, without bos and eos."""
        return [[self._id(word) for word, _ in tokens(line)] for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The words of an answer."""
        return " ".join(self.pieces(ids, src))

    def source_text(self, ids: Sequence[int]) -> str:
        """The words of source ids, each sentence ended by a full stop."""
        text = " ".join(self.names[i] for i in ids)
        return " ".join(f"{part.strip()}." for part in text.split(SPECIAL[SENTENCE]) if part.strip())

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """A word for each token."""
        return [self.names[i] for i in ids]

    def vocabulary(self, side: Side) -> Sequence[TokenNames]:
        """The words, the same on both sides."""
        return self.names

    def source_offsets(self, src: str) -> Sequence[tuple[int, int] | None]:
        """Each token has its word; None for the tokens that begin sentences."""
        words = [word.span() for word in re.finditer(r"\S+", src)]
        return [None if number is None else words[number] for _, number in tokens(src)]

    def describe(self) -> Iterable[str]:
        """Whether stories are generated."""
        if not self.config.train:
            c = self.config
            facts = "one sentence" if c.facts == 1 else f"{c.facts} sentences"
            yield f"no stories are given: {c.stories:,} are generated, whose questions are answered from {facts}"
        yield from super().describe()

    def _id(self, word: str) -> int:
        return self.ids.get(word, self.vocab.unk)


def tokens(text: str) -> list[tuple[str, int | None]]:
    """The tokens of a text, each with the number of its word; None for those that begin sentences."""
    words: list[tuple[str, int | None]] = []
    for sentence in sentences(text):
        words.append((SPECIAL[SENTENCE], None))
        words += [(part, number) for number, word in sentence for part in WORD.findall(word)]
    return words


def sentences(text: str) -> list[list[tuple[int, str]]]:
    """The words of each sentence, with their numbers in the text."""
    rows: list[list[tuple[int, str]]] = []
    ended = True
    for number, word in enumerate(text.split()):
        if ended:
            rows.append([])
        rows[-1].append((number, word))
        ended = word[-1] in ".?!"
    return rows
