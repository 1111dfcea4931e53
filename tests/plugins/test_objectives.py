"""The shipped objectives: their gradients by hand in float64, splits of the batch, ranks, resuming, and errors.

Gradients are those of the logits, written out from the papers' formulas; logits of `Table` are parameters.
"""

from __future__ import annotations

import copy
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from harness.recurrent_model import Recurrent
from harness.sorting_runs import records, train, train_in_ranks
from s2s.batch import make_batch
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.errors import ConfigError
from s2s.model import Memory, Seq2Seq
from s2s.nn import WordDropout, target_log_probs
from s2s.objective import Context
from s2s.task import Vocab
from s2s.training.train_step import TrainStep
from s2s_objectives import DistillConfig, GnmtRlConfig, RDropConfig, RiskConfig, SimCutConfig
from s2s_objectives.distill import Distill
from s2s_objectives.gnmt_rl import GnmtRl
from s2s_objectives.rdrop import RDrop
from s2s_objectives.risk import Risk
from s2s_objectives.simcut import SimCut, cutting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from s2s.objective import Objective

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

VOCAB = Vocab(src=9, tgt=9, joint=True)
PAIRS = [([4], [5, 6]), ([7, 4], [8]), ([5], [4, 4, 7]), ([6, 6], [7, 5]), ([8], [6]), ([4, 5], [8, 8, 5])]


class Table(Seq2Seq):
    """The logits of a token are a row for the token before, plus a row for the pass of the model."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(torch.randn(VOCAB.tgt, VOCAB.tgt, generator=draw))
        self.of_pass = nn.Parameter(torch.randn(2, VOCAB.tgt, generator=draw) / 2)
        self.n_passes = 0
        self.word_dropout = WordDropout(0.0)  # which simcut asks for

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(src[..., None], pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        self.n_passes += 1
        return self.table[tgt] + self.of_pass[(self.n_passes + 1) % 2]


class FixedContext(Context):
    """Outputs, scores and teachers that tests choose."""

    seed, device = 1, torch.device("cpu")

    def __init__(self, *teachers: Seq2Seq) -> None:
        text = lambda ids, _: " ".join(map(str, ids))  # noqa: E731
        self.task: Any = SimpleNamespace(vocab=VOCAB, source_text=lambda _: "", detokenize=text)
        self.teachers = dict(zip("ab", teachers, strict=False))

    def search(self, spec: Any, option: str) -> Callable[..., list[list[list[int]]]]:
        return lambda _, batch, n: [outputs_of(row) for row in batch.src[:, 0].tolist()]

    def metric(self, spec: Any, option: str) -> Any:
        class Overlap:
            higher_is_better = spec != "worse"

            def __call__(self, hyps: Sequence[str], refs: Sequence[str]) -> list[float]:
                return [score(hyp, ref) for hyp, ref in zip(hyps, refs, strict=True)]

        return Overlap()

    def load_run(self, name: str, option: str) -> Seq2Seq:
        return self.teachers[name].requires_grad_(False)


def outputs_of(source: int) -> list[list[int]]:
    """Two different outputs and one of them again, by the first source token."""
    return [[source, 5], [6], [source, 5]]


def score(hyp: str, ref: str) -> float:
    """Percent of the reference's tokens that the output has."""
    return 100 * len({*hyp.split()} & {*ref.split()}) / len({*ref.split()})


def one_hot(token: int) -> Tensor:
    return nn.functional.one_hot(torch.tensor(token), VOCAB.tgt).double()


def positions(pairs: Sequence[tuple[list[int], list[int]]]) -> list[tuple[int, int]]:
    """The token before and the token, of every target position."""
    return [(x, y) for _, tgt in pairs for x, y in zip([VOCAB.bos, *tgt], [*tgt, VOCAB.eos], strict=True)]


Gradients = tuple[Tensor, Tensor]


