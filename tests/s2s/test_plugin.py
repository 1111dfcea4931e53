"""Loading plugins: order, blocking, and how broken plugins are handled."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import distributions
from harness.distributions import GOOD, HEAD, counter
from harness.folders import ROOT
from s2s.cli import run_command
from s2s.config import GenerateConfig
from s2s.errors import PluginError
from s2s.model import Seq2Seq, State
from s2s.objective import Objective
from s2s.plugin import Hooks, Plugins, load_plugins

HOOKS = [name for name in dir(Hooks) if name.startswith("s2s_")]

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution: a module, its metadata and its entry point, in a folder on sys.path."""
    monkeypatch.syspath_prepend(tmp_path)

    return partial(distributions.install, tmp_path)


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module into the working directory; gives its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def make(source: str) -> str:
        name = f"s2s_local_{next(counter)}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return make


def archs(plugins: Plugins) -> set[str]:
    return {name for group, name in plugins.registry.entries if group == "arch"}


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented_and_called(hook: str) -> None:
    assert getattr(Hooks, hook).__doc__
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "plugins").glob("*.md"))
    assert re.search(rf"^#+ .*`{hook}", text, re.MULTILINE), f"docs/plugins/ has no heading for {hook}"
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "s2s").rglob("*.py")]
    assert any(re.search(rf"\.{hook}\(", source) for source in sources), f"no module calls {hook}"


def test_every_hook_reaches_a_plugin(local: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    # All others of s2s would look at what they are given.
    shipped = {point.name for point in entry_points(group="s2s")}
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", ",".join(shipped))

    def written(hook: str) -> str:
        arguments = [name for name in inspect.signature(getattr(Hooks, hook)).parameters if name != "self"]
        return f"@hookimpl\ndef {hook}({', '.join(arguments)}):\n    called.append('{hook}')\n"

    source = "from s2s import hookimpl\ncalled = []\n" + "".join(map(written, HOOKS))
    name = local(source)
    plugins = load_plugins([name])
    values = {
        "config": SimpleNamespace(arch=SimpleNamespace(name="none")),
        "composed": SimpleNamespace(chosen={"task": "a", "arch": "b"}),
        "flags": {},
        "path": Path(),
        "record": {},
    }
    for hook in HOOKS:
        caller = getattr(plugins.hook, hook)
        if hook == "s2s_register":
            continue
        wanted = caller.spec.argnames
        given = {key: values.get(key) for key in wanted} | (
            {"registry": plugins.registry} if "registry" in wanted else {}
        )
        if hook == "s2s_build_model":
            with pytest.raises(PluginError, match="arch=none: no such arch"):
                caller(**given)
        else:
            caller(**given)
    assert sorted(sys.modules[name].called) == sorted(HOOKS)


MINE = SimpleNamespace(arch=None)


def test_a_plugin_may_build_the_model_before_the_core_does(local: Callable[[str], str]) -> None:
    name = local("from s2s import hookimpl\n@hookimpl\ndef s2s_build_model(config):\n    return config\n")
    assert load_plugins([name]).hook.s2s_build_model(config=MINE, vocab=None, registry=None) is MINE


def test_a_wrapper_sees_what_the_core_built(local: Callable[[str], str]) -> None:
    name = local(
        HEAD
        + "@hookimpl\ndef s2s_register(registry):\n"
        + "    registry.arch('toy', ToyConfig, lambda config, vocab: [config.size, vocab])\n"
        + "@hookimpl(wrapper=True)\ndef s2s_build_model():\n    model = yield\n    return ['frozen', *model]\n"
    )
    plugins = load_plugins([name])
    entry = plugins.registry.get("arch", "toy")
    config = SimpleNamespace(arch=entry.config(name="toy"))
    built = plugins.hook.s2s_build_model(config=config, vocab="vocab", registry=plugins.registry)
    assert built == ["frozen", 1, "vocab"]


def test_shipped_plugins_are_loaded_before_strangers_and_strangers_by_name(install: Install) -> None:
    install(GOOD.format(name="late"), point="zebra")
    install(GOOD.format(name="early"), point="aardvark")
    plugins = load_plugins()
    assert list(plugins.loaded)[-2:] == ["aardvark", "zebra"]
    assert plugins.loaded["zebra"] == "zebra-dist 1.5"
    assert {"late", "early", "transformer"} <= archs(plugins)
    assert all(origin.startswith("s2s-toolkit ") for origin in list(plugins.loaded.values())[:-2])


def test_nothing_that_we_ship_is_broken() -> None:
    assert load_plugins().registry.broken == {}


def test_the_environment_blocks_plugins(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    module = install("raise SystemExit('imported')", point="zebra")
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "zebra, transformer")
    plugins = load_plugins()
    assert sorted(plugins.registry.blocked) == ["transformer", "zebra"]
    assert module not in sys.modules
    assert "transformer" not in archs(plugins)
    with pytest.raises(PluginError, match="Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS"):
        plugins.registry.get("arch", "transformer")


def test_a_blocked_name_that_no_plugin_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "distribtued")
    with pytest.raises(
        PluginError, match=r"S2S_BLOCK_PLUGINS=distribtued: no such plugin .* Did you mean 'distributed'"
    ):
        load_plugins()


