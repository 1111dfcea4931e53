"""Properties of every task that preparation, training and generation rely on."""

from __future__ import annotations

__all__ = ["assert_constraint_allows_references", "assert_task_round_trips", "check_task"]

from itertools import islice
from typing import TYPE_CHECKING

import torch

from s2s import Encoded, Example, Side, Task, Vocab, make_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from s2s import Choice, Entry


def check_task(entry: Entry, config: Choice, directory: Path) -> None:
    """Check everything that preparation, training and generation rely on; keep the corpora of `config` small."""
    task = entry.build(config)
    assert_task_round_trips(task, directory)
    assert_constraint_allows_references(task)


def assert_task_round_trips(
    task: Task, directory: Path, n: int = 100, normalise: Callable[[str], str] = lambda s: " ".join(s.split())
) -> None:
    """A learnt tokeniser is loaded unchanged, and references survive encoding, up to white space.

    A task that changes its text on purpose, such as to lower case, passes its own `normalise`.
    """
    names = [name for name, _ in task.corpora("train")]
    assert names, 'corpora("train") is empty: there is nothing to learn from'
    directory.mkdir(parents=True, exist_ok=True)  # as preparation does
    task.learn(directory)
    again = type(task)(task.config)
    again.load(directory)
    assert again.vocab == task.vocab, f"load gives {again.vocab}, but learn gave {task.vocab}"
    _check_vocabulary(task, again, "src")
    _check_vocabulary(task, again, "tgt")
    examples = _examples(task, n)
    assert examples, f"none of the first {n} training pairs can be used"
    encoded = task.encode(examples)
    assert again.encode(examples) == encoded, "after load, texts are encoded differently"
    _check_ids(encoded, task.vocab)
    for example, pair, src in zip(examples, encoded, task.encode_inputs(examples), strict=True):
        pair = Encoded([i for i in pair.src if i not in task.vocab.labels], pair.tgt)
        assert list(src) == pair.src, f"encode_inputs and encode disagree on {example.src!r}"
        codes = list(task.forced_tokens(example))
        assert pair.tgt[: len(codes)] == codes, f"encode does not begin {example.tgt!r} with its forced_tokens {codes}"
        _check_tokens(task, example, pair)
        text = task.detokenize(pair.tgt[len(codes) :], example.src)
        assert normalise(text) == normalise(example.tgt), f"{example.tgt!r} comes back as {text!r}"


def assert_constraint_allows_references(task: Task, n: int = 20) -> None:
    """The task's constraint, if any, allows every reference up to its end; `task` must have its vocabulary."""
    constraint = task.constraint()
    if constraint is None:
        return
    examples = _examples(task, n)
    for example, pair in zip(examples, task.encode(examples), strict=True):
        batch, tgt = make_batch([pair], task.vocab), pair.tgt[len(task.forced_tokens(example)) :]
        state = constraint.start(batch.src, batch.src_pad, torch.tensor([len(tgt)]))  # at most its length
        for t, token in enumerate([*tgt, task.vocab.eos]):
            allowed = bool(constraint.allowed(state)[0, 0, token])
            assert allowed, f"the constraint forbids token {t} (id {token}) of the reference {example.tgt!r}"
            state = constraint.advance(state, torch.tensor([[token]]))


def _examples(task: Task, n: int) -> list[Example]:
    """Usable pairs among the first `n` of the first training corpus."""
    name, _ = task.corpora("train")[0]
    return [e for e in islice(task.examples("train", name), n) if isinstance(e, Example)]


def _check_tokens(task: Task, example: Example, pair: Encoded) -> None:
    """Each token has a piece, and characters of the text or none."""
    n_pieces = len(task.pieces(pair.tgt, example.src))
    assert n_pieces == len(pair.tgt), f"pieces gives {n_pieces} for {len(pair.tgt)} tokens of {example.tgt!r}"
    target = task.detokenize(pair.tgt, example.src)
    for name, offsets, ids, text in (
        ("source_offsets", task.source_offsets(example.src), pair.src, example.src),
        ("target_offsets", task.target_offsets(pair.tgt, example.src), pair.tgt, target),
    ):
        assert len(offsets) == len(ids), f"{name} gives {len(offsets)} for {len(ids)} tokens of {text!r}"
        outside = [one for one in offsets if one is not None and not 0 <= one[0] <= one[1] <= len(text)]
        assert not outside, f"{name} gives {outside}, but {text!r} has {len(text)} characters"


def _check_vocabulary(task: Task, again: Task, side: Side) -> None:
    """A vocabulary has as many names as ids, and is the same after load."""
    tokens, size = task.vocabulary(side), getattr(task.vocab, side)
    assert tokens is None or len(tokens) == size, f"vocabulary('{side}') has {len(tokens or ())} tokens, vocab {size}"
    unchanged = tokens is None or list(tokens) == list(again.vocabulary(side) or ())
    assert unchanged, f"after load, vocabulary('{side}') differs"


def _check_ids(encoded: Sequence[Encoded], vocab: Vocab) -> None:
    sizes: dict[Side, int] = {"src": vocab.src, "tgt": vocab.tgt}
    for side, size in sizes.items():
        ids = {int(i) for pair in encoded for i in getattr(pair, side)}
        outside = sorted(i for i in ids if not 0 <= i < size)
        assert not outside, f"{side} ids {outside} are not in 0..{size - 1}"
        special = ids & {*vocab.added(side).values()}
        assert not special, f"{side} holds the special ids {sorted(special)}, which batches add by themselves"
