"""Parts of a text that are kept: what is found, what the model reads without them, and where they come back."""

from __future__ import annotations

import re
import time
from random import Random

import pytest
import regex

from s2s.data.invisible import visible
from s2s.data.sentence_rules import RuleSegmenter
from s2s.generation.kept_parts import KeptParts, Part
from s2s.generation.kept_patterns import GATE, PATTERNS
from s2s.generation.segments import Segment, unbroken
from s2s.generation.source_text import SourceText
from s2s.generation.text_layout import Piece, TextLayout
from s2s.registry import Choice
from s2s.text import Span

EXAMPLES = (
    *(
        f"{item} A"
        for item in ("1.", "1)", "a)", "A.", "iv.", "(a)", "-", "*", "•", "--", "...", "1.2", "12:30", "§ 3")
    ),
    *("{0}", "%s", "$x", "[[x]]", ":a", "[AB]", "__A__", "<b>", "&amp;", "a@b.c", "a://b", "tel:1", "www.a", "a.bc"),
    *("/ab", "C:\\a", "@a", "#a", "a_b", "f()", "--a", "\\n", "1.2.3", "™", "²", "①", "½", "ª", "№", "\ufffd", "\0"),
    *("'a'", "12", "(c)", "a '", "\u0301"),
)
LETTERS = set("abcdefghijklmnopqrstuvwxyzäABCDEFGHIJKLMNOPQRSTUVWXYZ .,'?!-ÄÖÜöüß0123456789")
EVERY = ("placeholders", "urls", "emails", "names", "markup", "items", "symbols")


def covers(text: str) -> bool:
    return set(visible(text)) <= LETTERS


