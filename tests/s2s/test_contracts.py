"""The defaults of the small contracts, which a plugin need not write itself."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from s2s.corpus import Corpus
from s2s.lazy import lazy_names
from s2s.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.task import Example


def test_a_corpus_has_no_files_settings_and_lines_unless_it_says_so() -> None:
    class Empty(Corpus):
        def examples(self, split: str) -> Iterator[Example]:
            return iter(())

    corpus = Empty()
    assert (list(corpus.files("train")), corpus.settings(), list(corpus.describe())) == ([], {}, [])


def test_an_observer_is_closed_with_what_ends_training() -> None:
    class Closing(Observer):
        ends: Any = ()

        def close(self, error: BaseException | None) -> None:
            self.ends = (*self.ends, error)

    observer, error = Closing(), ValueError()
    with observer as entered:
        assert entered is observer
    with pytest.raises(ValueError), observer:
        raise error
    assert observer.ends == (None, error)


def test_lazy_names_are_those_that_a_package_declares_and_a_module_below_it_exports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, names in {"pack": ["one", "two", "none"], "pack.a": ["one"], "pack.b": ["two"]}.items():
        module: Any = ModuleType(name)
        module.__all__, module.one, module.two, module.hidden = names, f"one of {name}", f"two of {name}", 1
        monkeypatch.setitem(sys.modules, name, module)
    find = lazy_names("pack", "a", "b")
    assert (find("one"), find("two")) == ("one of pack.a", "two of pack.b")
    with pytest.raises(AttributeError, match=r"^module 'pack' has no attribute 'hidden'$"):
        find("hidden")
    with pytest.raises(AssertionError, match=r"^pack\.__all__ names 'none', which none of a, b exports$"):
        find("none")
