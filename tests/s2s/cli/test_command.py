"""Flags of commands, the configuration that a command gets, and s2s-plugins."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import s2s.cli.command
import s2s.cli.plugins
from harness.toy_plugins import toy_plugins
from s2s.cli.command import Options, run_command, split_flags
from s2s.cli.documentation import summary
from s2s.compose import compose
from s2s.compose.composition import build_config
from s2s.config import Config, GenerateConfig
from s2s.config.average import AverageConfig
from s2s.config.data import PrepareConfig
from s2s.config.score import ScoreConfig
from s2s.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command finds the toy entries."""
    monkeypatch.setattr(s2s.cli.command, "load_plugins", lambda _=(): toy_plugins())
    monkeypatch.setattr(s2s.cli.plugins, "load_plugins", lambda _=(): toy_plugins())


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


@pytest.mark.parametrize(("argv", "is_frozen"), [(None, True), (["--version"], False)], ids=["process", "call"])
def test_only_the_command_of_a_process_excludes_its_modules_from_garbage_collection(
    argv: list[str] | None, is_frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call would exclude garbage of its program, too."""
    monkeypatch.setattr(sys, "argv", ["s2s-train", "--version"])
    gc.unfreeze()
    assert run_command(Config, lambda *_: 0, argv) == 0
    assert (gc.get_freeze_count() > 0) == is_frozen
    gc.unfreeze()


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
        words = [w for w in words if not w.endswith("config.yaml") and not w.startswith(("arch=", "train.budget="))]
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
        (["quiet=true"], "quiet: no such option; it is a flag, written --quiet"),
        (["dry_run=1"], "dry_run: no such option; it is a flag, written --dry-run"),
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
    ran = run("--version")
    assert (ran.code, ran.seen, ran.err) == (0, [], "")
    assert ran.out.startswith("s2s 0.")


def test_arguments_and_flags_are_those_of_the_process_unless_some_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "argv", ["s2s-train", "task=copy", "arch=wide"])
    assert run_command(Config, lambda *given: seen.append(given)) == 0
    ((composed, _, options),) = seen
    assert composed.config.task.name == "copy"
    assert (options.dry_run, options.quiet) == (Options().dry_run, Options().quiet) == (False, False)


def test_what_is_false_unless_given_may_be_given_as_a_flag(run: Callable[..., Ran]) -> None:
    ((composed, _, _),) = run("--raw", schema=GenerateConfig).seen
    assert (composed.config.raw, composed.config.constrained) == (True, True)
    for flag in ("--constrained", "--nbest"):
        ran = run(flag, schema=GenerateConfig)
        assert (ran.code, ran.seen) == (2, [])
        assert f"no flag {flag}." in ran.err


@pytest.mark.parametrize(
    ("module", "started_as", "blocked", "refused"),
    [
        ("my_score.command", "", "my_score", True),
        ("my_score.command", "", "my_score.plugin", True),
        ("__main__", "my_score.command", "my_score.plugin", True),
        ("my_score.command", "", "my_scores.command", False),
        ("__main__", "my_score.command", "other.command", False),
        ("s2s.cli.train", "s2s.cli.train", "s2s.beam", False),
    ],
)
def test_a_command_whose_plugin_is_left_out_is_refused(
    module: str, started_as: str, blocked: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a module, its own name is __main__, and the specification says what was started."""

    def main() -> None:
        """A command."""

    main.__module__ = module
    started = SimpleNamespace(__spec__=SimpleNamespace(name=started_as))
    monkeypatch.setattr(s2s.cli.command, "sys", SimpleNamespace(modules={module: started} if started_as else {}))
    plugins: Any = SimpleNamespace(registry=SimpleNamespace(blocked={"mine": blocked}))
    with (
        pytest.raises(ConfigError, match=r"^S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS leaves out mine")
        if refused
        else nullcontext()
    ):
        s2s.cli.command.check_not_blocked(main, plugins)


def test_a_switch_is_an_option_written_like_a_flag() -> None:
    assert split_flags(["--all-of-it", "a=1"], {"--all-of-it": "all_of_it=true"}) == (set(), ["all_of_it=true", "a=1"])


def test_flags_may_stand_anywhere() -> None:
    assert split_flags(["a=1", "--quiet", "x.yaml", "-h"]) == ({"--quiet", "--help"}, ["a=1", "x.yaml"])


def plugins(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = s2s.cli.plugins.main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def test_plugins_lists_what_each_brings_and_what_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = toy_plugins()
    made.registry.broken["exotic"] = "ImportError: no (from exotic 1.0)"
    made.registry.blocked["other"] = "other"
    monkeypatch.setattr(
        s2s.cli.plugins, "load_plugins", lambda _=(): type(made)(None, made.registry, {"s2s": "toy 1.0"})
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


def test_plugins_shows_options_that_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = plugins(capsys, "show", "task=needy")
    assert code == 0
    assert "  task.corpus = (required)  [str]\n      What to read.\n" in out
    code, out, _ = plugins(capsys, "show", "task=copy", "task.files=???")
    assert code == 0
    assert "  task.files = ???  " in out


def test_plugins_shows_every_option_of_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = plugins(capsys, "show", "search=beam", "search.beam=9")
    assert code == 0
    assert out.startswith(
        "search.name = beam (plugin s2s): A search.\n  search.beam = 9  [int]  (default 4; command line)"
    )
    assert "train." not in out
    assert "preset experiment=first" in plugins(capsys, "show", "experiment=second")[1]


def test_plugins_shows_what_an_option_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    code, out, _ = plugins(capsys, "show", "task.subword=hf", "task.subword.bos=BOS")
    assert code == 0
    assert out.startswith("task.subword.name = hf (plugin tokenizers): A complete tokeniser ")
    assert "\n  task.subword.bos = BOS  [str]  (default ''; command line)\n" in out
    by_group = plugins(capsys, "show", "tokenizer=hf", "tokenizer.bos=BOS")[1]
    assert "\n  tokenizer.bos = BOS  [str]" in by_group
    assert plugins(capsys, "show", "task.subwrd=hf")[0] == 2


def test_every_entry_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without options of its own has the documentation of what it builds."""
    monkeypatch.undo()
    texts = {key: summary(entry) for key, entry in s2s.cli.plugins.load_plugins().registry.entries.items()}
    assert [key for key, text in texts.items() if len(text) < 10 or text.startswith("Base of every config")] == []


def test_plugins_shows_a_choice_with_a_required_option_that_is_not_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    code, out, err = plugins(capsys, "show", "objective=distill")
    assert (code, err) == (0, "")
    assert out.splitlines()[1] == "  objective.teachers = (required)  [list[str]]"
    assert "  objective.weight = 0.5  [float]" in out


def test_plugins_counts_the_parameters_of_an_architecture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for vocab in (37_000, 40_960):
        code, out, err = plugins(capsys, "show", "arch=transformer", f"vocab={vocab}")
        assert (code, err) == (0, "")
        shown = int(out.splitlines()[-1].split()[1].replace(",", ""))
        merged = s2s.cli.plugins.merge_groups(["arch"], ["arch=transformer"], s2s.cli.plugins.load_plugins())
        config = build_config(merged).config.arch
        assert shown == s2s.cli.plugins.n_parameters(merged.entries["arch"].build, config, vocab)
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


@pytest.mark.parametrize(
    ("module", "command"), [(["s2s.cli.train"], "s2s-train"), (["s2s", "generate"], "s2s-generate")], ids=str
)
def test_what_torchrun_starts_can_be_started_as_a_module(module: list[str], command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *module, "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stdout[: len(command)]) == (0, command)


@pytest.mark.parametrize("given", [None, "20"])
def test_threads_of_openblas_sleep_unless_the_user_decides(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "")  # restored afterwards
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT")
    if given:
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", given)
    assert run_command(GenerateConfig, lambda *_: None, ["--version"]) == 0
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == (given or "4")


@pytest.mark.skipif(sys.platform != "linux", reason="asks GNU's OpenMP, which torch has there")
@pytest.mark.parametrize(("given", "expected"), [({}, 0), ({"GOMP_SPINCOUNT": "9"}, 9)], ids=str)
def test_threads_that_wait_for_each_other_sleep_unless_the_user_decides(given: dict[str, str], expected: int) -> None:
    policies = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    others = {name: value for name, value in os.environ.items() if name not in policies}
    code = "import sys; from s2s.cli.train import main; main(['--dry-run', 'task=?']); import torch"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**others, "OMP_DISPLAY_ENV": "VERBOSE", **given},
        capture_output=True,
        text=True,
    )
    assert f"GOMP_SPINCOUNT = '{expected}'" in done.stderr
