"""Published models whose tensors an architecture's table of names reads, whole or with fewer tokens."""

from __future__ import annotations

__all__ = ["TableModel"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.run import PublishedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from s2s import Choice, Seq2Seq
    from s2s.foreign import ForeignFormat


class TableModel(PublishedModel):
    """A model of a family whose tables of names are known."""

    tables: ForeignFormat

    def load(self, model: Seq2Seq, arch: Choice, kept: Sequence[int] | None) -> None:
        """By the table of names."""
        table, tensors = self.tables.names(arch), self.tensors
        if kept is not None:
            rows = model.vocab_rows() or {}
            names = {name for names in table.tensors if names.native in rows for name in names.foreign}
            tensors = SelectedRows(tensors, names, torch.tensor(kept))
        table.load(model.state_dict(), tensors)

    def recorded(self, model: Seq2Seq, arch: Choice) -> dict[str, dict[str, Tensor]]:
        """The multipliers of weights in 8-bit integers, which are those of all rows of a tensor there."""
        weights, int8 = model.state_dict(), {}
        for names in self.tables.names(arch).tensors:
            found = [self.tables.multipliers(self.tensors, name) for name in names.foreign]
            each = [one for one in found if one is not None]
            if len(each) == len(found):
                n_rows = len(weights[names.native]) // len(each)
                int8[names.native] = torch.tensor(each).repeat_interleave(n_rows, 0).t().contiguous()
        return {"int8": int8} if int8 else {}


class SelectedRows(Mapping[str, Tensor]):
    """Tensors of which some have a row, or a column of one row, for each token, and here for some tokens only."""

    def __init__(self, tensors: Mapping[str, Tensor], names: Set[str], kept: Tensor) -> None:
        self.tensors, self.names, self.kept = tensors, names, kept

    def __getitem__(self, name: str) -> Tensor:
        tensor = self.tensors[name]
        if name not in self.names:
            return tensor
        return tensor.index_select(1 if tensor.dim() == 2 and len(tensor) == 1 else 0, self.kept)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)
