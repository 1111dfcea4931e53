"""What markup costs: translations of LibreOffice's help with and without their tags.

    python benchmarks/markup.py RUN [--data ../shared/data/libreoffice_help] [--rows 500] [--pages 40]

RUN is a run of task=translation en-de, trained on the plain pairs of the corpus (its README says how to make them).
Of whole pages, and of paragraphs with inline tags: BLEU and chrF of the text without tags against the German one; the
share of blocks whose text is that of the translation without tags; tags that are lost, doubled, crossed, or inside a
word; how many of the words that the reference has in a tag, and the output as well, are in the same tag.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import s2s
from s2s.generation.markup_documents import block_inputs
from s2s_documents.markup_formats import HtmlFormat, XmlFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s import TrainedModel
    from s2s.text import AnnotatedText, Document, DocumentFormat

DATA = Path(__file__).parents[2] / "shared" / "data" / "libreoffice_help"
TAG = re.compile(r"<[^<>]*>")
VOID = ("area", "base", "br", "col", "hr", "img", "input", "link", "meta", "wbr")
CUT = re.compile(r"\w\0+\w")


def main() -> None:
    """Print one JSON object for pages, and one for paragraphs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rows", type=int, default=500, help="paragraphs with tags")
    parser.add_argument("--pages", type=int, default=40)
    options = parser.parse_args()
    model = s2s.load(options.run, "device=cpu", "matmul=exact", "workers=1")
    html, xml = HtmlFormat(s2s.Choice()), XmlFormat(s2s.Choice())
    pages = [(row["html_en"], row["html_de"]) for row in _rows(options.data / "documents.jsonl.gz")]
    measure(model, html, pages[: options.pages], "pages")
    rows = [(row["en"], row["de"]) for row in _rows(options.data / "test.jsonl.gz") if "de" in row and "<" in row["en"]]
    paragraphs = [(f"<p>{en}</p>", f"<p>{de}</p>") for en, de in rows[: options.rows]]
    measure(model, xml, paragraphs, "paragraphs with tags")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        yield from map(json.loads, file)


def measure(model: TrainedModel, form: DocumentFormat, pairs: Sequence[tuple[str, str]], name: str) -> None:
    """Translate the documents with their tags, and the texts of their blocks."""
    documents = [(form.read(src.encode()), form.read(ref.encode())) for src, ref in pairs]
    begun = time.monotonic()
    outputs = _outputs(model, [document for document, _ in documents])
    seconds = time.monotonic() - begun
    begun = time.monotonic()
    plain = [model.translate([block.source.text for block in document.blocks]) for document, _ in documents]
    plain_seconds = time.monotonic() - begun
    hyps, untagged, refs, right, n_tagged = [], [], [], 0, 0
    for (source, ref), some, texts in zip(documents, outputs, plain, strict=True):
        if [block.kind for block in source.blocks] != [block.kind for block in ref.blocks]:
            continue  # a block of one language has no letters in the other
        hyps += [one.text for one in some]
        untagged += texts
        refs += [block.source.text for block in ref.blocks]
        for one, block in zip(some, ref.blocks, strict=True):
            n_right, n = tagged_words(one, block.source)
            right, n_tagged = right + n_right, n_tagged + n
    every = [
        (one.text, text)
        for some, texts in zip(outputs, plain, strict=True)
        for one, text in zip(some, texts, strict=True)
    ]
    rendered = [document.render(some).decode() for (document, _), some in zip(documents, outputs, strict=True)]
    row = {
        "what": name,
        "documents": len(pairs),
        "blocks": len(every),
        "scored blocks": len(refs),
        **{f"{metric}, with tags": value for metric, value in _scores(hyps, refs).items()},
        **{f"{metric}, without tags": value for metric, value in _scores(untagged, refs).items()},
        "equal to the untagged translation": round(sum(a == b for a, b in every) / len(every), 4),
        **_faults([src for src, _ in pairs], rendered),
        "words in the tags that the reference has them in": round(right / max(n_tagged, 1), 3),
        "seconds": [round(seconds, 1), round(plain_seconds, 1)],
    }
    print(json.dumps(row, ensure_ascii=False), flush=True)


def _outputs(model: TrainedModel, documents: Sequence[Document]) -> list[list[AnnotatedText]]:
    """The translated blocks of each document."""
    every = model.generate([one for document in documents for one in block_inputs(document)])
    return [[next(every).best.markup for _ in document.blocks] for document in documents]


def _scores(hyps: Sequence[str], refs: Sequence[str]) -> dict[str, float]:
    scores = s2s.evaluate(list(hyps), list(refs), task="translation", metrics=["bleu", "chrf"], samples=0)
    return {name: round(score.value, 2) for name, score in scores.items()}


def tagged_words(output: AnnotatedText, ref: AnnotatedText) -> tuple[int, int]:
    """Of the words that are in both texts and in a tag of the reference, those that are in the same tag, and all."""
    ours, theirs = (_words_by_tag(text) for text in (output, ref))
    common = Counter(output.text.split())
    shared = Counter({key: min(n, common[key[1]]) for key, n in theirs.items()})
    return sum((shared & ours).values()), sum(shared.values())


def _words_by_tag(text: AnnotatedText) -> Counter[tuple[str, str]]:
    """How often each word is in an element of each opening tag."""
    return Counter((span.opening, word) for span in text.spans for word in text.text[span.begin : span.end].split())


def _faults(sources: Sequence[str], outputs: Sequence[str]) -> dict[str, int]:
    """Tags that are lost, doubled, crossed, or inside a word that the source does not have them in."""
    lost = doubled = crossed = cut = 0
    for source, output in zip(sources, outputs, strict=True):
        before, after = (Counter(TAG.findall(text)) for text in (source, output))
        lost, doubled = lost + (before - after).total(), doubled + (after - before).total()
        crossed += max(n_crossed(output) - n_crossed(source), 0)
        cuts, cuts_before = (Counter(CUT.findall(INLINE_TAG.sub("\0", text))) for text in (output, source))
        cut += max(cuts.total() - cuts_before.total(), 0)
    return {"lost": lost, "doubled": doubled, "crossed": crossed, "inside a word": cut}


INLINE_TAG = re.compile(r"</?(?:a|b|span|code|item|kbd|sup|sub|img|i|em|strong)\b[^<>]*>")


class _Crossing(HTMLParser):
    """Counts end tags of an element that is not the innermost."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.n_crossed = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.n_crossed += 1


def n_crossed(page: str) -> int:
    """Ends of elements that are not the innermost."""
    parser = _Crossing()
    parser.feed(page)
    parser.close()
    return parser.n_crossed


if __name__ == "__main__":
    main()
