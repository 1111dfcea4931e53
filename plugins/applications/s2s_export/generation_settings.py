"""How a run searches, as generation_config.json of Hugging Face's transformers; `s2s_import.search` reads it."""

from __future__ import annotations

__all__ = ["generation_settings", "unwritten_options"]

from typing import TYPE_CHECKING, Any

from s2s.decoding import BeamConfig, SearchConfig

if TYPE_CHECKING:
    from s2s import Choice, Vocab

MAX_LENGTH = 512
STOPS = {"heuristic": False, "first_k": True, "exact": "never", "best": "never"}
"""early_stopping; of the rules, best finds what exact does"""


def generation_settings(search: Choice, vocab: Vocab) -> dict[str, Any]:
    """Settings beside the special tokens; as in s2s, outputs never contain `Vocab.never_output`."""
    banned = [*vocab.never_output, *([vocab.unk] if getattr(search, "ban_unk", False) else [])]
    settings: dict[str, Any] = {
        "bad_words_ids": [[token] for token in banned],
        "max_length": MAX_LENGTH,
        "num_beams": 1,
    }
    if not isinstance(search, SearchConfig):
        return settings
    n_start = len(vocab.starting_tokens)
    if search.max_len_a == 0:
        settings["max_length"] = int(search.max_len_b) + n_start
    if search.min_len:
        settings["min_length"] = search.min_len + n_start
    if search.no_repeat_ngram_size:
        settings["no_repeat_ngram_size"] = search.no_repeat_ngram_size
    settings["repetition_penalty"] = search.repetition_penalty
    if isinstance(search, BeamConfig):
        return settings | _of_beam(search)
    if search.name == "sample":
        drawn = {name: getattr(search, name) for name in ("temperature", "top_k", "top_p")}
        return {**settings, **drawn, "do_sample": True}
    return settings


def _of_beam(search: BeamConfig) -> dict[str, Any]:
    """Those of beam search alone."""
    settings = {"num_beams": search.beam, "early_stopping": STOPS[search.stop]}
    if search.length_penalty in ("power", "none"):
        settings["length_penalty"] = search.alpha if search.length_penalty == "power" else 0.0
    if search.renormalize:
        settings["renormalize_logits"] = True
    if (n_groups := getattr(search, "num_beam_groups", 1)) > 1:
        settings |= {"num_beam_groups": n_groups, "diversity_penalty": getattr(search, "diversity_penalty", 0.0)}
    return settings


def unwritten_options(search: Choice, vocab: Vocab) -> list[str]:
    """Options of a search, as NAME=VALUE, that transformers does not have or means otherwise."""
    if not isinstance(search, SearchConfig):
        return [f"search={search.name}"]
    names = ["max_len_a"] if search.max_len_a else []
    if isinstance(search, BeamConfig) and search.beam > 1:
        names += ["length_penalty"] if search.length_penalty == "gnmt" and search.alpha else []
        names += ["temperature"] if search.temperature != 1 else []
        names += ["penalized"] if search.repetition_penalty != 1 and search.penalized == "logits" else []
        counts = search.length_penalty == "power" and search.length_offset != len(vocab.starting_tokens) - 1
        names += ["length_offset"] if counts and search.alpha else []
    return [f"search.{name}={getattr(search, name)}" for name in names]
