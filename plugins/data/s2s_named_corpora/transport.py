"""Bytes from an address: https, http and file, from an offset where the server can. httpx does the transport."""

from __future__ import annotations

__all__ = ["Answer", "Refused", "Transport", "Unavailable"]

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from s2s import DataError

CHUNK = 1 << 18
CONNECT = 10.0
"""Seconds until a site that does not answer counts as dead"""
MAX_REDIRECTS = 5
TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


class Unavailable(Exception):  # noqa: N818  caught by `Downloads`
    """An address did not deliver, but may deliver later."""


class Refused(Exception):  # noqa: N818  caught by `Downloads`
    """An address does not have the file, or must not be used for it."""


@dataclass
class Answer:
    """What an address sends."""

    offset: int
    """Of the first byte: what was asked for, or 0 where the whole file is sent"""
    validator: str
    """ETag or date by which the same contents are known later; empty: none"""
    n_bytes: int | None
    """Of the whole file, as the server says"""
    chunks: Iterator[bytes]
    """Raises Unavailable where the connection breaks or stalls"""


class Transport:
    """Reads addresses, through the proxies that the environment names."""

    def __init__(self, timeout: float = 60.0) -> None:
        """timeout: seconds without a byte after which a connection is given up; one that is not made, earlier."""
        self.timeout, self.connect = timeout, min(timeout, CONNECT)

    @contextmanager
    def open(self, url: str, offset: int, validator: str, *, is_hashed: bool) -> Iterator[Answer]:
        """What stands at an address from `offset` on, if it is still what `validator` names; else all of it.

        Raises Unavailable and Refused. Plain http serves only files with a hash.
        """
        _check_scheme(url, is_hashed=is_hashed)
        if urlsplit(url).scheme == "file":
            yield from _local(url, offset)
            return
        httpx = _httpx()
        headers = {"Accept-Encoding": "identity"}
        if offset and validator:
            headers |= {"Range": f"bytes={offset}-", "If-Range": validator}
        try:
            with (
                httpx.Client(timeout=httpx.Timeout(self.timeout, connect=self.connect)) as client,
                _following(client, client.build_request("GET", url, headers=headers), is_hashed) as response,
            ):
                yield _answer(response, offset if "Range" in headers else 0)
        except httpx.InvalidURL as error:
            raise Refused(f"{url} is no address ({error})") from None
        except httpx.HTTPError as error:
            raise Unavailable(f"{_host(url)}: {str(error).strip() or type(error).__name__}") from None


def _httpx() -> Any:
    try:
        return importlib.import_module("httpx")
    except ImportError:
        raise DataError("downloads need httpx: pip install httpx (extra download)") from None


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _check_scheme(url: str, *, is_hashed: bool) -> None:
    scheme = urlsplit(url).scheme
    if scheme not in ("https", "http", "file"):
        raise Refused(f"{url}: {scheme or 'no scheme'} is not read; expected https, http or file")
    if scheme == "http" and not is_hashed:
        raise Refused(f"{url}: without a hash, http is not read, as anyone on the way may change the file")


def _local(url: str, offset: int) -> Iterator[Answer]:
    path = Path(unquote(urlsplit(url).path))
    try:
        with path.open("rb") as file:
            stat = path.stat()
            file.seek(offset)
            yield Answer(
                offset, f"{stat.st_mtime_ns}-{stat.st_size}", stat.st_size, iter(lambda: file.read(CHUNK), b"")
            )
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


@contextmanager
def _following(client: Any, request: Any, is_hashed: bool) -> Iterator[Any]:
    """The response at the end of the redirects, none of which leaves https or the network."""
    for _ in range(MAX_REDIRECTS + 1):
        response = client.send(request, stream=True)
        try:
            if (following := response.next_request) is None:
                yield response
                return
        finally:
            response.close()
        if request.url.scheme == "https" and following.url.scheme != "https":
            raise Refused(f"{_host(str(request.url))} redirects from https to {following.url.scheme}")
        if following.url.scheme not in ("https", "http"):
            raise Refused(f"{_host(str(request.url))} redirects to {following.url.scheme}")
        _check_scheme(str(following.url), is_hashed=is_hashed)
        request = following
    raise Refused(f"{_host(str(request.url))} redirects more than {MAX_REDIRECTS} times")


def _answer(response: Any, offset: int) -> Answer:
    """What a response says before its body; raises Unavailable and Refused for an error."""
    status, headers = response.status_code, response.headers
    place = _host(str(response.url))
    if status in TRANSIENT:
        raise Unavailable(f"{place} answers {status} {response.reason_phrase}")
    if status == 416:  # nothing stands behind what is there: begin again
        return Answer(0, "", None, iter(()))
    if status not in (200, 206):
        raise Refused(f"{place} answers {status} {response.reason_phrase}")
    length = headers.get("Content-Length", "")
    total = int(length) if length.isdecimal() else None
    begin = 0
    if status == 206:
        begin, total = _content_range(headers.get("Content-Range", ""), offset, place)
    etag = headers.get("ETag", "")
    validator = headers.get("Last-Modified", "") if not etag or etag.startswith("W/") else etag
    return Answer(begin, validator, total, response.iter_raw())


def _content_range(value: str, offset: int, place: str) -> tuple[int, int | None]:
    """First byte and size of the whole file of "bytes 100-199/200"; raises Refused for another range than wanted."""
    unit, _, rest = value.partition(" ")
    span, _, total = rest.partition("/")
    begin = span.partition("-")[0]
    if unit != "bytes" or not begin.isdecimal() or int(begin) != offset:
        raise Refused(f"{place} sends the range {value or 'without a name'}, asked for bytes from {offset:,} on")
    return offset, int(total) if total.isdecimal() else None
