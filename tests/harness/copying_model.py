"""A model that copies its source, or reads it backwards, and attends to what it copies; with a task of letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from harness.capital_tasks import WithoutFiles
from harness.generators import generator_of
from harness.shipped_plugins import generate_config, shipped
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.model import Memory, Seq2Seq
from s2s.registry import Choice
from s2s.task import Encoded, Example, Vocab

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTERS = "_abcdefgh"  # a stroke begins a word


class Strokes(WithoutFiles):
    """Words of letters, a symbol each; a word begins with a stroke that is a symbol, too. z is unknown."""

    def __init__(self) -> None:
        super().__init__(Choice())
        self.vocab = Vocab(src=13, tgt=13, joint=True)

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        strokes = ["".join(f"_{word}" for word in line.split()) for line in lines]
        return [[4 + LETTERS.index(c) if c in LETTERS else self.vocab.unk for c in line] for line in strokes]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join(LETTERS[i - 4] if i >= 4 else "?" for i in ids).replace("_", " ").strip()

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(*self.encode_source([example.src, example.tgt])) for example in examples]


class Says(Seq2Seq):
    """Copies the source symbol that stands at a place computed from the target's, and looks there."""

    def __init__(self, backwards: bool) -> None:
        super().__init__()
        self.scale, self.backwards = nn.Parameter(torch.tensor(20.0)), backwards

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(src, pad)

    def places(self, pad: Tensor, length: int) -> Tensor:
        """[B, T]; the last symbol is eos, which ends either way."""
        n = (~pad).sum(1, keepdim=True) - 1
        place = torch.arange(length).expand(len(pad), -1)
        turned = torch.where(place < n, n - 1 - place, place)
        return (turned if self.backwards else place).minimum(n)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        said = memory.hidden.gather(1, self.places(memory.pad, tgt.size(1)))
        return self.scale * nn.functional.one_hot(said, 13).float()

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor:
        return nn.functional.one_hot(self.places(pad, tgt.size(1)), src.size(1)).float()


def generated(model: Seq2Seq, lines: list[str], **options: Any) -> list[Any]:
    config = generate_config(**{"format": "jsonl", **options})
    return list(generator_of(model, Strokes(), BeamSearch(BeamConfig(beam=4)), config, shipped())(lines))
