"""The log of the server, as text and as records."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.small_server import client_of, tiny_server, train_run
from s2s import PluginError, load_plugins
from s2s_serve import ServeLog
from s2s_serve.server_log import log_request, start_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    """The log of the tests, after each."""
    root, requests = logging.getLogger(), logging.getLogger("s2s_serve.requests")
    handlers, root.handlers = root.handlers, []
    yield
    root.handlers = handlers
    requests.setLevel(logging.NOTSET)
    logging.captureWarnings(capture=False)


def log_all(config: ServeLog) -> None:
    """A line, a warning of two lines, a bug, Python's own warning, and a request."""
    show = start_log(config, load_plugins().registry)
    show("serving  http://127.0.0.1:8000")
    logging.getLogger("anything").warning("of %s,\nof two lines", "a job")
    try:
        raise ZeroDivisionError("zero")
    except ZeroDivisionError:
        logging.getLogger("s2s_serve.errors").exception("a bug")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    log_request("GET", "/v1/runs", "200", 0.12345)


def test_records_are_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    log_all(ServeLog(format="json", requests=True))
    out, err = capsys.readouterr()
    line, warning, bug, old, request = [json.loads(each) for each in out.splitlines()]
    assert not err
    assert all(datetime.fromisoformat(each.pop("time")).tzinfo for each in (line, warning, bug, old, request))
    assert line == {"kind": "line", "text": "serving  http://127.0.0.1:8000"}
    assert warning == {"kind": "warning", "text": "of a job,\nof two lines"}
    assert (bug["kind"], bug["text"], bug["traceback"].splitlines()[-1]) == (
        "error",
        "a bug",
        "ZeroDivisionError: zero",
    )
    assert (old["kind"], "old" in old["text"]) == ("warning", True)
    fields = {"method": "GET", "route": "/v1/runs", "status": "200", "seconds": 0.12345}
    assert request == {"kind": "request", "text": "GET /v1/runs 200 0.123", **fields}


@pytest.mark.parametrize("requests", [False, True])
def test_text_is_on_standard_error(capsys: pytest.CaptureFixture[str], requests: bool) -> None:
    with pytest.warns(DeprecationWarning, match="old"):
        log_all(ServeLog(requests=requests))
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("serving  http://127.0.0.1:8000\nWARNING: of a job,\nof two lines\nERROR: a bug\nTraceback")
    assert ("INFO: GET /v1/runs 200 0.123\n" in err) is requests


def test_a_format_that_is_no_screen_is_refused() -> None:
    with pytest.raises(PluginError, match="xml"):
        start_log(ServeLog(format="xml"), load_plugins().registry)


def test_a_request_is_logged_with_its_route_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = tiny_server(train_run(tmp_path))
    capsys.readouterr()
    start_log(ServeLog(format="json", requests=True), load_plugins().registry)

    async def talk() -> None:
        async with client_of(server) as client:
            await client.get("/v1/jobs/secret/output", headers={"x-api-key": "secret"})
            await client.post("/v1/generate?secret", json={"text": "secret"})
            await client.get("/secret", headers={"host": "secret"})

    asyncio.run(talk())
    said = capsys.readouterr().out
    records: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
    expected = [("/v1/jobs/{number}/output", "404"), ("/v1/generate", "200"), ("other", "421")]
    assert [(record["route"], record["status"]) for record in records] == expected
    assert "secret" not in said
    assert "127.0.0.1" not in said
