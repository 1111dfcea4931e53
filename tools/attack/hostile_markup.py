"""Hostile XML, HTML, Markdown, and archives of them: entities, depth, sizes, names."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

XML_BODIES = {
    "tmx": '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv>'
    '<tuv xml:lang="de"><seg>{}</seg></tuv></tu></body></tmx>',
    "xlf": '<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="1">'
    "<source>{}</source><target>{}</target></trans-unit></body></file></xliff>",
    "xml": "<page><p>{}</p><p>{}</p></page>",
    "tiger": '<corpus><body><s id="s1"><graph root="s1_500"><terminals><t id="s1_1" word="{}" pos="N"/></terminals>'
    '<nonterminals><nt id="s1_500" cat="S"><edge label="HD" idref="s1_1"/></nt></nonterminals></graph></s>'
    "<!--{}--></body></corpus>",
}
"""Documents with two places for texts"""


def xml(draw: random.Random, kind: str, url: str, secret: str) -> tuple[str, bytes]:
    """What is hostile, and an XML document of a kind; url, secret: what no parser may fetch or read."""
    body = XML_BODIES[kind]
    n = draw.choice((30, 3000, 300_000))
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    documents = {
        "laughs": f'<!DOCTYPE x [<!ENTITY l0 "ha">{laughs}]>' + body.format("&l11;", "x"),
        "quadratic": f'<!DOCTYPE x [<!ENTITY a "{"a" * n}">]>' + body.format("&a;" * min(n, 3000), "x"),
        "file": f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{secret}">]>' + body.format("&e;", "x"),
        "http": f'<!DOCTYPE x [<!ENTITY e SYSTEM "{url}/e">]>' + body.format("&e;", "x"),
        "doctype": f'<!DOCTYPE x SYSTEM "{url}/x.dtd">' + body.format("a &nbsp; b", "x"),
        "doctype of a file": f'<!DOCTYPE x SYSTEM "file://{secret}">' + body.format("a", "x"),
        "parameter": f'<!DOCTYPE x [<!ENTITY % p SYSTEM "{url}/p">%p;]>' + body.format("a", "x"),
        "include": body.format(f'<i xmlns:x="http://www.w3.org/2001/XInclude"><x:include href="{secret}"/></i>', "x"),
        "stylesheet": f'<?xml-stylesheet href="{url}/s.xsl"?>' + body.format("a", "x"),
        "deep": body.format("<g>" * n + "x" + "</g>" * n, "x"),
        "unclosed": body.format("<g>" * n, "x"),
        "attributes": body.format("<g " + " ".join(f'a{i}="{i}"' for i in range(n)) + "/>", "x"),
        "attribute": body.format(f'<g a="{"x" * n}"/>', "x" * n),
        "comments": body.format("<!--" + "-" * n, "x") + "<!--" * n,
        "sections": body.format("<![CDATA[" * n, "]]>" * n),
        "references": body.format("&#x0;&#xD800;&#99999999999;" * min(n, 999), "x"),
        "entity": body.format("&" * n, "&amp" * n),
        "instructions": "<?x" * n + body.format("x", "x"),
        "prefixes": body.format("<a:b:c:d xmlns:a='x'/>", "<:/>"),
        "null": body.format("a\0b", "\0" * n),
        "encoding": '<?xml version="1.0" encoding="' + draw.choice(ENCODINGS) + '"?>' + body.format("ä", "x"),
        "roots": body.format("x", "x") * min(n, 3000),
    }
    what = draw.choice(list(documents))
    return what, documents[what].encode(draw.choice(("utf-8", "utf-8", "utf-8", "utf-16")), "replace")


ENCODINGS = ("utf-7", "idna", "punycode", "rot13", "base64", "unicode_escape", "hex", "zlib", "x" * 99, "utf-16", "\0")


def html(draw: random.Random, _url: str, secret: str) -> tuple[str, bytes]:
    """What is hostile, and a page."""
    n = draw.choice((30, 3000, 30_000))
    pages = {
        **{f"nested {tag}": f"<{tag}>" * n + "text" for tag in ("div", "b", "table", "li", "svg", "a", "select", "p")},
        **{f"closed {tag}": "text" + f"</{tag}>" * n for tag in ("div", "b", "p")},
        **{f"repeated {text}": text * n for text in ("<", "<a ", "</", "<!--", "<!", "<?", "&", "&#", "<a b='", "<a/")},
        "crossed": "<b><i>" * n + "x" + "</b></i>" * n,
        "attributes": "<p " + " ".join(f"a{i}" for i in range(n)) + " title='x'>text",
        "titles": "".join(f"<p title='title {i}'>x" for i in range(min(n, 300))),
        "script": "<script>" + "</scrip" * n,
        "textarea": "<textarea>" * n,
        "include": f"<object data='file://{secret}'><iframe src='{secret}'>text",
        "null": "a\0" * n,
        "blanks": " " * n + "x" + "\t\r\n" * n,
    }
    what = draw.choice(list(pages))
    return what, pages[what].encode()


def markdown(draw: random.Random, *_: str) -> tuple[str, bytes]:
    """What is hostile, and a text in Markdown."""
    n = draw.choice((30, 3000, 50_000))
    marks = ("[", "![", "*", "**a ", "_a", "`", "``` ", "> ", "- ", "1. ", "(", "[a](", "[a]: <", "|", "|-", "<a", "~~")
    marks = (*marks, "\\", "    ", "\n> ", "\n- ", "[^a]", "#", "# ", "=\n", "a\n-\n", "***", "* * ", "$", "&", "<!--")
    mark = draw.choice(marks)
    n = min(n, 300) if "\n" in mark else n  # each of them is decoded
    before, behind = draw.choice(("", "a ", "[x]: y\n")), draw.choice(("", "]", " a"))
    return f"{mark!r} {n} times", (before + mark * n + behind).encode()


def zipped(draw: random.Random, members: dict[str, bytes], canary: str) -> tuple[str, bytes]:
    """What is hostile, and an archive that ought to have these members."""
    ways: dict[str, Callable[[], bytes]] = {
        "bomb": lambda: _zip({**members, draw.choice(list(members)): b" " * (1 << 28)}),
        "bomb beside": lambda: _zip({**members, "media/x.bin": bytes(1 << 28)}),
        "slip": lambda: _zip({**members, f"../../../../..{canary}": b"x", canary: b"x", "..\\..\\canary": b"x"}),
        "twice": lambda: _zip(members, list(members) * 9),
        "lies": lambda: _lying(draw, _zip(members)),
        "cut": lambda: (data := _zip(members))[: draw.randrange(len(data))],
        "flipped": lambda: _flipped(draw, _zip(members)),
        "none": lambda: _zip({}),
        "many": lambda: _zip({**members, **{f"x{i}": b"" for i in range(20_000)}}),
        "names": lambda: _zip({**members, "a" * 60_000: b"", "\u202e": b"", "a\n\x1b[31m": b"x"}),
        "random": lambda: _zip({name: draw.randbytes(999) for name in members}),
    }
    way = draw.choice(list(ways))
    return way, ways[way]()


def _zip(members: dict[str, bytes], names: list[str] | None = None) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or members:
            archive.writestr(zipfile.ZipInfo(name), members[name], zipfile.ZIP_DEFLATED)
    return target.getvalue()


def _flipped(draw: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 9, 99))):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _lying(draw: random.Random, data: bytes) -> bytes:
    """Sizes in the central directory are other ones."""
    changed, at = bytearray(data), data.rfind(b"PK\1\2")
    place = at + draw.choice((20, 24, 42, 10))
    changed[place : place + 4] = struct.pack("<L", draw.choice((0, 1, 10**6, 2**32 - 1, 2**31)))
    return bytes(changed)
