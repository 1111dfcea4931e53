"""How a published model is meant to be decoded, as options of a search.

The meaning of each setting is that of `generate` in Hugging Face's transformers.
"""

from __future__ import annotations

__all__ = ["generation_settings", "search_options", "settings_notes", "unused_settings"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LENGTH = 512
TOP_K = 50
"""Of sampling, where the settings have none"""
UNUSED = {
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
    "guidance_scale": 1.0,
    "watermarking_config": None,
    "force_words_ids": None,
    "constraints": None,
    "penalty_alpha": 0.0,
    "dola_layers": None,
    "stop_strings": None,
    "max_time": None,
    "num_return_sequences": 1,
}
"""Settings without a counterpart in a search, with the value that changes nothing"""
UNUSED_SAMPLING = {"min_p": None, "top_h": None, "typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0}
"""The same, of those that matter if outputs are drawn at random"""


def generation_settings(config: Mapping[str, Any], generation: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings that count: those of generation_config.json, or without such a file those of config.json."""
    settings = config if generation is None else generation
    if generation is None and config.get("force_bos_token_to_be_generated"):  # files of 2020
        settings = {**settings, "forced_bos_token_id": config.get("bos_token_id")}
    return {name: value for name, value in settings.items() if value is not None}


def search_options(settings: Mapping[str, Any], n_start: int) -> dict[str, Any]:
    """The options of the search that settings ask for.

    n_start: tokens with which outputs start, which lengths of transformers count; only the first one is fed to the
    model, and further ones are forced as the first outputs.
    """
    beam, forced = int(settings.get("num_beams", 1)), n_start - 1
    longest, shortest = int(settings.get("max_length", MAX_LENGTH)), int(settings.get("min_length", 0))
    if "max_new_tokens" in settings:
        longest = int(settings["max_new_tokens"]) + 1
    if "min_new_tokens" in settings:
        shortest = int(settings["min_new_tokens"]) + 1
    longest -= n_start + ("forced_eos_token_id" in settings)  # eos counts if it is forced at the end
    options: dict[str, Any] = {"name": "beam", "max_len_a": 0.0, "max_len_b": max(1, longest)}
    if shortest > n_start:
        options["min_len"] = shortest - n_start
    if (size := int(settings.get("no_repeat_ngram_size", 0))) > 0:
        options["no_repeat_ngram_size"] = size
    if (penalty := float(settings.get("repetition_penalty", 1.0))) != 1:
        options["repetition_penalty"] = penalty
    if settings.get("do_sample") and beam == 1:
        drawn = {name: float(settings[name]) for name in ("temperature", "top_p") if name in settings}
        return {**options, **drawn, "name": "sample", "top_k": int(settings.get("top_k", TOP_K))}
    return {**options, **_beam_options(settings, beam, forced)}


def _beam_options(settings: Mapping[str, Any], beam: int, forced: int) -> dict[str, Any]:
    """Those of beam search alone; forced: first tokens of outputs that are forced."""
    early: Any = settings.get("early_stopping", False)
    options: dict[str, Any] = {"beam": beam, "length_penalty": "power"}
    options["alpha"] = float(settings.get("length_penalty", 1.0))
    options["stop"] = "exact" if early == "never" else "first_k" if early else "heuristic"
    if forced:
        options["length_offset"] = forced
    changes = ("bad_words_ids", "min_length", "min_new_tokens", "no_repeat_ngram_size", "repetition_penalty")
    if settings.get("renormalize_logits") and any(map(settings.get, changes)):
        options["renormalize"] = True
    if beam > 1 and float(settings.get("repetition_penalty", 1.0)) != 1:
        options["penalized"] = "log_probs"
    if beam > 1 and (n_groups := int(settings.get("num_beam_groups", 1))) > 1 and beam % n_groups == 0:
        options |= {"num_beam_groups": n_groups, "diversity_penalty": float(settings.get("diversity_penalty", 0.0))}
    return options


def unused_settings(config: Mapping[str, Any], settings: Mapping[str, Any], *, pad: int | None) -> list[str]:
    """A line about what the settings ask for and the search lacks; none if there is nothing.

    pad: the token that outputs never contain; config: config.json.
    """
    is_sampled, beam = bool(settings.get("do_sample")), int(settings.get("num_beams", 1))
    neutral = UNUSED | (UNUSED_SAMPLING if is_sampled else {})
    unused = [name for name, value in neutral.items() if settings.get(name, value) not in (value, 0, [], {})]
    if any(words != [pad] for words in settings.get("bad_words_ids", ())):
        unused.append("bad_words_ids")
    if is_sampled and beam > 1:
        unused.append("do_sample")
    if (n_groups := int(settings.get("num_beam_groups", 1))) > 1 and beam % n_groups:
        unused.append("num_beam_groups")
    if isinstance(settings.get("eos_token_id"), list):
        unused.append("eos_token_id but the first")
    values = [f"{name}={settings[name]}" if name in settings else name for name in unused]
    if tasks := config.get("task_specific_params"):
        values.append(f"task_specific_params of {', '.join(tasks)}")
    return [f"not used of its settings: {', '.join(value[:80] for value in values)}"] if values else []


def settings_notes(options: Mapping[str, Any]) -> list[str]:
    """Lines for the first screen about a model's options: how it is decoded, and what is put around its texts."""
    search, task = options["search"], options["task"]
    subword = task["subword"]
    notes = ["its own settings: " + ", ".join(_search_notes(search))]
    before, start, end = (list(subword.get(name) or ()) for name in ("before", "start", "end"))
    if before or end:
        notes.append(f"sources are read as {' '.join([*before, 'TEXT', *(end or ['</s>'])])}")
    if start:
        notes.append(f"outputs begin behind {' '.join(start)}")
    if "src_lang" in task and "tgt_lang" in task:
        notes.append(f"from {task['src_lang']} into {task['tgt_lang']}")
    return ["; ".join(notes)]


def _search_notes(search: Mapping[str, Any]) -> list[str]:
    """A search's options in words."""
    if search["name"] == "sample":
        drawn = [f"{name} {search[name]:g}" for name in ("temperature", "top_k", "top_p") if name in search]
        words = ["drawn at random", *drawn]
    else:
        words = [f"beam {search['beam']}", f"length penalty {search['alpha']:g}"]
    if search.get("stop") in ("exact", "first_k") and search["beam"] > 1:
        words.append(f"stop {search['stop']}")
    if "num_beam_groups" in search:
        words.append(f"{search['num_beam_groups']} groups with diversity penalty {search['diversity_penalty']:g}")
    if "repetition_penalty" in search:
        words.append(f"repetition penalty {search['repetition_penalty']:g}")
    if "no_repeat_ngram_size" in search:
        words.append(f"no {search['no_repeat_ngram_size']} tokens twice")
    if "min_len" in search:
        words.append(f"at least {search['min_len']} tokens")
    if search.get("max_len_a") == 0:
        words.append(f"at most {search['max_len_b']:g} tokens")
    if search.get("renormalize"):
        words.append("probabilities of forbidden tokens divided among others")
    return words
