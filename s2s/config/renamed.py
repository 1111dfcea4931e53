"""Option names that are not ours, or no longer: the unknown-option error suggests what stands beside them.

A key with a dot is an option by its whole name, a key without one any option of that last name, in whatever
section, or a whole section (`loss: objective` answers loss.eps, too). The first target that exists in the
command's configuration is suggested; none that does not.
"""

from __future__ import annotations

__all__ = ["RENAMED", "SYNONYMS", "targets"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RENAMED: dict[str, tuple[str, ...]] = {
    "loss": ("objective",),
    "search.groups": ("search.num_beam_groups",),
    "search.diversity": ("search.diversity_penalty",),
    "no_repeat": ("no_repeat_ngram_size",),
    "ban": ("bad_words",),
    "copy_unk": ("replace_unk",),
    "task.builtin_seed": ("task.synthetic_seed",),
    "window": ("buffer_size",),
}
"""Names that options of s2s once had. Add the old name here in the commit that renames an option."""

SYNONYMS: dict[str, tuple[str, ...]] = {
    # the amount of training
    "batch_size": ("train.tokens", "tokens"),
    "max_tokens": ("train.tokens", "tokens"),
    "train_batch_size": ("train.tokens",),
    "per_device_train_batch_size": ("train.micro_tokens",),
    "micro_batch_size": ("train.micro_tokens",),
    "update_freq": ("train.micro_tokens",),
    "accum_count": ("train.micro_tokens",),
    "accumulate": ("train.micro_tokens",),
    "gradient_accumulation_steps": ("train.micro_tokens",),
    "max_update": ("train.steps",),
    "max_updates": ("train.steps",),
    "max_steps": ("train.steps",),
    "train_steps": ("train.steps",),
    "updates": ("train.steps",),
    "epochs": ("train.steps",),
    "max_epoch": ("train.steps",),
    "max_epochs": ("train.steps",),
    "num_train_epochs": ("train.steps",),
    # the update
    "lr": ("schedule.lr", "schedule.scale"),
    "learning_rate": ("schedule.lr", "schedule.scale"),
    "warmup_updates": ("schedule.warmup",),
    "warmup_steps": ("schedule.warmup",),
    "clip_norm": ("train.clip",),
    "grad_clip": ("train.clip",),
    "max_grad_norm": ("train.clip",),
    "label_smoothing": ("objective.eps",),
    "label_smoothing_factor": ("objective.eps",),
    "adam_beta1": ("optim.beta1",),
    "adam_beta2": ("optim.beta2",),
    "adam_eps": ("optim.eps",),
    "adam_epsilon": ("optim.eps",),
    "fp16": ("train.precision", "precision"),
    "bf16": ("train.precision", "precision"),
    "amp": ("train.precision", "precision"),
    "dtype": ("train.precision", "precision"),
    "num_gpus": ("train.devices",),
    "world_size": ("train.devices",),
    "gpus": ("train.devices",),
    "ema_decay": ("train.ema",),
    "gradient_checkpointing": ("train.activations",),
    "checkpoint_activations": ("train.activations",),
    "init": ("train.init_from",),
    "init_checkpoint": ("train.init_from",),
    "train_from": ("train.init_from",),
    "finetune_from_model": ("train.init_from",),
    "restore_file": ("train.init_from",),
    # judging, saving, showing
    "eval_steps": ("valid.every",),
    "valid_steps": ("valid.every",),
    "validate_interval": ("valid.every",),
    "validate_interval_updates": ("valid.every",),
    "early_stopping": ("valid.patience",),
    "early_stopping_patience": ("valid.patience",),
    "best_checkpoint_metric": ("valid.best",),
    "metric_for_best_model": ("valid.best",),
    "save_steps": ("checkpoint.every",),
    "save_every": ("checkpoint.every",),
    "save_interval_updates": ("checkpoint.every",),
    "save_checkpoint_steps": ("checkpoint.every",),
    "save_total_limit": ("checkpoint.keep_last",),
    "keep_checkpoint": ("checkpoint.keep_last",),
    "keep_last_epochs": ("checkpoint.keep_last",),
    "keep_interval_updates": ("checkpoint.keep_last",),
    "keep_best_checkpoints": ("checkpoint.keep_best",),
    "log_interval": ("log.every",),
    "logging_steps": ("log.every",),
    "report_every": ("log.every",),
    "log_format": ("log.format",),
    "output_dir": ("run",),
    "save_dir": ("run",),
    "save_model": ("run",),
    # the model
    "hidden_size": ("arch.d_model",),
    "embed_dim": ("arch.d_model",),
    "encoder_embed_dim": ("arch.d_model",),
    "decoder_embed_dim": ("arch.d_model",),
    "model_dim": ("arch.d_model",),
    "ffn_dim": ("arch.d_ff",),
    "transformer_ff": ("arch.d_ff",),
    "feed_forward_size": ("arch.d_ff",),
    "encoder_ffn_embed_dim": ("arch.d_ff",),
    "decoder_ffn_embed_dim": ("arch.d_ff",),
    "encoder_ffn_dim": ("arch.d_ff",),
    "heads": ("arch.n_heads",),
    "num_heads": ("arch.n_heads",),
    "attention_heads": ("arch.n_heads",),
    "encoder_attention_heads": ("arch.n_heads",),
    "decoder_attention_heads": ("arch.n_heads",),
    "layers": ("arch.n_layers", "arch.n_encoder_layers"),
    "num_layers": ("arch.n_layers", "arch.n_encoder_layers"),
    "num_hidden_layers": ("arch.n_layers", "arch.n_encoder_layers"),
    "enc_layers": ("arch.n_encoder_layers",),
    "encoder_layers": ("arch.n_encoder_layers",),
    "dec_layers": ("arch.n_decoder_layers",),
    "decoder_layers": ("arch.n_decoder_layers",),
    "dropout_rate": ("arch.dropout",),
    "activation_dropout": ("arch.relu_dropout",),
    "share_all_embeddings": ("arch.share_embeddings",),
    "tie_word_embeddings": ("arch.share_embeddings",),
    # the search
    "beam_size": ("search.beam",),
    "num_beams": ("search.beam",),
    "lenpen": ("search.alpha",),
    "len_pen": ("search.alpha",),
    "length_alpha": ("search.alpha",),
    "max_new_tokens": ("search.max_len_b",),
    "max_length": ("search.max_len_b",),
    "min_length": ("min_len",),
    "n_best": ("nbest",),
    "num_return_sequences": ("nbest",),
    "topk": ("search.top_k",),
    "sampling_topk": ("search.top_k",),
    "topp": ("search.top_p",),
    "sampling_topp": ("search.top_p",),
    # the data
    "source_lang": ("task.src_lang",),
    "target_lang": ("task.tgt_lang",),
    "max_seq_length": ("data.max_len",),
    "max_source_positions": ("data.max_len", "max_source"),
    "max_source_length": ("data.max_len", "max_source"),
    "share_vocab": ("task.joint",),
    "joined_dictionary": ("task.joint",),
}
"""What fairseq, Hugging Face, OpenNMT and others call it."""


def targets(key: str) -> Iterator[str]:
    """What an unknown option may be called here, the likeliest first."""
    head, _, rest = key.partition(".")
    name = key.rpartition(".")[2]
    for table in (RENAMED, SYNONYMS):
        yield from table.get(key, ())
        yield from table.get(name, ())
    yield from (f"{section}.{rest}" for section in RENAMED.get(head, ()) if rest)
