"""What may change when a run continues, and what must stay the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from harness.small_runs import CPU, PLUGIN, begin, make_run, read
from s2s.checkpoint import directory as checkpoint
from s2s.errors import CheckpointError
from s2s.run import Run, run_path, tokenizer
from s2s.run.directory import RunDirectory
from s2s.run.environment import changes

if TYPE_CHECKING:
    from s2s.plugin import Plugins


def test_a_run_continues_with_what_says_how_long_and_where(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    begin(
        run_path("x"), plugins, "train.steps=9", "log.every=3", "valid.every=5", "checkpoint.keep_last=9",
        "data.workers=3", "search.beam=2", "train.micro_tokens=100",
    )  # fmt: skip
    assert "steps: 9" in (run_path("x") / "resolved.yaml").read_text()


def test_a_run_continues_with_nothing_that_says_what_is_learnt(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    before = (run_path("x") / "resolved.yaml").read_text()
    with pytest.raises(CheckpointError) as caught:
        begin(run_path("x"), plugins, "arch.d_model=16", "seed=2", "train.steps=9")
    message = str(caught.value)
    assert "seed is 1 there and 2 here; arch.d_model is 8 there and 16 here." in message
    assert "another run=…" in message
    assert "train.steps" not in message
    assert (run_path("x") / "resolved.yaml").read_text() == before


def test_what_follows_the_length_of_a_run_follows_it_when_the_run_goes_on(plugins: Plugins) -> None:
    """The run of the harness has a schedule without a length, so that it is begun anew here."""
    cosine = ("schedule=cosine", "schedule.warmup=2")
    begin(run_path("x"), plugins, *cosine, "train.steps=7")
    checkpoint.save(run_path("x") / "checkpoints", checkpoint.step_name(7), {"model": {"w": torch.zeros(1)}}, {})
    (warning,) = begin(run_path("x"), plugins, *cosine, "train.steps=9")
    assert warning == "schedule.steps follows train.steps, from 7 to 9, from here on"
    with pytest.raises(CheckpointError, match=r"schedule.steps is 9 there and 20 here\."):
        begin(run_path("x"), plugins, *cosine, "train.steps=9", "schedule.steps=20")


def test_an_option_that_follows_another_says_so(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    with pytest.raises(CheckpointError, match=r"schedule.warmup is 4000 there and 9 here \(as train.steps\)\."):
        begin(run_path("x"), plugins, "train.steps=9", "schedule.warmup=${train.steps}")


def test_a_run_without_a_checkpoint_may_start_anew_as_something_else(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [])
    assert begin(run_path("x"), plugins, "arch.d_model=16") == []


def test_what_changes_the_last_bits_is_a_warning(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    env = read(run_path("x") / "env.json")
    del env["sha256"]
    env["threads"] = 77
    env["plugins"][PLUGIN]["sha256"] = "another"
    (run_path("x") / "env.json").write_text(json.dumps(env))
    threads, plugin = begin(run_path("x"), plugins)
    assert threads.startswith("threads was 77 and is ")
    assert plugin == f"plugin '{PLUGIN}' has changed since: the run goes on with what it is now"


def test_all_changed_plugins_are_one_warning() -> None:
    """As where a run of one version of s2s goes on with the next; names that are new or have gone are not changes."""
    old, new = ({"plugins": {f"p{i}": {"origin": "s2s-toolkit 0.1", "sha256": sha}}} for i, sha in ((1, "a"), (9, "b")))
    for name in ("adam", "beam", "bleu", "noam", "lora"):
        old["plugins"][name] = {"origin": "s2s-toolkit 0.1", "sha256": "before"}
        new["plugins"][name] = {"origin": "s2s-toolkit 0.1", "sha256": "after"}
    assert changes(old, new, ()) == [
        "plugins 'adam', 'beam', 'bleu', and 2 more have changed since: the run goes on with what it is now"
    ]


def test_a_plugin_that_is_no_longer_loaded_is_a_warning_once(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    env = read(run_path("x") / "env.json")
    del env["sha256"]
    moved = f"elsewhere/{PLUGIN}"
    env["plugins"] |= {"gone": {"origin": "gone-dist 1.5", "sha256": "another"}, moved: env["plugins"].pop(PLUGIN)}
    (run_path("x") / "env.json").write_text(json.dumps(env))
    assert begin(run_path("x"), plugins) == [
        "plugin 'gone' (gone-dist 1.5) is no longer loaded: the run goes on without it"
    ]
    assert begin(run_path("x"), plugins) == []


def test_starting_removes_what_killed_saves_left(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    remnant = run_path("x") / "checkpoints/.step-000002.tmp"
    remnant.mkdir()
    begin(run_path("x"), plugins)
    assert not remnant.exists()


@pytest.mark.parametrize(("absent", "n_warnings"), [((), 0), (("screens",), 1)], ids=["part of the core", "blocked"])
def test_a_shipped_plugin_that_is_gone_is_missed_only_where_it_is_left_out(
    absent: tuple[str, ...], n_warnings: int
) -> None:
    """Plugins of an earlier version may have become part of the core."""
    old = {"plugins": {"screens": {"origin": "s2s-toolkit 0.1.0", "sha256": "1"}}}
    assert len(changes(old, {"plugins": {}}, absent)) == n_warnings


def test_another_tokenizer_under_the_same_checkpoints_is_refused(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    other = Path("other")
    other.mkdir()
    (other / "letters.txt").write_text("cba")
    with pytest.raises(CheckpointError, match=r"was trained with the tokeniser [0-9a-f]{12}, .* is [0-9a-f]{12}"):
        RunDirectory(run_path("x")).copy_tokenizer(other)


def test_other_training_data_under_the_same_checkpoints_are_refused(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    run = RunDirectory(run_path("x"))
    run.record_data("a" * 64, Path("prepared"))  # a run of before there was such a check takes what it finds
    begin(run_path("x"), plugins)
    run.record_data("a" * 64, Path("elsewhere"))
    with pytest.raises(CheckpointError, match=r"was trained on the data aaaaaaaaaaaa, .* now give bbbbbbbbbbbb"):
        run.record_data("b" * 64, Path("prepared"))


def test_a_run_that_goes_on_records_the_machine_anew_and_keeps_what_it_was_trained_on(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    RunDirectory(run_path("x")).record_data("a" * 64, Path("prepared"))
    file = run_path("x") / "env.json"
    env = {key: value for key, value in read(file).items() if key != "sha256"}
    file.write_text(json.dumps(env | {"threads": 77, "of_a_plugin_that_is_gone": 1}))
    begin(run_path("x"), plugins)
    after = read(file)
    assert {key: after[key] for key in ("tokenizer", "data", "threads")} == {
        "tokenizer": env["tokenizer"], "data": "a" * 64, "threads": torch.get_num_threads(),
    }  # fmt: skip
    assert "of_a_plugin_that_is_gone" not in after


def test_the_same_tokenizer_mends_a_damaged_copy(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    (run_path("x") / "tokenizer/letters.txt").write_text("?")
    RunDirectory(run_path("x")).copy_tokenizer(Path("runs/prepared-tokenizer"))
    Run.load(run_path("x"), "auto", plugins, CPU)


def test_a_tokenizer_is_copied_where_it_is_another_one_or_damaged(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(run_path("x"), plugins, [])
    copied, copy = list[str](), tokenizer.copy_tokenizer
    monkeypatch.setattr(tokenizer, "copy_tokenizer", lambda *of: copied.append(of[0].name) or copy(*of))
    run, source = RunDirectory(run_path("x")), Path("runs/prepared-tokenizer")
    run.copy_tokenizer(source)
    assert copied == []
    (run.tokenizer / "letters.txt").write_text("?")
    run.copy_tokenizer(source)
    assert copied == ["prepared-tokenizer"]
    Path("other").mkdir()
    Path("other/letters.txt").write_text("cba")
    run.copy_tokenizer(Path("other"))  # there is no checkpoint yet
    assert copied == ["prepared-tokenizer", "other"]
    assert read(run_path("x") / "env.json")["tokenizer"] == tokenizer.identity(Path("other"))


def test_a_tokenizer_whose_copy_is_lost_is_known_from_the_environment(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    run = RunDirectory(run_path("x"))
    (run.tokenizer / "MANIFEST.json").unlink()
    Path("other").mkdir()
    Path("other/letters.txt").write_text("cba")
    with pytest.raises(CheckpointError, match="was trained with the tokeniser"):
        run.copy_tokenizer(Path("other"))
    run.copy_tokenizer(Path("runs/prepared-tokenizer"))
    assert tokenizer.recorded_identity(run.tokenizer) == tokenizer.identity(Path("runs/prepared-tokenizer"))
