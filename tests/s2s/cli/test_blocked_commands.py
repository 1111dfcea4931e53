"""A command that is a plugin can be left out, and reports it if it is."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import pytest

OF_S2S = {point.name: point for point in entry_points(group="s2s")}
COMMANDS = [point for point in entry_points(group="console_scripts") if point.module.startswith("s2s_")]
ARGUMENTS = {"s2s-pcfg": ["train"]}


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


def test_the_commands_of_the_core_cannot_be_left_out() -> None:
    core = {point.name for point in entry_points(group="console_scripts") if point.module.startswith("s2s.cli.")}
    names = "train generate prepare score average plugins completion"
    assert core == {f"s2s-{name}" for name in names.split()}
    assert not core & {command.name for command in COMMANDS}
