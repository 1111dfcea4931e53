"""The vocabulary of recipe=auto: words of a closed set, characters of single words, subwords in a possible number."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from s2s.cli.train import main
from s2s.compose import compose
from s2s.config import Config
from s2s.plugin import load_plugins
from s2s_plan import Hardware, Situation
from s2s_plan.fingerprint import take
from s2s_plan.vocabulary import choose_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PLUGINS = load_plugins()
CPU = Hardware("cpu", 1, 2, 1e11, 5e10, 20 * 2**30)
DRAW = random.Random(1)


def reversals(symbols: str, n_lines: int, length: int) -> list[str]:
    """Rows of symbols, and the same from behind."""
    rows = [DRAW.choices(symbols, k=length) for _ in range(n_lines)]
    return [f"{' '.join(row)}\t{' '.join(row[::-1])}" for row in rows]


def spellings(n_lines: int) -> list[str]:
    """Words, and their letters as capitals between blanks."""
    words = ["".join(DRAW.choices("abcdefghijkl", k=DRAW.randint(3, 9))) for _ in range(n_lines)]
    return [f"{word}\t{' '.join(word.upper())}" for word in words]


def sentences(n_lines: int, alphabet: str, blank: str = " ") -> list[str]:
    """Rows of words of which there are as many as in text: few that are frequent, many that occur once."""
    words = ["".join(DRAW.choices(alphabet, k=DRAW.randint(2, 8))) for _ in range(4 * n_lines)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    rows = [blank.join(DRAW.choices(words, weights, k=8)) for _ in range(2 * n_lines)]
    return [f"{src}\t{tgt}" for src, tgt in zip(rows[::2], rows[1::2], strict=True)]


CORPORA = {
    "two symbols, ten lines": (reversals("ab", 10, 4), "whitespace"),
    "digits": (reversals("0123456789", 300, 6), "whitespace"),
    "one line": (["a b\tb a"], "bpe"),
    "one character": (["a\ta"] * 3, "whitespace"),
    "words and their letters": (spellings(400), "characters"),
    "sentences": (sentences(200, "abcdefgh"), "bpe"),
    "few sentences": (sentences(3, "abcdefgh"), "bpe"),
    "more characters than subwords": (sentences(60, "".join(map(chr, range(0x4E00, 0x5200)))), "bpe"),
    "sentences without blanks": (sentences(60, "".join(map(chr, range(0x4E00, 0x4F00))), ""), "bpe"),
    "ligatures, of which NFKC makes letters": (["ﬁ ½ e\u0301 ﬃ\tﬁn ½ e ﬃ x"], "bpe"),
}


def learnt(lines: Iterable[str], folder: Path, *arguments: str) -> tuple[str, int]:
    """The kind of tokens that recipe=auto gives these pairs, and their number once they are learnt."""
    (folder / "train.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    given = ["task=translation", f"task.train={folder / 'train.tsv'}", *arguments]
    composed = compose(Config, given, PLUGINS)
    task = PLUGINS.registry.get("task", "translation").build(composed.config.task)
    situation = Situation(
        fingerprint=take(task),
        hardware=CPU,
        config=composed.config,
        explicit={argument.partition("=")[0]: "given" for argument in arguments},
        seconds=None,
        vocab_size_option=task.open_vocab_size(),
        tokenizers=PLUGINS.registry.names("tokenizer"),
    )
    decisions = choose_vocabulary(situation).decisions
    chosen = compose(Config, given, PLUGINS, [decision.setting("auto") for decision in decisions]).config
    task = PLUGINS.registry.get("task", "translation").build(chosen.task)
    task.learn(folder)
    return chosen.task.subword, task.vocab.tgt  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CORPORA)
def test_any_corpus_gets_tokens_that_can_be_learnt(name: str, tmp_path: Path) -> None:
    lines, kind = CORPORA[name]
    assert learnt(lines, tmp_path)[0] == kind


@pytest.mark.parametrize(
    "given", ["task.joint=false", "task.subword=unigram", "task.subword=word", "task.subword=char", "task.context=1"]
)
@pytest.mark.parametrize("name", CORPORA)
def test_so_it_does_whatever_else_is_given(name: str, given: str, tmp_path: Path) -> None:
    kind, _ = learnt(CORPORA[name][0], tmp_path, given)
    assert "subword" not in given or given == f"task.subword={kind}"


def test_a_closed_set_has_a_token_for_each_word(tmp_path: Path) -> None:
    assert learnt(CORPORA["digits"][0], tmp_path) == ("whitespace", 4 + 10)


def test_text_with_words_that_occur_once_is_no_closed_set(tmp_path: Path) -> None:
    lines = [*CORPORA["digits"][0], "2 seldom 4\t4 seldom 2", "2 once\tonce 2"]
    assert learnt(lines, tmp_path)[0] == "bpe"


def test_both_sides_together_have_the_types_of_both(tmp_path: Path) -> None:
    lines = [*sentences(50, "abc"), "only here\tund nur dort"]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    config = compose(Config, ["task=translation", f"task.train={tmp_path / 'train.tsv'}"], PLUGINS).config.task
    found = asdict(take(PLUGINS.registry.get("task", "translation").build(config)))
    words = {word for line in lines for word in line.split()}
    assert (found["n_types"], found["n_symbols"]) == (len(words), len(set("".join(words))))


def test_ten_lines_of_two_symbols_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_text("\n".join(CORPORA["two symbols, ten lines"][0]) + "\n")
    given = ["task=translation", "task.train=pairs.tsv", "train.threads=1", "log.tensorboard=false", "run=x"]
    assert main([*given, "train.steps=3"]) == 0
    out, err = capsys.readouterr()
    assert "task.subword=whitespace" in out
    assert "recipe=auto" not in err, "nothing advises what is used already"
