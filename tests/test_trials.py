"""What newcomers ask for first: plugins of the documentation, short, by public names, all the way to a request."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import s2s
from harness.folders import ROOT
from s2s.cli import generate
from s2s.cli.train import main as train
from s2s.compose import compose
from s2s.config.data import PrepareConfig
from s2s.errors import ConfigError, DataError
from s2s.plugin import load_plugins
from s2s_testing import check_task

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

PAGE = "".join((ROOT / "docs" / "plugins" / name).read_text(encoding="utf-8") for name in ("tasks.md", "corpora.md"))
FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
SMALL = ["arch=transformer_tiny", "arch.d_model=32", "arch.n_heads=2", "arch.dropout=0", "log.tensorboard=false"]
STEPS = ["schedule=constant", "schedule.lr=5e-3", "schedule.warmup=1", "train.tokens=1000", "valid.every=60"]
LANGUAGES = {"de": "ja", "fr": "oui"}
"""What every source is translated to"""


def statements(code: str) -> int:
    """Lines that are no docstring, comment or import."""
    tree = ast.parse(code)
    docs = {n.lineno for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    lines = [line for number, line in enumerate(code.splitlines(), 1) if number not in docs]
    return sum(1 for line in lines if line.strip() and not line.lstrip().startswith(("#", "import", "from")))


@pytest.mark.parametrize(("name", "longest"), [("tagged.py", 15), ("parquet.py", 20)])
def test_a_plugin_is_short_and_imports_public_names_only(name: str, longest: int) -> None:
    assert statements(FILES[name]) <= longest
    for node in ast.walk(ast.parse(FILES[name])):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("s2s"):
            assert node.module in s2s.PUBLIC
    assert "environ" not in FILES[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory, with a run of the task with tags."""
    here = tmp_path_factory.mktemp("trials")
    for name in ("tagged.py", "parquet.py"):
        (here / name).write_text(FILES[name], encoding="utf-8")
    sources = [f"{a} {b}" for a in "abcde" for b in "abcde"]
    rows = [{"src": src, "tgt": tgt, "language": code} for src in sources for code, tgt in LANGUAGES.items()]
    (here / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        languages = ["task.src_lang=en", "task.languages=[de,fr]"]
        task = ["task=tagged", *languages, "task.train=pairs.jsonl", "task.valid=pairs.jsonl"]
        tokens = ["task.subword=characters", "task.vocab_size=40"]
        arguments = ["plugins=[tagged]", *task, *tokens, *SMALL, *STEPS, "train.steps=60", "run=many", "--quiet"]
        assert train(arguments) == 0
        yield here


def generated(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str) -> list[str]:
    assert generate.main(["plugins=[tagged]", "run=many", "threads=1", "--quiet", *arguments]) == 0
    return capsysbinary.readouterr().out.decode().splitlines()


def test_a_tag_is_one_token_before_the_source(folder: Path) -> None:
    model = s2s.load("many", "plugins=[tagged]", device="cpu")
    tags = [model.task.src.id_of(f"<2{code}>") for code in LANGUAGES]
    examples = [s2s.Example("a b", fields={"language": code}) for code in LANGUAGES]
    (one, other) = model.task.encode_inputs(examples)
    assert [one[0], other[0]] == tags
    assert one[1:] == other[1:] == model.task.encode_source(["a b"])[0]
    assert not set(tags) & set(one[1:])


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_command_names_the_language(folder: Path, capsysbinary: pytest.CaptureFixture[bytes], code: str) -> None:
    (folder / "in.txt").write_text("a b\nc d\n")
    assert generated(capsysbinary, "input=in.txt", f"input_fields.language={code}") == [LANGUAGES[code]] * 2
    (folder / "in.jsonl").write_text(json.dumps({"src": "a b", "language": code, "id": 7}) + "\n")
    (line,) = generated(capsysbinary, "input=in.jsonl", "format=jsonl", "input_fields.language=de")
    assert json.loads(line) | {"score": 0} == {
        "src": "a b",
        "language": code,
        "id": 7,
        "hyp": LANGUAGES[code],
        "score": 0,
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "language is missing: task=tagged reads it of every input"),
        (["input_fields.langauge=de"], "reads no such field of an input. Did you mean 'language'?"),
        (["input_fields.language=it"], "<2it>: task=tagged has no such mark"),
        (["input_fields.language=3"], "language=3: expected str"),
    ],
    ids=str,
)
def test_a_command_that_names_it_wrongly_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    (folder / "in.txt").write_text("a b\n")
    assert generate.main(["plugins=[tagged]", "run=many", "input=in.txt", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_a_program_names_the_language(folder: Path) -> None:
    model = s2s.load("many", "plugins=[tagged]", device="cpu")
    mixed = [{"src": "a b", "language": "fr"}, {"src": "a b", "language": "de"}]
    assert model.translate(mixed) == ["oui", "ja"]
    assert model.translate(mixed[0]) == "oui"
    assert model.translate("c d", input_fields={"language": "fr"}) == "oui"
    right, wrong = (model.score({"src": "a b", "language": code}, "ja").log_prob for code in ("de", "fr"))
    assert right > wrong
    assert model.attention(mixed[0], "oui").src[0] == "<2fr>"
    with pytest.raises(DataError, match="langauge: task=tagged reads no such field"):
        model.translate([{"src": "a b", "langauge": "fr"}])


def talk_to_server(folder: Path, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """What `work` gives of a client of a server of the run."""
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    pytest.importorskip("httpx", reason="the extra `dev` is not installed")
    from harness.small_server import client_of
    from s2s_serve import ServeConfig
    from s2s_serve.server import load_server

    async def talk() -> Any:
        config = ServeConfig(run={"many": str(folder / "runs" / "many")}, jobs=str(folder / "jobs"))
        async with client_of(load_server(config, load_plugins(["tagged.py"]))) as client:
            return await work(client)

    return asyncio.run(talk())


def test_a_client_of_libretranslate_names_the_language_by_its_target(folder: Path) -> None:
    async def ask(client: Any) -> list[Any]:
        body = {"q": "a b", "source": "en"}
        answers = [await client.post("/translate", json=body | {"target": code}) for code in (*LANGUAGES, "it")]
        return [answer.json() for answer in [await client.get("/languages"), *answers]]

    served, *translations, refused = talk_to_server(folder, ask)
    assert served == [{"code": "en", "name": "English", "targets": ["de", "fr"]}]
    assert translations == [{"translatedText": text} for text in LANGUAGES.values()]
    assert refused == {"error": "it (Italian) is not available as a target language from en"}


def test_a_job_names_the_language_of_all_its_lines(folder: Path) -> None:
    async def ask(client: Any) -> list[Any]:
        given = ['{"language": "fr"}', "{}", '{"language": "it"}', "[", "[1]"]
        answers = [await client.post("/v1/jobs", params={"input_fields": f}, content=b"a b\nc d\n") for f in given]
        path = f"/v1/jobs/{answers[0].json()['id']}"
        while (await client.get(path)).json()["state"] != "done":
            await asyncio.sleep(0.01)
        return [(await client.get(f"{path}/output")).text, *(answer.text for answer in answers[1:])]

    output, missing, unknown, no_json, no_object = talk_to_server(folder, ask)
    assert output == "oui\noui\n"
    assert "language is missing: task=tagged reads it of every input" in missing
    assert "<2it>: task=tagged has no such mark" in unknown
    assert "input_fields: Expecting value" in no_json
    assert "input_fields: Input should be a valid dictionary" in no_object
    assert [path.is_dir() for path in (folder / "jobs").iterdir()].count(True) == 1, (
        "of what is refused, nothing is kept"
    )


def test_a_request_to_the_server_names_the_language(folder: Path) -> None:
    async def ask(client: Any) -> list[Any]:
        bodies = [{"text": "a b", "input_fields": {"language": code}} for code in (*LANGUAGES, "it")]
        answers = [await client.post("/v1/generate", json=body) for body in bodies]
        pairs = [{"src": "a b", "tgt": "ja"}]
        bodies = [{"pairs": pairs, "input_fields": {"language": code}} for code in LANGUAGES]
        return [*answers, *[await client.post("/v1/score", json=body) for body in bodies]]

    de, fr, it, *scores = talk_to_server(folder, ask)
    assert [answer.json()["results"][0]["hyp"] for answer in (de, fr)] == ["ja", "oui"]
    assert it.status_code == 422
    assert "<2it>: task=tagged has no such mark" in it.text
    likely, unlikely = (answer.json()["scores"][0]["log_prob"] for answer in scores)
    assert likely > unlikely


def test_the_columns_of_a_parquet_file_are_fields(folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    import pyarrow

    columns = {"en": ["a b", "c d", None], "out": ["ja", "oui", "ja"], "language": ["de", "fr", "de"], "id": [1, 2, 3]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    corpus = f"{{corpus: parquet, file: {tmp_path}/a.parquet, src: en, tgt: out}}"
    plugins = load_plugins(["tagged.py", "parquet.py"])
    options = ["task=tagged", "task.languages=[de,fr]", "task.subword=characters", f"task.train={corpus}"]
    config = compose(PrepareConfig, options, plugins).config.task
    task = plugins.registry.get("task", "tagged").build(config)
    (name, _), *_ = task.corpora("train")
    assert list(task.examples("train", name)) == [
        s2s.Example("a b", "ja", {"language": "de", "id": 1}),
        s2s.Example("c d", "oui", {"language": "fr", "id": 2}),
        s2s.Rejected("empty column"),
    ]
    assert task.dependencies().files == [tmp_path / "a.parquet"]
    task.learn(tmp_path)
    assert [pair.src[0] for pair in task.encode(list(task.usable()))] == [4, 5]


def test_a_run_holds_the_tokenizer_json_that_it_was_trained_with(
    folder: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A file of the package tokenizers, with its ids, in a run that then moves without it."""
    tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    built = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="[UNK]"))
    built.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = ["</s>", "<s>", "[UNK]", "[PAD]"]
    trainer = tokenizers.trainers.WordLevelTrainer(special_tokens=special, show_progress=False)
    built.train_from_iterator(["a b c d e", "ja oui"], trainer)
    built.save("tokenizer.json")
    arguments = ["task=translation", "task.train=pairs.jsonl", "task.subword={name: hf, file: tokenizer.json}"]
    assert train([*arguments, *SMALL, *STEPS, "train.steps=2", "run=words", "--quiet"]) == 0
    (folder / "tokenizer.json").unlink()
    (folder / "runs" / "words").rename(folder / "moved")
    (folder / "in.txt").write_text("a b\n")
    assert generate.main(["run=moved", "input=in.txt", "threads=1", "format=jsonl", "fields=[tokens]", "--quiet"]) == 0
    tokens = json.loads(capsysbinary.readouterr().out)["tokens"]
    model = s2s.load("moved", device="cpu")
    vocab = model.task.vocab
    assert (vocab.pad, vocab.unk, vocab.bos, vocab.eos) == (3, 2, 1, 0)
    assert model.task.encode_source(["a b zzz"]) == [[built.token_to_id("a"), built.token_to_id("b"), 2]]
    assert not {vocab.pad, vocab.bos, vocab.eos} & set(tokens)


def test_a_multilingual_task_keeps_the_contract_of_a_task(folder: Path, tmp_path: Path) -> None:
    registry = load_plugins(["tagged.py"]).registry
    entry = registry.get("task", "tagged")
    config: Any = entry.config
    options = {"train": str(folder / "pairs.jsonl"), "languages": ["de", "fr"], "vocab_size": 30}
    check_task(entry, config(name="multilingual", **options), tmp_path)


@pytest.fixture
def styled(folder: Path, tmp_path: Path) -> Callable[..., Any]:
    """A multilingual task whose inputs also have a style, with a default, of one corpus of these rows."""

    @dataclass(kw_only=True)
    class Styled:
        language: str
        style: str = "plain"
        level: int = 1

        def __post_init__(self) -> None:
            if self.level > 3:
                raise ValueError(f"level={self.level} must be at most 3")

    def task(*rows: dict[str, Any], **common: Any) -> Any:
        registry = load_plugins(["tagged.py"]).registry
        entry: Any = registry.get("task", "tagged")
        text = "".join(json.dumps({"src": "a", "tgt": "ja", **row}) + "\n" for row in rows)
        (tmp_path / "rows.jsonl").write_text(text)
        corpus = {"files": str(tmp_path / "rows.jsonl"), "fields": {"language": "de", **common}}
        built = entry.build(entry.config(train={"x": corpus}, languages=["de"], subword="characters", vocab_size=30))
        built.fields, built.marks, built.symbols = Styled, ("<{style}>",), lambda: ["<plain>", "<polite>"]
        return built

    return task


def test_a_default_of_a_field_is_that_of_training_too(styled: Callable[..., Any], tmp_path: Path) -> None:
    task = styled({}, {"style": "polite", "id": 7})
    plain, polite = task.usable()
    assert plain.fields == {"language": "de", "style": "plain", "level": 1}
    assert polite.fields == {"language": "de", "style": "polite", "level": 1, "id": 7}
    task.learn(tmp_path)
    firsts = [task.src.pieces[pair.src[0]] for pair in task.encode([plain, polite])]
    assert firsts == ["<plain>", "<polite>"]


@pytest.mark.parametrize(
    ("row", "common", "error"),
    [
        ({"style": ["x"]}, {}, "train corpus x, example 1: style=.*expected str"),
        ({"level": "high"}, {}, "train corpus x, example 1: level=high: expected int"),
        ({"level": 4}, {}, "train corpus x, example 1: level=4 must be at most 3"),
        ({}, {"stile": "polite"}, r"train corpus x, fields: stile: task=.* reads no such field.*style"),
    ],
)
def test_a_bad_field_is_refused_in_training(
    row: dict[str, Any], common: dict[str, Any], error: str, styled: Callable[..., Any]
) -> None:
    task = styled(row, **common)
    with pytest.raises((DataError, ConfigError), match=error):
        list(task.examples("train", "x"))


def test_the_commands_of_the_page_work_as_typed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    page = (ROOT / "docs" / "plugins" / "tasks.md").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [shlex.split(line) for line in page.splitlines() if line.startswith("    s2s-")]
    for name in ("a.en", "a.de", "b.en", "b.fr"):
        (tmp_path / name).write_text("".join(f"{a} {b}\n" for a in "abcde" for b in "abcde"))
    (tmp_path / "tagged.py").write_text(FILES["tagged.py"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    small = ["task.subword=characters", "task.vocab_size=40", "train.steps=2", *SMALL, *STEPS, "--quiet"]
    assert commands[0][0] == "s2s-train"
    assert train([*commands[0][1:], *small, "train.steps=2"]) == 0
    assert commands[1][:2] == ["s2s-generate", "plugins=[./tagged.py]"]
    (tmp_path / "input.txt").write_text("a b\n")
    assert generate.main([*commands[1][1:-2], "input=input.txt", "threads=1", "--quiet"]) == 0
    assert capsysbinary.readouterr().out.endswith(b"\n")


def test_an_example_without_a_language_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tja\n")
    registry = load_plugins(["tagged.py"]).registry
    entry = registry.get("task", "tagged")
    config: Any = entry.config
    task = entry.build(config(train={"x": str(tmp_path / "a.tsv")}, languages=["de"]))
    with pytest.raises(DataError, match=r"train corpus x, example 1: no field 'language', which task=.* reads"):
        list(task.examples("train", "x"))
    given = {"x": {"files": str(tmp_path / "a.tsv"), "fields": {"language": "de"}}}
    task = entry.build(config(train=given, languages=["de"]))
    assert list(task.examples("train", "x")) == [s2s.Example("a", "ja", {"language": "de"})]
