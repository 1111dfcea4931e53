"""Abbreviations of the languages that write a full stop after them, in lower case and without their last full stop."""

from __future__ import annotations

__all__ = [
    "BEFORE_NAMES",
    "BEFORE_NUMBERS",
    "GERMAN_MONTHS",
    "HOST_ENDINGS",
    "MAY_END",
    "OPENING_WORDS",
    "WITH_EXCLAMATION",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BEFORE_NAMES = _words(
    """
    mr mrs ms messrs mx dr drs prof profs st ste mt pres gov gen col lt sgt capt cmdr adm supt
    rep sen hon rev msgr cpt med phil
    fr vs viz cf e.g eg i.e approx
    hr hrn fr frl dipl z.b d.h u.a bzw sog vgl inkl evtl ggf bspw insb z.t i.d.r u.u v.a ca geb str
    mme mlle mgr env bd c.-à-d p.ex
    sr sra srta srs dra dña ud uds p.ej avda
    sig sig.ra dott dott.ssa avv egr spett
    dhr mevr mw bijv d.w.z o.a t.a.v i.p.v m.b.t
    sra exmo exma
    г-н г-жа т.е т.н т.к т.д ул пл пр им проф акад гр св напр ср см тов
    κα κος π.χ δηλ βλ
    np tzn tzw m.in ul prof inż mgr
    např tj tzv mj
    डॉ श्री श्रीमती पं प्रो ডা ড মো
    ძვ ე.წ თბ
    """
)
"""They never end a sentence"""

BEFORE_NUMBERS = _words(
    """
    no nos nr n.o num núm fig figs pp pg pgs vol vols ch chap sec sect arts eq eqs
    jan feb apr jun jul aug sep sept oct nov dec tue thu fri
    abb abs kap bd tab ziff rn tel okt dez
    pág págs cap fasc av avda
    стр рис табл гл ст тел
    σελ αρ
    """
)
"""They do not end a sentence before a number"""

MAY_END = _words(
    """
    inc ltd co corp bros jr sr esq ave blvd rd etc dept est ph.d m.d b.a m.a d.c u.s u.s.a u.k u.n e.u a.m p.m b.c a.d
    usw u.s.w etc gmbh z.zt i.a al mio mrd
    г гг в вв руб др пр долл тыс млн млрд
    """
)
"""They end a sentence before a word that opens one"""

OPENING_WORDS = _words(
    """
    the a an he she it they we i you this that these those there here his her its their our my your but and so in on at
    when what who why how if then after before yes no
    der die das ein eine er sie es wir ihr ich dieser diese dieses aber und so dann wenn was wer wie dort hier
    он она оно они мы вы я это но и а в на как что когда потом
    """
)

GERMAN_MONTHS = _words("januar jänner februar märz april mai juni juli august september oktober november dezember")

WITH_EXCLAMATION = _words("yahoo jeopardy yum panic wham joomla chips-ahoy airplane oliver")
"""Names that are written with a mark behind them"""

HOST_ENDINGS = _words(
    """
    com net org edu gov info biz io app dev de fr uk us eu ru ch at nl pl ua jp cn
    exe dll txt pdf doc docx xls xlsx ppt csv xml html htm php js ts py rb java cpp md json yaml yml zip tar gz jpg jpeg
    png gif svg mp3 mp4 odt ods odp int cz dk fi gr hu kr nz br mx xyz
    log sql db tmp toml ini cfg conf tsv jsonl rst tex rtf pptx xliff tmx bmp tiff webp ico wav ogg flac avi mkv
    webm srt vtt tgz bz2 xz rar iso msi dmg apk deb rpm jar ipynb css scss rs sh ps1 epub ttf pem
    """
)
"""Ends of the names of hosts and files"""
