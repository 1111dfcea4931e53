"""Models of the hub, from a server on this machine that speaks its API."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

import s2s
from harness.hub_server import HubServer, hub
from harness.published import LINES, opus_mt
from s2s.cli.generate import main as generate
from s2s.cli.train import main as train
from s2s.errors import CheckpointError
from s2s_import.command import main as import_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

constants = pytest.importorskip("huggingface_hub.constants", reason="the extra `hf` is not installed")
NAME = "Helsinki-NLP/opus-mt-en-de"
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of a connection that breaks


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_operators: str) -> Iterator[HubServer]:
    """A hub with one model, whose weights are there in other formats, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "published" / "opus"
    opus_mt(folder)
    for name in ("pytorch_model.bin", "tf_model.h5", "rust_model.ot", "onnx/decoder_model.onnx", "onnx/config.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("other weights")
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# OPUS-MT\n")
    with hub(tmp_path / "hub", monkeypatch) as server:
        server.add(NAME, folder)
        yield server


def translated(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """What s2s-generate writes for a few lines, and what it says."""
    from pathlib import Path

    Path("in.txt").write_text("".join(f"{line}\n" for line in LINES["src"][:5]))
    capsys.readouterr()
    assert generate(["input=in.txt", "output=out.txt", "overwrite=true", *arguments]) == 0
    return Path("out.txt").read_text(), capsys.readouterr().err


def error(capsys: pytest.CaptureFixture[str], name: str = NAME) -> str:
    """The line about a model that cannot be had."""
    capsys.readouterr()
    assert generate([f"model={name}", "input=in.txt"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "hf_secret" not in said
    return said


def test_a_model_of_the_hub_translates_as_its_folder(server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    expected, _ = translated(capsys, "model=published/opus")
    outputs, said = translated(capsys, f"model={NAME}")
    assert outputs == expected
    assert f"{NAME}@{server.commit(NAME, 'main')} of the hub" in said
    assert "hf_secret" not in said
    assert not {name for name in server.sent if name.endswith((".bin", ".h5", ".ot", ".onnx")) or "/" in name}
    n_sent = len(server.sent)
    assert s2s.load(NAME).translate(LINES["src"][:5]) == expected.splitlines()
    assert len(server.sent) == n_sent, "what is in the cache is not sent again"


def test_a_run_keeps_the_commit_of_its_model(
    server: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = server.commit(NAME, "main")
    for side in ("src", "tgt"):
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in LINES[side][:24]))
    options = [f"train.init_from={NAME}", "task.train=[train.src,train.tgt]", "run=tuned", "train.check=false"]
    assert train([*options, "train.steps=2"]) == 0
    record = json.loads((tmp_path / "runs" / "tuned" / "published.json").read_text())
    assert (record["name"], record["commit"], record["is_tuned"]) == (NAME, first, True)
    assert "apache-2.0" in (tmp_path / "runs" / "tuned" / "README.md").read_text()
    opus_mt(tmp_path / "published" / "opus", activation_function="relu")
    second = server.add(NAME, tmp_path / "published" / "opus")
    n_sent = len(server.sent)
    assert train([*options, "train.steps=3", "--quiet"]) == 0
    assert len(server.sent) == n_sent, "a run that continues needs its own files alone"
    for name, commit in ((f"{NAME}@{first}", first), (NAME, second)):
        assert import_model([f"model={name}", f"run={commit[:4]}", "--quiet"]) == 0
        assert json.loads((tmp_path / "runs" / commit[:4] / "published.json").read_text())["commit"] == commit


def test_a_broken_download_goes_on_where_it_broke(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 500)
    server.cut_after = 2_000
    assert s2s.load(NAME).translate(LINES["src"][:2])
    assert any(name.endswith("@2000") for name in server.sent), server.sent


def test_without_a_connection_the_cache_serves(
    server: HubServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "is not complete in the cache, and the hub cannot be reached (HF_HUB_OFFLINE is set)" in error(capsys)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    expected, _ = translated(capsys, f"model={NAME}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert translated(capsys, f"model={NAME}")[0] == expected
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert translated(capsys, f"model={NAME}")[0] == expected
    assert "hub cannot be reached\n" in error(capsys, "other/model")


def test_what_cannot_be_had_is_said_in_a_line(
    server: HubServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "other/model is not on the hub, or private" in error(capsys, "other/model")
    assert f"{NAME} has no revision v9 on the hub" in error(capsys, f"{NAME}@v9")
    server.gated.add(NAME)
    assert f"{NAME} is gated: accept its conditions" in error(capsys)
    server.gated.clear()
    folder = {"config.json": b"{}", "README.md": b""}
    server.repos["other/model"] = {"1" * 40: folder}
    assert "has no weights that are read here" in error(capsys, "other/model")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "models and data sets of the hub need huggingface_hub: pip install huggingface_hub (extra hf)" in error(
        capsys
    )


def test_a_folder_of_the_name_wins(server: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(tmp_path / "published" / "opus", tmp_path / NAME)
    said = translated(capsys, f"model={NAME}")[1]
    assert f"{tmp_path / NAME}" in said
    assert not server.sent


def test_a_name_under_runs_is_a_run(server: HubServer) -> None:
    server.repos["runs/opus"] = server.repos[NAME]
    with pytest.raises(CheckpointError, match=r"run=runs/opus: no such run[^@]*$"):
        s2s.load("runs/opus")
    assert not server.sent
