"""Pages of all options in docs/options, from the registry: `python tools/option_pages.py [--check]`.

The text of an option is the docstring under its field, as in `--help`. `--check` writes nothing, and exits with 1 if a
page is not what this program would write.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import is_dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.cli.documentation import docs, summary
from s2s.compose.options import hints_of, is_section, options_of, type_text
from s2s.compose.yaml12 import to_text
from s2s.plugin import load_plugins
from s2s.registry import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from s2s.compose.options import Option
    from s2s.registry import Registry

FOLDER = Path(__file__).parent.parent / "docs" / "options"
PAGES = {
    "architectures": ("Architectures", ("arch",)),
    "tasks": ("Tasks and corpora", ("task", "corpus", "tokenizer", "noise", "linear")),
    "learning": ("Objectives, optimizers, schedules", ("objective", "optim", "schedule", "recipe", "strategy")),
    "outputs": (
        "Searches, metrics, formats",
        ("search", "metric", "input_format", "output_format", "document_format", "exporter"),
    ),
}
"""File -> title, and the groups whose entries it describes"""
INTRODUCTION = """# Options

All options of s2s and its plugins, as `--help` and `s2s-plugins show` print them: generated from their
docstrings by `make options`. [Configuration](../configuration.md) explains how options are
given, in files and on command lines.
"""
HEADER = ("| option | type | default | |", "|---|---|---|---|")


def main(check: bool) -> int:
    """Write the pages, or compare them; the exit code."""
    pages = dict(_pages())
    stale = [name for name, text in pages.items() if not _is_current(FOLDER / name, text)]
    stale += [path.name for path in FOLDER.glob("*.md") if path.name not in pages]
    for name in stale:
        print(f"docs/options/{name}: " + ("not up to date; run `make options`" if check else "written"))
        if check:
            continue
        if name in pages:
            (FOLDER / name).write_text(pages[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    return int(check and bool(stale))


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _pages() -> Iterator[tuple[str, str]]:
    """File name and text of each page."""
    registry = load_plugins().registry
    schemas = [(name, registry.with_options(schema)) for name, schema in _commands()]
    yield "index.md", INTRODUCTION + "\n" + "\n".join(_contents(registry, [name for name, _ in schemas]))
    for name, schema in schemas:
        yield f"{name}.md", "\n".join(_command(name, schema))
    for name, (title, groups) in PAGES.items():
        yield f"{name}.md", "\n".join([f"# {title}", "", *(line for g in groups for line in _group(g, registry))])


def _contents(registry: Registry, commands: Iterable[str]) -> Iterator[str]:
    yield from ("| page | options of |", "|---|---|")
    for name in commands:
        yield f"| [{name}]({name}.md) | the command |"
    for name, (title, groups) in PAGES.items():
        names = ", ".join(f"`{group}=`" for group in groups if group in registry.groups)
        yield f"| [{title}]({name}.md) | what is chosen by {names} |"
    yield ""


def _commands() -> Iterator[tuple[str, type]]:
    """Each command that takes options, with the dataclass of its own ones: the docstring begins with its name."""
    scripts = {e.name: e.value for e in distribution("s2s-toolkit").entry_points if e.group == "console_scripts"}
    for value in scripts.values():
        importlib.import_module(value.partition(":")[0])
    classes = {
        value
        for name, module in list(sys.modules.items())
        if name.partition(".")[0].startswith("s2s")
        for value in vars(module).values()
        if inspect.isclass(value) and is_dataclass(value)
    }
    named = {(vars(value).get("__doc__") or "").partition(":")[0]: value for value in classes}
    return ((name, named[name]) for name in sorted(scripts) if name in named)


def _command(name: str, schema: type) -> Iterator[str]:
    summary, hints = docs(schema), hints_of(schema)
    does, *examples = inspect.cleandoc(schema.__doc__ or "").partition(": ")[2].splitlines()
    yield from (f"# {name}", "", f"{does[0].upper()}{does[1:]}", "", "```text")
    yield from (*(line.strip() for line in examples if line.strip()), f"{name} --help", "```", "")
    plain = [o for o in options_of(schema) if o.key in hints and o.key not in GROUPS]
    yield from _table(plain)
    groups = [f"`{key}=`" for key in hints if key in GROUPS]
    if groups:
        yield from (f"{', '.join(groups)} choose an entry with options of its own: [contents](index.md).", "")
    for section in (key for key in hints if key not in GROUPS and is_section(hints[key])):
        yield from (f"## {section}", "", summary.get(section, ""), "")
        yield from _table([o for o in options_of(schema) if o.key.startswith(f"{section}.")])


def _group(group: str, registry: Registry) -> Iterator[str]:
    for (of, name), entry in sorted(registry.entries.items()):
        if of != group:
            continue
        yield from (f"## {group}={name}", "", f"{summary(entry)} (plugin `{entry.plugin}`)", "")
        yield from _table([o for o in options_of(entry.config, f"{group}.") if o.key != f"{group}.name"])
    presets = sorted(name for (of, name) in registry.presets if of == group)
    if presets:
        yield from (f"Presets of `{group}=`: {', '.join(f'`{name}`' for name in presets)}.", "")


def _table(options: Iterable[Option]) -> Iterator[str]:
    rows = [_row(option) for option in options]
    if rows:
        yield from (*HEADER, *rows, "")


def _row(option: Option) -> str:
    text = " ".join(docs(option.owner).get(option.field.name, "").split())
    default = "required" if option.required else f"`{to_text(option.default)}`"
    return (
        "| " + " | ".join(_escaped(cell) for cell in (f"`{option.key}`", type_text(option.hint), default, text)) + " |"
    )


def _escaped(cell: str) -> str:
    """For a cell of a table in Markdown."""
    return cell.replace("|", "\\|").replace("<", "&lt;") if "`" not in cell else cell.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
