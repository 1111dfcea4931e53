"""What the model's attention says of outputs: alignments, copied words, coverage. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_finish_outputs"]

from typing import TYPE_CHECKING, Any

from s2s import hookimpl

if TYPE_CHECKING:
    from s2s import Seq2Seq, Task
    from s2s.config import GenerateConfig
    from s2s_alignment.stage import AttentionStage


@hookimpl
def s2s_finish_outputs(config: GenerateConfig, task: Task, model: Seq2Seq, device: Any) -> AttentionStage | None:
    """A stage, if an option needs attention."""
    if not config.needs_attention:
        return None
    from s2s_alignment.stage import AttentionStage

    return AttentionStage(model, task, device, config)
