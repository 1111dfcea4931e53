"""Scores against sacrebleu's own command, against BLEU and the paper's pipeline written out, and by hand."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest
import sacremoses
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.gleu_score import corpus_gleu, sentence_gleu
from sacrebleu.metrics import BLEU, CHRF, TER

from s2s.errors import ConfigError, DataError, PluginError
from s2s.metrics import Metric, PairedTest, Score, build_metrics, compare
from s2s.metrics.resampling import paired_p_value, resamples
from s2s.plugin import load_plugins
from s2s_metrics import BleuConfig, BleuMosesConfig, ChrfConfig, GleuConfig, TerConfig, bleu_statistics
from s2s_metrics.gleu import Gleu
from s2s_metrics.moses import BleuMoses, split_hyphens
from s2s_metrics.sacre import Bleu, Chrf, Ter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

REF = [
    "The well-known house, near the lake, was sold.",
    "She can't see 3,000 birds today!",
    "A man rides a red bicycle down the street.",
    "Nobody knew why the old train stopped there.",
    "It rains; the children stay at home.",
]
GOOD = [
    "The well-known house near the lake was sold.",
    "She cannot see 3,000 birds today!",
    "A man rides the red bicycle down a street.",
    "Nobody knew why the old train stopped.",
    "It rains; the kids stay at home.",
]
BAD = [
    "The house was.",
    "She birds today",
    "A bicycle man street",
    "Nobody train old",
    "It is children home.",
]


def metrics(wanted: Any, **options: Any) -> list[Metric]:
    task = SimpleNamespace(metrics=["bleu", "chrf"], metric_options=options)
    return build_metrics(task, load_plugins().registry, wanted)  # type: ignore[arg-type]


def metric(name: str, **options: Any) -> Metric:
    return metrics([{"name": name, **options}])[0]


def slow_bleu(hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> float:
    """Papineni et al. (2002), written out: no smoothing, closest reference length, the shorter of two."""

    def ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    log_precision, hyp_len, ref_len = 0.0, 0, 0
    for hyp, *line_refs in zip(hyps, *refs, strict=True):
        hyp_len += len(hyp.split())
        ref_len += min((abs(len(r.split()) - len(hyp.split())), len(r.split())) for r in line_refs)[1]
    for n in range(1, 5):
        correct = total = 0
        for hyp, *line_refs in zip(hyps, *refs, strict=True):
            for ngram, count in ngrams(hyp.split(), n).items():
                total += count
                correct += min(count, max(ngrams(r.split(), n)[ngram] for r in line_refs))
        if not correct:
            return 0.0
        log_precision += math.log(correct / total) / 4
    return 100 * math.exp(min(0.0, 1 - ref_len / hyp_len) + log_precision)


sentence = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=8).map(" ".join)


@settings(max_examples=60)
@given(st.lists(st.tuples(sentence, sentence, sentence), min_size=1, max_size=6))
def test_bleu_is_its_definition(rows: list[tuple[str, str, str]]) -> None:
    hyps, *refs = (list(column) for column in zip(*rows, strict=True))
    scorer = Bleu(BleuConfig(name="bleu", tokenize="none", smooth="none"))
    assert scorer(hyps, refs).value == pytest.approx(slow_bleu(hyps, refs), abs=1e-9)


ROWS = st.lists(st.lists(st.text("ab. é-,1", max_size=12), min_size=3, max_size=3), min_size=1, max_size=7)


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, n_orders=st.integers(1, 6), n_refs=st.integers(1, 2), batch=st.integers(1, 3))
def test_statistics_of_bleu_are_those_that_sacrebleu_counts(
    rows: list[list[str]], n_orders: int, n_refs: int, batch: int
) -> None:
    hyps, *refs = (list(column) for column in zip(*rows, strict=True))
    scorer = BLEU(max_ngram_order=n_orders)
    with patch.object(bleu_statistics, "BATCH", batch):
        found = bleu_statistics.bleu_statistics(scorer, hyps, refs[:n_refs])
    assert found.tolist() == scorer._extract_corpus_statistics(hyps, refs[:n_refs])


def test_outputs_that_look_tokenised_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    score, lines = Bleu(BleuConfig(name="bleu")), ["It rains ."] * 99
    score(lines, [lines])
    assert not caplog.messages
    score([*lines, "So it is ."], [[*lines, ""]])
    assert caplog.messages == ["100 outputs end in ' .'; BLEU is for text that is not tokenised"]
    assert caplog.records[0].name == "s2s_metrics.bleu_statistics"
    caplog.clear()
    BleuMoses(BleuMosesConfig(name="bleu_moses", lang="en"))([*lines, "So it is ."], [[*lines, ""]])
    assert not caplog.messages, "the paper's BLEU tokenises by itself"


def test_bleu_by_hand() -> None:
    """`a b c d e` against `a b c d f g`: precisions 4/5, 3/4, 2/3, 1/2, brevity penalty exp(1 - 6/5)."""
    score = Bleu(BleuConfig(name="bleu"))(["a b c d e"], [["a b c d f g"]])
    assert score.value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25 * math.exp(-0.2))
    assert score.detail["precisions"] == pytest.approx([80, 75, 200 / 3, 50])
    assert (score.detail["hyp_len"], score.detail["ref_len"]) == (5, 6)
    assert score.detail["brevity_penalty"] == pytest.approx(math.exp(-0.2))


@pytest.mark.parametrize(
    ("name", "options", "theirs"),
    [
        ("bleu", {}, BLEU()),
        ("bleu", {"tokenize": "intl", "lowercase": True}, BLEU(tokenize="intl", lowercase=True)),
        ("bleu", {"smooth": "add-k", "tokenize": "char"}, BLEU(smooth_method="add-k", tokenize="char")),
        ("chrf", {}, CHRF()),
        ("chrf", {"word_order": 2, "lowercase": True}, CHRF(word_order=2, lowercase=True)),
        ("ter", {}, TER()),
        (
            "ter",
            {"lowercase": False, "normalize": True, "punctuation": False},
            TER(case_sensitive=True, normalized=True, no_punct=True),
        ),
    ],
    ids=["bleu", "bleu-intl", "bleu-char", "chrf", "chrf++", "ter", "ter-normalized"],
)
def test_score_signature_and_interval_are_sacrebleus(name: str, options: dict[str, Any], theirs: Any) -> None:
    refs = [REF, GOOD[::-1]]
    ours, expected = metric(name, **options)(BAD, refs, samples=300), theirs.corpus_score(BAD, refs, 300)
    assert ours.value == pytest.approx(expected.score, abs=1e-9)
    assert ours.signature == theirs.get_signature().format()
    assert ours.low is not None
    assert ours.high is not None
    assert (ours.high - ours.low) / 2 == pytest.approx(expected._ci, abs=1e-4)  # theirs sums in float32
    assert metric(name, **options)(BAD, refs).low is None


def test_scores_are_those_of_sacrebleus_command(tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("\n".join(REF) + "\n")
    (tmp_path / "hyp").write_text("\n".join(GOOD) + "\n")
    command = f"{sys.executable} -m sacrebleu ref -i hyp -m bleu chrf ter -w 6".split()
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    expected = [(row["score"], row["signature"]) for row in json.loads(out)]
    ours = [m(GOOD, [REF]) for m in metrics(["bleu", "chrf", "ter"])]
    assert [(round(s.value, 6), s.signature) for s in ours] == expected


def test_paired_test_is_that_of_sacrebleus_command(tmp_path: Path) -> None:
    hyps = {"a": GOOD * 4, "b": BAD * 4, "c": (GOOD[:3] + BAD[3:]) * 4, "d": (GOOD[:4] + REF[4:]) * 4}
    for name, lines in {"ref": REF * 4, **hyps}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    command = f"{sys.executable} -m sacrebleu ref -i a b c d -m bleu --paired-bs --paired-bs-n 200 -f json"
    table = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    for ours, theirs in zip(compare(metric("bleu"), hyps, [REF * 4], samples=200), json.loads(table), strict=True):
        assert ours.score.value == pytest.approx(theirs["BLEU"]["score"], abs=1e-4)
        assert ours.p_value == theirs["BLEU"]["p_value"]
        assert ours.score.low is not None
        assert ours.score.high is not None
        assert (ours.score.high - ours.score.low) / 2 == pytest.approx(theirs["BLEU"]["ci"], abs=1e-4)


def test_a_metric_of_which_nothing_is_known_gets_the_same_paired_test() -> None:
    hyps, refs = random.Random(1).sample(GOOD + BAD, 10), [REF * 2]
    baseline = BAD + GOOD
    for scorer in metrics(["bleu", "chrf"]):
        test = PairedTest(samples=60, seed=7)
        (theirs,) = scorer.p_values(baseline, [hyps], refs, test)
        assert paired_p_value(scorer, baseline, hyps, refs, test) == pytest.approx(theirs)


class SameLength(Metric):
    """A stranger's metric: share of outputs that are as long as a reference."""

    name = "same_length"

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        hits = [any(len(h) == len(r) for r in line) for h, *line in zip(hyps, *refs, strict=True)]
        return Score("same_length", 100 * sum(hits) / len(hits), "same_length")


