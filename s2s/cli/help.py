"""--help: one screen for a command, and every detail of a group, section or option."""

from __future__ import annotations

__all__ = ["choice_text", "explain", "overview", "wrapped"]

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.cli.documentation import WIDTH, describe, docs, summary
from s2s.compose.composition import merge_groups
from s2s.compose.merging import default_choice
from s2s.compose.options import hints_of, is_section, options_of
from s2s.compose.references import resolve
from s2s.errors import ConfigError, did_you_mean
from s2s.registry import GROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s.plugin import Plugins

SOUGHT = {"task": ("translation",), "arch": ("transformer",)}
"""Group -> prefixes of the names that an overview lists first, since it is cut to one line"""


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
    chosen = [*groups, "experiment"] if "task" in groups else groups
    lines += ["", *(_line(f"{group}=", _names(group, plugins)) for group in chosen)]
    if sections:
        lines.append(_line("sections", ", ".join(f"{name}.*" for name in sections)))
    lines += wrapped("options", ", ".join([*plain, "plugins"]))
    lines += ["", *(_line(flag, text) for flag, text in flags.items())]
    lines += [
        "",
        f"{command} --help NAME explains a name from above, such as {(groups or plain)[0]}",
    ]
    return "\n".join(lines)


def _line(head: str, text: str) -> str:
    return f"  {head:14}  {textwrap.shorten(text, WIDTH - 18, placeholder=' …')}"


def wrapped(head: str, text: str) -> list[str]:
    """A heading, and text next to it, wrapped."""
    indent = " " * 18
    return textwrap.fill(text, WIDTH, initial_indent=f"  {head:14}  ", subsequent_indent=indent).splitlines()


def _names(group: str, plugins: Plugins) -> str:
    """All names of a group: those that most users need, those registered, and presets whose names begin with one."""
    registry = plugins.registry
    registered = tuple(name for g, name in registry.entries if g == group)
    known = SOUGHT.get(group, registered)
    names = sorted(
        registry.names(group), key=lambda name: (not name.startswith(known), not name.startswith(registered))
    )
    return ", ".join(names) or "(none installed)"


def explain(schema: type, topics: Sequence[str], plugins: Plugins) -> str:
    """Everything about the topics: `arch=transformer_big`, a group, a section or an option."""
    choices = [topic for topic in topics if "=" in topic and not topic.startswith("plugins=")]
    names = [topic for topic in topics if "=" not in topic and not topic.endswith((".yaml", ".yml"))]
    shown = names or list(dict.fromkeys(choice.partition("=")[0].partition(".")[0] for choice in choices))
    if not shown:
        raise ConfigError("--help: name a group, a section or an option beside it, such as --help train")
    return "\n".join(_about(schema, name, choices, plugins) for name in shown)


def _about(schema: type, name: str, choices: Sequence[str], plugins: Plugins) -> str:
    hints = hints_of(schema)
    if name == "plugins":
        return "plugins: modules or files of your own to load, as in plugins=[my_arch,./mine.py]"
    if name == "experiment":
        return "\n".join(["experiment: A preset over all groups.", *wrapped("experiment=", _names(name, plugins))])
    root = name.partition(".")[0]
    if root in GROUPS and root in hints:
        return _about_group(schema, name, choices, plugins)
    options = [o for o in options_of(schema) if o.key == name or o.key.startswith(f"{name}.")]
    if not options:
        known = [*hints, *(option.key for option in options_of(schema))]
        raise ConfigError(f"--help {name}: no such name.{did_you_mean(name, known)}")
    title = f"{name}: {docs(schema).get(name, '')}" if name in hints and is_section(hints[name]) else name
    return describe(options, {}, title)


def _about_group(schema: type, name: str, choices: Sequence[str], plugins: Plugins) -> str:
    group = name.partition(".")[0]
    group_choices = [choice for choice in choices if choice.partition("=")[0].partition(".")[0] == group]
    if group_choices:
        return choice_text(group, group_choices, plugins)
    known = [f"{group}: {docs(schema).get(group, '')}", *wrapped(f"{group}=", _names(group, plugins)), ""]
    if default := default_choice(schema, group):
        return "\n".join([*known, choice_text(group, [f"{group}={default}"], plugins)])
    return "\n".join([*known, f"--help {group}=NAME shows every option of one"])


def choice_text(group: str, choices: Sequence[str], plugins: Plugins, key: str = "") -> str:
    """Every option of a choice, as in `arch=transformer_big arch.d_model=512`.

    key: the option that names the choice where it is not the group, such as task.subword: options are shown below it.
    """
    merged = merge_groups([group], choices, plugins)
    entry, values = merged.entries[group], resolve(merged, keep_unresolved=True)
    key, begin = key or group, f"{group}."
    options = {name: o for name, o in merged.options.items() if name.startswith(begin) and name != f"{group}.name"}
    shown = [replace(option, key=f"{key}.{name.removeprefix(begin)}") for name, option in options.items()]
    at = {one.key: (values[name], merged.origin(name)) for name, one in zip(options, shown, strict=True)}
    doc = summary(entry)
    title = f"{key}.name = {entry.name} (plugin {entry.plugin}){': ' + doc if doc else ''}"
    return describe(shown, at, title)
