"""Stack, buffer and history predict the next action; for given outputs at once, or for hypotheses step by step.

Shapes: B sentences, K hypotheses, W words (eos counted as one), T target length, E = d_item, H = d_model, V actions.
"""

from __future__ import annotations

__all__ = ["RNNG"]

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from s2s import ConfigError, Memory, Seq2Seq, State
from s2s.nn import Dropout, Linear, SourceWords
from s2s_rnng.composition import Composition
from s2s_rnng.lstm import LSTM, mirror, top
from s2s_rnng.plan import Plan, plan
from s2s_rnng.stack import Stack, numbers

if TYPE_CHECKING:
    from s2s import Side, Vocab
    from s2s_rnng import RNNGConfig


@dataclass
class WordMemory(Memory):
    """`hidden` [B, W, H]: the buffer's state when a word is next."""

    items: Tensor
    """[B, W, E], the words as items of a stack"""
    last: Tensor
    """[B], the position of eos, which follows the last word"""


class Hypothesis(NamedTuple):
    """What belongs to a hypothesis."""

    stack: Stack
    history: Tensor
    """[B, K, L, 2, H]"""


@dataclass
class RNNGState(State):
    """`sentence` is the `WordMemory`."""

    supports_join: ClassVar[bool] = True


class RNNG(Seq2Seq):
    """Dyer et al. (2016): p(action) = softmax(R tanh(W [buffer; stack; history] + c) + b)."""

    def __init__(self, config: RNNGConfig, vocab: Vocab) -> None:
        super().__init__()
        effects = vocab.guide.effects if vocab.guide else ()
        if not effects:
            raise ConfigError("arch=rnng: the outputs of this task are no brackets over words; give task=parsing")
        self.config, self.vocab, self.effects = config, vocab, effects
        d, e = config.d_model, config.d_item or config.d_model
        lstm = (d, config.n_layers, config.dropout)
        self.words = SourceWords(vocab)
        self.src = nn.Embedding(vocab.src, config.d_word, padding_idx=vocab.src_pad)
        self.word_item = Linear(config.d_word, e)
        self.buffer = LSTM(e, *lstm)
        self.item = nn.Embedding(vocab.tgt, e)
        self.guard = nn.Parameter(torch.empty(e))
        self.compose = Composition(e, config.n_layers, config.dropout)
        self.stack = LSTM(e, *lstm)
        self.action = nn.Embedding(vocab.tgt, config.d_action)
        self.history = LSTM(config.d_action, *lstm)
        self.dropout = Dropout(config.dropout)
        self.summary = Linear(3 * d, d)
        self.softmax = Linear(d, vocab.tgt)
        self._numbers: dict[torch.device, Tensor] = {}  # not a buffer: not weights, available on any device
        self.init_weights()

    def encode(self, src: Tensor, pad: Tensor) -> WordMemory:
        """src, pad [B, S]; the buffer reads from eos, which stands for the empty buffer, to the first word."""
        x, pad = self.words.pool(self.src.weight, src, pad)
        items = self.word_item(x).relu().masked_fill(pad[..., None], 0.0)
        lengths = (~pad).sum(1)
        hidden = mirror(self.buffer(mirror(items, lengths)), lengths)
        return WordMemory(hidden.masked_fill(pad[..., None], 0.0), pad, items, (lengths - 1).clamp(min=0))

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, H]"""
        assert isinstance(memory, WordMemory)
        stack_plan = plan(tgt, self.effects)
        stack = self._stack_states(stack_plan, self._items(stack_plan, tgt, memory))[stack_plan.tops]  # [B, T, H]
        return self._summary(
            next_word(memory.hidden, stack_plan.taken, memory.last), stack, self.history(self.action(tgt))
        )

    def project(self, hidden: Tensor) -> Tensor:
        """[..., H] -> logits [..., V]"""
        return self.softmax(hidden)

    def start(self, memory: Memory) -> RNNGState:
        """One hypothesis, whose stack holds only the guard."""
        history = self.history.zero(len(memory.pad), 1, like=memory.hidden)
        stack = Stack.empty(len(memory.pad), self.guard, self._guard_state()[0])
        return RNNGState(sentence=memory, hypothesis=Hypothesis(stack, history))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        memory, (stack, history) = state.sentence, state.hypothesis
        change = stack.change(self._effects_on(token.device)[token])
        item = self.item(token)
        item = item + next_word(memory.items, stack.taken, memory.last) * change.takes[..., None]
        known = stack.read(change)
        stack = stack.with_room(int(known.base.max()) + 2)
        closing = stack.closing(known)
        if closing:
            composed = self.compose(closing.labels, closing.children, closing.n_children)
            item = item.index_put(closing.rows, composed.to(item.dtype))
        stack = stack.pushed(change, item, self.stack.step(item, stack.state(change.base)))
        history = self.history.step(self.action(token), history)
        buffer = next_word(memory.hidden, stack.taken, memory.last)
        hidden = self._summary(buffer, top(stack.state(stack.depth)), top(history))
        return self.project(hidden), replace(state, hypothesis=Hypothesis(stack, history))

    def vocab_rows(self) -> dict[str, Side]:
        """Words, actions as items and as the history reads them, and the softmax."""
        return {
            "src.weight": "src",
            "item.weight": "tgt",
            "action.weight": "tgt",
            "softmax.weight": "tgt",
            "softmax.bias": "tgt",
        }

    def _items(self, stack_plan: Plan, tgt: Tensor, memory: WordMemory) -> Tensor:
        """The vector of every node: [B T, E]. A word's includes its token's embedding, which may encode its tag."""
        sentences = stack_plan.takers.div(tgt.size(1), rounding_mode="floor")
        word_items = next_word(memory.items, stack_plan.words, memory.last, sentences)
        items = self.item(tgt).flatten(0, 1)
        items = items.index_add(0, stack_plan.takers, word_items.to(items.dtype))
        for nodes, labels, children, n_children in stack_plan.heights:
            composed = self.compose(items[labels], items[children], n_children)
            items = items.index_copy(0, nodes, composed.to(items.dtype))
        return items

    def _stack_states(self, stack_plan: Plan, items: Tensor) -> Tensor:
        """[B T, E] -> the stack's outputs at all nodes, depth by depth, the guard's first: [1 + nodes, H]"""
        states = [self._guard_state()]
        for nodes, below in stack_plan.depths:
            states.append(self.stack.step(items[nodes], states[-1][below]))
        return torch.cat([top(state) for state in states])

    def _guard_state(self) -> Tensor:
        """The stack's state after the guard: [1, L, 2, H]"""
        return self.stack.step(self.guard[None], self.stack.zero(1, like=self.guard))

    def _summary(self, buffer: Tensor, stack: Tensor, history: Tensor) -> Tensor:
        """Each [B, ·, H] -> [B, ·, H]"""
        return self.summary(self.dropout(torch.cat([buffer, stack, history], dim=-1))).tanh()

    def _effects_on(self, device: torch.device) -> Tensor:
        """The numbers of the effects [V] on a device, copied at their first use."""
        if device not in self._numbers:
            self._numbers[device] = numbers(self.effects, self.vocab.tgt).to(device)
        return self._numbers[device]

    @torch.no_grad()
    def init_weights(self) -> None:
        """Glorot's uniform weights, embeddings of variance 1 / width, biases 0; of padding, 0."""
        for module in self.modules():
            if isinstance(module, LSTM):
                module.init_weights()
        for linear in (self.word_item, self.compose.out, self.summary, self.softmax):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        for table in (self.src.weight, self.item.weight, self.action.weight, self.guard):
            bound = math.sqrt(3 / table.size(-1))
            nn.init.uniform_(table, -bound, bound)
        self.src.weight[self.vocab.src_pad].zero_()


def next_word(vectors: Tensor, taken: Tensor, last: Tensor, sentences: Tensor | None = None) -> Tensor:
    """vectors [B, W, ·], taken [B, ·] -> [B, ·, ·], that of the word after so many, at most the one at `last` [B].

    With `sentences` [M], taken [M] -> [M, ·], each of its own sentence.
    """
    if sentences is None:
        sentences = torch.arange(len(vectors), device=vectors.device)[:, None]
    return vectors[sentences, torch.minimum(taken, last[sentences])]