def rdrop_by_hand(model: Table, alpha: float, eps: float) -> Gradients:
    """Of CE_1 + CE_2 + alpha / 2 (KL_12 + KL_21) over target tokens, eq. 4."""
    table, shift = model.table.double(), model.of_pass.double()
    d_table, d_shift = torch.zeros_like(table), torch.zeros_like(shift)
    for before, token in positions(PAIRS):
        p, q = ((table[before] + shift[k]).softmax(-1) for k in (0, 1))
        smooth = eps / (VOCAB.tgt - 1) * (1 - one_hot(token)) + (1 - eps) * one_hot(token)
        for k, (own, other) in enumerate([(p, q), (q, p)]):
            log_ratio = own.log() - other.log()
            d_kl = own * (log_ratio - (own * log_ratio).sum()) + own - other  # of KL(own, other) + KL(other, own)
            d = own - smooth + alpha / 2 * d_kl
            d_table[before] += d
            d_shift[k] += d
    return d_table / len(positions(PAIRS)), d_shift / len(positions(PAIRS))


def simcut_by_hand(model: Table, alpha: float, eps: float) -> Gradients:
    """Of CE(p) + alpha KL(p || q) over target tokens, where the pass q stands in for the one with cuts."""
    table, shift = model.table.double(), model.of_pass.double()
    d_table, d_shift = torch.zeros_like(table), torch.zeros_like(shift)
    for before, token in positions(PAIRS):
        p, q = ((table[before] + shift[k]).softmax(-1) for k in (0, 1))
        smooth = eps / (VOCAB.tgt - 1) * (1 - one_hot(token)) + (1 - eps) * one_hot(token)
        log_ratio = p.log() - q.log()
        d_p = p - smooth + alpha * p * (log_ratio - (p * log_ratio).sum())
        d_q = alpha * (q - p)
        d_table[before] += d_p + d_q
        d_shift += torch.stack([d_p, d_q])
    return d_table / len(positions(PAIRS)), d_shift / len(positions(PAIRS))


def distill_by_hand(model: Table, teachers: Sequence[Table], weight: float, temperature: float) -> Gradients:
    """Of (1 - w) nll + w T^2 KL(mean of teachers || student), whose softened logits have the gradient (p - q) / T."""
    table, shift = model.table.double(), model.of_pass.double()
    d_table, d_shift = torch.zeros_like(table), torch.zeros_like(shift)
    for before, token in positions(PAIRS):
        logits = table[before] + shift[0]
        q = torch.stack(
            [((t.table.double()[before] + t.of_pass.double()[0]) / temperature).softmax(-1) for t in teachers]
        ).mean(0)
        d = (1 - weight) * (logits.softmax(-1) - one_hot(token))
        d += weight * temperature * ((logits / temperature).softmax(-1) - q)
        d_table[before] += d
        d_shift[0] += d
    return d_table / len(positions(PAIRS)), d_shift / len(positions(PAIRS))


def risk_by_hand(model: Table, alpha: float, *, reference: bool, worse: bool = False) -> Gradients:
    """Of sum_y Q(y) cost(y) over sentences: alpha Q(y) (cost(y) - risk) d log p(y), eq. 12."""
    table, shift = model.table.double(), model.of_pass.double()
    d_table, d_shift = torch.zeros_like(table), torch.zeros_like(shift)
    for src, ref in PAIRS:
        drawn = {tuple(y) for y in [*([ref] if reference else []), *outputs_of(src[0])]}
        log_p, cost = {}, {}
        for y in drawn:
            steps = positions([(src, list(y))])
            log_p[y] = sum((table[b] + shift[0]).log_softmax(-1)[t] for b, t in steps)
            share = score(" ".join(map(str, y)), " ".join(map(str, ref))) / 100
            cost[y] = share if worse else 1 - share
        total = sum((alpha * log_p[y]).exp() for y in drawn)
        weight = {y: (alpha * log_p[y]).exp() / total for y in drawn}
        risk = sum(weight[y] * cost[y] for y in drawn)
        for y in drawn:
            for before, token in positions([(src, list(y))]):
                d = one_hot(token) - (table[before] + shift[0]).softmax(-1)
                d_table[before] += alpha * weight[y] * (cost[y] - risk) * d
                d_shift[0] += alpha * weight[y] * (cost[y] - risk) * d
    return d_table / len(PAIRS), d_shift / len(PAIRS)


