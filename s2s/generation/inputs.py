"""What an input has beside its text: the fields that its task and constraints declare, checked and in their types, and
the constraints that it sets on its output, as options do on all outputs.

Constraints are registered in the group `constraint`, all of which apply.
"""

from __future__ import annotations

__all__ = [
    "INPUT_TYPES",
    "AnyInput",
    "InputFields",
    "Note",
    "RequestConstraints",
    "Revision",
    "as_input",
    "as_inputs",
    "constraints_of_options",
    "output_constraint",
    "registered_constraints",
    "sentence_constraint",
    "sentence_notes",
    "sentence_revision",
]

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from s2s import decoding
from s2s.compose.field_values import FieldValues
from s2s.decoding.batch_constraint import SentenceConstraint
from s2s.errors import ConfigError, DataError, PluginError, did_you_mean
from s2s.generation.candidates import Input
from s2s.task import Example
from s2s.text_lists import is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.compose.options import Option
    from s2s.config import GenerateConfig
    from s2s.decoding import FixedWidthConstraint
    from s2s.plugin import Plugins
    from s2s.task import Constraint, Task


AnyInput = Input | Example | Mapping[str, Any] | str
"""A text, alone or in a mapping as `src`; or an example, whose source it is. In a list, None and NaN, as tables have
them for a missing text, are empty inputs"""
INPUT_TYPES = (Input, Example, Mapping, str)
"""The types of one input"""


