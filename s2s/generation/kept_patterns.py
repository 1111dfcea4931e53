"""What is kept of a text, as patterns of the module `regex`: each takes time in proportion to the text."""

from __future__ import annotations

__all__ = ["GATE", "PATTERNS", "Pattern"]

import re
from typing import NamedTuple

from s2s.data.abbreviations import GERMAN_MONTHS, HOST_ENDINGS, OPENING_WORDS
from s2s.text.words import UNSPACED


class Pattern(NamedTuple):
    """One kind of parts."""

    kind: str
    """As the option `keep` has it"""
    regex: str
    """Without groups"""
    is_apart: bool = False
    """Whether its parts are no words of a sentence, and therefore never decoded"""
    is_quote: bool = False
    """Whether it is kept in pairs only"""


GATE = re.compile(
    r"[^A-Za-zÀ-ʯ\u0370-\u1aff\s.,!?;'-]|\.[\w.]|(?<!\w)[-']|[-'](?!\w)|^[ \t]*\w{1,5}\.[ \t]|[\x1c-\x1f]", re.MULTILINE
)
"""Some character of whatever `PATTERNS` find, which most sentences lack: they need no closer look"""
WIDTH = r"[-+#0]*+(?:[1-9]\d*+)?"
"""Flags and width of a format such as %05d, without a second way to match a zero"""
WIDE = rf"[{UNSPACED}\p{{Hangul}}]"
ADDRESS = rf"(?:\([^\s()]*\)|(?!{WIDE})[^\s()<>\"“”„«»。、，！？：；）」』】])*(?<![.,;:!?…\]}}'’])"
"""The rest of an address"""
LABEL = rf"(?:(?!{WIDE})[\w-])++"
BEGIN = rf"(?:(?<![\w.@/\\:-])|(?<={WIDE}))"
BRACED = r"(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+"
MONTHS = "|".join(sorted(GERMAN_MONTHS))
NUMERAL = r"(?:\d{1,3}(?:\.(?:\d{1,3}|[a-z]))*+[a-z]?|[A-Za-z]|(?i:(?=[ivx])x{0,3}(?:ix|iv|v?i{0,3})))"
OPENERS = "|".join(sorted(OPENING_WORDS))
ENDINGS = "|".join(sorted(HOST_ENDINGS))
TIME = r"(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\d{1,2}:\d\d(?::\d\d)?)"
ITEM = (
    r"(?:[-–—*+•‣◦⁃∙·▪▫●○■□>→]+|\#{1,6}|\.{2,3}"
    rf"|\(?{NUMERAL}\.?\)|\[(?:{NUMERAL}|{TIME}|\ )\]|\({TIME}\)"
    rf"|(?![A-Z]\.[ \t]+(?!(?i:{OPENERS})\b)){NUMERAL}[.:](?=[ \t]+(?!\p{{Ll}}|\d|(?i:{MONTHS})\b))"
    rf"|(?:§§?\ ?\d+[a-z]?|\d{{1,2}}(?:\.\d{{1,2}})++|\d{{1,3}}[°º]|{TIME}:?(?!\ (?:Uhr|[AP]M)\b)|\d{{1,3}}(?=\ [-–—]))"
    r"(?=[ \t]+(?:[-–—][ \t]+)?[\"'“„«‘(\[]?\p{Lu}))"
)
"""What stands before an item of a list or a paragraph; a number without punctuation only before a capital letter.
A capital letter and a full stop are an initial, except before a word that opens sentences"""
WIDE_ITEM = r"(?:(?:\d{1,3}|[一二三四五六七八九十]{1,3})[、．]|[（(][一二三四五六七八九十]{1,3}[）)])"
ICU = "plural|select|selectordinal|choice|number|date|time|duration|spellout|ordinal|list"
CODES = "mailto|tel|sms|urn|sip|xmpp|magnet|geo|doi"

