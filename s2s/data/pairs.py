"""The types of encoded pairs and of the rows that name them."""

from __future__ import annotations

__all__ = ["Pair", "Rows", "Sentence"]

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sentence = Sequence[int] | NDArray[Any]
Pair = tuple[Sentence, Sentence]
"""Source and target ids, without bos and eos"""
Rows = NDArray[np.int64]
"""Indices of pairs in the concatenation of all corpora"""
