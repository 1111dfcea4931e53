"""The operations that the model reports, against a counter of torch's products."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.cost import forward_operations
from s2s_transformer.model import Transformer

VOCAB = Vocab(src=50, tgt=50, joint=True)


@pytest.mark.parametrize("own", [{}, {"n_heads": 1, "d_k": 32, "d_v": 24}, {"d_k": 4, "n_decoder_layers": 3}])
def test_it_is_what_a_counter_counts(own: dict[str, int]) -> None:
    small = {"n_encoder_layers": 2, "n_decoder_layers": 1, "d_model": 16, "d_ff": 40, "n_heads": 4}
    config = TransformerConfig(attention="math", **(small | own))
    model = Transformer(config, VOCAB)
    src, tgt = torch.randint(4, 50, (3, 7)), torch.randint(4, 50, (3, 5))
    with FlopCounterMode(display=False) as counter:
        model.project(model(src, src == 0, tgt))
    heads = config.n_heads * ((config.d_k or 4) + (config.d_v or 4))
    hidden_by_mask = config.n_decoder_layers * 3 * 5 * 5 * heads  # the counter counts both halves
    expected = counter.get_total_flops() - hidden_by_mask
    assert forward_operations(config, VOCAB, [7] * 3, [5] * 3) == pytest.approx(expected)


def test_base_takes_the_operations_that_arithmetic_on_paper_says() -> None:
    """376 million a target symbol, forward and backward, for 28 to 29 symbols and V = 37,000."""
    vocab = Vocab(src=37_000, tgt=37_000, joint=True)
    assert 3 * forward_operations(TransformerConfig(), vocab, [28], [29]) / 29 == pytest.approx(376e6, rel=0.003)
