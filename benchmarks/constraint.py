"""What share of decoding goes into keeping outputs trees.

    python benchmarks/constraint.py [beam=4,21] [sentences=32] [words=25] [symbols=128] [device=cpu]

An untrained model of 3 + 3 layers of width 256 writes random trees, on a CPU with one thread and its weights laid out
as s2s-generate does. Timed is all that comes with the constraint: its own `allowed` and `advance`, and what search does
for it (best symbols with the mask, beside those without, and the choice of states), which is done apart for the
purpose and not counted in a step. Time is that of the process, on a device that of the clock, waited for.
"""

from __future__ import annotations

import itertools
import string
import sys
import time
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table

from s2s.backend import prepack, top_k_log_probs
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.model_scores import gather_hypotheses
from s2s.decoding.request import SearchRequest, search_all
from s2s.plugin import load_plugins
from s2s.task import Constraint, Vocab
from s2s_parsing.constraint import Bounds, TreeConstraint
from s2s_parsing.linear import FORMS
from s2s_parsing.tree import Tree
from s2s_parsing.treebank import read_brackets
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from s2s_parsing.linear import Action, Linear

N_WORDS = 1000
BOUNDS = Bounds(45, 11)  # what the larger treebanks give, with the reserve


class Timed(Constraint):
    """A constraint that is timed, with what search does for it."""

    def __init__(self, inner: TreeConstraint, vocab: Vocab, n_best: int, clock: Callable[[], float]) -> None:
        self.inner, self.vocab, self.n_best, self.clock = inner, vocab, n_best, clock
        self.banned = torch.tensor([vocab.pad, vocab.bos])
        self.seconds = self.measuring = 0.0
        """Of the constraint, and of what is done for the measurement alone"""
        self.n_steps = 0

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return self._timed(lambda: self.inner.start(src, pad, limit))

    def allowed(self, state: Tensor) -> Tensor:
        allowed = self._timed(lambda: self.inner.allowed(state))
        begun = self.clock()
        logits = torch.randn(allowed.shape, device=state.device)
        self.seconds += self._best(logits, allowed) - self._best(logits, None)
        self.measuring += self.clock() - begun
        return allowed

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        self.n_steps += 1
        begun = self.clock()
        parents = torch.arange(state.size(1), device=state.device).expand(state.shape[:2])
        self._timed(lambda: gather_hypotheses(state, parents))
        self.measuring += self.clock() - begun
        return self._timed(lambda: self.inner.advance(state, token))

    def _best(self, logits: Tensor, allowed: Tensor | None) -> float:
        """Seconds to find the best symbols."""
        begun = self.clock()
        top_k_log_probs(logits, self.n_best, self.banned.to(logits.device), allowed)
        return self.clock() - begun

    def _timed(self, function: Callable[[], Tensor]) -> Tensor:
        begun = self.clock()
        result = function()
        self.seconds += self.clock() - begun
        return result


def actions(form: Linear, n_symbols: int) -> list[Action | None]:
    """What the symbols of a form do: brackets of 28 labels, 45 parts of speech if it has them, and nothing."""
    labels = [f"{letter}P" for letter in string.ascii_uppercase] + ["S", "SBAR"]
    tree = read_one("(TOP " + " ".join(f"({label} (NN a))" for label in labels) + ")")
    tokens = form.tokens(tree) + ([f"T{i}" for i in range(45)] if form.tags else [])
    read = form.read(list(dict.fromkeys(tokens)))
    return [None] * 4 + read + [None] * (n_symbols - 4 - len(read))


def read_one(line: str) -> Tree:
    """The tree of a line."""
    (tree,) = read_brackets([(1, line)])
    assert isinstance(tree, Tree)
    return tree


def build_model(vocab: Vocab, device: str) -> Transformer:
    """3 + 3 layers of width 256, untrained."""
    load_plugins()  # with them come the functions in C
    torch.manual_seed(1)
    config = TransformerConfig(
        n_encoder_layers=3, n_decoder_layers=3, d_model=256, d_ff=1024, n_heads=4, share_embeddings="none"
    )
    model = Transformer(config, vocab).eval().to(device)
    if device == "cpu":
        prepack(model, "exact", "none")  # as s2s-generate lays weights out
    return model


def measure(form: Linear, beam: int, options: dict[str, str]) -> tuple[float, float, int]:
    """Seconds in all, seconds for the constraint, and steps, of decoding one batch."""
    device, n_words = options["device"], int(options["words"])
    clock = time.process_time if device == "cpu" else lambda: _waited(device)
    vocab = Vocab(src=N_WORDS, tgt=int(options["symbols"]))
    marks = torch.zeros(vocab.src, dtype=torch.bool)
    marks[: vocab.src // 2] = True
    word = torch.tensor([vocab.eos + 1, vocab.src - 1])
    src = word.repeat(int(options["sentences"]), n_words)
    src = torch.cat([src, torch.full_like(src[:, :1], vocab.eos)], dim=1).to(device)
    marks[vocab.eos] = False
    trees = TreeConstraint(actions(form, vocab.tgt), marks.tolist(), BOUNDS, eos=vocab.eos)
    constraint = Timed(trees, vocab, 2 * beam, clock)
    search = BeamSearch(BeamConfig(beam=beam, alpha=0.3, max_len_a=0.0, max_len_b=3 * n_words))
    model = build_model(vocab, device)
    search_all(search, SearchRequest.of_batch(model, src[:1], src[:1] == vocab.pad, vocab, constraint))  # warms up
    constraint.seconds, constraint.measuring, constraint.n_steps = 0.0, 0.0, 0
    start = clock()
    search_all(search, SearchRequest.of_batch(model, src, src == vocab.pad, vocab, constraint))
    return clock() - start - constraint.measuring, constraint.seconds, constraint.n_steps


def _waited(device: str) -> float:
    torch.cuda.synchronize(device)
    return time.perf_counter()


def main() -> None:
    """Measure every form at every beam."""
    torch.set_num_threads(1)
    options = {"beam": "4,21", "sentences": "32", "words": "25", "symbols": "128", "device": "cpu"}
    for argument in sys.argv[1:]:
        key, value = argument.split("=", 1)
        options[key] = value
    table = Table("form", "beam", "steps", "ms a step", "of which constraint", "share")
    for (name, kind), beam in itertools.product(FORMS.items(), map(int, options["beam"].split(","))):
        seconds, constraint, n_steps = measure(kind(), beam, options)
        shown = (f"{1000 * seconds / n_steps:.2f}", f"{1000 * constraint / n_steps:.2f}", f"{constraint / seconds:.1%}")
        table.add_row(name, str(beam), str(n_steps), *shown)
    Console().print(table)


if __name__ == "__main__":
    main()
