"""For the reference: what a function takes, and what a data class holds, as a table of names, types and defaults.

The meaning of a parameter is what the docstring says after its name and a colon; that of a field is its own docstring.
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

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """The parameters of a function or method that is documented."""
        parameters = [one for one in func.parameters if one.name not in ("self", "cls")]
        if func.docstring is None or not parameters:
            return
        prose, meanings = described(func.docstring.value, [one.name for one in parameters])
        rows = []
        for one in parameters:
            stars = STARS.get(one.kind, "") if one.kind else ""
            default = "" if stars else "required" if one.default is None else f"`{one.default}`"
            rows.append((f"{stars}{one.name}", one.annotation, default, meanings.get(one.name, "")))
        func.docstring.value = f"{prose}\n\n{table('parameter', rows)}"

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
            del cls.members[one.name]
        cls.docstring.value = f"{cls.docstring.value}\n\n{table('field', rows)}"


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
