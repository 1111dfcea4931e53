"""A server on this machine that speaks as much of the Hugging Face hub's API as downloads need."""

from __future__ import annotations

__all__ = ["HubServer", "hub"]

import hashlib
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


@dataclass
class HubServer:
    """Repositories by name, each with commits; the last one is main."""

    url: str = ""
    repos: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    """ORG/NAME -> commit -> file -> content"""
    gated: set[str] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    """Files whose contents have been sent, with the first byte if it is not 0"""
    cut_after: int | None = None
    """Bytes of a file after which the connection breaks, once"""
    tokens: set[str] = field(default_factory=set)
    """What has been given as authorization"""

    def add(self, repo: str, folder: Path, without: tuple[str, ...] = ()) -> str:
        """The files of a folder as a new commit; its hash."""
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        files = {name: content for name, content in files.items() if name not in without}
        commits = self.repos.setdefault(repo, {})
        commit = hashlib.sha1(f"{repo}{len(commits)}".encode()).hexdigest()
        commits[commit] = files
        return commit

    def commit(self, repo: str, revision: str) -> str | None:
        commits = self.repos[repo]
        return list(commits)[-1] if revision == "main" else revision if revision in commits else None


class _Answers(BaseHTTPRequestHandler):
    hub: HubServer

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.hub.tokens.add(self.headers.get("Authorization", ""))
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^?]+)(\?.*)?", self.path):
            repo, kind, revision, _ = found.groups()
            if (commit := self._commit(repo, revision)) is None:
                return
            files = self.hub.repos[repo][commit]
            tree = [{"type": "file", "path": n, "size": len(c), "oid": _etag(c)} for n, c in files.items()]
            info = {"id": repo, "sha": commit, "siblings": [{"rfilename": name} for name in files], "tags": []}
            self._answer(200, json.dumps(tree if kind == "tree" else info).encode())
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path):
            self._file(*found.groups())
        else:
            self._answer(404, b"")

    def _commit(self, repo: str, revision: str) -> str | None:
        """The commit; if there is none, the answer says so."""
        if repo not in self.hub.repos:
            self._answer(404, b'{"error": "no"}', **{"X-Error-Code": "RepoNotFound"})
            return None
        if (commit := self.hub.commit(repo, revision)) is None:
            self._answer(404, b'{"error": "no"}', **{"X-Error-Code": "RevisionNotFound"})
        return commit

    def _file(self, repo: str, revision: str, name: str) -> None:
        if (commit := self._commit(repo, revision)) is None:
            return
        if repo in self.hub.gated:
            self._answer(403, b"", **{"X-Error-Code": "GatedRepo"})
            return
        content = self.hub.repos[repo][commit][name]
        headers = {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if self.command == "HEAD":
            self._answer(200, content, **headers)
            return
        first = int(self.headers["Range"].removeprefix("bytes=").partition("-")[0]) if "Range" in self.headers else 0
        self.hub.sent.append(f"{name}@{first}" if first else name)
        if first:
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        self._answer(206 if first else 200, content[first:], **headers)

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.hub.cut_after
        if cut is not None and len(body) > cut and "/resolve/" in self.path:
            self.hub.cut_after, body = None, body[:cut]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@contextmanager
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A server that the package takes for the hub, and an empty cache of the package."""
    from huggingface_hub import constants

    server = HubServer()
    handler = type("Answers", (_Answers,), {"hub": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        for name, value in {"ENDPOINT": server.url, "HF_HUB_CACHE": str(cache)}.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield server
        listening.shutdown()
