"""Models of other programs: the names and layouts of their tensors, and their options, as tables read both ways.

An architecture registers a `ForeignFormat` for each format in the group `foreign_format`, as ARCH.FORMAT:
`transformer.marian`. An export writes with it, an import reads with it.
"""

from __future__ import annotations

__all__ = ["ForeignFormat", "Layout", "NameTable", "OptionNames", "TensorNames", "open_tensors"]

from s2s.foreign.format import ForeignFormat
from s2s.foreign.names import Layout, NameTable, TensorNames
from s2s.foreign.options import OptionNames
from s2s.foreign.tensor_files import open_tensors
