"""What `--help` says: one screen for a command, and every detail of what stands beside it."""

from __future__ import annotations

__all__ = ["choice_text", "explain", "overview"]

import io
import sys
import textwrap
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from s2s.compose import choose, resolve
from s2s.compose.draft import default_of
from s2s.describe import Option, docs, hints_of, is_section, options, print_rows, rows
from s2s.errors import ConfigError, did_you_mean
from s2s.registry import GROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s.plugin import Plugins

WIDTH = 100


def overview(schema: type, flags: Mapping[str, str], plugins: Plugins) -> str:
    """At most 25 lines: usage, examples, groups with their choices, sections, options, flags."""
    command, _, summary = (schema.__doc__ or "").strip().partition("\n")[0].partition(": ")
    examples = [line.strip() for line in (schema.__doc__ or "").splitlines()[1:] if line.strip()]
    hints = hints_of(schema)
    groups = [name for name in hints if name in GROUPS]
    sections = [name for name in hints if name not in groups and is_section(hints[name])]
    plain = [name for name in hints if name not in groups and name not in sections]
    lines = [
        f"{command}: {summary}",
        "",
        f"usage: {command} [file.yaml ...] [group=choice ...] [key=value ...]",
    ]
    lines += [f"  {example}" for example in examples]
    lines += ["", *(_line(f"{g}=", _first(plugins.registry.names(g))) for g in groups)]
    if sections:
        lines.append(_line("sections", ", ".join(f"{name}.*" for name in sections)))
    lines += _wrapped("options", ", ".join([*plain, *_loose(schema)]))
    lines += ["", *(_line(flag, text) for flag, text in flags.items())]
    lines += [
        "",
        f"{command} --help {(groups or sections or plain)[0]} tells more; so it does of every name above.",
    ]
    return "\n".join(lines)


def _loose(schema: type) -> list[str]:
    return ["experiment", "plugins"] if any(f.name == "task" for f in fields(schema)) else ["plugins"]


def _line(head: str, text: str) -> str:
    return f"  {head:14}  {textwrap.shorten(text, WIDTH - 18, placeholder=' …')}"


def _wrapped(head: str, text: str) -> list[str]:
    indent = " " * 18
    return textwrap.fill(text, WIDTH, initial_indent=f"  {head:14}  ", subsequent_indent=indent).splitlines()


def _first(names: Sequence[str]) -> str:
    return ", ".join(names) or "(none installed)"


def explain(schema: type, topics: Sequence[str], plugins: Plugins) -> str:
    """All about what is named: `arch=transformer_big`, a group, a section or an option."""
    choices = [topic for topic in topics if "=" in topic]
    names = [topic for topic in topics if "=" not in topic and not topic.endswith((".yaml", ".yml"))]
    shown = names or list(dict.fromkeys(choice.partition("=")[0].partition(".")[0] for choice in choices))
    if not shown:
        raise ConfigError("--help: name a group, a section or an option beside it, such as --help train")
    return "\n".join(_about(schema, name, choices, plugins) for name in shown if name != "plugins")


def _about(schema: type, name: str, choices: Sequence[str], plugins: Plugins) -> str:
    hints, registry = hints_of(schema), plugins.registry
    if name == "experiment":
        return f"experiment: {_first(registry.names(name))}"
    root = name.partition(".")[0]
    if root in GROUPS and root in hints:
        return _about_group(schema, name, choices, plugins)
    found = [o for o in options(schema) if o.key == name or o.key.startswith(f"{name}.")]
    if not found:
        known = [*hints, *(option.key for option in options(schema))]
        raise ConfigError(f"--help {name}: no such name.{did_you_mean(name, known)}")
    title = f"{name}: {docs(schema).get(name, '')}" if name in hints else name
    return _table(found, {}, title)


def _about_group(schema: type, name: str, choices: Sequence[str], plugins: Plugins) -> str:
    group, registry = name.partition(".")[0], plugins.registry
    own = [choice for choice in choices if choice.partition("=")[0].partition(".")[0] == group]
    default = default_of(schema, group)
    known = f"{group}: {docs(schema).get(group, '')}\n  {group}= {_first(registry.names(group))}"
    if not own and not default:
        return known
    return f"{known}\n\n{choice_text(group, own or [f'{group}={default}'], plugins)}"


def choice_text(group: str, choices: Sequence[str], plugins: Plugins) -> str:
    """Every option of a choice, as in `arch=transformer_big arch.d_model=512`."""
    made = choose([group], choices, plugins)
    entry, values = made.entries[group], resolve(made, keep_unresolved=True)
    found = [option for key, option in made.options.items() if key.startswith(f"{group}.") and key != f"{group}.name"]
    said = {option.key: (values[option.key], made.origin(option.key)) for option in found}
    doc = (entry.config.__doc__ or "").partition("\n")[0]
    title = f"{group}.name = {entry.name} (plugin {entry.plugin}){': ' + doc if doc else ''}"
    return _table(found, said, title)


def _table(found: Sequence[Option], said: Mapping[str, tuple[Any, str]], title: str) -> str:
    """As a table where a person reads it, else as lines."""
    stream = io.StringIO()
    print_rows(rows(found, said), title, stream, table=sys.stdout.isatty())
    return stream.getvalue()
