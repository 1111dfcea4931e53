"""Files as jobs: one line out for each line in, continued where a server was stopped; and graceful shutdown."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.ports import IPV4_LOOPBACK, listening
from harness.small_server import client_of, finished, tiny_server, train_run
from s2s.io import dump_record, read_record
from s2s_serve import jobs
from s2s_serve.job_files import JobFiles
from s2s_serve.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from s2s_serve.job import Job, Lines

LINES = ["the old dog", "", "a cat sees the dog", "the cat eats"] * 30
FILE = "".join(f"{line}\n" for line in LINES).encode().removesuffix(b"\n")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_run(tmp_path_factory.mktemp("served"))


FIELDS = {"run": "x", "split": True, "raw": True, "made_of": {}, "input_fields": {}}


def folders_in(folder: Path) -> list[Path]:
    """Those of jobs, without the lock."""
    return [path for path in folder.iterdir() if path.name[0] != "."]


def rewrite(path: Path, **changes: Any) -> None:
    """Change the record of a job, with a valid checksum."""
    path.write_bytes(dump_record({**read_record(path), **changes}))


def cut(folder: Path, n_lines: int) -> bytes:
    """Leave the first lines of the output of a job, as if its server had been killed after them; the whole of it."""
    whole = (folder / "output.txt").read_bytes()
    data = b"".join(whole.splitlines(keepends=True)[:n_lines])
    lines = {"n_lines": n_lines, "n_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "output.txt").write_bytes(data)
    rewrite(folder / "job.json", output=lines)
    return whole


def test_a_line_is_a_line(run: str, tmp_path: Path) -> None:
    async def talk() -> None:
        async with client_of(tiny_server(run, jobs=str(tmp_path / "jobs"))) as client:
            state = (await client.post("/v1/jobs", content=FILE)).json()
            assert state["lines"] == len(LINES)
            done = await finished(client, state["id"])
            assert (done["done"], done["failed"]) == (len(LINES), 0)
            hyps = (await client.get(f"/v1/jobs/{state['id']}/output")).text.split("\n")
            alone = (await client.post("/v1/generate", json={"text": LINES[:4]})).json()["results"]
            assert hyps == [each["hyp"] for each in alone] * 30 + [""]
            assert (await client.delete(f"/v1/jobs/{state['id']}")).status_code == 204
            assert (await client.get(f"/v1/jobs/{state['id']}")).status_code == 404

    asyncio.run(talk())
    assert folders_in(tmp_path / "jobs") == []


def test_a_job_whose_lines_all_fail_has_failed_also_for_the_next_server(run: str, tmp_path: Path) -> None:
    short = {"generate": {"max_source": 4, "too_long": "error"}}

    async def states(*files: bytes) -> list[dict[str, Any]]:
        async with client_of(tiny_server(run, jobs=str(tmp_path / "jobs"), **short)) as client:
            if files:
                sent = [(await client.post("/v1/jobs", content=file)).json()["id"] for file in files]
                return [await finished(client, number) for number in sent]
            kept = [(await client.get(f"/v1/jobs/{path.name}")).json() for path in folders_in(tmp_path / "jobs")]
            assert (await client.get("/healthz")).json()["failed_jobs"] == 1
            return kept

    failed, partly = asyncio.run(states(b"the old dog sees a cat\n" * 3, b"{0} dog sees the old cat\n\n"))
    assert (failed["state"], failed["failed"], failed["lines"]) == ("failed", 3, 3)
    assert re.match("no line has an output: an input of .* tokens is longer than the 4 allowed", failed["error"])
    assert (partly["state"], partly["failed"]) == ("done", 1)
    assert "error" not in partly
    for state in (failed, partly):
        assert state in asyncio.run(states())


def test_a_bom_is_no_part_of_the_first_line(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def itself(_: Jobs, _engine: Any, _job: Any, line: str) -> str:
        return line

    async def talk() -> bytes:
        async with client_of(tiny_server(run, jobs=str(tmp_path / "jobs"))) as client:
            number = (await client.post("/v1/jobs", content="\ufeffone\r\n\ufefftwo".encode())).json()["id"]
            await finished(client, number)
            return (await client.get(f"/v1/jobs/{number}/output")).content

    monkeypatch.setattr(Jobs, "_line", itself)
    assert asyncio.run(talk()).decode() == "one\n\ufefftwo\n", "as s2s-generate reads them"


def test_of_a_line_that_is_being_written_nothing_is_served(run: str, tmp_path: Path) -> None:
    async def talk() -> tuple[httpx.Response, httpx.Response]:
        async with client_of(tiny_server(run, jobs=str(tmp_path / "jobs"))) as client:
            number = (await client.post("/v1/jobs", content=FILE)).json()["id"]
            await finished(client, number)
            whole = await client.get(f"/v1/jobs/{number}/output")
            with (tmp_path / "jobs" / number / "output.txt").open("ab") as file:
                file.write(b"a whole line\nhalf a l")
            return whole, await client.get(f"/v1/jobs/{number}/output")

    whole, later = asyncio.run(talk())
    assert len(whole.text.splitlines()) == len(LINES)
    assert later.content == whole.content
    assert later.headers["content-length"] == str(len(whole.content))


def test_a_job_goes_on_where_the_server_was_stopped(run: str, tmp_path: Path) -> None:
    """To the byte, although its last line was cut short."""
    folder = tmp_path / "jobs"

    async def begin() -> str:
        async with client_of(tiny_server(run, jobs=str(folder))) as client:
            number = str((await client.post("/v1/jobs", content=FILE)).json()["id"])
            await finished(client, number)
            return number

    async def go_on(number: str) -> int:
        async with client_of(tiny_server(run, jobs=str(folder))) as client:
            return int((await finished(client, number))["done"])

    number = asyncio.run(begin())
    output = folder / number / "output.txt"
    whole = cut(folder / number, 64)
    with output.open("ab") as file:
        file.write(b"a line, and a part of ano")
    assert asyncio.run(go_on(number)) == len(LINES)
    assert output.read_bytes() == whole


def outputs_of(run: str, folder: Path, *, generate: dict[str, Any] | None = None) -> dict[str, bytes]:
    """The outputs of all jobs in a folder, of which there is a new one if it was empty, once they are done."""

    async def talk() -> dict[str, bytes]:
        async with client_of(tiny_server(run, jobs=str(folder), generate=generate or {})) as client:
            numbers = [path.name for path in folders_in(folder)]
            numbers = numbers or [(await client.post("/v1/jobs", content=FILE)).json()["id"]]
            for number in numbers:
                await finished(client, number)
            return {number: (await client.get(f"/v1/jobs/{number}/output")).content for number in numbers}

    return asyncio.run(talk())


def test_the_lines_of_a_job_are_by_the_same_options(run: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    long = {"search": {"alpha": 10}}
    ((number, whole),) = outputs_of(run, tmp_path / "jobs").items()
    ((_, others),) = outputs_of(run, tmp_path / "others", generate=long).items()
    assert outputs_of(run, tmp_path / "jobs", generate=long) == {number: whole}, "what is done stays"
    cut(tmp_path / "jobs" / number, 64)
    assert outputs_of(run, tmp_path / "jobs", generate=long) == {number: others} != {number: whole}
    (record,) = caplog.records
    assert record.getMessage().startswith(f"job {number} of en-de begins anew: search.alpha was 0.6 and is 10.0")


def test_the_lines_of_a_job_are_by_the_same_model(run: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ((number, whole),) = outputs_of(run, tmp_path).items()
    path = tmp_path / number / "job.json"
    now = read_record(path)["made_of"]
    cut(tmp_path / number, 5)
    rewrite(path, made_of=now | {"checkpoint": "another"})
    assert outputs_of(run, tmp_path) == {number: whole}
    assert f"job {number} of en-de begins anew: checkpoint was 'another' and is " in caplog.text
    assert read_record(path)["made_of"] == now


def _input_is_missing(folder: Path) -> None:
    (folder / "input.txt").unlink()


def _output_is_a_folder(folder: Path) -> None:
    (folder / "output.txt").mkdir()


@pytest.mark.parametrize(
    ("break_job", "error"),
    [
        (_input_is_missing, "input.txt: No such file or directory"),
        (_output_is_a_folder, "output.txt: Is a directory"),
    ],
)
def test_a_job_that_cannot_be_continued_does_not_stop_the_next(
    run: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, break_job: Callable[[Path], None], error: str
) -> None:
    ((first, whole),) = outputs_of(run, tmp_path).items()
    cut(tmp_path / first, 0)
    second = "f" * 32
    shutil.copytree(tmp_path / first, tmp_path / second)
    rewrite(tmp_path / second / "job.json", id=second)
    (tmp_path / first / "output.txt").unlink()
    break_job(tmp_path / first)

    async def talk() -> None:
        async with asyncio.timeout(60), client_of(tiny_server(run, jobs=str(tmp_path))) as client:
            state = await finished(client, first)
            assert (state["state"], state["error"]) == ("failed", error)
            assert (await finished(client, second))["state"] == "done"
            health = await client.get("/healthz")
            assert (health.status_code, health.json()["failed_jobs"]) == (200, 1)

    asyncio.run(talk())
    assert (tmp_path / second / "output.txt").read_bytes() == whole
    record = caplog.records[-1]
    assert record.getMessage().startswith(f"job {first} of en-de has failed: ")
    assert record.exc_info is None


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (ZeroDivisionError(), "a bug of the server, which has logged it"),
    ],
    ids=["full disk", "bug"],
)
def test_a_job_that_cannot_be_written_is_tried_again_by_the_next_server(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, error: str
) -> None:
    """Up to then, those of its lines that are written are served, and so are other jobs."""
    append, n_calls = JobFiles.append, itertools.count(1)

    def fail_at_the_second_chunk(self: JobFiles, job: Job, lines: list[str], digest: Any) -> Lines:
        if next(n_calls) == 2:
            append(self, job, lines[:1], digest)
            raise failure
        return append(self, job, lines, digest)

    async def talk() -> tuple[str, bytes]:
        async with asyncio.timeout(60), client_of(tiny_server(run, jobs=str(tmp_path))) as client:
            first, second = [(await client.post("/v1/jobs", content=FILE)).json()["id"] for _ in range(2)]
            state = await finished(client, first)
            assert (state["state"], state["done"], state["error"]) == ("failed", 32, error)
            assert len((await client.get(f"/v1/jobs/{first}/output")).text.splitlines()) == 32
            assert (await finished(client, second))["state"] == "done"
            return first, (await client.get(f"/v1/jobs/{second}/output")).content

    monkeypatch.setattr(JobFiles, "append", fail_at_the_second_chunk)
    first, whole = asyncio.run(talk())
    assert outputs_of(run, tmp_path)[first] == whole


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (b'{"id": "a', "Unterminated string"),
        (b"[1]", "no record"),
        (b'{"id": "a"}', "no record"),
        (b'{"content": {}, "sha256": ""}', "its checksum does not match"),
        (dump_record({"id": "a"}), "run: Field required"),
        (dump_record({"id": "../b", **FIELDS}), "its id is '../b'"),
        (dump_record({"id": "a", **FIELDS, "split": 1}), "split: Input should be a valid boolean"),
        (dump_record({"id": "a", **FIELDS, "n_failed": 3}), "its id is 'a'"),
    ],
    ids=["cut", "list", "fields", "checksum", "empty", "id", "type", "no number"],
)
def test_a_damaged_job_is_left_out_and_stays_as_it_is(
    run: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: bytes, reason: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/job.json").write_bytes(damaged)

    async def one_more() -> str:
        async with asyncio.timeout(60), client_of(tiny_server(run, jobs=str(tmp_path))) as client:
            assert (await client.get("/v1/jobs/a")).status_code == 404
            number = (await client.post("/v1/jobs", content=FILE)).json()["id"]
            return str((await finished(client, number))["state"])

    assert asyncio.run(one_more()) == "done"
    assert f"{tmp_path}/a/job.json is damaged, so that this job is left out: " in caplog.text
    assert reason in caplog.text
    assert [path.read_bytes() for path in (tmp_path / "a").iterdir()] == [damaged]


def test_lines_that_failed_before_the_server_was_stopped_are_counted(run: str, tmp_path: Path) -> None:
    file = b"the dog " * 30 + b"\n" + FILE * 5

    def server() -> Any:
        return tiny_server(run, jobs=str(tmp_path / "jobs"), generate={"too_long": "error", "max_source": 30})

    async def begin() -> str:
        async with client_of(server()) as client:
            number = str((await client.post("/v1/jobs", content=file)).json()["id"])
            while not (await client.get(f"/v1/jobs/{number}")).json()["done"]:
                await asyncio.sleep(0)
            return number

    async def go_on(number: str) -> int:
        async with client_of(server()) as client:
            return int((await finished(client, number))["failed"])

    assert asyncio.run(go_on(asyncio.run(begin()))) == 1


def test_a_second_server_on_a_folder_waits_until_the_first_has_stopped(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a rolling restart: every job, sent to either, ends with one output for each line."""
    folder, n_by, line = tmp_path / "jobs", Counter[int](), Jobs._line
    monkeypatch.setattr(jobs, "POLL", 0.01)

    async def counted(self: Jobs, *args: Any) -> str | None:
        n_by[id(self)] += 1
        return await line(self, *args)

    async def talk() -> dict[str, dict[str, Any]]:
        first, second = (tiny_server(run, jobs=str(folder)) for _ in range(2))
        async with AsyncExitStack() as both, asyncio.timeout(60):
            async with client_of(first) as client:
                sent = [(await client.post("/v1/jobs", content=(FILE + b"\n") * 3)).json()["id"] for _ in range(2)]
                after = await both.enter_async_context(client_of(second))
                sent += [(await after.post("/v1/jobs", content=FILE)).json()["id"]]
                states = [(await each.get(f"/v1/jobs/{number}")).json() for each in (client, after) for number in sent]
                assert {state["state"] for state in states} <= {"running", "waiting"}
                assert [state["lines"] for state in states] == [3 * len(LINES), 3 * len(LINES), len(LINES)] * 2
                while not n_by:
                    await asyncio.sleep(0)
                assert list(n_by) == [id(first.jobs)]
            return {number: await finished(after, number) for number in sent}

    ((_, alone),) = outputs_of(run, tmp_path / "alone").items()
    monkeypatch.setattr(Jobs, "_line", counted)
    states = asyncio.run(talk())
    assert len(n_by) == 2, "the second has continued them"
    for number, state in states.items():
        assert (state["state"], state["done"]) == ("done", state["lines"])
        assert (folder / number / "output.txt").read_bytes() == alone * (state["lines"] // len(LINES))
    (record,) = caplog.records
    assert record.getMessage().startswith(f"jobs wait, since another server processes them: {folder} is in use by")


def test_a_job_that_another_server_deletes_is_forgotten(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jobs, "POLL", 0.01)

    async def talk() -> None:
        first, second = (tiny_server(run, jobs=str(tmp_path)) for _ in range(2))
        async with asyncio.timeout(60), client_of(first) as holder, client_of(second) as other:
            number = (await holder.post("/v1/jobs", content=FILE * 10)).json()["id"]
            assert (await other.delete(f"/v1/jobs/{number}")).status_code == 204
            last = (await holder.post("/v1/jobs", content=FILE)).json()["id"]
            assert (await finished(holder, last))["state"] == "done"
            assert (await holder.get(f"/v1/jobs/{number}")).status_code == 404
            assert (await other.get(f"/v1/jobs/{last}/output")).content.count(b"\n") == len(LINES)

    asyncio.run(talk())
    assert len(folders_in(tmp_path)) == 1
    assert "has failed" not in caplog.text


def test_a_line_that_is_being_written_when_the_server_stops_is_written_once(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, begun, ended = JobFiles.append, threading.Event(), threading.Event()

    def slow(*args: Any) -> Lines:
        begun.set()
        time.sleep(0.5)
        try:
            return append(*args)
        finally:
            ended.set()

    async def stop_in_a_write() -> str:
        async with client_of(tiny_server(run, jobs=str(tmp_path))) as client:
            number = str((await client.post("/v1/jobs", content=FILE)).json()["id"])
            while not begun.is_set():
                await asyncio.sleep(0)
        assert ended.is_set(), "before the lock is released"
        async with asyncio.timeout(60), client_of(tiny_server(run, jobs=str(tmp_path))) as client:
            assert (await finished(client, number))["state"] == "done"
        return number

    monkeypatch.setattr(JobFiles, "append", slow)
    number = asyncio.run(stop_in_a_write())
    assert (tmp_path / number / "output.txt").read_bytes().count(b"\n") == len(LINES)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"\xff\xfe", 422), (b"\xc3", 422), (b"", 422), (b'\n{"src": "a", "src": "b"}\n', 422), (b"x" * 2000, 413)],
    ids=repr,
)
def test_a_bad_file_leaves_nothing(run: str, tmp_path: Path, body: bytes, status: int) -> None:
    async def talk() -> Any:
        async with client_of(tiny_server(run, jobs=str(tmp_path / "jobs"), max_file=1000)) as client:
            return await client.post("/v1/jobs", content=body)

    assert asyncio.run(talk()).status_code == status
    assert folders_in(tmp_path / "jobs") == []


