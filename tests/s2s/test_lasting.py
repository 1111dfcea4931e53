"""Objects that live as long as the process are left out of collections, in a process that is a command alone."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from s2s.lasting import exclude_loaded, lasting_objects

if TYPE_CHECKING:
    from collections.abc import Iterator


class Node:
    """One that refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def command() -> Iterator[None]:
    """As `run_command` leaves a process that is this command alone."""
    gc.freeze()
    yield
    gc.unfreeze()


def is_visited(one: object) -> bool:
    return any(other is one for other in gc.get_objects())


@pytest.mark.usefixtures("command")
def test_what_lasts_as_long_as_the_process_is_not_visited() -> None:
    with lasting_objects():
        assert not gc.isenabled()
        made = Node()
    assert gc.isenabled()
    assert not is_visited(made)
    assert is_visited(Node())


@pytest.mark.usefixtures("command")
def test_garbage_is_collected_after_an_error() -> None:
    with pytest.raises(KeyError), lasting_objects():
        raise KeyError
    assert gc.isenabled()
    assert is_visited(Node())


@pytest.mark.usefixtures("command")
def test_collections_that_were_off_stay_off() -> None:
    gc.disable()
    try:
        with lasting_objects():
            with lasting_objects():
                pass
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.usefixtures("command")
def test_what_is_loaded_is_not_visited_and_its_garbage_is_collected() -> None:
    loaded, garbage = Node(), weakref.ref(Node())
    exclude_loaded()
    assert not is_visited(loaded)
    assert garbage() is None


def test_nothing_is_excluded_in_a_process_that_is_more_than_a_command() -> None:
    assert gc.get_freeze_count() == 0
    with lasting_objects():
        assert gc.isenabled()
        made = Node()
    exclude_loaded()
    assert is_visited(made)
    assert gc.get_freeze_count() == 0
