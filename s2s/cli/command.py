"""What all commands share: flags, and the configuration that the other arguments give."""

from __future__ import annotations

__all__ = ["FLAGS", "Options", "check_not_blocked", "run_command", "split_flags"]

import gc
import os
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.cli.failures import guard, version
from s2s.compose import ComposedConfig, compose, to_yaml
from s2s.compose.arguments import local_plugins
from s2s.compose.renamed import targets
from s2s.compose.suggestions import command_name
from s2s.compose.yaml12 import to_text
from s2s.errors import ConfigError, PluginError, did_you_mean
from s2s.plugin import Plugins, load_plugins
from s2s.registry import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")

FLAGS = {
    "--help": "this text; with a group, section or option: its details",
    "--version": "versions of s2s, Python and torch",
    "--print-config": "the whole configuration, each value with where it comes from",
    "--dry-run": "check everything, change nothing",
    "--quiet": "warnings and errors only",
}
SHORT = {"-h": "--help", "-q": "--quiet", "-V": "--version"}


@dataclass(frozen=True)
class Options:
    """Flags of a command."""

    dry_run: bool = False
    """Check everything, change nothing."""
    quiet: bool = False
    """Warnings and errors only."""


def run_command(
    schema: type[T],
    main: Callable[[ComposedConfig[T], Plugins, Options], int | None],
    argv: Sequence[str] | None = None,
    complete: Callable[[ComposedConfig[T], Plugins], ComposedConfig[T]] | None = None,
) -> int:
    """Run `main` with the configuration that `argv` specifies; returns the exit code.

    complete: for --print-config, what `main` adds to the configuration before it uses it.
    """
    if argv is None:
        argv = sys.argv[1:]
        # What is imported by now lives as long as the process: garbage collections, also the last, need not visit it.
        gc.freeze()

    def run() -> int:
        _let_waiting_threads_sleep()
        plugins = load_plugins(local_plugins(argv))
        check_not_blocked(main, plugins)
        _warn_of_broken(plugins)
        whole = plugins.registry.with_options(schema)
        flags, arguments = split_flags(argv, _switches(whole))
        if "--version" in flags:
            print(version())
            return 0
        if "--help" in flags:
            from s2s.cli.help import explain, overview

            print(explain(whole, arguments, plugins) if arguments else overview(whole, FLAGS, plugins))
            return 0
        composed = _composed(whole, arguments, plugins)
        if "--print-config" in flags:
            composed = complete(composed, plugins) if complete else composed
            print(to_yaml(composed.config, composed.origins) + "".join(_deferred_groups(composed)), end="")
            return 0
        return main(composed, plugins, Options("--dry-run" in flags, "--quiet" in flags)) or 0

    return guard(command_name(schema), run)


def _let_waiting_threads_sleep() -> None:
    """Make threads of OpenMP and OpenBLAS sleep while they wait; both read this when torch and NumPy are imported.

    By default they spin, and where other programs use the same cores, take the time of the thread that they wait for: a
    tiny model trained at 220 tokens/s instead of 7,000. Those of OpenBLAS have nothing to do here, but spun for 0.1 s
    at the start of each command.
    """
    if os.environ.keys().isdisjoint(("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # they spin for 2^4 cycles, the least possible, not 2^26


def _composed(schema: type[T], arguments: Sequence[str], plugins: Plugins) -> ComposedConfig[T]:
    """The configuration; an error about a file of a run names the plugins that the run had and that are absent here."""
    try:
        return compose(schema, arguments, plugins)
    except (ConfigError, PluginError) as error:
        folders = dict.fromkeys(Path(name).parent for name in arguments if name.endswith((".yaml", ".yml")))
        if not folders:
            raise
        from s2s.run.run_task import with_absent_plugins

        raise type(error)(with_absent_plugins(str(error), folders, plugins)) from error


def check_not_blocked(main: Callable[..., Any], plugins: Plugins) -> None:
    """Raises ConfigError if S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS leaves out the plugin that `main` belongs to."""
    spec = getattr(sys.modules.get(main.__module__), "__spec__", None)  # has the name of a module run as __main__, too
    package = (spec.name if spec else main.__module__).partition(".")[0]
    for name, module in plugins.registry.blocked.items():
        if module.partition(".")[0] == package != "s2s":
            raise ConfigError(
                f"S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS leaves out {name}, the plugin of this command; unset it"
            )


def _warn_of_broken(plugins: Plugins) -> None:
    """Warn of them: nothing else shows the absence of a plugin that no option names, such as one with a constraint."""
    for name, reason in sorted(plugins.registry.broken.items()) if os.environ.get("RANK", "0") == "0" else ():
        print(f"warning: plugin '{name}' could not be loaded and is left out: {reason}", file=sys.stderr)


def _deferred_groups(composed: ComposedConfig[Any]) -> Iterator[str]:
    """Options of groups that are resolved with the run, such as s2s-generate's search."""
    for group in GROUPS:
        if group in composed.explicit and not getattr(composed.config, group).name:
            yield f"# laid over the run's: {group}: {to_text(composed.explicit[group])}\n"


def _switches(schema: type) -> dict[str, str]:
    """Boolean options of the command, which may be given as flags: --per-sentence -> per_sentence=true."""
    kinds = ("bool", bool, "bool | None", bool | None)
    names = [item.name for item in fields(schema) if item.type in kinds and not item.default]
    return {f"--{name.replace('_', '-')}": f"{name}=true" for name in names}


def split_flags(argv: Sequence[str], switches: Mapping[str, str] = MappingProxyType({})) -> tuple[set[str], list[str]]:
    """Flags in their long form, and the other arguments, with `switches` replaced by the options that they set."""
    flags, arguments = set(), []
    for argument in argv:
        if not argument.startswith("-"):
            _check_no_flag(argument)
            arguments.append(argument)
            continue
        flag = SHORT.get(argument, argument)
        if flag in switches:
            arguments.append(switches[flag])
            continue
        if flag not in FLAGS:
            name, equals, value = argument.lstrip("-").partition("=")
            key = name.replace("-", "_")
            is_option = equals or any(targets(key))
            hint = f" Options are written without dashes: {key}={value or '…'}" if is_option else ""
            raise ConfigError(f"no flag {argument}.{hint or did_you_mean(flag, [*FLAGS, *switches])}")
        flags.add(flag)
    return flags, arguments


def _check_no_flag(argument: str) -> None:
    """Raise ConfigError for a flag that is written as an option, such as quiet=true."""
    name, equals, _ = argument.partition("=")
    if equals and (flag := f"--{name.replace('_', '-')}") in FLAGS:
        raise ConfigError(f"{name}: no such option; it is a flag, written {flag}")