def test_no_path_of_a_request_reaches_the_file_system(run: str, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "output.txt").write_text("secret")

    async def talk() -> list[Any]:
        async with client_of(tiny_server(run, jobs=str(tmp_path / "jobs"))) as client:
            numbers = ["../secret", "..%2fsecret", "%2e%2e/secret", "secret", "."]
            tries = [await client.get(f"/v1/jobs/{number}/output") for number in numbers]
            return [*tries, await client.delete("/v1/jobs/..%2fsecret")]

    assert {answer.status_code for answer in asyncio.run(talk())} == {404}
    assert (tmp_path / "secret" / "output.txt").exists()


def test_without_a_folder_there_are_no_jobs(run: str) -> None:
    async def talk() -> Any:
        async with client_of(tiny_server(run)) as client:
            return await client.post("/v1/jobs", content=FILE)

    answer = asyncio.run(talk())
    assert answer.status_code == 404
    assert "start it with jobs=FOLDER" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_sigterm_lets_requests_finish(run: str) -> None:
    """The command itself: it binds to this machine alone, answers what it has begun, and ends well."""
    command = [sys.executable, "-m", "s2s_serve.command", f"run={run}", "port=0", "max_chars=100000"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if line.startswith("serving"))
        address = said.split()[1]
        assert address.startswith("http://127.0.0.1:")
        answers: list[Any] = []

        def ask() -> None:
            body = json.dumps({"text": ["the old dog sees the cat"] * 300}).encode()
            request = urllib.request.Request(f"{address}/v1/generate", body, {"content-type": "application/json"})
            answers.append(json.load(urllib.request.urlopen(request, timeout=60)))

        _until_ready(address)
        thread = threading.Thread(target=ask)
        thread.start()
        assert listening(process.pid) == {IPV4_LOOPBACK}
        _until(lambda: "s2s_num_requests_running 1" in _get(f"{address}/metrics"))
        process.send_signal(signal.SIGTERM)
        thread.join()
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    assert len(answers[0]["results"]) == 300


def _get(address: str) -> str:
    return str(urllib.request.urlopen(address, timeout=60).read().decode())


def _until_ready(address: str) -> None:
    def ready() -> bool:
        try:
            return '"ok"' in _get(f"{address}/healthz")
        except OSError:
            return False

    _until(ready)


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
