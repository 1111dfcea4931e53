"""Labels of source words: a loss on the encoder's states, beside any objective, without effect on decoding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from harness.arch_checks import plugins
from harness.monotonic_guide import guided
from harness.sorting_runs import records
from s2s import ConfigError, HasAuxiliary, Vocab, evaluating, make_batch
from s2s.cli.train import main
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.generation.ensemble import Ensemble
from s2s.nn import LabelSmoothed, LabelSmoothedConfig
from s2s.objective import WithAuxiliary
from s2s.training.train_step import TrainStep
from s2s_recurrent import RNNConfig
from s2s_testing import check_arch
from s2s_transformer import TransformerConfig

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from s2s import Batch, Choice, Seq2Seq

N_LABELS = 3
VOCAB = guided(Vocab(src=17, tgt=12), parts=True)
LABELLED = replace(
    VOCAB, src=17 + N_LABELS, word_begins=[*VOCAB.word_begins, *[False] * N_LABELS], labels=range(17, 20)
)
BEGINS = [i for i in range(4, 17) if VOCAB.word_begins[i]]
SMALL: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 8, "dropout": 0.0, "words": "pooled"}
CONFIGS: dict[str, Choice] = {
    "rnn": RNNConfig(**SMALL, attention="none", readout="none", guide="stack", label_loss=0.5, init_range=0.4),
    "transformer": TransformerConfig(
        **SMALL, d_ff=16, n_heads=2, guide="stack", cross_attention="none", share_embeddings="none", label_loss=0.5
    ),
}


def build(arch: str, vocab: Vocab = LABELLED, **options: Any) -> Seq2Seq:
    torch.manual_seed(1)
    model: Seq2Seq = plugins().registry.get("arch", arch).build(replace(CONFIGS[arch], **options), vocab)
    return model


def pairs(n: int = 6) -> list[tuple[list[int], list[int]]]:
    """Sentences of one to three words, each with a part and, all but the first of a sentence, with a label."""
    part = next(i for i in range(4, 17) if not VOCAB.word_begins[i])
    sources = []
    for i in range(n):
        words = [
            [BEGINS[(i + k) % len(BEGINS)], part, *([17 + (i + k) % N_LABELS] if k else [])] for k in range(i % 3 + 1)
        ]
        sources.append([token for word in words for token in word])
    return [(src, [4 + i % 8, 5 + i % 7]) for i, src in enumerate(sources)]


def without_labels(src: list[int]) -> list[int]:
    return [i for i in src if i not in LABELLED.labels]


def recorded(model: Seq2Seq, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
    """The auxiliary loss of one pass, and what the log shows."""
    assert isinstance(model, HasAuxiliary)
    model.record_auxiliary()
    model(*batch.inputs)
    loss, extras = vars(model.take_auxiliary()).values()
    return loss, dict(extras)


@pytest.mark.parametrize("arch", ["rnn", pytest.param("transformer", marks=pytest.mark.slow)])
def test_the_contract_is_kept(arch: str) -> None:
    check_arch(plugins().registry.get("arch", arch), CONFIGS[arch], LABELLED)


@pytest.mark.parametrize("arch", CONFIGS)
def test_a_source_is_read_as_if_its_labels_were_not_there(arch: str) -> None:
    model = build(arch).eval()
    batch = make_batch(pairs(), LABELLED)
    bare = make_batch([(without_labels(src), tgt) for src, tgt in pairs()], LABELLED)
    assert bare.src.size(1) < batch.src.size(1)
    assert torch.equal(model(*batch.inputs), model(*bare.inputs))


@pytest.mark.parametrize("arch", CONFIGS)
def test_loss_and_gradient_are_those_of_each_word_by_hand(arch: str) -> None:
    """Word by word in float64; the gradient of the softmax is its probabilities less one at the label."""
    model = build(arch).double().train()
    batch = make_batch(pairs(), LABELLED)
    states: list[Tensor] = []
    model.labels.map.register_forward_pre_hook(lambda _, args: states.append(args[0]))
    loss, extras = recorded(model, batch)
    labels = [i - 17 for src, _ in pairs() for i in src if i in LABELLED.labels]
    (hidden,), weight, bias = states, model.labels.map.weight, model.labels.map.bias
    hidden.retain_grad()
    loss.backward()
    assert len(hidden) == len(labels) == 6
    expected, right, of_weight = 0.0, 0, torch.zeros_like(weight)
    for h, label, gradient in zip(hidden.detach(), labels, hidden.grad, strict=True):
        p = (weight @ h + bias).softmax(0).detach()
        expected -= p[label].log().item()
        right += int(p.argmax()) == label
        error = 0.5 * (p - torch.eye(N_LABELS, dtype=p.dtype)[label])
        of_weight += error[:, None] * h
        torch.testing.assert_close(gradient, error @ weight.detach())
    assert loss.item() == pytest.approx(0.5 * expected)
    torch.testing.assert_close(weight.grad, of_weight)
    assert (extras["label_nll"].total.item(), extras["label_nll"].count) == (pytest.approx(expected), 6)
    assert (int(extras["label_accuracy"].total), extras["label_accuracy"].count) == (right, 6)


@pytest.mark.parametrize("arch", CONFIGS)
def test_the_states_are_those_of_the_labelled_words(arch: str) -> None:
    """Each by itself: a sentence whose other labels are taken away has the loss of the one that is left."""
    model, total = build(arch).train(), 0.0
    for src, tgt in pairs():
        for at in (i for i, token in enumerate(src) if token in LABELLED.labels):
            only = [token for i, token in enumerate(src) if i == at or token not in LABELLED.labels]
            total += recorded(model, make_batch([(only, tgt)], LABELLED))[0].item()
    assert recorded(model, make_batch(pairs(), LABELLED))[0].item() == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("arch", CONFIGS)
def test_label_logits_are_those_of_the_loss(arch: str) -> None:
    model = build(arch).train()
    batch = make_batch(pairs(), LABELLED)
    logits = model.label_logits(batch.src, batch.src_pad)
    assert logits is not None
    labels = model.words.labels(batch.src, batch.src_pad)
    assert logits.shape == (*labels.shape, N_LABELS)
    nll = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="sum")
    assert 0.5 * nll.item() == pytest.approx(recorded(model, batch)[0].item(), rel=1e-5)
    assert build(arch, label_loss=0.0).label_logits(batch.src, batch.src_pad) is None


def test_an_ensemble_has_the_mean_probability_of_its_labels() -> None:
    models = [build("rnn"), build("transformer"), build("rnn", label_loss=0.0)]
    batch = make_batch(pairs(), LABELLED)
    members = [model.eval().label_logits(batch.src, batch.src_pad) for model in models[:2]]
    found = Ensemble(models).eval().label_logits(batch.src, batch.src_pad)
    assert found is not None
    torch.testing.assert_close(found.exp(), sum(logits.double().softmax(-1) for logits in members).float() / 2)
    assert Ensemble(models[2:]).label_logits(batch.src, batch.src_pad) is None


def gradients(model: Seq2Seq, micro_tokens: int | None) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Of one update, whose optimizer leaves them in place."""
    objective = WithAuxiliary(LabelSmoothed(LabelSmoothedConfig()), model)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    config = TrainConfig(tokens=200, micro_tokens=micro_tokens)
    step = TrainStep(config, 1, LABELLED, model.train(), objective, optimizer, lambda _: 0.0, World())
    result = step(pairs(), 1)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}, result.extras