def test_no_plugins_refuses_files_named_on_the_command_line(
    local: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = local("raise SystemExit('imported')")
    monkeypatch.setenv("S2S_NO_PLUGINS", "1")
    with pytest.raises(PluginError, match=rf"^plugins=\[{name}\]: S2S_NO_PLUGINS=1 leaves out all plugins"):
        load_plugins([name])
    assert name not in sys.modules


def test_no_plugins_leaves_the_shipped_ones(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(GOOD.format(name="late"), point="zebra")
    monkeypatch.setenv("S2S_NO_PLUGINS", "1")
    plugins = load_plugins()
    assert plugins.registry.blocked.keys() == {"zebra"}
    assert "transformer" in archs(plugins)


BROKEN = {
    "import": ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
    "exit": ("raise SystemExit('bye')\n", "SystemExit: bye"),
    "lines": ("raise ValueError('two\\nlines')\n", "ValueError: two lines"),
    "syntax": ("def (\n", "SyntaxError"),
    "misspelt": (
        "from s2s import hookimpl\n@hookimpl\ndef s2s_regster(registry): ...\n",
        "Did you mean 's2s_register'?",
    ),
    "unmarked": ("def s2s_register(registry): ...\n", "'s2s_register' lacks @s2s.hookimpl"),
    "argument": ("from s2s import hookimpl\n@hookimpl\ndef s2s_observe(trianer): ...\n", "trianer"),
    "half-way": (
        GOOD.format(name="half") + "    registry.group('own', 'it')\n    raise OSError('no disk')\n",
        "OSError: no disk",
    ),
    "clash": (GOOD.format(name="transformer"), "by plugin 'transformer' of s2s-toolkit"),
    "no config": (
        "from s2s import hookimpl\n@hookimpl\ndef s2s_register(registry):\n    registry.arch('x', int, int)\n",
        "x",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_is_kept_shown_and_leaves_nothing_behind(install: Install, kind: str) -> None:
    source, said = BROKEN[kind]
    before = load_plugins()
    install(source, point="zebra")
    plugins = load_plugins()
    assert said in plugins.registry.broken["zebra"]
    assert "(from zebra-dist 1.5)" in plugins.registry.broken["zebra"]
    assert "\n" not in plugins.registry.broken["zebra"]
    assert plugins.registry.entries.keys() == before.registry.entries.keys()
    assert plugins.registry.groups == before.registry.groups
    assert plugins.loaded == before.loaded
    with pytest.raises(PluginError, match="Plugin 'zebra' could not be loaded"):
        plugins.registry.get("arch", "exotic")


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_local_plugin_is_an_error_of_one_line(local: Callable[[str], str], kind: str) -> None:
    source, said = BROKEN[kind]
    name = local(source)
    with pytest.raises(PluginError) as caught:
        load_plugins([name])
    assert str(caught.value).startswith(f"plugins=[{name}]: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_in_a_local_plugin_says_where(local: Callable[[str], str]) -> None:
    name = local("x = 1\n\nboom()\n")
    with pytest.raises(PluginError, match=rf"NameError: .* \(.*{name}\.py, line 3\)"):
        load_plugins([f"./{name}.py"])


def test_a_command_warns_of_a_broken_plugin(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("boom()\n", point="zebra")
    assert run_command(GenerateConfig, lambda *_: 0, ["run=x"]) == 0
    broken = "NameError: name 'boom' is not defined (from zebra-dist 1.5)"
    assert capsys.readouterr().err == f"warning: plugin 'zebra' could not be loaded and is left out: {broken}\n"


def test_two_distributions_with_one_entry_point_name_are_both_named(install: Install) -> None:
    install(GOOD.format(name="first"), point="zebra", package="a-dist")
    install(GOOD.format(name="second"), point="zebra", package="b-dist")
    plugins = load_plugins()
    assert plugins.loaded["zebra"] == "a-dist 1.5"
    assert "first" in archs(plugins)
    assert "second" not in archs(plugins)
    assert plugins.registry.broken == {
        "zebra of b-dist 1.5": "plugin 'zebra' is already there, from a-dist 1.5 (from b-dist 1.5)"
    }


def test_two_plugins_of_one_entry_name_are_both_named(install: Install) -> None:
    install(GOOD.format(name="same"), point="aardvark")
    install(GOOD.format(name="same"), point="zebra")
    broken = load_plugins().registry.broken
    assert "plugin 'aardvark' of aardvark-dist 1.5 and by plugin 'zebra' of zebra-dist 1.5" in broken["zebra"]


def test_a_local_plugin_is_found_by_module_and_by_path(local: Callable[[str], str], tmp_path: Path) -> None:
    name = local(GOOD.format(name="by_module"))
    path = local(GOOD.format(name="by_path"))
    plugins = load_plugins([name, f"./{path}.py"])
    assert {"by_module", "by_path"} <= archs(plugins)
    assert list(plugins.loaded)[-2:] == [name, f"./{path}.py"]
    assert plugins.registry.get("arch", "by_path").plugin == f"./{path}.py"


def test_a_local_file_does_not_hide_a_module_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(GOOD.format(name="own"))
    before = sys.modules.get("json")
    assert "own" in archs(load_plugins([str(tmp_path / "json.py")]))
    assert sys.modules.get("json") is before


def test_a_local_plugin_that_is_not_there_is_named(local: Callable[[str], str]) -> None:
    with pytest.raises(PluginError, match=r"plugins=\[\./none\.py\]: no file none\.py"):
        load_plugins(["./none.py"])
    with pytest.raises(PluginError, match=r"plugins=\[s2s_none\]: ModuleNotFoundError: No module named 's2s_none'"):
        load_plugins(["s2s_none"])


def test_a_plugin_named_twice_is_loaded_once(local: Callable[[str], str]) -> None:
    name = local(GOOD.format(name="twice"))
    assert "twice" in archs(load_plugins([name, name]))
    with pytest.raises(PluginError, match="this is plugin 'transformer', which is already there"):
        load_plugins(["s2s_transformer"])


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Objective, ("supports_packing", "supports_cuda_graph")),
        (Seq2Seq, ("supports_packing", "returns_log_probs", "ignores_labels")),
        (State, ("supports_join", "supports_capture")),
    ],
)
def test_a_plugin_that_says_nothing_promises_nothing(kind: type, names: tuple[str, ...]) -> None:
    assert [getattr(kind, name) for name in names] == [False] * len(names)
