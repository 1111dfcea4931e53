"""What validation reports, against sums over single sentences and outputs decoded one by one."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.generators import generator_of
from harness.small_runs import letters_config, letters_plugins
from s2s.batch import Batch, make_batch
from s2s.data.mapped_corpus import MappedCorpus, MappedCorpusWriter, RaggedIds
from s2s.decoding import BeamConfig
from s2s.distributed import World
from s2s.errors import ConfigError, DataError
from s2s.metrics import Metric, Score
from s2s.objective import Mean, Objective, Sums
from s2s.task import Example
from s2s.training import validation as validating
from s2s.training.dev_set import DevPart, check_best, dev_set
from s2s.training.signals import StopSignal
from s2s.training.validation import Validation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s.config import Config
    from s2s.model import Seq2Seq

WORDS = ["abc", "a", "cab", "bb", "ccab", "ab", "c"]


class Errors(Metric):
    """How many outputs are not their references; less is better."""

    name = "errors"
    higher_is_better = False

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        wrong = sum(hyp != ref for hyp, ref in zip(hyps, refs[0], strict=True))
        return Score(self.name, float(wrong), "errors|v:1")


class FirstPairs:
    """The first pairs of a corpus."""

    def __init__(self, corpus: MappedCorpus, n: int) -> None:
        self.corpus, self.n = corpus, n
        self.manifest = corpus.manifest

    def __len__(self) -> int:
        return self.n

    def __getattr__(self, name: str) -> Any:
        return getattr(self.corpus, name)

    def __getitem__(self, row: int) -> Any:
        return self.corpus[row]


def config_of(validation: Validation, best: str) -> Config:
    return replace(validation.config, valid=replace(validation.config.valid, best=best))


class Ranks(World):
    """One of two processes; the other's share is put in by hand."""

    others: Any = None

    def all_gather(self, value: Any) -> list[Any]:
        return [value, self.others] if self.rank == 0 else [self.others, value]


@pytest.fixture
def validation(tmp_path: Path) -> Validation:
    plugins = letters_plugins()
    config = letters_config(plugins, "search=greedy", "valid.best=errors", "train.tokens=9").config
    build = plugins.registry.get
    task = build("task", "letters").build(config.task)
    task.learn(tmp_path)
    torch.manual_seed(3)
    model = plugins.hook.s2s_build_model(config=config, vocab=task.vocab, registry=plugins.registry)
    with MappedCorpusWriter(tmp_path / "valid", task.vocab.src, task.vocab.tgt) as writer:
        ids = RaggedIds.from_lists([task.ids(word) for word in WORDS])
        writer.append(ids, ids)
    return Validation(
        config=config,
        task=task,
        model=model.train(),
        objective=build("objective", "label_smoothed").build(config.objective, None),
        corpora=[MappedCorpus(tmp_path / "valid")],
        examples=[Example(word, word) for word in WORDS],
        metrics=[Errors()],
        generator=generator_of(model, task, build("search", "greedy").build(config.search)),
        world=World(),
    )


def test_the_loss_is_the_mean_over_symbols_of_single_sentences(validation: Validation) -> None:
    sums = torch.zeros(2, dtype=torch.float64)
    for word in WORDS:
        ids = validation.task.ids(word)  # type: ignore[attr-defined]
        batch = make_batch([(ids, ids)], validation.task.vocab)
        logits = validation.model.project(validation.model(batch.src, batch.src_pad, batch.tgt_in))
        log_probs = logits.double().log_softmax(-1).gather(-1, batch.tgt_out[..., None])
        sums += torch.stack([-log_probs.sum(), torch.tensor(float(batch.n_tokens))]).detach()
    result = validation(StopSignal())
    assert result is not None
    assert result.values["nll"] == pytest.approx(float(sums[0] / sums[1]), rel=1e-6)
    assert result.values["ppl"] == pytest.approx(math.exp(result.values["nll"]))
    assert validation.model.training


class Lengths(Objective):
    """Extras with the objective's normaliser and with one of their own, and one that validation leaves out."""

    extras = ("nll", "targets", "draw", "long")
    valid_extras = ("nll", "targets", "draw")

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        assert not model.training
        targets = Mean(batch.n_tokens, len(batch.tgt_out))
        extras = {"nll": 1e6, "targets": targets, "draw": torch.rand(()), "long": 5.0}
        return Sums(torch.zeros(()), 1.0, extras)