def test_a_strangers_metric_compares_systems() -> None:
    perfect, useless = REF * 4, [""] * 20
    assert SameLength().per_sentence(useless[:1], [REF[:1]]) == [{"score": SameLength()(useless[:1], [REF[:1]]).value}]
    first, second, third = compare(SameLength(), {"ref": perfect, "nothing": useless, "again": perfect}, [REF * 4])
    assert (first.difference, first.p_value) == (None, None)
    assert (second.difference, second.p_value) == (-100.0, 1 / 1001)
    assert (third.difference, third.p_value) == (0.0, 1.0)


def test_resamples_are_what_sacrebleu_draws_at_once() -> None:
    at_once = np.random.default_rng(12345).choice(17, size=(50, 17), replace=True)
    np.testing.assert_array_equal(np.stack(list(resamples(17, 50, 12345))), at_once)


def test_a_comparison_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    compare(metric("bleu"), {"a": GOOD, "b": BAD}, [REF], samples=10, seed=3)
    assert os.environ["SACREBLEU_SEED"] == "99"
    monkeypatch.delenv("SACREBLEU_SEED")
    compare(metric("bleu"), {"a": GOOD, "b": BAD}, [REF], samples=10, seed=3)
    assert "SACREBLEU_SEED" not in os.environ


def test_the_seed_decides_the_test_and_no_samples_mean_no_test() -> None:
    systems = {"a": GOOD[:3] + BAD[3:], "b": BAD[:2] + GOOD[2:]}
    p_values = [compare(metric("bleu"), systems, [REF], samples=50, seed=s)[1].p_value for s in (1, 1, 2, 3)]
    assert p_values[0] == p_values[1]
    assert len(set(p_values)) > 1
    assert compare(metric("bleu"), systems, [REF], samples=0)[1].p_value is None


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("well-known", "well ##AT##-##AT## known"),
        ("E-Mail-Schreiber", "E ##AT##-##AT## Mail ##AT##-##AT## Schreiber"),
        ("A-B-C", "A ##AT##-##AT## B-C"),  # the neighbours are consumed, as in the authors' substitution
        ("a - b", "a - b"),
        ("-5 bis 3-", "-5 bis 3-"),
        ("--", "--"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("2000–2010", "2000–2010"),  # an en dash is no hyphen
        ("", ""),
    ],
)
def test_hyphens_are_split_as_the_authors_did(line: str, split: str) -> None:
    assert split_hyphens(line) == split


