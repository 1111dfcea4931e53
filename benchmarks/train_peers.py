"""Plain training loops for comparison: torch's nn.Transformer, and MarianMTModel and fairseq if they are installed.

Shapes: B pairs, S and T symbols, D = d_model, V symbols.
"""

from __future__ import annotations

__all__ = ["PEERS", "Peer"]

import math
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.batch import make_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s.data.pairs import Pair
    from s2s.task import Vocab
    from s2s_transformer import TransformerConfig

SMOOTHING = 0.1
ADAM: dict[str, Any] = {"lr": 1e-4, "betas": (0.9, 0.98), "eps": 1e-9}


class PeerModel(nn.Module):
    """A model with its loss function and its Adam: torch's, unless a subclass overrides them."""

    def loss(self, logits: Tensor, tgt: Tensor, pad: int) -> Tensor:
        """logits [B, T, V], tgt and pad [B, T] -> [], label-smoothed cross-entropy per target token"""
        return F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=pad, label_smoothing=SMOOTHING)

    def adam(self) -> torch.optim.Optimizer:
        """torch.optim.Adam."""
        return torch.optim.Adam(self.parameters(), **ADAM)


class PlainTransformer(PeerModel):
    """nn.Transformer used as in its documentation, with embeddings and softmax sharing one matrix."""

    def __init__(self, config: TransformerConfig, vocab: Vocab) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab.tgt, config.d_model, padding_idx=vocab.pad)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.transformer = nn.Transformer(
            config.d_model,
            config.n_heads,
            config.n_encoder_layers,
            config.n_decoder_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
        )
        self.dropout = nn.Dropout(config.dropout)
        angles = torch.arange(512.0)[:, None] / 10_000 ** (torch.arange(0, config.d_model, 2) / config.d_model)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        self.scale = math.sqrt(config.d_model)

    def enter(self, ids: Tensor) -> Tensor:
        """[B, T] -> [B, T, D]"""
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])  # type: ignore[index]

    def forward(self, src: Tensor, src_pad: Tensor, tgt: Tensor) -> Tensor:
        """Ids and padding [B, S], ids [B, T] -> logits [B, T, V]"""
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.size(1), device=tgt.device)
        hidden = self.transformer(
            self.enter(src),
            self.enter(tgt),
            tgt_mask=causal,
            src_key_padding_mask=torch.zeros_like(src_pad, dtype=torch.float).masked_fill(src_pad, -torch.inf),
            memory_key_padding_mask=torch.zeros_like(src_pad, dtype=torch.float).masked_fill(src_pad, -torch.inf),
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.embedding.weight)


class Marian(PeerModel):
    """Hugging Face's MarianMTModel of the same shape."""

    def __init__(self, config: TransformerConfig, vocab: Vocab) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=vocab.tgt,
                d_model=config.d_model,
                encoder_layers=config.n_encoder_layers,
                decoder_layers=config.n_decoder_layers,
                encoder_ffn_dim=config.d_ff,
                decoder_ffn_dim=config.d_ff,
                encoder_attention_heads=config.n_heads,
                decoder_attention_heads=config.n_heads,
                dropout=config.dropout,
                activation_function="relu",
                scale_embedding=True,
                pad_token_id=vocab.pad,
                eos_token_id=vocab.eos,
                decoder_start_token_id=vocab.bos,
            )
        )

    def forward(self, src: Tensor, src_pad: Tensor, tgt: Tensor) -> Tensor:
        """Ids and padding [B, S], ids [B, T] -> logits [B, T, V]"""
        return self.model(
            input_ids=src, attention_mask=(~src_pad).long(), decoder_input_ids=tgt, use_cache=False
        ).logits


class Fairseq(PeerModel):
    """fairseq's TransformerModel, configured as transformer_wmt_en_de with our sizes, and its own loss and Adam."""

    def __init__(self, config: TransformerConfig, vocab: Vocab) -> None:
        super().__init__()
        from fairseq.models.transformer import TransformerModel, transformer_wmt_en_de

        arguments = Namespace(
            encoder_embed_dim=config.d_model,
            encoder_ffn_embed_dim=config.d_ff,
            encoder_layers=config.n_encoder_layers,
            encoder_attention_heads=config.n_heads,
            decoder_layers=config.n_decoder_layers,
            decoder_attention_heads=config.n_heads,
            dropout=config.dropout,
            share_all_embeddings=True,
        )
        transformer_wmt_en_de(arguments)  # fills in the rest: sinusoids, post-norm, no dropout inside attention
        dictionary = FairseqDictionary(vocab)
        task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
        # Its encoder layers hold their weights twice, once for inference alone: more memory, but no more work
        self.model = TransformerModel.build_model(arguments, task)

    def forward(self, src: Tensor, src_pad: Tensor, tgt: Tensor) -> Tensor:
        """Ids and padding [B, S], ids [B, T] -> logits [B, T, V]"""
        logits, _ = self.model(src, (~src_pad).sum(1), tgt)  # masks each id that is the dictionary's pad
        return logits

    def loss(self, logits: Tensor, tgt: Tensor, pad: int) -> Tensor:
        """[B, T, V], ids [B, T] -> [], smoothed over the V - 1 wrong tokens; torch's smooths over all V"""
        from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

        log_probs = self.model.get_normalized_probs((logits, None), log_probs=True)
        total, _ = label_smoothed_nll_loss(log_probs.flatten(0, 1), tgt.flatten(), SMOOTHING, ignore_index=pad)
        return total / (tgt != pad).sum()

    def adam(self) -> torch.optim.Optimizer:
        """fairseq's Adam, which its trainer uses on a CPU."""
        from fairseq.optim.adam import Adam

        return Adam(self.parameters(), **ADAM)


class FairseqDictionary:
    """The part of a dictionary's interface that fairseq's Transformer uses."""

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab

    def __len__(self) -> int:
        return self.vocab.tgt

    def pad(self) -> int:
        """The id of padding."""
        return self.vocab.pad


class Peer:
    """Forward, loss, backward, update."""

    def __init__(self, kind: str, config: TransformerConfig, vocab: Vocab, device: torch.device, dtype: Any) -> None:
        torch.manual_seed(1)
        self.model = PEERS[kind](config, vocab).to(device).train()
        self.optimizer = self.model.adam()
        self.vocab, self.device, self.dtype = vocab, device, dtype

    def __call__(self, pairs: Sequence[Pair], step: int) -> float:
        """Run one update; returns the loss per target token."""
        batch = make_batch(pairs, self.vocab).to(self.device)
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            logits = self.model(batch.src, batch.src_pad, batch.tgt_in)
            loss = self.model.loss(logits, batch.tgt_out, self.vocab.pad)
        loss.backward()
        self.optimizer.step()
        return loss.item()


PEERS: dict[str, Callable[[TransformerConfig, Vocab], PeerModel]] = {
    "nn.Transformer": PlainTransformer,
    "MarianMTModel": Marian,
    "fairseq": Fairseq,
}
