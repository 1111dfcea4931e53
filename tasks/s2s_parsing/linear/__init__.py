"""Linearisations of trees, registered by name in the group `linear`."""

from __future__ import annotations

__all__ = [
    "CONTRACT",
    "FORMS",
    "PERIOD",
    "UNKNOWN_TAG",
    "Action",
    "Kind",
    "Linear",
    "LinearConfig",
    "MalformedError",
    "Numbered",
    "Tagged",
    "UnwritableError",
    "build",
    "repair",
]

from s2s_parsing.linear.actions import UNKNOWN_TAG, Action, Kind, MalformedError, build
from s2s_parsing.linear.contract import Linear, LinearConfig, UnwritableError
from s2s_parsing.linear.forms import Brackets, InOrder, Released, Vinyals
from s2s_parsing.linear.numbered import PERIOD, Numbered
from s2s_parsing.linear.repair import repair
from s2s_parsing.linear.tagged import Tagged

FORMS: dict[str, type[Linear]] = {"released": Released, "vinyals": Vinyals, "brackets": Brackets, "in_order": InOrder}
"""The shipped forms by name."""
CONTRACT = "how a tree is linearised: factory(config) -> s2s_parsing.linear.Linear"
