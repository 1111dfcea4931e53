"""For the site: README.md is its first page, every public module has a page of reference, and links to files beside
docs/ become the names of those files."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the first page, and those of the reference."""
    files.append(File.generated(config, "index.md", content=_readme((ROOT / "README.md").read_text(encoding="utf-8"))))
    for module in _listed(ROOT / "s2s" / "__init__.py", "PUBLIC"):
        files.append(File.generated(config, f"reference/{module}.md", content=_reference(module)))
    return files


def _reference(module: str) -> str:
    """A page with the public names of a module, as `docs/reference.md` links to it."""
    path = ROOT / module.replace(".", "/")
    names = _listed(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"), "__all__")
    modules = [name for name in names if (path / name).is_dir() or (path / f"{name}.py").is_file()]
    objects = [f"::: {module}.{name}\n" for name in names if not name.startswith("__") and name not in modules]
    return "\n".join(
        [f"# {module}\n", f"::: {module}\n    options: {{members: false, show_root_heading: false}}\n", *objects]
    )


def _listed(path: Path, variable: str) -> list[str]:
    """The texts of a list at the top of a module, which is read without being imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == variable:
            return [str(item) for item in ast.literal_eval(node.value)]
    raise ValueError(f"{path}: no list {variable}")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name the files that pages of docs/ link to outside of it; the reference links to the pages of all modules."""
    named = _named(markdown, (ROOT / "docs" / page.file.src_uri).parent)
    if page.file.src_uri != "reference.md":
        return named
    modules = [f"- [`{module}`](reference/{module}.md)" for module in _listed(ROOT / "s2s" / "__init__.py", "PUBLIC")]
    return "\n".join([named, "\n## All public modules\n", *modules])


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
