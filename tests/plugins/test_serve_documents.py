"""Documents sent to a server: LibreTranslate's /translate_file and /download_file, and /v1/documents."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")
pytest.importorskip("python_multipart", reason="the extra `serve` is not installed")

from harness.documents import Tags
from harness.small_server import Served, served, tiny_server, train_run
from s2s.config import GenerateConfig
from s2s.generation.candidates import EMPTY_CANDIDATE, Candidate
from s2s.generation.context import InputFollower
from s2s.text import AnnotatedText, Block
from s2s_serve import documents
from s2s_serve.document_files import MAX_FILES, StoredFiles, translated_name
from s2s_serve.generating import TextOptions
from s2s_serve.refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx

PAGE = b"<!doctype html>\r\n<p>the <b>old dog</b> sees\n a cat<!-- x --></p><ul><li class=a>the cat<li>a dog</ul>\r\n"
LANGUAGES = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        run = train_run(tmp_path_factory.mktemp("served"))
        patch.chdir(Path(run).parents[1])  # where its training text is
        with served(tiny_server(run, max_document=10_000)) as started:
            yield started


def upload(server: Served, name: str, data: bytes, **fields: str) -> httpx.Response:
    files = {"file": (name, data)}
    return server.ask(lambda client: client.post("/translate_file", data={**LANGUAGES, **fields}, files=files))  # type: ignore[no-any-return]


def own(server: Served, data: bytes, **query: str) -> httpx.Response:
    return server.ask(lambda client: client.post("/v1/documents", params=query, content=data))  # type: ignore[no-any-return]


def test_a_file_is_translated_and_downloaded(server: Served) -> None:
    answer = upload(server, "eine Büchse.html", PAGE)
    assert answer.status_code == 200
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/")
    assert url.endswith(".eine_B%C3%BCchse_de.html")
    file = server.ask(lambda client: client.get(url))
    assert Tags(file.text).counts == Tags(PAGE.decode()).counts
    assert file.content == own(server, PAGE, format="html").content
    assert file.headers["content-type"].startswith("text/html")
    assert file.headers["content-disposition"] == "attachment; filename*=utf-8''eine_B%C3%BCchse_de.html"


def test_the_texts_are_those_of_translate(server: Served) -> None:
    page = b"<p>the <b>old</b> dog</p>\n<p>a cat</p>"
    query = {**LANGUAGES, "q": page.decode(), "format": "html"}
    assert own(server, page, format="html").text == server.post("/translate", query).json()["translatedText"]


def test_the_context_of_a_block_is_what_stands_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = {}

    async def outputs(_: object, text: str, options: TextOptions) -> list[Candidate]:
        contexts[text] = options.fields["context"]
        return [replace(EMPTY_CANDIDATE, hyp=text.upper())]

    async def in_text_thread(function: Callable[[], object]) -> object:
        return function()

    monkeypatch.setattr(documents, "text_outputs", outputs)
    generator = SimpleNamespace(follower=lambda: InputFollower(SimpleNamespace(context=2), GenerateConfig()))  # type: ignore[arg-type]
    document: Any = SimpleNamespace(
        blocks=[Block(AnnotatedText(text), "p") for text in "abcd"],
        render=lambda some: " ".join(one.text for one in some).encode(),
    )
    engine: Any = SimpleNamespace(generator=generator, in_text_thread=in_text_thread)
    assert asyncio.run(documents.document_outputs(engine, document, TextOptions())) == [b"A B C D"]
    assert contexts == {"a": [], "b": ["a"], "c": ["a", "b"], "d": ["b", "c"]}


def test_the_language_is_detected_on_request(server: Served) -> None:
    assert upload(server, "a.html", PAGE, source="auto").status_code == 200
    answer = upload(server, "a.html", b"<p>der alte Hund</p>", source="auto")
    url = answer.json()["translatedFileUrl"]
    assert server.ask(lambda client: client.get(url)).content == b"<p>der alte Hund</p>", "it is German already"


@pytest.mark.parametrize(
    ("name", "data", "fields", "status", "message"),
    [
        ("a.exe", b"x", {}, 400, "file format not supported"),
        ("a.html", PAGE, {"target": ""}, 400, "missing target parameter"),
        ("a.html", PAGE, {"source": ""}, 400, "missing source parameter"),
        ("a.html", PAGE, {"source": "xx"}, 400, "xx is not supported"),
        ("a.xml", b"<a>", {}, 400, "no well-formed XML"),
        ("a.docx", b"PK", {}, 400, "no docx document"),
        ("a.html", b"x" * 10_001, {}, 413, "longer than 10,000 bytes"),
        ("a.html", b"x" * 100_000, {}, 413, "longer than 75,536 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_files_are_refused(
    server: Served, name: str, data: bytes, fields: dict[str, str], status: int, message: str
) -> None:
    answer = upload(server, name, data, **fields)
    assert answer.status_code == status
    assert message in answer.text


def test_a_form_without_a_file_is_refused(server: Served) -> None:
    answers = [
        server.post("/translate_file", LANGUAGES),
        server.ask(lambda client: client.post("/translate_file", data=LANGUAGES, files={"other": b"x"})),
        server.ask(lambda client: client.get("/download_file/none.html")),
    ]
    assert [answer.status_code for answer in answers] == [400, 400, 404]
    assert all(isinstance(answer.json()["error"], str) for answer in answers)


def test_a_format_that_is_not_known_is_refused(server: Served) -> None:
    answer = own(server, PAGE, format="pdf")
    assert answer.status_code == 422
    assert "there are docx, epub, html" in answer.json()["error"]["message"]


def test_files_are_removed_after_a_time_and_the_oldest_first() -> None:
    clock = [0.0]
    files = StoredFiles(10, 100, lambda: clock[0])
    names = []
    for n in range(4):
        names.append(files.add("a.html", bytes(40)))
        clock[0] = n
    kept = [name for name in names if name in files.files]
    assert kept == names[2:], "of 100 bytes"
    assert files.get(names[3]) == bytes(40)
    clock[0] = 11.5
    with pytest.raises(RefusedError):
        files.get(names[2])
    clock[0] = 30
    for _ in range(MAX_FILES + 5):
        files.add("b", b"")
    assert len(files.files) == MAX_FILES


def test_a_translation_is_named_after_its_file() -> None:
    assert translated_name("a.b.html", "de") == "a.b_de.html"
    assert translated_name("page", "de") == "page_de"
    assert translated_name('a "b"\n;c.md', "de") == "a_b_c_de.md"
