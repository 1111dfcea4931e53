"""Memory networks: the paper's equations by loops, the contract, counts, and answers by hops."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from harness.arch_checks import assert_ensembles, assert_searched, plugins
from s2s import Batch, ConfigError, Example, Vocab, make_batch
from s2s.compose import compose
from s2s.config import Config
from s2s_memory_networks import MemoryNetworkConfig
from s2s_memory_networks.model import MemoryNetwork
from s2s_stories import StoriesConfig
from s2s_stories.generator import Story, story
from s2s_stories.task import SENTENCE, Stories
from s2s_testing import VOCAB, check_arch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

UNITS = Vocab(src=12, tgt=12, joint=True, word_begins=[i == 4 for i in range(12)])
"""Token 4 begins a unit."""
STORY = [[4, 5, 6, 7], [4, 8, 6], [4, 9, 10, 11, 5], [4, 7, 8]]
"""Three memories and a question"""
FORMS: dict[str, dict[str, Any]] = {
    "adjacent": {},
    "layerwise, bag, no times": {"tying": "layerwise", "encoding": "bag", "temporal": False, "n_hops": 2},
    "layerwise, linear, one memory": {"tying": "layerwise", "match": "linear", "n_hops": 2, "capacity": 1},
}


def config_of(**changes: Any) -> MemoryNetworkConfig:
    return MemoryNetworkConfig(**({"d_model": 8, "noise": 0.0, "init_std": 0.4} | changes))


def build(vocab: Vocab, **changes: Any) -> MemoryNetwork:
    torch.manual_seed(1)
    return MemoryNetwork(config_of(**changes), vocab).eval()


def bag(table: Tensor, unit: Sequence[int], encoding: str) -> Tensor:
    """The sum of l_j * table[word], component by component."""
    total, d = torch.zeros(table.size(1)), table.size(1)
    for j, word in enumerate(unit, 1):
        for k in range(d):
            weight = (1 - j / len(unit)) - ((k + 1) / d) * (1 - 2 * j / len(unit))
            total[k] += (weight if encoding == "position" else 1.0) * table[word, k]
    return total


def by_loops(model: MemoryNetwork, units: list[list[int]], tgt: Sequence[int]) -> tuple[Tensor, list[list[float]]]:
    """Logits [V] after the output tokens `tgt`, and each hop's weights of the memories."""
    c, layerwise = model.config, model.config.tying == "layerwise"
    *story, question = units
    memories = list(enumerate(reversed(story), 1))[: c.capacity]  # the last sentence before the question first
    u = bag(model.tables[:, 0], question, c.encoding)
    for token in tgt[1:]:
        u = u + model.tables[token, 0]
    weights = []
    for hop in range(c.n_hops):
        read, said = (1, 2) if layerwise else (hop, hop + 1)
        vectors = []
        for table in (read, said):
            row = table - 1 if layerwise else table
            times = torch.zeros(c.capacity + 1, c.d_model) if model.times is None else model.times[row]
            vectors.append([bag(model.tables[:, table], unit, c.encoding) + times[i] for i, unit in memories])
        match = torch.stack([u @ m for m in vectors[0]])
        p = match if c.match == "linear" else match.softmax(0)
        weights.append(p.tolist()[::-1])
        answer = sum((share * value for share, value in zip(p, vectors[1], strict=True)), torch.zeros(c.d_model))
        u = (model.between.weight @ u if model.between else u) + answer
    out = model.out.weight if model.out else model.tables[:, -1]
    return out @ u, weights


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_it_is_the_papers_loop_over_hops(form: dict[str, Any]) -> None:
    model, tgt = build(UNITS, **form), [UNITS.bos, 6, 9]
    batch = make_batch([([token for unit in STORY for token in unit], tgt[1:]), ([4, 5, 4, 6], [5])], UNITS)
    found = model.project(model(*batch.inputs))
    maps = model.attention_maps(batch.src, batch.src_pad, batch.tgt_in)
    assert len(maps) == (0 if model.config.match == "linear" else model.config.n_hops)
    for t in range(3):
        expected, weights = by_loops(model, STORY, tgt[: t + 1])
        torch.testing.assert_close(found[0, t], expected)
        for hop, expected_weights in zip(maps, weights, strict=False):
            starts = [0, 4, 7]
            assert hop.weights[0, 0, t, starts].tolist() == pytest.approx(expected_weights, abs=1e-5)
    torch.testing.assert_close(found[1, 0], by_loops(model, [[4, 5], [4, 6]], tgt[:1])[0])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_contract_is_kept(form: dict[str, Any]) -> None:
    check_arch(plugins().registry.get("arch", "memory_network"), config_of(**form, d_model=20, init_std=0.3))


def test_every_search_and_an_ensemble() -> None:
    assert_searched(build(VOCAB))
    assert_ensembles(build(VOCAB))


