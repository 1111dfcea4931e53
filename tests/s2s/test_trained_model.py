"""A run in a program, with the letters plugin in place of a trained one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import sacrebleu
import torch

from harness.small_runs import build, letters_config, letters_plugins
from s2s import trained_model
from s2s.errors import ConfigError, DataError
from s2s.generation import build as loading
from s2s.generation.models import Models
from s2s.generation.scoring import score_ids
from s2s.model import AttentionMap
from s2s.task import Encoded
from s2s.trained_model import TrainedModel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PLUGINS = letters_plugins()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads the run with these options."""
    composed = letters_config(PLUGINS, "search.beam=3")
    torch.manual_seed(5)
    model = build(composed, PLUGINS, tmp_path / "prepared").eval()
    task = PLUGINS.registry.get("task", "letters").build(composed.config.task)
    task.load(tmp_path / "prepared")
    of_run = {"config": composed.config, "sources": None, "shortlist": None, "passed_over": ()}
    run: Any = SimpleNamespace(task=task, model=model, **of_run)
    monkeypatch.setattr(loading, "load_models", lambda *_: Models(run, tmp_path, model, [model], {}, ""))
    return lambda *options: TrainedModel(["run=x", "device=cpu", "matmul=torch", *options], PLUGINS)


def test_a_text_gives_a_text_several_give_several_and_the_n_best_are_lists(load: Any) -> None:
    model = load()
    single = model.translate("abc")
    assert isinstance(single, str)
    assert model.translate(["abc", "b"]) == [single, model.translate("b")]
    (several,) = model.translate(["abc"], nbest=3)
    assert len(several) == 3
    assert several[0] == single
    assert model.translate("abc", nbest=3) == several
    by_default = load("nbest=3")
    assert by_default.translate("abc") == several
    assert by_default.translate("abc", nbest=1) == single