def texts(text: str, kinds: tuple[str, ...] = EVERY) -> list[str]:
    return [text[part.begin : part.end] for part in KeptParts(kinds, covers)(text)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Open {0} and {name}, {} or {{x}}.", ["{0}", "{name}", "{}", "{{x}}"]),
        ("%s of %(n)d, %1$s at 100%, %.2f or 5%d", ["%s", "%(n)d", "%1$s", "%", "%.2f", "%d"]),
        ("$x$ ${HOME} $[name] %PRODUCTNAME %PATH% %1", ["$x$", "${HOME}", "$[name]", "%PRODUCTNAME", "%PATH%", "%1"]),
        ("See https://a.de/b?c=1&d=(e), or www.b.org.", ["https://a.de/b?c=1&d=(e)", "www.b.org"]),
        ("theyhttps://a.de/b sftp://x.y git+ssh://a/b", ["https://a.de/b", "sftp://x.y", "git+ssh://a/b"]),
        ("(http://a.de/x_y).", ["(", "http://a.de/x_y", ")"]),
        ("Mail a.b+c@d-e.co.uk.", ["a.b+c@d-e.co.uk"]),
        ("A 😀 🚀 b👩‍👩‍👧, 🇩🇪 👍🏽 1️⃣ c", ["😀", "🚀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "1️⃣"]),
        ("Hund😀. • x ≤ y 漢字 Ωmega Ω", ["😀", "•", "≤", "漢字", "Ω", "Ω"]),
        ("(c) a", ["(c)"]),
        ("- a\n  - b - c\n-d", ["-", "-"]),
        ("a\u00adb \u200d", []),
    ],
)
def test_parts_are_placeholders_addresses_and_symbols_that_no_token_spells(text: str, parts: list[str]) -> None:
    assert texts(text) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{{ a.b | c }} {{#if x}} {{{y}}} {% if x %}", ["{{ a.b | c }}", "{{#if x}}", "{{{y}}}", "{% if x %}"]),
        ("{a[0]} {x!r} {:>9.2f} ${a.b()} #{x} %{n}", ["{a[0]}", "{x!r}", "{:>9.2f}", "${a.b()}", "#{x}", "%{n}"]),
        ("{n, plural, one {# file} other {# of {m} files}}", ["{n, plural, one {# file} other {# of {m} files}}"]),
        (
            "{d, date, short} %@ %[1]s %-5d %% :name :a:",
            ["{d, date, short}", "%@", "%[1]s", "%-5d", "%%", ":name", ":a:"],
        ),
        ("[[x]] <<y>> __Z_1__ [NAME]", ["[[x]]", "<<y>>", "__Z_1__", "[NAME]"]),
        ("a <br>b<i>c</i> <a href='x y'>d</a> <x/>", ["<br>", "<i>", "</i>", "<a href='x y'>", "</a>", "<x/>"]),
        (
            "A&amp;B &nbsp; &#39; &#x27; <!-- c --> <?php x ?>",
            ["&amp;", "&nbsp;", "&#39;", "&#x27;", "<!-- c -->", "<?php x ?>"],
        ),
        ("in b.org, a-b.co.uk/c?d=e. Or a.pdf (x.tar.gz)", ["b.org", "a-b.co.uk/c?d=e", "a.pdf", "(", "x.tar.gz", ")"]),
        (
            "/etc/hosts ~/x ./r.sh ../a C:\\x D:\\My Dir\\y.z",
            ["/etc/hosts", "~/x", "./r.sh", "../a", "C:\\x", "D:\\My Dir\\y.z"],
        ),
        (
            "mailto:a@b.c tel:+49 ssh://a@b:2/c HTTP://A.ORG",
            ["mailto:a@b.c", "tel:+49", "ssh://a@b:2/c", "HTTP://A.ORG"],
        ),
        (
            "@handle, #tag a_b f() xy.call() --help 1.2.3",
            ["@handle", "#tag", "a_b", "f()", "xy.call()", "--help", "1.2.3"],
        ),
        ("™ m² ① № ½ ℃ \ufffd \0 ª", ["™", "²", "①", "№", "½", "℃", "\ufffd", "\0", "ª"]),
        ("ﬁ Ａ a\u0308", []),
        ("the 'big dog' isn't the dogs' one, 'tis", ["'", "'"]),
        ("in youtu.be/x or b.it:80, A.PDF", ["youtu.be/x", "b.it:80", "A.PDF"]),
        ("e.g. and/or z.B. a.m. 3.5 kg, No.5; hid.The dog.it hid.the HID.THE, well-known -- so", []),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_parts_are_templates_markup_names_and_what_normalisation_changes(text: str, parts: list[str]) -> None:
    every = set(map(chr, range(32, 127))) | set("ﬁＡ\u0308")
    found = KeptParts(EVERY, lambda one: set(one) <= every | set("™²①№½℃\ufffd\0ª"))(text)
    assert [text[part.begin : part.end] for part in found] == [part for part in parts if part not in "()"]


@pytest.mark.parametrize(
    "item",
    [
        "1.",
        "1)",
        "a)",
        "A.",
        "(a)",
        "1.2",
        "12:30",
        "*",
        "•",
        "§ 3",
        "[1]",
        "iv.",
        "IV)",
        "- 1.",
        "- [ ]",
        "2024-01-01 12:30",
        "##",
    ],
)
def test_what_stands_before_an_item_is_no_part_of_its_sentence(item: str) -> None:
    text = f"{item} The dog hid."
    (part,) = KeptParts(EVERY, covers)(text)
    assert text[: part.end] == item
    ((piece, kept),) = unbroken(text, [part], lambda one: [Piece("", one)])
    assert (piece, kept) == (Piece(f"{item} ", "The dog hid."), [])


@pytest.mark.parametrize(
    "text",
    [
        "3 men hid.",
        "1990 was cold.",
        "1.5 million hid.",
        "3. Mai war kalt.",
        "I hid.",
        "A dog hid.",
        "A. Merkel hid.",
        "J. Smith",
        "mix: a, b",
    ],
)
def test_a_sentence_may_begin_with_a_number_or_a_letter(text: str) -> None:
    assert texts(text, ("items",)) == []


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("'The dog.'", Piece("'", "The dog.", "'")),
        ("★ ( „The dog.“ ) ", Piece("★ ( „", "The dog.", "“ ) ")),
        ("<p><b>The dog.</b></p>", Piece("<p><b>", "The dog.", "</b></p>")),
        ("&quot;The dog.&quot;", Piece("&quot;", "The dog.", "&quot;")),
        ("« The dog. »", Piece("« ", "The dog.", " »")),
        ("(The dog) hid ★", Piece("", "(The dog) hid", " ★")),
        ("'%s'", Piece("", "'%s'")),
    ],
)
def test_what_is_not_decoded_at_the_edges_is_no_part_of_a_sentence(text: str, piece: Piece) -> None:
    """Brackets only if they are around all of it."""
    known = LETTERS - set("'")
    parts = KeptParts(EVERY, lambda one: set(one) <= known)(text)
    ((found, _),) = unbroken(
        text, parts, lambda one: [Piece(one[: len(one) - len(one.lstrip())], one.strip(), one[len(one.rstrip()) :])]
    )
    assert found == piece


@pytest.mark.parametrize(
    ("opening", "closing"),
    ["()", "[]", "''", '""', "„“", "«»", "»«", "「」", "``", ("<b>", "</b>"), ("&lt;", "&gt;")],
)
def test_brackets_come_back_around_the_translation_of_what_they_enclose(opening: str, closing: str) -> None:
    text = f"It is {opening}the dog{closing} now."
    source = SourceText.without(text, KeptParts(EVERY, lambda one: set(one) <= LETTERS - set("'"))(text))
    assert source.read == "It is the dog now."
    links = [(0, 2, 9, 11), (3, 5, 12, 15), (6, 9, 16, 19), (10, 13, 20, 24), (14, 17, 0, 8), (17, 18, 24, 25)]
    assert source.restored("Nunmehr: es ist der Hund.", links)[0] == f"Nunmehr: es ist {opening}der Hund{closing}."


MARKS = ("()", "[]", "«»", '""', "**", "__", "~~", "``", "¡¡", "„“")
NESTED = [
    f"{before}{outer[0]}{inner[0]}{words}{inner[1]}{outer[1]}{after}"
    for outer in MARKS
    for inner in MARKS
    for before, words, after in (("It saw ", "two", " dogs."), ("", "It saw", " dogs."), ("It saw ", "two dogs", "."))
] + [
    "((It saw dogs.))",
    "It saw (((two))) dogs.",
    "It saw (a (two) b) dogs.",
    "It ((saw) two) dogs.",
    "It (saw (two)) it.",
]


@pytest.mark.parametrize("text", NESTED)
def test_neighbouring_brackets_and_marks_have_no_blank_between_them(text: str) -> None:
    """A text that stays as it is when it is read without them and written as it was read."""
    source = SourceText.without(text, KeptParts(("placeholders", "symbols"), covers)(text))
    words = [match.span() for match in re.finditer(r"[^\W_]+|[^\w\s]", source.read)]
    assert source.restored(source.read, [(*word, *word) for word in words])[0] == text


def test_whatever_is_found_passes_the_gate() -> None:
    for pattern in PATTERNS:
        search = regex.compile(pattern.regex, regex.V1)
        for text in EXAMPLES:
            assert not search.search(text) or GATE.search(text), (pattern.kind, text)


HOSTILE = [
    "{{ " * 33_000,
    "{% " * 33_000,
    "{a, plural, " * 9_000,
    "{a, plural, " + "{b}" * 30_000,
    "<a b=c" * 16_000,
    "<a" + " b=c" * 25_000,
    "<!--" * 25_000,
    "&a" * 50_000,
    "1. " * 33_000,
    "1." * 50_000,
    "(" * 50_000 + ")" * 50_000,
    "'a " * 33_000,
    "/a" * 50_000,
    "C:\\" + "a " * 50_000,
    "a.b" * 33_000,
    "a_" * 50_000,
    "@a" * 50_000,
    "\\\\" + "a" * 100_000,
    "__" * 50_000,
    "%" + "0" * 100_000,
    "%(n)" + "0" * 100_000,
    "%1$" + "0" * 100_000,
    "%." + "1" * 100_000,
    "%" + "a" * 100_000,
    "%a" * 50_000 + "%",
    "{" * 100_000,
    "{{a" * 33_000,
    "${" + "$" * 100_000,
    "$" + "a" * 100_000,
    "$1" * 50_000,
    "$[a" * 33_000,
    "www." + "," * 100_000,
    "www.(a" * 16_000,
    "http://" + "(a).," * 20_000,
    "http://" * 14_000,
    "a" * 100_000,
    "a@" * 50_000,
    "a@" + "b-" * 50_000,
    "a@b" + ".c" * 50_000 + ".",
    "1" + ".1" * 50_000 + "a",
    "1:" * 50_000 + "1a",
    " " * 100_000 + "-",
    "- " * 50_000,
    "--" * 50_000,
    "😀" * 100_000,
    "a😀" * 50_000,
    "a 😀 {0} " * 12_000,
    "aΩ" * 50_000,
    "a" * 50_000 + "😀" + "b" * 50_000,
    "a" + "\u0301" * 100_000,
    "x {0}. Y " * 11_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:6]))
