"""Decoding without torch, whose import takes longer than most texts.

A command whose model consists of functions of a plugin keeps in the user's cache what they read of it: the weights as
they are packed for them. The next command with the same run, plugins and machine maps these, whatever the options of
its search, and loads the model itself only for what the functions cannot do, such as a sentence with a constraint.
Outputs are the same.
"""

from __future__ import annotations

__all__ = ["PackedDecoding"]

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from s2s.backend.device_types import CPU_SEARCH_TOKENS
from s2s.config import GenerateConfig
from s2s.decoding import BeamConfig
from s2s.decoding.queue import FixedQueue
from s2s.errors import CheckpointError, UserError
from s2s.generation.generator import Generator
from s2s.generation.inputs import constraints_of_options, registered_constraints
from s2s.generation.options import (
    LoadedGenerator,
    chosen_search,
    measures_products,
    provenance,
    resolved_options,
    streamed_search,
)
from s2s.generation.output_stages import OutputStage, build_stages
from s2s.generation.packed_format import PackedSearch
from s2s.generation.packed_keys import key_of
from s2s.generation.sentences import one_result_each, sentences_of
from s2s.generation.workers import describe_workers, resolve_workers, search_shared
from s2s.lasting import lasting_objects
from s2s.run import find_model
from s2s.run.origin import Origin
from s2s.run.run_task import RunTask, read_run_config
from s2s.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.decoding import Hypothesis, SearchResult, SentenceQueue, SourceSentence
    from s2s.generation.packed_format import PackedFormat, PackedModel
    from s2s.generation.searching import Searcher
    from s2s.generation.segments import Segment
    from s2s.plugin import Plugins
    from s2s.registry import Choice

NATIVE = ("auto", "exact", "native")
"""Values of `matmul` that let functions in C compute products"""
PACKED = "native kernels with a packed model"
"""Ends the description of what runs the computation"""


@dataclass(frozen=True)
class PackedSegmentSearch:
    """A `SegmentSearch` by functions of a plugin, and by the model for the segments that these cannot search."""

    task: Task
    config: GenerateConfig
    search: PackedSearch
    stages: Sequence[OutputStage]
    decoding: PackedDecoding

    @property
    def max_len(self) -> int | None:
        """Longest source of the model, in tokens with eos; None: any."""
        return self.search.max_len

    @property
    def name(self) -> str:
        """The name of the search in errors."""
        return type(self.search).__name__

    def __call__(self, segments: Sequence[Segment]) -> Iterator[Iterable[SearchResult]]:
        """The result of each segment that has tokens, by its index, as soon as it is known."""
        sentences = sentences_of(segments, self.task.vocab)
        own = [one for one in sentences if self.accepts(one)]
        results = search_shared(self._results, own, self.config, "cpu") or self._results(own)
        yield from one_result_each(results, own, self.name)
        if len(own) < len(sentences):
            found = {one.index for one in own}
            others = [replace(one, ids=[]) if i in found else one for i, one in enumerate(segments)]
            yield from self.with_model()(others)

    def _results(self, sentences: Sequence[SourceSentence]) -> Iterator[Iterable[SearchResult]]:
        return self.queued(FixedQueue(sentences, self.config.tokens))

    def accepts(self, sentence: SourceSentence) -> bool:
        """Whether the functions search it, and no stage needs the model for it."""
        return self.search.accepts(sentence) and not any(stage.processes(sentence) for stage in self.stages)

    def has_more_to_do(self, sentence: SourceSentence, hypotheses: Sequence[Hypothesis]) -> bool:
        """Whether stages need the model for a sentence; labels of its words are found by the search."""
        del hypotheses
        return any(stage.processes(sentence) for stage in self.stages)

    def queued(self, queue: SentenceQueue) -> Iterator[Iterable[SearchResult]]:
        """The result of each sentence of a queue, all of which it accepts, as soon as it is known; before stages."""
        return self.search(queue)

    def with_model(self) -> Searcher:
        """The search by the model, which is loaded when it is first needed."""
        return self.decoding.searcher(self.config)


