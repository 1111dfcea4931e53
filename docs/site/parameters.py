"""For the reference: what a function takes, and what a data class holds, as a table of names, types and defaults.

The meaning of a parameter is what the docstring says after its name and a colon; where it says nothing, what another
method of the class or of its bases says of a parameter of that name and type. That of a field is its own docstring.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import griffe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
FACTORY = re.compile(r"field\(default_factory=(?:lambda: )?(?P<made>.+)\)")


class Tables(griffe.Extension):
    """Adds the tables to the docstrings."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[str, dict[str, str]]] = {}
        """Path of a function -> its docstring as `described`, before it has a table"""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """The parameters of a function or method that is documented."""
        parameters = [one for one in func.parameters if one.name not in ("self", "cls")]
        if func.docstring is None or not parameters:
            return
        rows = []
        for one in parameters:
            stars = STARS.get(one.kind, "") if one.kind else ""
            default = "" if stars else "required" if one.default is None else f"`{one.default}`"
            rows.append((f"{stars}{one.name}", one.annotation, default, self._meaning(func, one)))
        func.docstring.value = f"{self._described(func)[0]}\n\n{table('parameter', rows)}"

    def _meaning(self, func: griffe.Function, parameter: griffe.Parameter) -> str:
        for one in _methods(func):
            same = next((other for other in one.parameters if other.name == parameter.name), None)
            text = self._described(one)[1].get(parameter.name)
            if text and same and str(same.annotation) == str(parameter.annotation):
                return text
        return ""

    def _described(self, func: griffe.Function) -> tuple[str, dict[str, str]]:
        if func.path not in self.parts:
            text = func.docstring.value if func.docstring else ""
            self.parts[func.path] = described(text, [one.name for one in func.parameters])
        return self.parts[func.path]

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """The fields of a data class or named tuple, in place of a paragraph for each."""
        holds_fields = "dataclass" in cls.labels or any(str(base) == "NamedTuple" for base in cls.bases)
        fields = [one for one in cls.attributes.values() if _is_field(one)] if holds_fields else []
        if cls.docstring is None or not fields:
            return
        rows = []
        for one in fields:
            default = "required" if one.value is None else f"`{FACTORY.sub(_made, str(one.value))}`"
            rows.append((one.name, one.annotation, default, one.docstring.value if one.docstring else ""))
            cls.members.pop(one.name, None)  # not there: it is inherited
        cls.docstring.value = f"{cls.docstring.value}\n\n{table('field', rows)}"


def _methods(func: griffe.Function) -> Iterable[griffe.Function]:
    """The function, and if it is a method, those of its name in base classes, and all others of these classes."""
    yield func
    if isinstance(func.parent, griffe.Class):
        classes = [func.parent, *(base for base in func.parent.mro() if isinstance(base, griffe.Class))]
        yield from (base.functions[func.name] for base in classes[1:] if func.name in base.functions)
        yield from (one for base in classes for one in base.functions.values())


def _is_field(attribute: griffe.Attribute) -> bool:
    return "instance-attribute" in attribute.labels and not attribute.is_private and attribute.annotation is not None


def _made(factory: re.Match[str]) -> str:
    made = factory["made"]
    return f"{made}()" if made.isidentifier() else made


def described(text: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """A docstring without what it says of parameters, in paragraphs with a line such as `limit: the most that …`; and
    name -> what it says."""
    begins = re.compile(rf"(?:^|(?<=\n)|(?<=[.;] ))`?(?P<name>{'|'.join(map(re.escape, names))})`?: ")
    prose, meanings = [], {}
    for paragraph in text.split("\n\n"):
        found = list(begins.finditer(paragraph))
        if not found:
            prose.append(paragraph)
            continue
        ends = [*(match.start() for match in found[1:]), len(paragraph)]
        for match, end in zip(found, ends, strict=True):
            meanings[match["name"]] = paragraph[match.end() : end].strip()
        if before := paragraph[: found[0].start()].rstrip():
            prose.append(f"{before[:-1]}." if before.endswith(";") else before)
    return "\n\n".join(prose), meanings


def table(what: str, rows: Iterable[tuple[str, object, str, str]]) -> str:
    """Markdown: name, type, default, and the meaning if one of them has one."""
    rows = list(rows)
    columns = 4 if any(meaning for *_, meaning in rows) else 3
    lines = [(what, "type", "default", ""), ("---",) * 4]
    for name, kind, default, meaning in rows:
        text = " ".join(meaning.split()).replace("|", r"\|")
        lines.append((f"`{name}`", f"`{kind}`" if kind else "", default, text))
    return "\n".join(f"| {' | '.join(line[:columns])} |" for line in lines)
