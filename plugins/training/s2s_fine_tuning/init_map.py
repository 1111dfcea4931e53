"""train.init_map: the name of each of this model's tensors in the run that it starts from."""

from __future__ import annotations

__all__ = ["missing_part", "names_in_source"]

import re
from typing import TYPE_CHECKING

from s2s import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def names_in_source(names: Iterable[str], init_map: Mapping[str, str | None]) -> dict[str, str]:
    """This model's tensor names -> those in the other run, without those that train.init_map leaves as initialised."""
    known = list(names)
    for pattern in init_map:
        if not any(re.search(pattern, name) for name in known):
            raise ConfigError(
                f"train.init_map: {pattern!r} is in no name of a tensor.{did_you_mean(pattern, _parts(known))}"
            )
    mapping = {}
    for name in known:
        source_name = _renamed(name, init_map)
        if source_name is not None:
            mapping[name] = source_name
    return mapping


def _parts(names: Iterable[str]) -> set[str]:
    """All names of tensors, and of the modules that contain them."""
    return {name[:end] for name in names for end in [*(i for i, c in enumerate(name) if c == "."), len(name)]}


def _renamed(name: str, patterns: Mapping[str, str | None]) -> str | None:
    for pattern, replacement in patterns.items():
        if re.search(pattern, name):
            try:
                return None if replacement is None else re.sub(pattern, replacement, name, count=1)
            except re.error as error:
                raise ConfigError(
                    f"train.init_map: {pattern!r}: {replacement!r} cannot be filled in: {error}"
                ) from None
    return name


def missing_part(name: str, source_name: str, weights: Iterable[str]) -> str:
    """The longest prefix of a tensor's name under which the other run has no tensor, such as `decoder.6.`"""
    parts = name.split(".")
    if name == source_name:
        for n in range(1, len(parts)):
            prefix = ".".join(parts[:n]) + "."
            if not any(other.startswith(prefix) for other in weights):
                return prefix
    return f"{name}$"