@pytest.mark.parametrize("arch", CONFIGS)
def test_an_update_does_not_depend_on_how_its_batch_is_split(arch: str) -> None:
    whole, extras = gradients(build(arch), None)
    split, same = gradients(build(arch), 12)
    assert whole.keys() == split.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(split[name], gradient, rtol=1e-4, atol=1e-6)
    assert same == pytest.approx(extras, rel=1e-5)


def test_a_batch_without_labels_costs_nothing_and_every_parameter_has_a_gradient() -> None:
    model = build("rnn").train()
    loss, extras = recorded(model, make_batch([(without_labels(src), tgt) for src, tgt in pairs()], LABELLED))
    loss.backward()
    assert loss.item() == 0
    assert extras["label_nll"].count == 0
    assert model.labels.map.weight.grad is not None, "all ranks must agree on the parameters that have one"


def test_passes_without_training_are_not_recorded() -> None:
    """Such as those of a search that an objective runs."""
    model, batch = build("rnn").train(), make_batch(pairs(), LABELLED)
    assert isinstance(model, HasAuxiliary)
    model.record_auxiliary()
    with evaluating(model):
        model(*batch.inputs)
    added = model.take_auxiliary()
    assert added.loss.item() == 0
    assert added.extras["label_nll"].count == 0