def gnmt_rl_by_hand(model: Table, alpha: float, *, worse: bool = False) -> Gradients:
    """Of -alpha log p(y*) - mean over drawn y of (r(y) - mean r) log p(y), output by output, eq. 9."""
    table, shift = model.table.double(), model.of_pass.double()
    d_table, d_shift = torch.zeros_like(table), torch.zeros_like(shift)
    for src, ref in PAIRS:
        drawn = outputs_of(src[0])
        rewards = [score(" ".join(map(str, y)), " ".join(map(str, ref))) / (-100 if worse else 100) for y in drawn]
        shares = [(reward - sum(rewards) / len(rewards)) / len(rewards) for reward in rewards]
        for y, share in [(ref, alpha), *zip(drawn, shares, strict=True)]:
            for before, token in positions([(src, y)]):
                d = share * ((table[before] + shift[0]).softmax(-1) - one_hot(token))
                d_table[before] += d
                d_shift[0] += d
    return d_table / len(PAIRS), d_shift / len(PAIRS)


TEACHERS = Table(1), Table(2)
CHUNKS = {"": 4, "_at_once": 0, "_by_default": None}


def rdrop(chunk: int | None) -> RDrop:
    return RDrop(RDropConfig(alpha=3.0, eps=0.2, chunk=chunk), FixedContext())


def simcut(chunk: int | None) -> SimCut:
    return SimCut(SimCutConfig(alpha=2.0, eps=0.2, chunk=chunk), FixedContext())


RDROP, SIMCUT = rdrop(4), simcut(4)
DISTILL = Distill(DistillConfig(teachers=["a", "b"], weight=0.7, temperature=2.0, chunk=3), FixedContext(*TEACHERS))
CASES: dict[str, tuple[Objective, Callable[[Table], Gradients]]] = {
    **{f"rdrop{how}": (rdrop(n), lambda model: rdrop_by_hand(model, 3.0, 0.2)) for how, n in CHUNKS.items()},
    **{f"simcut{how}": (simcut(n), lambda model: simcut_by_hand(model, 2.0, 0.2)) for how, n in CHUNKS.items()},
    "distill": (DISTILL, lambda model: distill_by_hand(model, TEACHERS, 0.7, 2.0)),
    "risk": (
        Risk(RiskConfig(alpha=0.5, chunk=5), FixedContext()),
        lambda model: risk_by_hand(model, 0.5, reference=True),
    ),
    "gnmt_rl": (GnmtRl(GnmtRlConfig(chunk=5), FixedContext()), lambda model: gnmt_rl_by_hand(model, 0.25)),
    "gnmt_rl_less_is_better": (
        GnmtRl(GnmtRlConfig(alpha=0.0, metric="worse"), FixedContext()),
        lambda model: gnmt_rl_by_hand(model, 0.0, worse=True),
    ),
    "risk_without_reference": (
        Risk(RiskConfig(alpha=0.5, reference=False, metric="worse"), FixedContext()),
        lambda model: risk_by_hand(model, 0.5, reference=False, worse=True),
    ),
}


@pytest.mark.parametrize("micro_tokens", [None, 10, 3], ids=["whole", "parts", "pairs"])
@pytest.mark.parametrize("case", CASES)
def test_the_gradient_is_that_of_the_paper_however_the_batch_is_split(case: str, micro_tokens: int | None) -> None:
    objective, by_hand = CASES[case]
    model = Table()
    with torch.no_grad():
        d_table, d_shift = by_hand(copy.deepcopy(model))
    before = copy.deepcopy(model)
    for teacher in TEACHERS:
        teacher.forward = lambda src, pad, tgt, t=teacher: t.table[tgt] + t.of_pass[0]  # type: ignore[method-assign]
    update = TrainStep(
        TrainConfig(tokens=100, micro_tokens=micro_tokens),
        1,
        VOCAB,
        model,
        objective,
        torch.optim.SGD(model.parameters(), 0.0),
        lambda _: 1.0,
        World(),
    )
    if not isinstance(objective, RDrop | SimCut):
        model.decode = lambda tgt, memory: model.table[tgt] + model.of_pass[0]  # type: ignore[method-assign]
    result = update(PAIRS, step=1)
    assert result.n_micro_batches == 1 if micro_tokens is None else result.n_micro_batches > 1
    assert torch.allclose((before.table - model.table).double(), d_table, atol=1e-6)
    assert torch.allclose((before.of_pass - model.of_pass).double(), d_shift, atol=1e-6)


