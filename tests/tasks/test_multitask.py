"""Several tasks as one: disjoint ids, lines that name their task, separate constraints and scores."""

from __future__ import annotations

import json
import weakref
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from harness.word_numbers import word_numbers
from s2s.batch import make_batch
from s2s.cli import generate, score, train
from s2s.errors import ConfigError, DataError, PluginError, UserError
from s2s.metrics import build_metrics
from s2s.plugin import load_plugins
from s2s.task import Example
from s2s_multitask import MultitaskConfig
from s2s_multitask.constraint import MultitaskConstraint, TaskConstraint
from s2s_multitask.metric import OnTask
from s2s_multitask.task import Multitask
from s2s_serve.engine import warm_up_text
from s2s_testing import check_task

TASKS: dict[str, Any] = {
    "translate": {"name": "translation", "pairs": 300, "vocab_size": 200, "unknown_symbols": 0.0},
    "parse": {"name": "parsing", "trees": 300, "src_vocab_size": 150, "unknown_symbols": 0.0},
}


def config(**options: Any) -> MultitaskConfig:
    return MultitaskConfig(name="multitask", tasks=TASKS, **options)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Multitask:
    made = Multitask(config(ratio={"parse": 0.1}), load_plugins().registry)
    made.learn(tmp_path_factory.mktemp("tokens"))
    return made


def first(task: Multitask, split: str, corpus: str, n: int = 6) -> list[Example]:
    return [e for e in islice(task.examples(split, corpus), n) if isinstance(e, Example)]


@pytest.mark.parametrize("order", [("translate", "parse"), ("parse", "translate")])
def test_it_keeps_the_contract_of_a_task(tmp_path: Path, order: tuple[str, str]) -> None:
    chosen = MultitaskConfig(name="multitask", tasks={name: TASKS[name] for name in order})
    check_task(load_plugins().registry.get("task", "multitask"), chosen, tmp_path)


def test_the_ratio_multiplies_weights(task: Multitask) -> None:
    assert task.corpora("train") == [("translate/synthetic", 1.0), ("parse/synthetic", 0.1)]


def test_source_symbols_of_two_tasks_never_meet(task: Multitask) -> None:
    ids = {
        name: {i for pair in task.encode(first(task, "train", f"{name}/synthetic", 50)) for i in pair.src if i > 3}
        for name in TASKS
    }
    assert not ids["translate"] & ids["parse"]
    assert task.vocab.src == 4 + 2 + 196 + 146
    assert max(ids["parse"]) < task.vocab.src


def test_an_encoded_source_is_the_tasks_own_behind_a_tag(task: Multitask) -> None:
    for name, own in task.tasks.items():
        [(tag, *ids)] = task.encode_source([f"{name}: the cat sleeps ."])
        assert tag == task.tags[name]
        back = [i if i < 4 else i - task.offsets[name] for i in ids]
        assert [back] == own.encode_source(["the cat sleeps ."])


def test_the_text_of_source_ids_is_what_was_encoded(task: Multitask) -> None:
    """Of each task by itself, too; objectives that score outputs need it."""
    for name, own in task.tasks.items():
        for example in first(task, "train", f"{name}/synthetic"):
            (ids,) = task.encode_source([example.src])
            assert task.encode_source([task.source_text(ids)]) == [ids]
            text = own.source_text(own.encode_source([example.src.partition(": ")[2]])[0])
            assert task.source_text(ids) == f"{name}: {text}"
    assert task.source_text([task.vocab.unk]).startswith("translate: ")


def test_the_first_development_pairs_are_of_all_tasks(task: Multitask) -> None:
    assert task.corpora("valid") == [("mixed", 1.0)]
    assert [e.src.partition(":")[0] for e in first(task, "valid", "mixed")] == ["translate", "parse"] * 3


@pytest.mark.parametrize("line", ["the cat sleeps", "pares: the cat", " ", "12:30 is late"])
def test_a_line_without_a_task_is_refused_with_their_names(task: Multitask, line: str) -> None:
    with pytest.raises(DataError, match=r"an input begins with its task, as in 'translate: …'.*parse"):
        task.encode_source([line])


def test_an_empty_line_needs_no_task(task: Multitask) -> None:
    empty, line, without_text = task.encode_source(["", "translate: the cat", "parse: "])
    assert (empty, without_text) == ([], [])
    assert [line] == task.encode_source(["translate: the cat"])


def test_a_server_begins_with_a_sentence_of_the_first_task(task: Multitask) -> None:
    assert warm_up_text(task) == "translate: a"
    assert task.encode_source([warm_up_text(task)])[0][0] == task.tags["translate"]