def test_long_texts_take_time_in_proportion_to_their_length(text: str) -> None:
    """About 0.2 s each; work that grows with the square would take minutes."""
    began = time.process_time()
    parts = KeptParts((*EVERY, "numbers"), covers)(text)
    list(unbroken(text, parts, lambda one: [Piece("", piece) for piece in re.findall("[^.]+|[.]", one)]))
    assert len(SourceText.without(text, parts, visible).read) <= len(text)
    assert time.process_time() - began < 10


def test_formats_have_flags_width_and_precision() -> None:
    assert texts("%05d %-010.3f %00d %(n)03d %10s % d") == ["%05d", "%-010.3f", "%00d", "%(n)03d", "%10s", "%"]


def test_parts_are_those_of_comparing_each_with_all_others() -> None:
    for seed in range(500):
        rng = Random(seed)
        text = "".join(rng.choices(["a", "😀", "{0}", "Ω", " ", "%s", "1"], k=12))
        ends = sorted(rng.sample(range(len(text) + 1), 4))
        spans = [Span(*ends[:2], keep=True), Span(*ends[2:], keep=True)]
        parts: list[Part] = [Part(*ends[:2]), Part(*ends[2:])]
        for part in [*KeptParts(("placeholders",), covers)(text), *KeptParts(("symbols",), covers)(text)]:
            if all(part.end <= one.begin or one.end <= part.begin for one in parts):
                parts.append(part)
        assert [part[:2] for part in KeptParts(EVERY, covers)(text, spans)] == sorted(part[:2] for part in parts)


