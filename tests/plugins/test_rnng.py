"""Recurrent neural network grammars: the paper's equations by a loop over a list, the contract, counts, learning."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from harness.arch_checks import assert_bf16, assert_ensembles, assert_searched, plugins
from harness.tree_texts import EXAMPLES, Written
from s2s import ConfigError, Vocab, make_batch
from s2s.compose import compose
from s2s.config import Config
from s2s_parsing.linear import FORMS, Action, Kind
from s2s_parsing.stack_guide import StackGuide
from s2s_parsing.task import read_tree
from s2s_parsing.tree import leaves
from s2s_rnng import RNNGConfig
from s2s_rnng.model import RNNG
from s2s_rnng.plan import plan
from s2s_testing import VOCAB, check_arch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Effect
    from s2s_rnng.lstm import LSTM

ACTIONS = [Action(Kind.WORD), Action(Kind.OPEN, "S"), Action(Kind.CLOSE), Action(Kind.PROJECT, "VP")]
ACTIONS += [Action(Kind.WORD, "NN"), Action(Kind.OPEN, "NP"), Action(Kind.PROJECT, "S"), Action(Kind.CLOSE, "S")]
"""All that tokens do, beginning with what the first few must do for every part of the model to learn"""
TINY: dict[str, Any] = {"d_model": 12, "d_item": 10, "d_word": 9, "d_action": 7, "n_layers": 2, "dropout": 0.0}


def vocab_of(actions: Sequence[Action], *, parts: bool = False) -> Vocab:
    """The vocabulary of `check_arch`, whose target tokens are these actions in turn."""
    guide = StackGuide([None] * 4 + [actions[i % len(actions)] for i in range(VOCAB.tgt - 4)], depth=40)
    begins = [i % 2 == 1 for i in range(VOCAB.src)] if parts else ()
    return Vocab(src=VOCAB.src, tgt=VOCAB.tgt, word_begins=begins, guide=guide)


def build(vocab: Vocab, **changes: Any) -> RNNG:
    torch.manual_seed(1)
    return RNNG(RNNGConfig(**(TINY | changes)), vocab).eval()


def run(lstm: LSTM, vectors: Sequence[Tensor]) -> Tensor:
    """The last layer's output after all vectors [I], one at a time."""
    layers = [(torch.zeros(lstm.d_model), torch.zeros(lstm.d_model)) for _ in lstm.inputs]
    for x in vectors:
        for n, (of_input, of_hidden) in enumerate(zip(lstm.inputs, lstm.hiddens, strict=True)):
            h, c = layers[n]
            i, f, g, o = (of_input.weight @ x + of_input.bias + of_hidden.weight @ h).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            x = o.sigmoid() * c.tanh()
            layers[n] = x, c
    return layers[-1][0]


def composed(model: RNNG, label: Tensor, children: Sequence[Tensor]) -> Tensor:
    """Both LSTMs read the label first, then the children, one of them from the last."""
    compose = model.compose
    ends = run(compose.forwards, [label, *children]), run(compose.backwards, [label, *reversed(children)])
    return (compose.out.weight @ torch.cat(ends) + compose.out.bias).tanh()


def by_a_loop(model: RNNG, effects: Sequence[Effect], src: Sequence[int], tgt: Sequence[int]) -> Tensor:
    """Logits [T, V] of one sentence, whose source tokens are words: a list as the stack, all LSTMs run anew."""
    words = [(model.word_item.weight @ model.src.weight[i] + model.word_item.bias).relu() for i in src]
    stack: list[tuple[Tensor, str]] = []  # a vector, and whether it is open: "", "opens" or "wraps"
    taken, rows = 0, []
    for t, token in enumerate(tgt):
        own, effect = model.item.weight[token], effects[token]
        if effect == "takes":
            stack.append((own + words[min(taken, len(words) - 1)], ""))
            taken += 1
        elif effect == "wraps" and not (stack and not stack[-1][1]):
            stack.append((own, "opens"))
        elif effect in ("opens", "wraps"):
            stack.append((own, effect))
        elif effect == "closes" and any(kind for _, kind in stack):
            children = []
            while not stack[-1][1]:
                children.insert(0, stack.pop()[0])
            label, kind = stack.pop()
            if kind == "wraps":
                children.insert(0, stack.pop()[0])
            stack.append((composed(model, label, children), ""))
        buffer = run(model.buffer, words[min(taken, len(words) - 1) :][::-1])
        of_stack = run(model.stack, [model.guard, *(vector for vector, _ in stack)])
        history = run(model.history, [model.action.weight[i] for i in tgt[: t + 1]])
        summary = (model.summary.weight @ torch.cat([buffer, of_stack, history]) + model.summary.bias).tanh()
        rows.append(model.softmax.weight @ summary + model.softmax.bias)
    return torch.stack(rows)


