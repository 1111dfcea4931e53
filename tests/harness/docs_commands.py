"""Every command of s2s on every page of the documentation, and why some of them cannot run in a test."""

from __future__ import annotations

import gzip
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from harness.folders import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = {
    "docs/plugins/index.md": "its plugins and commands run in test_docs.py, beside the files of the page",
    "docs/plugins/tutorial.md": "its commands need its files: test_tutorial.py",
    "docs/documents.md": "its commands need documents: test_generate_documents.py",
    "docs/clusters.md": "several machines or GPUs, or a scheduler: test_clusters.py, test_launcher.py",
    "docs/serving.md": "a server that does not end: test_serve_docs.py",
    "docs/export.md": "needs the extra `export`: test_export.py",
    "docs/pretrained.md": "its commands need a published model: test_import.py",
    "docs/data.md": "its commands download: test_named_corpora.py does so from made-up files",
    "docs/first_hour.md": "its commands run as they stand there, with nothing appended: test_first_hour.py",
}
"""Pages whose commands are tested elsewhere, or not here, and where"""
NOT_HERE = {
    "…": "not a whole command",
    "[-p COLLINS]": "not a whole command",
    "pip install": "installs from the network",
    "torchrun": "torch's launcher: test_launcher.py",
    "make ": "runs everything else",
    "train.budget=2h": "measures for a minute what two hours are worth: three minutes are, in test_first_hour.py",
    "quantization=int8": "needs a processor with 8-bit products: test_linear.py",
    "s2s-serve": "a server that does not end: test_serve.py",
}
"""What is found in a command that does not run here, and the reason"""


TREES = [
    "(TOP (S (NP (D the) (N dog)) (VP (V sees) (NP (D an) (A old) (N cat)))))",
    "(TOP (S (NP (N dogs)) (VP (V see) (NP (N cats)))))",
    "(TOP (S (VP (V eat))))",
    "(TOP (NP (NP (D a) (N cat)) (PP (P with) (NP (D a) (N dog)))))",
]
"""A treebank of the pages about parsing"""
BEGINS = re.compile(r"(\w+ .*[|;] )?(s2s-[a-z]+|python -m|make|torchrun|pip) ?|cut ")
"""What a command begins with, or feeds"""
SHELLS = ("sh", "bash", "console", "")
"""Languages of blocks with commands"""


class Command(NamedTuple):
    """One line of a block, with those that continue it."""

    page: str
    text: str

    @property
    def reason(self) -> str:
        """Why it does not run here; empty if it does."""
        if self.page in ELSEWHERE:
            return ELSEWHERE[self.page]
        return next((reason for part, reason in NOT_HERE.items() if part in self.text), "")


def commands() -> Iterator[Command]:
    """In the order of the pages; comments are cut off."""
    for page in PAGES:
        blocks = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for language, body in blocks:
            if language == "console":  # commands begin with a prompt, between what they print
                body = "\n".join(re.findall(r"^\$ (.*)", body, re.MULTILINE))
            for line in re.sub(r"\\\n\s*", "", body).splitlines():
                text = re.sub(r"\s+#.*", "", line).strip()
                if language in SHELLS and BEGINS.match(text) and ": error:" not in text:
                    yield Command(str(page.relative_to(ROOT)), text)


def is_plain(text: str) -> bool:
    """Whether it is one command, without pipes and redirections."""
    return text.startswith("s2s-") and not set(shlex.split(text)) & {"|", "<", ">", ";"}


def write_files(folder: Path) -> None:
    """What the pages read: pairs, lists of sentences, trees."""
    from harness.tiny_runs import write_corpus

    write_corpus(folder, 60)
    src, tgt = ((folder / f"a.{side}").read_text() for side in ("en", "de"))
    for name in ("corpus", "dev", "test", "train", "general", "medical", "meddev", "newstest2013", "newstest2014"):
        (folder / f"{name}.en").write_text(src)
        for side in ("de", "fr"):
            (folder / f"{name}.{side}").write_text(tgt)
    pairs = "".join(f"{a}\t{b}\n" for a, b in zip(src.splitlines(), tgt.splitlines(), strict=True))
    few, few_out = ("".join(text.splitlines(keepends=True)[:3]) for text in (src, tgt))
    trees = "".join(f"{tree}\n" for tree in TREES)
    for name, text in {
        **dict.fromkeys(("train.tsv", "dev.tsv", "test.tsv", "news.tsv"), pairs),
        **dict.fromkeys(("in.en", "in.txt", "raw.txt"), few),
        **dict.fromkeys(("ours.hyp", "theirs.hyp"), tgt),
        "ref.de": few_out,
        **dict.fromkeys(("news.de", "books.de", "dev.de", "mono.de"), tgt),
        **dict.fromkeys(("gold.mrg", "train.mrg", "dev.mrg", "test.mrg", "other.mrg"), trees),
        **dict.fromkeys(("words.txt", "sentences.txt"), re.sub(r"\([A-Z]+ ?|\)", "", trees)),
        **dict.fromkeys(("both.hyp", "both.ref"), f"parse: {TREES[0]}\ntranslate: {tgt.splitlines()[0]}\n"),
        "in.jsonl": "".join(f'{{"src": "{line}"}}\n' for line in few.splitlines()),
    }.items():
        (folder / name).write_text(text)
    for name in ("a.de", "b.de"):
        (folder / name).write_text(few_out)
    for name, text in (
        *(("ep.en.gz", src), ("ep.de.gz", tgt)),
        *((name, trees) for name in ("a.mrg.gz", "b.mrg.gz", "silver.mrg.gz")),
        *((f"wsj/{section:02}/a.mrg.gz", trees) for section in range(25)),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress(text.encode()))
