"""German forms: declension of articles, adjectives and nouns, conjugation, numbers, contractions.

Tables are indexed by gender (masculine, feminine, neuter, plural) and case (nominative, accusative, dative, genitive).
"""

from __future__ import annotations

__all__ = [
    "ACC", "DAT", "GEN", "NOM", "PLURAL", "Complex", "Principal", "Stem", "Table", "block", "cardinal", "conjugate",
    "contract", "decline_article", "decline_noun", "imperative", "parse_principal", "thousands", "zu_infinitive",
]  # fmt: skip

from typing import NamedTuple

NOM, ACC, DAT, GEN = range(4)
PLURAL = 3
Table = tuple[tuple[str, ...], ...]


def table(masculine: str, feminine: str, neuter: str, plural: str) -> Table:
    """A declension from its four lines; - is an empty ending."""
    return tuple(tuple(line.replace("-", "").split(" ")) for line in (masculine, feminine, neuter, plural))


DEFINITE = table("der den dem des", "die die der der", "das das dem des", "die die den der")
DER_ENDINGS = table("er en em es", "e e er er", "es es em es", "e e en er")
EIN_ENDINGS = table("- en em es", "e e er er", "- - em es", "e e en er")
WEAK = table("e en en en", "e e en en", "e e en en", "en en en en")
MIXED = table("er en en en", "e e en en", "es es en en", "en en en en")
STRONG = table("er en em en", "e e er er", "es es em en", "e e en er")
RELATIVE = table("der den dem dessen", "die die der deren", "das das dem dessen", "die die denen deren")


def decline_article(stem: str, endings: Table) -> Table:
    """All forms of an article: kein + EIN_ENDINGS, dies + DER_ENDINGS."""
    return tuple(tuple(stem + ending for ending in line) for line in endings)


