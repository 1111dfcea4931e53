"""The command on a run that s2s-train made: its search, its tokeniser, and a real kill -9."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from s2s.cli.generate import main
from s2s.cli.train import main as train

if TYPE_CHECKING:
    from pathlib import Path

WORDS = {"a": "ein", "dog": "hund", "cat": "kater", "old": "alter", "sees": "sieht", "the": "der", "eats": "isst"}


def sentences(n: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(list(WORDS), k=draw.randint(1, 9))) for _ in range(n)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run "x" of a few updates, and what it read."""
    folder = tmp_path_factory.mktemp("trained")
    src = sentences(200)
    (folder / "a.en").write_text("".join(f"{line}\n" for line in src))
    (folder / "a.de").write_text("".join(" ".join(WORDS[w] for w in line.split()) + "\n" for line in src))
    options = [
        "train.threads=1",
        "data.workers=1",
        "task.vocab_size=40",
        "arch=transformer_tiny",
        "train.steps=3",
        "train.tokens=500",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train(["task=translation", "task.train=[a.en,a.de]", *options, "run=x", "--quiet"]) == 0
    return folder


@pytest.fixture(autouse=True)
def _here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)


def test_an_input_as_long_as_those_of_training_is_not_too_long(trained: Path, capsysbinary: Any) -> None:
    """Not even beyond the default of max_source; what is given counts."""
    (trained / "long").write_text("a " * 1_100 + "\n")
    again = ["task=translation", "task.train=[a.en,a.de]", "task.vocab_size=40", "arch=transformer_tiny"]
    assert train([*again, "train.steps=0", "train.threads=1", "data.max_len=4000", "run=long", "--quiet"]) == 0
    arguments = [
        "threads=1",
        "input=long",
        "search=greedy",
        "search.max_len_a=0",
        "search.max_len_b=2",
        "too_long=error",
    ]
    assert main(["run=long", *arguments]) == 0
    assert main(["run=long", "max_source=1024", *arguments]) == 2
    assert main(["run=x", *arguments]) == 2
    assert b"longer than the 1,024 allowed" in capsysbinary.readouterr().err


def test_a_run_is_found_and_its_search_can_be_changed_in_part(trained: Path, capsysbinary: Any) -> None:
    (trained / "in.jsonl").write_text("".join(json.dumps({"src": line}) + "\n" for line in sentences(5)))
    lengths = []
    for change in (["search.max_len_b=2"], ["search=greedy", "search.max_len_b=2"], ["search.alpha=0"]):
        arguments = ["run=x", "threads=1", "input=in.jsonl", "format=jsonl", *change]
        assert main(arguments) == 0
        found = [json.loads(line) for line in capsysbinary.readouterr().out.decode().splitlines()]
        assert [f["src"] for f in found] == sentences(5)
        assert all(f["score"] < 0 for f in found)
        lengths.append(sum(len(f["hyp"]) for f in found))
    assert lengths[0] < lengths[2]


def test_another_search_is_refused_by_its_name(capsys: Any) -> None:
    assert main(["run=x", "search.beams=3"]) == 2
    assert "search.beam" in capsys.readouterr().err


def test_a_run_must_be_named(capsys: Any) -> None:
    assert main([]) == 2
    assert "run: which model? Give run=NAME" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize("n_kills", [50])
def test_kill_9_at_random_moments_and_resume_give_the_same_bytes(trained: Path, tmp_path: Path, n_kills: int) -> None:
    (trained / "in.txt").write_text("".join(f"{line}\n" for line in sentences(100)))
    command = ["run=x", "input=in.txt", "format=tsv", "nbest=2", "buffer_size=10", "tokens=60", "threads=1", "--quiet"]
    command += ["search.max_len_a=1", "search.max_len_b=5"]  # a model that has learnt nothing does not end by itself

    def started(output: Path) -> int:
        pid = os.fork()
        if pid == 0:
            torch.set_num_threads(1)  # the parent's threads did not come along
            os._exit(main([*command, "resume=true", f"output={output}"]))
        return pid

    began = time.monotonic()
    assert os.waitpid(started(tmp_path / "whole"), 0)[1] == 0
    seconds = time.monotonic() - began
    draw, n_killed, output = random.Random(0), 0, tmp_path / "0"
    while n_killed < n_kills or not output.exists():
        pid = started(output)
        if n_killed < n_kills:
            time.sleep(draw.uniform(0, seconds))
            os.kill(pid, signal.SIGKILL)  # it is ours until we wait for it, even when it is done
        n_killed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        if output.exists():
            assert output.read_bytes() == (tmp_path / "whole").read_bytes()
            output = tmp_path / f"{n_killed}" if n_killed < n_kills else output


def test_decoding_a_line_imports_nothing_heavy_that_it_does_not_need() -> None:
    """Each of these takes longer than the line."""
    heavy = ("torch._dynamo", "sympy", "sacrebleu", "nltk", "rich", "matplotlib", "transformers")
    code = (
        "import sys; from s2s.cli.generate import main; main(['run=x', 'input=a.en', 'output=light']); "
        f"sys.exit(', '.join(name for name in {heavy!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
