"""What lies in the folder of jobs is checked before it is believed, and bounded."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.small_server import client_of, finished, tiny_server, train_run
from s2s.io import FileLock, dump_record, read_record
from s2s_serve import command
from s2s_serve.job_files import JobFiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    import httpx

TEXT = b"the old dog\n\na cat sees the dog\nthe cat eats\nthe dog\n"
N_LINES = 5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def done(run: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, bytes]]:
    """A job that is done: its number and its files."""
    folder = tmp_path_factory.mktemp("jobs")

    async def talk() -> str:
        async with client_of(tiny_server(run, jobs=str(folder))) as client:
            number = str((await client.post("/v1/jobs", content=TEXT)).json()["id"])
            await finished(client, number)
            return number

    number = asyncio.run(talk())
    return number, {path.name: path.read_bytes() for path in (folder / number).iterdir()}


def put(folder: Path, job: tuple[str, dict[str, bytes]]) -> Path:
    """A copy of the job in a folder of jobs."""
    path = folder / job[0]
    path.mkdir(parents=True)
    for name, data in job[1].items():
        (path / name).write_bytes(data)
    return path


async def outcome(client: httpx.AsyncClient, number: str) -> tuple[str, bytes]:
    """What becomes of a job, and its output; of one that is left out, its status."""
    state = await client.get(f"/v1/jobs/{number}")
    if state.status_code != 200:
        return str(state.status_code), b""
    found = (await finished(client, number))["state"]
    output = await client.get(f"/v1/jobs/{number}/output")
    return str(found), output.content if output.status_code == 200 else b"refused"


def another_line(data: bytes) -> bytes:
    return data.replace(b"\n", b" x\n", 1)


def one_line_less(data: bytes) -> bytes:
    return data.partition(b"\n")[2]


CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "another line": another_line,
    "one line less": one_line_less,
    "one line more": lambda data: b"x\n" + data,
    "lines exchanged": lambda data: b"\n".join(data.split(b"\n")[-2::-1]) + b"\n",
    "zeros": lambda data: bytes(len(data)),
    "no text": lambda data: b"\xff" * len(data),
}


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # a path of a socket is short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
    os.fchdir(here)
    os.close(here)


KINDS: dict[str, Callable[[Path], None]] = {
    "nothing": lambda _: None,
    "folder": lambda path: path.mkdir(),
    "pipe": _pipe,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to(path.parent.parent.parent / "victim.txt"),
    "loop": lambda path: path.symlink_to(path.name),
    "huge": lambda path: os.truncate(os.open(path, os.O_RDWR | os.O_CREAT), 1 << 40),
}
WAYS = [*(("contents", name) for name in CONTENTS), *(("kind", name) for name in KINDS)]


def spoil(path: Path, how: str, name: str) -> None:
    if how == "contents":
        path.write_bytes(CONTENTS[name](path.read_bytes()))
        return
    path.unlink()
    KINDS[name](path)


@pytest.mark.parametrize("file", ["job.json", "input.txt", "output.txt"])
def test_a_damaged_job_is_left_out_or_made_again(
    run: str, tmp_path: Path, done: tuple[str, dict[str, bytes]], file: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All at once, each in a job of its own: what is done needs no input any more."""
    (tmp_path / "victim.txt").write_bytes(TEXT)
    number, files = done
    jobs = {}
    for at, way in enumerate(WAYS):
        jobs[way] = number[:-2] + f"{at:02x}"
        path = put(tmp_path / "jobs", (jobs[way], files))
        record = read_record(path / "job.json") | {"id": path.name}
        (path / "job.json").write_bytes(dump_record(record))
        spoil(path / file, *way)

    async def talk() -> dict[Any, tuple[str, bytes]]:
        async with asyncio.timeout(60), client_of(tiny_server(run, jobs=str(tmp_path / "jobs"))) as client:
            return {way: await outcome(client, jobs[way]) for way in WAYS}

    found = asyncio.run(talk())
    whole = ("done", files["output.txt"])
    expected = dict.fromkeys(WAYS, ("404", b"") if file == "job.json" else whole)
    if file == "output.txt":
        expected["kind", "folder"] = ("failed", b"refused")
    assert found == expected
    n_said = len(caplog.records) - (2 if file == "output.txt" else 0)  # a folder is reported when it is asked for, too
    assert n_said == (0 if file == "input.txt" else len(WAYS))
    assert all(record.exc_info is None for record in caplog.records)
    assert (tmp_path / "victim.txt").read_bytes() == TEXT


