from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from harness.small_runs import CPU, PLUGIN, build, letters_config, make_run
from s2s.checkpoint import directory as checkpoint
from s2s.cli.train import main as train
from s2s.errors import CheckpointError
from s2s.io import atomic
from s2s.plugin import load_plugins
from s2s.run import Run, run_path
from s2s.run.directory import RunDirectory
from s2s.run.record import with_checksum

if TYPE_CHECKING:
    from s2s.plugin import Plugins


def test_a_loaded_run_has_the_weights_and_symbols_of_training(plugins: Plugins) -> None:
    weights = make_run(run_path("x"), plugins, [1, 2])
    run = Run.load(run_path("x"), "last", plugins, CPU)
    assert run.checkpoint_path == run_path("x") / "checkpoints/step-000002"
    assert run.task.detokenize(run.task.encode_source(["abc"])[0], "") == "abc"
    assert not run.model.training
    assert run.config.arch.d_model == 8
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, weights[2][name])
    assert run.model.out.weight is run.model.embed.weight


def test_each_name_of_a_checkpoint_finds_it(plugins: Plugins) -> None:
    path = run_path("x")
    make_run(path, plugins, [1, 2, 3])

    def found(name: str) -> str:
        return Run.load(path, name, plugins, CPU).checkpoint_path.name

    folder = path / "checkpoints"
    assert found("auto") == "step-000003"
    atomic.write_link(path / "best", folder / "step-000002")
    assert found("auto") == found("best") == "step-000002"
    shutil.copytree(folder / "step-000001", folder / "average")
    assert found("auto") == found("average") == "average"
    assert found("last") == "step-000003"
    assert found("step-000001") == "step-000001"
    assert found(str(folder / "step-000001")) == "step-000001"
    with pytest.raises(CheckpointError, match=r"checkpoint=step-00001: .*Did you mean 'step-000001'\?"):
        found("step-00001")


def test_damaged_checkpoints_are_passed_over_with_a_word(plugins: Plugins, caplog: pytest.LogCaptureFixture) -> None:
    path = run_path("x")
    make_run(path, plugins, [1, 2, 3])
    atomic.write_link(path / "best", path / "checkpoints/step-000002")
    for step in ("step-000002", "step-000003"):
        (path / "checkpoints" / step / "model.safetensors").write_bytes(b"?")
    assert Run.load(path, "auto", plugins, CPU).checkpoint_path.name == "step-000001"
    assert [("step-000002" in r.message, "step-000003" in r.message) for r in caplog.records] == [
        (True, False),
        (False, True),
    ]
    with pytest.raises(CheckpointError, match=r"no valid checkpoint for checkpoint=best: .*damaged"):
        Run.load(path, "best", plugins, CPU)


def test_a_best_checkpoint_that_is_gone_is_missed(plugins: Plugins, caplog: pytest.LogCaptureFixture) -> None:
    path = run_path("x")
    weights = make_run(path, plugins, [1, 2])[2]
    state = {"trainer": {"best": [[-1.0, 2], [-2.0, 3]]}}
    checkpoint.save(path / "checkpoints", "step-000003", {"model": weights}, state)
    atomic.write_link(path / "best", path / "checkpoints/step-000009")
    for best in ("step-000009", "step-000002"):  # dangling, and deleted
        assert Run.load(path, "auto", plugins, CPU).checkpoint_path.name == "step-000003"
        assert f"best leads nowhere; it was {best}. Taken instead: runs/x/checkpoints/step-000003" in caplog.text
        (path / "best").unlink(missing_ok=True)
    caplog.clear()
    atomic.write_link(path / "best", path / "checkpoints/step-000002")
    assert Run.load(path, "auto", plugins, CPU).checkpoint_path.name == "step-000002"
    assert Run.load(path, "last", plugins, CPU).checkpoint_path.name == "step-000003"
    assert not caplog.records