def test_development_corpora_that_are_scored_apart_have_scores_of_their_own(validation: Validation) -> None:
    """The values of the whole are means by the corpora's weights, not by their sizes."""
    weights = {"a": 1.0, "b": 3.0, "zero": 0.0}
    parts = [DevPart(name, weight, [Errors()], [i, i + 3]) for i, (name, weight) in enumerate(weights.items())]
    corpora = [FirstPairs(validation.corpora[0], n) for n in (2, 4, 7)]
    apart = replace(validation, corpora=corpora, parts=parts)
    alone = [replace(validation, corpora=[one]).losses(StopSignal()) for one in corpora]
    nll = [one["nll"] for one in alone if one]
    assert apart.losses(StopSignal()) == {
        "nll": pytest.approx((nll[0] + 3 * nll[1]) / 4), "a/nll": nll[0], "b/nll": nll[1], "zero/nll": nll[2]
    }  # fmt: skip
    hyps = ["abc", "x", "x", "x", "ccab", "x", "c"]
    scores = {score.name: score.value for score in apart.scores(hyps)}
    assert scores == {"errors": pytest.approx((1 + 3 * 1) / 4), "a/errors": 1, "b/errors": 1, "zero/errors": 2}
    assert apart.basis != validation.basis
    for best, expected in {"b/nll": -nll[1], "a/errors": -2.0, "errors": -2.0}.items():
        config = config_of(validation, best)
        check_best(config, ["errors"], parts)
        result = replace(apart, config=config, generator=lambda some: [SimpleNamespace(hyp="?") for _ in some])(
            StopSignal()
        )
        assert result is not None
        assert result.criterion == pytest.approx(expected)


def test_examples_of_corpora_that_are_scored_apart_take_turns(validation: Validation) -> None:
    task: Any = validation.task
    task.corpora = lambda split: [("a", 1.0), ("b", 1.0)]
    task.examples = lambda split, name: [Example(name + str(n), "") for n in range(3 if name == "a" else 2)]
    parts = [DevPart(name, 1.0, []) for name in "ab"]
    found = dev_set(task, validation.config, World(), parts)
    assert [one.src for one in found.examples] == ["a0", "b0", "a1", "b1", "a2"]
    assert [part.rows for part in found.parts] == [[0, 2, 4], [1, 3]]
    assert [one.src for one in dev_set(task, validation.config, World()).examples] == ["a0", "a1", "a2", "b0", "b1"]


def test_extras_are_those_of_the_objective_the_same_each_time(validation: Validation) -> None:
    given = replace(validation, objective=Lengths())
    result = given.losses(StopSignal())
    assert result is not None
    assert result.keys() == {"nll", "targets", "draw"}
    assert result["nll"] == validation.losses(StopSignal())["nll"], "computed for every objective"  # type: ignore[index]
    assert result["targets"] == sum(len(word) + 1 for word in WORDS) / len(WORDS)
    assert 0 < result["draw"] < 1
    torch.manual_seed(77)
    assert given.losses(StopSignal()) == result
    given.config.seed += 1
    assert given.losses(StopSignal()) != result


def test_a_model_compiled_for_one_shape_is_judged_as_it_is(validation: Validation) -> None:
    """More than eight shapes would be an error where it is compiled whole, and each takes the compiler's time."""
    plain, compiled = validation.losses(StopSignal()), []
    validation.model.compile(backend=lambda graph, _: compiled.append(1) or graph.forward, dynamic=False)
    assert validation.losses(StopSignal()) == plain
    assert not compiled


def test_scores_are_those_of_outputs_decoded_one_by_one(validation: Validation) -> None:
    hyps = [next(iter(validation.generator([word]))).hyp for word in WORDS]
    result = validation(StopSignal())
    assert result is not None
    assert result.values["errors"] == sum(hyp != word for hyp, word in zip(hyps, WORDS, strict=True))
    assert result.criterion == -result.values["errors"]
    assert result.record()["search"] == "greedy"
    assert result.signatures == {"errors": "errors|v:1"}


def test_two_ranks_do_each_a_part_and_find_what_one_finds(validation: Validation) -> None:
    whole = validation(StopSignal())
    ranks = [replace(validation, world=Ranks(rank, 2)) for rank in (0, 1)]
    nll = [rank._local_sums() for rank in ranks]
    hyps = [rank._local_hyps() for rank in ranks]
    assert min(n_tokens for ((_, n_tokens),) in nll) > 0
    assert [len(part) for part in hyps] == [4, 3]

    object.__setattr__(ranks[0].world, "others", nll[1])
    assert whole is not None
    assert ranks[0].losses(StopSignal()) == pytest.approx({"nll": whole.values["nll"]}, rel=1e-6)
    object.__setattr__(ranks[0].world, "others", hyps[1])
    assert ranks[0].outputs(StopSignal()) == validation.outputs(StopSignal())


def test_an_interrupted_rank_leaves_all_without_a_result(validation: Validation) -> None:
    rank = replace(validation, world=Ranks(0, 2))  # the other's share is None
    assert rank(StopSignal()) is None


