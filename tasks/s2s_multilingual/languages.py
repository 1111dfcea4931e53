"""The languages of a model: what inputs may call them, and which follow where an input names none."""

from __future__ import annotations

__all__ = ["Languages", "base_of", "short_codes"]

import re
from collections import Counter
from typing import TYPE_CHECKING

from s2s import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LONG = """
aa aar, ab abk, ae ave, af afr, ak aka, am amh, an arg, ar ara arb, as asm, av ava, ay aym ayr, az aze azj, ba bak,
be bel, bg bul, bi bis, bm bam, bn ben, bo bod tib, br bre, bs bos, ca cat, ce che, ch cha, co cos, cr cre, cs ces cze,
cu chu, cv chv, cy cym wel, da dan, de deu ger, dv div, dz dzo, ee ewe, el ell gre, en eng, eo epo, es spa, et est ekk,
eu eus baq, fa fas per pes, ff ful fuv, fi fin, fj fij, fo fao, fr fra fre, fy fry, ga gle, gd gla, gl glg, gn grn gug,
gu guj, gv glv, ha hau, he heb iw, hi hin, ho hmo, hr hrv, ht hat, hu hun, hy hye arm, hz her, ia ina, id ind, ie ile,
ig ibo, ii iii, ik ipk, io ido, is isl ice, it ita, iu iku, ja jpn, jv jav, ka kat geo, kg kon, ki kik, kj kua, kk kaz,
kl kal, km khm, kn kan, ko kor, kr kau knc, ks kas, ku kur kmr, kv kom, kw cor, ky kir, la lat, lb ltz, lg lug, li lim,
ln lin, lo lao, lt lit, lu lub, lv lav lvs, mg mlg plt, mh mah, mi mri mao, mk mkd mac, ml mal, mn mon khk, mr mar,
ms msa may zsm, mt mlt, my mya bur, na nau, nb nob, nd nde, ne nep npi, ng ndo, nl nld dut, nn nno, no nor, nr nbl,
nv nav, ny nya, oc oci, oj oji, om orm gaz, or ori ory, os oss, pa pan, pi pli, pl pol, ps pus pbt, pt por, qu que quy,
rm roh, rn run, ro ron rum, ru rus, rw kin, sa san, sc srd, sd snd, se sme, sg sag, si sin, sk slk slo, sl slv, sm smo,
sn sna, so som, sq sqi alb als, sr srp, ss ssw, st sot, su sun, sv swe, sw swa swh, ta tam, te tel, tg tgk, th tha,
ti tir, tk tuk, tl tgl fil, tn tsn, to ton, tr tur, ts tso, tt tat, tw twi, ty tah, ug uig, uk ukr, ur urd, uz uzb uzn,
ve ven, vi vie, vo vol, wa wln, wo wol, xh xho, yi yid ydd, yo yor, za zha, zh zho chi cmn, zu zul
"""
"""Codes of ISO 639-1, each with those of ISO 639-2 and 639-3, and with the one language of a group that models have"""
SHORT = {code: short for short, *codes in map(str.split, " ".join(LONG.split()).split(",")) for code in codes}
SEPARATORS = re.compile(r"[-_]")
ANYWHERE = "XX"
"""The region of mBART's languages that have none"""


def short_codes(codes: Iterable[str]) -> dict[str, str]:
    """Code of a language -> its shortest unambiguous name: deu_Latn -> de, zho_Hans -> zh-Hans beside zho_Hant."""
    codes = list(codes)
    counts = Counter(base_of(code) for code in codes)
    return {
        code: base_of(code) if counts[base_of(code)] == 1 else "-".join([base_of(code), *_rest(code)]) for code in codes
    }


def base_of(code: str) -> str:
    """The language without script and region, by ISO 639-1 if that has it."""
    name = SEPARATORS.split(code)[0].lower()
    return SHORT.get(name, name)


