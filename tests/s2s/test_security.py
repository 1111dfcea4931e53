"""What an untrusted file, run or corpus may do to whoever opens it: nothing. The rows are in docs/reliability.md."""

from __future__ import annotations

import ast
import gzip
import json
import re
import time
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.folders import ROOT
from harness.small_runs import CPU, PLUGIN, letters_config, letters_plugins, make_run
from s2s.compose import compose
from s2s.config import Config
from s2s.data.text import read_lines
from s2s.distributed import World
from s2s.errors import CheckpointError, DataError, S2SError, UserError
from s2s.run import Run, run_path
from s2s.run.directory import RunDirectory

if TYPE_CHECKING:
    from s2s.plugin import Plugins

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SOURCES = sorted(path for folder in ("s2s", "plugins", "tasks") for path in (ROOT / folder).rglob("*.py"))
NETWORK = {"urllib", "http", "ftplib", "requests", "httpx", "aiohttp", "huggingface_hub", "datasets"}
ARCHIVES = {"zipfile", "tarfile"}
FETCHING = {
    "plugins/data/s2s_named_corpora/transport.py",
    "s2s/run/hub.py",
}
"""What fetches: corpora and models that a user has named, by their hashes or at a commit, over https; its tests have
servers that lie"""
IN_MEMORY = {
    "tarfile": {
        "plugins/data/s2s_named_corpora/archives.py",
        "plugins/data/s2s_text_corpora/shards.py",
    },
    "zipfile": {
        "plugins/data/s2s_named_corpora/archives.py",
        "plugins/data/s2s_documents/archive_formats.py",
        "plugins/data/s2s_text_corpora/spreadsheet.py",
        "plugins/applications/s2s_pcfg/grammar_file.py",
        "plugins/architectures/s2s_transformer/fairseq_files.py",
        "plugins/architectures/s2s_transformer/marian_files.py",
        "s2s/foreign/tensor_files.py",
    },
}
"""What reads archives without writing members where their names say; its tests have hostile ones"""
NLTK = {"nltk", "nltk.Tree", "nltk.tokenize.NLTKWordTokenizer", "nltk.tree.prettyprinter.TreePrettyPrinter"}


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    """Runs lie under the working directory."""
    monkeypatch.chdir(tmp_path)
    return letters_plugins()


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Names that our files import, wherever in them -> the files."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                names = [str(name.value) for name in node.args[:1] if isinstance(name, ast.Constant)]
            else:
                continue
            for name in names:
                found[name].add(str(path.relative_to(ROOT)))
    return found


def of(imported: dict[str, set[str]], packages: set[str]) -> dict[str, set[str]]:
    """What is imported of these packages; urllib.parse takes strings apart and reaches nothing."""
    found = {name: files for name, files in imported.items() if name.split(".")[0] in packages}
    return {name: files for name, files in found.items() if not name.startswith("urllib.parse")}


