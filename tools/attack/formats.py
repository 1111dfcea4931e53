"""Hostile files of every format that is read: one line or an output, in bounded time and memory, and nothing else.

No file may be opened that an entity or an archive names, no address fetched, and nothing written elsewhere.
"""

from __future__ import annotations

import json
import random
import socket
from typing import TYPE_CHECKING

from attack import hostile_data as data
from attack import hostile_documents as documents
from attack import hostile_markup as markup
from attack.crafted import hashes
from attack.crafting import odd_place
from attack.sandbox import Limits, address_space, run
from attack.scene import GENERATE, Scene, call_here
from attack.verdicts import Case, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CPU_SECONDS, MEMORY = 5, 2 << 30
"""Beyond what the command takes for a harmless file: its imports are done before it is forked"""
SECRET = "a word that no output may have"
PREPARE = ["task=translation", "task.subword=characters", "data.workers=1", "data.prepared=prepared", "--quiet"]
TREES = ["task=parsing", "data.workers=1", "data.prepared=prepared", "--quiet"]
Hostile = tuple[str, str, list[str]]
"""What has been written, the command, and its arguments"""


class Formats:
    """A folder with a run, beside a secret and a server that nothing may reach."""

    def __init__(self, root: Path) -> None:
        self.scene, self.secret = Scene(root), root / "secret.txt"
        self.secret.write_text(SECRET)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        call_here(self.scene.whole, "s2s-export", ["run=x", "format=hf", "output=hf", "sentences=2", "--quiet"])
        (self.scene.whole / "tokenizer.json").write_text(json.dumps(documents.tokenizer()))
        (self.scene.whole / "good.tsv").write_text("the dog\tder hund\n" * 9)
        self.scene.warm_up({"s2s-prepare": [*PREPARE, "task.train=good.tsv"], "s2s-generate": GENERATE})

    def case(self, number: int, seed: int) -> Case:
        """Write a hostile file; then read it."""
        draw = random.Random(f"formats {seed} {number}")
        folder = self.scene.copy()
        kinds: list[Callable[[random.Random, Path], Hostile]] = [
            *(self.pairs, self.pairs, self.archives, self.pages, self.pages, self.compressed, self.tables, self.tables),
            *(self.trees, self.tokenizers, self.weights, self.lines),
        ]
        what, command, arguments = kinds[number % len(kinds)](draw, folder)
        before = hashes(folder)
        ended = run(folder, command, arguments, limits=Limits(CPU_SECONDS, address_space() + MEMORY))
        case = judge(number, what, ended, is_same=True)
        if "out of memory" in ended.err:
            return case._replace(verdict=Verdict.HANG, what=f"took too much memory: {case.what}")
        if reached := self._reached(folder, before):
            return case._replace(verdict=Verdict.SILENT, what=f"{reached}: {case.what}")
        return case

    def _reached(self, folder: Path, before: dict[str, str]) -> str:
        """What has been reached that should not; empty if there is nothing."""
        try:
            self.server.accept()[0].close()
            return "an address was fetched"
        except BlockingIOError:
            pass
        if (self.scene.root / "canary").exists() or hashes(folder) != {**before, **_new(folder, before)}:
            return "something was written elsewhere"
        outputs = [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        return f"{outputs[0]} has what a file elsewhere says" if outputs else ""

    def pairs(self, draw: random.Random, folder: Path) -> Hostile:
        """XML and PO, as training text."""
        kind = draw.choice(("tmx", "xlf", "xlf", "po"))
        if kind == "po":
            what, content = documents.po(draw)
        else:
            what, content = markup.xml(draw, kind, self.url, str(self.secret))
        (folder / f"bad.{kind}").write_bytes(content)
        return f"{kind}: {what}", "s2s-prepare", [*PREPARE, f"task.train=bad.{kind}"]

    def archives(self, draw: random.Random, folder: Path) -> Hostile:
        """Spreadsheets as training text; Word, PowerPoint and EPUB as documents."""
        kind = draw.choice(("xlsx", "docx", "pptx", "epub"))
        canary = str(self.scene.root / "canary")
        inner = ""
        members = dict(documents.MEMBERS[kind])
        if draw.random() < 0.5:
            inner, members[draw.choice(list(members))] = markup.xml(draw, "xml", self.url, str(self.secret))
            inner = f" of {inner}"
        what, content = markup.zipped(draw, members, canary)
        (folder / f"bad.{kind}").write_bytes(content)
        if kind == "xlsx":
            return f"xlsx: {what}{inner}", "s2s-prepare", [*PREPARE, "task.train=bad.xlsx"]
        return f"{kind}: {what}{inner}", "s2s-generate", _documents(kind)

    def pages(self, draw: random.Random, folder: Path) -> Hostile:
        """Documents that are text."""
        kind = draw.choice(("html", "html", "md", "md", "xml", "xlf", "srt", "vtt", "po", "txt"))
        make = {"html": markup.html, "md": markup.markdown}.get(kind, markup.html)
        if kind in ("xml", "xlf"):
            what, content = markup.xml(draw, kind, self.url, str(self.secret))
        elif kind == "po":
            what, content = documents.po(draw)
        else:
            what, content = make(draw, self.url, str(self.secret))
        (folder / f"bad.{kind}").write_bytes(content)
        return f"{kind}: {what}", "s2s-generate", _documents(kind)

    def compressed(self, draw: random.Random, folder: Path) -> Hostile:
        """Text that is packed."""
        suffix = draw.choice(("gz", "bz2", "xz", "zst"))
        what, content = data.packed(draw, suffix)
        for side in ("en", "de"):
            (folder / f"bad.{side}.{suffix}").write_bytes(content)
        train = f"task.train=[bad.en.{suffix},bad.de.{suffix}]"
        return f"{suffix}: {what}", "s2s-prepare", [*PREPARE, train]

    def tables(self, draw: random.Random, folder: Path) -> Hostile:
        """Tables and records as training text."""
        kind = draw.choice(("csv", "tsv", "json", "jsonl", "parquet", "arrow"))
        if kind in ("parquet", "arrow"):
            what, content = data.arrow(draw, kind)
        else:
            what, content = data.table(draw) if kind in ("csv", "tsv") else data.record(draw)
        (folder / f"bad.{kind}").write_bytes(content)
        return f"{kind}: {what}", "s2s-prepare", [*PREPARE, f"task.train=bad.{kind}"]

    def trees(self, draw: random.Random, folder: Path) -> Hostile:
        """Treebanks."""
        kind = draw.choice(("tiger", "mrg", "export"))
        if kind == "tiger":
            what, content = markup.xml(draw, kind, self.url, str(self.secret))
        else:
            what, content = documents.treebank(draw, kind)
        (folder / "bad.trees").write_bytes(content)
        return f"{kind}: {what}", "s2s-prepare", [*TREES, "task.train=bad.trees"]

    def tokenizers(self, draw: random.Random, folder: Path) -> Hostile:
        """Files of other programs' tokenisers."""
        if draw.random() < 0.6:
            what, content = data.tokenizer(draw, documents.tokenizer())
            (folder / "tokenizer.json").write_bytes(content)
            name, subword = "tokenizer.json", "{name: hf, file: tokenizer.json}"
        else:
            name = draw.choice(("source.spm", "target.spm", "vocab.json"))
            file = folder / "hf" / name
            what, content = data.record(draw) if name == "vocab.json" else data.damaged(draw, file.read_bytes())
            file.write_bytes(content)
            subword = "{name: marian, folder: hf}"
        arguments = [option for option in PREPARE if "subword" not in option]
        return f"{name}: {what}", "s2s-prepare", [*arguments, "task.train=good.tsv", f"task.subword={subword}"]

    def weights(self, draw: random.Random, folder: Path) -> Hostile:
        """A published model, of which one file is hostile."""
        file = draw.choice(sorted((folder / "hf").iterdir()))
        if file.suffix == ".safetensors":
            what, content = data.tensors(draw, file.read_bytes())
        elif file.suffix == ".json" and draw.random() < 0.7:
            read = json.loads(file.read_text())
            what = odd_place(draw, read)
            content = json.dumps(read).encode()
        else:
            what, content = data.record(draw) if file.suffix == ".json" else data.damaged(draw, file.read_bytes())
        file.write_bytes(content)
        return f"{file.name}: {what}", "s2s-generate", ["run=hf", *_generate("few.en", "out.txt")[1:]]

    def lines(self, draw: random.Random, folder: Path) -> Hostile:
        """Long lines of marks, which patterns of kept parts and of sentences meet."""
        mark = "".join(draw.choices(MARKS, k=draw.choice((1, 1, 2, 3))))
        text = draw.choice(("", "a ", "{", "http://")) + mark * draw.choice((99, 9999, 33_333))
        (folder / "bad.txt").write_text(text.replace("\n", " ") + "\n", errors="surrogateescape")
        options = ["keep=[urls,emails,markup,items,placeholders,names,symbols,numbers]", "split=true"]
        return f"{mark!r} again and again", "s2s-generate", [*_generate("bad.txt", "out.txt"), *options]


MARKS = [*"{}[]()<>@#$%&*/\\.,:;!?-_='\"`~^|+ 1aÄ一\t", "{{", "://", "a.", "1.", "<a ", "&#", "__A", "%(", "www.", "[["]


def _new(folder: Path, before: dict[str, str]) -> dict[str, str]:
    """What a command may add: prepared data, and its output."""
    allowed = ("prepared", "out.", ".out.", "runs")
    return {name: value for name, value in hashes(folder).items()
            if name not in before and name.removeprefix(f"{folder}/").startswith(allowed)}  # fmt: skip


def _generate(name: str, output: str) -> list[str]:
    return [*GENERATE[:2], f"input={name}", f"output={output}", "max_source=32", "too_long=truncate", "--quiet"]


def _documents(kind: str) -> list[str]:
    return _generate(f"bad.{kind}", f"out.{kind}")
