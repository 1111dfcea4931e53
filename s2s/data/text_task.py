"""A task of text to text in tokens of a registered tokeniser, to build others on."""

from __future__ import annotations

__all__ = ["TextTask"]

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.data.columns import EncodedColumns, PairReader, TextColumns, column
from s2s.data.context import (
    SEPARATOR,
    behind_context,
    cut_context,
    in_documents,
    previous_texts,
    with_document_fields,
)
from s2s.data.corpus_task import CorpusTask
from s2s.data.marks import Marks
from s2s.data.noise import UnknownSymbols
from s2s.data.pair_files import PAIR_FILES
from s2s.data.side_tokenizers import SideTokenizers
from s2s.data.text_variation import TextVariation, build_noises, learn_noises, load_noises, noisy
from s2s.data.tokenizer import tokenizer_kind
from s2s.errors import ConfigError, DataError
from s2s.task import Encoded, Example
from s2s.text.offsets import lower_offsets
from s2s.vocab import Vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from s2s.data.corpus_options import CorpusOptions
    from s2s.data.text_config import TextConfig
    from s2s.data.tokenizer import Tokenizer
    from s2s.registry import Registry
    from s2s.task import Rejected, TokenNames
    from s2s.text.offsets import Offset
    from s2s.vocab import Side

T = TypeVar("T")


