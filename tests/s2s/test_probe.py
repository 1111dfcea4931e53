"""The largest batch against the memory that it then takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.errors import ConfigError
from s2s.machine import PeakMemory
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.probe import SAFE, settle_tokens
from s2s.task import Vocab
from s2s.update import Updater
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

VOCAB = Vocab(src=500, tgt=500, joint=True)
CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel tells no peaks")


def updater() -> Updater:
    torch.manual_seed(1)
    config = TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=64, d_ff=256, n_heads=4)
    model = Transformer(config, VOCAB)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    train = TrainConfig(tokens="auto")
    return Updater(train, 1, VOCAB, model, LabelSmoothed(LabelSmoothedConfig()), optimizer, lambda _: 0.1, World())


def test_what_is_found_fits_and_is_not_half_of_what_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 2 * 10**8
    monkeypatch.setattr("s2s.probe.free_memory", lambda _: free)
    update = updater()
    weights = [p.detach().clone() for p in update.parameters]
    with PeakMemory(CPU) as before:
        pass
    said = settle_tokens(update.config, update, 64, tmp_path)
    assert f"{update.config.n_tokens:,}" in said
    assert all(torch.equal(p, w) for p, w in zip(update.parameters, weights, strict=True)), "a probe learns nothing"
    with PeakMemory(CPU) as peak:
        update.trial([([5] * 63, [5] * 63)] * (update.config.n_tokens // 64))
    assert 0.5 * SAFE * free < peak.bytes - before.bytes < free


def test_a_run_that_continues_keeps_its_number(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text('{"tokens": 1536}')
    update = updater()
    settle_tokens(update.config, update, 64, tmp_path)
    assert update.config.tokens == 1536


def test_a_number_that_was_given_is_left_alone(tmp_path: Path) -> None:
    update = updater()
    update.config.tokens = 700
    assert settle_tokens(update.config, update, 64, tmp_path) == ""
    assert update.config.tokens == 700


def test_too_little_memory_for_one_sentence_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.probe.free_memory", lambda _: 0)
    update = updater()
    with pytest.raises(ConfigError, match=r"data.max_len=64"):
        settle_tokens(update.config, update, 64, tmp_path)


@pytest.mark.parametrize("wrong", ["much", "", 0])
def test_other_words_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"train.tokens"):
        TrainConfig(tokens=wrong)  # type: ignore[arg-type]