@pytest.mark.parametrize(
    ("source", "output", "part", "lacks"),
    [
        ("Take 1 of 10", "Nimm 1 von 10", "1", False),
        ("Take 1 of ten", "Nimm 10", "1", True),
        ("Take 1", "Nimm 1 von 1", "1", True),
        ("- a well-known dog", "- ein bekannter Hund", "-", False),
        ("- a well-known dog", "ein all-bekannter Hund", "-", True),
        ("in a{0}b", "in ab", "{0}", True),
        ("in a{0}b", "in c{0}d", "{0}", False),
        ("See https://a.de.", "Siehe https://a.de!", "https://a.de", False),
        ("$x", "$xy", "$x", True),
        ("第1章", "章1", "1", False),
    ],
)
def test_an_output_lacks_a_part_that_it_has_within_words_only(
    source: str, output: str, part: str, *, lacks: bool
) -> None:
    assert Segment(source, [1], left_in=(part,)).lacks(output) == lacks


def test_numbers_are_kept_on_request_and_nothing_without_kinds() -> None:
    text = "In 1,234.50 or 3:30, a4 {x} 😀"
    assert texts(text, ("numbers",)) == ["1,234.50", "3:30"]
    assert texts(text, ()) == []
    assert texts(text, ("placeholders",)) == ["{x}"]


def test_kept_elements_are_parts_and_go_before_what_is_found_in_them() -> None:
    spans = [Span(0, 8, keep=True), Span(2, 4, keep=True), Span(9, 10)]
    assert KeptParts(EVERY, covers)("ab {0} c d", spans) == [Part(0, 8, is_unknown=True)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("😀 The dog.", "The dog."),
        ("The 😀 dog.", "The dog."),
        ("The dog 😀.", "The dog."),
        ("The dog. 😀", "The dog."),
        ("The dog😀.", "The dog."),
        ("The😀dog.", "The dog."),
        ("The dog, 😀 🚀, hid", "The dog,, hid"),
        ("猫😀犬", "猫犬"),
    ],
)
def test_what_is_read_has_no_blanks_of_parts(text: str, read: str) -> None:
    source = SourceText.without(text, KeptParts(EVERY, lambda one: "😀" not in one and "🚀" not in one)(text), visible)
    assert source.read == read
    for place, letter in zip(source.origins, read, strict=True):
        assert text[place] == letter or (letter == " " and text[place] == "😀")


def test_between_letters_a_part_is_a_blank_unless_they_have_fewer_tokens_together() -> None:
    def n_tokens(text: str) -> int:
        return sum(1 if word in ("the", "dog") else len(word) for word in text.split())

    for text, read in (("the★dog", "the dog"), ("the d★og", "the dog"), ("t😀he d★og", "the dog"), ("d★x", "d x")):
        assert SourceText.without(text, KeptParts(EVERY, covers)(text), n_tokens=n_tokens).read == read


