"""Texts that no output contains, as an automaton.

Shapes: B sentences, K hypotheses per sentence, V target tokens, W tokens remembered.
"""

from __future__ import annotations

__all__ = ["NONE", "BadWords", "TokenConstraints"]

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from s2s import ConfigError, Example
from s2s.decoding import TokenWindow
from s2s.generation import RequestConstraints
from s2s_constraints.target_ids import target_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Choice, Task
    from s2s.decoding import FixedWidthConstraint
    from s2s_constraints import ConstraintOptions

NONE = -1
"""Marks positions without a token"""


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


class BadWords(TokenWindow):
    """None of the given token sequences occurs in an output."""

    def __init__(self, sequences: Sequence[Sequence[int]], n_tokens: int) -> None:
        assert sequences
        assert all(sequences)
        super().__init__(max(map(len, sequences)) - 1, n_tokens)
        self.sequences = [list(sequence) for sequence in sequences]
        self._tables: dict[torch.device, _Sequences] = {}

    def allowed(self, state: Tensor) -> Tensor:
        """All but the last token of each sequence whose other tokens end the output."""
        if state.device not in self._tables:
            self._tables[state.device] = _Sequences.build(self.sequences, self.width, state.device)
        return self.all_but(self._tables[state.device].forbidden(state))


class _Sequences(NamedTuple):
    """Sequences as tensors: M of one token, N of several."""

    single: Tensor
    """[M]"""
    before: Tensor
    """[N, W], the tokens before the last one, behind NONE where they are fewer"""
    last: Tensor
    """[N]"""

    @classmethod
    def build(cls, sequences: Sequence[Sequence[int]], width: int, device: torch.device) -> _Sequences:
        several = [sequence for sequence in sequences if len(sequence) > 1]
        before = [[*[NONE] * (width + 1 - len(sequence)), *sequence[:-1]] for sequence in several]
        single = [sequence[0] for sequence in sequences if len(sequence) == 1]
        tensors = (torch.tensor(x, dtype=torch.long, device=device) for x in (single, before, [s[-1] for s in several]))
        return cls(*tensors)

    def forbidden(self, state: Tensor) -> Tensor:
        """The tokens that would complete a sequence, or NONE: state [B, K, W] -> [B, K, ·]"""
        single = self.single.expand(*state.shape[:2], -1)
        if not len(self.last):
            return single
        begun = state[..., -1:] == self.before[:, -1]  # [B, K, N]
        (some,) = begun.flatten(0, 1).any(0).nonzero(as_tuple=True)  # few, so that only these are compared as a whole
        before = self.before[some]
        ready = ((state[..., None, :] == before) | (before == NONE)).all(-1)
        return torch.cat([single, torch.where(ready, self.last[some], NONE)], dim=-1)