def test_risk_encodes_each_source_once_with_the_gradient_of_encoding_it_for_each_output() -> None:
    """The second truth repeats the source beside every output."""
    objective, batch, n_rows = Risk(RiskConfig(), FixedContext()), make_batch(PAIRS, VOCAB), []
    outputs = [outputs_of(src[0])[: 1 + i % 3] for i, (src, _) in enumerate(PAIRS)]
    model = Recurrent(VOCAB.tgt)
    encode = model.encode
    model.encode = lambda src, pad: n_rows.append(len(src)) or encode(src, pad)  # type: ignore[method-assign,func-returns-value]
    once = objective.log_probs(model, batch, outputs)
    assert n_rows == [len(PAIRS)]
    repeated = make_batch([(src, y) for (src, _), of in zip(PAIRS, outputs, strict=True) for y in of], VOCAB)
    for_each = target_log_probs(model, repeated).sum(-1)
    torch.testing.assert_close(once, for_each)
    weights = torch.randn(len(once), generator=torch.Generator().manual_seed(1))
    found, expected = (torch.autograd.grad((weights * x).sum(), list(model.parameters())) for x in (once, for_each))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_extras_are_means_over_the_objectives_own_counts() -> None:
    model = Table()
    batch = make_batch(PAIRS, VOCAB)
    sums = Risk(RiskConfig(), FixedContext())(model, batch)
    scores = [score(" ".join(map(str, y)), " ".join(map(str, ref))) for src, ref in PAIRS for y in outputs_of(src[0])]
    values = sums.stack(["score", "outputs"]).tolist()
    assert values[1] == len(PAIRS)
    assert values[2] == pytest.approx(sum(scores))
    assert values[3] == len(scores)
    kinds = [len({tuple(ref), *map(tuple, outputs_of(src[0]))}) for src, ref in PAIRS]
    assert values[4:] == [sum(kinds), len(PAIRS)]


def test_refinement_logs_the_rewards_and_the_likelihood_of_the_references() -> None:
    model, batch = Table(), make_batch(PAIRS, VOCAB)
    values = GnmtRl(GnmtRlConfig(), FixedContext())(model, batch).stack(["score", "nll_sentence"]).tolist()
    scores = [score(" ".join(map(str, y)), " ".join(map(str, ref))) for src, ref in PAIRS for y in outputs_of(src[0])]
    nll = -sum((model.table + model.of_pass[0]).log_softmax(-1)[b, t].item() for b, t in positions(PAIRS))
    assert values[1:] == pytest.approx([len(PAIRS), sum(scores), len(scores), nll, len(PAIRS)])


def test_tokens_are_cut_in_the_second_pass_alone() -> None:
    """From embeddings of ones: the share asked for, whatever the model's own word dropout, which comes back."""

    class Ones(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.src, self.tgt = WordDropout(0.5), WordDropout(0.0)

    torch.manual_seed(1)
    model: Any = Ones().train()
    x = torch.ones(4000, 2)
    with cutting(model, 0.1):
        shares = [(module(x) == 0).float().mean().item() for module in (model.src, model.tgt)]
    assert shares == [pytest.approx(0.1, abs=0.02)] * 2
    assert (model.src.p, model.tgt.p) == (0.5, 0.0)
    without: Any = nn.Linear(1, 1)
    with (
        pytest.raises(ConfigError, match="this one has none: take arch=transformer or arch=rnn"),
        cutting(without, 0.1),
    ):
        pass


SGD = ["optim=sgd", "schedule.lr=0.1", "valid.every=0", "valid.score=false", "train.steps=3"]
SHORT = "objective.search={name: sample, max_len_b: 5}"
"""A model that has learnt nothing does not end its outputs by itself"""
RUNS = {
    "rdrop": ["objective=rdrop"],
    "simcut": ["objective=simcut", "objective.cut=0.3"],
    "risk": ["objective=risk", "objective.n=3", "objective.alpha=0.5", "objective.metric=chrf", SHORT],
    "risk_beam": ["objective=risk", "objective.n=2", "objective.search={name: beam, beam: 2, max_len_b: 3}"],
    "gnmt_rl": ["objective=gnmt_rl", "objective.n=3", SHORT],
    "distill": ["objective=distill", "objective.temperature=2"],
}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objectives") / "teacher"
    assert train(folder, "train.steps=4", "valid.every=0", "valid.score=false") == 0
    return folder / "run"


def arguments(name: str, teacher: Path) -> list[str]:
    teachers = [f"objective.teachers=[{teacher}@last]"] if name == "distill" else []
    return [*SGD, *RUNS[name], *teachers]


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "run" / "checkpoints" / "step-000003" / "model.safetensors")