def test_a_model_that_gives_no_numbers_is_the_worst(validation: Validation) -> None:
    validation.config.valid.best = "nll"
    with torch.no_grad():
        validation.model.embed.weight.fill_(math.nan)  # type: ignore[union-attr, operator]
    result = validation(StopSignal())
    assert result is not None
    assert math.isnan(result.values["nll"])
    assert result.criterion == -math.inf


def test_the_metric_of_the_best_checkpoint_must_be_measured(validation: Validation) -> None:
    validation.config.valid.best = "eror"
    with pytest.raises(
        ConfigError, match=r"valid\.best=eror is not among the values of validation\. Did you mean 'errors'"
    ):
        check_best(validation.config, ["errors"])
    validation.config.valid.best, validation.config.valid.score = "errors", False
    with pytest.raises(ConfigError, match=r"Known: nll"):
        check_best(validation.config, ["errors"])


def test_the_first_sentences_are_decoded_and_none_where_nothing_is_scored(validation: Validation) -> None:
    task, config = validation.task, validation.config

    class Judged(type(task)):  # type: ignore[misc]
        def corpora(self, split: str) -> list[tuple[str, float]]:
            return [("one", 1.0), ("two", 1.0)]

    judged = Judged(config.task)
    for n, expected in [(6, 6), (0, 8), (100, 8)]:
        config.valid.sentences = n
        assert len(dev_set(judged, config, World()).examples) == expected
    config.valid.score = False
    assert dev_set(judged, config, World()).examples == []


def test_development_examples_are_the_same_in_all_processes_and_whenever_they_are_read(validation: Validation) -> None:
    """Each process decodes a share of them, and scores the outputs of all against its own."""
    task: Any = validation.task
    task.corpora = lambda split: [("one", 1.0)]
    ranks = Ranks(rank=0, size=2)
    ranks.others = "those of other examples"
    with pytest.raises(DataError, match=r"^task=letters: its examples of the development set are other ones in each"):
        dev_set(task, validation.config, ranks)
    task.examples = lambda split, corpus: iter(())
    with pytest.raises(DataError, match=r"^task=letters: its examples of the development set are none when they are"):
        dev_set(task, validation.config, World())


@pytest.mark.parametrize(
    ("patience", "of", "option"),
    [(2, "last", "valid.patience=2"), (0, "best", "train.average_of=best"), (2, "best", "valid.patience=2")],
)
def test_what_needs_a_development_set_says_so(validation: Validation, patience: int, of: Any, option: str) -> None:
    validation.config.valid.patience, validation.config.train.average_of = patience, of
    assert replace(validation), "there is one"
    with pytest.raises(ConfigError, match=rf"^{option} needs a development set, and task=letters has none$"):
        replace(validation, corpora=[])


def test_values_can_be_compared_if_they_are_of_the_same_sentences(validation: Validation, tmp_path: Path) -> None:
    with MappedCorpusWriter(tmp_path / "other", validation.task.vocab.src, validation.task.vocab.tgt) as writer:
        writer.append(*[RaggedIds.from_lists([validation.task.encode_source(["cab"])[0]])] * 2)
    other = [MappedCorpus(tmp_path / "other")]
    beam = replace(validation.config, search=BeamConfig(name="beam", beam=3))
    fewer = replace(validation, examples=validation.examples[:3])
    assert replace(validation, corpora=other).basis == replace(validation).basis, "errors counts decoded outputs"
    assert len({validation.basis, fewer.basis, replace(validation, config=beam).basis}) == 3
    by_nll = replace(validation.config, valid=replace(validation.config.valid, best="nll"))
    ranked = replace(validation, config=by_nll)
    assert replace(ranked, corpora=other).basis != ranked.basis
    assert replace(fewer, config=by_nll).basis == ranked.basis, "nll is of all sentences"


def test_without_a_development_set_there_is_nothing_to_validate(validation: Validation) -> None:
    assert bool(validation) is True
    assert bool(replace(validation, corpora=[])) is False


class Known(Validation):
    """With these values in the place of computed ones."""

    found: Any = ({"nll": 150.0, "draw": 0.5}, [Score("errors", 3.0, "v:1", higher_is_better=True)])

    def losses(self, stop: StopSignal) -> Any:
        return self.found[0]

    def outputs(self, stop: StopSignal) -> Any:
        return self.found[1] and WORDS

    def scores(self, hyps: Sequence[str]) -> Any:
        return self.found[1]


def known(validation: Validation, *found: Any) -> Any:
    own = Known(**vars(validation))
    object.__setattr__(own, "found", found or Known.found)
    return own


