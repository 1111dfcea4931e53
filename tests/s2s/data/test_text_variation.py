"""A text task's pairs in other forms: by a seed alone, in the shares that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from harness.shipped_plugins import shipped
from s2s.data.mixing import seeds_of
from s2s.data.noise import Noise, NoiseConfig
from s2s.data.text_variation import TextVariation, noisy
from s2s.errors import ConfigError
from s2s.task import Encoded, Example
from s2s_translation import TranslationConfig

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

SRC = ["the dog sees the cat", "an old cat eats", "the old dog"]
TGT = ["der hund sieht den kater", "ein alter kater isst", "der alte hund"]


class Marked(Noise):
    """Appends a letter of the vocabulary to sources, targets, or both."""

    def __init__(self, share: float, src: str = "", tgt: str = "") -> None:
        super().__init__(NoiseConfig(share=share))
        self.ends = src, tgt

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        return src + self.ends[0], tgt + self.ends[1]


def translation(tmp_path: Path, **options: Any) -> Any:
    """A task that has learnt the pairs above."""
    for name, lines in (("a.en", SRC), ("a.de", TGT)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines * 20))
    train = [str(tmp_path / "a.en"), str(tmp_path / "a.de")]
    config = TranslationConfig(name="translation", train=train, **{"vocab_size": 60, "unknown_symbols": 0.0, **options})
    return shipped().registry.get("task", "translation").build(config)


@pytest.fixture
def task(tmp_path: Path) -> Any:
    task = translation(tmp_path)
    (tmp_path / "tokens").mkdir()
    task.learn(tmp_path / "tokens")
    return task


def pairs(task: Any) -> list[Encoded]:
    return task.encode([Example(*texts) for texts in zip(SRC, TGT, strict=True)])


def test_each_noise_alters_its_share_and_no_pair_gets_two(task: Any) -> None:
    vary = TextVariation(task.src, task.tgt, [Marked(0.3, src="d"), Marked(0.2, tgt="e"), Marked(0.0, src="c")])
    assert vary.share == 0.5
    pair, counts = pairs(task)[0], {"": 0, "d": 0, "e": 0}
    for seed in seeds_of(np.arange(4000), 1, 2).tolist():
        varied = vary(pair, seed)
        src, tgt = task.source_text(varied.src), task.detokenize(varied.tgt, "")
        counts[src.removeprefix(SRC[0]) + tgt.removeprefix(TGT[0])] += 1
        assert (varied == pair) is (seed >= 0.5 * 2**64)
    assert [count / 4000 for count in counts.values()] == pytest.approx([0.5, 0.3, 0.2], abs=0.03)


def test_marks_stay_in_front_and_a_target_with_a_code_as_it_is(task: Any) -> None:
    vary = TextVariation(task.src, task.tgt, [Marked(1.0, src="d")], texts_of=lambda _: (slice(2, None), slice(None)))
    pair = Encoded([4, 5, *task.src.encode([SRC[0]])[0]], [7, *task.tgt.encode([TGT[0]])[0]])
    assert vary(pair, 1) == Encoded([4, 5, *task.src.encode([SRC[0] + "d"])[0]], pair.tgt)
    both = TextVariation(
        task.src, task.tgt, [Marked(1.0, src="d", tgt="e")], texts_of=lambda _: (slice(2, None), slice(None))
    )
    assert task.tgt.encode([task.tgt.decode(pair.tgt)])[0] != pair.tgt
    assert both(pair, 1) == pair


def test_a_side_with_an_unknown_token_is_not_spelt_out(task: Any) -> None:
    pair = Encoded(task.src.encode(["the d★g"])[0], task.tgt.encode([TGT[0]])[0])
    assert TextVariation(task.src, task.tgt, [Marked(1.0, src="d")])(pair, 1) == pair


def test_training_meets_the_unknown_token_by_default(tmp_path: Path) -> None:
    """It occurs nowhere in the text; targets have none."""
    task = translation(tmp_path, unknown_symbols=TranslationConfig().unknown_symbols)
    (tmp_path / "tokens").mkdir()
    task.learn(tmp_path / "tokens")
    vary, encoded = task.variation(), pairs(task)
    assert not any(1 in ids for pair in encoded for ids in pair)
    varied = [vary(encoded[n % 3], seed) for n, seed in enumerate(seeds_of(np.arange(3000), 1, 2).tolist())]
    assert sum(1 in pair.src for pair in varied) / 3000 == pytest.approx(task.varied_share(), abs=0.015)
    assert not any(1 in pair.tgt for pair in varied)


def test_a_vocabulary_is_learnt_with_the_noise_that_training_has(tmp_path: Path) -> None:
    task = translation(tmp_path, noise=[{"name": "upper_case", "share": 0.5}])
    (tmp_path / "tokens").mkdir()
    task.learn(tmp_path / "tokens")
    assert task.src.unk not in task.encode_source(["THE OLD DOG"])[0]
    assert task.settings()["noise"] == [{"name": "upper_case", "share": 0.5}]
    assert "noise" not in translation(tmp_path).settings()


def test_pairs_of_a_corpus_have_noise_by_their_number() -> None:
    numbers = range(1000)
    altered = [noisy(("a", "b"), [Marked(0.25, src="!")], number) for number in numbers]
    assert altered == [noisy(("a", "b"), [Marked(0.25, src="!")], number) for number in numbers]
    assert sum(src == "a!" for src, _ in altered) / 1000 == pytest.approx(0.25, abs=0.05)
    assert noisy(("a", "b"), [], 1) == ("a", "b")


def test_noise_is_named_or_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.noise\[0\]=uper_case: no such noise\. Did you mean 'upper_case'\?"):
        translation(tmp_path, noise=["uper_case"])
    with pytest.raises(ConfigError, match=r"task\.unknown_symbols and task\.noise alter 1\.2 of the pairs"):
        translation(tmp_path, unknown_symbols=0.6, noise=[{"name": "emoji", "share": 0.6}])
