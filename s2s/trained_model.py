"""A trained run in a program: what s2s-generate and s2s-score do, for texts in memory.

Shapes: h heads, Q queries, K keys; of one pair, without a dimension for the batch.
"""

from __future__ import annotations

__all__ = ["PairAttention", "TrainedModel"]

from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from s2s.batch import make_batch
from s2s.compose import arguments_of, compose
from s2s.config import GenerateConfig, Mark
from s2s.errors import ConfigError, DataError
from s2s.generation import score
from s2s.generation.build import load_for_decoding
from s2s.generation.inputs import INPUT_TYPES, as_input, as_inputs
from s2s.generation.markup_documents import format_by_extension, named_format, read_file, translate_document
from s2s.metrics import build_metrics
from s2s.model import AttentionMap, evaluating
from s2s.task import Example
from s2s.text_lists import as_texts
from s2s.training.dev_set import grouped, scores_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.generation import Generator, Input, Output
    from s2s.generation.inputs import AnyInput
    from s2s.generation.scoring import ScoredTarget
    from s2s.metrics import Score
    from s2s.plugin import Plugins
    from s2s.task import Side


@dataclass(frozen=True)
class PairAttention:
    """All attention weights of a pair."""

    src: list[str]
    """The source's tokens, eos last"""
    tgt: list[str]
    """The tokens that are predicted, eos last: the queries of the target side. Its keys are the first starting token,
    then all of these but the last"""
    maps: list[AttentionMap]
    """Of every kind and layer; weights [h, Q, K]"""