class PackedDecoding:
    """What commands with these options have kept, and what this one keeps for others; made before a model is loaded."""

    def __init__(self, composed: ComposedConfig[GenerateConfig], plugins: Plugins) -> None:
        self.composed, self.plugins = composed, plugins
        self._searcher: Searcher | None = None
        self.formats = _formats(plugins) if _may_be_packed(composed.config) else []
        self.keys = self._keys()
        """By the formats that can be used here; of the run as it is now, which may be training"""

    def _keys(self) -> dict[PackedFormat, str]:
        config, identities = self.composed.config, {form: form.identity() for form in self.formats}
        try:
            return {form: key_of(config, self.plugins, known) for form, known in identities.items() if known}
        except (OSError, UserError):  # what is wrong with the run will be reported when it is loaded
            return {}

    @property
    def origins(self) -> list[Origin]:
        """The published models that the runs were made of, or tuned from."""
        return list(filter(None, map(Origin.read, self._directories)))

    @property
    def _directories(self) -> list[Path]:
        return [find_model(name, self.plugins) for name, _ in self.composed.config.members()]

    def search_config(self) -> Choice:
        """The search; options that are not given are those of the (first) run."""
        return chosen_search(self.composed, read_run_config(self._directories[0], self.plugins).config, self.plugins)

    def load(self) -> LoadedGenerator:
        """The generator of an earlier command, or else that of the model, which is loaded."""
        with lasting_objects():
            opened = self.open()
        return opened or self.load_model()

    def open(self) -> LoadedGenerator | None:
        """The generator of what an earlier command has kept; None if there is nothing, or it cannot follow the
        options."""
        for form, key in self.keys.items():
            if (found := form.find(key)) and (opened := self._generator(*found)):
                return opened
        return None

    def load_model(self) -> LoadedGenerator:
        """The generator of the model, which is loaded."""
        with lasting_objects():
            from s2s.generation.build import load  # torch

        return load(self.composed, self.plugins)

    def keep(self, loaded: LoadedGenerator) -> bool:
        """Keep what the next command needs to do the same without torch; False if that is impossible, or done already.

        Not if the run has changed since this command began: the model may be the previous one. Nor if nothing was
        searched.
        """
        search, config = loaded.generator.search, loaded.generator.config
        if isinstance(search, PackedSegmentSearch) or loaded.passed_over:
            return False
        missing = {form: key for form, key in self.keys.items() if not form.find(key)}
        searcher = search.with_model()
        is_known = missing and searcher.has_searched and searcher.device.type == "cpu"
        if not is_known or self._keys() != self.keys:
            return False
        record = {
            "quantization": config.quantization,
            "checkpoint": loaded.provenance["checkpoint"],
            "aligns": searcher.aligning(self.plugins) is not None,
        }
        return any(form.keep(key, searcher.model_request(), record) for form, key in missing.items())

    def _generator(self, record: Mapping[str, Any], model: PackedModel) -> LoadedGenerator | None:
        composed, plugins = self.composed, self.plugins
        (directory,) = self._directories
        of_run = RunTask.load_for_texts(directory, plugins)
        of_models = replace(composed.config, quantization=record["quantization"])
        of_models = resolve_workers(of_models, "cpu", search_in_c=True)
        if of_models.matmul == "exact" or not measures_products(of_models):
            of_models = replace(of_models, matmul="native")
        try:
            chosen = chosen_search(composed, of_run.config, plugins)
        except UserError:  # it may refer to other sections of the run
            of_run = RunTask.load(directory, plugins)
            chosen = chosen_search(composed, of_run.config, plugins)
        config = resolved_options(composed, of_run.config, chosen, of_models)
        config = replace(config, tokens=config.tokens or CPU_SEARCH_TOKENS)
        search = self._search(model, chosen, config, of_run.task)
        if search is None:
            return None
        stages = build_stages(config, of_run.task, lambda: self.searcher(config).model, None, plugins)
        decoding = PackedSegmentSearch(of_run.task, config, search, stages, self)
        generator = Generator(of_run.task, decoding, plugins, of_run.sources)
        made_of = provenance(config, {"checkpoint": record["checkpoint"]}, chosen, "cpu")
        description = ", ".join(filter(None, ["cpu", describe_workers(config), PACKED]))
        return LoadedGenerator(generator, made_of, description, aligns=record["aligns"])

    def _search(self, model: PackedModel, chosen: Choice, config: GenerateConfig, task: Task) -> PackedSearch | None:
        """The search that the options describe, as `Searcher` requests it; None if only the model itself can follow
        them."""
        options = streamed_search(chosen, self.plugins)
        if options is None or constraints_of_options(config, task, registered_constraints(self.plugins)):
            return None
        nbest = config.n_outputs(options.beam if isinstance(options, BeamConfig) else None)
        return model.search(options, task.vocab, nbest, constrained=config.constrained, listed=config.shortlist)

    def searcher(self, config: GenerateConfig) -> Searcher:
        """The search by the model, loaded once; CheckpointError if the run has changed, as outputs would be of two."""
        if self._searcher is None:
            from s2s.generation.build import load_for_decoding  # torch

            if self._keys() != self.keys:
                raise CheckpointError(
                    f"run={config.run}, or the code of s2s or of a plugin, has changed since this command began, and "
                    "this input needs the model itself, not what an earlier command has kept of it; begin again"
                )
            given = self.composed.config  # the search may not be in C, where processes are faster than threads
            config = replace(config, matmul="native", workers=given.workers, threads=given.threads)
            loaded = load_for_decoding(config, self.plugins).generator(self.composed)
            self._searcher = loaded.generator.search.with_model()
        return self._searcher


def _may_be_packed(config: GenerateConfig) -> bool:
    """Whether the options leave the models to functions for a CPU."""
    plain = config.backend == "native" and config.precision == "fp32" and not (config.fusion or config.transforms)
    return plain and config.device in ("auto", "cpu") and config.matmul in NATIVE and len(config.members()) == 1


def _formats(plugins: Plugins) -> list[PackedFormat]:
    names = plugins.registry.names("packed_format")
    return [plugins.registry.build_default("packed_format", name) for name in names]