@pytest.mark.parametrize("arch", CONFIGS)
def test_what_labels_need_is_said(arch: str) -> None:
    with pytest.raises(ConfigError, match=r"this task gives no labels of source words; give arch.label_loss=0"):
        build(arch, VOCAB)
    with pytest.raises(ConfigError, match=r"label_loss is of words, not of arch.words=tokens"):
        build(arch, words="tokens")
    assert not isinstance(build(arch, label_loss=0.0), HasAuxiliary)
    assert build(arch, label_loss=0.0).ignores_labels


RUN = [
    *("task=parsing", "task.trees=60", "task.words=parts", "task.word_labels=tags", "task.linear=in_order"),
    *("arch=rnn_parsing", "arch.d_model=8", "arch.d_embedding=8", "arch.label_loss=0.5", "arch.dropout=0"),
    *("optim=sgd", "schedule=constant", "schedule.lr=0.1", "schedule.warmup=0", "valid.every=0", "checkpoint.every=3"),
    *("train.tokens=1500", "train.micro_tokens=500", "train.threads=1", "train.device=cpu", "log.tensorboard=false"),
]


@pytest.mark.slow
def test_a_model_that_would_read_the_labels_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["arch=transformer_tiny", "arch.share_embeddings=none", "arch.d_model=8", "arch.n_heads=2"]
    places = [f"run={tmp_path / 'run'}", f"data.prepared={tmp_path / 'prepared'}"]
    assert main([*(option for option in RUN if not option.startswith("arch")), *model, *places, "train.steps=1"]) == 2
    assert "would read the labels as input; give arch.words=pooled" in capsys.readouterr().err


def trained(folder: Path, *arguments: str) -> tuple[dict[str, Tensor], list[list[Any]]]:
    """The weights at the end, and what the log says of labels."""
    assert main([*RUN, f"run={folder}", f"data.prepared={folder.parent / 'prepared'}", *arguments]) == 0
    weights = load_file(folder / "checkpoints" / "step-000006" / "model.safetensors")
    return weights, records(folder, "update", "step", "label_nll", "label_accuracy")


@pytest.mark.slow
def test_a_run_that_was_continued_and_two_processes_learn_the_same(tmp_path: Path) -> None:
    whole, said = trained(tmp_path / "whole", "train.steps=6")
    assert len(said) == 6
    assert main([*RUN, f"run={tmp_path / 'halves'}", f"data.prepared={tmp_path / 'prepared'}", "train.steps=3"]) == 0
    halves, same = trained(tmp_path / "halves", "train.steps=6")
    assert same == said
    assert all(torch.equal(halves[name], whole[name]) for name in whole)
    ranks, alike = trained(tmp_path / "ranks", "train.steps=6", "train.devices=2")
    assert torch.allclose(torch.tensor(alike), torch.tensor(said), rtol=1e-5)
    assert all(torch.allclose(ranks[name], whole[name], atol=1e-6) for name in whole)