def test_a_batch_of_both_is_constrained_as_each_alone(task: Multitask) -> None:
    """Each row allows what its own task's constraint allows, beside the other's and by itself."""
    examples = first(task, "valid", "mixed", 6)
    pairs = task.encode(examples)
    batch = make_batch(pairs, task.vocab)
    limit = torch.full((len(pairs),), 200)
    mixed = task.constraint()
    state = mixed.start(batch.src, batch.src_pad, limit)
    own = task.tasks["parse"].constraint()
    assert own is not None
    parses = [i for i, example in enumerate(examples) if example.src.startswith("parse")]
    inner = make_batch(task.tasks["parse"].encode([_without_names(examples[i]) for i in parses]), task.vocab)
    expected = own.start(inner.src, inner.src_pad, limit[parses])
    n_parse = task.tasks["parse"].vocab.tgt
    for token in batch.tgt_out.T[:8, :, None]:
        allowed = mixed.allowed(state)
        assert torch.equal(allowed[parses, :, :n_parse], own.allowed(expected))
        assert not allowed[parses, :, n_parse:].any()
        assert allowed[::2, :, : task.tasks["translate"].vocab.tgt].all()
        state, expected = mixed.advance(state, token), own.advance(expected, token[parses])


class Copies:
    """Allows the source alone; the state is the position, then the source."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return F.pad(src.masked_fill(pad, 0), (1, 0))[:, None]

    def allowed(self, state: Tensor) -> Tensor:
        return F.one_hot(state[..., 1:].gather(-1, state[..., :1].clamp(max=state.size(-1) - 2))[..., 0], 9).bool()

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return torch.cat([state[..., :1] + 1, state[..., 1:]], -1)


class Wide:
    """Allows everything, with states of nine numbers."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.zeros(len(src), 1, 9, dtype=torch.long)


@pytest.mark.parametrize("parts", [[Copies()], [Copies(), Wide()]], ids=["waiting", "joining"])
def test_a_batch_that_begins_later_with_shorter_sources_changes_no_other(parts: list[Any]) -> None:
    """Its states are narrower; beside those of another task they can still join the first ones."""
    mixed = MultitaskConstraint([TaskConstraint(part, 9, 0) for part in parts], first_tag=9)
    sources = torch.tensor([[9, 4, 5, 6, 7, 3]]), torch.tensor([[9, 8, 3]])
    long, short = (mixed.start(src, src == 0, torch.tensor([9])) for src in sources)
    states = [torch.cat([long, short])] if long.shape == short.shape else [long, short]
    for expected in ([4, 8], [5, 3], [6, 3], [7, 3]):
        found = [mixed.allowed(state) for state in states]
        assert torch.cat(found).nonzero()[:, -1].tolist() == expected
        states = [mixed.advance(state, allowed.int().argmax(-1)) for state, allowed in zip(states, found, strict=True)]


def test_states_of_earlier_steps_are_not_kept() -> None:
    mixed = MultitaskConstraint([TaskConstraint(Copies(), 9, 0)], first_tag=9)  # type: ignore[arg-type]
    src = torch.tensor([[9, 4, 5, 6, 7, 3]])
    state, earlier = mixed.start(src, src == 0, torch.tensor([9])), []
    for token in (4, 5, 6):
        earlier.append(weakref.ref(state))
        state = mixed.advance(state, torch.tensor([[token]]))
    assert [one() for one in earlier] == [None] * 3


def test_states_that_are_no_whole_numbers_are_refused() -> None:
    class Flags(Wide):
        def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
            return super().start(src, pad, limit).bool()

    mixed = MultitaskConstraint([TaskConstraint(Flags(), 9, 0)], first_tag=9)  # type: ignore[arg-type]
    src = torch.tensor([[9, 8, 3]])
    with pytest.raises(PluginError, match=r"^Flags.start: its states are torch.bool"):
        mixed.start(src, src == 0, torch.tensor([9]))


def _without_names(example: Example) -> Example:
    return Example(*(side.removeprefix("parse: ") for side in (example.src, example.tgt)))


def test_each_metric_judges_its_own_lines(task: Multitask) -> None:
    registry = load_plugins().registry
    metrics = {metric.name: metric for metric in build_metrics(task, registry)}
    assert list(metrics) == ["translate/bleu", "translate/chrf", "parse/evalb"]
    refs = ["translate: ein alter Hund schläft hier", "parse: (S (NP (DT a) (NN dog)) (VP (VBZ eats)))"]
    right_parse = ["translate: nein", refs[1]]
    assert metrics["parse/evalb"](right_parse, [refs]).value == 100
    assert metrics["translate/chrf"](right_parse, [refs]).value < 50
    assert metrics["translate/bleu"]([refs[0], "nothing"], [refs]).value == pytest.approx(100)
    assert len(metrics["parse/evalb"].per_sentence(right_parse, [refs])) == 2


def test_a_metric_on_a_task_has_the_direction_of_the_metric() -> None:
    """Also where the task has no lines."""
    ter = OnTask("translate", load_plugins().registry.build_default("metric", "ter"))
    assert not ter.higher_is_better
    assert not ter.scored(["parse: x"], [["parse: x"]]).higher_is_better


