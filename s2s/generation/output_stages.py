"""Stages that process the hypotheses of a search before they are written. Plugins provide them through a hook."""

from __future__ import annotations

__all__ = ["OutputStage", "build_stages"]

from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import torch
    from pluggy import HookImpl

    from s2s.config import GenerateConfig
    from s2s.decoding import Hypothesis, SearchResult, SourceSentence
    from s2s.model import Seq2Seq
    from s2s.plugin import Plugins
    from s2s.task import Task


class OutputStage:
    """One stage of processing outputs; subclasses override what they change."""

    computes_alignment = False
    """Whether `results` sets `Hypothesis.source_positions`, as the options require"""
    reads_labels = False
    """Whether `text` or `rerank` reads `Hypothesis.source_labels`, which are then set where the model has learnt any"""

    def processes(self, sentence: SourceSentence) -> bool:
        """Whether `results` does anything for a sentence."""
        return type(self).results is not OutputStage.results

    def results(
        self, results: Iterable[Iterable[SearchResult]], sources: Mapping[int, SourceSentence]
    ) -> Iterator[Iterable[SearchResult]]:
        """The results of the search, in batches of any size; `sources`: the sentences, by their indices."""
        yield from results

    def text(self, src: str, hypothesis: Hypothesis, text: str) -> str:
        """The text of an output."""
        return text

    def rerank(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis]) -> list[tuple[int, float]] | None:
        """Indices of the outputs of a sentence, and the scores to write, best first; None: unchanged."""
        return None


def build_stages(
    config: GenerateConfig,
    task: Task,
    load_model: Callable[[], Seq2Seq],
    device: torch.device | None,
    plugins: Plugins | None,
) -> list[OutputStage]:
    """The stages that the options require; ConfigError for alignments that no plugin computes.

    device: None means that the model has not been loaded; it is then, for a CPU, if a hook takes model or device.
    """
    stages: list[OutputStage] = []
    if plugins:
        given: dict[str, Any] = {"load_model": load_model, "model": None, "device": device}
        implementations = plugins.hook.s2s_finish_outputs.get_hookimpls()
        taken = {argument for one in implementations for argument in _arguments(one)}
        if device is None and "device" in taken:
            import torch

            given["device"] = torch.device("cpu")
        if device is not None or "model" in taken:
            given["model"] = load_model()
        stages = plugins.hook.s2s_finish_outputs(config=config, task=task, plugins=plugins, **given)
    if "align" in config.fields and not any(stage.computes_alignment for stage in stages):
        absent_hint = plugins.registry.absent_hint() if plugins else ""
        raise ConfigError(f"fields={config.fields}: no loaded plugin aligns words.{absent_hint}")
    return stages[::-1]  # in the order in which the plugins were loaded


def _arguments(implementation: HookImpl) -> Sequence[str]:
    """What an implementation of a hook takes; one of a plugin that is imported later seems to take all."""
    return getattr(implementation.function, "arguments", implementation.argnames)
