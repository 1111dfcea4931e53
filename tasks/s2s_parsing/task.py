"""The parsing task: from a sentence to the tokens of its linearised tree."""

from __future__ import annotations

__all__ = ["Parsing"]

import json
import re
from collections import Counter
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from s2s import DataError, Encoded, Example, Rejected, Vocab
from s2s.data import CorpusOptions, CorpusTask, missing_file_error, tokenizer_kind
from s2s.io import read_json, write_file
from s2s_parsing.constraint.fallback import fallback
from s2s_parsing.corpora import TREEBANK, TreeCleaning, style_of, treebanks
from s2s_parsing.linear import FORMS, PERIOD, Linear, LinearConfig, Numbered, Tagged, UnwritableError
from s2s_parsing.ptb_tokenizer import looks_raw, tokenize
from s2s_parsing.source_encoder import SourceEncoder, words_of
from s2s_parsing.stack_guide import StackGuide
from s2s_parsing.styles import Styles
from s2s_parsing.svg_tree import html, svg
from s2s_parsing.text_tree import pretty
from s2s_parsing.tree import Tree, Word, leaves, map_words, to_nltk
from s2s_parsing.treebank import join_chains, read_brackets, split_joined
from s2s_parsing.unknown_words import UnknownWords
from s2s_parsing.vocabulary import TreeStatistics, TreeVocabulary, load_vocabulary, save_vocabulary
from s2s_parsing.word_parts import WordParts, count_words, load_words, save_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import nltk

    from s2s import Constraint, Registry, Side, TokenNames
    from s2s_parsing import ParsingConfig

SOURCE, WORDS, TARGET, SETTINGS = "source.model", "words.json", "target.json", "task.json"
N_ENDS = {"none": 0, "mark": 1, "number": PERIOD}
EXPERIMENTS = {"wsj_sample": 7_000, "genia": 20_000, "craft": 33_000, "treebanks": 500_000}
"""Experiment -> most trees for which a recipe takes it; they were measured on 3,000, 14,000, 26,000 and 43,000"""
UNWRITABLE = Rejected("labels that task.linear cannot tell apart")


