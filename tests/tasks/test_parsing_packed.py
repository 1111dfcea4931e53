"""Trees without torch: the second command and the second server of a parser write the same bytes as the first."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.recorded_loads import copy_with_empty_cache
from s2s.cli import generate, train
from s2s.plugin import load_plugins
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear
from s2s_parsing.task import read_tree

pytestmark = pytest.mark.skipif(not has_linear(), reason=native_library().reason)
SMALL = [
    *("task=parsing", "task.trees=100", "recipe=none", "arch.n_encoder_layers=1", "arch.n_decoder_layers=1"),
    *("data.workers=1", "train.threads=1", "train.tokens=300", "train.steps=4"),
    *("checkpoint.every=2", "valid.every=0", "valid.sentences=4", "log.tensorboard=false", "run=x", "--quiet"),
]
TRANSFORMER = [
    *("task.src_vocab_size=100", "arch=transformer_tiny", "arch.d_model=8", "arch.d_ff=8", "arch.n_heads=2"),
    "arch.share_embeddings=none",
]
GUIDED = [
    *("task.linear=in_order", "task.words=parts", "task.word_labels=tags", "arch=rnn_parsing", "arch.label_loss=0.5"),
    *("arch.d_model=16", "arch.d_embedding=24"),
]
LINES = ["A cat sleeps .", "The old dog sees the cat and the bird .", "Go !", "", "( unseen ) wörds ✓", "sleeps " * 40]
PARSERS = {
    "released": [*TRANSFORMER, "task.linear=released"],
    "in_order": [*TRANSFORMER, "task.linear=in_order"],
    "guided": GUIDED,
}
"""Brackets in words of their own, actions of a transition system, and what recipes recommend: these with a guide, words
from parts and tags from the encoder"""


@pytest.fixture(scope="module", params=PARSERS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train.main([*SMALL, *PARSERS[request.param]]) == 0
    (folder / "in.txt").write_text("\n".join(LINES) + "\n")
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a parser "x", and a cache that is empty."""
    return copy_with_empty_cache(trained, tmp_path, monkeypatch)


def arguments(*options: str) -> list[str]:
    return ["run=x", "input=in.txt", "output=out", "overwrite=true", "matmul=native", *options]


def written(folder: Path, *options: str) -> bytes:
    assert generate.main(arguments("workers=1", "--quiet", *options)) == 0
    return (folder / "out").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        [],  # beam 21, and 300 symbols more than the source has
        ["search.beam=4", "nbest=3", "format=jsonl", "fields=[tokens,pieces,log_probs]"],
        ["search.beam=1", "quantization=bf16"],
        ["search=greedy", "search.max_len_b=100", "threads=2"],
        ["constrained=false", "search.max_len_b=20"],
        ["search.beam=3", "search.min_len=30"],
        ["search.beam=3", "search.no_repeat_ngram_size=9", "search.repetition_penalty=1.1"],
        ["search=sample", "search.temperature=0.7", "nbest=3", "format=jsonl"],
    ],
    ids=str,
)
def test_the_second_command_loads_no_model_and_writes_the_same(
    options: list[str], folder: Path, loads: list[str]
) -> None:
    first = written(folder, *options)
    assert loads == ["x"]
    assert written(folder, *options) == first
    assert loads == ["x"]


def test_torch_is_not_imported_and_outputs_are_trees(folder: Path) -> None:
    first = written(folder, "search.beam=4")
    library = Path(native_library().functions._name)  # type: ignore[union-attr]
    for file in library.parent.glob(f"{library.stem}.*"):  # not to be compiled again for this cache
        shutil.copy2(file, folder.parent / "cache" / "s2s")
    code = (
        "import sys; from s2s.cli.generate import main; assert main(sys.argv[1:]) == 0;"
        "assert not {'torch', 'numpy'} & sys.modules.keys(), 'imported'"
    )
    command = [sys.executable, "-c", code, *arguments("search.beam=4")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "native kernels with a packed model" in done.stderr
    assert (folder / "out").read_bytes() == first
    trees = first.decode().splitlines()
    assert [bool(tree) for tree in trees] == [bool(line) for line in LINES]
    assert all(read_tree(tree) for tree in trees if tree)


def test_a_sentence_without_room_for_its_words_is_left_to_the_model(folder: Path, loads: list[str]) -> None:
    options = ["search.beam=4", "search.max_len_a=0", "search.max_len_b=39"]
    first = written(folder, *options)
    assert written(folder, *options) == first
    assert loads == ["x", "x"]
    assert b"(TOP (S " in first.splitlines()[-1], "the fallback"


@pytest.mark.parametrize("option", ["search.num_beam_groups=2", "search.renormalize=true"])
def test_what_the_tables_do_not_say_loads_the_model(option: str, folder: Path, loads: list[str]) -> None:
    first = written(folder, "search.beam=2", option)
    assert written(folder, "search.beam=2", option) == first
    assert loads == ["x", "x"]


@pytest.mark.parametrize("suffix", ["json", "bin"])
def test_a_damaged_file_of_the_cache_loads_the_model(suffix: str, folder: Path, loads: list[str]) -> None:
    first = written(folder, "search.beam=2")
    (file,) = (folder.parent / "cache").rglob(f"packed/*.{suffix}")
    whole = file.read_bytes()
    for damaged in (whole[:-1000], whole[:-99] + bytes([whole[-99] ^ 1]) + whole[-98:]):
        loads.clear()
        file.write_bytes(damaged)
        assert written(folder, "search.beam=2") == first
        assert written(folder, "search.beam=2") == first
        assert loads == ["x"]


def test_the_second_server_loads_no_model_and_has_the_same_answers(folder: Path, loads: list[str]) -> None:
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    pytest.importorskip("httpx", reason="the extra `dev` is not installed")
    from harness.small_server import served
    from s2s_serve import ServeConfig
    from s2s_serve.server import load_server

    def answers() -> list[Any]:
        config = ServeConfig(run={"trees": str(folder / "runs" / "x")}, generate={"search.beam": 4})
        with served(load_server(config, load_plugins())) as server:
            posts: list[dict[str, Any]] = [
                {"text": LINES, "fields": ["tokens", "log_probs"]},
                {"text": LINES, "nbest": 3},
            ]
            return [json.loads(server.post("/v1/generate", body).content) for body in posts]

    first = answers()
    assert len(loads) == 1
    assert answers() == first
    assert len(loads) == 1
    assert first[0]["results"][0]["hyp"].startswith("(TOP")