@pytest.mark.parametrize(("tying", "n_hops"), [("adjacent", 3), ("layerwise", 3), ("adjacent", 1)])
def test_parameters_are_as_many_as_arithmetic_says(tying: str, n_hops: int) -> None:
    model, v, d, rows = build(UNITS, tying=tying, n_hops=n_hops), UNITS.src, 8, 51
    expected = (n_hops + 1) * (v + rows) * d if tying == "adjacent" else 4 * v * d + 2 * rows * d + d * d
    assert sum(p.numel() for p in model.parameters()) == expected


def test_empty_places_make_distances_longer_and_keep_their_order() -> None:
    model = build(UNITS, noise=0.5).train()
    distance = torch.tensor([[6, 5, 4, 3, 2, 1, 0, -1]] * 50)
    times = model._times(distance)
    assert (times[:, 6:] == 0).all()
    assert (times[:, :6] >= distance[:, :6]).all()
    assert (times[:, :5] > times[:, 1:6]).all()
    share = (times[:, 0] - 6).float().mean().item() / 6
    assert share == pytest.approx(0.5, abs=0.1)
    assert torch.equal(model.eval()._times(distance), distance.clamp(min=0))


def test_presets_are_of_the_paper_and_small() -> None:
    of = lambda name: compose(Config, [f"arch={name}", "task=stories"], plugins()).config.arch  # noqa: E731
    paper = of("memory_network")
    assert isinstance(paper, MemoryNetworkConfig)
    assert (paper.d_model, paper.n_hops, paper.noise, paper.init_std, paper.capacity) == (20, 3, 0.1, 0.1, 50)
    assert of("memory_network_tiny").n_hops == 2


@pytest.mark.parametrize(
    ("vocab", "layer", "said"),
    [(Vocab(src=9, tgt=9), None, "one vocabulary"), (VOCAB, 4, "hops 1 to 3")],
    ids=["two vocabularies", "no such hop"],
)
def test_what_cannot_be_is_refused(vocab: Vocab, layer: int | None, said: str) -> None:
    ids = torch.tensor([[5, 3]])
    with pytest.raises(ConfigError, match=said):
        build(vocab).attention(ids, ids == 0, ids, layer=layer)


class Taught:
    """A model in training on generated stories, judged on others."""

    def __init__(self, directory: Path, facts: int, sentences: int, **options: Any) -> None:
        self.draw, self.facts, self.sentences = random.Random(3), facts, sentences
        self.task = Stories(StoriesConfig(name="stories", facts=facts, stories=300, sentences=sentences))
        self.task.learn(directory)
        self.held_out = [self.one() for _ in range(200)]
        self.trained = self.encoded([self.one() for _ in range(5000)])
        self.options = {"d_model": 20, "n_hops": facts, "noise": 0.0} | options
        torch.manual_seed(1)
        self.model = MemoryNetwork(MemoryNetworkConfig(**self.options), self.task.vocab)

    def one(self) -> Story:
        return story(self.draw, self.facts, self.sentences)

    def encoded(self, stories: Sequence[Story]) -> list[Any]:
        return self.task.encode([Example(one.text, one.answer) for one in stories])

    def train(self, n_steps: int, lr: float) -> None:
        optimizer = torch.optim.Adam(self.model.train().parameters(), lr=lr)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, n_steps)
        for _ in range(n_steps):
            batch = make_batch(self.draw.sample(self.trained, 32), self.task.vocab)
            optimizer.zero_grad()
            logits = self.model.project(self.model(*batch.inputs))
            F.cross_entropy(logits.transpose(1, 2), batch.tgt_out, ignore_index=0).backward()
            optimizer.step()
            schedule.step()

    @torch.no_grad()
    def judged(self) -> tuple[float, list[float]]:
        """The share of right answers, and of each hop's attention on the sentences that the answer follows from."""
        batch: Batch = make_batch(self.encoded(self.held_out), self.task.vocab)
        logits = self.model.eval().project(self.model(*batch.inputs))
        right = (logits[:, 0].argmax(-1) == batch.tgt_out[:, 0]).float().mean().item()
        shares = []
        for hop in self.model.attention_maps(batch.src, batch.src_pad, batch.tgt_in):
            share = 0.0
            for one, ids, weights in zip(self.held_out, batch.src, hop.weights[:, 0, 0], strict=True):
                share += weights[(ids == SENTENCE).nonzero().squeeze(1)[list(one.support)]].sum().item()
            shares.append(share / len(self.held_out))
        return right, shares


def test_one_hop_answers_from_one_sentence(tmp_path: Path) -> None:
    taught = Taught(tmp_path, 1, 4, init_std=0.3)
    before, (share,) = taught.judged()
    assert before < 0.5
    assert share < 0.6, "about evenly among the sentences"
    taught.train(200, lr=5e-2)
    after, (share,) = taught.judged()
    assert after > 0.95
    assert share > 0.8


@pytest.mark.slow
def test_two_hops_answer_from_two_sentences_after_a_linear_start(tmp_path: Path) -> None:
    taught = Taught(tmp_path, 2, 5, match="linear")
    taught.train(900, lr=3e-2)
    taught.model.config = MemoryNetworkConfig(**{**taught.options, "match": "softmax"})
    taught.train(300, lr=1.5e-2)
    right, shares = taught.judged()
    assert right > 0.95
    assert min(shares) > 0.75
