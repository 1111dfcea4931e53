"""Corpora that options name: registered ones, a stranger's among them, in every shipped task."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.folders import HARNESS
from harness.rhyming_corpus import WORDS
from harness.tiny_runs import SMALL, call
from s2s.compose import entry_config
from s2s.config.data import DataConfig
from s2s.data.preparation_spec import PreparationSpec
from s2s.errors import ConfigError, DataError, PluginError
from s2s.plugin import load_plugins
from s2s.task import Example, Rejected
from s2s_testing import check_task

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.task import Task

RHYMING = str(HARNESS / "rhyming_corpus.py")


def task_of(name: str, **options: Any) -> Task:
    registry = load_plugins([RHYMING]).registry
    entry = registry.get("task", name)
    return entry.build(entry_config(entry, {"name": name, **options}, "task"))


def expected(n: int, split: str = "train") -> list[Example]:
    pairs = [(WORDS[i % 6], WORDS[(i // 6 + len(split)) % 6]) for i in range(n)]
    return [Example(f"{a} {b}", f"{b} {a}") for a, b in pairs]


def test_a_task_reads_a_stranger_s_corpus_beside_files(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\teins\n")
    mixed = {"own": {"corpus": "rhyming", "n": 9, "weight": 2}, "files": {"files": str(tmp_path / "a.tsv")}}
    task = task_of("translation", train=[{**mixed["own"], "name": "own"}, mixed["files"]], valid={"corpus": "rhyming"})
    assert task.corpora("train") == [("own", 2.0), ("a", 1.0)]
    assert task.corpora("valid") == [("rhyming", 1.0)]
    assert list(task.examples("train", "own")) == [Rejected("no rhyme"), *expected(9)]
    assert list(task.examples("valid", "rhyming"))[1:] == expected(40, "valid")
    assert list(task.examples("train", "a")) == [Example("one", "eins")]
    assert task.dependencies().files == [tmp_path / "a.tsv"]
    assert list(task.describe()) == ["train own: 9 rhymes", "valid rhyming: 40 rhymes"]


def test_a_corpus_keeps_the_task_s_contract(tmp_path: Path) -> None:
    registry = load_plugins([RHYMING]).registry
    entry = registry.get("task", "translation")
    options = {"name": "translation", "train": {"corpus": "rhyming"}, "vocab_size": 20}
    check_task(entry, entry_config(entry, options, "task"), tmp_path)


def test_what_is_prepared_depends_on_the_corpus_and_its_settings() -> None:
    trains: list[Any] = [
        {"corpus": "rhyming"},
        {"corpus": "rhyming", "n": 9},
        {"corpus": "rhyming", "n": 9, "name": "other"},
        {"corpus": "synthetic"},
        {"corpus": "synthetic", "pairs": 9},
        {"corpus": "synthetic", "seed": 9},
    ]
    settings = [json.dumps(task_of("translation", train=train).dependencies().settings) for train in trains]
    assert len(set(settings)) == len(trains)
    heavier = task_of("translation", train={"corpus": "rhyming", "weight": 2}).dependencies().settings
    assert json.dumps(heavier) == settings[0], "a weight changes no prepared file"


COLUMNS = """
from dataclasses import dataclass
import s2s

@dataclass(kw_only=True)
class ColumnsConfig(s2s.Choice):
    column: int = 1
    invalid: str = "error"

class Columns(s2s.Corpus):
    def __init__(self, config):
        self.column = config.column

    def examples(self, split):
        yield s2s.Example("a", "bcd"[self.column])

@s2s.hookimpl
def s2s_register(registry):
    registry.corpus("columns", ColumnsConfig, Columns)
