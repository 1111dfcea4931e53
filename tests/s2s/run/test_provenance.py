"""A run is used without the plugins that it was begun with, unless its training depends on them."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from harness.tiny_runs import SMALL, call, write_corpus
from s2s.cli.train import main
from s2s.config import Config
from s2s.errors import CheckpointError
from s2s.plugin import load_plugins
from s2s.run import Run
from s2s.run.provenance import ConfigForTexts, read_config, read_config_for_texts
from s2s.run.record import with_checksum

if TYPE_CHECKING:
    from torch import Tensor

OUTSIDE = """
from dataclasses import dataclass, field
import s2s, torch
from s2s.checkpoint import latest
from s2s.config import Mark, TrainConfig

@dataclass(kw_only=True)
class Options(TrainConfig):
    start_at: float = field(default=0.0, metadata=Mark.AT_START)
    '''Value of the first weights.'''
    shown: str = field(default="", metadata=Mark.NEUTRAL)
    '''A word.'''
    lost: float = 0.0
    '''Factor of every loss, say.'''

@s2s.hookimpl
def s2s_register(registry):
    registry.options(Options)

@s2s.hookimpl
def s2s_prepare_model(model, config, directory):
    if config.train.start_at and latest(directory / "checkpoints").path is None:
        with torch.no_grad():
            for p in model.parameters():
                p.add_(config.train.start_at)
