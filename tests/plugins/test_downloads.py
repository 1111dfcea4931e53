"""Downloads against a loopback server that lies, stalls, cuts off, redirects, and changes files between parts."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from harness.lying_server import LyingServer
from s2s import DataError
from s2s_named_corpora.downloads import Downloads
from s2s_named_corpora.remote_file import Expected, RemoteFile
from s2s_named_corpora.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("httpx")

BODY = random.Random(1).randbytes(1 << 20)
OTHER = random.Random(2).randbytes(1 << 20)


@pytest.fixture
def server() -> Iterator[LyingServer]:
    with LyingServer({"a.tgz": BODY}).running() as running:
        yield running


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def wanted(*urls: str, body: bytes = BODY, n_bytes: int | None = len(BODY), **others: str) -> RemoteFile:
    return RemoteFile(urls=urls, expected=Expected(sha256(body), "", n_bytes), **others)


def downloads(folder: Path, **options: bool) -> Downloads:
    return Downloads(folder, Transport(timeout=0.3), pause=0.0, **options)


def left(folder: Path) -> list[str]:
    """Files of the cache that are not locks."""
    return sorted(path.name.partition("-")[2] for path in (folder / "files").iterdir() if path.suffix != ".lock")


def test_a_file_is_fetched_once(server: LyingServer, tmp_path: Path) -> None:
    file = wanted(server.url("a.tgz"))
    assert downloads(tmp_path).fetch(file).read_bytes() == BODY
    assert downloads(tmp_path).fetch(file).read_bytes() == BODY
    assert len(server.requests) == 1
    assert left(tmp_path) == ["a.tgz"]


def test_what_was_cut_off_is_continued_at_its_byte(server: LyingServer, tmp_path: Path) -> None:
    server.cut_after = [300_000, 200_000]
    assert downloads(tmp_path).fetch(wanted(server.url("a.tgz"))).read_bytes() == BODY
    ranges = [request.get("Range") for request in server.requests]
    assert ranges[0] is None
    begins = [int(one.removeprefix("bytes=").rstrip("-")) for one in ranges[1:] if one]
    assert len(begins) == 2
    assert 0 < begins[0] <= 300_000
    assert begins[0] < begins[1] <= 500_000


def test_a_stalling_connection_is_given_up_and_continued(server: LyingServer, tmp_path: Path) -> None:
    server.stall_after = [400_000]
    assert downloads(tmp_path).fetch(wanted(server.url("a.tgz"))).read_bytes() == BODY
    assert "Range" in server.requests[1]


def test_a_file_that_changed_between_parts_starts_again(server: LyingServer, tmp_path: Path) -> None:
    """The server answers If-Range with all of the new file."""
    server.files["a.tgz"], server.cut_after = OTHER, [300_000]
    assert changing(server, tmp_path).fetch(wanted(server.url("a.tgz"))).read_bytes() == BODY
    assert [("Range" in request) for request in server.requests] == [False, True]


def test_a_server_that_hides_a_change_behind_one_etag_is_found_out(server: LyingServer, tmp_path: Path) -> None:
    """The first part is of another file with the same ETag, so only the hash shows it; then all is fetched again."""
    server.etag, server.files["a.tgz"], server.cut_after = '"same"', OTHER, [300_000]
    assert changing(server, tmp_path).fetch(wanted(server.url("a.tgz"))).read_bytes() == BODY
    assert [("Range" in request) for request in server.requests] == [False, True, False]


def changing(server: LyingServer, folder: Path) -> Downloads:
    """Downloads from a server whose file becomes the right one after the first interruption."""

    def report(line: str) -> None:
        if "next attempt" in line:
            server.files["a.tgz"] = BODY

    return Downloads(folder, Transport(timeout=0.3), pause=0.0, report=report)


def test_a_server_without_ranges_starts_again(server: LyingServer, tmp_path: Path) -> None:
    server.has_ranges, server.cut_after = False, [300_000]
    assert downloads(tmp_path).fetch(wanted(server.url("a.tgz"))).read_bytes() == BODY


def test_a_part_without_a_validator_starts_again(server: LyingServer, tmp_path: Path) -> None:
    server.etag, server.cut_after = "", [300_000]
    assert downloads(tmp_path).fetch(wanted(server.url("a.tgz"))).read_bytes() == BODY
    assert not any("Range" in request for request in server.requests)


def test_a_weak_etag_is_no_reason_to_continue(server: LyingServer, tmp_path: Path) -> None:
    server.etag, server.cut_after = 'W/"weak"', [300_000]
    assert downloads(tmp_path).fetch(wanted(server.url("a.tgz"))).read_bytes() == BODY
    assert not any("Range" in request for request in server.requests)


LIES = {
    "another hash": ({"files": {"a.tgz": OTHER}}, "has the sha256"),
    "fewer bytes": ({"files": {"a.tgz": BODY[:-1]}}, "1,048,575 bytes, expected 1,048,576"),
    "more bytes": ({"files": {"a.tgz": BODY + b"x"}}, "1,048,577 bytes, expected 1,048,576"),
    "a length that is too small": ({"says_bytes": 1000}, "1,000 bytes, expected 1,048,576"),
    "a length that is too large": ({"says_bytes": 1 << 30}, "1,073,741,824 bytes, expected"),
    "nothing": ({"files": {}}, "404"),
    "errors": ({"statuses": [503] * 9}, "503"),
    "an empty file": ({"files": {"a.tgz": b""}}, "0 bytes, expected"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_one_line_and_leaves_no_file(server: LyingServer, tmp_path: Path, lie: str) -> None:
    fields, message = LIES[lie]
    for name, value in fields.items():
        setattr(server, name, value)
    with pytest.raises(DataError, match=message) as error:
        downloads(tmp_path).fetch(wanted(server.url("a.tgz"), if_gone="The same text is in another place"))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("The same text is in another place")
    assert "a.tgz" not in left(tmp_path)


def test_a_length_that_lies_about_an_unknown_size_is_found_by_the_hash(server: LyingServer, tmp_path: Path) -> None:
    server.says_bytes = 1000
    with pytest.raises(DataError, match="sha256"):
        downloads(tmp_path).fetch(wanted(server.url("a.tgz"), n_bytes=None))


def test_a_range_that_begins_elsewhere_is_refused(server: LyingServer, tmp_path: Path) -> None:
    server.cut_after, server.shift = [300_000], 10
    with pytest.raises(DataError, match="sends the range"):
        downloads(tmp_path).fetch(wanted(server.url("a.tgz")))


def test_mirrors_are_asked_in_order(server: LyingServer, tmp_path: Path) -> None:
    server.files |= {"bad.tgz": OTHER}
    urls = [server.url(path) for path in ("gone.tgz", "bad.tgz", "a.tgz")]
    assert downloads(tmp_path).fetch(wanted(*urls)).read_bytes() == BODY
    assert [request["path"] for request in server.requests] == ["gone.tgz", "bad.tgz", "a.tgz"]


def test_redirects_are_followed_a_few_times(server: LyingServer, tmp_path: Path) -> None:
    server.redirects = {"old": server.url("a.tgz"), "loop": server.url("loop")}
    assert downloads(tmp_path).fetch(wanted(server.url("old"))).read_bytes() == BODY
    with pytest.raises(DataError, match="redirects more than 5 times"):
        downloads(tmp_path).fetch(wanted(server.url("loop"), body=OTHER))


def test_a_redirect_to_a_file_here_is_refused(server: LyingServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(BODY)
    server.redirects = {"old": secret.as_uri()}
    with pytest.raises(DataError, match="cannot be downloaded"):
        downloads(tmp_path / "cache").fetch(wanted(server.url("old")))


def test_a_redirect_from_https_to_http_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.scheme == "https", "http was asked"
        return httpx.Response(301, headers={"Location": "http://example.org/a.tgz"})

    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: client(**options, transport=httpx.MockTransport(answer)))
    with pytest.raises(DataError, match="redirects from https to http"):
        downloads(tmp_path).fetch(wanted("https://example.org/a.tgz"))


def test_without_a_hash_nothing_is_taken_unless_told_and_then_pinned(server: LyingServer, tmp_path: Path) -> None:
    (tmp_path / "here.tgz").write_bytes(BODY)
    file = RemoteFile(urls=((tmp_path / "here.tgz").as_uri(),))
    cache = tmp_path / "cache"
    with pytest.raises(DataError, match="pin=true"):
        downloads(cache).fetch(file)
    assert downloads(cache, pin=True).fetch(file).read_bytes() == BODY
    assert downloads(cache).fetch(file).read_bytes() == BODY
    downloads(cache).path(file).unlink()
    (tmp_path / "here.tgz").write_bytes(OTHER)
    with pytest.raises(DataError, match=f"has the sha256 {sha256(OTHER)}, expected {sha256(BODY)}"):
        downloads(cache, pin=True).fetch(file)


def test_without_a_hash_http_is_never_read(server: LyingServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="without a hash, http is not read"):
        downloads(tmp_path, pin=True).fetch(RemoteFile(urls=(server.url("a.tgz"),)))
    assert server.requests == []


def test_a_damaged_list_of_pins_stops(tmp_path: Path) -> None:
    (tmp_path / "pins.json").write_text("{}")
    with pytest.raises(DataError, match="damaged"):
        downloads(tmp_path, pin=True).fetch(RemoteFile(urls=("file:///nowhere",)))


def test_offline_reads_the_stored_files_and_sends_no_request(server: LyingServer, tmp_path: Path) -> None:
    file = wanted(server.url("a.tgz"))
    with pytest.raises(DataError, match="offline=true"):
        downloads(tmp_path, offline=True).fetch(file)
    downloads(tmp_path).fetch(file)
    assert downloads(tmp_path, offline=True).fetch(file).read_bytes() == BODY
    assert len(server.requests) == 1


def test_a_file_cut_off_in_the_cache_is_fetched_again(server: LyingServer, tmp_path: Path) -> None:
    file = wanted(server.url("a.tgz"))
    path = downloads(tmp_path).fetch(file)
    os.truncate(path, 1000)
    assert downloads(tmp_path).fetch(file).read_bytes() == BODY


def test_md5_alone_is_a_hash(server: LyingServer, tmp_path: Path) -> None:
    md5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
    good = RemoteFile(urls=(server.url("a.tgz"),), expected=Expected("", md5))
    assert downloads(tmp_path).fetch(good).read_bytes() == BODY
    with pytest.raises(DataError, match="has the md5"):
        downloads(tmp_path).fetch(RemoteFile(urls=(server.url("a.tgz"),), expected=Expected("", "0" * 32)))


def test_parallel_processes_fetch_once(server: LyingServer, tmp_path: Path) -> None:
    file, found = wanted(server.url("a.tgz")), []

    def fetch() -> None:
        found.append(downloads(tmp_path).fetch(file).read_bytes() == BODY)

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
    assert len(server.requests) == 1


def test_a_library_that_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(DataError, match=r"pip install httpx \(extra download\)"):
        downloads(tmp_path).fetch(wanted("https://example.org/a.tgz"))


class Killed(BaseException):
    """Stands for the end of the process: nothing that follows is done."""


def test_a_kill_at_any_step_ends_in_the_same_bytes(server: LyingServer, tmp_path: Path) -> None:
    """Every call that changes the disk fails once, in turn, until a download makes none that has not failed."""
    file = wanted(server.url("a.tgz"))
    for step in range(1000):
        cache = tmp_path / str(step)
        with pytest.MonkeyPatch.context() as patch:
            left_before_kill = _kill_at(patch, step)
            with suppress(Killed):
                downloads(cache).fetch(file)
        path = downloads(cache).path(file)
        assert not path.exists() or path.read_bytes() == BODY
        assert downloads(cache).fetch(file).read_bytes() == BODY
        if left_before_kill[0] >= 0:
            assert step > 3
            return


def _kill_at(patch: pytest.MonkeyPatch, step: int) -> list[int]:
    """The calls that are left before the kill: below 0 after it."""
    left = [step]
    for name in ("replace", "fsync", "open"):
        original = getattr(os, name)

        def counted(*args: object, _original: object = original, **options: object) -> object:
            left[0] -= 1
            if left[0] == -1:
                raise Killed
            return _original(*args, **options)  # type: ignore[operator]

        patch.setattr(os, name, counted)
    return left


SCRIPT = """
import sys
from pathlib import Path
import httpx
from s2s_named_corpora.downloads import Downloads
from s2s_named_corpora.remote_file import Expected, RemoteFile
file = RemoteFile(urls=(sys.argv[1],), expected=Expected(sys.argv[3], "", int(sys.argv[4])))
print("begun", flush=True)
Downloads(Path(sys.argv[2]), pause=0.0).fetch(file)
"""


@pytest.mark.slow
def test_two_hundred_kills_end_in_the_same_bytes(tmp_path: Path) -> None:
    body = random.Random(3).randbytes(8_000_000)
    with LyingServer({"a.tgz": body}, delay=0.002).running() as server:
        file = RemoteFile(urls=(server.url("a.tgz"),), expected=Expected(sha256(body), "", len(body)))
        command = [sys.executable, "-c", SCRIPT, file.urls[0], str(tmp_path), sha256(body), str(len(body))]
        draw, n_kills, sizes = random.Random(4), 0, set()
        while n_kills < 200:
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(draw.random() * 0.4)
            process.send_signal(signal.SIGKILL)
            n_kills += process.wait() == -signal.SIGKILL
            process.stdout.close()
            path = downloads(tmp_path).path(file)
            part = path.with_name(f"{path.name}.part")
            sizes.add(part.stat().st_size if part.exists() else 0)
            if path.exists():
                assert path.read_bytes() == body
                path.unlink()
        assert subprocess.run(command, check=True, capture_output=True).returncode == 0
        assert path.read_bytes() == body
        assert len(sizes) > 20, "kills came at too few places"
