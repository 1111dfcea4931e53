"""The corpora of a parsing task, treebanks as a corpus, and the cleaning of trees."""

from __future__ import annotations

__all__ = ["TREEBANK", "TreeCleaning", "TreebankCorpus", "style_of", "treebanks"]

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Corpus, DataError, Example, Rejected, UserError
from s2s.data import CorpusOptions, FileForm, parse_corpora
from s2s_parsing.treebank import (
    MALFORMED,
    NOTHING_LEFT,
    Cleaner,
    EmptiedTree,
    MalformedTree,
    format_of,
    read_brackets,
    read_treebank,
    treebank_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from s2s_parsing import ParsingConfig, TreebankConfig
    from s2s_parsing.tree import Tree

WSJ = "wsj"
SYNTHETIC = "synthetic"
"""The corpus that is used without task.treebank and task.train"""

TREEBANK = FileForm(
    "treebank",
    is_one=lambda items: all(isinstance(item, str | Path) for item in items),
    accepts=lambda _: True,
    name_of=lambda paths: paths[0].name.split(".")[0] or paths[0].name,
    expected="a file, a folder of .mrg files, a list of them, or {{name: {{files: [a.mrg,b.mrg], weight: 2}}, …}}",
)
"""Any number of files and folders are one corpus."""


NAMES = {"brackets": "", "discbracket": "discbracket", "export": "Negra export", "tiger": "TIGER XML"}
"""Of formats; brackets need no mention"""


class TreebankCorpus(Corpus):
    """Trees in files, unchanged but for gaps: targets on one line, with an empty source."""

    def __init__(self, config: TreebankConfig) -> None:
        self.config = config

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """Every tree, in order, with its traces and function tags."""
        for tree in read_treebank(self.files(split), None, self.config.invalid, self.config.discontinuity):
            yield tree if isinstance(tree, Rejected) else Example("", str(tree))

    def files(self, split: str) -> list[Path]:
        """The files, and in folders those named .mrg."""
        sections = split if self.config.standard_split else None
        return [file for path in self.config.files for file in treebank_files(Path(path).expanduser(), sections)]  # type: ignore[arg-type]

    def settings(self) -> dict[str, Any]:
        """How trees that cannot be read are handled."""
        refuses = {"discontinuity": "refuse"} if self.config.discontinuity == "refuse" else {}
        return {"invalid": self.config.invalid, **refuses}

    def describe(self) -> Iterable[str]:
        """Formats other than brackets, and lines that are no trees."""
        with suppress(UserError):
            found = [format_of(Path(file)) for file in self.config.files if Path(file).is_file()]
            formats = sorted({NAMES[one.format] for one in found} - {""})
            if formats and self.config.discontinuity == "split":
                yield f"{' and '.join(formats)}: brackets with gaps are split into their parts, marked with *"
            if any(one.skips for one in found):
                yield "lines between trees that begin with # or *x* are comments and headers, and left out"


def treebanks(config: ParsingConfig, split: str) -> list[CorpusOptions]:
    """`task.treebank` and what the option of a split adds; without any treebank, the synthetic corpus."""
    if not config.has_files:
        options = {"tgt": "tree", "pairs": config.trees, "seed": config.synthetic_seed}
        return [CorpusOptions(SYNTHETIC, SYNTHETIC, options, key="task")]
    found = parse_corpora(getattr(config, split), f"task.{split}", TREEBANK)
    if config.treebank:
        options = {"files": [config.treebank], "standard_split": True}
        found = [CorpusOptions(WSJ, TREEBANK.corpus, options, key="task.treebank"), *found]
    names = [corpus.name for corpus in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"task.{split}: of {', '.join(names)}, two have one name; give each its own")
    return found


def style_of(corpus: CorpusOptions) -> str:
    """The annotation style of a corpus: its field `style`, or else one of its own, under its name."""
    return str(corpus.fields.get("style", corpus.name))


class TreeCleaning:
    """Removes from raw trees what a parser does not learn, and counts what was removed."""

    def __init__(self, config: ParsingConfig) -> None:
        self.config = config
        self.counts: dict[str, Counter[str]] = {}
        """What was removed when a corpus was last read, by split and name"""

    def clean(self, raw: Iterable[Example | Rejected], split: str, name: str) -> Iterator[Tree | Rejected]:
        """The trees of a corpus, from the targets of its examples."""
        counts = self.counts[f"{split} {name}"] = Counter()
        unary = "same" if self.config.unary == "same" and split == "train" else "keep"  # a reference keeps its chains
        cleaner = Cleaner(counts, unary=unary)  # type: ignore[arg-type]  # mypy widens the two literals
        for number, example in enumerate(raw, 1):
            yield example if isinstance(example, Rejected) else self._tree(example, cleaner, f"{name}, tree {number}")

    def describe(self) -> Iterable[str]:
        """A line for each corpus from which anything was removed."""
        for corpus, counts in self.counts.items():
            if counts:
                yield f"{corpus}: {', '.join(f'{n:,} {what}' for what, n in sorted(counts.items()))}"

    def _tree(self, example: Example, cleaner: Cleaner, place: str) -> Tree | Rejected:
        trees = list(read_brackets([(1, example.tgt)], cleaner))
        malformed = [tree for tree in trees if isinstance(tree, MalformedTree)]
        if len(trees) == 1 and not malformed:
            return NOTHING_LEFT if isinstance(trees[0], EmptiedTree) else trees[0]  # type: ignore[return-value]  # no MalformedTree
        if self.config.invalid == "drop":
            return MALFORMED
        what = malformed[0].what if malformed else f"{len(trees)} trees on a line, expected one"
        raise DataError(f"{place}: {what}; repair the corpus, or drop such trees with task.invalid=drop")
