"""The commands on the pages run as written, on tiny runs; those that cannot are listed with a reason."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.docs_commands import ELSEWHERE, NOT_HERE, Command, commands, is_plain, write_files
from harness.docs_commands import PAGES as DOC_PAGES
from harness.tiny_runs import COMMANDS, SMALL
from s2s.compose import compose
from s2s.config import Config
from s2s.plugin import Plugins, load_plugins
from s2s_report import command as report

if TYPE_CHECKING:
    from collections.abc import Iterator

TINY = [
    *(
        "train.steps=2",
        "train.tokens=300",
        "valid.sentences=2",
        "data.workers=1",
        "train.threads=1",
        "train.check=false",
    ),
    "log.tensorboard=false",
]
"""Laid over every command that trains; what a page is about stays as it stands there"""


def _as_map(options: list[str]) -> str:
    """Options arch.x=1 in the form x: 1, …"""
    return ", ".join(option.removeprefix("arch.").replace("=", ": ") for option in options)


PAPERS = ("wmt14_en_de", "wmt14_en_de_big", "wmt14_en_fr", "wmt14_en_fr_big")
"""Experiments of the paper's size"""
WIDTHS = SMALL[4:9]
"""Of the Transformer, with its layers"""
HERE = ["task.train=[train.en,train.de]", "task.valid=[dev.en,dev.de]", "task.vocab_size=40"]
"""In place of corpora that are downloaded"""
SIZES = {
    "run=trees": [*SMALL[4:7], "task.trees=300"],
    "run=rnng_wsj": ["arch.d_model=8"],
    "task=parsing_tiny": ["task.trees=300"],
    "run=rnng": ["task.trees=300"],
    "experiment=wsj": [*WIDTHS, "task.src_vocab_size=60"],
    "experiment=wsj_semi": [*WIDTHS, "task.src_vocab_size=60"],
    "run=wsj": [*WIDTHS, "task.src_vocab_size=60", "search.max_len_b=5"],
    **{f"experiment={name}": [*WIDTHS, *HERE] for name in PAPERS},
    "experiment=table3": ["arch.d_model=8", "arch.d_ff=8", *SMALL[7:9], *HERE],
    "experiment=demo": ["task.pairs=300"],
    "experiment=multitask": ["task.tasks.translate.pairs=300", "task.tasks.parse.trees=300"],
    "task=stories": ["task.stories=300"],
    "task=translation_tiny": ["task.pairs=300"],
    "arch=luong": ["arch.d_model=8", *SMALL[7:9]],
    "arch=convs2s": ["arch.d_model=8", "arch.encoder_layers=[[1,8,3]]", "arch.decoder_layers=[[1,8,3]]"],
    "arch=mixture": ["arch.d_model=8", f"arch.of={{name: transformer, {_as_map(WIDTHS[1:])}}}"],
    "arch=neural_gpu": ["arch.d_model=8", "task.pairs=300"],
    "objective=distill": [*WIDTHS, "task.pairs=300"],
    "arch=transformer_base": [*WIDTHS, "task.pairs=300"],
    "arch=transformer_tiny": SMALL[4:7],
    "arch=transformer_small": WIDTHS,
    "run=mine": SMALL[3:9],
    "run=back": SMALL[3:9],
    "run=both": SMALL[3:9],
    "run=many": ["task.vocab_size=60", *SMALL[3:9]],
    "run=many-medical": [],
    "run=many-medical-fr": [],
    "run=small": SMALL[3:9],
    "run=sampled": SMALL[3:9],
    "run=unigram": [*SMALL[3:9], "task.vocab_size=30"],
    "arch.of=transformer_small": [f"arch.of={{name: transformer_small, {_as_map(WIDTHS)}}}"],
}
"""Of models and corpora that are larger than a test can train: of the first that is a word of the command"""
PAGES = sorted({command.page for command in commands()} - set(ELSEWHERE))
"""Those whose commands run one after the other"""

WRITTEN = {"docs/few_pairs.md": "train.tsv"}
"""What commands of a page write, and those of another read"""


def test_every_command_is_known_and_every_exception_is_needed() -> None:
    found = list(commands())
    assert len(found) > 80
    assert sorted((set(ELSEWHERE) | set(PAGES)) - {command.page for command in found}) == []
    assert [part for part in NOT_HERE if not any(part in command.text for command in found)] == []


