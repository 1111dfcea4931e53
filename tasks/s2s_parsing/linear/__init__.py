"""Trees as sequences of symbols: several forms, each registered by its name in the group "linear"."""

from __future__ import annotations

__all__ = ["FORMS", "Action", "Kind", "Linear", "LinearConfig", "Malformed", "Unwritable"]

from s2s_parsing.linear.actions import Action, Kind, Malformed
from s2s_parsing.linear.contract import Linear, LinearConfig, Unwritable
from s2s_parsing.linear.forms import Brackets, InOrder, Released, Vinyals

FORMS = {"released": Released, "vinyals": Vinyals, "brackets": Brackets, "in_order": InOrder}
"""The shipped forms by their names."""