PATTERNS = (
    Pattern(
        "urls",
        r"(?:(?i:https?://|\b(?!\w{1,20}https?://)[a-z][a-z\d+.-]{0,20}+://"  # the first also glued to a word
        rf"|\b(?:{CODES}):)(?=[^\s])|(?<!\w)www\.){ADDRESS}",
    ),
    Pattern("emails", r"(?<![\w.+-])[\w.+-]+@\w[\w-]*(?:\.\w[\w-]*)+"),
    Pattern(
        "markup",
        r"<!--[^<>]*-->|<%[^%<>]*+%>|<\?[^?<>]*+\?>|</[A-Za-z][\w:.-]*+\s*>"
        r"|<[A-Za-z][\w:.-]*+(?:\s+[\w:@.-]++\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>/]++))*+\s*/?>"
        r"|&(?:[A-Za-z][A-Za-z\d]{1,31}|\#\d{1,7}|\#[xX][\da-fA-F]{1,6});",  # &amp;
        is_apart=True,
    ),
    Pattern("items", rf"(?m:^)[ \t]*+(?:{ITEM}(?=[ \t])(?:[ \t]+{ITEM}(?=[ \t]))*+|{WIDE_ITEM})", is_apart=True),
    Pattern(
        "placeholders",
        r"\{{2,3}[^{}]{0,200}+\}{2,3}|\{[%#][^{}]{0,200}+\}|\[\[[^\s\[\]]++\]\]|<<\w++>>"  # {{ x }}, {% x %}, [[x]]
        rf"|\{{\s*\w+\s*,\s*(?:{ICU})\b{BRACED}\}}"
        r"|[$\#@%]\{[^{}\n]*+\}|\{\s?[^\s{}]*+\s?\}|\$\[\w+\]|\$\([\w.]+\)|\$\w+\$|\$[A-Za-z_]\w*"  # ${x}, {0}, $x
        r"|(?<!\w)__[A-Z\d_]++(?<=__)|\[[A-Z][A-Z\d_]++\]|(?<![\w:]):[A-Za-z_]\w*+:?"  # __X__, [NAME], :name
        rf"|%\(\w+\){WIDTH}(?:\.\d+)?[a-zA-Z]|%\[\d+\][a-zA-Z]|%%"  # %(n)d, %[1]s
        rf"|(?<!%)%(?:\d+\$)?{WIDTH}(?:\.\d+)?(?:hh?|ll?|[Lzjt])?[sdiufFeEgGxXoc@](?![A-Za-z])"  # %s, %1$d, %.2f
        r"|(?<![\d%])%(?:\w+%|[A-Z_]{2,}|\d+(?!\w)|[a-zA-Z](?!\w))",  # %PATH%, %PRODUCTNAME, %1
    ),
    Pattern(
        "names",
        r"\b[A-Za-z]:\\(?:[\w.$~()-]++(?:\ [\w.$~()-]++){0,3}+\\)*+(?:[\w.$~()-]*\w)?"  # C:\x
        r"|\\\\\w[\w.$-]*+(?:\\[\w.$~-]++)++|(?<![\w/.])(?:~|\.{1,2})?/\w[\w.+~@%-]*(?:/[\w.+~@%-]+)*/?(?<!\.)"  # /etc
        rf"|{BEGIN}{LABEL}(?:\.{LABEL})*"
        rf"(?:\.(?:(?:{ENDINGS})|(?<=[A-Z\d]\.)(?i:{ENDINGS}))(?!\w)(?:\(\)|(?::\d+)?(?:[/?\#](?!\s|$){ADDRESS})?)"
        rf"|\.[a-z][a-z\d]++(?:\(\)|(?::\d+)?/(?!\s|$){ADDRESS}|:\d+))"  # example.org, report.pdf, x.call(), youtu.be/x
        rf"|{BEGIN}(?:localhost|\d{{1,3}}(?:\.\d{{1,3}}){{3}})(?:(?::\d+)(?:/{ADDRESS})?)?(?!\.?\w)"
        rf"|{BEGIN}v?\d{{1,3}}(?:\.\d{{1,2}}){{2,}}+(?!\.?\w)|{BEGIN}v\d++(?:\.\d++)++(?!\.?\w)"  # versions
        rf"|{BEGIN}(?!\d+_)[A-Za-z\d]++(?:_++[A-Za-z\d]++)++(?:\(\))?|{BEGIN}[A-Za-z_]\w*+\(\)"  # snake_case, call()
        r"|(?<![\w@/.])@\w[\w.@/-]*+(?<=\w)|(?<![\w@/.])@\w[\w-]*|(?<![\w&\#/])\#\w++"  # @user, #tag
        r"|(?<!\S)--[a-z][\w-]*+(?:=[^\s,;]+)?"  # --help
        r"|\\(?:[abfnrtv0\"'\\]|\d+)(?![a-z])",  # \n
    ),
    Pattern(
        "symbols",
        r"\((?i:c|r|tm|sm)\)|\ufffd|[\p{Cc}--[\s\x1c-\x1f]]"
        r"|[\p{Dt=Super}\p{Dt=Sub}\p{Dt=Circle}\p{Dt=Square}\p{Dt=Fraction}]"  # ™ ² ① ½, which normalisation respells
        r"|[\p{Dt=Compat}--[\p{L}\p{M}\s…‥]]|(?<!\S)\p{M}++(?!\S)",  # № Ⅳ ℃; marks by themselves
        is_apart=True,
    ),
    Pattern("symbols", r"(?<!\w)'(?=\S)|(?<=\S)'(?!\w)", is_quote=True),
    Pattern("numbers", r"(?<![\w.,])[-+]?\d+(?:[.,:\u00a0\u202f']\d+)*(?![\w])"),
)
"""Where several begin at one place, the first counts; blanks at the beginning of a match are no part of it"""
