"""A check on a tiny batch names an architecture that breaks its contract, before the first update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from harness.recurrent_model import Recurrent
from s2s.data.mapped_corpus import MappedCorpus, MappedCorpusWriter, RaggedIds
from s2s.errors import PluginError
from s2s.model import Seq2Seq
from s2s.task import Vocab
from s2s_arch_check.check import check_model

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.model import Memory, State

VOCAB = Vocab(src=9, tgt=9)
CPU = torch.device("cpu")


@pytest.fixture
def corpus(tmp_path: Path) -> MappedCorpus:
    draw = torch.Generator().manual_seed(1)
    sides = [[torch.randint(4, 9, (2 + i % 5,), generator=draw).tolist() for i in range(20)] for _ in range(2)]
    with MappedCorpusWriter(tmp_path / "c", 9, 9) as writer:
        writer.append(*map(RaggedIds.from_lists, sides))
    return MappedCorpus(tmp_path / "c")


class LooksAhead(Recurrent):
    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        hidden = super().decode(tgt, memory)
        return hidden + 0.1 * hidden.mean(1, keepdim=True)


class SeesPadding(Recurrent):
    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return super().encode(src, torch.zeros_like(pad))

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return super().decode(tgt, memory) + memory.hidden.mean()


class TimeFirst(Recurrent):
    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return super().decode(tgt, memory).transpose(0, 1)


class OneTooFew(Recurrent):
    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return super().decode(tgt, memory)[:, 1:]


class OtherVocabulary(Recurrent):
    def project(self, hidden: Tensor) -> Tensor:
        return super().project(hidden)[..., 1:]


class Draws(Recurrent):
    def project(self, hidden: Tensor) -> Tensor:
        return super().project(torch.nn.functional.dropout(hidden, 0.5, self.training))


class NotANumber(Recurrent):
    def project(self, hidden: Tensor) -> Tensor:
        return super().project(hidden) / 0.0


class OtherSteps(Recurrent):
    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return 0.9 * super().decode(tgt, memory)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        logits, state = super().step(token, state)
        return 1.1 * logits, state


class OtherMatrix(Recurrent):
    """Its logits have a bias, too."""

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return self.embedding(tgt)

    def project(self, hidden: Tensor) -> Tensor:
        return self.output(hidden)

    def start(self, memory: Memory) -> State:
        return Seq2Seq.start(self, memory)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        return Seq2Seq.step(self, token, state)

    def output_matrix(self) -> Tensor | None:
        return self.output.weight


class TransposedMatrix(OtherMatrix):
    def output_matrix(self) -> Tensor | None:
        return self.output.weight.t()


class NoMemory(Recurrent):
    def encode(self, src: Tensor, pad: Tensor) -> Any:
        return super().encode(src, pad).hidden


class Raises(Recurrent):
    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        raise NotImplementedError("later")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (LooksAhead, r"LooksAhead.decode: expected the same predictions .* \(it looks ahead\), got .* differ by"),
        (SeesPadding, r"SeesPadding.encode or decode: .* \(it sees padding\)"),
        (TimeFirst, r"TimeFirst.decode: expected \[2, \d, ·\], got \[\d, 2, \d+\]"),
        (OneTooFew, r"OneTooFew.decode: expected \[2, 5, ·\], got \[2, 4, \d+\]"),
        (OtherVocabulary, r"OtherVocabulary.project: expected \[2, \d, 9\], got \[2, \d, 8\]"),
        (Draws, r"Draws.project: expected the same logits again, .*; draw random numbers in decode, got .* differ by"),
        (NotANumber, r"NotANumber.decode: expected finite numbers, got NaN or infinity"),
        (OtherSteps, r"OtherSteps.step: expected what decode predicts after 1 tokens, got .* differ by"),
        (
            OtherMatrix,
            r"OtherMatrix.output_matrix: expected a matrix with whose rows .* project returns, got .* differ by",
        ),
        (TransposedMatrix, r"TransposedMatrix.output_matrix: expected \[9, 16\], got \[16, 9\]"),
        (NoMemory, r"NoMemory.encode: expected a Memory, got Tensor"),
        (Raises, r"Raises.decode: expected a result, got NotImplementedError: later"),
    ],
)
def test_an_architecture_that_breaks_its_contract_is_named(
    corpus: MappedCorpus, kind: type[Recurrent], says: str
) -> None:
    torch.manual_seed(1)
    with pytest.raises(PluginError, match=rf"arch=mine: {says}"):
        check_model(kind(9), VOCAB, [corpus], "mine", CPU)


def test_one_that_keeps_it_passes_and_nothing_changes(corpus: MappedCorpus) -> None:
    torch.manual_seed(1)
    model = Recurrent(9)
    state = torch.get_rng_state()
    weights = {name: t.clone() for name, t in model.state_dict().items()}
    check_model(model, VOCAB, [corpus], "mine", CPU)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert all(torch.equal(t, weights[name]) for name, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
