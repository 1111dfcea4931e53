"""A report of a run of several languages: each direction has its own examples, and metrics of its language."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import sacrebleu

from s2s import load_plugins
from s2s_multilingual import MultilingualConfig
from s2s_multilingual.task import Multilingual
from s2s_report import ReportConfig
from s2s_report.outcome import decode
from s2s_report.outcome_sections import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s import Example

LINES = {
    "en": ["the dog sees a cat", "a cat eats", "the house is old"] * 4,
    "de": ["der Hund sieht eine Katze", "eine Katze frisst", "das Haus ist alt"] * 4,
    "ja": ["犬は猫を見る", "猫は食べる", "その家は古い"] * 4,
}


class Model:
    """What a report needs of a trained run; its outputs lack the first character of each reference."""

    def __init__(self, task: Multilingual) -> None:
        self.task, self.config = task, SimpleNamespace(search=SimpleNamespace(beam=1))

    def generate(self, examples: Sequence[Example], nbest: int) -> Iterator[Any]:
        assert nbest == 1
        return (SimpleNamespace(hyp=one.tgt[1:]) for one in examples)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_each_direction_is_scored_by_itself_and_japanese_by_characters(split: Any, tmp_path: Path) -> None:
    for language, lines in LINES.items():
        (tmp_path / f"a.{language}").write_text("".join(f"{line}\n" for line in lines))
    pairs = [[str(tmp_path / "a.en"), str(tmp_path / f"a.{other}")] for other in ("de", "ja")]
    config: dict[str, Any] = {"train": pairs, split: pairs, "directions": ["en-mul"]}
    model: Any = Model(Multilingual(MultilingualConfig(name="multilingual", **config)))
    options = ReportConfig(run="x", split=split, sentences=10, samples=0)
    outcome = decode({"x": model}, options, load_plugins())
    assert outcome is not None
    assert [example.fields["tgt_lang"] for example in outcome.examples] == ["de", "ja"] * 5
    found = {one.score.name: one.score.value for (one,) in outcome.compared}
    assert list(found) == ["en-de/bleu", "en-ja/bleu", "en-de/chrf", "en-ja/chrf"]
    for language, tokenize in (("de", "13a"), ("ja", "char")):
        refs = LINES[language][:5]
        expected = sacrebleu.corpus_bleu([ref[1:] for ref in refs], [refs], tokenize=tokenize).score
        assert found[f"en-{language}/bleu"] == pytest.approx(expected)
    assert found["en-ja/bleu"] > 50  # by words of 13a, of which each sentence has one, it would be 0
    assert all(score > 0 for score in outcome.sentences["x"])
    assert verdict(outcome, "it").count("on 5 sentences of it") == 2
