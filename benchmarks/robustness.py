"""What text as people have it costs: several sentences on a line, symbols between and in them, noise, markup.

    s2s-train experiment=demo && python benchmarks/robustness.py [runs/demo]

chrF of 200 sentences that the run has never seen, with 1, 2, 3, 5 and 10 of them on a line, split and not, and with a
symbol between two; whether each line has as many sentences as went in, for separators and scripts; the time it takes.
With invisible characters in words, against the outputs without; with symbols that the run has no token for, against the
references without; with every kind of noise on sources and references (task.noise).
chrF without a symbol or a placeholder that was put into each sentence, and how often it came through; how often a noun
in bold is aligned with its translation alone, for each decoder layer; with a word of each in bold on a page of HTML.
"""

from __future__ import annotations

import argparse
import html
import itertools
import json
import operator
import random
import re
import timeit
from collections import Counter
from typing import TYPE_CHECKING, Any

import s2s
from s2s import load_plugins
from s2s.data.sentence_rules import RuleSegmenter
from s2s.generation import Input
from s2s.registry import Choice
from s2s.text import Span
from s2s_synthetic_corpus.generate import pairs
from s2s_synthetic_corpus.nouns import NOUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s import TrainedModel

N_SENTENCES = 200
SEED = 7
INVISIBLE = {"soft hyphen": "\u00ad", "joiner": "\u200d", "zero-width space": "\u200b", "word joiner": "\u2060"}
UNKNOWN = '★¶€«Ж"漢♥'
SEPARATORS = (" ", "  ", " — ", " • ", " 😀 ", " # ", " | ", " ★ ", "\t", "\u2028", "\n", "\r\n")
PARTS = ("😀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "1️⃣", "🚀 🎉", "→", "≤", "•", "(c)", "漢字", "{0}", "%s", "https://a.org/b?c=1")
QUOTES = (('"', '"'), ("「", "」"), ("«", "»"))


def _within(line: str, part: str, blank: str = " ") -> str:
    words = line.split()
    middle = len(words) // 2
    return " ".join([*words[: middle - 1], words[middle - 1] + blank + part, *words[middle:]])


PLACES: dict[str, Callable[[str, str], str]] = {
    "before": lambda line, part: f"{part} {line}",
    "within": _within,
    "behind": lambda line, part: f"{line} {part}",
    "attached": lambda line, part: _within(line, part, ""),
}
NOUN_FORMS = {
    english: {singular, plural, genitive, f"{plural}n"}
    for one, several, singular, plural, genitive, *_ in map(str.split, NOUNS.strip().splitlines())
    for english in (one, several)
}
"""For an English noun the German ones"""
SCRIPTS = {
    "Latin": ("The dog hid.", "Did the aunt want to sing?", "“It cost 3.50 euros!”", "3 cats sleep."),
    "Cyrillic": ("Собака спряталась.", "Тётя хотела петь?", "«Это стоит 3.50 рубля!»", "3 кошки спят."),
    "Greek": ("Ο σκύλος κρύφτηκε.", "Η θεία τραγούδησε!", "«Κοστίζει 3.50 ευρώ.»", "3 γάτες κοιμούνται."),
    "Han": ("狗躲起来了。", "姑姑想唱歌吗？", "“要3.50元！”", "3只猫在睡觉。"),
    "Devanagari": ("कुत्ता छिप गया।", "क्या वह गाना चाहती थी?", "“यह 3.50 यूरो है!”", "3 बिल्लियाँ।"),
    "Arabic": ("اختبأ الكلب.", "هل أرادت أن تغني؟", "«سعره 3.50 يورو!»", "3 قطط."),
}


def main() -> None:
    """Print one JSON object for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="runs/demo")
    model = s2s.load(parser.parse_args().run, "device=cpu", "matmul=exact", "workers=1")
    unseen = list(pairs(1, N_SENTENCES, "test"))
    src, refs = [pair.en for pair in unseen], [pair.de for pair in unseen]
    for n, split in itertools.product((1, 2, 3, 5, 10), ("auto", False)):
        _translated(model, src, refs, n, " ", split)
    for separator in SEPARATORS[1:]:
        _translated(model, src, refs, 2, separator, "auto")
    _show(row="sentences alone, split=auto and false", equal=model.translate(src) == model.translate(src, split=False))
    _segmented(src)
    _with_invisible(model, src, refs)
    _with_unknown(model, src, refs)
    _with_noise(model, src, refs)
    for part, (place, put) in itertools.product(PARTS, PLACES.items()):
        _with_parts(model, [put(line, part) for line in src], refs, f"{part} {place}", [part])
    for opening, closing in QUOTES:
        _with_parts(model, [f"{opening}{line}{closing}" for line in src], refs, "in quotes", [opening, closing])
    for layer in (0, 1, 2):
        _bold_nouns(model, src, layer)
    _bold_words(model, src, refs)


def _with_invisible(model: TrainedModel, src: Sequence[str], refs: Sequence[str]) -> None:
    """Outputs as without them: one in each word, at a random letter."""
    clean = model.translate(src)
    for name, character in INVISIBLE.items():
        draw = random.Random(SEED)
        outputs = model.translate([" ".join(_with_one(word, character, draw) for word in text.split()) for text in src])
        within = [output.strip(character) for output in outputs]  # at the edges of a text it comes back
        equal = sum(a == b for a, b in zip(within, clean, strict=True))
        _show(row=f"{name} in each word", chrf=_chrf(within, refs), equal=equal)


def _with_one(word: str, character: str, draw: random.Random) -> str:
    at = draw.randint(0, len(word))
    return word[:at] + character + word[at:]


def _with_unknown(model: TrainedModel, src: Sequence[str], refs: Sequence[str]) -> None:
    """A symbol without a token: at the edges, in a word, around the sentence; scored without such symbols."""
    draw = random.Random(SEED)
    places = {
        "before": lambda text, symbol: f"{symbol} {text}",
        "behind": lambda text, symbol: f"{text} {symbol}",
        "between two words": lambda text, symbol: text.replace(" ", f" {symbol} ", 1),
        "in a word": lambda text, symbol: _with_one(text, symbol, draw),
        "around": lambda text, symbol: f"{symbol}{text}{symbol}",
    }
    for name, place in places.items():
        outputs = model.translate([place(text, UNKNOWN[n % len(UNKNOWN)]) for n, text in enumerate(src)])
        stripped = [" ".join(output.translate(dict.fromkeys(map(ord, f"{UNKNOWN}⁇"))).split()) for output in outputs]
        n_copied = sum(UNKNOWN[n % len(UNKNOWN)] in output for n, output in enumerate(outputs))
        _show(
            row=f"unknown symbol {name}",
            chrf=_chrf(stripped, refs),
            chrf_as_it_is=_chrf(outputs, refs),
            copied=n_copied,
        )


def _with_noise(model: TrainedModel, src: Sequence[str], refs: Sequence[str]) -> None:
    """Sources and references with noise of each kind."""
    registry = load_plugins().registry
    kinds = {name for group, name in registry.entries if group == "noise"} - {"terms"}  # which adds to sources
    for name in sorted(kinds):
        noise, draw = registry.build_default("noise", name), random.Random(SEED)
        noisy, expected = zip(*(noise.altered(*pair, draw) for pair in zip(src, refs, strict=True)), strict=True)
        _show(row=f"noise {name}", chrf=_chrf(model.translate(list(noisy)), expected))


def _bold_words(model: TrainedModel, src: Sequence[str], refs: Sequence[str]) -> None:
    """The text of a page on which a word of each sentence is bold."""
    rng = random.Random(SEED)
    page = "".join(f"<p>{' '.join(_with_bold(sentence.split(), rng))}</p>\n" for sentence in src)
    output = model.translate_document(page.encode(), "html").decode()
    texts, plain = re.sub("<[^>]*>", "", output).splitlines(), model.translate(src)
    words = re.findall("<b>(.*?)</b>", output)
    _show(
        row="one word in bold",
        chrf=_chrf(texts, refs),
        chrf_without_tags=_chrf(plain, refs),
        equal=sum(map(operator.eq, texts, map(html.escape, plain))),
        bold=len(words),
        empty=words.count(""),
    )


def _with_bold(words: Sequence[str], rng: random.Random) -> list[str]:
    n = rng.randrange(len(words))
    return [*words[:n], f"<b>{words[n]}</b>", *words[n + 1 :]]


def _chrf(outputs: Sequence[str], refs: Sequence[str]) -> float:
    return round(s2s.evaluate(outputs, refs, task="translation", metrics=["chrf"], samples=0)["chrf"].value, 1)


def _with_parts(model: TrainedModel, lines: Sequence[str], refs: Sequence[str], row: str, parts: Sequence[str]) -> None:
    """The score without the parts that each line has, and the number of outputs that have each as often as the line."""
    outputs = model.translate(lines)
    kept = sum(all(a.count(part) == b.count(part) for part in parts) for a, b in zip(outputs, lines, strict=True))
    for part in parts:
        outputs = [output.replace(part, "") for output in outputs]
    plain = [" ".join(output.split()) for output in outputs]
    _show(row=row, parts=parts, chrf=_chrf(plain, refs), kept=kept)


def _bold_nouns(model: TrainedModel, src: Sequence[str], layer: int) -> None:
    """Nouns that are once in a sentence, and whose translation is once in the output, each in bold."""
    inputs = [
        (Input(line, spans=(Span(*word.span(), "<b>", "</b>"),)), NOUN_FORMS[word[0]])
        for line in src
        for word in re.finditer(r"\w+", line)
        if word[0] in NOUN_FORMS and len(re.findall(rf"\b{word[0]}\b", line)) == 1
    ]
    options = {"fields": ["align"], "attention_layer": layer} if layer else {}
    outputs = list(model.generate([one for one, _ in inputs], **options))
    counts = Counter[str]()
    for output, (_, forms) in zip(outputs, inputs, strict=True):
        annotated = output.best.annotated
        assert annotated is not None
        nouns = [word for word in re.findall(r"\w+", output.hyp) if word in forms]
        bold = annotated.text[annotated.spans[0].begin : annotated.spans[0].end]
        counts["as without"] += annotated.text == output.hyp
        counts["nouns"] += len(nouns) == 1
        counts["alone in bold"] += [bold] == nouns
        counts["in bold"] += len(nouns) == 1 and nouns[0] in bold.split()
    _show(row="one noun in bold", layer=layer or "default", sentences=len(outputs), **counts)


def _translated(
    model: TrainedModel, src: Sequence[str], refs: Sequence[str], n: int, separator: str, split: Any
) -> None:
    """The score of `n` sentences on a line, with the number of those whose separators have come back."""
    lines = [separator.join(some) for some in _lines(src, n)]
    expected = [separator.join(some) for some in _lines(refs, n)]
    outputs = model.translate(lines, split=split)
    kept = sum(output.count(separator.strip(" ") or " ") >= n - 1 for output in outputs)
    _show(row=f"{n} on a line", separator=separator, split=split, chrf=_chrf(outputs, expected), kept=kept)


def _lines(texts: Sequence[str], n: int) -> list[Sequence[str]]:
    return [texts[i : i + n] for i in range(0, len(texts), n)]


def _segmented(src: Sequence[str]) -> None:
    """Sentences out and in for each separator and script, and the time for a sentence."""
    segmenter = RuleSegmenter(Choice(), "")
    cases = list(itertools.product(SCRIPTS.items(), SEPARATORS))
    wrong = []
    for (script, sentences), separator in cases:
        lines = separator.join(sentences).splitlines()
        if [line[begin:end] for line in lines for begin, end in segmenter.sentences(line)] != list(sentences):
            wrong.append([script, separator])
    _show(row="separators and scripts", cases=len(cases), wrong=wrong)
    seconds = min(timeit.repeat(lambda: [segmenter.sentences(line) for line in src], number=10, repeat=5))
    _show(row="finding the end of one sentence", microseconds=round(seconds / 10 / len(src) * 1e6, 1))


def _show(**values: Any) -> None:
    print(json.dumps(values, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
