"""For the site: README.md is its first page, and links to files beside docs/ become the names of those files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the first page."""
    files.append(File.generated(config, "index.md", content=_readme((ROOT / "README.md").read_text(encoding="utf-8"))))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name the files that pages of docs/ link to outside of it."""
    return _named(markdown, (ROOT / "docs" / page.file.src_uri).parent)


def _readme(text: str) -> str:
    """Its links are relative to the root of the repository."""
    return re.sub(r"\]\(docs/", "](", _named(text, ROOT))


def _named(markdown: str, folder: Path) -> str:
    """With the name of each file in place of a link to it that would lead nowhere on the site."""

    def name(link: re.Match[str]) -> str:
        target = (folder / link["target"]).resolve()
        on_site = target.is_relative_to(ROOT / "docs") and target.suffix == ".md"
        if on_site or not target.is_relative_to(ROOT) or not target.exists():
            return link[0]  # where it is wrong, the strict build says so
        return f"{link['text']} (`{target.relative_to(ROOT)}`)"

    return LINK.sub(name, markdown)
