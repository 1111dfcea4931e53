"""Stages that process the hypotheses of a search before they are written. Plugins provide them through a hook."""

from __future__ import annotations

__all__ = ["OutputStage", "build_stages"]

from typing import TYPE_CHECKING

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    config: GenerateConfig, task: Task, model: Seq2Seq, device: torch.device | None, plugins: Plugins | None
) -> list[OutputStage]:
    """The stages that the options require; ConfigError for alignments that no plugin computes.

    device: None is a CPU, for which torch is imported only if a hook takes the device.
    """
    stages: list[OutputStage] = []
    if plugins:
        hook = plugins.hook.s2s_finish_outputs
        if device is None and any("device" in _arguments(one) for one in hook.get_hookimpls()):
            import torch

            device = torch.device("cpu")
        stages = hook(config=config, task=task, model=model, device=device, plugins=plugins)
    if "align" in config.fields and not any(stage.computes_alignment for stage in stages):
        absent_hint = plugins.registry.absent_hint() if plugins else ""
        raise ConfigError(f"fields={config.fields}: no loaded plugin aligns words.{absent_hint}")
    return stages[::-1]  # in the order in which the plugins were loaded


def _arguments(implementation: HookImpl) -> Sequence[str]:
    """What an implementation of a hook takes; one of a plugin that is imported later seems to take all."""
    return getattr(implementation.function, "arguments", implementation.argnames)
