"""Published models whose tensors an architecture's table of names reads, whole or with other tokens."""

from __future__ import annotations

__all__ = ["TableModel"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.run import PublishedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s import Choice, Seq2Seq, Side
    from s2s.foreign import ForeignFormat


class TableModel(PublishedModel):
    """A model of a family whose tables of names are known."""

    tables: ForeignFormat

    def load(self, model: Seq2Seq, arch: Choice, rows: Mapping[Side, Sequence[Sequence[int]]] | None) -> None:
        """By the table of names."""
        table, tensors = self.tables.names(arch), self.tensors
        if rows is not None:
            sides = model.vocab_rows() or {}
            of_tokens = {
                name: rows[sides[names.native]]
                for names in table.tensors
                if names.native in sides
                for name in names.foreign
            }
            tensors = SelectedRows(tensors, of_tokens)
        table.load(model.state_dict(), tensors)

    def recorded(
        self, model: Seq2Seq, arch: Choice, rows: Mapping[Side, Sequence[Sequence[int]]] | None
    ) -> dict[str, dict[str, Tensor]]:
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
    """Tensors of which some have a row, or a column of one row, for each token: here for other tokens."""

    def __init__(self, tensors: Mapping[str, Tensor], rows: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """rows: by the names of these tensors."""
        self.tensors, self.rows = tensors, rows

    def __getitem__(self, name: str) -> Tensor:
        tensor = self.tensors[name]
        if name not in self.rows:
            return tensor
        dim, rows = 1 if tensor.dim() == 2 and len(tensor) == 1 else 0, self.rows[name]
        selected = tensor.index_select(dim, torch.tensor([ids[0] for ids in rows]))
        for i, ids in enumerate(rows):
            if len(ids) > 1:
                mean = tensor.index_select(dim, torch.tensor(ids)).float().mean(dim)
                selected.select(dim, i).copy_(mean)
        return selected

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)
