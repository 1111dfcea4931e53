"""The contract of constraints that options and inputs set on outputs, besides the task's own.

They are registered in the group `constraint`, all of which apply.
"""

from __future__ import annotations

__all__ = ["RequestConstraints", "output_constraint", "registered_constraints", "sentence_constraint"]

from typing import TYPE_CHECKING

from s2s.decoding.constraints import ConstraintSet
from s2s.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.config import GenerateConfig
    from s2s.decoding import FixedWidthConstraint, SentenceConstraint
    from s2s.generation.candidates import Input
    from s2s.plugin import Plugins
    from s2s.task import Constraint, Task


class RequestConstraints:
    """What options and inputs require of outputs; subclasses override what they provide."""

    fields: type | None = None
    """A dataclass of the fields that inputs may have for `for_sentence`, each with a default"""

    def for_outputs(self, config: GenerateConfig, task: Task) -> Sequence[FixedWidthConstraint]:
        """Constraints that options set on every output."""
        return ()

    def for_sentence(self, task: Task, sentence: Input) -> SentenceConstraint | None:
        """The constraint that an input sets on its own output, such as by its prefix and phrases; None: none."""
        return None


def registered_constraints(plugins: Plugins | None) -> list[RequestConstraints]:
    """Those of the group `constraint`, in the order in which plugins were loaded."""
    if plugins is None:
        return []
    names = [name for group, name in plugins.registry.entries if group == "constraint"]
    return [plugins.registry.build_default("constraint", name) for name in names]


def output_constraint(
    config: GenerateConfig, task: Task, constraints: Sequence[RequestConstraints]
) -> Constraint | None:
    """The constraint on every output: the task's and those of the options; None if every output is allowed."""
    own = task.constraint() if config.constrained else None
    others = [one for provider in constraints for one in provider.for_outputs(config, task)]
    return ConstraintSet(own, others) if others else own


def sentence_constraint(
    task: Task, sentence: Input, constraints: Sequence[RequestConstraints]
) -> SentenceConstraint | None:
    """The constraint on the output of one sentence.

    Raises DataError if the input has a prefix or phrases and nothing provides the constraint for them, or if several
    plugins constrain its output, since a search has states for one such constraint.
    """
    pairs = [(type(provider).__name__, provider.for_sentence(task, sentence)) for provider in constraints]
    provided = {name: constraint for name, constraint in pairs if constraint is not None}
    if len(provided) > 1:
        raise DataError(f"{' and '.join(provided)} both constrain the output of this input; ask for one of them")
    if not provided and (sentence.prefix or any(sentence.phrases)):
        raise DataError("prefix and phrases: no loaded plugin constrains single outputs; leave them out")
    return next(iter(provided.values()), None)