"""
CPU = torch.device("cpu")


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run "x" of four updates whose weights a plugin of another author has set."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    Path("start.py").write_text(OUTSIDE)
    assert train("x", "plugins=[start.py]", "train.start_at=0.5", "train.shown=word") == 0
    return Path("runs/x")


def train(run: str, *arguments: str) -> int:
    return main([*SMALL, "train.steps=4", f"run={run}", "--quiet", *arguments])


def last_weights(run: str) -> dict[str, Tensor]:
    return dict(Run.load(Path("runs", run), "last", load_plugins(), CPU).model.state_dict())


def test_a_run_that_an_absent_plugin_initialised_generates_and_exports(
    begun: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with_it = Run.load(begun, "last", load_plugins(["start.py"]), CPU).model.state_dict()
    without = last_weights("x")
    assert all(torch.equal(with_it[name], without[name]) for name in with_it)
    Path("in.txt").write_text("the old dog\n")
    caplog.clear()
    code, out, _ = call("s2s-generate", ["run=runs/x", "input=in.txt", "checkpoint=last"], capsys)
    assert (code, len(out.splitlines())) == (0, 1)
    assert caplog.messages == [
        "run runs/x: train.start_at=0.5 is an option of the plugin start.py, which is not loaded"
    ]
    assert call("s2s-export", ["run=runs/x", "output=exported"], capsys)[0] == 0


def test_it_continues_bit_by_bit_and_remembers_what_it_began_with(begun: Path) -> None:
    shutil.copytree(begun, "runs/y", symlinks=True)
    assert train("y", "plugins=[start.py]", "train.start_at=0.5", "train.steps=8") == 0
    assert train("x", "train.steps=6") == 0
    recorded = json.loads((begun / "provenance.json").read_text())["content"]["options"]
    assert recorded["train.start_at"] == {"value": 0.5, "plugin": "start.py", "needed": False}
    assert "train.start_at" not in (begun / "resolved.yaml").read_text()
    assert "start_at=0.5" in (begun / "train.log").read_text()
    assert train("x", "plugins=[start.py]", "train.start_at=0.5", "train.steps=8") == 0
    x, y = last_weights("x"), last_weights("y")
    assert all(torch.equal(x[name], y[name]) for name in x)
    assert train("x", "plugins=[start.py]", "train.start_at=0.7", "train.steps=9") == 2


def test_a_run_whose_training_depends_on_the_plugin_is_loaded_but_not_continued(
    begun: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("z", "plugins=[start.py]", "train.lost=2.0") == 0
    assert last_weights("z")
    code, _, err = call("s2s-train", [*SMALL, "train.steps=6", "run=z", "--quiet"], capsys)
    assert code == 2
    assert "runs/z cannot be continued: train.lost=2.0 is an option of the plugin start.py" in err
    assert train("z", "plugins=[start.py]", "train.lost=2.0", "train.steps=6") == 0


def test_a_run_from_before_provenance_is_used_without_plugins_that_were_not_asked_for_anything(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (begun / "provenance.json").unlink()
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "fine_tuning,arch_check,profiler")
    assert last_weights("x")
    assert train("x", "train.steps=6") == 0


def test_a_misspelt_option_in_an_edited_file_is_an_error_still(begun: Path) -> None:
    file = begun / "resolved.yaml"
    file.write_text(file.read_text().replace("  clip:", "  clipp:"))
    with pytest.raises(CheckpointError, match=r"train\.clipp: no such option.*Did you mean 'train\.clip'"):
        Run.load(begun, "last", load_plugins(), CPU)


def test_a_damaged_record_is_named(begun: Path) -> None:
    file = begun / "provenance.json"
    file.write_text(file.read_text().replace("0.5", "0.6"))
    with pytest.raises(CheckpointError, match=r"provenance\.json is damaged \(its checksum does not match\)"):
        Run.load(begun, "last", load_plugins(), CPU)


def test_values_of_a_plugin_that_is_loaded_are_read_as_before(begun: Path) -> None:
    config, notes = read_config(begun, load_plugins(["start.py"]))
    assert (config.train.start_at, config.train.shown, notes) == (0.5, "word", [])  # type: ignore[attr-defined]
    assert type(config).__name__ == Config.__name__


def test_a_run_is_continued_as_the_version_that_began_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without options that came later, as its record lacks them: here, to leave out soft hyphens."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    text = Path("a.en").read_text(encoding="utf-8")
    Path("a.en").write_text(text.replace("dog", "d\u00adog"), encoding="utf-8")
    old = "task.subword={name: bpe, invisible: keep}"
    assert main([*SMALL, "train.steps=4", "run=x", "--quiet", old]) == 0
    assert main([*SMALL, "train.steps=6", "run=whole", "--quiet", old]) == 0
    path = Path("runs/x/resolved.yaml")
    lines = re.sub(r"subword: \{.*\}", "subword: bpe", path.read_text()).splitlines()[:-1]
    assert "  subword: bpe" in [line.partition("#")[0].rstrip() for line in lines]
    path.write_text(with_checksum("".join(f"{line}\n" for line in lines)))
    assert read_config(Path("runs/x"), load_plugins()).config.task.subword["invisible"] == "keep"  # type: ignore[attr-defined]
    shutil.rmtree("runs/prepared")
    assert main([*SMALL, "train.steps=6", "run=x", "--quiet"]) == 0
    assert all(torch.equal(weight, last_weights("x")[name]) for name, weight in last_weights("whole").items())
    assert main([*SMALL, "train.steps=8", "run=x", "--quiet", "task.subword={name: bpe, invisible: drop}"]) == 2


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run without options of plugins."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    assert train("plain", "search.beam=3", "data.max_len=77", "train.steps=1") == 0
    return Path("runs/plain")


def test_what_texts_need_is_as_in_the_whole_configuration(plain: Path) -> None:
    plugins = load_plugins()
    part, whole = read_config_for_texts(plain, plugins), read_config(plain, plugins).config
    assert part is not None
    assert vars(part) == {item.name: getattr(whole, item.name) for item in fields(ConfigForTexts)}
    assert (vars(part.search)["beam"], part.data.max_len) == (3, 77)


@pytest.mark.parametrize("section", [item.name for item in fields(ConfigForTexts)])
def test_the_configuration_for_texts_has_the_defaults_of_the_whole_one(section: str) -> None:
    part, whole = ConfigForTexts.__dataclass_fields__[section], Config.__dataclass_fields__[section]
    assert part.type == whole.type
    assert getattr(ConfigForTexts(), section) == getattr(Config(), section)


def test_an_edited_configuration_is_read_as_a_whole(plain: Path) -> None:
    """An unknown option in it is reported."""
    resolved = plain / "resolved.yaml"
    resolved.write_text(resolved.read_text().replace("max_len: 77", "max_len: 78"))
    assert read_config_for_texts(plain, load_plugins()) is None
    resolved.unlink()
    assert read_config_for_texts(plain, load_plugins()) is None


def test_a_configuration_with_options_of_plugins_is_read_as_a_whole(begun: Path) -> None:
    """Those of absent plugins are warned of."""
    assert read_config_for_texts(begun, load_plugins()) is None
