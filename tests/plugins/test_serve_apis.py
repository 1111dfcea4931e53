"""APIs of the server are registered choices: those that s2s ships, and one of a plugin outside of it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.folders import ROOT
from harness.small_server import Served, served, train_run
from s2s import ConfigError, PluginError, load_plugins
from s2s_serve import ServeConfig
from s2s_serve.errors import Errors
from s2s_serve.server import load_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = (ROOT / "docs" / "plugins" / "apis.md").read_text(encoding="utf-8")
CHAT = {"model": "en-de", "messages": [{"role": "user", "content": "the old dog"}], "temperature": 0}

UNSUPPORTED = "give messages, the last with a text as content"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin that the documentation shows."""
    (code,) = re.findall(r"^```python\n# openai_api.py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) <= 60
    path = tmp_path_factory.mktemp("plugin") / "openai_api.py"
    path.write_text(code, encoding="utf-8")
    return path


def config(run: str, **options: Any) -> ServeConfig:
    return ServeConfig(**{"run": {"en-de": run}, **options})


@pytest.fixture(scope="module")
def server(run: str, plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The shipped APIs and the plugin's, with a key."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("secret\n")
    options = config(run, apis=["own", "libretranslate", "openai"], key_file=str(keys))
    with served(load_server(options, load_plugins([str(plugin)]))) as started:
        started.client.headers["authorization"] = "Bearer secret"
        yield started


@pytest.fixture(scope="module")
def libretranslate(run: str) -> Iterator[Served]:
    with served(load_server(config(run, apis=["libretranslate"]), load_plugins())) as started:
        yield started


def test_the_api_of_a_plugin_gives_the_outputs_of_the_own_api(server: Served) -> None:
    answer = server.post("/v1/chat/completions", CHAT | {"n": 3}).json()
    (result,) = server.post("/v1/generate", {"text": "the old dog", "nbest": 3}).json()["results"]
    assert [each["message"]["content"] for each in answer["choices"]] == [each["hyp"] for each in result["nbest"]]
    assert {each["finish_reason"] for each in answer["choices"]} == {"stop"}
    assert (answer["model"], answer["object"]) == ("en-de", "chat.completion")
    assert answer["id"].startswith("chatcmpl-")


def test_its_usage_is_counted_in_tokens_also_without_a_model_name(server: Served) -> None:
    answer = server.post("/v1/chat/completions", CHAT | {"model": ""}).json()
    (result,) = server.post("/v1/generate", {"text": "the old dog", "fields": ["tokens"]}).json()["results"]
    n_src = len(server.server.engines["en-de"].task.encode_source(["the old dog"])[0])
    n_tgt = len(result["sentences"][0]["tokens"])
    assert answer["usage"] == {"prompt_tokens": n_src, "completion_tokens": n_tgt, "total_tokens": n_src + n_tgt}
    assert answer["model"] == "en-de"


def test_its_stream_has_the_same_answer(server: Served) -> None:
    plain = server.post("/v1/chat/completions", CHAT).json()
    stream = server.post("/v1/chat/completions", CHAT | {"stream": True})
    assert stream.headers["content-type"].startswith("text/event-stream")
    first, last, rest = stream.text.split("\n\n")
    chunk = json.loads(first.removeprefix("data: "))
    assert (chunk["object"], last, rest) == ("chat.completion.chunk", "data: [DONE]", "")
    assert chunk["choices"][0]["delta"] == plain["choices"][0]["message"]


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"messages": []}, 400, UNSUPPORTED),
        ({"messages": [{"role": "user"}]}, 400, UNSUPPORTED),
        ({"messages": [{"content": [{"type": "text", "text": "the dog"}]}]}, 400, UNSUPPORTED),
        ({"n": 9}, 422, "nbest: 9 are more than the 4 that en-de gives"),
        ({"n": "x"}, 422, "n: Input should be a valid integer, unable to parse string as an integer"),
        ({"model": "gpt"}, 422, "run: no such run here; there are en-de"),
        ({"messages": [{"content": "a" * 30_000}]}, 413, "30,000 characters are more than the 20,000 allowed"),
    ],
    ids=["no-message", "no-content", "parts", "outputs", "type", "run", "length"],
)
def test_its_errors_have_its_form(server: Served, change: dict[str, Any], status: int, message: str) -> None:
    answer = server.post("/v1/chat/completions", CHAT | change)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (status, "invalid_request_error")
    assert error["message"].startswith(message)


def test_the_server_asks_for_a_key_where_an_api_does_not(server: Served) -> None:
    headers = {"authorization": "Bearer wrong"}
    answer = server.ask(lambda client: client.post("/v1/chat/completions", json=CHAT, headers=headers))
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "key")


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/v1/chat/none", {"type": "invalid_request_error", "code": "not_found"}),
        ("/v1/none", {"code": "not_found"}),
        ("/none", {"code": "not_found"}),
        ("/", {"code": "not_allowed"}),
        ("/translate/none", None),
    ],
)
def test_a_path_without_a_route_has_the_errors_of_its_api_or_of_the_first(
    server: Served, path: str, form: dict[str, str] | None
) -> None:
    error = server.post(path, {}).json()["error"]
    if form is None:  # LibreTranslate's errors are texts
        assert isinstance(error, str)
    else:
        assert {name: value for name, value in error.items() if name != "message"} == form


def test_the_error_of_an_unknown_path_names_the_paths_that_there_are(server: Served, libretranslate: Served) -> None:
    """These are those of the server's reference, which describes no pages, and the pages."""
    for served_apis in (server, libretranslate):
        error = served_apis.post("/generate", {}).json()["error"]
        message = error if isinstance(error, str) else error["message"]
        before, _, listed = message.partition("; there are ")
        paths = listed.removesuffix("; /docs describes them").split(", ")
        assert before == "no such path"
        documented = served_apis.ask(lambda client: client.get("/openapi.json")).json()["paths"]
        assert sorted(paths) == sorted([*documented, "/", "/docs"])


def test_a_route_that_does_not_find_something_is_no_unknown_path() -> None:
    import httpx
    from fastapi import FastAPI, HTTPException

    app = FastAPI()
    Errors([]).add_handlers(app)

    @app.get("/models/{name}")
    async def model(name: str) -> None:
        raise HTTPException(404, f"no model {name}")

    async def talk() -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.get("/models/a")

    assert asyncio.run(talk()).json() == {"error": {"code": "not_found", "message": "no model a"}}


@pytest.mark.parametrize(("path", "status"), [("/", 404), ("/v1/runs", 404), ("/languages", 200), ("/healthz", 200)])
def test_an_api_that_is_not_chosen_has_no_routes(libretranslate: Served, path: str, status: int) -> None:
    assert libretranslate.ask(lambda client: client.get(path)).status_code == status


def test_an_unknown_api_is_refused_before_a_run_is_loaded() -> None:
    with pytest.raises(PluginError, match=r"^serve_api=libre: no such serve_api\."):
        load_server(config("no such run", apis=["libre"]), load_plugins())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"apis": []}, r"^apis=\[\]: name at least one API$"),
        ({"apis": ["libretranslate"], "jobs": "x"}, "^jobs=x: jobs belong to the API own, which apis="),
    ],
    ids=str,
)
def test_apis_that_cannot_be_served_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        config("x", **options)
