"""Flags, and what becomes of everything that can go wrong in a command."""

from __future__ import annotations

import errno
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from toy_plugins import toy_plugins

import s2s.cli.command
import s2s_help.command
from s2s.cli import failures
from s2s.cli.command import Options, run_command, split_flags
from s2s.cli.failures import guard
from s2s.compose import build_config, compose
from s2s.config import Config, GenerateConfig, PrepareConfig
from s2s.errors import ConfigError, DataError, Preempted, S2SError, did_you_mean
from s2s_average import AverageConfig
from s2s_score import ScoreConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command finds the toy entries."""
    monkeypatch.setattr(s2s.cli.command, "load_plugins", lambda _=(): toy_plugins())
    monkeypatch.setattr(s2s_help.command, "load_plugins", lambda _=(): toy_plugins())


@dataclass
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str
    seen: list[Any]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def call(*argv: str, schema: type = Config) -> Ran:
        seen: list[Any] = []
        code = run_command(schema, lambda *given: seen.append(given), argv)
        out, err = capsys.readouterr()
        return Ran(code, out, err, seen)

    return call


def test_a_command_gets_its_configuration_plugins_and_flags(run: Callable[..., Ran]) -> None:
    ran = run("task=copy", "--dry-run", "arch=wide", "-q", "seed=5")
    composed, plugins, options = ran.seen[0]
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert composed.config.seed == 5
    assert ("arch", "wide") in plugins.registry.entries
    assert options == Options(dry_run=True, quiet=True)


def test_what_main_returns_is_the_exit_code() -> None:
    assert run_command(Config, lambda *_: 75, ["task=copy", "arch=wide"]) == 75


@pytest.mark.parametrize("schema", [Config, PrepareConfig, GenerateConfig, ScoreConfig, AverageConfig])
def test_help_fits_on_a_screen_and_names_every_group(run: Callable[..., Ran], schema: type) -> None:
    ran = run("--help", schema=schema)
    lines = ran.out.splitlines()
    assert (ran.code, ran.seen, ran.err) == (0, [], "")
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 79
    command = (schema.__doc__ or "").partition(":")[0]
    assert f"usage: {command} [file.yaml ...]" in ran.out
    assert ran.out.count(f"  {command} ") >= 1, "an example"
    for name in schema.__dataclass_fields__:
        assert name in ran.out


@pytest.mark.parametrize("schema", [Config, PrepareConfig, GenerateConfig, ScoreConfig, AverageConfig])
def test_the_examples_in_help_are_read_as_they_stand(schema: type) -> None:
    command = (schema.__doc__ or "").partition(":")[0]
    examples = [line.split() for line in (schema.__doc__ or "").splitlines()[1:] if line.strip().startswith(command)]
    assert examples
    for _, *words in examples:
        words = [w for w in words[: words.index("<")] if "<" in words] if "<" in words else words
        words = [w.replace("translation", "copy").replace("task.train", "task.files") for w in words]
        words = [w for w in words if not w.endswith("config.yaml") and not w.startswith("arch=")]
        filled = {Config: ["task=copy", "arch=wide"]}.get(schema, [])
        compose(schema, [*filled, *words], toy_plugins())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["arch=wide_big"], "arch.d_model = 1024  [int]  (default 512; preset arch=wide_big (plugin s2s))"),
        (["arch=wide_big", "arch.d_model=64"], "arch.d_model = 64  [int]  (default 512; command line)"),
        (["arch=wide"], "arch.max_len = 256  [int]  (default ${data.max_len}; default, as data.max_len)"),
        (["arch"], "arch=           narrow, wide, wide_big, wide_bigger, tree\n"),
        (["search"], "search.alpha = 0.6  [float]"),
        (["schedule"], "schedule.d_model = ${arch.d_model}  [int]"),
        (["train"], "Updates in all (section 5.2)."),
        (["train.steps"], "train.steps = 100000  [int]"),
        (["seed"], "Seed of initialisation"),
        (["plugins"], "plugins=[my_arch,./mine.py]"),
        (["experiment"], "experiment=     first, second\n"),
    ],
)
def test_help_explains_a_choice_a_section_or_an_option(run: Callable[..., Ran], argv: list[str], said: str) -> None:
    ran = run("--help", *argv)
    assert (ran.code, ran.err) == (0, "")
    assert said in ran.out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--hepl"], "no flag --hepl. Did you mean '--help'?"),
        (["--train.steps=5"], "no flag --train.steps=5. Options are written without dashes: train.steps=5"),
        (["--batch-size=8"], "no flag --batch-size=8. Options are written without dashes: batch_size=8"),
        (["--lr", "1"], "no flag --lr. Options are written without dashes: lr=…"),
        (["-x"], "no flag -x."),
        (["--help", "trian"], "--help trian: no such name. Did you mean 'train'?"),
        (["--help", "arch=wied"], "arch=wied: no such arch. Did you mean 'wide'?"),
        (["task=copy"], "arch: nothing is chosen"),
        (["task=copy", "arch=wide", "trian.steps=5"], "Did you mean 'train.steps'?"),
        (["--print-config"], "task: nothing is chosen"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run: Callable[..., Ran], argv: list[str], said: str) -> None:
    ran = run(*argv)
    assert (ran.code, ran.out, ran.seen) == (2, "", [])
    assert ran.err.startswith("s2s-train: error: ")
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


def test_print_config_is_a_configuration_with_origins(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("--print-config", "task=copy", "arch=wide_big", "seed=7")
    assert ran.code == 0
    assert ran.seen == []
    assert "  # preset arch=wide_big (plugin s2s)" in ran.out
    path = tmp_path / "x.yaml"
    path.write_text(ran.out)
    again = compose(Config, [str(path)], toy_plugins()).config
    assert again == compose(Config, ["task=copy", "arch=wide_big", "seed=7"], toy_plugins()).config


def test_print_config_shows_what_waits_for_the_run(run: Callable[..., Ran]) -> None:
    assert (
        "# laid over the run's: search: {beam: 8}" in run("--print-config", "search.beam=8", schema=GenerateConfig).out
    )


def test_version_names_what_matters(run: Callable[..., Ran]) -> None:
    assert run("--version").out.startswith("s2s 0.")


def test_a_switch_is_an_option_written_like_a_flag() -> None:
    assert split_flags(["--all-of-it", "a=1"], {"--all-of-it": "all_of_it=true"}) == (set(), ["all_of_it=true", "a=1"])


def test_flags_may_stand_anywhere() -> None:
    assert split_flags(["a=1", "--quiet", "x.yaml", "-h"]) == ({"--quiet", "--help"}, ["a=1", "x.yaml"])


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
            1,
            "s2s-x: error: a/b: No space left on device; make room, or write elsewhere",
        ),
        (
            OSError(errno.EMFILE, "Too many open files", "a"),
            1,
            "s2s-x: error: a: Too many open files; allow more open files (ulimit -n), or start fewer processes",
        ),
        (
            OSError(errno.ENAMETOOLONG, "File name too long", "nnn"),
            1,
            "s2s-x: error: nnn: File name too long; give a shorter name",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "a"), 1, "s2s-x: error: a: Permission denied"),
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


def plugins(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = s2s_help.command.main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def test_plugins_lists_what_each_brings_and_what_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = toy_plugins()
    made.registry.broken["exotic"] = "ImportError: no (from exotic 1.0)"
    made.registry.blocked["other"] = "other"
    monkeypatch.setattr(
        s2s_help.command, "load_plugins", lambda _=(): type(made)(None, made.registry, {"s2s": "toy 1.0"})
    )
    code, out, _ = plugins(capsys, "list")
    assert code == 0
    assert out.splitlines()[:4] == [
        "s2s  (toy 1.0)",
        "  task            copy, needy",
        "  arch            narrow, wide",
        "  objective       label_smoothed",
    ]
    assert "  arch presets    tree, wide_big, wide_bigger" in out
    assert "exotic  BROKEN: ImportError: no (from exotic 1.0)" in out
    assert "other  blocked (S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS)" in out


def test_plugins_shows_an_architecture_whose_size_depends_on_the_task(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # no toys
    code, out, err = plugins(capsys, "show", "arch=rnng")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("parameters: not known without a task (arch=rnng: ")


def test_plugins_shows_every_option_of_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = plugins(capsys, "show", "search=beam", "search.beam=9")
    assert code == 0
    assert out.startswith(
        "search.name = beam (plugin s2s): A search.\n  search.beam = 9  [int]  (default 4; command line)"
    )
    assert "train." not in out
    assert "preset experiment=first" in plugins(capsys, "show", "experiment=second")[1]


def test_plugins_counts_the_parameters_of_an_architecture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for vocab in (37_000, 40_960):
        code, out, err = plugins(capsys, "show", "arch=transformer", f"vocab={vocab}")
        assert (code, err) == (0, "")
        shown = int(out.splitlines()[-1].split()[1].replace(",", ""))
        merged = s2s_help.command.merge_groups(["arch"], ["arch=transformer"], s2s_help.command.load_plugins())
        config = build_config(merged).config.arch
        assert shown == s2s_help.command.n_parameters(merged.entries["arch"].build, config, vocab)
        assert f"(vocab={vocab:,})" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], ""),
        (["lst"], "no command 'lst'. Did you mean 'list'?"),
        (["show"], "show: say what"),
        (["show", "arch"], "show: say what"),
        (["show", "arch=wied"], "Did you mean 'wide'?"),
        (["show", "search=beam", "search.bem=1"], "search.bem: no such option. Did you mean 'search.beam'?"),
        (["show", "arch=wide", "vocab=x"], "vocab=x: expected a number of tokens"),
        (["list", "arch=wide"], "s2s-plugins show arch=wide"),
        (["--lst"], "no flag --lst."),
    ],
)
def test_plugins_explains_mistakes(capsys: pytest.CaptureFixture[str], argv: list[str], said: str) -> None:
    code, _, err = plugins(capsys, *argv)
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == (1 if said else 0)


def test_a_suggestion_is_the_nearest_name_or_the_whole_choice() -> None:
    assert did_you_mean("transfromer", ["transformer", "rnn"]) == " Did you mean 'transformer'?"
    assert did_you_mean("x", ["b", "a"]) == " Known: a, b."
    assert did_you_mean("x", []) == ""
    letters = "abcdefghijklmnopqrstuvwxyz"
    assert did_you_mean("?", letters[:20]) == f" Known: {', '.join(letters[:20])}."
    assert did_you_mean("?", letters[:21]) == f" Known: {', '.join(letters[:20])}, …."


def test_an_error_is_one_line_whatever_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    from s2s.io.exit_status import one_line

    for mistake in ("\n", "a\x1b[31m\u2028b", "task=copy\r\n", "x" * 100_000, "\udcff"):
        assert one_line(mistake).isprintable()
        assert len(one_line(mistake)) < 5000
    assert one_line("„süß“ and 木") == "„süß“ and 木"


@pytest.mark.parametrize(
    ("module", "command"), [(["s2s.cli.train"], "s2s-train"), (["s2s", "generate"], "s2s-generate")], ids=str
)
def test_what_torchrun_starts_can_be_started_as_a_module(module: list[str], command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *module, "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stdout[: len(command)]) == (0, command)