def decline_noun(singular: str, plural: str, genitive: str, gender: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The four cases, singular and plural; a masculine genitive without -s makes the noun weak."""
    oblique = genitive if gender == 0 and not genitive.endswith("s") else singular
    dative = plural if plural.endswith(("n", "s")) else plural + "n"
    return (singular, oblique, oblique, genitive), (plural, plural, dative, plural)


class Stem(NamedTuple):
    """The parts of an infinitive."""

    prefix: str
    """Separable prefix, or empty."""
    infinitive: str
    stem: str


class Principal(NamedTuple):
    """Principal parts of a verb."""

    base: Stem
    third: str
    """Third person singular, present."""
    past: str
    """Third person singular, past, without a separable prefix."""
    participle: str
    """With its prefix: aufgemacht."""
    sein: bool
    """The perfect is formed with sein."""
    reflexive: bool


class Complex(NamedTuple):
    """A finite verb and its complement, in both word orders; all but `finite` begin with a space or are empty."""

    finite: str
    """Second in a main clause: macht, hat."""
    end: str
    """Last in a main clause: auf, aufgemacht."""
    joined: str
    """Last in a subordinate clause: aufmacht, aufgemacht hat."""


def parse_principal(text: str) -> Principal:
    """Principal parts from a line of the lexicon; weak verbs need only the infinitive."""
    words = text.split()
    reflexive, sein = words[0] == "sich", "ist" in words
    words = [word for word in words if word not in ("sich", "ist")]
    prefix, _, infinitive = words[0].rpartition("|")
    base = Stem(prefix, infinitive, infinitive.removesuffix("n").removesuffix("e"))
    if len(words) == 4:
        return Principal(base, words[1], words[2], prefix + words[3], sein, reflexive)
    e = "e" if base.stem.endswith(("t", "d", "gn", "fn")) else ""
    ge = "" if infinitive.endswith("ieren") or infinitive.startswith(("be", "ver", "er", "ent")) else "ge"
    return Principal(base, f"{base.stem}{e}t", f"{base.stem}{e}te", f"{prefix}{ge}{base.stem}{e}t", sein, reflexive)


def present(verb: Principal) -> tuple[str, ...]:
    """ich, du, er, wir, ihr (unused: as er), sie."""
    infinitive, third = verb.base.infinitive, verb.third
    if not third.endswith("t"):  # weiß, mag and the modals
        return third, third + ("t" if third.endswith("ß") else "st"), third, infinitive, third, infinitive
    root = third.removesuffix("t")
    second = third if root.endswith(("s", "ß", "z")) else root + "st"
    return verb.base.stem + "e", second, third, infinitive, third, infinitive


def past(form: str) -> tuple[str, ...]:
    """ich, du, er, wir, ihr (unused: as er), sie, from the third person."""
    second = form + ("est" if form.endswith(("t", "d")) else "t" if form.endswith(("s", "ß")) else "st")
    plural = form + ("n" if form.endswith("e") else "en")
    return form, second, form, plural, form, plural


SEIN = (("bin", "bist", "ist", "sind", "ist", "sind"), past("war"))
HABEN = (("habe", "hast", "hat", "haben", "hat", "haben"), past("hatte"))
WERDEN = (("werde", "wirst", "wird", "werden", "wird", "werden"), past("wurde"))
MODALS = {
    "can": present(parse_principal("können kann konnte gekonnt")),
    "could": past("konnte"),
    "must": present(parse_principal("müssen muss musste gemusst")),
    "may": present(parse_principal("dürfen darf durfte gedurft")),
    "should": past("sollte"),
    "want": present(parse_principal("wollen will wollte gewollt")),
    "wanted": past("wollte"),
}


def compound(finites: tuple[str, ...], rest: str) -> tuple[Complex, ...]:
    """For each person: an auxiliary, and the forms that it governs at the end."""
    return tuple(Complex(finite, f" {rest}", f" {rest} {finite}") for finite in finites)


def simple(forms: tuple[str, ...], prefix: str) -> tuple[Complex, ...]:
    """For each person: a single verb, whose prefix is separated in a main clause."""
    return tuple(Complex(form, f" {prefix}" if prefix else "", f" {prefix}{form}") for form in forms)


def conjugate(verb: Principal, *, copula: bool = False) -> dict[str, tuple[Complex, ...]]:
    """Every tense, mood and voice the corpus uses, each for six persons."""
    base, participle = verb.base, verb.participle
    infinitive, perfect = base.prefix + base.infinitive, SEIN if verb.sein else HABEN
    now = simple(SEIN[0] if copula else present(verb), base.prefix)
    forms = {"present": now, "progressive": now, "past": simple(past(verb.past), base.prefix)}
    forms |= {"perfect": compound(perfect[0], participle), "pluperfect": compound(perfect[1], participle)}
    forms |= {"future": compound(WERDEN[0], infinitive)}
    forms |= {modal: compound(finites, infinitive) for modal, finites in MODALS.items()}
    forms |= {"is done": compound(WERDEN[0], participle), "was done": compound(WERDEN[1], participle)}
    forms |= {"has been done": compound(SEIN[0], f"{participle} worden")}
    forms |= {"will be done": compound(WERDEN[0], f"{participle} werden")}
    forms |= {"must be done": compound(MODALS["must"], f"{participle} werden")}
    return forms


def imperative(verb: Principal) -> tuple[str, str]:
    """The imperative for du, and the prefix at the end: mach, auf; lies; arbeite."""
    stem, root = verb.base.stem, verb.third.removesuffix("t")
    changed = root != stem and "i" in root and "ä" not in root and "u" not in root  # e becomes i; a keeps its a
    form = root if changed else stem + ("e" if stem.endswith(("t", "d", "gn", "fn")) else "")
    return form, f" {verb.base.prefix}" if verb.base.prefix else ""


def zu_infinitive(verb: Principal) -> str:
    """aufzumachen, zu lesen; begins with a space."""
    base = verb.base
    return f" {base.prefix}zu{base.infinitive}" if base.prefix else f" zu {base.infinitive}"


TO_NINETEEN = """null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
siebzehn achtzehn neunzehn"""
UNITS = TO_NINETEEN.split()
TENS = ("", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")


def cardinal(n: int) -> str:
    """The word for 0 to 99, units before tens: 21 is einundzwanzig."""
    if n < 20:
        return UNITS[n]
    tens, unit = divmod(n, 10)
    return TENS[tens] if not unit else f"{'ein' if unit == 1 else UNITS[unit]}und{TENS[tens]}"


def thousands(n: int) -> str:
    """Digits with the German thousands separator: 1.250."""
    return f"{n:,}".replace(",", ".")


CONTRACTED = {
    "in dem ": "im ", "in das ": "ins ", "an dem ": "am ", "an das ": "ans ", "von dem ": "vom ", "zu dem ": "zum ",
    "zu der ": "zur ",
}  # fmt: skip


def contract(preposition: str, phrase: str) -> str:
    """A preposition and its noun phrase, contracted with an article: im Garten, zur Schule."""
    head = f"{preposition} {phrase[:4]}"
    return CONTRACTED[head] + phrase[4:] if head in CONTRACTED else f"{preposition} {phrase}"


def block(clause: str) -> str:
    """A subordinate clause between commas; `sentence` later drops doubled and trailing ones."""
    return f", {clause},"