ODD: list[Any] = [None, True, -1, 1.5, 10**400, "x", "\ud800", [], {}, [[]], {"a": {"a": [None]}}, float("nan")]


def test_a_record_with_a_valid_checksum_and_odd_values_ends_nothing(
    run: str, tmp_path: Path, done: tuple[str, dict[str, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    number, files = done
    path = put(tmp_path / "jobs", done)
    content = read_record(path / "job.json")
    places = [(key,) for key in content] + [(key, inner) for key in ("input", "output") for inner in content[key]]
    jobs = []
    for at, (place, odd) in enumerate((place, odd) for place in places for odd in [*ODD, "missing"]):
        jobs.append(f"{at:032x}")
        record = {**content, "id": jobs[-1], "input": dict(content["input"]), "output": dict(content["output"])}
        inner: dict[str, Any] = record if len(place) == 1 else record[place[0]]
        if odd == "missing":
            del inner[place[-1]]
        else:
            inner[place[-1]] = odd
        (put(tmp_path / "jobs", (jobs[-1], files)) / "job.json").write_bytes(dump_record(record))

    async def talk() -> list[tuple[str, bytes]]:
        options = {"jobs": str(tmp_path / "jobs"), "max_jobs": 10_000}
        async with asyncio.timeout(60), client_of(tiny_server(run, **options)) as client:
            found = [await outcome(client, each) for each in (number, *jobs) if await is_ours(client, each)]
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.post("/v1/jobs", content=TEXT)).status_code == 202
            return found

    async def is_ours(client: httpx.AsyncClient, each: str) -> bool:
        """Not that of a run that is not served."""
        state = await client.get(f"/v1/jobs/{each}")
        return state.status_code == 200 and state.json()["run"] == "en-de"

    found = asyncio.run(talk())
    assert found[0] == ("done", files["output.txt"])
    assert {output for state, output in found if state == "done"} == {files["output.txt"]}
    assert {state for state, _ in found} <= {"done", "failed"}
    assert all(record.exc_info is None and "\n" not in record.getMessage() for record in caplog.records)


def test_an_output_that_is_damaged_while_the_server_runs_is_not_served(
    run: str, tmp_path: Path, done: tuple[str, dict[str, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    path = put(tmp_path, done)

    async def talk(*, spoilt: bool) -> Any:
        async with client_of(tiny_server(run, jobs=str(tmp_path))) as client:
            await finished(client, path.name)
            if spoilt:
                (path / "output.txt").write_bytes(another_line(done[1]["output.txt"]))
            output = await client.get(f"/v1/jobs/{path.name}/output")
            return output, (await client.get(f"/v1/jobs/{path.name}")).json()["state"]

    answer, state = asyncio.run(talk(spoilt=True))
    assert (answer.status_code, answer.json()["error"]["code"], state) == (503, "damaged", "failed")
    assert f"{path}/output.txt is damaged: it is not what job.json says" in caplog.text
    answer, state = asyncio.run(talk(spoilt=False))
    assert (answer.content, state) == (done[1]["output.txt"], "done")


def test_jobs_are_bounded_in_number_and_size(run: str, tmp_path: Path) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield TEXT
            await asyncio.sleep(0)

    async def talk(files: Sequence[Any], **options: int) -> list[tuple[int, str]]:
        async with client_of(tiny_server(run, jobs=str(tmp_path), **options)) as client:
            sent = await asyncio.gather(*(client.post("/v1/jobs", content=each) for each in files))
            assert (await client.get("/healthz")).status_code == 200
            for answer in sent:
                if answer.status_code == 202:
                    await client.delete(f"/v1/jobs/{answer.json()['id']}")
                elif answer.status_code == 429:
                    assert answer.headers["retry-after"] == "60"
            assert (await client.post("/v1/jobs", content=TEXT)).status_code == 202, "there is room again"
            (left,) = [path for path in tmp_path.iterdir() if path.name[0] != "."]
            await client.delete(f"/v1/jobs/{left.name}")
            return sorted((a.status_code, a.json().get("error", {}).get("message", "")) for a in sent)

    many = "there are 3 jobs, as many as max_jobs allows; delete some that are done"
    assert asyncio.run(talk([slowly() for _ in range(8)], max_jobs=3)) == [(202, "")] * 3 + [(429, many)] * 5
    large = "with its output, the file would not fit into the 3,000 bytes (max_jobs_size) of all jobs; delete some"
    answers = asyncio.run(talk([TEXT * 20] * 8, max_jobs_size=3000))
    assert set(answers) == {(202, ""), (429, large)}
    assert answers.count((202, "")) == 3000 // (2 * len(TEXT) * 20)
    assert {status for status, _ in asyncio.run(talk([slowly() for _ in range(8)], max_jobs_size=3000))} <= {202, 429}
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_uploads_of_a_server_that_was_killed_are_removed(run: str, tmp_path: Path) -> None:
    killed, alive, victims = (tmp_path / name for name in (".uploads-killed", ".uploads-alive", "victims"))
    for folder in (killed, alive, victims):
        (folder / ("a" * 32)).mkdir(parents=True)
        (folder / ".lock").write_text("{}")
        (folder / ("a" * 32) / "input.txt").write_bytes(TEXT)
    (tmp_path / ".uploads-link").symlink_to(victims)
    (tmp_path / ".uploads-file").write_text("")
    lock = FileLock(alive / ".lock")
    lock.acquire()

    async def talk() -> int:
        async with client_of(tiny_server(run, jobs=str(tmp_path))) as client:
            return (await client.get("/v1/jobs/" + "a" * 32)).status_code

    assert asyncio.run(talk()) == 404
    assert not killed.exists()
    assert (alive / ("a" * 32) / "input.txt").read_bytes() == TEXT
    assert (victims / ("a" * 32) / "input.txt").read_bytes() == TEXT
    lock.release()
    assert asyncio.run(talk()) == 404
    assert not alive.exists()


def test_what_the_record_says_of_an_input_is_what_was_sent(run: str, tmp_path: Path) -> None:
    async def talk(text: bytes) -> dict[str, Any]:
        async with client_of(tiny_server(run, jobs=str(tmp_path))) as client:
            number = (await client.post("/v1/jobs", content=text)).json()["id"]
            await finished(client, number)
            found: dict[str, Any] = read_record(tmp_path / number / "job.json")["input"]
            return found

    for text, n_lines in ((TEXT, 5), (TEXT[:-1], 5), (b"\n", 1), (b"a", 1), (b"a\r\nb\rc\n", 2)):
        expected = {"n_lines": n_lines, "n_bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        assert asyncio.run(talk(text)) == expected


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused_in_one_line(
    run: str, tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "victim.txt").write_text("x")
    KINDS[kind](tmp_path / "jobs" / ".lock")
    assert command.main([f"run={run}", f"jobs={tmp_path}/jobs", "port=0"]) in (1, 2)
    said = capfd.readouterr().err
    (line,) = [line for line in said.splitlines() if line.startswith("s2s-serve: error: ")]
    assert f"{tmp_path}/jobs/.lock" in line
    assert "Traceback" not in said


def test_every_job_counts_with_an_output_as_long_as_its_input(tmp_path: Path) -> None:
    files = JobFiles(tmp_path)
    for at in range(50):
        put(tmp_path, (f"{at:032x}", {"input.txt": b"1" * 10, "output.txt": b"1" * at, "job.json": b""}))
    assert files.count() == (50, sum(10 + max(10, at) for at in range(50)))
