"""What prepacking does to each kind of module: outputs stay, and no weight that something else reads is freed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, weight_norm

from s2s.backend.linear import HasPrepacked, linear_function, prepack
from s2s.nn.embedding import Embeddings
from s2s.nn.linear import Linear, Projections
from s2s_cpu.prepacked import has_linear
from s2s_testing import VOCAB

if TYPE_CHECKING:
    from collections.abc import Callable

BACKENDS = ["onednn", pytest.param("native", marks=pytest.mark.skipif(not has_linear(), reason="no functions in C"))]


class TiedToEmbedding(nn.Module):
    """A softmax whose matrix is that of the embeddings."""

    def __init__(self, kind: type[nn.Linear]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(19, 16)
        self.softmax = kind(16, 19, bias=False)
        self.softmax.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.softmax(self.embedding(x[..., 0].abs().long() % 19))


class TiedMaps(nn.Module):
    """Two maps of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Linear(16, 16), Linear(16, 16)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class ReadsTheWeight(nn.Module):
    """A module that multiplies by the weight of an nn.Linear in it by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x) + F.linear(x, self.map.weight)


class Subclass(nn.Linear):
    """One that does something else with its weight."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * 2, self.bias)


def attention() -> nn.Module:
    class Itself(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.attention(x, x, x)[0]
            return found

    return Itself()


def decoder_layer() -> nn.Module:
    class Itself(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.layer(x, x)
            return found

    return Itself()


def old_weight_norm() -> nn.Module:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        return weight_norm(nn.Linear(16, 24))


class First(nn.Module):
    """The first output of a recurrent layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x)[0]
        return found


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ConvTranspose1d(16, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x.transpose(1, 2))
        return found


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.maps = Projections(16, (8, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(self.maps(x), dim=-1)


class Softmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings(VOCAB, 16, "shared")
        self.embeddings.init_weights()

    def forward(self, x: Tensor) -> Tensor:
        return self.embeddings.logits(x)


KINDS: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "Linear of s2s": (lambda: Linear(16, 24), 1, 1),
    "Projections": (Parts, 1, 1),
    "softmax of Embeddings": (Softmax, 1, 0),
    "nn.Linear": (lambda: nn.Linear(16, 24), 1, 0),
    "nn.Linear without a bias": (lambda: nn.Linear(16, 24, bias=False), 1, 0),
    "frozen": (lambda: nn.Linear(16, 24).requires_grad_(False), 1, 0),
    "frozen Linear of s2s": (lambda: Linear(16, 24).requires_grad_(False), 1, 1),
    "a subclass of nn.Linear": (lambda: Subclass(16, 24), 0, 0),
    "MultiheadAttention": (attention, 0, 0),
    "TransformerDecoderLayer": (decoder_layer, 2, 0),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, 0),
    "weight_norm": (old_weight_norm, 0, 0),
    "parametrized": (lambda: parametrizations.weight_norm(nn.Linear(16, 24)), 0, 0),
    "spectral_norm": (lambda: parametrizations.spectral_norm(nn.Linear(16, 24)), 0, 0),
    "ConvTranspose1d": (Transposed, 0, 0),
    "Conv1d": (lambda: nn.Conv1d(7, 16, 3), 0, 0),
    "LSTM": (lambda: First(nn.LSTM(16, 8, batch_first=True)), 0, 0),
    "GRU": (lambda: First(nn.GRU(16, 8, batch_first=True)), 0, 0),
    "Embedding tied to an nn.Linear": (lambda: TiedToEmbedding(nn.Linear), 1, 0),
    "Embedding tied to a Linear of s2s": (lambda: TiedToEmbedding(Linear), 1, 0),
    "tied maps": (TiedMaps, 2, 2),
    "a weight that the module around reads": (ReadsTheWeight, 1, 0),
}
"""How it is made; how many maps are prepacked; how many of their weights are freed"""


def is_prepacked(module: nn.Module) -> bool:
    if isinstance(module, HasPrepacked):
        return module.prepacked is not None
    return isinstance(module, nn.Linear) and not hasattr(linear_function(module), "__self__")


@pytest.mark.parametrize("grad", [False, True], ids=["without gradients", "with"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_prepacking_changes_no_output_of(kind: str, backend: Any, grad: bool) -> None:
    """Without gradients, torch's own layers may take a path that reads the weights of the maps in them."""
    make, n_prepacked, n_freed = KINDS[kind]
    torch.manual_seed(1)
    module, x = make().eval(), torch.randn(3, 7, 16)
    with torch.set_grad_enabled(grad):
        expected = module(x).detach()
        prepack(module, backend, "none")
        torch.testing.assert_close(module(x).detach(), expected, rtol=1e-4, atol=1e-5)
    assert sum(map(is_prepacked, module.modules())) == n_prepacked
    freed = [m for m in module.modules() if isinstance(m, nn.Linear) and m.weight is None]
    assert len(freed) == n_freed
