"""Failures of a command, as one line on standard error and an exit code."""

from __future__ import annotations

__all__ = ["guard", "version"]

import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.cli.addresses import MORE_MEMORY, enough_for_torch
from s2s.errors import Preempted, S2SError, is_out_of_memory
from s2s.io.exit_status import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Callable

REMEDIES = {
    errno.ENOSPC: "; make room, or write elsewhere",
    errno.EDQUOT: "; make room, or write elsewhere",
    errno.EFBIG: "; allow larger files (ulimit -f), or write elsewhere",
    errno.ENAMETOOLONG: "; give a shorter name",
    errno.EMFILE: "; allow more open files (ulimit -n), or start fewer processes",
    errno.ENFILE: "; the whole system has too many open files: end other processes",
}
"""What to do about an operating system error"""
OF_USERS = {*REMEDIES, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
"""Errors that the user can correct, whatever file a command was working on; others are those of a machine"""
BROKEN_PIPE = 141  # what a shell reports for a program ended by SIGPIPE


def guard(command: str, run: Callable[[], int]) -> int:
    """Run a command; errors become one line on stderr and an exit code. A bug keeps its traceback."""
    _keep_streams()
    try:
        with enough_for_torch():
            code = run()
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a broken pipe can still be caught
    except Preempted as error:
        return ExitStatus.report(command, str(error), error.exit_code)
    except S2SError as error:
        return ExitStatus.report(command, f"error: {error}", error.exit_code)
    except KeyboardInterrupt:
        return ExitStatus.report(command, "interrupted", 130)
    except BrokenPipeError:
        return _broken_pipe()
    except MemoryError as error:
        advice = str(error) or "try a smaller model or batch"
        return ExitStatus.report(command, f"error: out of memory; {advice}", 1)
    except OSError as error:
        what = ": ".join(str(p) for p in ("error", error.filename, error.strerror or error) if p)
        what += REMEDIES.get(error.errno or 0, "")
        return ExitStatus.report(command, what, 2 if error.errno in OF_USERS else 1)
    except Exception as error:
        if isinstance(error, ImportError) and is_out_of_memory(error):
            return ExitStatus.report(command, f"error: out of memory ({error}); {MORE_MEMORY}", 1)
        if is_out_of_memory(error):
            what = str(error).rpartition("DefaultCPUAllocator: ")[2].partition(". ")[0]  # behind torch's own check
            advice = "take fewer tokens at once (train.micro_tokens; s2s-generate: tokens)"
            if "verflow" in what or "too large" in what:
                what, advice = what.partition("\n")[0], "one of the numbers that were given is far too large"
            return ExitStatus.report(command, f"error: {what}; {advice}", 1)
        if _is_lost_peer(error):
            what = "error: another process of this run has ended; its own message says why"
            return ExitStatus.report(command, what, 1, "peer")
        import traceback

        traceback.print_exc()
        return ExitStatus.report(
            command, f"error: a bug in s2s or a plugin: please report it with the lines above ({version()})", 1
        )
    return code


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
    """For `| head -1`, which closes the pipe: the interpreter must have nothing to flush at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def version() -> str:
    """Versions of s2s, Python and torch, which is not imported."""
    import platform
    from importlib.metadata import version

    return f"s2s {version('s2s-toolkit')} (Python {platform.python_version()}, torch {version('torch')})"
