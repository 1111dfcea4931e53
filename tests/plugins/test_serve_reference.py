"""The pages' files and headers, the OpenAPI description, and the reference that is made of it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.small_server import Served, listening, served, tiny_server
from harness.tiny_runs import train_tiny
from s2s_serve.schemas import ErrorBody

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = ("/", "/docs")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("served")
    train_tiny(folder)
    return str(folder / "runs" / "x")


@pytest.fixture(scope="module")
def server(run: str) -> Iterator[Served]:
    with served(tiny_server(run)) as started:
        yield started


def get(server: Served, path: str) -> Any:
    return server.ask(lambda client: client.get(path))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_allows_no_inline_code_and_has_none(server: Served, path: str) -> None:
    page = get(server, path)
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.findall(r"<style|<script[^>]*>[^<]|\s(style|on\w+)=", page.text)


@pytest.mark.parametrize("path", PAGES)
def test_all_that_a_page_loads_is_on_the_server(server: Served, path: str) -> None:
    waiting, loaded = [path], {}
    while waiting:
        answer = get(server, name := waiting.pop())
        assert answer.status_code == 200, name
        loaded[name] = answer.headers["content-type"]
        html = re.findall(r'(?:src|href)="(page/[^"]+)"', answer.text)
        modules = re.findall(r'^import .* from "\./([^"]+)"', answer.text, re.MULTILINE)
        found = [f"/{each}" for each in html] + [f"/page/{each}" for each in modules]
        waiting += [each for each in found if each not in loaded]
    kinds = {name.rpartition(".")[2]: kind for name, kind in loaded.items()}
    assert kinds["js"].startswith("text/javascript")
    assert kinds["css"].startswith("text/css")
    assert "http" not in "".join(re.findall(r'(?:src|href)="([^d][^"]*)"', get(server, path).text))


def test_a_part_that_is_none_is_not_found(server: Served) -> None:
    for path in ("/page/other.js", "/page/..%2Fapp.py", "/page/"):
        assert get(server, path).status_code == 404


def test_a_page_is_not_counted_as_requests_of_a_client(run: str) -> None:
    with served(tiny_server(run, client_rate=1)) as limited:
        assert {get(limited, path).status_code for path in (*PAGES, "/page/main.js", "/page/style.css")} == {200}
        assert [get(limited, "/v1/runs").status_code for _ in range(2)] == [200, 429]


def test_runs_name_their_languages_and_documents_their_extensions(server: Served) -> None:
    served = get(server, "/v1/runs").json()
    assert served["runs"][0]["directions"] == [{"source": "en", "target": "de", "input_fields": {}}]
    assert served["documents"]["html"] == [".html", ".htm"]
    assert (served["max_chars"], served["max_document"]) == (20_000, 10_000_000)


def test_a_document_has_input_fields_that_the_task_checks(server: Served) -> None:
    def send(fields: str) -> Any:
        path = f"/v1/documents?format=text&input_fields={fields}"
        return server.ask(lambda client: client.post(path, content=b"the old dog\n"))

    assert send("{}").status_code == 200
    assert send("[]").json()["error"]["message"].startswith("input_fields: ")
    assert send('{"colour": "red"}').status_code == 422


def test_every_body_and_every_error_is_described(server: Served) -> None:
    routes = get(server, "/openapi.json").json()["paths"]
    for path, methods in routes.items():
        for method, route in methods.items():
            assert (method == "post") == ("requestBody" in route), path
            assert ("default" in route["responses"]) == ("tags" not in route or "server" not in route["tags"]), path
    refused = server.ask(lambda client: client.post("/v1/generate", json={"text": 1})).json()
    assert ErrorBody(**refused).error.code == "invalid"


def test_a_key_is_described_where_there_is_one(run: str, server: Served, tmp_path: Any) -> None:
    (tmp_path / "keys").write_text("secret\n")
    with served(tiny_server(run, key_file=str(tmp_path / "keys"))) as locked:
        api = get(locked, "/openapi.json").json()
    assert api["paths"]["/v1/generate"]["post"]["security"] == [{"HTTPBearer": []}]
    assert "securitySchemes" not in get(server, "/openapi.json").json()["components"]


@pytest.fixture(scope="module")
def address(run: str) -> Iterator[str]:
    with listening(tiny_server(run)) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["desk", "phone"])
def test_the_reference_shows_every_route_and_sends_its_examples(address: str, server: Served, kind: str) -> None:
    from harness.browser import CHROMIUM, fits, launched, opened

    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with launched() as browser, opened(browser, f"{address}docs", kind) as page:
        page.get_by_role("navigation").get_by_text("/v1/generate").click()
        routes = get(server, "/openapi.json").json()["paths"]
        shown = page.get_by_role("article").evaluate_all("all => all.map(e => e.querySelector('h3').textContent)")
        assert set(shown) == {f"{method.upper()} {path}" for path, route in routes.items() for method in route}
        assert fits(page)

        states = {}
        for button in page.get_by_role("button").all():
            button.click()
            state = button.locator("xpath=..").get_by_role("status")
            state.get_by_text(re.compile(r"^\d{3}")).wait_for()
            states[button.get_attribute("aria-label")] = state.inner_text()
        refused = {name for name, state in states.items() if not state.startswith("200 in ")}
        assert refused == {"Send POST /v1/parse"}, "the run is no parser; all others have an example that works"
        answer = page.locator("#post-v1-generate").get_by_label("Answer").inner_text()
        assert json.loads(answer) == server.post("/v1/generate", {"text": "The old cat sees a dog."}).json()