def test_a_configuration_that_was_changed_since_is_said_to_be(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    path = run_path("x")
    make_run(path, plugins, [1])
    resolved = path / "resolved.yaml"
    resolved.write_text(with_checksum("".join(resolved.read_text().splitlines(keepends=True)[:-1])))
    Run.load(path, "last", plugins, CPU)
    assert not caplog.records
    resolved.write_text(resolved.read_text().replace("alpha: 0.6", "alpha: 0.7"))
    assert Run.load(path, "last", plugins, CPU).config.search.alpha == 0.7
    assert "resolved.yaml is not as the run wrote it" in caplog.text


def test_a_configuration_that_asks_for_far_more_than_its_weights_is_refused(plugins: Plugins) -> None:
    path = run_path("x")
    make_run(path, plugins, [1])
    resolved = path / "resolved.yaml"
    resolved.write_text(resolved.read_text().replace("d_model: 8", "d_model: 10000000"))
    with pytest.raises(CheckpointError, match="does not fit the model, which has more than four times as many weights"):
        Run.load(path, "last", plugins, CPU)


def test_the_moving_average_is_what_is_loaded(plugins: Plugins) -> None:
    path = run_path("x")
    weights = make_run(path, plugins, [1])[1]
    weights["out.weight"] = weights["embed.weight"]
    moving = {"embed.weight": torch.full((7, 8), 0.5), "out.bias": torch.zeros(7)}
    checkpoint.save(path / "checkpoints", "step-000002", {"model": weights, "ema": moving}, {})
    assert Run.load(path, "last", plugins, CPU).model.out.weight.eq(0.5).all()


def test_swapped_tokenizer_files_are_explained_with_both_hashes(plugins: Plugins) -> None:
    path = run_path("x")
    make_run(path, plugins, [1])
    (path / "tokenizer/letters.txt").write_text("cba")
    with pytest.raises(CheckpointError, match=r"identity [0-9a-f]{12}, and the run's was [0-9a-f]{12}"):
        Run.load(path, "auto", plugins, CPU)


def test_a_swapped_tokenizer_folder_is_explained_with_both_hashes(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    make_run(run_path("y"), plugins, [1])
    other = Path("other")
    other.mkdir()
    (other / "letters.txt").write_text("cba")
    shutil.rmtree(run_path("y") / "checkpoints")
    RunDirectory(run_path("y")).copy_tokenizer(other)
    shutil.rmtree(run_path("x") / "tokenizer")
    shutil.copytree(run_path("y") / "tokenizer", run_path("x") / "tokenizer")
    with pytest.raises(CheckpointError, match=r"identity [0-9a-f]{12}, and the run's was [0-9a-f]{12}"):
        Run.load(run_path("x"), "auto", plugins, CPU)


def test_a_run_never_brings_code_along(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    with pytest.raises(CheckpointError) as caught:
        Run.load(run_path("x"), "auto", load_plugins(), CPU)
    assert "runs/x cannot be loaded" in str(caught.value)
    assert "letters" in str(caught.value)
    assert f". It was trained with the plugins {PLUGIN}: install them, or give plugins=[…]" in str(caught.value)


@pytest.mark.parametrize("name", ["config.yaml", "resolved.yaml"])
def test_continuing_without_the_plugins_of_a_run_names_them(
    plugins: Plugins, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    make_run(run_path("x"), plugins, [1])
    assert train([str(run_path("x") / name)]) == 2
    assert f". It was trained with the plugins {PLUGIN}: install them, or give plugins=[…]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ("optim", "optim=adam: no such optim. Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: optim."),
        ("translation", "for the preset, write base: translation. Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: tr"),
    ],
)
def test_a_blocked_plugin_of_a_run_is_not_to_be_installed(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch, plugin: str, said: str
) -> None:
    make_run(run_path("x"), plugins, [1])
    if plugin == "translation":
        resolved = run_path("x") / "resolved.yaml"
        resolved.write_text(re.sub(r"(?m)^task:\n(  .*\n)*", "task: {name: translation}\n", resolved.read_text()))
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", plugin)
    with pytest.raises(CheckpointError) as caught:
        Run.load(run_path("x"), "auto", load_plugins([PLUGIN]), CPU)
    assert said in str(caught.value)
    assert "install" not in str(caught.value)
    assert "?;" not in str(caught.value)


@pytest.mark.parametrize("line", ["plugins: [./evil.py]", "run: ${oc.env:HOME}", "run: !!python/name:os.system ''"])
def test_a_configuration_from_a_stranger_runs_nothing(line: str, plugins: Plugins, tmp_path: Path) -> None:
    make_run(run_path("x"), plugins, [1])
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    resolved = run_path("x") / "resolved.yaml"
    kept = [text for text in resolved.read_text().splitlines() if not text.startswith("run:")]
    resolved.write_text("\n".join([*kept, line]) + "\n")
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        Run.load(run_path("x"), "auto", plugins, CPU)


def test_weights_of_another_shape_are_explained(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    other = build(letters_config(plugins, "arch.d_model=16"), plugins, Path("prepared"))
    checkpoint.save(run_path("x") / "checkpoints", "step-000009", {"model": other.state_dict()}, {})
    with pytest.raises(CheckpointError, match=r"step-000009 does not fit the model: 'embed.weight' is \[7, 16\] there"):
        Run.load(run_path("x"), "last", plugins, CPU)


@pytest.mark.parametrize("content", [None, b"{", b"[]"], ids=["gone", "cut", "of another kind"])
def test_a_run_is_loaded_without_the_record_of_its_environment(content: bytes | None, plugins: Plugins) -> None:
    """Its tokeniser is then compared with what was written beside it."""
    path = run_path("x")
    make_run(path, plugins, [1])
    (path / "env.json").unlink(missing_ok=True)
    if content is not None:
        (path / "env.json").write_bytes(content)
    assert Run.load(path, "last", plugins, CPU).checkpoint_path.name == "step-000001"
    (path / "tokenizer/letters.txt").write_text("cba")
    with pytest.raises(CheckpointError, match="is not the tokeniser that the model was trained with"):
        Run.load(path, "last", plugins, CPU)


def test_a_run_without_a_checkpoint_has_nothing_to_load(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [])
    with pytest.raises(CheckpointError) as caught:
        Run.load(run_path("x"), "auto", plugins, CPU)
    assert str(caught.value) == "run runs/x has no valid checkpoint for checkpoint=auto: none was saved yet"


def test_a_run_without_a_tokenizer_is_not_loaded(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    shutil.rmtree(run_path("x") / "tokenizer")
    with pytest.raises(CheckpointError, match=r"^run runs/x cannot be loaded: it has no tokeniser in runs/x/tok"):
        Run.load(run_path("x"), "auto", plugins, CPU)


def test_the_average_stands_for_a_best_checkpoint_that_is_gone(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    path = run_path("x")
    make_run(path, plugins, [1, 2], trainer={"best": [[-1.0, 7]]})
    shutil.copytree(path / "checkpoints/step-000002", path / "checkpoints/average")
    assert Run.load(path, "auto", plugins, CPU).checkpoint_path.name == "average"
    assert Run.load(path, "last", plugins, CPU).checkpoint_path.name == "step-000002"
    assert not caplog.records
    shutil.rmtree(path / "checkpoints/average")
    Run.load(path, "auto", plugins, CPU)
    assert "best leads nowhere; it was step-000007" in caplog.text
    caplog.clear()
    (path / "checkpoints/step-000002/state.json").unlink()
    Run.load(path, "auto", plugins, CPU)
    assert "leads nowhere" not in caplog.text, "the newest cannot be asked"


@pytest.mark.parametrize(
    ("trainer", "taken"),
    [({"step": 2}, "average"), ({"step": 1}, "step-000002"), ({}, "average"), ([1], "average"), (None, "average")],
)
def test_an_average_is_not_taken_if_the_run_has_continued_since(
    trainer: object, taken: str, plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    path = run_path("x")
    model = make_run(path, plugins, [1, 2])[1]
    checkpoint.save(path / "checkpoints", "average", {"model": model}, {"members": [], "trainer": trainer})
    assert Run.load(path, "auto", plugins, CPU).checkpoint_path.name == taken
    assert ("written after update 1, and the run has continued since, up to step-000002" in caplog.text) == (
        taken != "average"
    )
    assert Run.load(path, "average", plugins, CPU).checkpoint_path.name == "average"


@pytest.mark.parametrize(("worse", "taken"), [(True, "step-000001"), (False, "average"), ("yes", "average")])
def test_an_average_that_validated_worse_than_the_best_is_taken_by_name_only(
    worse: object, taken: str, plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    path = run_path("x")
    model = make_run(path, plugins, [1, 2])[1]
    atomic.write_link(path / "best", path / "checkpoints/step-000001")
    state = {"members": [], "trainer": {"step": 2}, "worse_than_best": worse}
    checkpoint.save(path / "checkpoints", "average", {"model": model}, state)
    assert Run.load(path, "auto", plugins, CPU).checkpoint_path.name == taken
    assert not caplog.records
    assert Run.load(path, "average", plugins, CPU).checkpoint_path.name == "average"


def test_nothing_is_missed_where_the_newest_checkpoint_is_the_best(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    path = run_path("x")
    make_run(path, plugins, [1, 2], trainer={"best": [[-1.0, 2]]})
    assert Run.load(path, "auto", plugins, CPU).checkpoint_path.name == "step-000002"
    assert not caplog.records


def test_of_what_a_damaged_run_was_trained_with_nothing_is_guessed(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    (run_path("x") / "env.json").unlink()
    with pytest.raises(CheckpointError) as caught:
        Run.load(run_path("x"), "auto", load_plugins(), CPU)
    assert "it was trained with" not in str(caught.value)
    assert "install them" not in str(caught.value)