class TextTask(CorpusTask):
    """Pairs of texts as tokens. A task that is built on it may ask for symbols, and mark sources with them."""

    config: TextConfig
    file_form = PAIR_FILES
    marks: Sequence[str] = ()
    """Symbols before every source, each with its fields filled in: ("<2{language}>",)"""
    end_marks: Sequence[str] = ()
    """Symbols behind the eos of every source, of which the last one ends it, as in mBART"""
    start_marks: Sequence[str] = ()
    """Symbols behind `Vocab.starting_tokens` of every target, as in NLLB"""
    own_start = False
    """Whether the first of `start_marks` replaces those tokens, as in mBART"""
    src: Tokenizer
    """Set, as `tgt`, by `learn` or `load`; of the same tokens if the vocabulary is joint"""
    tgt: Tokenizer
    _separator: int | None = None
    """Token behind each text of the context, if the task reads any"""

    def __init__(self, config: TextConfig, registry: Registry | None = None) -> None:
        """Without a `registry`, corpora and tokenisers are those of the installed plugins."""
        super().__init__(config, registry, _shared(config))
        if config.train and any(corpus.defaults for corpus in self.named_corpora("train")) and all(self.languages):
            src, tgt = self.languages  # for development and test sets, which have many
            self.data_sources.shared = {"src_lang": src, "tgt_lang": tgt, **self.data_sources.shared}
        self.context = config.context
        if self.context:
            self.fields = with_document_fields(self.fields)
        self.metrics, self.metric_options = config.metrics, self._metric_options()
        coverage = {} if config.character_coverage == 1 else {"character_coverage": config.character_coverage}
        self.tokenizer_kind = tokenizer_kind(config.subword, self.data_sources.registry, defaults=coverage)
        self.tokenizers = SideTokenizers(self.tokenizer_kind, config.sizes(), lowercase=config.lowercase)
        self.noises = build_noises(config, self.data_sources.registry)
        if not self.tokenizer_kind.learns and (option := config.size_option()):
            raise ConfigError(f"{option}: task.subword names a complete vocabulary, which has a size; leave it out")

    @cached_property
    def languages(self) -> tuple[str, str]:
        """Of sources and targets: as the options say, else by the names of the training files; empty: unknown."""
        corpora = self.named_corpora("train") if self.config.train else ()
        named = {self._languages_of(corpus) for corpus in corpora}
        src, tgt = named.pop() if len(named) == 1 else ("", "")
        return self.config.src_lang or src, self.config.tgt_lang or tgt

    def _languages_of(self, corpus: CorpusOptions) -> tuple[str, str]:
        """Of a corpus by its name, else by the names of its files; empty: unknown."""
        if corpus.defaults:
            return str(corpus.defaults.get("src_lang", "")), str(corpus.defaults.get("tgt_lang", ""))
        return self.file_form.languages(corpus.options.get("files", ()))

    def directions(self) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
        """The one between its two languages, if both are known."""
        return [(*self.languages, {})] if all(self.languages) else []

    def source_language(self, fields: Mapping[str, Any]) -> str:
        """That of all sources."""
        return self.languages[0]

    def _metric_options(self) -> dict[str, Any]:
        """The outputs' language, and case-insensitive scoring for a lower-casing task."""
        language = {"lang": self.languages[1]} if self.languages[1] else {}
        return {**language, "lowercase": True} if self.config.lowercase else language

    def symbols(self) -> Sequence[str]:
        """Texts that are one token each wherever they occur, such as the tags of languages."""
        return ()

    def _all_symbols(self) -> list[str]:
        of_noises = dict.fromkeys(symbol for noise in self.noises for symbol in noise.symbols)
        return [*self.symbols(), *([SEPARATOR] if self.context else []), *of_noises]

    def settings(self) -> dict[str, Any]:
        """Every option that determines ids."""
        config, symbols = self.config, self._all_symbols()
        settings = {
            "subword": self.tokenizer_kind.recorded,
            "sizes": {side: size for side, (_, size) in config.sizes().items()},
            "character_coverage": config.character_coverage,
            "lowercase": config.lowercase,
        }
        others = {"symbols": symbols, "context": self.context, "noise": config.noise}
        return settings | {name: value for name, value in others.items() if value}

    def files(self) -> Sequence[Path]:
        """Those of the tokeniser, and of noise."""
        return [*self.tokenizer_kind.files(), *(path for noise in self.noises for path in noise.files())]

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The pairs of one corpus, lower-cased if task.lowercase is set, with the sentences before them as context."""
        pairs = super().examples(split, corpus)
        if self.config.lowercase:
            pairs = pairs.mapped(str.lower) if isinstance(pairs, PairReader) else map(_lower, pairs)
        return in_documents(pairs, self.context, f"{split} corpus {corpus}") if self.context else pairs

    def open_vocab_size(self) -> str:
        """task.vocab_size, unless it is set or the tokeniser has all its tokens."""
        return "task.vocab_size" if self.tokenizer_kind.learns and self.config.vocab_size is None else ""

    def describe(self) -> Iterable[str]:
        """The lines of the corpora, and from which sample the vocabulary was learnt, if it is known."""
        yield from super().describe()
        for side, sample in self.tokenizers.samples.items():
            yield f"{side} vocabulary: learnt from {sample}"

    def learn(self, directory: Path) -> None:
        """Train one tokeniser on both sides, or one on each, from all usable training pairs with noise."""
        learn_noises(self.noises, lambda: ((example.src, example.tgt) for example in self.usable()), directory)
        self.tokenizers.learn(directory, self._lines, self._all_symbols())
        self.load(directory)

    def extend(self, directory: Path, n_tokens: int) -> None:
        """Add tokens to the one tokeniser, or to each."""
        self.tokenizers.extend(directory, self._lines, n_tokens)
        self.load(directory)

    def prune(self, directory: Path, lines: Iterable[str]) -> Mapping[Side, Sequence[int]]:
        """As `TokenizerKind.prune`, of the one tokeniser, or of each."""
        symbols = self._all_symbols()
        return self._changed(directory, lambda path: self.tokenizer_kind.prune(lines, path, symbols=symbols))

    def add_tokens(self, directory: Path, tokens: Sequence[str]) -> Mapping[Side, Sequence[Sequence[int]]]:
        """As `TokenizerKind.add`, to the one tokeniser, or to each."""
        return self._changed(directory, lambda path: self.tokenizer_kind.add(tokens, path))

    def _changed(self, directory: Path, change: Callable[[Path], Mapping[Side, T]]) -> dict[Side, T]:
        changed = self.tokenizers.changed(directory, change)
        self.load(directory)
        return changed

    def load(self, directory: Path) -> None:
        """Read the tokenisers; raises DataError if they do not fit the configuration."""
        self.src, self.tgt = self.tokenizers.load(directory)
        vocab = _vocab(self.src, self.tgt, joint=self.config.joint)
        tags = self._tags()
        self.vocab = replace(
            vocab,
            own_end=bool(self.end_marks),
            own_start=self.own_start,
            tags=len(tags),
            first_tag=tags.start if tags else -1,
        )
        self._around = Marks(
            self.config.name, self.symbols, self.src, self.vocab.src_eos, before=self.marks, behind=self.end_marks
        )
        self._separator = self.src.id_of(SEPARATOR) if self.context else None
        load_noises(self.noises, directory)

    def _tags(self) -> range:
        """The ids of all symbols, if one of them is every source's first token; empty also if there are others between
        them."""
        if not self.marks or self.src.before or self.context:
            return range(0)
        ids = sorted(map(self.src.id_of, self.symbols()))
        return range(ids[0], ids[-1] + 1) if ids and ids[-1] - ids[0] < len(ids) else range(0)

    def encode(self, examples: Sequence[Example]) -> Sequence[Encoded]:
        """Ids of both sides, without bos and eos; a target begins with its `forced_tokens`."""
        tgt = self.tgt.encode(self._all_cased(column(examples, "tgt")))
        if self.start_marks:
            tgt = [[*self.forced_tokens(one), *ids] if ids else [] for one, ids in zip(examples, tgt, strict=True)]
        src = self.encode_inputs(examples)
        return EncodedColumns(src, tgt) if isinstance(examples, TextColumns) else list(map(Encoded, src, tgt))

    def forced_tokens(self, example: Example) -> Sequence[int]:
        """Ids of `start_marks`."""
        return self._around.ids(self.start_marks, example.fields, self.tgt)

    def encode_inputs(self, inputs: Sequence[Example]) -> list[list[int]]:
        """Ids of sources, without bos and eos, behind those of the texts before them, then their marks; an empty text
        has none."""
        texts = self.encode_source(column(inputs, "src"))
        if self._around.n_before or self._around.n_behind:
            pairs = zip(texts, inputs, strict=True)
            texts = [self._around.around(ids, one.fields) if ids else [] for ids, one in pairs]
        if self._separator is None:
            return texts
        previous = [previous_texts(one.fields, self.context) for one in inputs]
        return behind_context(texts, previous, self.encode_source, self._separator)

    def cut_source(self, ids: Sequence[int], most: int) -> list[int]:
        """The text is cut, and what stands behind it remains."""
        return self._around.cut(ids, most)

    def cut_context(self, ids: Sequence[int], most: int) -> list[int]:
        """Up to the separator behind the last text that has to go."""
        return cut_context(ids, most, self._separator)

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of texts without marks and context; what is spelt like the separator is left out."""
        encoded = self.src.encode(self._all_cased(lines))
        if self._separator is None:
            return encoded
        return [[i for i in ids if i != self._separator] for ids in encoded]

    def covers(self, text: str) -> bool:
        """As the source's tokeniser."""
        return self.src.covers(self._cased(text))

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The text of target ids."""
        return self.tgt.decode(ids)

    def source_text(self, ids: Sequence[int]) -> str:
        """The text of source ids, without its context."""
        text = self.cut_context(ids, 0)
        return self.src.decode(text[self._around.n_before : len(text) - self._around.n_behind])

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """The tokens, of which ▁ begins a word in subwords."""
        return [self.tgt.pieces[i] for i in ids]

    def spellings(self) -> Sequence[bytes] | None:
        """As the target's tokeniser."""
        return self.tgt.spellings

    def spell(self, text: str) -> bytes:
        """As the target's tokeniser, in lower case if the task lower-cases."""
        return self.tgt.spell(self._cased(text))

    def vocabulary(self, side: Side) -> Sequence[TokenNames]:
        """The tokens."""
        return self.src.pieces if side == "src" else self.tgt.pieces

    def token_pieces(self, token: str, side: Side) -> list[int]:
        """As the tokeniser of that side."""
        return (self.src if side == "src" else self.tgt).split(token)

    def source_offsets(self, src: str) -> Sequence[Offset | None]:
        """As the source's tokeniser; marks stand for no characters."""
        text = self._cased(src)
        ids, offsets = self.src.encode([text])[0], self.src.offsets(text)
        offsets = [offset for i, offset in zip(ids, offsets, strict=True) if i != self._separator]
        inner = lower_offsets(src, offsets) if self.config.lowercase else offsets
        return [*([None] * self._around.n_before), *inner, *([None] * self._around.n_behind)]

    def target_offsets(self, ids: Sequence[int], src: str) -> Sequence[Offset | None]:
        """As the target's tokeniser."""
        return self.tgt.decoded_offsets(ids)

    def variation(self) -> Callable[[Encoded, int], Encoded] | None:
        """Noise, and other subwords on both sides, according to task.noise and task.subword_sampling."""
        return self._variation if self.varied_share() else None

    def varied_share(self) -> float:
        """As the noises and the sampling need."""
        return self._variation.share

    @cached_property
    def _variation(self) -> TextVariation:
        share, alpha = self.config.unknown_symbols, self.config.subword_sampling
        unknown = [UnknownSymbols(share, self.src, self.tgt)] if share else []
        samplers = (self.src.sampler(alpha), self.tgt.sampler(alpha)) if alpha else ()
        return TextVariation(self.src, self.tgt, [*unknown, *self.noises], samplers, self._texts_of, self._cased)

    def _texts_of(self, pair: Encoded) -> tuple[slice, slice]:
        """Where the texts of a pair are, without context and marks."""
        n_context = len(pair.src) - len(self.cut_context(pair.src, 0))
        return slice(n_context + self._around.n_before, len(pair.src) - self._around.n_behind), slice(
            len(self.start_marks), None
        )

    def _cased(self, line: str) -> str:
        return line.lower() if self.config.lowercase else line

    def _all_cased(self, lines: Sequence[str]) -> Sequence[str]:
        return list(map(str.lower, lines)) if self.config.lowercase else lines

    def _lines(self, side: str) -> Iterator[str]:
        """The training texts of one side, or of both."""
        for number, example in enumerate(self.usable()):
            texts = noisy((example.src, example.tgt), self.noises, number)
            yield from map(self._cased, texts if side == "joint" else texts[side == "tgt" :][:1])


