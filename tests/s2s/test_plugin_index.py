"""A start with the index gives the same plugins as one without, and imports fewer of them."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from harness import distributions
from harness.distributions import GOOD, HEAD
from s2s import plugin_index
from s2s.cli import run_command
from s2s.config import Config, GenerateConfig
from s2s.config.data import PrepareConfig
from s2s.deferred import DeferredPlugin, PluginModules
from s2s.errors import PluginError
from s2s.plugin import Hooks, Plugins, load_plugins

HOOKS = [name for name in dir(Hooks) if name.startswith("s2s_") and name != "s2s_register"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, empty; files need not settle before an index counts on their times."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(plugin_index, "SETTLED", -(10**10))
    return tmp_path / "cache"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the search path."""
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path / "site")
    # Python takes a source of the same size and second for unchanged.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path / "site"


def index_file(cache: Path) -> Path:
    (found,) = (cache / "s2s").glob("plugins-*.json")
    return found


def deferred(plugins: Plugins) -> list[str]:
    """The plugins that the index knew."""
    assert isinstance(plugins.modules, PluginModules)
    return [name for name, module in plugins.modules.loaded.items() if isinstance(module, DeferredPlugin)]


def factory(made: Any) -> Any:
    """What tells a factory from others: each registration binds it anew."""
    return (made.func, len(made.args)) if isinstance(made, partial) else getattr(made, "__qualname__", made)


def everything(plugins: Plugins) -> dict[str, Any]:
    """All that plugins have brought, in its order."""
    registry = plugins.registry
    return {
        "loaded": list(plugins.loaded.items()),
        "modules": list(plugins.modules.items()),
        "groups": list(registry.groups.items()),
        "entries": [
            (key, e.group, e.name, e.plugin, e.config, factory(e.factory), e.extensions)
            for key, e in registry.entries.items()
        ],
        "presets": list(registry.presets.items()),
        "options": [(one.plugin, one.config, one.command, one.names) for one in registry.added],
        "commands": [registry.with_options(config) for config in (Config, GenerateConfig)],
        "broken": registry.broken,
        "blocked": list(registry.blocked.items()),
        "packages": registry.packages,
        "hooks": {
            hook: [(one.plugin_name, dict(one.opts)) for one in getattr(plugins.hook, hook).get_hookimpls()]
            for hook in HOOKS
        },
    }


def outcome(local: list[str]) -> tuple[Any, list[str]]:
    """Everything, or the error; and what was deferred."""
    try:
        plugins = load_plugins(local)
    except PluginError as error:
        return str(error), []
    return everything(plugins), deferred(plugins)


