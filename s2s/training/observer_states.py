"""The states of observers in checkpoints."""

from __future__ import annotations

__all__ = ["load_states", "observer_states"]

from typing import TYPE_CHECKING, Any

from s2s.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from s2s.observer import Observer


def observer_states(observers: Iterable[Observer]) -> dict[str, Mapping[str, Any]]:
    """The states of the observers that have one, by their keys; raises PluginError if two have the same key."""
    states: dict[str, Mapping[str, Any]] = {}
    for observer in observers:
        if state := observer.state_dict():
            if observer.key in states:
                raise PluginError(f"two observers keep a state as '{observer.key}': one must define another `key`")
            states[observer.key] = state
    return states


def load_states(observers: Iterable[Observer], states: Mapping[str, Mapping[str, Any]]) -> None:
    """Give each observer its state, if the checkpoint has one."""
    for observer in observers:
        if observer.key in states:
            observer.load_state_dict(states[observer.key])
