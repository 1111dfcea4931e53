"""What all commands share: flags, configuration, and errors as one line and an exit code."""

from __future__ import annotations

__all__ = ["FLAGS", "Options", "guard", "run_command", "split_flags", "version"]

import contextlib
import errno
import importlib.metadata
import io
import os
import platform
import sys
import traceback
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.cli.help import explain, overview
from s2s.compose import ComposedConfig, compose, local_plugins, to_yaml
from s2s.compose.renamed import targets
from s2s.compose.suggestions import command_of
from s2s.compose.yaml12 import to_text
from s2s.errors import ConfigError, Preempted, S2SError, did_you_mean
from s2s.io.exit_status import Cause, report
from s2s.plugin import Plugins, load_plugins
from s2s.registry import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")

FLAGS = {
    "--help": "this text; with group=NAME, a section or an option: all about it",
    "--version": "versions of s2s, Python and torch",
    "--print-config": "the whole configuration, each value with where it comes from",
    "--dry-run": "check everything, change nothing",
    "--quiet": "warnings and errors only",
}
SHORT = {"-h": "--help", "-q": "--quiet", "-V": "--version"}
REMEDIES = {
    errno.ENOSPC: "; make room, or write elsewhere",
    errno.EDQUOT: "; make room, or write elsewhere",
    errno.ENAMETOOLONG: "; give a shorter name",
    errno.EMFILE: "; allow more open files (ulimit -n), or start fewer processes",
    errno.ENFILE: "; the whole system has too many open files: end other processes",
}
"""What to do about an error of the system"""
BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended


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
    """Run `main` with the configuration that `argv` asks for; the exit code.

    complete: for --print-config, what `main` adds to the configuration before it uses it.
    """
    argv = sys.argv[1:] if argv is None else argv

    def run() -> int:
        flags, arguments = split_flags(argv, _switches(schema))
        if "--version" in flags:
            print(version())
            return 0
        plugins = load_plugins(local_plugins(arguments))
        if "--help" in flags:
            print(explain(schema, arguments, plugins) if arguments else overview(schema, FLAGS, plugins))
            return 0
        composed = compose(schema, arguments, plugins)
        if "--print-config" in flags:
            composed = complete(composed, plugins) if complete else composed
            print(to_yaml(composed.config, composed.origins) + "".join(_deferred_groups(composed)), end="")
            return 0
        return main(composed, plugins, Options("--dry-run" in flags, "--quiet" in flags)) or 0

    return guard(command_of(schema), run)


def _deferred_groups(composed: ComposedConfig[Any]) -> Iterator[str]:
    """Options of groups that are resolved with the run, such as s2s-generate's search."""
    for group in GROUPS.keys() & composed.given.keys():
        if not getattr(composed.config, group).name:
            yield f"# laid over the run's: {group}: {to_text(composed.given[group])}\n"


def _switches(schema: type) -> dict[str, str]:
    """Options of the command itself that can be turned on like a flag, as in --per-sentence, and how they are set."""
    names = [item.name for item in fields(schema) if item.type == "bool" and item.default is False]
    return {f"--{name.replace('_', '-')}": f"{name}=true" for name in names}


def split_flags(argv: Sequence[str], switches: Mapping[str, str] = MappingProxyType({})) -> tuple[set[str], list[str]]:
    """Flags, spelt out, and the other arguments, `switches` among them."""
    flags, arguments = set(), []
    for argument in argv:
        if not argument.startswith("-"):
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


def version() -> str:
    """s2s, Python and torch, which is not imported for it."""
    torch = importlib.metadata.version("torch")
    return f"s2s {importlib.metadata.version('s2s-toolkit')} (Python {platform.python_version()}, torch {torch})"


def guard(command: str, run: Callable[[], int]) -> int:
    """Run a command; errors become one line on stderr and an exit code. A bug of ours keeps its traceback."""
    _keep_streams()
    try:
        code = run()
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a broken pipe can still be caught
    except Preempted as error:
        return report(command, str(error), error.exit_code)
    except S2SError as error:
        return report(command, f"error: {error}", error.exit_code)
    except KeyboardInterrupt:
        return report(command, "interrupted", 130)
    except BrokenPipeError:
        return _broken_pipe()
    except MemoryError:
        return report(command, "error: out of memory; try a smaller model or batch", 1)
    except OSError as error:
        what = ": ".join(str(p) for p in ("error", error.filename, error.strerror or error) if p)
        return report(command, what + REMEDIES.get(error.errno or 0, ""), 1)
    except Exception as error:
        if _is_memory(error):
            what = str(error).rpartition("DefaultCPUAllocator: ")[2].partition(". ")[0]  # behind torch's own check
            advice = "take fewer tokens at once (train.micro_tokens; s2s-generate: tokens)"
            return report(command, f"error: {what}; {advice}", 1)
        if _is_lost_peer(error):
            what = "error: another process of this run has ended; its own message says why"
            return report(command, what, 1, Cause.PEER)
        traceback.print_exc()
        return report(
            command, f"error: a bug in s2s or a plugin: please report it with the lines above ({version()})", 1
        )
    return code


def _is_memory(error: Exception) -> bool:
    """Whether torch, which is not imported here, ran out of memory, on a GPU or a CPU."""
    words = ("can't allocate memory", "Storage size calculation overflowed", "integer multiplication overflow")
    return type(error).__name__ == "OutOfMemoryError" or any(word in str(error) for word in words)


def _is_lost_peer(error: Exception) -> bool:
    """Whether torch.distributed, which is not imported here, lost the connection to another rank."""
    by_name = any(kind.__name__ == "DistError" for kind in type(error).__mro__)
    return by_name or (isinstance(error, RuntimeError) and "by peer" in str(error))


def _keep_streams() -> None:
    """Open closed standard streams, so that the next file does not get descriptor 0, 1 or 2 and their output; replace
    characters that the terminal's encoding lacks."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest that is free
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  as long as the process; print(file=None) is stdout
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _broken_pipe() -> int:
    """`| head -1` closed the pipe: leave the interpreter nothing to flush at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
