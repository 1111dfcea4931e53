"""What can be registered, and what cannot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from s2s.errors import PluginError
from s2s.registry import GROUPS, Choice, Registry

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(kw_only=True)
class ToyConfig(Choice):
    """A config."""

    size: int = 1
    """Size."""


class Forgotten(Choice):
    """A config without its decorator."""

    size: int = 1


@dataclass(kw_only=True)
class TakenConfig(Choice):
    """An option whose name means something in presets."""

    base: str = ""


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_a_method_of_its_name(group: str) -> None:
    registry = Registry()
    getattr(registry, group)("toy", ToyConfig, len)
    assert registry.get(group, "toy").build([1, 2]) == 2


def test_a_plugin_may_open_a_group_of_its_own() -> None:
    registry = Registry()
    registry.group("chunking", "how text is cut: factory(config) -> Chunks")
    registry.add("chunking", "toy", ToyConfig, len)
    assert registry.get("chunking", "toy").build([1]) == 1
    assert registry.names("chunking") == ["toy"]
    assert "chunking" not in Registry().groups
    for taken in ("chunking", "arch", "experiment"):
        with pytest.raises(PluginError, match=f"the group '{taken}' is there already"):
            registry.group(taken, "again")


def test_a_factory_may_be_named_and_is_imported_when_built() -> None:
    registry = Registry()
    registry.arch("later", ToyConfig, "no_such_module:build")
    registry.arch("now", ToyConfig, "os.path:join")
    assert registry.get("arch", "now").build("a", "b") == "a/b"
    with pytest.raises(ModuleNotFoundError):
        registry.get("arch", "later").build(ToyConfig())


def test_a_format_is_found_by_the_ends_of_its_files_names() -> None:
    registry = Registry()
    registry.add("document_format", "toy", ToyConfig, "no_such_module:Toy", extensions=[".toy", ".tx"])
    registry.add("document_format", "plain", ToyConfig, len)
    registry.add("input_format", "other", ToyConfig, len)
    assert [registry.by_extension(end) for end in (".toy", ".tx", ".t", "")] == ["toy", "toy", None, None]


def test_an_extension_is_of_one_format() -> None:
    registry = Registry()
    registry.add("document_format", "first", ToyConfig, len, extensions=[".toy"])
    with pytest.raises(PluginError, match=r"\.toy is an extension of document_format 'first'"):
        registry.add("document_format", "second", ToyConfig, len, extensions=[".tx", ".toy"])
    assert registry.names("document_format") == ["first"]


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (lambda *_: None, "plugin 'mine': the factory of arch 'toy' returned None"),
        (
            "os.path:jion",
            "plugin 'mine': the factory of arch 'toy', 'os.path:jion', does not exist. Did you mean 'join'?",
        ),
    ],
    ids=["None", "no such attribute"],
)
def test_a_factory_that_makes_nothing_is_an_error_that_names_the_plugin(factory: Any, said: str) -> None:
    registry = Registry()
    registry.plugin = "mine"
    registry.arch("toy", ToyConfig, factory)
    with pytest.raises(PluginError) as caught:
        registry.get("arch", "toy").build(ToyConfig())
    assert str(caught.value) == said


def test_a_clash_names_both_plugins() -> None:
    registry = Registry()
    registry.plugin, registry.packages = "one", {"one": "one-dist 1.0", "two": "two-dist 2.0"}
    registry.arch("toy", ToyConfig, len)
    registry.plugin = "two"
    with pytest.raises(PluginError, match=r"by plugin 'one' of one-dist 1\.0 and by plugin 'two' of two-dist 2\.0"):
        registry.arch("toy", ToyConfig, len)
    registry.preset("arch", "toy", {"name": "toy"})
    with pytest.raises(PluginError, match="arch 'toy' is registered by"):
        registry.preset("arch", "toy", {"name": "toy"})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: r.add("arhc", "x", ToyConfig, len), "no group 'arhc'. Did you mean 'arch'?"),
        (lambda r: r.preset("experimnt", "x", {}), "no group 'experimnt'. Did you mean 'experiment'?"),
        (lambda r: r.arch("no way", ToyConfig, len), "a name is letters, digits"),
        (lambda r: r.arch("5", ToyConfig, len), "a name is letters, digits"),
        (lambda r: r.arch("", ToyConfig, len), "a name is letters, digits"),
        (lambda r: r.arch("true", ToyConfig, len), "a name is letters, digits"),
        (lambda r: r.preset("arch", "a=b", {}), "a name is letters, digits"),
        (lambda r: r.arch("x", dict, len), "dict must be a dataclass that derives from s2s.Choice"),
        (lambda r: r.arch("x", ToyConfig(), len), "must be a dataclass that derives"),
        (lambda r: r.arch("x", Forgotten, len), "Forgotten lacks @dataclass(kw_only=True)"),
        (lambda r: r.arch("x", TakenConfig, len), "'base' has a meaning in presets"),
        (lambda r: r.add("corpus", "x", ToyConfig, len, extensions=".txt"), "extensions='.txt' must be a list"),
        (lambda r: r.add("corpus", "x", ToyConfig, len, extensions=["txt"]), "extensions=['txt'] must be a list"),
        (lambda r: r.add("corpus", "x", ToyConfig, len, extensions=[".TXT"]), "extensions=['.TXT'] must be a list"),
        (lambda r: r.add("corpus", "x", ToyConfig, len, extensions=[".tar.gz"]), "extensions=['.tar.gz'] must be a"),
        (lambda r: r.add("corpus", "x", ToyConfig, len, extensions=[1]), "extensions=[1] must be a list"),
        (lambda r: r.add("corpus", "x", ToyConfig, len, extensions=None), "extensions=None must be a list"),
        (lambda r: r.add("corpus", "x", ToyConfig, len, extensions=[".txt"]), "only a document_format is found by"),
    ],
)
def test_what_cannot_be_registered_says_why(call, said: str) -> None:  # noqa: ANN001
    with pytest.raises(PluginError, match=re.escape(said)):
        call(Registry())


def test_an_unknown_name_gets_a_suggestion_and_what_may_have_held_it() -> None:
    registry = Registry()
    registry.arch("transformer", ToyConfig, len)
    registry.preset("arch", "transformer_big", {"name": "transformer"})
    registry.broken["exotic"] = "ImportError: no module x (from exotic 1.0)"
    registry.blocked["other"] = "other"
    with pytest.raises(PluginError) as caught:
        registry.get("arch", "transfromer")
    assert str(caught.value) == (
        "arch=transfromer: no such arch. Plugin 'exotic' could not be loaded: ImportError: no module x (from exotic "
        "1.0). Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: other. Did you mean 'transformer'?"
    )
    assert registry.names("arch") == ["transformer", "transformer_big"]
    assert registry.known_hint("task").startswith(" Known: none.")


def test_presets_of_a_folder_are_named_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "arch").mkdir()
    (tmp_path / "arch" / "a.b.yaml").write_text("name: x\n")
    registry = Registry()
    registry.presets_in(tmp_path)
    assert registry.presets["arch", "a.b"].source == tmp_path / "arch" / "a.b.yaml"
