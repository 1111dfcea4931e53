"""Constraints on the tokens of every output, as automata: a minimum length, bad words, no repeated n-gram.

Shapes: B sentences, K hypotheses per sentence, V target tokens, W tokens remembered.
"""

from __future__ import annotations

__all__ = ["NONE", "BadWords", "MinLength", "NoRepeatNgram", "TokenConstraints"]

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from s2s import ConfigError, Example
from s2s.generation import RequestConstraints
from s2s_constraints.target_ids import target_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Choice, Task
    from s2s.decoding import FixedWidthConstraint
    from s2s_constraints import ConstraintOptions

NONE = -1
"""Marks positions without a token"""
NGRAM_WINDOW = 512
"""Number of tokens that `NoRepeatNgram` looks back: the same for every source, so that states can be concatenated"""


class TokenConstraints(RequestConstraints):
    """The constraints of min_len, no_repeat_ngram_size and bad_words."""

    def __init__(self, config: Choice) -> None:
        pass

    def for_outputs(
        self,
        config: ConstraintOptions,  # type: ignore[override]  # which this plugin adds to GenerateConfig
        task: Task,
    ) -> list[FixedWidthConstraint]:
        """The constraints that the options set."""
        vocab = task.vocab
        constraints: list[FixedWidthConstraint] = []
        if config.min_len:
            constraints.append(MinLength(config.min_len, vocab.tgt, vocab.eos))
        if config.no_repeat_ngram_size:
            constraints.append(NoRepeatNgram(config.no_repeat_ngram_size, vocab.tgt))
        if config.bad_words:
            constraints.append(BadWords(_ids_of(config.bad_words, task, config.input_fields), vocab.tgt))
        return constraints


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


class MinLength:
    """Outputs have at least `n` tokens, or as many as their limit allows; the state counts down."""

    width = 1

    def __init__(self, n: int, n_tokens: int, eos: int) -> None:
        self.n, self.n_tokens, self.eos = n, n_tokens, eos

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 1]"""
        return limit.clamp(max=self.n)[:, None, None]

    def allowed(self, state: Tensor) -> Tensor:
        """All tokens but eos, and eos, too, once there are enough tokens."""
        return (state <= 0) | (torch.arange(self.n_tokens, device=state.device) != self.eos)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The count minus one."""
        return state - 1


class TokenWindow:
    """A constraint whose state is the last `width` tokens, the newest last."""

    def __init__(self, width: int, n_tokens: int) -> None:
        self.width, self.n_tokens = width, n_tokens

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, W]"""
        return src.new_full((src.size(0), 1, self.width), NONE)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The window shifted by one token."""
        return torch.cat([state, token[..., None]], dim=-1)[..., 1:]

    def all_but(self, tokens: Tensor) -> Tensor:
        """tokens [B, K, ·], NONE for no token -> allowed [B, K, V]"""
        forbidden = torch.zeros(*tokens.shape[:2], self.n_tokens + 1, dtype=torch.bool, device=tokens.device)
        forbidden.scatter_(2, tokens.masked_fill(tokens == NONE, self.n_tokens), True)
        return ~forbidden[..., :-1]


class NoRepeatNgram(TokenWindow):
    """No sequence of `n` tokens occurs twice in the last `NGRAM_WINDOW` tokens of an output."""

    def __init__(self, n: int, n_tokens: int) -> None:
        super().__init__(NGRAM_WINDOW, n_tokens)
        self.n = n

    def allowed(self, state: Tensor) -> Tensor:
        """All but the tokens that followed an earlier occurrence of the last n - 1."""
        grams = state.unfold(-1, self.n, 1)  # [B, K, W - n + 1, n]
        newest = state[..., None, self.width - self.n + 1 :]
        again = ((grams[..., :-1] == newest) & (newest != NONE)).all(-1)  # [B, K, W - n + 1]
        return self.all_but(grams[..., -1].masked_fill(~again, NONE))


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
