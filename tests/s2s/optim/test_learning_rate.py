"""Rates of a schedule, which a plugin may compute with any library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from s2s.errors import ConfigError
from s2s.optim.learning_rate import checked


@pytest.mark.parametrize("rate", [0.5, np.float32(0.5), torch.tensor(0.5), torch.tensor([0.5])], ids=repr)
def test_a_rate_is_a_plain_number(rate: Any) -> None:
    lr = checked(lambda _: rate, "mine")(1)
    assert (type(lr), lr) == (float, 0.5)


@pytest.mark.parametrize("rate", [None, "fast", torch.ones(2), float("nan"), -1e-3], ids=repr)
def test_what_is_no_rate_is_refused(rate: Any) -> None:
    with pytest.raises(ConfigError, match=r"^schedule=mine gives update 1,000 the learning rate .*; it must be finite"):
        checked(lambda _: rate, "mine")(1000)