@pytest.mark.parametrize(
    ("tasks", "ratio", "said"),
    [
        ({}, {}, "task.tasks names nothing"),
        ({"a-b": {"name": "parsing"}}, {}, "letters, digits and _"),
        ({"p": {"trees": 3}}, {}, "task.tasks.p must name a task"),
        ({"p": {"name": "parsnig"}}, {}, "Did you mean 'parsing'?"),
        ({"p": {"name": "parsing", "tres": 3}}, {}, "task.tasks.p: task.tres: no such option. Did you mean 'trees'?"),
        ({"p": {"name": "parsing"}}, {"q": 1.0}, "task.ratio.q"),
        ({"p": {"name": "parsing"}}, {"p": -1.0}, "task.ratio.p=-1.0"),
    ],
)
def test_what_cannot_be_is_refused(tasks: dict[str, Any], ratio: dict[str, float], said: str) -> None:
    with pytest.raises(UserError) as caught:
        Multitask(MultitaskConfig(name="multitask", tasks=tasks, ratio=ratio), load_plugins().registry)
    assert said in str(caught.value)


def test_a_task_that_labels_source_words_is_refused(tmp_path: Path) -> None:
    labelled = {"name": "parsing", "trees": 100, "words": "parts", "word_labels": "tags"}
    made = Multitask(MultitaskConfig(name="multitask", tasks={"p": labelled}), load_plugins().registry)
    with pytest.raises(ConfigError, match=r"^task.tasks.p labels the words of training pairs"):
        made.learn(tmp_path)


@pytest.mark.slow
def test_two_tasks_are_trained_generated_and_scored_by_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["task.tasks.translate.pairs=1000", "task.tasks.parse.trees=1000", "data.prepared=prepared"]
    few = ["train.steps=60", "train.tokens=600", "valid.every=60", "valid.sentences=6", "checkpoint.every=60"]
    assert train.main(["experiment=multitask", *small, *few, "run=both", "--quiet"]) == 0
    records = [json.loads(line) for line in Path("runs/both/log.jsonl").read_text().splitlines()]
    losses = [record["nll"] for record in records if "gnorm" in record]
    assert losses[-1] < losses[0] - 1
    scored = next(record for record in records if "parse/evalb" in record)
    assert {"translate/bleu", "translate/chrf", "parse/evalb"} <= scored.keys()
    sources = ["parse: the cat sleeps .", "translate: The cat sleeps ."]
    Path("in.txt").write_text("\n".join(sources) + "\n")
    capsys.readouterr()
    assert generate.main(["run=both", "input=in.txt"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("parse: (")
    assert [word for word in ("the", "cat", "sleeps", ".") if f" {word})" not in out[0]] == []
    assert out[1].startswith("translate: ")
    Path("out.txt").write_text("\n".join(out) + "\n")
    assert score.main(["experiment=multitask", "hyp=out.txt", "ref=out.txt", "samples=0"]) == 0
    assert "parse/evalb" in capsys.readouterr().out


def test_words_are_numbered_behind_the_name_of_the_task(task: Multitask) -> None:
    line = "translate: the cat sees"
    own = task.tasks["translate"].source_offsets("the cat sees")
    assert task.source_offsets(line) == [None, *((11 + one[0], 11 + one[1]) for one in own if one is not None)]
    (pair,) = task.encode([Example(line, "translate: die Katze")])
    assert task.detokenize(pair.tgt, line) == "translate: die Katze"
    words = word_numbers("translate: die Katze", task.target_offsets(pair.tgt, line))
    assert (words[0], words[-1]) == (1, 2)
    assert "".join(task.pieces(pair.tgt, line)) == "▁die▁Katze"


def test_a_pair_is_encoded_anew_by_its_own_task(task: Multitask, tmp_path: Path) -> None:
    tasks = {**TASKS, "translate": {**TASKS["translate"], "subword_sampling": 0.5}}
    sampling = Multitask(MultitaskConfig(name="multitask", tasks=tasks), load_plugins().registry)
    sampling.learn(tmp_path)
    vary = sampling.variation()
    assert vary
    assert (task.variation(), task.varied_share(), sampling.varied_share()) == (None, 0.0, 1.0)
    for name in TASKS:
        examples = first(sampling, "train", f"{name}/synthetic")
        pairs = sampling.encode(examples)
        again = [vary(pair, 12345 << 20) for pair in pairs]
        assert (again == pairs) is (name == "parse")
        for example, pair, other in zip(examples, pairs, again, strict=True):
            assert other.src[0] == pair.src[0]
            assert sampling.source_text(other.src) == sampling.source_text(pair.src)
            assert sampling.detokenize(other.tgt, example.src) == sampling.detokenize(pair.tgt, example.src)
