"""What an architecture registers for a format of another program."""

from __future__ import annotations

__all__ = ["ForeignFormat"]

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from s2s.errors import CheckpointError, ConfigError
from s2s.foreign.options import as_text
from s2s.foreign.tensor_files import open_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

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

    def open(self, path: Path) -> tuple[Mapping[str, Any], Mapping[str, Tensor]]:
        """The configuration and the tensors of a model on disk, each read when it is asked for: here of a folder of
        Hugging Face. Raises CheckpointError if it is no such thing."""
        try:
            config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{path / 'config.json'} is not readable: {error}") from error
        if not isinstance(config, dict):
            raise CheckpointError(f"{path / 'config.json'} holds no options")
        return config, open_tensors(path)

    @abstractmethod
    def names(self, config: Any) -> NameTable:
        """The tensors of a model with these options of the architecture."""

    def multipliers(self, tensors: Mapping[str, Tensor], name: str) -> tuple[float, float] | None:
        """Of one of the tensors of `open` that stands for a matrix of 8-bit integers: what its values are multiplied by
        to be those, and what inputs are multiplied by, 0: not recorded. None: it stands for nothing else."""
        return None

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
