"""A YAML value converted to the type of its option, after a check that nothing changes its meaning.

Most values have their type already; omegaconf converts the others, and is imported with the first of them.
"""

from __future__ import annotations

__all__ = ["build_choice", "choice_factory", "convert", "entry_config"]

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, make_dataclass
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from s2s.compose.options import Option, options_of, type_text, union_members
from s2s.compose.renamed import targets
from s2s.compose.settings import has_reference, origin_prefix
from s2s.compose.yaml12 import Float, Int, plain, to_text
from s2s.errors import ConfigError, PluginError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.registry import Choice, Entry, Registry


class _MisfitError(Exception):
    """What to do about a value that does not fit; may be empty."""


def convert(option: Option, value: Any, origin: str) -> Any:
    """The value in the type of its field: tuples, paths, enums and dataclasses built from YAML values."""
    try:
        checked = _check(value, option.hint)
        return checked if _fits(checked, option.hint) else _build(option, checked)
    except _MisfitError as misfit:
        hint = str(misfit)
    _holder(option)  # a type that omegaconf does not know is the plugin's mistake, not the user's
    if isinstance(value, str) and not hint:
        kinds = union_members(option.hint)
        words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        hint = did_you_mean(value, map(str, words))
    default = "it has no default" if option.required else f"the default is {to_text(option.default)}"
    shown = getattr(value, "text", None) or to_text(value)[:200]
    what = f"{origin_prefix(origin)}{option.key}={shown}: expected {type_text(option.hint)}; {default}."
    raise ConfigError(f"{what} {hint.strip()}".rstrip())


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type already: omegaconf would take 0.03 s for its import and 0.001 s for each value."""
    kinds = union_members(hint)
    if isinstance(value, list | dict):
        inner = [get_args(kind) or (str, Any) for kind in kinds if (get_origin(kind) or kind) in (type(value), Any)]
        if len(inner) != 1 or (isinstance(value, dict) and inner[0][0] not in (str, Any)):
            return False
        return all(_fits(v, inner[0][-1]) for v in (value.values() if isinstance(value, dict) else value))
    literals = (v for kind in kinds if get_origin(kind) is Literal for v in get_args(kind))
    of_type = type(value) in ((bool, int, float, str, NoneType) if Any in kinds else kinds)
    return (of_type and value != "???") or any(type(v) is type(value) and v == value for v in literals)


def _build(option: Option, value: Any) -> Any:
    """The value as omegaconf converts it."""
    if has_reference(value):  # omegaconf's own may read the environment; those of a configuration are replaced before
        raise _MisfitError("'${' cannot stand in it.")
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        merged: Any = OmegaConf.to_object(OmegaConf.merge(_holder(option), {"value": value}))
    except (OmegaConfBaseException, TypeError, ValueError) as error:  # ValueError: from a dataclass's own checks
        is_plain = len(union_members(option.hint)) == 1 and not isinstance(value, list | Mapping)
        # The types say it all of a plain value.
        raise _MisfitError("" if is_plain or isinstance(error, TypeError) else str(error).splitlines()[0]) from error
    return merged.value


def _holder(option: Option) -> Any:
    """A structured configuration with the type of the option."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.structured(make_dataclass("Holder", [("value", option.hint)]))
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise PluginError(f"{option.owner.__qualname__}.{option.field.name}: {reason}") from error