def test_what_reads_strangers_files_is_new_enough_to_be_safe() -> None:
    """torch before 2.10 could be made to overwrite memory, omegaconf before 2.4 to compute for minutes."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = (one.partition(",")[0].split(">=") for one in needed)
    least = {name: tuple(map(int, version.split("."))) for name, version in bounds}
    assert least["torch"] >= (2, 10)
    assert least["omegaconf"] >= (2, 4)
    assert least["nltk"] >= (3, 9)


def test_few_modules_fetch_anything_or_open_archives(imported: dict[str, set[str]]) -> None:
    assert set().union(*of(imported, NETWORK).values()) == FETCHING
    assert of(imported, ARCHIVES) == IN_MEMORY
    assert not [path for path in SOURCES if "unpack_archive" in path.read_text(encoding="utf-8")]


def test_of_nltk_only_trees_and_a_tokeniser_of_rules_are_used(imported: dict[str, set[str]]) -> None:
    """Its models are pickles, and its downloads come from anywhere."""
    assert of(imported, {"nltk"}).keys() <= NLTK
    used = [re.findall(r"\bnltk\.(\w+)\(", path.read_text(encoding="utf-8")) for path in SOURCES]
    assert {name for names in used for name in names} <= {"Tree"}


BOMBS = {
    "anchors": "a: &a [x, x]\n" + "".join(f"b{i}: &b{i} [*{'a' if i == 0 else f'b{i - 1}'}, *a]\n" for i in range(60)),
    "merge": "base: &x {run: y}\ntrain:\n  <<: *x\n",
    "depth": "run: " + "[" * 100_000,
    "mappings": "{a: " * 50_000,
    "tag": "run: !!python/object/apply:os.system ['touch evil']",
    "number": "seed: " + "9" * 100_000,
    "keys": "".join(f"k{i}: 1\n" for i in range(4_000)),
    "references": "run: ${task.name}" + "${run}" * 1000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_file_that_would_grow_or_run_is_refused_at_once(text: str, plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "bomb.yaml").write_text(text)
    began = time.process_time()
    with pytest.raises(UserError):
        compose(Config, ["task=letters", "arch=tiny", str(tmp_path / "bomb.yaml")], plugins)
    assert time.process_time() - began < 5
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_run_whose_configuration_would_grow_or_run_is_refused_at_once(text: str, plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    resolved = run_path("x") / "resolved.yaml"
    resolved.write_text(text)
    began = time.process_time()
    with pytest.raises(CheckpointError):
        Run.load(run_path("x"), "auto", plugins, CPU)
    assert time.process_time() - began < 5
    assert not Path("evil").exists()


SECRET = "hunter2-of-the-environment"


def test_a_run_remembers_nothing_of_the_environment(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S2S_TEST_TOKEN", SECRET)
    make_run(run_path("x"), plugins, [1])
    for file in (path for path in Path("runs").rglob("*") if path.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    "value", ["${oc.env:S2S_TEST_TOKEN}", "${oc.env:S2S_TEST_TOKEN,x}", "a${oc.env:S2S_TEST_TOKEN}"]
)
def test_no_configuration_reads_the_environment(value: str, plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S2S_TEST_TOKEN", SECRET)
    with pytest.raises(UserError, match="resolvers are not allowed") as caught:
        letters_config(plugins, f"run={value}")
    assert SECRET not in str(caught.value)
    make_run(run_path("x"), plugins, [1])
    resolved = run_path("x") / "resolved.yaml"
    kept = [line for line in resolved.read_text().splitlines() if not line.startswith("run:")]
    resolved.write_text("\n".join([*kept, f"run: {value}"]))
    with pytest.raises(CheckpointError) as refused:
        Run.load(run_path("x"), "auto", plugins, CPU)
    assert SECRET not in str(refused.value)


def test_the_plugins_of_a_run_are_written_down_with_a_hash_of_their_code(plugins: Plugins) -> None:
    make_run(run_path("x"), plugins, [1])
    recorded = json.loads((run_path("x") / "env.json").read_text())["plugins"]
    assert PLUGIN in recorded
    assert all(len(plugin["sha256"]) == 64 for plugin in recorded.values())


def test_a_link_in_a_run_leads_to_no_file_elsewhere(plugins: Plugins, tmp_path: Path) -> None:
    """Starting in a stranger's run writes where its files are, and not through links that it brings."""
    make_run(run_path("x"), plugins, [1])
    victim = tmp_path / "victim"
    victim.write_text("dear")
    for name in ("status.json", "env.json", "resolved.yaml", "config.yaml"):
        (run_path("x") / name).unlink(missing_ok=True)
        (run_path("x") / name).symlink_to(victim)
    with pytest.raises(S2SError), RunDirectory(run_path("x")) as run:
        run.begin(letters_config(plugins), plugins, World())
    assert victim.read_text() == "dear"


def test_a_small_file_that_unpacks_to_a_huge_line_is_no_text(tmp_path: Path) -> None:
    """100 KB that become 100 MB, or 10 GB: reading ends with what a line may have."""
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb") as file:
        for _ in range(100):
            file.write(b"a" * (1 << 20))
    assert bomb.stat().st_size < 200_000
    with pytest.raises(DataError, match=r"bomb\.gz:1: a line of more than 1,048,576 bytes"):
        list(read_lines(bomb))
