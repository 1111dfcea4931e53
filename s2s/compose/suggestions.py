"""Errors for unknown keys, with the option that was probably meant."""

from __future__ import annotations

__all__ = ["command_name", "unknown_option", "unknown_root"]

from dataclasses import fields
from typing import TYPE_CHECKING

from s2s.compose.options import options_of
from s2s.compose.renamed import targets
from s2s.errors import did_you_mean
from s2s.registry import GROUPS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from s2s.registry import Registry


def command_name(schema: type) -> str:
    """The command whose configuration this is: the first word of its docstring."""
    return (schema.__doc__ or schema.__name__).partition(":")[0]


def unknown_option(
    key: str, schema: type, sections: Mapping[str, type], known: Collection[str], absent_hint: str = ""
) -> str:
    """For a key of a known root: the option meant, or all options of the innermost section that exists.

    absent_hint: the result of `Registry.absent_hint`.
    """
    left_out = _not_loaded(absent_hint)
    if near := _meant(key, known):
        return f"no such option.{left_out} Did you mean '{near}'?"
    section = key.rpartition(".")[0]
    while section and section not in sections:
        section = section.rpartition(".")[0]
    of = f" of {section} ({sections[section].__name__})" if section else f" of {command_name(schema)}"
    return f"no such option{of}.{left_out}{did_you_mean(key, {k for k in known if k.rpartition('.')[0] == section})}"


def unknown_root(key: str, schema: type, registry: Registry) -> str:
    """For a key whose first part the command does not have; of groups, the options of all entries are known."""
    roots, keys = [item.name for item in fields(schema)], [option.key for option in options_of(schema)]
    root, _, name = key.rpartition(".")
    if root and key in keys:  # one key with dots, in a file
        return f"no such option. In a file it is written {root}: {{{name}: …}}"
    groups = GROUPS.keys() & roots
    in_groups = [target for target in targets(key) if target.partition(".")[0] in groups]
    if not root:
        entries = (entry for entry in registry.entries.values() if entry.group in groups)
        options = (option.key for entry in entries for option in options_of(entry.config, f"{entry.group}."))
        in_groups += [option for option in options if option.rpartition(".")[2] == name]
    near = _meant(key, [*in_groups, *keys, *roots])
    hint = f" Did you mean {near!r}?" if near else did_you_mean(key.partition(".")[0], roots)
    return f"no such option.{_not_loaded(registry.absent_hint())}{hint}"


def _not_loaded(absent_hint: str) -> str:
    """Plugins that might have added the option, if any were left out."""
    return f" No loaded plugin offers it.{absent_hint}" if absent_hint else ""


def _meant(key: str, known: Collection[str]) -> str:
    """The known key that `key` is an old or foreign name of, the closest, or one with the same last part; or empty."""
    import difflib  # only for errors

    name = key.rpartition(".")[2]
    known_targets = [target for target in targets(key) if target in known]
    known_targets += difflib.get_close_matches(key, known, cutoff=0.75)
    known_targets += [k for k in known if k.rpartition(".")[2] == name]
    return next(iter(known_targets), "")