def _check(value: Any, hint: Any) -> Any:
    """The value in plain types; an error where omegaconf would convert it to something with another meaning."""
    kinds = union_members(hint)
    if Any in kinds:
        return _no_question_marks(plain(value))
    if isinstance(value, list | tuple):
        _expect(list, tuple, among=kinds)  # omegaconf takes [[1]] for list[int]
        inner = [get_args(k) for k in kinds if get_origin(k) in (list, tuple) and get_args(k)]
        return [_check(v, _element(inner, i)) for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        _expect(dict, among=[dict if is_dataclass(kind) else kind for kind in kinds])
        inner = [get_args(k)[1:] for k in kinds if get_origin(k) is dict]
        return {str(k): _check(v, _element(inner, 0)) for k, v in value.items()}
    return _no_question_marks(_check_scalar(value, kinds))


def _expect(*containers: type, among: Sequence[Any]) -> None:
    if not any((get_origin(kind) or kind) in containers for kind in among):
        raise _MisfitError


def _element(inner: list[tuple[Any, ...]], index: int) -> Any:
    """The type of a list's, tuple's or mapping's element; Any where omegaconf will refuse it anyway."""
    if len(inner) != 1:
        return Any
    return inner[0][index] if index < len(inner[0]) and inner[0][-1] is not Ellipsis else inner[0][0]


def _check_scalar(value: Any, kinds: tuple[Any, ...]) -> Any:
    allowed = [v for kind in kinds if get_origin(kind) is Literal for v in get_args(kind)]
    takes = {*kinds, *(type(v) for v in allowed)}
    takes_text = str in takes or any(isinstance(k, type) and issubclass(k, Enum | PurePath) for k in kinds)
    if value is None:
        return None
    if isinstance(value, bool):
        if bool not in takes:
            raise _MisfitError(f"""If the word is meant, quote it: '"{to_text(value)}"'.""" if takes_text else "")
        return value
    if isinstance(value, int) and takes & {int, float}:
        return int(value) if int in takes else float(value)
    if isinstance(value, float) and float in takes:
        return float(value)
    if isinstance(value, Int | Float) and takes_text:
        return value.text
    if isinstance(value, str) and not takes_text:
        hint = "Write true or false." if bool in takes else ""
        raise _MisfitError("A number is written without leading zeros." if value[:1] == "0" else hint)
    if not isinstance(value, str):
        raise _MisfitError("Write 100_000 for 1e5." if isinstance(value, float) and int in takes else "")
    return value


def _no_question_marks(value: Any) -> Any:
    if value == "???":
        raise _MisfitError("'???' stands for a missing value.")
    return value


def entry_config(entry: Entry, values: Mapping[str, Any], key: str) -> Choice:
    """The config of an entry that is named inside another's option, such as a metric of a task, with these options.

    `key` is where they stand in the configuration, for the error message.
    """
    known = {option.field.name: option for option in options_of(entry.config, f"{key}.")}
    for name in values:
        if name not in known:
            names = [target.rpartition(".")[2] for target in targets(f"{key}.{name}")]
            near = next((f" Did you mean '{other}'?" for other in names if other in known), "")
            hint = near or did_you_mean(str(name), known.keys() - {"name"})
            raise ConfigError(f"{key}.{name}: no such option.{hint}")
    return entry.config(**{name: convert(known[name], value, "command line") for name, value in values.items()})


def build_choice(
    value: Any,
    group: str,
    registry: Registry,
    key: str,
    *args: Any,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """What the entry makes that the option `key` names, alone or with options: `bpe`, `{name: bpe, …}`.

    args: further arguments of its factory. defaults: options of the entry where `value` does not set them.
    """
    return choice_factory(value, group, registry, key, defaults)(*args)


def choice_factory(
    value: Any, group: str, registry: Registry, key: str, defaults: Mapping[str, Any] = MappingProxyType({})
) -> Callable[..., Any]:
    """The factory of the entry that an option names, see `build_choice`; it takes the further arguments."""
    options = {"name": value} if isinstance(value, str) else value
    name = options.get("name") if isinstance(options, Mapping) else None
    if not isinstance(name, str):
        raise ConfigError(f"{key}={to_text(value)}: give a name, or a mapping with a name and options: {{name: …, …}}")
    if (group, name) not in registry.entries:
        raise ConfigError(f"{key}={name}: {registry.unknown_message(group, name).partition(': ')[2]}")
    entry = registry.get(group, name)
    return partial(entry.build, entry_config(entry, {**defaults, **options}, key))