def paper_pipeline(lines: list[str], lang: str) -> list[str]:
    """Moses, then every hyphen with a neighbour on either side that is not yet used up, by a loop."""
    tokenizer = sacremoses.MosesTokenizer(lang=lang)
    out = []
    for line in lines:
        tokens = tokenizer.tokenize(line, return_str=True)
        done, at = "", 0
        while at < len(tokens):
            a, hyphen, b = (*tokens[at : at + 3], "", "", "")[:3]
            if hyphen == "-" and not a.isspace() and b and not b.isspace():
                done, at = f"{done}{a} ##AT##-##AT## {b}", at + 3
            else:
                done, at = done + a, at + 1
        out.append(done)
    return out


@pytest.mark.parametrize("lang", ["en", "de", "fr"])
def test_the_papers_bleu_is_its_pipeline(lang: str) -> None:
    hyps = [
        *GOOD,
        "Der E-Mail-Schreiber, z. B. Dr. Müllers 15-jähriger Sohn, kam am 3. Mai.",
        "L'homme a-t-il vu 3,5 % d'«oiseaux» ?",
    ]
    refs = [[*REF, hyps[6].replace("Sohn", "Hund"), hyps[5]], [*BAD, hyps[5], hyps[6].replace("vu", "eu")]]
    expected = slow_bleu(paper_pipeline(hyps, lang), [paper_pipeline(ref, lang) for ref in refs])
    score = metric("bleu_moses", lang=lang)(hyps, refs)
    assert score.value == pytest.approx(expected, abs=1e-9)
    assert 0 < score.value < 100