def test_a_hopeless_perplexity_is_a_number_and_a_larger_score_is_better(validation: Validation) -> None:
    result = known(validation)(StopSignal())
    assert result.values == {"nll": 150.0, "ppl": math.exp(100), "draw": 0.5, "errors": 3.0}
    assert (result.criterion, result.search) == (3.0, "greedy")
    validation.config.valid.best = "nll"
    assert known(validation)(StopSignal()).criterion == -150.0
    assert known(validation, {"nll": 1.0}, [])(StopSignal()).search == "", "nothing was decoded"


@pytest.mark.parametrize("found", [(None, []), ({"nll": 1.0}, None)])
def test_half_a_validation_is_none(validation: Validation, found: Any) -> None:
    assert known(validation, *found)(StopSignal()) is None


def test_a_beam_is_named_with_its_width(validation: Validation) -> None:
    plugins = letters_plugins()
    config = letters_config(plugins, "search=beam", "search.beam=3", "valid.best=errors").config
    assert known(replace(validation, config=config))(StopSignal()).search == "beam 3"


@pytest.mark.parametrize(("score", "metrics", "n"), [(True, [Errors()], 1), (False, [Errors()], 0), (True, [], 0)])
def test_outputs_are_decoded_where_something_scores_them(
    validation: Validation, score: bool, metrics: Any, n: int
) -> None:
    validation.config.valid.score = score
    decoded = list[str]()

    def generate(examples: Iterable[Example]) -> Iterator[Any]:
        for example in examples:
            decoded.append(example.src)
            yield SimpleNamespace(hyp="wrong")

    validating_these = replace(validation, metrics=metrics, generator=generate)
    hyps = validating_these.outputs(StopSignal())
    assert hyps is not None
    found = validating_these.scores(hyps)
    assert found == [Score("errors", float(len(WORDS)), "errors|v:1", higher_is_better=False)] * n
    assert decoded == WORDS * n


def test_a_validation_counts_its_outputs_and_measures_their_length(validation: Validation) -> None:
    """Of all sentences of the development set, of which some are decoded."""
    some = validation.examples[:3]
    hyps = ["", *(2 * one.tgt for one in some[1:])]
    generator = lambda _: [SimpleNamespace(hyp=hyp) for hyp in hyps]  # noqa: E731
    found = replace(validation, examples=some, generator=generator)(StopSignal())
    assert found is not None
    assert (found.n_sentences, found.n_all, found.n_empty) == (3, len(WORDS), 1)
    n_refs = [len(one.tgt) for one in some]
    assert found.length_ratio == pytest.approx(2 * sum(n_refs[1:]) / sum(n_refs))
    assert found.record().items() >= {"sentences": 3, "of_sentences": len(WORDS), "empty": 1}.items()


@pytest.mark.parametrize(("micro_tokens", "tokens"), [("5", 5), ("null", 9), ("auto", 9)])
def test_batches_are_as_large_as_those_that_one_device_takes_in_training(
    validation: Validation, micro_tokens: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, validation_batches = list[int](), validating.validation_batches
    monkeypatch.setattr(
        validating, "validation_batches", lambda corpus, n: asked.append(n) or validation_batches(corpus, n)
    )
    given = ["search=greedy", "train.tokens=9", f"train.micro_tokens={micro_tokens}"]
    config = letters_config(letters_plugins(), *given).config
    replace(validation, config=config).losses(StopSignal())
    assert asked == [tokens]


def test_draws_of_an_objective_follow_from_the_seed_and_the_number_of_the_batch(validation: Validation) -> None:
    seeds = list[int]()

    class Seeds(Lengths):
        def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
            seeds.append(torch.initial_seed())
            return super().__call__(model, batch)

    validation.config.seed = 40
    replace(validation, objective=Seeds()).losses(StopSignal())
    assert seeds == list(range(40, 40 + len(seeds)))
    assert len(seeds) > 1


def test_validations_of_the_first_version_are_ranked_with_those_of_this_one() -> None:
    """Its basis was the hash of pairs and of all options of the search; those added since have their defaults."""
    config = SimpleNamespace(valid=SimpleNamespace(best="bleu"), search=BeamConfig(name="beam"))
    validation: Any = SimpleNamespace(config=config, examples=[Example("a", "b")], parts=())
    added = (
        "repetition_penalty",
        "temperature",
        "min_len",
        "no_repeat_ngram_size",
        "length_offset",
        "penalized",
        "renormalize",
    )
    options = {name: value for name, value in asdict(config.search).items() if name not in added}
    first = hashlib.sha256(json.dumps([[["a", "b"]], options], sort_keys=True).encode()).hexdigest()
    assert Validation.basis.fget(validation) == first  # type: ignore[attr-defined]
    validation.examples = [Example("a", "b", {"language": "de"})]
    assert Validation.basis.fget(validation) != first  # type: ignore[attr-defined]