@torch.no_grad()
def test_batched_and_step_by_step_it_is_the_papers_loop() -> None:
    """Random tokens: brackets that are empty, that wrap nothing, and closings of none are among them."""
    vocab, draw = vocab_of(ACTIONS), random.Random(1)
    model = build(vocab)
    assert vocab.guide is not None
    pairs = [([draw.randrange(4, 19) for _ in range(n)], [draw.randrange(4, 19) for _ in range(15)]) for n in (1, 6)]
    batch = make_batch(pairs, vocab)
    whole = model.project(model(batch.src, batch.src_pad, batch.tgt_in))
    state, steps = model.start(model.encode(batch.src, batch.src_pad)), []
    for token in batch.tgt_in.split(1, dim=1):
        logits, state = model.step(token, state)
        steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)
    for row, (src, _) in enumerate(pairs):
        expected = by_a_loop(model, vocab.guide.effects, [*src, vocab.eos], batch.tgt_in[row].tolist())
        torch.testing.assert_close(whole[row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["brackets", "in_order"])
def test_closed_brackets_have_the_trees_children(form: str) -> None:
    """The plan of a tree's tokens, read back as a tree of words and labels."""
    written = Written.of(FORMS[form](), [read_tree(tree) for tree in EXAMPLES])
    guide = StackGuide(written.actions, depth=40)
    for tree in map(read_tree, EXAMPLES):
        ids = written.encode(tree)
        made = plan(torch.tensor([ids]), guide.effects)
        found = {node: f"w{word}" for node, word in zip(made.takers.tolist(), made.words.tolist(), strict=True)}
        for group in made.heights:
            for node, label, children, n in zip(*(part.tolist() for part in group), strict=True):
                name = written.actions[ids[label]]
                assert name is not None
                found[node] = f"({name.label} {' '.join(found[child] for child in children[:n])})"
        tags = {id(leaf): f"w{n}" for n, leaf in enumerate(leaves(tree))}
        expected = [bracketed(child, tags) for child in tree.children]
        assert [found[node] for node in roots(made, set(found))] == expected
        assert int(made.taken[0, -1]) == len(tags)


def bracketed(node: Any, tags: dict[int, str]) -> str:
    if id(node) in tags:
        return tags[id(node)]
    return f"({node.label} {' '.join(bracketed(child, tags) for child in node.children)})"


def roots(made: Any, nodes: set[int]) -> list[int]:
    """Nodes without a parent."""
    within = {c for group in made.heights for row, n in zip(group.children, group.n_children, strict=True)
              for c in row[:n].tolist()}  # fmt: skip
    return sorted(nodes - within)


@pytest.mark.parametrize("parts", [False, True], ids=["words", "parts of words"])
def test_the_contract_is_kept(parts: bool) -> None:
    entry = plugins().registry.get("arch", "rnng")
    check_arch(entry, RNNGConfig(**(TINY | {"d_model": 16, "d_item": None})), vocab_of(ACTIONS, parts=parts))


def test_every_gradient_is_finite() -> None:
    vocab = vocab_of(ACTIONS)
    model = build(vocab, dropout=0.3).train()
    batch = make_batch([([5, 6], [5, 4, 7, 4, 6, 6]), ([7], [6])], vocab)
    model.project(model(*batch.inputs)).logsumexp(-1).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_task_whose_outputs_are_no_brackets_is_refused() -> None:
    with pytest.raises(ConfigError, match="no brackets over words"):
        build(VOCAB)


def lstm_weights(d_in: int, d: int, n_layers: int) -> int:
    """One bias for each layer."""
    return 4 * d * (d_in + d + 1) + (n_layers - 1) * 4 * d * (2 * d + 1)


@pytest.mark.parametrize("name", ["rnng", "rnng_tiny"])
def test_the_presets_have_as_many_parameters_as_arithmetic_says(name: str) -> None:
    c = compose(Config, [f"arch={name}", "task=parsing"], plugins()).config.arch
    assert isinstance(c, RNNGConfig)
    h, e, n, v = c.d_model, c.d_item or c.d_model, c.n_layers, VOCAB.tgt
    expected = VOCAB.src * c.d_word + v * e + v * c.d_action  # embeddings
    expected += (c.d_word + 1) * e + e  # words as items, the guard
    expected += 2 * lstm_weights(e, h, n) + lstm_weights(c.d_action, h, n)  # buffer, stack, history
    expected += 2 * lstm_weights(e, e, n) + (2 * e + 1) * e  # composition
    expected += (3 * h + 1) * h + (h + 1) * v
    assert sum(p.numel() for p in RNNG(c, vocab_of(ACTIONS)).parameters()) == expected


def test_the_loss_on_a_few_trees_falls() -> None:
    """In-order tokens, by heart in a few updates."""
    trees = [read_tree(tree) for tree in EXAMPLES[1:]]
    written = Written.of(FORMS["in_order"](), trees)
    vocab = Vocab(src=30, tgt=len(written.actions), guide=StackGuide(written.actions, depth=20))
    batch = make_batch([([*range(5, 5 + len(list(leaves(tree))))], written.encode(tree)) for tree in trees], vocab)
    model, losses = build(vocab, n_layers=1, d_model=24).train(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(20):
        optimizer.zero_grad()
        logits = model.project(model(*batch.inputs))
        loss = F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, ignore_index=vocab.pad)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_every_search_finds_outputs() -> None:
    assert_searched(build(vocab_of(ACTIONS)))


def test_it_decodes_in_an_ensemble_with_a_transformer() -> None:
    assert_ensembles(build(vocab_of(ACTIONS)))


def test_16_bits_give_nearly_the_same() -> None:
    assert_bf16(build(vocab_of(ACTIONS)))
