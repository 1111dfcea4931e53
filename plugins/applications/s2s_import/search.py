"""How a published model is meant to be decoded, as options of a search."""

from __future__ import annotations

__all__ = ["search_options", "settings_notes"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NEUTRAL = {
    "no_repeat_ngram_size": 0,
    "min_length": 0,
    "do_sample": False,
    "num_beam_groups": 1,
    "encoder_no_repeat_ngram_size": 0,
    "diversity_penalty": 0.0,
}
"""Settings of generation_config.json without a counterpart in a search, with the value that changes nothing"""
MAX_LENGTH = 512


def search_options(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A generation_config.json -> the options of beam search, and what it asks for that is left out."""
    beam = int(config.get("num_beams") or 1)
    # max_length counts the token that starts an output, and eos if that is forced at the end
    others = 1 if config.get("forced_eos_token_id") is None else 2
    longest = max(1, int(config.get("max_length") or MAX_LENGTH) - others)
    options = {"name": "beam", "beam": beam, "max_len_a": 0.0, "max_len_b": longest}
    options |= {"length_penalty": "power", "alpha": float(config.get("length_penalty", 1.0))}
    if (penalty := config.get("repetition_penalty")) not in (None, 1.0):
        options["repetition_penalty"] = float(penalty)
    ignored = {name: config[name] for name, neutral in NEUTRAL.items() if config.get(name) not in (None, neutral)}
    return options, [f"{name}={value} of its generation settings is not used" for name, value in ignored.items()]


def settings_notes(options: Mapping[str, Any]) -> list[str]:
    """Lines for the first screen about a model's options: how it is decoded, and what is put around its texts."""
    search, task = options["search"], options["task"]
    subword = task["subword"]
    settings = [f"beam {search['beam']}", f"length penalty {search['alpha']:g}"]
    if "repetition_penalty" in search:
        settings.append(f"repetition penalty {search['repetition_penalty']:g}")
    if search.get("max_len_a") == 0:
        settings.append(f"at most {search['max_len_b']:g} tokens")
    notes = ["its own settings: " + ", ".join(settings)]
    before, start, end = (list(subword.get(name) or ()) for name in ("before", "start", "end"))
    if before or end:
        notes.append(f"sources are read as {' '.join([*before, 'TEXT', *(end or ['</s>'])])}")
    if start:
        notes.append(f"outputs begin behind {' '.join(start)}")
    if "src_lang" in task and "tgt_lang" in task:
        notes.append(f"from {task['src_lang']} into {task['tgt_lang']}")
    return ["; ".join(notes)]
