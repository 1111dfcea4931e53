"""How commands handle everything that can go wrong."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from s2s.cli import failures
from s2s.cli.failures import guard
from s2s.errors import ConfigError, DataError, Preempted, S2SError


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("seed=x: expected int"), 2, "s2s-x: error: seed=x: expected int"),
        (DataError("a.txt:5: bad"), 2, "s2s-x: error: a.txt:5: bad"),
        (S2SError("stopped"), 1, "s2s-x: error: stopped"),
        (Preempted("saved at step 5", 75), 75, "s2s-x: saved at step 5"),
        (KeyboardInterrupt(), 130, "s2s-x: interrupted"),
        (MemoryError(), 1, "s2s-x: error: out of memory; try a smaller model or batch"),
        (
            OSError(errno.ENOSPC, "No space left on device", "a/b"),
            2,
            "s2s-x: error: a/b: No space left on device; make room, or write elsewhere",
        ),
        (
            OSError(errno.EMFILE, "Too many open files", "a"),
            2,
            "s2s-x: error: a: Too many open files; allow more open files (ulimit -n), or start fewer processes",
        ),
        (
            OSError(errno.ENAMETOOLONG, "File name too long", "nnn"),
            2,
            "s2s-x: error: nnn: File name too long; give a shorter name",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "a"), 2, "s2s-x: error: a: Permission denied"),
        (OSError(errno.EIO, "Input/output error", "a"), 1, "s2s-x: error: a: Input/output error"),
        (
            OSError(errno.EFBIG, "File too large", "a"),
            2,
            "s2s-x: error: a: File too large; allow larger files (ulimit -f), or write elsewhere",
        ),
        (
            ImportError("libx.so: failed to map segment from shared object"),
            1,
            "s2s-x: error: out of memory (libx.so: failed to map segment from shared object); allow more (ulimit -v)",
        ),
        (MemoryError("x: not enough memory"), 1, "s2s-x: error: out of memory; x: not enough memory"),
        (OSError("odd"), 1, "s2s-x: error: odd"),
        (
            RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4242"),
            1,
            "s2s-x: error: another process of this run has ended; its own message says why",
        ),
        (
            type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory. Tried"),
            1,
            "s2s-x: error: CUDA out of memory; take fewer tokens at once (train.micro_tokens; s2s-generate: tokens)",
        ),
        (
            RuntimeError(
                "[enforce fail] err == 0. DefaultCPUAllocator: can't allocate memory: 8 bytes. Error code 12. x"
            ),
            1,
            "s2s-x: error: can't allocate memory: 8 bytes; take fewer tokens at once (train.micro_tokens; "
            "s2s-generate: tokens)",
        ),
        (
            RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904, 8]\nException raised"),
            1,
            "s2s-x: error: Storage size calculation overflowed with sizes=[4611686018427387904, 8]; one of the numbers "
            "that were given is far too large",
        ),
        (
            type("DistStoreError", (type("DistError", (RuntimeError,), {}),), {})("Timed out"),
            1,
            "s2s-x: error: another process of this run has ended; its own message says why",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    def fail() -> int:
        raise error

    assert guard("s2s-x", fail) == code
    assert capsys.readouterr().err == line + "\n"


@pytest.mark.parametrize("error", [ZeroDivisionError(), RuntimeError("shapes differ"), ValueError("refused by peer")])
def test_a_bug_keeps_its_traceback_and_asks_to_be_reported(
    capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fail() -> int:
        raise error

    assert guard("s2s-x", fail) == 1
    err = capsys.readouterr().err
    assert type(error).__name__ in err
    assert "please report" in err.splitlines()[-1]


def test_a_command_without_standard_streams_ends_with_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert guard("s2s-x", lambda: print("x", file=sys.stderr) or 7) == 7
    sys.stderr.close()


@pytest.mark.parametrize("free", [[3], [0, 1, 2, 3], [2, 9]], ids=str)
def test_standard_streams_that_are_closed_are_opened_before_any_file(
    monkeypatch: pytest.MonkeyPatch, free: list[int]
) -> None:
    """What is opened gets the lowest descriptor that is free."""
    descriptors, closed = iter(free), list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(failures.os, "open", lambda *_: next(descriptors))
        patch.setattr(failures.os, "close", closed.append)
        failures._keep_streams()
    assert closed == free[-1:]


def test_a_broken_pipe_has_the_code_that_a_shell_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise BrokenPipeError

    with monkeypatch.context() as patch:
        patch.setattr(failures.os, "dup2", lambda *_: None)
        assert guard("s2s-x", fail) == 141


def in_shell(code: str, then: str) -> subprocess.CompletedProcess[str]:
    script = f'set -o pipefail; "$0" -c "$1" | {then}'
    return subprocess.run(
        ["bash", "-c", script, sys.executable, code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("lines", [1, 3, 100_000])
def test_a_reader_that_leaves_is_no_error(lines: int) -> None:
    """`| head -1`: no traceback, and nothing from the interpreter when it ends."""
    code = (
        "import sys; from s2s.cli.failures import guard\n"
        f"sys.exit(guard('s2s-x', lambda: [print('x' * 50) for _ in range({lines})] and 0))"
    )
    done = in_shell(code, "head -1")
    assert done.stdout == "x" * 50 + "\n"
    assert done.stderr == ""
    assert done.returncode in (0, 141)


def test_an_interrupt_ends_a_command_without_a_traceback() -> None:
    code = (
        "import os, signal, sys; from s2s.cli.failures import guard\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "sys.exit(guard('s2s-x', lambda: os.kill(os.getpid(), signal.SIGINT)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "s2s-x: interrupted\n")


def test_an_error_is_one_line_whatever_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    from s2s.io.exit_status import one_line

    for mistake in ("\n", "a\x1b[31m\u2028b", "task=copy\r\n", "x" * 100_000, "\udcff"):
        assert one_line(mistake).isprintable()
        assert len(one_line(mistake)) < 5000
    assert one_line("„süß“ and 木") == "„süß“ and 木"
