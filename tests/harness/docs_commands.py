"""Every command of s2s on every page of the documentation, and why some of them cannot run in a test."""

from __future__ import annotations

import gzip
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from folders import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = {
    "docs/plugins.md": "its plugins and commands run in test_docs.py, beside the files of the page",
    "docs/clusters.md": "several machines or GPUs, or a scheduler: test_clusters.py, test_launcher.py",
    "docs/serving.md": "a server that does not end: test_serve.py",
    "docs/export.md": "needs the extra `export`: test_export.py",
}
"""Pages whose commands are tested elsewhere, or not here, and where"""
NOT_HERE = {
    "…": "not a whole command",
    "[-p COLLINS]": "not a whole command",
    "pip install": "installs from the network",
    "torchrun": "torch's launcher: test_launcher.py",
    "make ": "runs everything else",
    "experiment=wmt14": "a model and a corpus of the paper's size",
    "experiment=table3": "a model of the paper's size",
    "s2s-study": "trains for hours",
    "wsj": "a treebank with a licence of its own",
    "newstest2014": "a corpus of the paper's size",
    "arch=transformer_base": "a model of the paper's size",
    "arch=luong": "a model of the paper's size",
    "task=translation arch=convs2s": "a model of the paper's size",
    "arch=mixture arch.of.name=transformer": "a model of the paper's size",
    "arch=neural_gpu task=translation": "a model of the paper's size",
    "objective.teachers=[mle]": "needs the model of the paper's size before it",
    "train.budget=2h": "measures for a minute what two hours are worth: test_budget.py",
    "quantization=int8": "needs a processor with 8-bit products: test_linear.py",
    "s2s-serve": "a server that does not end: test_serve.py",
    "s2s_parsing.silver": "needs a treebank with a licence of its own: test_parsing_silver.py",
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
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for body in (body for language, body in blocks if language in ("sh", "bash", "")):
            for line in re.sub(r"\\\n\s*", "", body).splitlines():
                text = re.sub(r"\s+#.*", "", line).strip()
                if BEGINS.match(text) and ": error:" not in text:
                    yield Command(str(page.relative_to(ROOT)), text)


def is_plain(text: str) -> bool:
    """Whether it is one command, without pipes and redirections."""
    return text.startswith("s2s-") and not set(shlex.split(text)) & {"|", "<", ">", ";"}


def write_files(folder: Path) -> None:
    """What the pages read: pairs, lists of sentences, trees."""
    from tiny_runs import write_corpus

    write_corpus(folder, 60)
    src, tgt = ((folder / f"a.{side}").read_text() for side in ("en", "de"))
    for name in ("corpus", "dev", "test", "train", "general", "medical", "meddev"):
        (folder / f"{name}.en").write_text(src)
        (folder / f"{name}.de").write_text(tgt)
    pairs = "".join(f"{a}\t{b}\n" for a, b in zip(src.splitlines(), tgt.splitlines(), strict=True))
    few, few_out = ("".join(text.splitlines(keepends=True)[:3]) for text in (src, tgt))
    for name, text in {
        **dict.fromkeys(("train.tsv", "dev.tsv", "test.tsv", "news.tsv"), pairs),
        **dict.fromkeys(("in.en", "in.txt", "sentences.txt", "raw.txt"), few),
        **dict.fromkeys(("ours.hyp", "theirs.hyp"), tgt),
        "ref.de": few_out,
        **dict.fromkeys(("news.de", "books.de", "dev.de", "mono.de"), tgt),
        **dict.fromkeys(("gold.mrg", "dev.mrg", "other.mrg"), "".join(f"{tree}\n" for tree in TREES)),
        "words.txt": "".join(f"{' '.join(re.findall(r'[^ ()]+(?=[)])', tree))}\n" for tree in TREES),
        "in.jsonl": "".join(f'{{"src": "{line}"}}\n' for line in few.splitlines()),
    }.items():
        (folder / name).write_text(text)
    for name in ("a.de", "b.de"):
        (folder / name).write_text(few_out)
    for name, text in (
        *(("ep.en.gz", src), ("ep.de.gz", tgt)),
        *((name, "\n".join(TREES)) for name in ("a.mrg.gz", "b.mrg.gz")),
    ):
        (folder / name).write_bytes(gzip.compress(text.encode()))