def test_a_part_within_a_word_is_behind_its_translation() -> None:
    source = SourceText.without("the d★og hid", [Part(5, 6)], n_tokens=len)
    assert source.read == "the dog hid"
    assert source.restored("der Hund lief", [(0, 3, 0, 3), (3, 7, 3, 8), (7, 11, 8, 13)])[0] == "der Hund★ lief"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("😀 The dog.", "😀 Der Hund."),
        ("The 😀 dog.", "Der 😀 Hund."),
        ("The dog 😀.", "Der Hund 😀."),
        ("The dog. 😀", "Der Hund. 😀"),
        ("The dog😀.", "Der Hund😀."),
        ("The😀dog.", "Der😀Hund."),
        ("“The dog.”", "“Der Hund.”"),
        ("😀 The 🚀 dog 漢字. 🇩🇪", "😀 Der 🚀 Hund 漢字. 🇩🇪"),
        ("The\u00ad 😀dog.", "Der 😀Hund."),
    ],
)
def test_parts_come_back_with_the_blanks_that_they_had(text: str, output: str) -> None:
    source = SourceText.without(text, KeptParts(EVERY, covers)(text), visible)
    assert source.read == "The dog."
    links = [(0, 3, 0, 3), (3, 7, 3, 8), (7, 8, 8, 9)]
    restored, moved = source.restored("Der Hund.", links)
    assert restored == output
    assert [(text[sb:se], output[tb:te]) for sb, se, tb, te in moved if text[sb:se].startswith(("dog", "The"))] == [
        ("The", "Der"),
        ("dog", "Hund"),
    ]
    assert {(text[sb:se], output[tb:te]) for sb, se, tb, te in moved} >= {
        (text[part.begin : part.end],) * 2 for part in source.taken_out
    }


def test_parts_come_back_once_each_whatever_the_links_say() -> None:
    for seed in range(1000):
        rng = Random(seed)
        words = [rng.choice(["the", "dog", "hid", ",", "."]) for _ in range(rng.randint(1, 6))]
        parts = [rng.choice(["😀", "→", "{0}", "漢字"]) for _ in range(rng.randint(1, 3))]
        mixed = rng.sample([*words, *parts], len(words) + len(parts))
        text = "".join(one + rng.choice(["", " "]) for one in mixed)
        source = SourceText.without(text, KeptParts(("placeholders", "symbols"), covers)(text), visible)
        output = "Der Hund versteckte sich."
        n = len(source.read)
        links = [(rng.randrange(n + 1), rng.randrange(n + 1), *rng.choice([(0, 3), (3, 8), (8, 25)])) for _ in words]
        restored, _ = source.restored(output, links)
        for part in set(parts):
            assert restored.count(part) == text.count(part)
        for part in parts:
            restored = restored.replace(part, "", 1)
        assert "".join(restored.split()) == "".join(output.split())


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (
            "It hid. {name} sleeps. 😀 See https://a.de/?b.C=1 now.",
            ["It hid.", "sleeps.", "See https://a.de/?b.C=1 now."],
        ),
        ("Use <a b. C d>. It hid.", ["Use <a b. C d>.", "It hid."]),
        (" {0} ", ["{0}"]),
        ("", [""]),
    ],
)
def test_a_kept_part_is_in_one_sentence(text: str, pieces: list[str]) -> None:
    spans = [Span(m.start(), m.end(), keep=True) for m in re.finditer("<.*>", text)]
    parts = KeptParts(EVERY, covers)(text, spans)
    layout = TextLayout(lambda _: RuleSegmenter(Choice(), "en"), "sentence")
    split = list(unbroken(text, parts, layout.pieces))
    assert [piece.text for piece, _ in split] == pieces
    assert "".join("".join(piece) for piece, _ in split) == text
    for piece, inside in split:
        assert [piece.text[part.begin : part.end] for part in inside] == [
            text[part.begin : part.end] for part in parts if text[part.begin : part.end] in piece.text
        ]


def test_pieces_are_joined_where_a_kept_part_is_in_two() -> None:
    text, pieces = "a b. c. * d ", [Piece("", "a b."), Piece(" ", "c."), Piece(" * ", "d", " ")]
    joined = list(unbroken(text, [Part(2, 6), Part(8, 9)], lambda _: pieces))
    assert joined == [(Piece("", "a b. c."), [Part(2, 6)]), (Piece(" * ", "d", " "), [])]
    joined = list(unbroken(text, [Part(8, 11)], lambda _: pieces))
    assert joined == [(pieces[0], []), (Piece(" ", "c. * d", " "), [Part(3, 6)])]