def _vocab(src: Tokenizer, tgt: Tokenizer, *, joint: bool) -> Vocab:
    """The vocabulary of these tokenisers, with their special ids; DataError if unk is another one on each side."""
    if src.unk != tgt.unk:
        raise DataError(
            f"the unknown token is {src.unk} in {src.path} and {tgt.unk} in {tgt.path}: both sides need the same; give "
            "task.joint=true"
        )
    return Vocab(
        src=src.size,
        tgt=tgt.size,
        joint=joint,
        pad=tgt.pad,
        unk=tgt.unk,
        bos=tgt.bos,
        eos=tgt.eos,
        src_pad=src.pad,
        src_eos=src.eos if src.src_eos == -1 else src.src_eos,
        starting_tokens=tuple(tgt.starting_tokens),
    )


def _lower(pair: Example | Rejected) -> Example | Rejected:
    return Example(pair.src.lower(), pair.tgt.lower(), pair.fields) if isinstance(pair, Example) else pair


def _shared(config: TextConfig) -> dict[str, Any]:
    """Options of the task for corpora that have them."""
    chosen = {"columns": config.columns, "src_lang": config.src_lang, "tgt_lang": config.tgt_lang}
    chosen = {name: value for name, value in chosen.items() if value}
    return {"invalid": config.invalid, **chosen, **({"documents": True} if config.context else {})}