def shell_lines() -> Iterator[str]:
    """Every line of a block on a page that begins with a command, also of those that show the help of one."""
    for page in DOC_PAGES:
        for block in re.findall(r"^```(?:sh|bash|text)?\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            joined = re.sub(r"\\\n\s*", "", block)
            yield from re.findall(r"^s2s-[a-z]+ (?!list \[|show GROUP).*[^\s:]$", joined, re.MULTILINE)


def test_brackets_are_quoted_where_a_shell_would_split_or_expand_them() -> None:
    """What bash makes of a line are the words as they are meant: blanks and braces inside of brackets are quoted."""
    lines = list(dict.fromkeys(shell_lines()))
    assert len(lines) > 100
    words = {line: shlex.split(line, comments=True) for line in lines}
    open_brackets = [
        line for line, of in words.items() if any(w.count(a) != w.count(b) for w in of for a, b in ("[]", "{}"))
    ]
    assert open_brackets == []
    simple = [line for line, of in words.items() if not {"|", "<", ">", ";", "&", "…"} & set("".join(of))]
    script = "set -f\n" + "".join(f"printf '%s\\0' {line}\nprintf '\\n\\0'\n" for line in simple)
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    split = [part.split("\0")[:-1] for part in ran.stdout.split("\n\0")[:-1]]
    assert split == [words[line] for line in simple]


PAGES_WITH_PLUGINS = {"docs/plugins/index.md", "docs/plugins/tutorial.md", "docs/playbooks/port_a_model.md"}
"""Their commands load files of the page, and run in tests of their own"""


@pytest.mark.parametrize("page", sorted({c.page for c in commands()} - PAGES_WITH_PLUGINS))
def test_the_options_of_every_training_command_are_options(page: str, plugins: Plugins) -> None:
    """Also of commands that are too long to run."""
    for command in commands():
        words = shlex.split(command.text)
        whole = words[0] == "s2s-train" and not {"--help", "…"} & set(words) and "[…]" not in command.text
        if command.page == page and whole and not words[1].endswith(".yaml"):  # those are of a run
            given = [word for word in words[1:] if not word.startswith("--")]
            if "train.init_from=" in command.text and not re.search(r"\btask=", command.text):
                given.append("task=translation")  # that of the run, which is not there
            compose(Config, given, plugins, complete=True)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the pages, and runs under the names that they have there."""
    root = tmp_path_factory.mktemp("pages")
    write_files(root)
    tiny = [*SMALL, *TINY, "task.train=[train.en,train.de]", "task.valid=[dev.en,dev.de]", "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert COMMANDS["s2s-train"]([*tiny, "run=my_run", "checkpoint.every=1", "checkpoint.keep_last=5"]) == 0
    checkpoints = root / "runs" / "my_run" / "checkpoints"
    for step, name in enumerate(("step-090000", "step-100000"), 1):
        shutil.copytree(checkpoints / f"step-{step:06d}", checkpoints / name)
    for name in ("big", "small", "rnn", "base", "wider", "deeper", "mine"):
        shutil.copytree(root / "runs" / "my_run", root / "runs" / name)
    return root


def tiny(command: str) -> list[str]:
    """The words of a command, with the tiny settings if it trains; a study is checked, its rows are not trained."""
    words = shlex.split(command)
    if words[0] == "s2s-study":
        return [*words, "--dry-run"]
    if words[0] != "s2s-train" or "--help" in words:
        return words
    sizes = next((size for part, size in SIZES.items() if part in words), [])
    return [*words, *TINY, *_vocab(words, command), *sizes, "--quiet"]


def _vocab(words: list[str], command: str) -> list[str]:
    """As small as the corpora are, where the command names a corpus."""
    if "task.train" not in command or "vocab_size" in command:
        return []
    if any(
        word.startswith(("task=translation", "experiment=few_pairs", "experiment=wmt14", "experiment=table3"))
        for word in words
    ):
        return ["task.vocab_size=40"]
    if "task=parsing" in words:
        return ["task.src_vocab_size=60", *(["arch.share_embeddings=none"] if "arch=rnng_tiny" not in words else [])]
    return []


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_one_after_the_other(
    page: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    shutil.copytree(folder, here)
    monkeypatch.chdir(here)
    if page in WRITTEN:
        (here / WRITTEN[page]).unlink()
    for command in _of(page):
        _begin_anew(command)
        code = _in_this_process(command) if is_plain(command.text) else _in_a_shell(command)
        out, err = capfd.readouterr()
        assert code == 0, f"{command.text}\n{out[-500:]}\n{err[-2000:]}"


def _begin_anew(command: Command) -> None:
    """A page may show several ways to train, under one name."""
    words = command.text.split()
    if words[0] == "s2s-train" and "--dry-run" not in words:
        for run in (word.removeprefix("run=") for word in words if word.startswith("run=")):
            shutil.rmtree(Path("runs") / run, ignore_errors=True)


def _of(page: str) -> Iterator[Command]:
    return (command for command in commands() if command.page == page and not command.reason)


def _in_this_process(command: Command) -> int:
    name, *arguments = tiny(command.text)
    every: dict[str, Any] = {**COMMANDS, "s2s-report": report.main}
    return int(every[name](arguments))


def _in_a_shell(command: Command) -> int:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(["bash", "-c", command.text], env={**os.environ, "PATH": path}, check=False).returncode
