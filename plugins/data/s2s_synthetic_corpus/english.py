"""English forms: verb phrases as bracketings, numbers, and the text of a bracketing."""

from __future__ import annotations

__all__ = ["Frame", "VerbForms", "capitalised", "cardinal", "frames", "text", "verb_forms", "verb_phrase"]

import re
from typing import NamedTuple, TypeVar

T = TypeVar("T")
TAGS = ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG")
VB, VBP, VBZ, VBD, VBN, VBG, SILENT = range(7)
VerbForms = tuple[str, ...]
"""The verb as a leaf for each tag, including its particle, and "" for SILENT."""


def verb_forms(base: str, third: str, past: str, participle: str, ing: str, particle: str = "") -> VerbForms:
    """The leaves of a verb, such as (VBZ sees), for each tag."""
    words = (base, base, third, past, participle, ing)
    after = f" (PRT (RP {particle}))" if particle else ""
    return (*(f"({tag} {word}){after}" for tag, word in zip(TAGS, words, strict=True)), "")


class Frame(NamedTuple):
    """The context of a verb in one tense and person; openings begin with a space or are empty."""

    auxiliary: str
    """(VBZ has): moves before the subject in questions."""
    negated: str
    """The auxiliary with n't: (VBZ has) (RB n't)."""
    opening: str
    """From the auxiliary to the verb."""
    tag: int
    """Form of the verb after `opening`."""
    close: str
    """Brackets that close `opening`."""
    plain_opening: str
    """The opening without an auxiliary, if the tense can be formed without one; else empty."""
    plain_tag: int
    plain_close: str


def by_person(third: T, other: T, first: T | None = None) -> list[T]:
    """A form for each of I, you, he, we, (unused), they."""
    return [first or other, other, third, other, other, other]


def negate(auxiliary: str) -> str:
    """The auxiliary with n't, split as in the treebank: ca n't, wo n't; am and may take not instead."""
    if " am)" in auxiliary or " may)" in auxiliary:
        return f"{auxiliary} (RB not)"
    return auxiliary.replace(" can)", " ca)").replace(" will)", " wo)") + " (RB n't)"


def closing(opening: str) -> str:
    """The brackets that close the open ones."""
    return ")" * (opening.count("(") - opening.count(")"))


def tense(
    auxiliaries: list[str], opening: str, tag: int, plain: list[tuple[str, int]] | None = None
) -> tuple[Frame, ...]:
    """The frames of one tense; `plain`: opening and form where there is no auxiliary."""
    alone = plain or [("", SILENT)] * 6
    return tuple(
        Frame(auxiliary, negate(auxiliary), opening, tag, closing(opening), before, form, closing(before))
        for auxiliary, (before, form) in zip(auxiliaries, alone, strict=True)
    )


DO, DID = by_person("(VBZ does)", "(VBP do)"), ["(VBD did)"] * 6
HAVE, HAD = by_person("(VBZ has)", "(VBP have)"), ["(VBD had)"] * 6
BE, WAS = by_person("(VBZ is)", "(VBP are)", "(VBP am)"), by_person("(VBD was)", "(VBD were)", "(VBD was)")
MODALS = ("can", "could", "must", "may", "should")
VP, TO = " (VP ", " (S (VP (TO to) (VP "
BEEN, BE_DONE = " (VP (VBN been) (VP ", " (VP (VB be) (VP "


def frames(*, copula: bool = False) -> dict[str, tuple[Frame, ...]]:
    """Every tense, mood and voice of the corpus, for six persons; the copula `be` is its own auxiliary."""
    will, must = ["(MD will)"] * 6, ["(MD must)"] * 6
    forms = {modal: tense([f"(MD {modal})"] * 6, VP, VB) for modal in MODALS}
    forms |= {"perfect": tense(HAVE, VP, VBN), "pluperfect": tense(HAD, VP, VBN), "future": tense(will, VP, VB)}
    if copula:
        return forms | {"present": tense(BE, "", SILENT), "past": tense(WAS, "", SILENT)}
    present, past = by_person((VP, VBZ), (VP, VBP)), [(VP, VBD)] * 6
    wants = [(f" (VP {verb}{TO}", VB) for verb in by_person("(VBZ wants)", "(VBP want)")]
    return forms | {
        "present": tense(DO, VP, VB, present),
        "past": tense(DID, VP, VB, past),
        "progressive": tense(BE, VP, VBG),
        "want": tense(DO, f" (VP (VB want){TO}", VB, wants),
        "wanted": tense(DID, f" (VP (VB want){TO}", VB, [(f" (VP (VBD wanted){TO}", VB)] * 6),
        "is done": tense(BE, VP, VBN),
        "was done": tense(WAS, VP, VBN),
        "has been done": tense(HAVE, BEEN, VBN),
        "will be done": tense(will, BE_DONE, VBN),
        "must be done": tense(must, BE_DONE, VBN),
    }


def verb_phrase(frame: Frame, forms: VerbForms, rest: str, adverb: str, negation: str) -> str:
    """The verb phrase of a statement; `negation` is "", not or n't; the result begins with a space."""
    if frame.plain_opening and not negation:
        return f"{adverb}{frame.plain_opening}{forms[frame.plain_tag]}{rest}{frame.plain_close}"
    auxiliary = frame.negated if negation == "n't" else frame.auxiliary
    not_ = " (RB not)" if negation == "not" else ""
    return f" (VP {auxiliary}{not_}{adverb}{frame.opening}{forms[frame.tag]}{rest}{frame.close})"


TO_NINETEEN = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
UNITS = TO_NINETEEN.split()
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def cardinal(n: int) -> str:
    """The word for 0 to 99: twenty-one."""
    if n < 20:
        return UNITS[n]
    tens, unit = divmod(n, 10)
    return f"{TENS[tens]}-{UNITS[unit]}" if unit else TENS[tens]


LEAF = re.compile(r" ([^ ()]+)\)")


def text(tree: str) -> str:
    """The English text of a bracketing: its leaves, with punctuation, n't and 's attached."""
    words = " ".join(LEAF.findall(tree))
    for detached, attached in ((" ,", ","), (" n't", "n't"), (" 's", "'s")):
        words = words.replace(detached, attached)
    return words[:-2] + words[-1]


def capitalised(tree: str) -> str:
    """The tree with a capital at the start of its first leaf."""
    at = tree.rindex(" ", 0, tree.index(")")) + 1
    return tree[:at] + tree[at].upper() + tree[at + 1 :]