"""


def test_what_is_prepared_depends_on_all_options_of_a_corpus_without_settings(tmp_path: Path) -> None:
    (tmp_path / "columns.py").write_text(COLUMNS)
    entry = load_plugins([str(tmp_path / "columns.py")]).registry.get("task", "translation")

    def prepared(options: dict[str, Any], **shared: Any) -> Path:
        config = entry_config(entry, {"train": {"corpus": "columns", **options}, **shared}, "task")
        return PreparationSpec(entry.build(config), DataConfig()).directory

    directories = [prepared({}), prepared({"column": 0}), prepared({"column": 2}), prepared({}, invalid="drop")]
    assert len(set(directories)) == len(directories)
    assert prepared({"column": 2, "weight": 3}) == directories[2]
    assert prepared({"column": 2, "fields": {"language": "de"}}) not in directories


def test_common_fields_are_those_that_an_example_does_not_bring(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"src": "one", "tgt": "eins", "language": "de", "id": 3}\n'
        '{"src": "two", "tgt": "twee"}\n{"src": "", "tgt": "x"}\n'
    )
    files = {"files": str(tmp_path / "a.jsonl"), "fields": {"language": "nl", "domain": "numbers"}}
    one, two, empty = task_of("translation", train={"a": files}).examples("train", "a")
    assert one == Example("one", "eins", {"language": "de", "domain": "numbers", "id": 3})
    assert two == Example("two", "twee", {"language": "nl", "domain": "numbers"})
    assert isinstance(empty, Rejected)
    with pytest.raises(ConfigError, match=r"task.train.a.fields='de' must be a mapping, such as {language: de}"):
        task_of("translation", train={"a": {**files, "fields": "de"}}).corpora("train")


def test_a_corpus_is_prepared_again_when_its_version_changes(tmp_path: Path) -> None:
    remote = COLUMNS.replace(
        "    def examples", "    def version(self, split):\n        return os.environ['REVISION']\n\n    def examples"
    )
    (tmp_path / "columns.py").write_text(f"import os\n{remote}")
    entry = load_plugins([str(tmp_path / "columns.py")]).registry.get("task", "translation")

    def prepared(revision: str) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REVISION", revision)
            config = entry_config(entry, {"train": {"corpus": "columns"}}, "task")
            return PreparationSpec(entry.build(config), DataConfig()).directory

    assert prepared("a1") == prepared("a1") != prepared("b2")
    assert prepared("") not in (prepared("a1"), prepared("b2"))


@pytest.mark.parametrize(
    "corpus", ["xy", ("x",), ("x", 0), ("x", -1.0), ("x", math.nan), ("x", math.inf), ("x", "2"), (1, 2)], ids=str
)
def test_a_task_names_its_corpora_with_positive_weights(corpus: Any) -> None:
    task: Any = SimpleNamespace(corpora=lambda split: [("a", 1), corpus] if split == "train" else [])
    with pytest.raises(PluginError) as caught:
        _ = PreparationSpec(task, DataConfig()).corpora
    expected = "expected pairs of a name and a positive weight, got"
    assert str(caught.value) == f"SimpleNamespace.corpora('train'): {expected} {corpus!r}"


@pytest.mark.parametrize(
    ("train", "other"),
    [
        (["{0}/c.en", "{0}/c.de"], ["{0}/c.de", "{0}/c.en"]),
        ({"x": "{0}/a.tsv", "y": "{0}/b.tsv"}, {"x": "{0}/b.tsv", "y": "{0}/a.tsv"}),
    ],
)
def test_what_is_prepared_depends_on_which_file_is_which(tmp_path: Path, train: Any, other: Any) -> None:
    """Else the second direction of a corpus would be trained on the first."""

    def prepared(given: Any) -> Path:
        named = json.loads(json.dumps(given).replace("{0}", str(tmp_path)))
        task = task_of(
            "translation", train=named, valid=[str(tmp_path / "c.en"), str(tmp_path / "c.de")], vocab_size=20
        )
        return PreparationSpec(task, DataConfig()).directory

    for name, text in (("c.en", "one\n"), ("c.de", "eins\n"), ("a.tsv", "two\tzwei\n"), ("b.tsv", "three\tdrei\n")):
        (tmp_path / name).write_text(text)
    assert prepared(train) == prepared(train)
    assert prepared(train) != prepared(other)


def test_what_is_prepared_depends_on_which_corpus_a_file_belongs_to(tmp_path: Path) -> None:
    """Here the names of the corpora and the order of all files are the same."""
    a, b, c = (tmp_path / f"{name}.mrg" for name in "abc")
    for path in (a, b, c):
        path.write_text("(TOP (S (NN one)))\n")
    divisions: list[Any] = [
        {"gold": {"files": [str(a), str(b)]}, "silver": {"files": [str(c)]}},
        {"gold": {"files": [str(a)]}, "silver": {"files": [str(b), str(c)]}},
    ]
    one, two = (PreparationSpec(task_of("parsing", train=train), DataConfig()).directory for train in divisions)
    assert one != two


def test_the_synthetic_corpus_is_the_default_under_its_own_name() -> None:
    default = task_of("translation", pairs=30)
    named = task_of("translation", train={"corpus": "synthetic", "pairs": 30})
    assert default.corpora("train") == named.corpora("train") == [("synthetic", 1.0)]
    assert list(default.examples("train", "synthetic")) == list(named.examples("train", "synthetic"))


def test_a_parser_takes_the_trees_of_any_corpus_and_cleans_them() -> None:
    task = task_of("parsing", train={"corpus": "rhyming", "trees": True, "n": 2})
    rejected, first, _ = task.examples("train", "rhyming")
    assert (rejected, first) == (Rejected("no rhyme"), Example("cat sat", "(TOP (NP (NN cat) (NN sat)))"))
    assert "train rhyming: 2 function tags removed" in list(task.describe())


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        ("(TOP (NP (NN {0})", "rhyming, tree 2: 2 brackets are not closed"),
        ("(NN {0}) (NN {1})", "rhyming, tree 2: 2 trees on a line, expected one"),
        ("", "rhyming, tree 2: 0 trees on a line, expected one"),
    ],
)
def test_a_tree_that_cannot_be_read_is_named_or_dropped(tree: str, complaint: str) -> None:
    train = {"corpus": "rhyming", "trees": True, "tree": tree, "n": 1}
    with pytest.raises(DataError, match=complaint):
        list(task_of("parsing", train=train).examples("train", "rhyming"))
    found = list(task_of("parsing", train=train, invalid="drop").examples("train", "rhyming"))
    assert found == [Rejected("no rhyme"), Rejected("malformed tree")]


def test_the_treebank_corpus_gives_trees_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text("( (S (NP-SBJ (NN cat)) (VP (VBZ is) (NP (-NONE- *)))) )\n")
    registry = load_plugins().registry
    entry = registry.get("corpus", "treebank")
    corpus = entry.build(entry_config(entry, {"files": [str(tmp_path / "a.mrg")]}, "corpus"))
    assert list(corpus.examples("train")) == [Example("", "(TOP (S (NP-SBJ (NN cat)) (VP (VBZ is) (NP (-NONE- *)))))")]


@pytest.mark.parametrize(
    ("train", "error", "complaint"),
    [
        ({"corpus": "rhymes"}, ConfigError, r"^task.train: corpus=rhymes: no such corpus. Did you mean 'rhyming'"),
        ({"corpus": 3}, ConfigError, r"^task.train.corpus=3 must be the name of a registered corpus"),
        (
            {"a": {"corpus": "rhyming", "wieght": 2}},
            ConfigError,
            r"^task.train.a: no option 'wieght'. Did you mean 'we",
        ),
        ([{"files": ["a", "b"], "wieght": 2}], ConfigError, r"^task.train\[0\]: no option 'wieght'. Did you mean 'we"),
        ({"corpus": "rhyming", "n": "few"}, ConfigError, r"^task.train.n=few"),
        ({"corpus": "rhyming", "weight": 0}, ConfigError, r"^task.train.weight=0 must be a number from"),
        ({"corpus": "synthetic", "pairs": 0}, ConfigError, r"^task.train: pairs=0 must be at least 1"),
    ],
    ids=str,
)
def test_a_mistake_names_the_option(train: Any, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        task_of("translation", train=train).corpora("train")


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_weight_that_would_change_nothing_is_refused(split: str) -> None:
    given = {"train": ["a", "b"], split: {"x": {"files": ["a", "b"], "weight": 1}, "y": {"files": ["c", "d"]}}}
    assert task_of("translation", **given).corpora(split) == [("x", 1.0), ("y", 1.0)]
    given[split]["x"]["weight"] = 3  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=rf"^task\.{split}\.x\.weight=3: only training corpora have weights"):
        task_of("translation", **given).corpora(split)


def test_a_language_model_reads_a_corpus(tmp_path: Path) -> None:
    task = task_of("language_model", train={"corpus": "rhyming", "n": 2}, tokenizer=str(tmp_path))
    assert list(task.examples("train", "rhyming")) == [Rejected("no rhyme"), *expected(2)]


def test_a_run_trains_on_a_stranger_s_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prepared once, found again, and prepared anew with other settings."""
    monkeypatch.chdir(tmp_path)
    prepare = [f"plugins=[{RHYMING}]", "task=translation", "task.vocab_size=20"]
    for n, how in ((40, "made"), (40, "found"), (50, "made")):
        code, out, err = call("s2s-prepare", [*prepare, f"task.train={{corpus: rhyming, n: {n}}}"], capsys)
        assert code == 0, err
        assert f"{how} in " in out
        assert f"train rhyming: {n + 1} pairs read, {n} kept, 1 dropped (1 no rhyme)" in out
    options = [option for option in SMALL if not option.startswith("task")]
    train = [*prepare, *options, "task.train={corpus: rhyming, n: 50}", "train.steps=2", "run=x", "--quiet"]
    code, _, err = call("s2s-train", train, capsys)
    assert code == 0, err
