"""Damaged folders of jobs: the server starts, and what it serves of them is what it has written."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from attack.crafting import odd_place
from attack.damages import damage
from attack.scene import Scene
from attack.serving import WAIT, Serving, judged
from s2s.io import dump_record, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from attack.verdicts import Case

TEXTS = [
    "".join(f"{line}\n" for line in ["the old dog", "", f"a cat sees the {word}", "the cat eats"] * 12)
    for word in ("dog", "cat", "old dog", "old cat", "dog a cat", "cat the dog", "cat sees", "dog eats")
]
N_DAMAGED = 5
"""Jobs of a case that are damaged; the others are not"""
FILES = ("job.json", "input.txt", "output.txt")
STATES = ("done", "done", "begun", "waiting")
"""In which a server has left the jobs"""


class Jobs:
    """Of eight jobs, five are damaged, each in its way, and a server starts.

    Each is left out or failed, with a line in the log, or ends with the bytes that it has without the damage.
    """

    def __init__(self, root: Path) -> None:
        self.scene = Scene(root)
        for module in ("app", "command", "protocol", "server"):
            import_module(f"s2s_serve.{module}")  # in this process, so that its children need not
        whole = self.scene.whole
        serving = Serving(whole, "jobs=jobs")
        assert serving.is_ready
        numbers = [_send(serving, text) for text in TEXTS]
        states = _ends(serving, numbers)
        assert set(states.values()) == {"done"}, states
        assert serving.stop().code == 0
        self.expected = {number: (whole / "jobs" / number / "output.txt").read_bytes() for number in numbers}
        for at, number in enumerate(numbers):
            _leave(whole / "jobs" / number, STATES[at % len(STATES)])

    def case(self, number: int, seed: int) -> Case:
        """Damage jobs, start a server, and compare."""
        draw = random.Random(f"jobs {seed} {number}")
        folder = self.scene.copy()
        (folder / "victim.txt").write_text(TEXTS[0])
        jobs = list(self.expected)
        spoilt = {job: _spoil(draw, folder, job, jobs) for job in draw.sample(jobs, N_DAMAGED)}
        stray = draw.choice(STRAYS)(folder / "jobs") if draw.random() < 0.3 else ""
        what = "; ".join([*(f"job {jobs.index(job)} {how}" for job, how in spoilt.items()), *filter(None, [stray])])
        serving = Serving(folder, "jobs=jobs")
        complaints = self._complaints(serving, spoilt, folder) if serving.is_ready else []
        return judged(number, what, serving, complaints, N_DAMAGED)

    def _complaints(self, serving: Serving, spoilt: Mapping[str, str], folder: Path) -> list[str]:
        """What is not as it should be."""
        vouched = [job for job, how in spoilt.items() if VOUCHED in how]
        states = _ends(serving, [job for job in self.expected if job not in vouched])
        states |= {job: _state(serving, job) for job in vouched}
        said = (serving.child.streams / "err").read_text(errors="replace")
        complaints = []
        for at, job in enumerate(self.expected):
            state = states[job]
            answer = serving.ask("GET", f"/v1/jobs/{job}/output")
            is_whole = (answer.status, answer.body) == (200, self.expected[job])
            if answer.status == 500 or state not in ("404", "failed", "done", *(["waiting"] if job in vouched else [])):
                complaints.append(f"job {at} is {state}, its output {answer.status}")
            elif state == "done" and not is_whole and job not in vouched:
                complaints.append(f"job {at} is done with another output")
            elif state != "done" and job not in said and job not in vouched:
                complaints.append(f"job {at} is {state}, without a line in the log")
            elif job not in spoilt and state != "done":
                complaints.append(f"job {at}, which is whole, is {state}")
        if (folder / "victim.txt").read_text() != TEXTS[0]:
            complaints.append("wrote elsewhere")
        if _ends(serving, [_send(serving, TEXTS[0])]).popitem()[1] != "done":
            complaints.append("a new job is not done")
        deleted = [serving.ask("DELETE", f"/v1/jobs/{job}").status for job in self.expected]
        return complaints + [f"a job cannot be deleted: {status}" for status in deleted if status not in (204, 404)]


def _send(serving: Serving, text: str) -> str:
    return str(serving.ask("POST", "/v1/jobs", body=text.encode()).content.get("id"))


def _state(serving: Serving, number: str) -> str:
    """The state of a job; of one that is left out, the status of the answer."""
    answer = serving.ask("GET", f"/v1/jobs/{number}")
    return str(answer.content["state"]) if answer.status == 200 else str(answer.status)


def _ends(serving: Serving, numbers: list[str]) -> dict[str, str]:
    """The states of jobs, once none of them is processed any more, or too much time has passed."""
    until = time.monotonic() + WAIT
    while True:
        states = {number: _state(serving, number) for number in numbers}
        if not {"waiting", "running"} & set(states.values()) or time.monotonic() > until:
            return states
        time.sleep(0.05)


def _leave(path: Path, state: str) -> None:
    """Leave a job that is done as a server leaves one in another state."""
    if state == "done":
        return
    lines = (path / "output.txt").read_bytes().splitlines(keepends=True)[: 32 if state == "begun" else 0]
    data = b"".join(lines)
    output = {"n_lines": len(lines), "n_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (path / "output.txt").write_bytes(data)
    (path / "job.json").write_bytes(dump_record({**read_record(path / "job.json"), "output": output}))


VOUCHED = "with a valid checksum"


def _spoil(draw: random.Random, folder: Path, job: str, jobs: Sequence[str]) -> str:
    """Damage one of several jobs, and return how."""
    path = folder / "jobs" / job
    if draw.random() < 0.2:
        place = draw.choice(PLACES)
        return place(path)
    if draw.random() < 0.2:
        content = read_record(path / "job.json")
        where = odd_place(draw, content)
        (path / "job.json").write_bytes(dump_record(content))
        return f"job.json: {where}, {VOUCHED}"
    file = path / draw.choice(FILES)
    other = folder / "jobs" / draw.choice([each for each in jobs if each != job]) / file.name
    return f"{file.name}: {damage(draw, file, other, folder / 'victim.txt')}"


def _is_file(path: Path) -> str:
    shutil.rmtree(path)
    path.write_text("x")
    return "is a file"


def _is_pipe(path: Path) -> str:
    shutil.rmtree(path)
    os.mkfifo(path)
    return "is a pipe"


def _is_link(path: Path) -> str:
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)
    return "is a link"


def _is_empty(path: Path) -> str:
    shutil.rmtree(path)
    path.mkdir()
    return "is empty"


def _of_an_earlier_version(path: Path) -> str:
    content: dict[str, Any] = read_record(path / "job.json")
    (path / "job.json").write_text(json.dumps({**content, "n_lines": content.pop("input")["n_lines"]}))
    return "has no checksum"


def _with_more(path: Path) -> str:
    """Files that are none of a job; they are not damage."""
    os.mkfifo(path / "pipe")
    (path / "folder").mkdir()
    return "has more files"


PLACES: tuple[Callable[[Path], str], ...] = (
    _is_file,
    _is_pipe,
    _is_link,
    _is_empty,
    _of_an_earlier_version,
    _with_more,
)


def _stray_record(jobs: Path) -> str:
    (jobs / "stray").mkdir()
    os.mkfifo(jobs / "stray" / "job.json")
    return "a stray pipe"


def _stray_names(jobs: Path) -> str:
    for name in ("x" * 255, "ü\n", "-", "..a", " "):
        (jobs / name).mkdir()
    return "stray names"


def _stray_uploads(jobs: Path) -> str:
    (jobs / ".uploads-link").symlink_to(jobs.parent)
    (jobs / ".uploads-file").write_text("x")
    os.mkfifo(jobs / ".uploads-pipe")
    (jobs / ".uploads-lock").mkdir()
    (jobs / ".uploads-lock" / ".lock").symlink_to(jobs.parent / "victim.txt")
    return "stray uploads"


STRAYS: tuple[Callable[[Path], str], ...] = (_stray_record, _stray_names, _stray_uploads)
