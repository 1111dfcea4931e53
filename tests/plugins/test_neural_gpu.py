"""The Extended Neural GPU: the contract, its unit and the whole model by loops, counts; the algorithmic corpus."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from s2s.batch import make_batch
from s2s.errors import UserError
from s2s.plugin import load_plugins
from s2s_neural_gpu import AlgorithmicConfig, NeuralGPUConfig
from s2s_neural_gpu.algorithms import Algorithmic, pair
from s2s_neural_gpu.model import ConvGRU, NeuralGPU
from s2s_testing import VOCAB, check_arch

TINY = {"name": "neural_gpu", "d_model": 8, "width": 2, "n_layers": 1, "length_ratio": 1.0, "length_extra": 1}


def config_of(**changed: Any) -> NeuralGPUConfig:
    return NeuralGPUConfig(**{**TINY, "dropout": 0.0, **changed})


def test_the_architecture_keeps_the_contract() -> None:
    check_arch(load_plugins().registry.get("arch", "neural_gpu"), config_of(d_model=12))


def convolved(weight: Tensor, s: Tensor, row: int, column: int) -> Tensor:
    """weight [O, m, 3, 3], s [m, L, w] -> [O], cell by cell, with zeros around the image."""
    total = torch.zeros(len(weight), dtype=s.dtype)
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            if 0 <= row + i < s.size(1) and 0 <= column + j < s.size(2):
                total += weight[:, :, i + 1, j + 1] @ s[:, row + i, column + j]
    return total


def test_the_unit_is_the_papers_equation_cell_by_cell() -> None:
    torch.manual_seed(0)
    unit, m = ConvGRU(config_of(d_model=3), tape=True).double(), 3
    s, tape = torch.randn(1, m, 3, 2, dtype=torch.double), torch.randn(1, m, 3, dtype=torch.double)
    p = torch.zeros_like(s)
    p[..., 0] = tape  # only the first column is written
    assert unit.tape is not None
    cells = [(row, column) for row in range(3) for column in range(2)]
    gates = lambda row, column, part: (  # noqa: E731
        convolved(unit.gates.weight[part], s[0], row, column)
        + unit.gates.bias[part]
        + convolved(unit.tape.weight[part], p[0], row, column)
    ).sigmoid()
    reset = torch.zeros_like(s)
    for row, column in cells:
        reset[0, :, row, column] = gates(row, column, slice(m, 2 * m)) * s[0, :, row, column]
    found = unit(s, tape, nn.Identity())
    for row, column in cells:
        u = gates(row, column, slice(m))
        new = convolved(unit.new.weight, reset[0], row, column) + unit.new.bias
        new = (new + convolved(unit.tape.weight[2 * m :], p[0], row, column)).tanh()
        expected = u * s[0, :, row, column] + (1 - u) * new
        torch.testing.assert_close(found[0, :, row, column], expected)


def test_the_model_is_the_papers_loop() -> None:
    """One sentence: n steps of the encoder, then a step for each output, whose tape has the outputs before."""
    torch.manual_seed(1)
    model = NeuralGPU(config_of(n_layers=2), VOCAB).eval()
    src, tgt = torch.tensor([[5, 7, 9, 3]]), torch.tensor([[2, 6, 8]])
    image = torch.zeros(1, 8, 5, 2)
    image[0, :, :4, 0] = model.src(src[0]).T
    for _ in range(4):
        for unit in model.encoder:
            image = unit(image, None, nn.Identity())
    tape, expected = torch.zeros(1, 8, 5), []
    for t in range(3):
        if t:
            tape[0, :, t - 1] = model.tgt(tgt[0, t])
        for unit in model.decoder:
            image = unit(image, tape, nn.Identity())
        expected.append(model.out(image[0, :, t, 0]))
    found = model.project(model(src, src == VOCAB.pad, tgt))[0]
    torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("n_layers", [1, 2])
def test_parameters_and_operations_in_closed_form(n_layers: int) -> None:
    m, v = 8, VOCAB.tgt
    model = NeuralGPU(config_of(n_layers=n_layers), VOCAB)
    unit = 3 * m * m * 9
    assert sum(p.numel() for p in model.parameters()) == 3 * v * m + v + n_layers * (3 * unit + 6 * m)
    cells = (5 + 1) * 2
    assert model.forward_operations([5], [4]) == 2 * (cells * n_layers * (5 * unit + 4 * 2 * unit) + 4 * m * v)


def test_an_output_longer_than_the_image_is_read_from_its_last_row() -> None:
    model = NeuralGPU(config_of(), VOCAB).eval()
    batch = make_batch([([4], [5] * 9)], VOCAB)
    assert model(batch.src, batch.src_pad, batch.tgt_in).isfinite().all()


@pytest.mark.parametrize("algorithm", ["copy", "reverse", "add"])
def test_what_the_corpus_says_is_right(algorithm: str) -> None:
    draw = random.Random(1)
    number = lambda digits: sum(int(d) * 7**i for i, d in enumerate(digits.split()))  # noqa: E731
    for _ in range(50):
        example = pair(draw, algorithm, 5, 7)
        if algorithm == "add":
            first, second = example.src.split(" + ")
            assert number(example.tgt) == number(first) + number(second)
            assert example.tgt == "0" or not example.tgt.endswith(" 0")
        else:
            digits = example.src.split()
            assert example.tgt.split() == (digits if algorithm == "copy" else digits[::-1])


def test_held_out_numbers_are_longer_than_any_in_training() -> None:
    corpus = Algorithmic(AlgorithmicConfig(name="algorithmic", digits=4, longer=0.5, pairs=100, held_out=50))
    lengths = {split: {len(e.src.split()) for e in corpus.examples(split)} for split in ("train", "valid", "test")}
    assert lengths == {"train": {1, 2, 3, 4}, "valid": {5, 6}, "test": {5, 6}}
    assert list(corpus.examples("valid")) == list(corpus.examples("valid"))
    assert list(corpus.examples("valid")) != list(corpus.examples("test"))


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [(NeuralGPUConfig, {"kernel": 2}, "arch.kernel=2 must be odd"), (AlgorithmicConfig, {"radix": 11}, "at most 10")],
)
def test_what_cannot_be_is_refused(config: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        config(name="x", **options)