def _rest(code: str) -> list[str]:
    """Script and region."""
    return [part for part in SEPARATORS.split(code)[1:] if part != ANYWHERE]


class Languages:
    """The languages from and into which a model translates."""

    def __init__(
        self,
        directions: Sequence[tuple[str, str]],
        others: Sequence[str],
        defaults: tuple[str, str],
        *,
        needs_src: bool,
    ) -> None:
        """others: further languages of both sides. defaults: of inputs that name none, empty: none.

        needs_src: whether the model reads the language of sources.
        """
        self.directions, self.defaults, self.needs_src = directions, defaults, needs_src
        self.sources = list(dict.fromkeys([*(src for src, _ in directions if src), *others]))
        self.targets = list(dict.fromkeys([*(tgt for _, tgt in directions), *others]))
        self.codes = list(dict.fromkeys([*self.sources, *self.targets]))
        self.short = short_codes(self.codes)
        self._known: dict[tuple[str, str], tuple[str, str]] = {}

    def completed(self, src: str, tgt: str) -> tuple[str, str]:
        """The codes of both languages as the model has them, of which an input may leave open or shorten any.

        Raises ValueError for a language that it does not have, and for one that it needs and that does not follow.
        """
        if (src, tgt) not in self._known:
            self._known[src, tgt] = self._completed(src, tgt)
        return self._known[src, tgt]

    def _completed(self, src: str, tgt: str) -> tuple[str, str]:
        src, tgt = src and self._code(src, "src_lang", self.sources), tgt and self._code(tgt, "tgt_lang", self.targets)
        tgt = tgt or self._following(1, {into for start, into in self.directions if start == src or not src})
        if not tgt:
            raise ValueError(f"tgt_lang is missing: into which language? {self._listed(self.targets)}")
        src = src or self._following(0, {start for start, into in self.directions if into == tgt and start != tgt})
        if not src and self.needs_src:
            raise ValueError(f"src_lang is missing: in which language is the input? {self._listed(self.sources)}")
        return src, tgt

    def _following(self, side: int, possible: set[str]) -> str:
        """The language of a side that an input leaves open: the default, or the only possible one; empty: none."""
        if self.defaults[side] in possible:
            return self.defaults[side]
        return next(iter(possible)) if len(possible) == 1 else ""

    def _code(self, name: str, field: str, known: Sequence[str]) -> str:
        """The language that a name means: itself in any case, or the only one of that language."""
        if name in known:
            return name
        parts = [part.lower() for part in SEPARATORS.split(name)]
        same = [code for code in known if [part.lower() for part in SEPARATORS.split(code)] == parts]
        alike = same or [
            code for code in known if base_of(code) == base_of(name) and _may_mean(_rest(name), _rest(code))
        ]
        if len(alike) == 1:
            return alike[0]
        if alike:
            raise ValueError(f"{field}={name} may be {' or '.join(alike)}; give one of them")
        raise ValueError(f"{field}={name}: the model has no such language.{did_you_mean(name, known)}")

    def spelt(self, name: str) -> str:
        """The code that a name means; a language that is not known keeps its name."""
        try:
            return self._code(name, "language", self.codes)
        except ValueError:
            return name

    def _listed(self, known: Sequence[str]) -> str:
        shown = ", ".join(self.short[code] for code in known[:20])
        return f"Give one of {shown}{f' and {len(known) - 20} others' if len(known) > 20 else ''}"

    def offered(self) -> list[tuple[str, str, Mapping[str, str]]]:
        """Every direction by short names, and the fields of its inputs."""
        return [
            (self.short.get(src, src), self.short[tgt], {"src_lang": src, "tgt_lang": tgt})
            for src, tgt in self.directions
        ]


def _may_mean(given: Sequence[str], own: Sequence[str]) -> bool:
    """Whether the script and region of a name are those of a code, or one of the two has none."""
    return not given or not own or {part.lower() for part in given} <= {part.lower() for part in own}
