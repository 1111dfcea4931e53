"""Files of translated units: TMX, XLIFF 1.2 and 2, and gettext's PO."""

from __future__ import annotations

__all__ = ["PoFile", "TmxFile", "XliffFile"]

from abc import abstractmethod
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import DataError, Rejected
from s2s.data import open_bytes
from s2s_text_corpora.languages import matching, same_language
from s2s_text_corpora.pair_file import EMPTY, PairFile, as_pair, check_text, library, one_line
from s2s_text_corpora.xml_units import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from s2s import Example
    from s2s_text_corpora.xml_units import Element


class Languages(NamedTuple):
    """Those of source and target, as the file has them; empty: it does not say."""

    src: str
    tgt: str


CODE = ("bpt", "ept", "it", "ph", "ut", "note")
"""Elements whose inside is no text"""
SIDES, TURNED = Languages("source", "target"), Languages("target", "source")
UNTRANSLATED = Rejected("not translated")
STATES = ("new", "needs-translation", "initial")
N_SAMPLED = 100
LARGEST = 1 << 28
"""Bytes of a PO file, which is read whole"""


class _UnitFile(PairFile):
    """Rows are texts by language."""

    place = ", unit at line "

    def wanted(self) -> Languages:
        """The languages that the user names."""
        return Languages(*(self.reading.columns or self.reading.languages))

    def decided(self) -> str:
        layout = self.layout()
        return "" if all(self.wanted()) or not all(layout) else f"source {layout.src}, target {layout.tgt}"

    def pair(self, row: Mapping[str, str], layout: Languages) -> Example | Rejected:
        src, tgt = (row.get(code) or row.get(_first(code, row), "") for code in layout)
        check_text("source", src)
        check_text("target", tgt)
        return as_pair(src, tgt) if src and tgt else EMPTY


class TmxFile(_UnitFile):
    """Translation memories, in any of their versions, streamed."""

    def rows(self) -> Iterator[tuple[int, Any]]:
        header: dict[str, str] = {}
        around = units(self.path, {"tu"}, lambda name, found: header.update(found if name == "header" else {}))
        for line, unit in around:
            texts: dict[str, str] = {}
            for variant in unit.elements("tuv"):
                code = variant.attributes.get("xml:lang") or variant.attributes.get("lang", "")
                segments = variant.elements("seg")
                texts.setdefault(code, segments[0].text(CODE) if segments else "")
            source = _first(unit.attributes.get("srclang", header.get("srclang", "")), texts)
            yield line, {source: texts[source], **texts} if source else texts  # the source first

    def layout(self) -> Languages:
        sample = [row for _, row in islice(self.rows(), N_SAMPLED)]
        codes = list(dict.fromkeys(code for row in sample for code in row))
        named = ", ".join(codes[:12])
        if all(self.wanted()):
            found = Languages(*(matching(code, codes) or _first(code, codes) for code in self.wanted()))
            if codes and not all(found):
                raise DataError(f"{self.path}: {' to '.join(self.wanted())} is wanted, but it has {named}")
            return found
        if len({code.lower() for code in codes}) > 2:
            raise DataError(f"{self.path}: has {named}; say task.src_lang=… task.tgt_lang=…")
        return Languages(*[*codes, "", ""][:2])


class _BilingualFile(_UnitFile):
    """A file with one source and one target; rows are `{"source": …, "target": …}`."""

    @abstractmethod
    def languages(self) -> Languages:
        """What the file says of them."""

    def layout(self) -> Languages:
        wanted, found = self.wanted(), self.languages()
        if not all(wanted) or wanted == SIDES or (wanted != TURNED and _agree(wanted, found)):
            return SIDES
        if wanted == TURNED or _agree(wanted, Languages(found.tgt, found.src)):
            return TURNED
        raise DataError(f"{self.path}: {' to '.join(wanted)} is wanted, but it has {' to '.join(filter(None, found))}")

    def decided(self) -> str:
        found = self.languages()
        return f"source {found.src}, target {found.tgt}" if all(found) and not all(self.wanted()) else ""


class XliffFile(_BilingualFile):
    """XLIFF 1.2 and 2, and its dialects, streamed: units with a translation."""

    def rows(self) -> Iterator[tuple[int, Any]]:
        return ((line, _sides(unit)) for line, unit in units(self.path, {"trans-unit", "segment"}, lambda *_: None))

    def languages(self) -> Languages:
        found: set[Languages] = set()

        def outer(name: str, has: Mapping[str, str]) -> None:
            if name in ("xliff", "file") and (has.keys() & {"srcLang", "source-language"}):
                src, tgt = (
                    has.get("srcLang", has.get("source-language")),
                    has.get("trgLang", has.get("target-language")),
                )
                found.add(Languages(src or "", tgt or ""))

        for _ in units(self.path, {"trans-unit", "segment"}, outer):
            pass
        if len(found) > 1:
            pairs = ", ".join(" to ".join(languages) for languages in sorted(found))
            raise DataError(f"{self.path}: has {pairs}; make a file of each")
        return found.pop() if found else Languages("", "")


def _sides(unit: Element) -> dict[str, str] | Rejected:
    source, target = unit.elements("source"), unit.elements("target")
    state = (target[0].attributes.get("state") if target else None) or unit.attributes.get("state")
    if not source or not target or state in STATES:
        return UNTRANSLATED
    return {"source": source[0].text(CODE), "target": target[0].text(CODE)}


class PoFile(_BilingualFile):
    """gettext's PO, by translate-toolkit: messages with a translation that is not fuzzy."""

    place = ", message "

    def rows(self) -> Iterator[tuple[int, Any]]:
        messages = chain.from_iterable(_messages(unit) for unit in self._store.units)
        return enumerate(messages, 1)

    def languages(self) -> Languages:
        return Languages("", self._store.gettargetlanguage() or "")

    @cached_property
    def _store(self) -> Any:
        with open_bytes(self.path, text=False) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise DataError(f"{self.path}: more than {LARGEST:,} bytes; split it")
        pypo = library("translate.storage.pypo", "translate-toolkit", "documents", self.path)
        try:
            return pypo.pofile.parsestring(data)
        except (ValueError, LookupError, AttributeError) as error:
            raise one_line(error, self.path, "PO") from None


def _messages(unit: Any) -> Iterator[dict[str, str] | Rejected]:
    """The message of a unit, or its singular and its last plural."""
    if unit.isheader() or unit.isobsolete() or not unit.source:
        return
    sources, targets = [str(unit.source)], [str(unit.target or "")]
    if unit.hasplural():
        sources, targets = ([str(form) for form in forms.strings] for forms in (unit.source, unit.target))
        sources, targets = (sources, [targets[0], targets[-1]]) if len(targets) > 1 else (sources[-1:], targets)
    for src, tgt in zip(sources, targets, strict=False):
        yield {"source": src, "target": tgt} if unit.istranslated() else UNTRANSLATED


def _first(language: str, codes: Iterable[str]) -> str:
    """Of several regions of a language, the first; empty if there is none."""
    return next((code for code in codes if same_language(code, language)), "")


def _agree(wanted: Languages, found: Languages) -> bool:
    """Whether languages are the same where they are known."""
    return all(same_language(one, other) for one, other in zip(wanted, found, strict=True) if one and other)