class InputFields:
    """Reads the fields of inputs."""

    def __init__(self, task: Task, others: Iterable[type | None], defaults: Mapping[str, Any]) -> None:
        """others: dataclasses of fields besides the task's. defaults: fields of all inputs that do not have them.

        Raises PluginError if two dataclasses have a field of the same name, and DataError for a default of no field.
        """
        self.task, self.defaults = task, defaults
        self.values = [FieldValues(config) for config in (task.fields, *others) if config]
        self.options: dict[str, Option] = {}
        self._defaults_completed: dict[str, Any] | None = None
        for name, option in (pair for values in self.values for pair in values.options.items()):
            if name in self.options:
                owners = f"{self.options[name].owner.__qualname__} and {option.owner.__qualname__}"
                raise PluginError(f"{owners} both have a field '{name}' of inputs; choose another name for one of them")
            self.options[name] = option
        self._check_known(defaults)

    def __call__(self, one: Input) -> dict[str, Any]:
        """All fields that are read; raises DataError for others, for a wrong value, and for one that is missing."""
        self._check_known(one.fields)
        recorded = {name: value for name, value in one.record.items() if name in self.options}
        values = {**recorded, **one.fields}
        return self._completed({**self.defaults, **values}, one.record) if values else dict(self._of_all(one.record))

    def _check_known(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.options:
                hint = did_you_mean(name, self.options)
                raise DataError(f"{name}: task={self.task.config.name} reads no such field of an input.{hint}")

    def _of_all(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of an input that has none itself, computed for the first of these; record: for its error."""
        if self._defaults_completed is None:
            self._defaults_completed = self._completed(self.defaults, record)
        return self._defaults_completed

    def _completed(self, values: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
        for name in (name for part in self.values for name in part.missing(values)):
            hint = did_you_mean(name, record)
            raise DataError(f"{name} is missing: task={self.task.config.name} reads it of every input.{hint}")
        try:
            completed = [part.complete(values) for part in self.values]
        except ConfigError as error:
            raise DataError(str(error)) from None
        return {name: value for part in completed for name, value in part.items()}


def as_input(one: AnyInput) -> Input:
    """An input from its text, from an example, or from a mapping with `src`; raises DataError for another value."""
    match one:
        case Input():
            return one
        case Example():
            return Input(one.src, record=one.fields)
        case str():
            return Input(one)
        case Mapping():
            return _from_mapping(dict(one))
    if is_missing(one):
        return Input("")
    raise DataError(f"an input is a text, or a mapping with its text as 'src', not {type(one).__name__}")


def as_inputs(inputs: Iterable[AnyInput]) -> Iterable[AnyInput]:
    """The inputs; all those that are in memory are checked at once, and an error names one by its number, from 1."""
    if not isinstance(inputs, Iterable):
        raise DataError(f"inputs are a text, or several, not {type(inputs).__name__}")
    return list(map(_numbered, count(1), inputs)) if hasattr(inputs, "__len__") else inputs


def _numbered(number: int, one: AnyInput) -> Input:
    try:
        return as_input(one)
    except DataError as error:
        raise DataError(f"input {number:,}: {error}") from None


def _from_mapping(values: dict[str, Any]) -> Input:
    """An input from the keys of a mapping; as in a list, what is missing may be None or NaN."""
    if "src" not in values:
        raise DataError(f"an input is a text, or a mapping with its text as 'src', not {str(values)[:60]}")
    texts = {name: values.pop(name) for name in ("src", "prefix", "phrases") if name in values}
    present = {name: text for name, text in texts.items() if not is_missing(text)}
    return Input(**{"src": "", **present}, fields=values)


Revision = Callable[[str], SentenceConstraint | None]
"""The constraint of a second search, by the output text of the first; None: that output stays"""


Note = tuple[int, int, str]
"""Begin and end of characters of a text, and what is read behind them: it stands for them, or if there are none, for
the character behind it"""


class RequestConstraints:
    """What options and inputs require of outputs; subclasses override what they provide."""

    fields: type | None = None
    """A dataclass of the fields that inputs may have for `for_sentence`, each with a default"""
    reads_texts = False
    """Whether `for_sentence` constrains outputs to the prefix and phrases of an input"""

    def for_outputs(self, config: GenerateConfig, task: Task) -> Sequence[FixedWidthConstraint]:
        """Constraints that options set on every output."""
        return ()

    def for_sentence(self, config: GenerateConfig, task: Task, sentence: Input) -> SentenceConstraint | None:
        """The constraint that an input sets on its own output, such as by its prefix and phrases; None: none."""
        return None

    def notes(self, config: GenerateConfig, task: Task, sentence: Input) -> Sequence[Note]:
        """What the model reads beside a sentence, in the order in which it is read, as it was trained to read it."""
        return ()

    def revision(self, config: GenerateConfig, task: Task, sentence: Input) -> Revision | None:
        """What a second search requires where the first output does not satisfy it; None: nothing.

        The constraint of the second search replaces that of `for_sentence`.
        """
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
    own, others = task.constraint() if config.constrained else None, constraints_of_options(config, task, constraints)
    return decoding.ConstraintSet(own, others) if others else own


def constraints_of_options(
    config: GenerateConfig, task: Task, constraints: Sequence[RequestConstraints]
) -> list[FixedWidthConstraint]:
    """Those on every output besides the task's."""
    return [one for provider in constraints for one in provider.for_outputs(config, task)]


def sentence_constraint(
    config: GenerateConfig, task: Task, sentence: Input, constraints: Sequence[RequestConstraints]
) -> SentenceConstraint | None:
    """The constraint on the output of one sentence.

    Raises DataError if the input has a prefix or phrases and no plugin reads them, or if several plugins constrain its
    output, since a search has states for one such constraint.
    """
    if (sentence.prefix or any(sentence.phrases)) and not any(provider.reads_texts for provider in constraints):
        raise DataError("prefix and phrases: no loaded plugin constrains outputs to them; leave them out")
    pairs = [(provider, provider.for_sentence(config, task, sentence)) for provider in constraints]
    return _only([(provider, constraint) for provider, constraint in pairs if constraint is not None])


def sentence_notes(
    config: GenerateConfig, task: Task, sentence: Input, constraints: Sequence[RequestConstraints]
) -> Callable[[str], Sequence[Note]]:
    """A function from what is read of a sentence to what is read beside it.

    It raises DataError if several plugins add something, since each would add it to what the others have not seen.
    """

    def notes(read: str) -> Sequence[Note]:
        one = sentence if read == sentence.src else replace(sentence, src=read)
        pairs = [(provider, provider.notes(config, task, one)) for provider in constraints]
        return _only([pair for pair in pairs if pair[1]]) or ()

    return notes


def sentence_revision(
    config: GenerateConfig, task: Task, sentence: Input, constraints: Sequence[RequestConstraints]
) -> Revision | None:
    """What a second search requires where the first output of a sentence does not satisfy it.

    Raises DataError if several plugins require something, since each would undo what the others did.
    """
    pairs = [(provider, provider.revision(config, task, sentence)) for provider in constraints]
    return _only([(provider, revision) for provider, revision in pairs if revision is not None])


def _only(provided: Sequence[tuple[RequestConstraints, Any]]) -> Any:
    """What the only one of several plugins provides, or None."""
    if len(provided) > 1:
        names = " and ".join(f"{type(one).__module__}.{type(one).__qualname__}" for one, _ in provided)
        raise DataError(f"{names} all constrain the output of this input; ask for one of them")
    return provided[0][1] if provided else None
