"""What an architecture registers for a format of another program."""

from __future__ import annotations

__all__ = ["ForeignFormat"]

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from s2s.errors import ConfigError
from s2s.foreign.options import as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from s2s.foreign.names import NameTable
    from s2s.foreign.options import OptionNames
    from s2s.registry import Choice


class ForeignFormat(ABC):
    """Options and tensors of one architecture in one format of another program.

    Registered as `registry.add("foreign_format", "ARCH.FORMAT", Config, "module:Class")`.
    """

    title: ClassVar[str]
    """The other program's name of its model, for messages"""
    model_types: ClassVar[Sequence[str]] = ()
    """The values of `model_type` in a Hugging Face folder's config.json that are this format; (): none"""
    options: ClassVar[Sequence[OptionNames]]
    """Options that both programs have"""
    implied: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Options that the other program does not have: the values here that it can express. A model that is read gets the
    first one."""
    assumed: ClassVar[Mapping[str, Any]] = {}
    """Options of a model that is read; another value is written all the same, since it rarely changes outputs."""

    @abstractmethod
    def names(self, config: Any) -> NameTable:
        """The tensors of a model with these options of the architecture."""

    def write_options(self, config: Choice) -> dict[str, Any]:
        """The architecture's options as options there; raises ConfigError naming what the format cannot express."""
        for name, allowed in self.implied.items():
            if (value := getattr(config, name)) not in allowed:
                raise ConfigError(
                    f"arch.{name}={as_text(value)}: {self.title} has only {' or '.join(map(as_text, allowed))}"
                )
        written: dict[str, Any] = {}
        for option in self.options:
            written |= option.write(getattr(config, option.native), self.title)
        return written

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """A configuration there, with the tensors beside it -> the architecture's options; raises CheckpointError."""
        implied = {name: allowed[0] for name, allowed in self.implied.items()}
        return {**implied, **self.assumed, **{option.native: option.read(config) for option in self.options}}
