"""What text as people have it costs: several sentences on a line, symbols between them.

    s2s-train experiment=demo && python benchmarks/robustness.py [runs/demo]

chrF of 200 sentences that the run has never seen, with 1, 2, 3, 5 and 10 of them on a line, split and not, and with a
symbol between two; whether each line has as many sentences as went in, for separators and scripts; the time it takes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import timeit
from typing import TYPE_CHECKING, Any

import s2s
from s2s.data.sentence_rules import RuleSegmenter
from s2s.registry import Choice
from s2s_synthetic_corpus.generate import pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import TrainedModel

N_SENTENCES = 200
SEPARATORS = (" ", "  ", " — ", " • ", " 😀 ", " # ", " | ", " ★ ", "\t", "\u2028", "\n", "\r\n")
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


def _translated(
    model: TrainedModel, src: Sequence[str], refs: Sequence[str], n: int, separator: str, split: Any
) -> None:
    """The score of `n` sentences on a line, with the number of those whose separators have come back."""
    lines = [separator.join(some) for some in _lines(src, n)]
    expected = [separator.join(some) for some in _lines(refs, n)]
    outputs = model.translate(lines, split=split)
    scores = s2s.evaluate(outputs, expected, task="translation", metrics=["chrf"], samples=0)
    kept = sum(output.count(separator.strip(" ") or " ") >= n - 1 for output in outputs)
    _show(row=f"{n} on a line", separator=separator, split=split, chrf=round(scores["chrf"].value, 1), kept=kept)


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
