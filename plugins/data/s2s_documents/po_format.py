"""gettext's PO files: units without a translation, or with a fuzzy one, get one."""

from __future__ import annotations

__all__ = ["PoFormat"]

from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import DataError
from s2s.text import Document, DocumentFormat
from s2s_documents.accelerators import Accelerator, without_accelerator
from s2s_documents.libraries import library
from s2s_documents.message_flow import message_flow, write_message
from s2s_documents.runs import parts
from s2s_documents.template import Slot, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.text import AnnotatedText
    from s2s_documents import UnitConfig
    from s2s_documents.template import TemplatePart


MAX_FORMS = 6
"""Of a plural: Arabic has as many"""


class PoFormat(DocumentFormat):
    """PO, by translate-toolkit, which keeps the lines of units without a new translation as gettext writes them."""

    def __init__(self, config: UnitConfig) -> None:
        self.retranslate = config.retranslate

    def read(self, data: bytes) -> Document:
        pypo = library("translate.storage.pypo", "translate-toolkit")
        try:
            store = pypo.pofile.parsestring(data)
            "".encode(store.encoding)  # which may be any codec of Python, such as hex
        except (ValueError, LookupError, AttributeError) as error:  # AttributeError: a plural without translations
            raise DataError(f"no PO file: {error}") from None
        return _Messages(store, list(_units(store, retranslate=self.retranslate)))


class _Form(NamedTuple):
    """A form of a plural, or the only one."""

    message: str
    parts: list[TemplatePart]
    """Of the message without its accelerator"""
    accelerator: Accelerator | None

    @classmethod
    def read(cls, message: str) -> _Form:
        """The form of a message."""
        text, accelerator = without_accelerator(message)
        return cls(message, list(parts(message_flow(text), write_message, "message", folds=False)), accelerator)

    def written(self, outputs: Iterator[AnnotatedText]) -> str:
        """Its translation."""
        source = "".join(part if isinstance(part, str) else part.raw for part in self.parts)
        target = "".join(rendered(self.parts, outputs))
        if target == source or self.accelerator is None:
            return self.message if target == source else target
        return self.accelerator.put_into(target)


class _Unit(NamedTuple):
    """A unit to translate."""

    unit: Any
    forms: list[_Form]


class _Messages(Document):
    def __init__(self, store: Any, units: Sequence[_Unit]) -> None:
        self.store, self.units = store, units
        every = (part for unit in units for form in unit.forms for part in form.parts)
        self.blocks = [part.block for part in every if isinstance(part, Slot)]

    def render(self, outputs: Sequence[AnnotatedText]) -> bytes:
        remaining = iter(outputs)
        for one in self.units:
            targets = [form.written(remaining) for form in one.forms]
            one.unit.target = targets if one.unit.hasplural() else targets[0]
            one.unit.markfuzzy(False)
        return bytes(self.store)


def _units(store: Any, *, retranslate: bool) -> Iterator[_Unit]:
    n_forms = _n_forms(store)
    for unit in store.units:
        if unit.isheader() or unit.isobsolete() or not unit.source or (unit.istranslated() and not retranslate):
            continue
        messages = [str(unit.source)]
        if unit.hasplural():
            singular, plural = (str(form) for form in unit.source.strings)
            messages = [singular, *[plural] * (n_forms - 1)] if n_forms > 1 else [plural]
        yield _Unit(unit, list(map(_Form.read, messages)))


def _n_forms(store: Any) -> int:
    """The forms of a plural that the header declares, 2 if it does not; raises DataError for a number out of range."""
    declared = store.getheaderplural()[0] or ""  # INTEGER in a template
    if not declared.isdecimal():
        return 2
    digits = declared.lstrip("0") or "0"
    if len(digits) > 1 or not 1 <= int(digits) <= MAX_FORMS:
        raise DataError(f"the PO file declares nplurals={digits[:9]}, but a plural has 1 to {MAX_FORMS} forms")
    return int(digits)