class Parsing(CorpusTask):
    """Sentences of words separated by blanks, and their trees."""

    config: ParsingConfig
    file_form = TREEBANK
    source: SourceEncoder | WordParts
    """Set, as `target`, by `learn` or `load`."""
    target: TreeVocabulary
    views = MappingProxyType({"pretty": pretty, "svg": svg, "html": html})

    def __init__(self, config: ParsingConfig, form: Linear | None = None, registry: Registry | None = None) -> None:
        """Without a `form`, `config.linear` names a shipped one; without a `registry`, plugins are loaded."""
        super().__init__(config, registry, {"invalid": config.invalid, "discontinuity": config.discontinuity})
        self.metrics = config.metrics
        self.metric_options = {"param": config.param}
        form = form or FORMS[config.linear](LinearConfig(name=config.linear))
        form = Tagged(form) if config.tags == "predict" else form
        self.form = Numbered(form) if config.word_ends == "number" else form
        styles = dict.fromkeys(style_of(corpus) for corpus in self.named_corpora("train")) if config.style else ()
        self.styles = Styles([*styles], config.style)
        self._kind = tokenizer_kind(config.subword, self.data_sources.registry)
        self._cleaning = TreeCleaning(config)

    def named_corpora(self, split: str) -> list[CorpusOptions]:
        """Treebanks, or the synthetic corpus."""
        return treebanks(self.config, split)

    def settings(self) -> dict[str, Any]:
        """Every option that determines trees or ids."""
        config = self.config
        settings = {**self._shape(), "subword": self._kind.recorded, "size": config.size}
        return settings | ({"style": config.style} if config.style else {})

    def files(self) -> Sequence[Path]:
        """Those of the tokeniser."""
        return self._kind.files()

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """Words separated by blanks, with styles behind the mark of theirs, and the cleaned tree on one line."""
        style = next((style_of(one) for one in self.named_corpora(split) if one.name == corpus), "")
        for tree in self._cleaning.clean(super().examples(split, corpus), split, corpus):
            yield tree if isinstance(tree, Rejected) else self._example(tree, style)

    def open_vocab_size(self) -> str:
        """task.src_vocab_size, unless it is set or sources are encoded without a learnt vocabulary of a size."""
        learns = self.config.words == "subwords" and self._kind.learns
        return "task.src_vocab_size" if learns and self.config.src_vocab_size is None else ""

    def recommended_experiment(self, n_pairs: int) -> str:
        """The one that was measured on the treebank of the nearest size."""
        return next((name for name, most in EXPERIMENTS.items() if n_pairs <= most), "")

    def learn(self, directory: Path) -> None:
        """Train the subwords and collect the target vocabulary, from all usable training trees."""
        config, option = self.config, "task.src_vocab_size"
        trees = TreeStatistics(self.form)
        if config.words == "parts":
            counts = count_words(self._sentences(trees))
            labels = trees.tag_names() if config.word_labels == "tags" else ()
            save_words(counts, directory / WORDS, labels, styles=self.styles.names)
        else:
            self._kind.learn(self._sentences(trees), directory / SOURCE, config.size, option=option)
        save_vocabulary(trees.vocabulary(), directory / TARGET)
        written = {**self._settings(self._load_source(directory)), "cleaned": self._cleaning.counts}
        write_file(directory / SETTINGS, json.dumps(written, indent=2).encode() + b"\n")
        self.load(directory)

    def load(self, directory: Path) -> None:
        """Read the vocabularies; raises DataError if they do not fit the configuration."""
        self.source = self._load_source(directory)
        written = {"styles": []} | _read_settings(directory / SETTINGS)  # older preparations have none
        for key, value in self._settings(self.source).items():
            if written.get(key) != value:
                raise DataError(
                    f"{directory}: made with {key}={written.get(key)}, but {key}={value} is configured; prepare again"
                )
        self._cleaning.counts = {name: Counter(counts) for name, counts in written["cleaned"].items()}
        self.target = load_vocabulary(self.form, directory / TARGET)
        self.vocab = Vocab(
            src=self.source.size,
            tgt=self.target.size,
            word_begins=self.source.word_begins,
            unknown=self.source.unknown,
            labels=self.source.label_ids,
            guide=StackGuide(self.target.actions, self.target.bounds.with_reserve().depth),
        )

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Ids of both sides, without bos and eos."""
        trees = [read_tree(example.tgt) for example in examples]
        lines = [self.styles.marked(example.src) for example in examples]
        if isinstance(self.source, WordParts) and self.source.labels:
            marks = (self.styles.split(line)[0] for line in lines)
            src = [self.source.encode_labelled(leaves(tree), mark) for tree, mark in zip(trees, marks, strict=True)]
        else:
            src = self.source.encode(lines)
        return [Encoded(ids, self.target.encode(self._written(tree))) for ids, tree in zip(src, trees, strict=True)]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of new sentences, without bos and eos."""
        self.styles.warn_of_unknown(lines)
        return self.source.encode([self.styles.marked(line) for line in lines])

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The tree on one line; its leaves are the words of `src` whatever the ids are."""
        tree, mended = self.target.decode(ids, self._words(src))
        self.counts["malformed and repaired"] += mended
        return self._read_out(tree)

    def with_tags(self, line: str, labels: Sequence[int]) -> str:
        """A tree on one line, with the parts of speech given by `labels`, its words' indices in `vocab.labels`.

        Words without a label, in a sentence that was truncated, keep their tags.
        """
        assert isinstance(self.source, WordParts), "only words of parts have labels"
        names = list(self.source.labels)
        tags = (names[i] for i in labels)
        tagged = map_words(read_tree(line), lambda tag, word: Word(next(tags, tag), word))
        return str(self.target.punctuation.retag(tagged))

    def source_text(self, ids: Sequence[int]) -> str:
        """The words of source ids."""
        return self.source.decode(ids)

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """The tokens of the linearisation."""
        return [self.target.tokens[i] for i in ids]

    def vocabulary(self, side: Side) -> Sequence[TokenNames]:
        """The subwords and word ends of sources, the tokens of the linearisation."""
        if side == "tgt":
            return self.target.tokens
        return self.source.pieces

    def source_offsets(self, src: str) -> Sequence[tuple[int, int] | None]:
        """Each token has its word; the mark of a style is the first word of a line that has it."""
        (ids,) = self.encode_source([src])
        words = [word.span() for word in re.finditer(r"[^ \t\n\v\f\r]+", src)][bool(self.styles.split(src)[0]) :]
        return [words[n - 1] for n in accumulate(self.source.word_begins[i] for i in ids)]

    def target_offsets(self, ids: Sequence[int], src: str) -> Sequence[tuple[int, int] | None]:
        """None: the leaves of a tree are the words of its sentence, so that no alignment is needed."""
        return [None] * len(ids)

    def looks_raw(self, line: str) -> bool:
        """Whether punctuation or contractions show that a line is not in the treebank's words."""
        return looks_raw(self.styles.split(line)[1])

    def read_raw(self, line: str) -> str:
        """The tokens of a raw sentence, separated by blanks, behind the mark of its style if it has one."""
        self.styles.warn_of_unknown([line])  # here, since tokenising takes such a word apart
        mark, text = self.styles.split(line)
        return " ".join([*words_of(mark), *tokenize(text)])

    def as_object(self, hyp: str) -> nltk.Tree | None:
        """The tree as an nltk.Tree; None for the output of an empty input, which is empty."""
        return to_nltk(read_tree(hyp)) if hyp.strip() else None

    def fallback(self, src: str) -> str:
        """A right-branching tree, if the search found none."""
        self.counts["without a parse, right-branching instead"] += 1
        return self._read_out(self.target.punctuation.retag(fallback(self._words(src))))

    def constraint(self) -> Constraint:
        """Only trees over the sentence's words, at most 1.5 times as deep as the deepest training tree."""
        from s2s_parsing.constraint.automaton import TreeConstraint

        bounds = self.target.bounds.with_reserve()
        return TreeConstraint(self.target.actions, self.source.word_begins, bounds, eos=self.vocab.eos)

    def variation(self) -> Callable[[Encoded, int], Encoded] | None:
        """Unknown words, according to task.unknown_symbols."""
        if isinstance(self.source, WordParts) or not self.varied_share():
            return None
        return UnknownWords(self.config.unknown_symbols, self.source)

    def varied_share(self) -> float:
        """The share of the pairs that have one."""
        return self.config.unknown_symbols

    def describe(self) -> Iterable[str]:
        """Whether the synthetic corpus is used, and what was removed from trees."""
        if not self.config.has_files:
            yield f"no treebank is given: {self.config.trees:,} English trees of the synthetic corpus"
        yield from self._cleaning.describe()
        yield from super().describe()

    def _shape(self) -> dict[str, Any]:
        """The options that determine the target vocabulary."""
        shape = {key: getattr(self.config, key) for key in ("linear", "unary", "word_ends")}
        newer = {"words": "subwords", "tags": "form", "word_labels": "none"}  # older preparations used these values
        return shape | {
            key: getattr(self.config, key) for key, old in newer.items() if getattr(self.config, key) != old
        }

    def _words(self, src: str) -> list[str]:
        """The words of a line, without the mark of a style."""
        return words_of(self.styles.split(src)[1])

    def _settings(self, source: SourceEncoder | WordParts) -> dict[str, Any]:
        """What prepared data were made with, and must be loaded with."""
        return {**self._shape(), "source": source.identity, "styles": list(self.styles.names)}

    def _load_source(self, directory: Path) -> SourceEncoder | WordParts:
        if self.config.words == "parts":
            return load_words(directory / WORDS)
        return SourceEncoder(self._kind.load(directory / SOURCE), N_ENDS[self.config.word_ends])

    def _example(self, tree: Tree, style: str) -> Example | Rejected:
        written = self._written(tree)
        try:
            self.form.tokens(written)
        except UnwritableError:
            return UNWRITABLE
        if written is not tree and str(split_joined(written)) != str(tree):
            return UNWRITABLE
        return Example(self.styles.in_style(" ".join(word for _, word in leaves(tree)), style), str(tree))

    def _written(self, tree: Tree) -> Tree:
        """The tree as it is linearised: with task.unary=join, one bracket for every chain."""
        return join_chains(tree) if self.config.unary == "join" else tree

    def _read_out(self, tree: Tree) -> str:
        """The tree as in the treebank: the inverse of `_written`."""
        return str(split_joined(tree) if self.config.unary == "join" else tree)

    def _sentences(self, statistics: TreeStatistics) -> Iterator[str]:
        """The training sentences; their trees are added to `statistics` meanwhile, so that files are read only once."""
        for example in self.usable():
            statistics.add(self._written(read_tree(example.tgt)))
            yield " ".join(self._words(example.src))


def read_tree(line: str) -> Tree:
    """The tree of an example's line."""
    trees = list(read_brackets([(1, line)]))
    if len(trees) != 1 or not isinstance(trees[0], Tree):
        raise DataError(
            f"expected one tree in brackets on a line, not {line[:60]!r}; for indented trees, "
            "python -m s2s_parsing.treebank FILE writes each on one"
        )
    return trees[0]


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        written = read_json(path)
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); prepare again") from None
    if not isinstance(written, dict) or not isinstance(written.get("cleaned"), dict):
        raise DataError(f"{path}: not the settings of this task; prepare again")
    return written