def none(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return []


def strangers(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Also hooks that come before and after those of s2s, and an entry of a group that a shipped plugin opens."""
    source = GOOD.format(name="early") + "    registry.add('linear', 'mine', ToyConfig, dict)\n"
    distributions.install(site, source, point="zebra")
    hook = "@hookimpl({})\ndef s2s_observe(trainer): ...\n"
    distributions.install(site, HEAD + hook.format("tryfirst=True"), point="aardvark")
    distributions.install(site, HEAD + hook.format("trylast=True"), point="badger")
    return []


def broken(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A clash, a hook that does not exist, a module that cannot be imported, and a name that is taken."""
    distributions.install(site, GOOD.format(name="transformer"), point="clash")
    distributions.install(site, HEAD + "@hookimpl\ndef s2s_regster(registry): ...\n", point="misspelt")
    distributions.install(site, "raise SystemExit('bye')\n", point="exit")
    distributions.install(site, GOOD.format(name="other"), point="transformer", package="late")
    return []


def shipped_blocked(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One opens a group; another has options of s2s-generate."""
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "export, constraints")
    return []


def all_blocked(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", ",".join({point.name for point in entry_points(group="s2s")}))
    return []


def unknown_blocked(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "distribtued")
    return []


def no_strangers(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    strangers(site, monkeypatch)
    monkeypatch.setenv("S2S_NO_PLUGINS", "1")
    return []


def local(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    name = f"s2s_local_{next(distributions.counter)}"
    (site / f"{name}.py").write_text(GOOD.format(name="mine"))
    return [name]


def local_clash(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (site / "mine.py").write_text(GOOD.format(name="rnn"))
    return ["./mine.py"]


def local_shipped(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return ["s2s_transformer"]


SETS = (
    *(none, strangers, broken, shipped_blocked, all_blocked, unknown_blocked, no_strangers),
    *(local, local_clash, local_shipped),
)


PluginSet = Callable[[Path, pytest.MonkeyPatch], list[str]]


@pytest.mark.parametrize("plugin_set", SETS, ids=lambda one: one.__name__)
def test_a_start_with_the_index_gives_what_one_without_gives(
    plugin_set: PluginSet, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = plugin_set(site, monkeypatch)
    with monkeypatch.context() as without:
        without.setenv("XDG_CACHE_HOME", "/dev/null")
        expected, none_deferred = outcome(names)
    with monkeypatch.context() as unblocked:
        unblocked.delenv("S2S_BLOCK_PLUGINS", raising=False)
        load_plugins()
    found, some_deferred = outcome(names)
    assert found == expected
    assert none_deferred == []
    if isinstance(found, dict):
        shipped = [name for name, origin in found["loaded"] if origin.startswith("s2s-toolkit ")]
        assert set(shipped) - set(some_deferred) <= {"lora"}, "which registers presets"


SHIPPED = (
    HEAD
    + "from s2s.config import GenerateConfig, TrainConfig\n"
    + "@dataclass(kw_only=True)\nclass Decoding(GenerateConfig):\n    later: int = 3\n"
    + "@dataclass(kw_only=True)\nclass Training(TrainConfig):\n    sooner: int = 4\n"
    + "@hookimpl\ndef s2s_register(registry):\n"
    + "    registry.options(Training)\n    registry.options(Decoding)\n"
    + "    registry.group('kinds', 'it')\n"
    + "    registry.arch({name!r}, ToyConfig, lambda config, vocab: registry.names('arch'))\n"
    + "@hookimpl\ndef s2s_plan(config):\n    return config\n"
)


def ship(site: Path, name: str = "toy") -> str:
    """A distribution with the name of s2s, in whose place it is found."""
    return distributions.install(site, SHIPPED.format(name=name), point="toy", package="s2s-toolkit")


def fresh(module: str) -> Plugins:
    """A start in which the module has not been imported."""
    sys.modules.pop(module, None)
    importlib.invalidate_caches()
    return load_plugins()


def test_a_plugin_is_imported_when_its_entry_is_used(site: Path) -> None:
    fresh(module := ship(site))
    distributions.install(site, GOOD.format(name="other"), point="other")
    fresh(module)
    plugins = fresh(module)
    assert {"other", "toy"} <= set(plugins.registry.names("arch"))
    entry = plugins.registry.get("arch", "toy")
    assert (entry.plugin, entry.name, module in sys.modules) == ("toy", "toy", False)
    assert entry.config(name="toy").size == 1  # type: ignore[attr-defined]
    assert module in sys.modules
    assert "other" in entry.build(None, None), "its registry is that of all plugins"
    assert plugins.registry.get("arch", "toy") is entry


def test_a_plugin_is_imported_for_the_commands_that_it_adds_options_to(site: Path) -> None:
    fresh(module := ship(site))
    registry = fresh(module).registry
    assert registry.with_options(PrepareConfig) is PrepareConfig
    assert module not in sys.modules
    assert registry.with_options(GenerateConfig)(run="a").later == 3  # type: ignore[attr-defined]
    assert module in sys.modules
    assert [(one.plugin, one.names, one.config.__name__) for one in registry.added] == [
        ("toy", ["sooner"], "Training"),
        ("toy", ["later"], "Decoding"),
    ]


def test_an_entry_of_a_group_whose_plugin_is_blocked_breaks_its_own(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opener = ship(site)
    adder = "@hookimpl\ndef s2s_register(registry):\n    registry.add('kinds', 'mine', ToyConfig, dict)\n"
    (site / f"{opener}_adder.py").write_text(HEAD + adder)
    points = site / "s2s_toolkit-1.5.dist-info" / "entry_points.txt"
    points.write_text(f"{points.read_text()}zoo = {opener}_adder\n")
    assert fresh(opener).registry.broken == {}
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "toy")
    found = described(fresh(opener))
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert found == described(fresh(opener))
    assert "no group 'kinds'" in found["broken"]["zoo"]


def test_a_plugin_is_imported_when_its_hook_is_called(site: Path) -> None:
    fresh(module := ship(site))
    plugins = fresh(module)
    assert module not in sys.modules
    assert plugins.hook.s2s_plan(config="mine", plugins=plugins) == "mine"
    assert module in sys.modules


def test_the_record_of_a_run_has_the_sources_of_plugins_that_it_did_not_use(site: Path) -> None:
    fresh(module := ship(site))
    plugins = fresh(module)
    assert plugins.modules["toy"].__file__ == str(site / f"{module}.py")


def edit_source(site: Path, module: str) -> None:
    (site / f"{module}.py").write_text(SHIPPED.format(name="changed"))


def edit_source_to_the_same_size(site: Path, module: str) -> None:
    (site / f"{module}.py").write_text(SHIPPED.format(name="toe"))


def rename_point(site: Path, module: str) -> None:
    (site / "s2s_toolkit-1.5.dist-info" / "entry_points.txt").write_text(f"[s2s]\nrenamed = {module}\n")


def upgrade(site: Path, module: str) -> None:
    (site / "s2s_toolkit-1.5.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: s2s-toolkit\nVersion: 2\n"
    )


def add_distribution(site: Path, module: str) -> None:
    distributions.install(site, GOOD.format(name="other"), point="other")


def add_point(site: Path, module: str) -> None:
    (site / "empty-1.0.dist-info" / "entry_points.txt").write_text("[s2s]\nlater = json\n")


def upgrade_egg(site: Path, module: str) -> None:
    (site / "egg.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: egg\nVersion: 2\n")


def remove_source(site: Path, module: str) -> None:
    (site / f"{module}.py").unlink()


def shadow(site: Path, module: str) -> None:
    """Before it on the search path."""
    (site.parent / "before").mkdir()
    (site.parent / "before" / f"{module}.py").write_text(SHIPPED.format(name="shadow"))
    sys.path.insert(0, str(site.parent / "before"))


CHANGES = (
    *(edit_source, edit_source_to_the_same_size, rename_point, upgrade, add_distribution, add_point),
    *(remove_source, shadow, upgrade_egg),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_an_index_does_not_count_once_anything_has_changed(
    change: Callable[[Path, str], None], site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "empty-1.0.dist-info").mkdir()
    (site / "empty-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: empty\nVersion: 1\n")
    (site / "egg.egg-info").mkdir()
    (site / "egg.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: egg\nVersion: 1\n")
    (site / "egg.egg-info" / "entry_points.txt").write_text("[s2s]\negg = plistlib\n")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    fresh(module := ship(site))
    before = fresh(module)
    assert deferred(before) == ["toy"]
    change(site, module)
    after = fresh(module)
    assert deferred(after) == []
    with monkeypatch.context() as without:
        without.setenv("XDG_CACHE_HOME", "/dev/null")
        assert described(after) == described(fresh(module))
    assert described(after) != described(before)


def described(plugins: Plugins) -> dict[str, Any]:
    """Names and origins: the objects are new with every import."""
    registry = plugins.registry
    return {"loaded": plugins.loaded, "broken": registry.broken, "entries": list(registry.entries)}


def flip(content: bytes) -> bytes:
    return content.replace(b'"toy"', b'"tox"', 1)


def other_search_path(content: bytes) -> bytes:
    body = json.loads(content.partition(b"\n")[2])
    body["path"].append("/elsewhere")
    return signed(json.dumps(body).encode())


def signed(body: bytes) -> bytes:
    return plugin_index._checksum(body) + b"\n" + body


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one letter": flip,
    "no JSON": lambda content: signed(b"{"),
    "not UTF-8": lambda content: signed(b"\xff"),
    "of another search path": other_search_path,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_index_is_as_if_there_were_none(kind: str, site: Path, cache: Path) -> None:
    expected = described(fresh(module := ship(site)))
    file = index_file(cache)
    whole = file.read_bytes()
    file.write_bytes(DAMAGE[kind](whole))
    assert file.read_bytes() != whole
    plugins = fresh(module)
    assert (deferred(plugins), described(plugins)) == ([], expected)
    assert deferred(fresh(module)) == ["toy"], "it is written again"


def test_an_index_that_another_user_may_write_to_is_not_read(site: Path, cache: Path) -> None:
    """It names modules, which are imported."""
    fresh(module := ship(site))
    index_file(cache).chmod(0o622)
    assert deferred(fresh(module)) == []


@pytest.mark.parametrize("place", ["/dev/null", "/proc/1", "~nobody-at-all"])
def test_a_cache_that_cannot_be_written_is_done_without(
    place: str, site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    module = ship(site)
    assert [deferred(fresh(module)) for _ in range(2)] == [[], []]
    assert capsys.readouterr() == ("", "")


def test_a_folder_in_the_place_of_the_index_is_named(site: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    fresh(module := ship(site))
    index = index_file(cache)
    index.unlink()
    index.mkdir()
    assert deferred(fresh(module)) == []
    assert [record.message.partition(":")[0] for record in caplog.records] == [f"{index} is a folder"]
    index.rmdir()
    fresh(module)
    assert deferred(fresh(module)) == ["toy"]


def test_nothing_is_kept_of_files_that_may_be_changing(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is written again within the same tick of the clock has the same time."""
    monkeypatch.setattr(plugin_index, "SETTLED", 10**10)
    fresh(ship(site))
    assert not cache.exists()


def test_nothing_is_kept_while_a_shipped_plugin_is_blocked(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "toy")
    fresh(ship(site))
    assert not cache.exists()


def test_a_broken_stranger_is_tried_again_at_every_start(site: Path) -> None:
    distributions.install(site, "import s2s_made_later\n", point="zebra")
    assert [list(load_plugins().registry.broken) for _ in range(2)] == [["zebra"]] * 2
    (site / "s2s_made_later.py").write_text("")
    assert load_plugins().registry.broken == {}


def test_processes_that_start_at_once_write_one_index(cache: Path) -> None:
    code = (
        "from s2s import load_plugins, plugin_index; plugin_index.SETTLED = 0; plugins = load_plugins()\n"
        "print(len(plugins.loaded), len(plugins.registry.entries))"
    )

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True)

    started = [start() for _ in range(4)]
    outputs = {process.communicate(timeout=60)[0] for process in started}
    assert [process.returncode for process in started] == [0] * 4
    assert len(outputs) == 1
    assert [file.name for file in (cache / "s2s").iterdir()] == [index_file(cache).name], "no temporary file is left"
    written = os.stat(index_file(cache)).st_mtime_ns  # noqa: PTH116
    assert {start().communicate(timeout=60)[0]} == outputs
    assert os.stat(index_file(cache)).st_mtime_ns == written, "it counts"  # noqa: PTH116


def test_a_command_warns_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run_command(GenerateConfig, lambda *_: 0, ["run=x"]) == 0
    assert capsys.readouterr().err == ""
