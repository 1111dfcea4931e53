"""The share of decoding time spent on constraining outputs to trees.

    python benchmarks/constraint.py [beam=4,21] [sentences=32] [words=25] [symbols=128] [repeats=5] [forms=…]
        [device=cpu]

An untrained model of 3 + 3 layers of width 256 writes random trees, on a CPU with one thread and with its weights laid
out as in s2s-generate. The same search is timed without a constraint, for as many steps: no output ends before its
limit, and all sentences are alike, so that they end together; then with the constraint as applied by s2s-generate, and
with a search that calls model and constraint at every step. They take turns; the figures are medians, and the median
share over pairs of runs. Time is CPU time of the process; on a GPU, wall time with synchronisation.
"""

from __future__ import annotations

import itertools
import string
import sys
import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

from s2s.backend.linear import prepack
from s2s.decoding import BeamConfig, SearchRequest, search_all
from s2s.decoding.beam_search import BeamSearch
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_parsing.constraint.automaton import TreeConstraint
from s2s_parsing.constraint.bounds import Bounds
from s2s_parsing.linear import FORMS
from s2s_parsing.tree import Tree
from s2s_parsing.treebank import read_brackets
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.decoding import Beams
    from s2s_parsing.linear import Action, Linear

N_WORDS = 1000
BOUNDS = Bounds(45, 11)  # what the larger treebanks give, with the reserve


class StepByStep(BeamSearch):
    """Beam search with one call per step; counts its steps, and the nodes on the paths of the first sentence."""

    n_steps = n_nodes = 0

    def step(self, batch: Beams) -> Beams:
        after = super().step(batch)
        StepByStep.n_steps += 1
        if len(after.sentences):
            state: Any = after.state
            StepByStep.n_nodes += len(state.hypothesis[0, :, : state.length[0]].unique())
        return after


def actions(form: Linear, n_symbols: int) -> list[Action | None]:
    """The action of each token of a form: brackets of 28 labels, 45 parts of speech if the form has them, or none."""
    labels = [f"{letter}P" for letter in string.ascii_uppercase] + ["S", "SBAR"]
    tree = read_one("(TOP " + " ".join(f"({label} (NN a))" for label in labels) + ")")
    tokens = form.tokens(tree) + ([f"T{i}" for i in range(45)] if form.tags else [])
    read = form.read(list(dict.fromkeys(tokens)))
    return [None] * 4 + read + [None] * (n_symbols - 4 - len(read))


def read_one(line: str) -> Tree:
    """The tree that a line encodes."""
    (tree,) = read_brackets([(1, line)])
    assert isinstance(tree, Tree)
    return tree


def build_model(vocab: Vocab, device: str) -> Transformer:
    """An untrained model with 3 + 3 layers of width 256."""
    load_plugins()  # with them come the functions in C
    torch.manual_seed(1)
    config = TransformerConfig(
        n_encoder_layers=3, n_decoder_layers=3, d_model=256, d_ff=1024, n_heads=4, share_embeddings="none"
    )
    model = Transformer(config, vocab).eval().to(device)
    if device == "cpu":
        prepack(model, "exact", "none")  # as s2s-generate lays weights out
    return model


class Times(NamedTuple):
    """Seconds of one search without a constraint, with it, and with it called at each step."""

    without: float
    constrained: float
    step_by_step: float


class Counts(NamedTuple):
    """Of one batch."""

    n_steps: int
    nodes_without: float
    """Distinct nodes on the paths of a sentence's hypotheses, mean over steps"""
    nodes_constrained: float


def measure(form: Linear, beam: int, options: dict[str, str]) -> tuple[Counts, list[Times]]:
    """The steps and nodes that decode one batch, and the duration of each repetition."""
    vocab = Vocab(src=N_WORDS, tgt=int(options["symbols"]))
    constraint = TreeConstraint(actions(form, vocab.tgt), word_marks(vocab), BOUNDS, eos=vocab.eos)
    model = build_model(vocab, options["device"])
    src = sentences(vocab, int(options["sentences"]), int(options["words"])).to(options["device"])
    clock = time.process_time if options["device"] == "cpu" else lambda: _waited(options["device"])

    def seconds(kind: type[BeamSearch], limit: int, vocab: Vocab, constraint: TreeConstraint | None) -> float:
        search = kind(BeamConfig(beam=beam, alpha=0.3, max_len_a=0.0, max_len_b=limit))
        begun = clock()
        search_all(search, SearchRequest.from_batch(model, src, src == vocab.pad, vocab, constraint))
        return clock() - begun

    def counted(limit: int, vocab: Vocab, constraint: TreeConstraint | None) -> tuple[int, float]:
        StepByStep.n_steps = StepByStep.n_nodes = 0
        seconds(StepByStep, limit, vocab, constraint)
        return StepByStep.n_steps, StepByStep.n_nodes / StepByStep.n_steps

    limit = 3 * int(options["words"])
    endless = replace(vocab, pad=vocab.unk, eos=vocab.pad)  # which is never chosen
    n_steps, nodes_constrained = counted(limit, vocab, constraint)
    _, nodes_without = counted(n_steps - 1, endless, None)
    given = (BeamSearch, n_steps - 1, endless, None), (BeamSearch, limit, vocab, constraint)
    turns = (*given, (StepByStep, limit, vocab, constraint))
    return Counts(n_steps, nodes_without, nodes_constrained), [
        Times(*(seconds(*turn) for turn in turns)) for _ in range(int(options["repeats"]))
    ]


def word_marks(vocab: Vocab) -> list[bool]:
    """Word boundaries such that half of the source tokens begin a word."""
    return [vocab.eos < token < vocab.src // 2 for token in range(vocab.src)]


def sentences(vocab: Vocab, n: int, n_words: int) -> Tensor:
    """Source ids [n, 2 * n_words + 1], two tokens per word"""
    word = torch.tensor([vocab.eos + 1, vocab.src - 1])
    src = word.repeat(n, n_words)
    return torch.cat([src, torch.full_like(src[:, :1], vocab.eos)], dim=1)


def _waited(device: str) -> float:
    torch.cuda.synchronize(device)
    return time.perf_counter()


def main() -> None:
    """Measure every form with every beam size."""
    torch.set_num_threads(1)
    options = {"beam": "4,21", "sentences": "32", "words": "25", "symbols": "128", "repeats": "5", "device": "cpu"}
    options["forms"] = ",".join(FORMS)
    for argument in sys.argv[1:]:
        key, value = argument.split("=", 1)
        options[key] = value
    table = Table(
        "form", "beam", "steps", "ms a step without", "with", "share", "step by step", "nodes without", "with"
    )
    for name, beam in itertools.product(options["forms"].split(","), map(int, options["beam"].split(","))):
        counts, times = measure(FORMS[name](), beam, options)
        milliseconds = (f"{1000 * median(column) / counts.n_steps:.2f}" for column in zip(*times, strict=True))
        without, constrained, single = milliseconds
        nodes = f"{counts.nodes_without:.0f}", f"{counts.nodes_constrained:.0f}"
        share = median(1 - one.without / one.constrained for one in times)
        table.add_row(name, str(beam), str(counts.n_steps), without, constrained, f"{share:.1%}", single, *nodes)
    Console().print(table)


if __name__ == "__main__":
    main()