@pytest.mark.parametrize("name", RUNS)
def test_one_process_and_several_of_either_strategy_learn_the_same(name: str, teacher: Path) -> None:
    """With dropout and with samples: both are functions of seed, step and micro-batch."""
    folder, given = teacher.parents[1] / name, arguments(name, teacher)
    folder.mkdir()
    assert train(folder / "one", *given) == 0
    one = weights(folder / "one")
    for strategy in ("ddp", "fsdp"):
        codes = train_in_ranks(folder / strategy, 2, *given, f"train.strategy={strategy}")
        assert codes == [0, 0], (folder / f"{strategy}.log").read_text()
        found = weights(folder / strategy)
        assert all(torch.allclose(found[key], x, atol=1e-6) for key, x in one.items()), strategy
    start = load_file(teacher / "checkpoints" / "step-000004" / "model.safetensors")
    assert any(not torch.equal(x, start[key]) for key, x in one.items())


@pytest.mark.parametrize("name", ["rdrop", "simcut", "risk", "gnmt_rl", "distill"])
def test_a_resumed_run_ends_with_the_same_bytes(name: str, teacher: Path, tmp_path: Path) -> None:
    given = arguments(name, teacher)
    assert train(tmp_path / "whole", *given, "train.precision=bf16") == 0
    assert train(tmp_path / "parts", *given, "train.precision=bf16", "train.steps=2") == 0
    assert train(tmp_path / "parts", *given, "train.precision=bf16") == 0
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(whole[key], x) for key, x in parts.items())


def test_extras_reach_the_log_and_the_validation(
    teacher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["valid.every=3", "log.every=1"]
    assert train(tmp_path / "risk", *arguments("risk", teacher), *more) == 0
    out = capsys.readouterr().out
    assert re.search(r"\bscore \d+\.\d\d\b", out)
    run = tmp_path / "risk" / "run"
    assert all(0 <= score <= 100 for (score,) in records(run, "update", "score"))
    ((score, nll),) = records(run, "valid", "score", "nll")
    assert 0 <= score <= 100
    assert nll > 0
    assert train(tmp_path / "distill", *arguments("distill", teacher), *more) == 0
    ((kl,),) = records(tmp_path / "distill" / "run", "valid", "kl")
    assert kl > 0


def test_a_student_needs_its_teacher_to_train_alone(
    teacher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    assert train(gone, *SGD) == 0
    given = [*SGD, "objective=distill", f"objective.teachers=[{gone / 'run'}]"]
    assert train(tmp_path / "student", *given, "train.steps=1") == 0
    (gone / "run").rename(tmp_path / "elsewhere")
    assert train(tmp_path / "student", *given) == 2
    assert "whenever training starts or resumes" in capsys.readouterr().err
    from s2s.plugin import load_plugins
    from s2s.run.trained_run import Run

    plugins = load_plugins(["s2s_example"])
    assert Run.load(tmp_path / "student" / "run", "auto", plugins, torch.device("cpu")).model is not None


def test_teachers_of_another_vocabulary_are_refused(
    teacher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s2s.training.objective_context.tokenizer.identity", str)  # of any two folders, another
    monkeypatch.setattr("s2s.run.run_task._check_same_tokenizer", lambda _: None, raising=False)
    assert train(tmp_path / "student", *arguments("distill", teacher)) == 2
    assert "its vocabulary is not that of this run" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["rdrop", "risk", "distill"])
def test_a_dry_run_and_the_batch_size_finder_run_the_objective(
    name: str, teacher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s2s_plan.batch_size.MOST", 3000)
    monkeypatch.setattr("s2s.backend.core_devices.CPU.free_memory", lambda _: 2**29)
    auto = ["train.tokens=auto", "train.micro_tokens=null", "data.max_len=16", "--dry-run"]
    assert train(tmp_path / name, *arguments(name, teacher), *auto) == 0
    out = capsys.readouterr().out
    assert "dry run" in out
    assert "batch-size finder" in out
