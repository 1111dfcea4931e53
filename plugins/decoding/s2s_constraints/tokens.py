"""The option bad_words: texts that no output contains. No torch at import."""

from __future__ import annotations

__all__ = ["TokenConstraints"]

from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Example
from s2s.generation import RequestConstraints
from s2s_constraints.target_ids import target_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Choice, Task
    from s2s.decoding import FixedWidthConstraint
    from s2s_constraints import ConstraintOptions


class TokenConstraints(RequestConstraints):
    """The constraint of bad_words."""

    def __init__(self, config: Choice) -> None:
        pass

    def for_outputs(
        self,
        config: ConstraintOptions,  # type: ignore[override]  # which this plugin adds to GenerateConfig
        task: Task,
    ) -> list[FixedWidthConstraint]:
        """None without bad words."""
        if not config.bad_words:
            return []
        from s2s_constraints.bad_words import BadWords  # torch, which reading texts does without

        return [BadWords(_ids_of(config.bad_words, task, config.input_fields), task.vocab.tgt)]


def _ids_of(texts: Sequence[str], task: Task, fields: Mapping[str, Any]) -> list[list[int]]:
    """The target tokens of each text, as the task encodes outputs for inputs with these fields."""
    try:
        ids = target_ids(task, [Example("", text, fields) for text in texts])
    except KeyError as error:
        name = error.args[0]
        if name not in getattr(task.fields, "__dataclass_fields__", ()):
            raise
        raise ConfigError(
            f"bad_words: task={task.config.name} reads '{name}' to encode an output; give input_fields.{name}=VALUE"
        ) from None
    for text, tokens in zip(texts, ids, strict=True):
        if not tokens:
            raise ConfigError(f"bad_words: {text!r} has no tokens in task={task.config.name}; leave it out")
        if task.vocab.unk in tokens:
            raise ConfigError(
                f"bad_words: {text!r} has symbols that are not in the vocabulary of task={task.config.name}, and would "
                "forbid others that are not as well; leave it out"
            )
    return ids
