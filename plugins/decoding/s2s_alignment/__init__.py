"""Uses of the model's attention for outputs: alignments, copied words, coverage. No torch at import."""

from __future__ import annotations

__all__ = ["AlignmentOptions", "s2s_finish_outputs", "s2s_register"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from s2s import Choice, Registry, hookimpl
from s2s.config import GenerateConfig, Mark, at_least, check_all_used, check_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s import Seq2Seq, Task
    from s2s_alignment.stage import AttentionStage


@dataclass(kw_only=True)
class AlignmentOptions(GenerateConfig):
    """Uses of the attention between an output and its source."""

    replace_unk: bool = False
    """Replace an output word that has an unknown token with the source word that the token attends to most."""
    attention_layer: int = 0
    """Decoder layer, from 1, whose attention is used for alignment; 0: the architecture's choice."""
    coverage: float = field(default=0.0, metadata=Mark.RERANKS)
    """Finished outputs are re-ranked by score + coverage * sum over source tokens of log min(1, attention received):
    Wu et al. (2016), who take 0.2. It does not change the search."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("", self, attention_layer=at_least(0), coverage=at_least(0))
        check_all_used(self, "attention_layer", "alignments or coverage", self.needs_attention)

    @property
    def needs_attention(self) -> str:
        """The option that needs attention weights; empty for none."""
        asked = {"format=aligned": self.format == "aligned", "fields=[align]": "align" in self.fields}
        asked |= {"replace_unk=true": self.replace_unk, f"coverage={self.coverage:g}": bool(self.coverage)}
        return next((option for option, is_set in asked.items() if is_set), "")


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(AlignmentOptions)
    registry.add("output_format", "aligned", Choice, "s2s_alignment.aligned_output:AlignedOutput")


@hookimpl
def s2s_finish_outputs(
    config: AlignmentOptions, task: Task, load_model: Callable[[], Seq2Seq]
) -> AttentionStage | None:
    """The stage, if an option needs attention, or single inputs might."""
    if not (config.needs_attention or task.running_text):
        return None
    from s2s_alignment.stage import AttentionStage

    return AttentionStage(load_model, task, config)
