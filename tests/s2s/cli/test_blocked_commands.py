"""Every command but s2s-train is a plugin that can be left out, and reports it if it is."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import pytest

OF_S2S = {point.name: point for point in entry_points(group="s2s")}
COMMANDS = [point for point in entry_points(group="console_scripts") if point.module.startswith("s2s_")]
ARGUMENTS = {"s2s-plugins": ["list"], "s2s-completion": ["bash"], "s2s-pcfg": ["train"]}


def plugin_of(command: EntryPoint) -> list[str]:
    """The plugins that are the command's package."""
    return [name for name, point in OF_S2S.items() if point.value == command.module.partition(".")[0]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda point: point.name)
def test_a_command_that_is_left_out_says_so(
    command: EntryPoint, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (plugin,) = plugin_of(command)
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", plugin)
    assert command.load()(ARGUMENTS.get(command.name, [])) == 2
    err = capsys.readouterr().err
    assert err.startswith(command.name)
    assert f": error: S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS leaves out {plugin}, the plugin of this command" in err


def test_all_but_s2s_train_are_among_them() -> None:
    assert {point.name for point in entry_points(group="console_scripts") if point.name.startswith("s2s-")} == {
        "s2s-train",
        *(command.name for command in COMMANDS),
    }