def test_the_papers_bleu_states_what_was_done() -> None:
    score = metric("bleu_moses", lang="de")(GOOD, [REF], samples=100)
    assert re.fullmatch(
        r"nrefs:1\|bs:100\|seed:12345\|case:mixed\|eff:no\|tok:moses\.de\|smooth:none"
        r"\|hyphen:split\|punct:kept\|sacremoses:[\d.]+\|version:[\d.]+",
        score.signature,
    )


def test_the_multi30k_convention_is_reachable() -> None:
    """Lower-cased, punctuation normalised, tokenised: what the published Multi30k numbers are counted on."""
    score = metric("bleu_moses", lang="de", lowercase=True, normalize=True, split_hyphens=False)
    hyps, refs = ["Ein Mann in „BLAUEM“ T-Shirt steht da ."], ['ein Mann in "blauem" T-shirt steht da.']
    assert score(hyps, [refs]).value == pytest.approx(100)
    assert "case:lc" in score(hyps, [refs]).signature
    assert "hyphen:kept|punct:normalized" in score(hyps, [refs]).signature


def test_case_counts_in_the_papers_bleu() -> None:
    assert metric("bleu_moses", lang="en")([REF[0].upper()], [[REF[0]]]).value < 50


def test_the_language_follows_the_task() -> None:
    (scorer,) = metrics(["bleu_moses"], lang="fr")
    assert "tok:moses.fr" in scorer(GOOD, [REF]).signature
    (scorer,) = metrics([{"name": "bleu_moses", "lang": "de"}], lang="fr")
    assert "tok:moses.de" in scorer(GOOD, [REF]).signature


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("bleu_moses", "task.tgt_lang=de"),
        ({"name": "bleu_moses", "lang": "xx"}, "lang=xx"),
        ({"name": "bleu_moses", "lang": False}, "If the word is meant, quote it"),
        ({"name": "bleu", "tokenise": "intl"}, "Did you mean 'tokenize'"),
        ({"name": "bleu", "tokenize": "14a"}, "metrics.bleu.tokenize=14a: expected 13a"),
        ({"name": "chrf", "word_order": -1}, "word_order=-1"),
        ({"name": "chrf", "beta": "x"}, "metrics.chrf.beta=x: expected int"),
        ({"tokenize": "intl"}, "name"),
        (3, "give a name"),
    ],
    ids=str,
)
def test_a_wrong_metric_says_what_to_give(spec: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        metrics([spec])


def test_an_unknown_metric_suggests_a_name() -> None:
    with pytest.raises(PluginError, match="Did you mean 'bleu'"):
        metrics("bleuu")


def test_two_metrics_of_one_name_are_told_apart() -> None:
    found = metrics(["bleu", {"name": "bleu", "tokenize": "intl"}, "chrf", {"name": "bleu", "tokenize": "char"}])
    assert [m.name for m in found] == ["bleu", "bleu-2", "chrf", "bleu-3"]
    assert [m(GOOD, [REF]).name for m in found] == ["bleu", "bleu-2", "chrf", "bleu-3"]
    assert "tok:intl" in found[1](GOOD, [REF]).signature
    (second,) = compare(found[1], {"a": GOOD, "b": BAD}, [REF], samples=5)[1:]
    assert second.p_value is not None


def test_metrics_are_one_or_several_and_default_to_the_tasks() -> None:
    assert [m.name for m in metrics("ter")] == ["ter"]
    assert [m.name for m in metrics({"name": "ter"})] == ["ter"]
    assert [m.name for m in metrics(None)] == ["bleu", "chrf"]
    with pytest.raises(ConfigError, match="give a list"):
        metrics(3)


def test_misaligned_or_missing_lines_are_refused() -> None:
    with pytest.raises(DataError, match="5 outputs, but reference 2 has 4 lines"):
        metric("bleu")(GOOD, [REF, REF[:4]])
    with pytest.raises(DataError, match="nothing to score"):
        metric("bleu")([], [[]])
    with pytest.raises(ConfigError, match="seed=0"):
        compare(metric("bleu"), {"a": GOOD}, [REF], seed=0)


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter", "bleu_moses"])
def test_empty_lines_have_a_score(name: str) -> None:
    (scorer,) = metrics([name], lang="en")
    for hyps, refs in (([""], [""]), (["a b"], [""]), ([""], ["a b"])):
        score = scorer(hyps, [refs], samples=3)
        assert all(math.isfinite(v) for v in (score.value, score.low or 0.0, score.high or 0.0))


ALL = [
    Bleu(BleuConfig(name="bleu", tokenize="intl")),
    Chrf(ChrfConfig(name="chrf", word_order=2)),
    Ter(TerConfig(name="ter", normalize=True)),
    BleuMoses(BleuMosesConfig(name="bleu_moses", lang="de", normalize=True)),
]
lines = st.lists(st.tuples(st.text(max_size=12), st.text(max_size=12)), min_size=1, max_size=4)


@settings(max_examples=100)
@given(lines)
def test_any_text_has_a_score(rows: list[tuple[str, str]]) -> None:
    hyps, ref = (list(column) for column in zip(*rows, strict=True))
    for scorer in ALL:
        assert math.isfinite(scorer(hyps, [ref], samples=2).value)
        assert all(c.score.high is not None for c in compare(scorer, {"a": hyps, "b": ref}, [ref], 2))


def test_a_metrics_config_has_the_documented_defaults() -> None:
    assert (BleuConfig().tokenize, ChrfConfig().word_order, BleuMosesConfig().split_hyphens) == (
        "13a",
        0,
        True,
    )


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d."]), max_size=8).map(" ".join)


@given(lines=st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_gleu_is_nltks(lines: list[tuple[str, str, str]]) -> None:
    """Of the corpus and of each sentence, against two references."""
    hyps, *refs = (list(column) for column in zip(*lines, strict=True))
    metric = Gleu(GleuConfig(name="gleu", tokenize="none"))
    split = [[ref.split() for ref in of] for _, *of in lines]
    assert metric(hyps, refs).value == pytest.approx(100 * corpus_gleu(split, [hyp.split() for hyp in hyps]))
    sentences = [100 * sentence_gleu(of, hyp.split()) for of, hyp in zip(split, hyps, strict=True)]
    assert [row["score"] for row in metric.per_sentence(hyps, refs)] == pytest.approx(sentences)


def test_gleu_says_what_it_was_made_of() -> None:
    (metric,) = metrics([{"name": "gleu", "lowercase": True}])
    score = metric(GOOD, [REF], samples=200)
    assert score.low is not None
    assert score.high is not None
    assert score.low < score.value < score.high
    assert re.fullmatch(r"nrefs:1\|bs:200\|seed:12345\|case:lc\|tok:13a\|n:4\|version:\S+", score.signature)
    assert metric([line.upper() for line in REF], [REF]).value == 100
    with pytest.raises(DataError, match="reference 1 has 5 lines"):
        metric(GOOD[:2], [REF])


def built(name: str, **options: Any) -> Metric:
    entry = load_plugins().registry.get("metric", name)
    return entry.build(entry.config(name=name, **options))


ASIAN = ["今天天气很好。", "我们去公园吧!", "猫在睡觉。"], ["今天天气不错。", "我们去公园。", "狗在睡觉。"]
SHORT = ["a b", "the cat", "no"], ["a b c", "the cat sat", "yes no"]


@pytest.mark.parametrize(
    ("name", "options", "scorer"),
    [
        ("bleu", {"smooth": "floor", "smooth_value": 0.3}, BLEU(smooth_method="floor", smooth_value=0.3)),
        ("bleu", {"smooth": "add-k", "smooth_value": 2.0}, BLEU(smooth_method="add-k", smooth_value=2.0)),
        ("bleu", {"max_ngram_order": 2}, BLEU(max_ngram_order=2)),
        ("bleu", {"max_ngram_order": 6}, BLEU(max_ngram_order=6)),
        ("bleu", {"effective_order": True}, BLEU(effective_order=True)),
        ("chrf", {"whitespace": True, "word_order": 2}, CHRF(whitespace=True, word_order=2)),
        ("ter", {"asian_support": True, "normalize": True}, TER(asian_support=True, normalized=True)),
    ],
    ids=["floor", "add-k", "order-2", "order-6", "effective-order", "whitespace", "asian-support"],
)
@pytest.mark.parametrize(("hyps", "refs"), [(GOOD, REF), SHORT, ASIAN], ids=["long", "short", "asian"])
def test_further_options_are_sacrebleus(
    name: str, options: dict[str, Any], scorer: Any, hyps: list[str], refs: list[str]
) -> None:
    theirs = scorer.corpus_score(hyps, [refs])
    score = built(name, **options)(hyps, [refs])
    assert score.value == pytest.approx(theirs.score)
    assert score.signature == scorer.get_signature().format()
    if name != "bleu":
        rows = built(name, **options).per_sentence(hyps, [refs])
        expected = [scorer.sentence_score(h, [r]).score for h, r in zip(hyps, refs, strict=True)]
        assert [row["score"] for row in rows] == pytest.approx(expected)


def test_every_order_of_n_grams_has_pairwise_scores() -> None:
    metric = built("bleu", max_ngram_order=2)
    rows = metric.pairwise(GOOD[:3])
    assert rows[0][1] == pytest.approx(metric.per_sentence([GOOD[0]], [[GOOD[1]]])[0]["score"])


def test_subwords_of_a_file_are_flores200_where_sacrebleu_has_downloaded_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a model in the place of the downloaded one."""
    from sacrebleu.tokenizers import tokenizer_spm

    from s2s_sentencepiece.training import train_subwords

    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "flores200sacrebleuspm"
    train_subwords(REF + GOOD, path, "bpe", 90)
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    theirs = BLEU(tokenize="flores200")
    ours = built("bleu", tokenize="flores200", tokenizer_file=str(path))
    score = ours(BAD, [REF])
    assert score.value == pytest.approx(theirs.corpus_score(BAD, [REF]).score)
    assert score.value != pytest.approx(BLEU().corpus_score(BAD, [REF]).score)
    assert score.signature == theirs.get_signature().format()
    assert "|tok:spm-" in built("bleu", tokenize="spm", tokenizer_file=str(path))(BAD, [REF]).signature
    for file, message in (("none", "none: No such file"), (__file__, "is no model of sentencepiece")):
        with pytest.raises(ConfigError, match=message):
            built("bleu", tokenize="spm", tokenizer_file=file)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bleu", {"tokenize": "flores101"}, "tokenize=flores101 needs a tokenizer_file"),
        ("bleu", {"tokenizer_file": "x"}, "tokenize=13a does not read a tokenizer_file"),
        ("bleu", {"smooth_value": 1.0}, "smooth_value is for smooth=floor and add-k, not exp"),
        ("bleu", {"smooth": "floor", "smooth_value": 0.0}, "smooth_value=0.0 must be above 0"),
        ("bleu", {"max_ngram_order": 0}, "give a number from 1 to 100"),
        ("ter", {"asian_support": True}, "needs normalize=true"),
    ],
    ids=str,
)
def test_options_that_have_no_effect_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(name, **options)


def test_a_tokeniser_without_its_package_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **options: Any) -> None:
        raise RuntimeError("\nJapanese needs more.\n\n    pip install sacrebleu[ja]\n")

    monkeypatch.setattr("s2s_metrics.sacre.BLEU", missing)
    with pytest.raises(ConfigError) as caught:
        built("bleu", tokenize="ja-mecab")
    assert str(caught.value) == "metrics.bleu.tokenize=ja-mecab: Japanese needs more. pip install sacrebleu[ja]"


def edits(hyp: tuple[str, ...], ref: tuple[str, ...]) -> int:
    """Levenshtein's distance by its definition."""
    if not hyp or not ref:
        return len(hyp) + len(ref)
    same = edits(hyp[1:], ref[1:]) + (hyp[0] != ref[0])
    return min(same, edits(hyp[1:], ref) + 1, edits(hyp, ref[1:]) + 1)


@given(st.lists(st.tuples(*[st.text("ab ", max_size=9)] * 2), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_word_error_rates_are_those_of_their_definitions(pairs: list[tuple[str, str]]) -> None:
    hyps, refs = [h for h, _ in pairs], [r for _, r in pairs]
    split = [(tuple(h.split()), tuple(r.split())) for h, r in pairs]
    n_words = sum(len(r) for _, r in split)
    n_edits = sum(edits(h, r) for h, r in split)
    lacking = sum(max((Counter(h) - Counter(r)).total(), (Counter(r) - Counter(h)).total()) for h, r in split)

    def percent(n: int, of: int) -> float:
        return 100 * n / of if of else 100.0 * bool(n)

    assert built("wer")(hyps, [refs]).value == pytest.approx(percent(n_edits, n_words))
    assert built("per")(hyps, [refs]).value == pytest.approx(percent(lacking, n_words))
    assert built("accuracy")(hyps, [refs]).value == pytest.approx(percent(sum(h == r for h, r in split), len(pairs)))


def test_of_several_references_the_nearest_counts_and_case_may_be_ignored() -> None:
    refs = [["a b c d", "x"], ["A b", "y z"]]
    assert built("wer")(["a b", "y"], refs).value == pytest.approx(100 * 2 / 4)
    assert built("wer", lowercase=True)(["a b", "x"], refs).value == 0
    assert built("accuracy", lowercase=True)(["a b", "y"], refs).value == 50
    score = built("wer")(GOOD, [REF], samples=50)
    assert score.low is not None
    assert score.low <= score.value <= (score.high or 0)
    assert not score.higher_is_better


def test_paired_randomization_is_sacrebleus_and_any_metric_has_the_same(tmp_path: Path) -> None:
    hyps = {"a": GOOD * 4, "b": BAD * 4, "c": (GOOD[:3] + BAD[3:]) * 4, "d": (GOOD[:4] + REF[4:]) * 4}
    for name, lines in {"ref": REF * 4, **hyps}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    command = f"{sys.executable} -m sacrebleu ref -i a b c d -m bleu --paired-ar --paired-ar-n 200 -f json"
    table = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    ours = compare(metric("bleu"), hyps, [REF * 4], samples=200, test="randomization")
    assert [one.p_value for one in ours] == [theirs["BLEU"].get("p_value") for theirs in json.loads(table)]
    bootstrap = compare(metric("bleu"), hyps, [REF * 4], samples=200)
    assert [one.p_value for one in ours] != [one.p_value for one in bootstrap]
    for one, lines in zip(ours[1:], list(hyps.values())[1:], strict=True):
        slow = paired_p_value(metric("bleu"), hyps["a"], lines, [REF * 4], PairedTest(200, 12345, "randomization"))
        assert slow == pytest.approx(one.p_value)