class TrainedModel:
    """A run, or several that decode together; made by `s2s.load`."""

    def __init__(self, arguments: Sequence[str], plugins: Plugins) -> None:
        """arguments: those of s2s-generate. plugins: as `load_plugins` returns them."""
        self._arguments, self._plugins = list(arguments), plugins
        schema = plugins.registry.with_options(GenerateConfig)
        self._of_files, self._of_models = Mark.options(schema, Mark.OF_FILES), Mark.options(schema, Mark.OF_MODELS)
        _check_options(self._arguments, self._of_files, "inputs are given, and outputs returned, as texts")
        defaults = compose(GenerateConfig, [*self._arguments, "format=jsonl"], plugins).config
        self._nbest, self._raw, self._ready = defaults.nbest, defaults.raw, load_for_decoding(defaults, plugins)
        self._generators: dict[tuple[str, ...], Generator] = {}
        first = self._ready.models.first
        self.config, self.task, self.device = first.config, first.task, self._ready.device
        self.model = self._ready.models.model
        """The network; an ensemble is one network, too. It has all its weights with matmul=torch; the products of other
        libraries, which matmul=auto may choose, keep them in forms of their own"""
        self.description = self._ready.description
        """Device, backends, and any combined models, in words"""

    def translate(self, texts: AnyInput | Iterable[AnyInput], **options: Any) -> Any:
        """The output text of a text, or of each of several; with nbest=N > 1, the list of the N best.

        texts: one with fields is a mapping, {"src": "A cat.", "language": "de"}; `input_fields` are fields of all.
        options: those of s2s-generate that do not concern the models: search={"beam": 8, "min_len": 3}, raw=True, ….
        """
        if isinstance(texts, INPUT_TYPES):
            return self.translate([texts], **options)[0]
        outputs = self.generate(texts, **options)
        if options.get("nbest", self._nbest) == 1:
            return [output.hyp for output in outputs]
        return [[candidate.hyp for candidate in output.nbest] for output in outputs]

    def parse(self, texts: AnyInput | Iterable[AnyInput], **options: Any) -> Any:
        """As `translate`, with every output text as the task's own object, such as an nltk.Tree.

        texts: as for `translate`. options: as for `translate`.
        """
        if isinstance(texts, INPUT_TYPES):
            return self.parse([texts], **options)[0]
        outputs = self.translate(texts, **options)
        read = self.task.as_object
        return [read(hyp) if isinstance(hyp, str) else list(map(read, hyp)) for hyp in outputs]

    def generate(self, texts: Iterable[AnyInput], **options: Any) -> Iterator[Output]:
        """The output of each text, in order, with its candidates, their scores, tokens and log-probabilities.

        texts: may be endless: `buffer_size` of them are read ahead; those of a list are checked at once. An
        `s2s.generation.Input`, or a mapping with its keys, also says how the output begins, and what it contains.
        options: as for `translate`.
        """
        inputs = as_inputs([texts] if isinstance(texts, INPUT_TYPES) else texts)
        return self.generator(**options)(inputs)

    def generator(self, **options: Any) -> Generator:
        """What `generate` calls, with its counts of inputs and outputs; made once for each choice of options.

        options: as for `translate`.
        """
        _check_options(options, self._of_files, "inputs are given, and outputs returned, as texts")
        _check_options(options, self._of_models, "it concerns the models; give it to s2s.load")
        words = arguments_of(GenerateConfig, options) if options else []
        key = tuple(words)
        if key not in self._generators:
            composed = compose(GenerateConfig, [*self._arguments, *words, "format=jsonl"], self._plugins)
            self._generators[key] = self._ready.generator(composed).generator
        return self._generators[key]

    def translate_document(self, document: str | Path | bytes, format: Any = "", **options: Any) -> bytes:
        """The translation of a document, by its path or as bytes: its markup is put around the words aligned with those
        that it was around, and all else comes back byte for byte. Raises DataError for bytes of no such format.

        document: its path, or its content.
        format: a document format, such as html or {"name": "po", "retranslate": True}; by default that of the path's
        extension.
        options: as for `translate`.
        """
        registry = self._plugins.registry
        if isinstance(document, bytes) and not format:
            raise ConfigError(f"format: name one for bytes.{registry.known_hint('document_format')}")
        path = None if isinstance(document, bytes) else Path(document)
        chosen = format or format_by_extension(str(path), registry)
        if not chosen:
            known = registry.known_hint("document_format")
            raise ConfigError(f"{path}: no document format has files with such a name; give format.{known}")
        data = document if isinstance(document, bytes) else read_file(Path(document))
        return translate_document(named_format(chosen, registry).read(data), self.generator(**options))

    def score(self, src: AnyInput | Sequence[AnyInput], tgt: str | Sequence[str], tokens: int = 4000) -> Any:
        """The log-probability of each target under the models, in nats (`ScoredTarget.log_prob`), and of each token.

        src: a source, or several.
        tgt: as many targets.
        tokens: tokens of both sides in a batch.
        """
        if isinstance(src, INPUT_TYPES) and isinstance(tgt, str):
            (scored,) = self.score([src], [tgt], tokens)
            return scored
        if isinstance(src, INPUT_TYPES) or isinstance(tgt, str):
            raise DataError("one of source and target is a text, and the other several; give two texts, or two lists")
        sources, targets = _pairs(src, tgt, "target")
        if not isinstance(tokens, Integral) or tokens < 1:
            raise ConfigError(f"tokens={tokens!r} must be a number from 1 up")
        examples = map(self._example, self._following(sources), targets)
        results: list[ScoredTarget] = list(score(self.model, self.task, examples, self.device, tokens))
        return results

    def evaluate(
        self, src: Iterable[AnyInput], refs: Iterable[str], metrics: Any = None, samples: int = 1000, **options: Any
    ) -> dict[str, Score]:
        """The scores of the outputs for `src`, under the names of `metrics`: by default the task's.

        Of inputs in groups that the task scores apart these are means, and each group has scores of its own,
        such as en-de/bleu.

        src: as for `generate`. refs: one for each source. metrics: as for `s2s.evaluate`. samples: of the bootstrap for
        the 95% intervals; 0: none. options: as for `translate`.
        """
        sources, references = _pairs(src, refs, "reference")
        if not sources:
            raise DataError("there is nothing to score: no sources are given")
        if not isinstance(samples, Integral) or samples < 0:
            raise ConfigError(f"samples={samples!r} must be a number from 0 up")
        registry, fields = self._plugins.registry, [self._complete(one, **options).fields for one in sources]
        parts = grouped(self.task, registry, fields, metrics)
        built = parts[0].metrics if len(parts) == 1 else build_metrics(self.task, registry, metrics)
        hyps = [output.hyp for output in self.generate(sources, **options)]
        if len(parts) > 1:
            return {score.name: score for score in scores_of(parts, hyps, references, samples)}
        return {metric.name: metric.scored(hyps, [references], samples) for metric in built}

    @torch.no_grad()
    def attention(self, src: AnyInput, tgt: str | None = None) -> PairAttention:
        """The attention of every kind, layer and head while `tgt` is predicted.

        src: as for `translate`. tgt: by default the model's own output.
        """
        if tgt is not None and not isinstance(tgt, str):
            raise DataError(f"a target is a text, not {type(tgt).__name__}")
        if tgt is None:
            output = next(self.generate([src]))
            example = self._example(src)
            codes = self.task.forced_tokens(example)
            pair = (self.task.encode_inputs([example])[0], [*codes, *output.tokens])
        else:
            (pair,) = self.task.encode([self._example(src, tgt)])
        batch = make_batch([pair], self.task.vocab).to(self.device)
        with evaluating(self.model):
            maps = self.model.attention_maps(batch.src, batch.src_pad, batch.tgt_in)
        if not maps:
            raise ConfigError(f"arch={self.config.arch.name} has no attention (Seq2Seq.attention_maps)")
        pair_maps = [one._replace(weights=one.weights[0].cpu()) for one in maps]
        vocab = self.task.vocab
        fed = pair[1][1:] if vocab.own_start else [*vocab.starting_tokens[1:], *pair[1]]
        return PairAttention(self._names(vocab.ended(pair[0]), "src"), self._names([*fed, vocab.eos], "tgt"), pair_maps)

    def _example(self, one: AnyInput, tgt: str = "") -> Example:
        """The source as the task encodes it: `raw`, given to `load`, means raw text for every method."""
        complete = self._complete(one)
        return Example(complete.src, tgt, complete.fields)

    def _complete(self, one: AnyInput, **options: Any) -> Input:
        """The input with all its fields."""
        given = as_input(one)
        read = replace(given, src=self.task.read_raw(given.src)) if self._raw else given
        return self.generator(**options).read.complete(read)

    def _following(self, inputs: Iterable[AnyInput]) -> Iterator[Input]:
        return map(self.generator().follower(), map(as_input, as_inputs(inputs)))

    def _names(self, ids: Sequence[int], side: Side) -> list[str]:
        """Tokens as text; by their ids where the task does not list its vocabulary."""
        names = self.task.vocabulary(side)
        if names is None:
            return [str(i) for i in ids]
        return [name if isinstance(name, str) else name[-1] for name in (names[i] for i in ids)]


def _pairs(src: Any, texts: Any, name: str) -> tuple[list[AnyInput], list[str]]:
    """Sources and the text of each; `name` says what the texts are. Raises DataError unless there is one for each."""
    if isinstance(src, INPUT_TYPES):
        raise DataError(f"sources are a list of texts, not {type(src).__name__}")
    sources, others = list(as_inputs(list(src) if isinstance(src, Iterable) else src)), as_texts(texts, name)
    if len(sources) != len(others):
        raise DataError(f"{len(sources):,} sources and {len(others):,} {name}s; give one for each")
    return sources, others


def _check_options(given: Sequence[str] | Mapping[str, Any], refused: Sequence[str], reason: str) -> None:
    for argument in given:
        key = argument.partition("=")[0]
        if key in refused:
            raise ConfigError(f"{key}: {reason}")