def test_outputs_are_read_as_the_tasks_own_objects(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load()
    monkeypatch.setattr(model.task, "as_object", lambda hyp: ("object", hyp))
    single, several = model.translate("abc"), model.translate("abc", nbest=2)
    assert model.parse("abc") == ("object", single)
    assert model.parse(["abc"]) == [("object", single)]
    assert model.parse("abc", nbest=2) == [("object", hyp) for hyp in several]


def test_a_generator_is_made_once_for_each_choice_of_options(load: Any) -> None:
    model = load()
    one = model.generator(nbest=2)
    list(model.generate(["abc", "b"], nbest=2))
    assert model.generator(nbest=2) is one
    assert one.counts.inputs == 2
    assert model.generator(nbest=3) is not one


def test_targets_are_scored_as_their_ids_are(load: Any) -> None:
    model = load()
    pairs = [("abc", "ab"), ("b", "")]
    encoded = [Encoded(model.task.ids(src), model.task.ids(tgt)) for src, tgt in pairs]
    expected = list(score_ids(model.model, model.task.vocab, encoded, model.device))
    assert model.score(*map(list, zip(*pairs, strict=True))) == expected
    assert model.score("abc", "ab") == expected[0]


def test_there_are_as_many_targets_as_sources(load: Any) -> None:
    model = load()
    with pytest.raises(DataError, match=r"^1,000 sources and 1 targets; give one for each$"):
        model.score(["a"] * 1000, ["b"])
    for given in (("a", ["b"]), (["a"], "b")):
        with pytest.raises(DataError, match="give two texts, or two lists"):
            model.score(*given)
    with pytest.raises(DataError, match=r"^1 sources and 2 references; give one for each$"):
        model.evaluate(["a"], ["b", "c"])


def test_outputs_are_scored_by_the_metrics_of_the_task(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Any]()

    class Noting:
        name = "noting"

        def scored(self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int) -> str:
            asked.append((hyps, refs, samples))
            return "its score"

    monkeypatch.setattr(trained_model, "build_metrics", lambda *of: asked.append(of) or [Noting()])
    model = load()
    assert model.evaluate(["abc", "b"], ["c", "d"], "bleu", search={"min_len": 2}) == {"noting": "its score"}
    assert model.evaluate(["abc"], ["c"], samples=3) == {"noting": "its score"}
    hyps = model.translate(["abc", "b"], search={"min_len": 2}), model.translate(["abc"])
    assert asked[0] == (model.task, PLUGINS.registry, "bleu")
    assert asked[1] == (hyps[0], [["c", "d"]], 1000)
    assert asked[2:] == [(model.task, PLUGINS.registry, None), (hyps[1], [["c"]], 3)]


def test_inputs_that_the_task_scores_apart_have_scores_of_their_own(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics get the options of each group, and a mean is of the groups, not of the sentences."""
    model = load()
    sources, groups = ["abcab", "b", "cacb", "cccc"], ["en-ja", "en-de", "en-ja", "en-ja"]
    hyps = model.translate(sources)
    refs = [f"{hyp} c" if number % 2 else hyp[1:] + "b" for number, hyp in enumerate(hyps)]
    units = {"en-ja": "char", "en-de": "13a"}

    def evaluated(names: Sequence[str], n: int) -> dict[str, Any]:
        found = iter((name, {"tokenize": units[name]}) for name in names)
        monkeypatch.setattr(model.task, "scored_group", lambda fields: next(found))
        return dict(model.evaluate(sources[:n], refs[:n], "bleu", samples=20))

    scores = evaluated(groups, 4)
    assert list(scores) == ["bleu", "en-ja/bleu", "en-de/bleu"]
    for name, rows in {"en-ja": (0, 2, 3), "en-de": (1,)}.items():
        part, ref = ([of[row] for row in rows] for of in (hyps, refs))
        expected = sacrebleu.corpus_bleu(part, [ref], tokenize=units[name])
        assert scores[f"{name}/bleu"].value == pytest.approx(expected.score)
        assert scores[f"{name}/bleu"].low is not None
    mean = scores["bleu"]
    assert mean.value == pytest.approx((scores["en-ja/bleu"].value + scores["en-de/bleu"].value) / 2)
    assert (mean.low, mean.high, mean.signature) == (None, None, "mean of 2 corpora")
    alone = evaluated(["en-ja"] * 2, 2)
    assert list(alone) == ["bleu"]
    assert "tok:char" in alone["bleu"].signature
    assert alone["bleu"].value == pytest.approx(sacrebleu.corpus_bleu(hyps[:2], [refs[:2]], tokenize="char").score)


def test_attention_is_that_of_one_pair_with_the_names_of_its_tokens(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = load(), list[Any]()

    def maps(src: torch.Tensor, pad: torch.Tensor, tgt: torch.Tensor) -> list[AttentionMap]:
        seen.append((src.tolist(), tgt.tolist(), model.model.training))
        return [AttentionMap("cross", 1, "tgt", "src", torch.arange(6.0).view(1, 1, 2, 3))]

    with pytest.raises(ConfigError, match=r"^arch=tiny has no attention \(Seq2Seq\.attention_maps\)$"):
        model.attention("ab", "c")
    monkeypatch.setattr(model.model, "attention_maps", maps)
    model.model.train()
    found = model.attention("ab", "c")
    assert seen == [([[4, 5, 3]], [[2, 6]], False)]
    assert model.model.training
    assert (found.src, found.tgt) == (["4", "5", "3"], ["6", "3"])
    assert found.maps[0].weights.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    names = [str(i) if i % 2 else ("kind", f"n{i}") for i in range(7)]
    monkeypatch.setattr(model.task, "vocabulary", lambda side: names if side == "src" else None)
    assert model.attention("ab", "c").src == ["n4", "5", "3"]
    (output,) = model.generate(["ab"])
    assert model.attention("ab").tgt == [str(i) for i in (*output.tokens, 3)]


def test_raw_text_is_read_by_the_task_in_every_method(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, model = load(), load("raw=true")
    monkeypatch.setattr(model.task, "read_raw", str.lower)
    seen = list[Any]()

    def maps(src: torch.Tensor, pad: torch.Tensor, tgt: torch.Tensor) -> list[AttentionMap]:
        seen.append((src.tolist(), tgt.tolist()))
        return [AttentionMap("cross", 1, "tgt", "src", torch.ones(1, 1, 1, 1))]

    for of in (plain, model):
        monkeypatch.setattr(of.model, "attention_maps", maps)
    plain.attention("ab"), plain.attention("ab", "c")
    model.attention("AB"), model.attention("AB", "c")
    assert seen[:2] == seen[2:]
    assert model.translate("AB") == plain.translate("ab")
    assert model.score("AB", "c") == plain.score("ab", "c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "x"}, "output: inputs are given, and outputs returned, as texts"),
        ({"threads": 3}, "threads: it concerns the models; give it to s2s.load"),
    ],
    ids=str,
)
def test_an_option_that_means_nothing_in_a_call_is_refused(load: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load().translate("abc", **options)
    assert str(caught.value) == message
    with pytest.raises(ConfigError, match=r"^input: inputs are given"):
        load("input=x")


def test_what_is_no_text_is_refused_before_anything_is_decoded(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load()
    monkeypatch.setattr(model.model, "encode", lambda *_: pytest.fail("an input is decoded"))
    wrong: Any
    for call in (model.translate, model.parse, model.generate):
        for wrong in (["abc", 3], ("abc", {"src": ["x"]})):
            with pytest.raises(DataError, match=r"^input 2: an input is a text, or a mapping with its text"):
                call(wrong)
        with pytest.raises(DataError, match=r"^inputs are a text, or several, not int"):
            call(3)
    with pytest.raises(DataError, match=r"^target 2 is no text, but int"):
        model.score(["a", "b"], ["a", 3])
    with pytest.raises(DataError, match=r"^input 2: an input is a text"):
        model.score(["a", 3], ["a", "b"])
    with pytest.raises(DataError, match=r"^reference 1 is no text, but float"):
        model.evaluate(["a"], [0.5])
    for wrong in ("a", {"src": "a"}):
        with pytest.raises(DataError, match=r"^sources are a list of texts, not (str|dict)"):
            model.evaluate(wrong, ["a"])
    for wrong in (0, "x", None):
        with pytest.raises(ConfigError, match=rf"^tokens={wrong!r} must be a number from 1 up"):
            model.score("a", "a", tokens=wrong)
        with pytest.raises(ConfigError, match=r"^samples=(-1|'x'|None) must be a number from 0 up"):
            model.evaluate(["a"], ["a"], samples=wrong if wrong != 0 else -1)
    with pytest.raises(DataError, match=r"^there is nothing to score: no sources"):
        model.evaluate([], [])
    with pytest.raises(DataError, match=r"^a target is a text, not int"):
        model.attention("abc", 3)


def test_a_missing_text_among_others_has_an_empty_output(load: Any) -> None:
    model = load()
    first, second = model.translate("abc"), model.translate("b")
    assert model.translate(["abc", None, "", float("nan"), {"src": None}, "b"]) == [first, "", "", "", "", second]
    assert model.translate(iter(["abc", None])) == [first, ""]
    assert model.parse(["abc", None]) == [first, ""]
    assert model.score(["abc", None], [None, float("nan")]) == model.score(["abc", ""], ["", ""])
    assert model.translate([{"src": "abc", "prefix": None, "phrases": None}]) == [first]
