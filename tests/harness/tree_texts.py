"""Trees in a form's tokens and ids, sentences of a given number of words, and random outputs of a constraint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.utils.rnn import pad_sequence

from s2s.task import Vocab
from s2s_parsing.constraint.automaton import TreeConstraint
from s2s_parsing.constraint.bounds import Bounds
from s2s_parsing.linear import Action, MalformedError
from s2s_parsing.tree import Tree
from s2s_parsing.treebank import read_brackets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from s2s_parsing.linear import Linear

PAD, UNK, BOS, EOS = range(4)
START, REST = 4, 5
"""Source tokens: the first piece of a word, and any other"""
MARKS = [False, False, False, False, True, False]


class Written:
    """A form with the vocabulary of some trees."""

    def __init__(self, form: Linear, tokens: Sequence[str]) -> None:
        self.form, self.tokens = form, list(tokens)
        self.actions: list[Action | None] = [None] * 4 + form.read(self.tokens)
        self.ids = {token: i for i, token in enumerate(self.tokens, 4)}
        self.vocab = Vocab(src=len(MARKS), tgt=len(self.actions))

    @classmethod
    def of(cls, form: Linear, examples: Sequence[Tree]) -> Written:
        return cls(form, sorted({token for tree in examples for token in form.tokens(tree)}))

    def constraint(self, depth: int, opened: int) -> TreeConstraint:
        return TreeConstraint(self.actions, MARKS, Bounds(depth, opened), eos=EOS)

    def encode(self, tree: Tree) -> list[int]:
        return [self.ids[token] for token in self.form.tokens(tree)]

    def tree(self, ids: Sequence[int], n_words: int) -> Tree:
        """What the reader makes of ids: a tree that it writes in no other way."""
        if min(ids, default=4) < 4:
            raise MalformedError("special tokens stand in no tree")
        tokens = [self.tokens[i - 4] for i in ids]
        tree = self.form.tree(tokens, ["w"] * n_words)
        assert self.form.tokens(tree) == tokens, "two ways to write one tree"
        return tree


def sentences(n_words: Sequence[int], *, n_pieces: int = 2) -> tuple[Tensor, Tensor]:
    """Sources of so many words, each of `n_pieces` tokens: src, pad [B, S]"""
    rows = [torch.tensor([START, *[REST] * (n_pieces - 1)] * n + [EOS]) for n in n_words]
    src = pad_sequence(rows, batch_first=True, padding_value=PAD)
    return src, src == PAD


def begin(constraint: TreeConstraint, n_words: Sequence[int], limits: Sequence[int]) -> Tensor:
    return constraint.start(*sentences(n_words), torch.tensor(limits))


EXAMPLES = (
    "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ sleeps) (PP (IN on) (NP (NP (PRP it)) (SBAR (S (VP (TO to) (VP (VB go))"
    ")))))) (. .)))",
    "(TOP (FRAG (ADJP (JJ Fine))))",
    "(TOP (NN One) (X (CC and) (NP (CD two))))",
)


def small(form: Linear) -> Written:
    return Written.of(form, [tree for tree in read_brackets(list(enumerate(EXAMPLES, 1))) if isinstance(tree, Tree)])


def walks(constraint: TreeConstraint, n_words: Sequence[int], limits: Sequence[int], seed: int) -> list[list[int]]:
    """Random outputs, each with likings of its own for some tokens, as far as they are allowed."""
    generator = torch.Generator().manual_seed(seed)
    state = begin(constraint, n_words, limits)
    n_tokens = constraint.allowed(state).size(2)
    likings = torch.randn(len(n_words), n_tokens, generator=generator).mul(3).exp()
    likings[:, EOS] = 0.1
    rows = torch.empty(len(n_words), 0, dtype=torch.long)
    ended = torch.zeros(len(n_words), dtype=torch.bool)
    while not ended.all():
        weights = constraint.allowed(state)[:, 0] * likings
        assert (weights.sum(1) > 0)[~ended].all(), "an output ran into a dead end"
        weights[ended] = torch.ones(n_tokens)  # the dead come along, with any token at all
        token = torch.multinomial(weights, 1, generator=generator)  # [B, 1]
        rows, state = torch.cat([rows, token], dim=1), constraint.advance(state, token)
        ended |= token[:, 0] == EOS
    return [row[: row.index(EOS)] for row in rows.tolist()]
