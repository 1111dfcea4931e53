"""What a run needs and its user has not set: chosen from the corpus and the machine, each value with its reason.

A recipe is registered under a name (`registry.recipe("auto", Config, factory)`) and called once, before the run begins;
its decisions lie above presets and below files and the command line, and are kept with the run.
"""

from __future__ import annotations

__all__ = [
    "VALIDATIONS",
    "Decision",
    "Fingerprint",
    "Hardware",
    "Plan",
    "Recipe",
    "Side",
    "Situation",
    "interval",
    "make_plan",
    "recipe_of",
    "s2s_register",
    "warmup",
]

from s2s.plugin import hookimpl
from s2s.recipe.choose import Recipe, Situation, make_plan, recipe_of
from s2s.recipe.fingerprint import Fingerprint, Side
from s2s.recipe.hardware import Hardware
from s2s.recipe.pace import VALIDATIONS, interval, warmup
from s2s.recipe.plan import Decision, Plan
from s2s.registry import Choice, Registry


def none(_: Choice) -> Recipe:
    """The defaults of options and presets."""
    return lambda _: ()


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.recipe("none", Choice, none)
