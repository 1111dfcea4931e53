"""Hostile messages and treebanks, and harmless documents that are archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attack.hostile_markup import ENCODINGS

if TYPE_CHECKING:
    import random


def po(draw: random.Random) -> tuple[str, bytes]:
    """What is hostile, and a file of gettext."""
    n = draw.choice((30, 3000, 30_000))
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\nPlural-Forms: nplurals={}; plural=n\\n"\n\n'
    texts = {
        "strings": 'msgid "' + '"\n"a' * n + '"\nmsgstr ""\n',
        "unclosed": 'msgid "a\nmsgstr "' * n,
        "escapes": 'msgid "' + "\\" * n + '"\nmsgstr "x"\n',
        "plurals": 'msgid "a"\nmsgid_plural "b"\n' + "".join(f'msgstr[{i}] "x"\n' for i in range(n)),
        "a plural": 'msgid "a"\nmsgid_plural "b"\nmsgstr[999999999999] "x"\n',
        "comments": "#" * n + "\n#, fuzzy" * n,
        "obsolete": "#~ msgid \"a\"\n#~ msgstr" * n,
        "messages": "".join(f'msgid "a{i}"\nmsgstr ""\n\n' for i in range(min(n, 300))),
        "previous": '#| msgid "a' * n,
    }  # fmt: skip
    what = draw.choice(list(texts))
    codec, plural = draw.choice((*ENCODINGS, "utf-8")), draw.choice(("2", "-1", "9" * 99, "0", "2.5"))
    return what, (header.format(codec, plural) + texts[what]).encode()


def treebank(draw: random.Random, kind: str) -> tuple[str, bytes]:
    """What is hostile, and trees in brackets, or as Negra exports them."""
    n = draw.choice((30, 3000, 100_000))
    if kind == "mrg":
        texts = {
            "deep": "(A " * n + "b" + ")" * n,
            "open": "(" * n,
            "closed": "(A b)" + ")" * n,
            "wide": "(S " + "(A b) " * n + ")",
            "words": "a b c " * n,
            "empty": "()" * n,
            "null": "(A \0)\n" * min(n, 3000),
        }
    else:
        texts = {
            "cycle": "#BOS 1\nder\tD\t--\tNK\t500\n#500\tS\t--\t--\t501\n#501\tS\t--\t--\t500\n#EOS 1\n",
            "itself": "#BOS 1\nder\tD\t--\tNK\t500\n#500\tS\t--\t--\t500\n#EOS 1\n",
            "nowhere": "#BOS 1\nder\tD\t--\tNK\t999\n#EOS 1\n",
            "twice": "#BOS 1\nder\tD\t--\tNK\t500\n" + "#500\tS\t--\t--\t0\n" * min(n, 3000) + "#EOS 1\n",
            "numbers": f"#BOS {'9' * n}\nder\tD\t--\tNK\t{'9' * min(n, 6000)}\n#EOS {'9' * n}\n",
            "chain": "#BOS 1\nder\tD\t--\tNK\t500\n"
            + "".join(f"#{500 + i}\tS\t--\t--\t{501 + i}\n" for i in range(min(n, 3000)))
            + "#EOS 1\n",
            "unclosed": "#BOS 1\n" * min(n, 3000),
            "negative": "#BOS -1\nder\tD\t--\tNK\t-5\n#-5\tS\t--\t--\t0\n#EOS -1\n",
        }
    what = draw.choice(list(texts))
    return what, texts[what].encode()


def tokenizer() -> dict[str, object]:
    """A tokenizer.json of a few words."""
    words = ("<pad>", "<unk>", "<s>", "</s>", "the", "dog", "der", "hund")
    model = {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "<unk>"}
    kept = {"truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None}
    return {"version": "1.0", **kept, "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}


_WORD = '<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>the dog</w:t></w:r></w:p></w:body></w:document>'
_SLIDE = '<p:sld xmlns:p="p" xmlns:a="a"><a:p><a:r><a:t>the dog</a:t></a:r></a:p></p:sld>'
_PAGE = '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>the dog</p></body></html>'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_SHEET = f'<worksheet xmlns="{_MAIN}"><sheetData>' + "".join(
    f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c><c r="B{i}" t="inlineStr"><is><t>der hund</t></is></c></row>'
    for i in range(1, 9)
) + "</sheetData></worksheet>"  # fmt: skip
MEMBERS: dict[str, dict[str, bytes]] = {
    "docx": {"[Content_Types].xml": b"<Types/>", "word/document.xml": _WORD.encode()},
    "pptx": {"[Content_Types].xml": b"<Types/>", "ppt/slides/slide1.xml": _SLIDE.encode()},
    "epub": {"mimetype": b"application/epub+zip", "page.xhtml": _PAGE.encode()},
    "xlsx": {
        "[Content_Types].xml": (
            b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override '
            b'PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.'
            b'sheet.main+xml"/><Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-'
            b'officedocument.spreadsheetml.sharedStrings+xml"/></Types>'
        ),
        "_rels/.rels": (
            f'<Relationships xmlns="{_RELATIONS}"><Relationship Id="r1" Type="{_OFFICE}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>'
        ).encode(),
        "xl/workbook.xml": (
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets>'
            "</workbook>"
        ).encode(),
        "xl/_rels/workbook.xml.rels": (
            f'<Relationships xmlns="{_RELATIONS}"><Relationship Id="r1" Type="{_OFFICE}/worksheet" '
            'Target="worksheets/sheet1.xml"/></Relationships>'
        ).encode(),
        "xl/worksheets/sheet1.xml": _SHEET.encode(),
        "xl/sharedStrings.xml": f'<sst xmlns="{_MAIN}"><si><t>the dog</t></si></sst>'.encode(),
    },
}
