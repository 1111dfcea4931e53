"""How published models are meant to be decoded: the same outputs as `generate` of transformers, tuned and out again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
import torch

import s2s
from harness.published import LINES, opus_mt
from harness.published_families import FAMILIES, published
from s2s.cli.train import main as train
from s2s.decoding import SearchRequest, search_all
from s2s.plugin import load_plugins
from s2s.run import Run, find_run
from s2s_export.command import main as export
from s2s_import.command import main as import_model
from s2s_import.search import generation_settings, search_options, settings_notes, unused_settings

if TYPE_CHECKING:
    from pathlib import Path

transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
PLUGINS = load_plugins()
SETTINGS: dict[str, dict[str, Any]] = {
    "early": {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0},
    "short": {"num_beams": 4, "length_penalty": -0.5},
    "heuristic": {"num_beams": 4, "length_penalty": 0.3, "no_repeat_ngram_size": 3},
    "min_length": {"num_beams": 3, "length_penalty": -0.5, "min_length": 7},
    "min_new_tokens": {"num_beams": 3, "length_penalty": -0.5, "min_new_tokens": 5, "max_new_tokens": 30},
    "repetition": {"num_beams": 3, "repetition_penalty": 1.3, "length_penalty": -0.5},
    "repetition, greedy": {"num_beams": 1, "repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
    "renormalised": {
        "num_beams": 3,
        "renormalize_logits": True,
        "min_length": 6,
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.2,
    },
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_operators: str) -> None:
    """A cache of its own, and a working folder with some sentences."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for side in ("src", "tgt"):
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in LINES[side][:24]))


def ending(model: Any, folder: Path, source: list[int]) -> None:
    """The model with eos nearly as probable as a frequent token, so that outputs end, written again."""
    model.generation_config.forced_bos_token_id = None
    outputs = model.generate(torch.tensor([source]), num_beams=1, max_length=12)[0, 3:].tolist()
    eos, table = model.config.eos_token_id, model.get_output_embeddings().weight
    token = next(i for i, _ in Counter(outputs).most_common() if i != eos)
    with torch.no_grad():
        table[eos] = 0.97 * table[token]
    model.save_pretrained(folder)


@pytest.mark.parametrize("name", ["bart", "mbart", "t5"])
def test_outputs_are_those_of_generate(name: str, tmp_path: Path) -> None:
    """Of each kind of settings, for all outputs that end; of all together at least a third do."""
    family, (model, tokenizer) = FAMILIES[name], published(name, tmp_path / name)
    written = json.loads((tmp_path / name / "generation_config.json").read_text())
    before, after = ([tokenizer.token_to_id(t) for t in part.split()] for part in family.source.split("TEXT"))
    texts = [[*before, *tokenizer.encode(line, add_special_tokens=False).ids, *after] for line in LINES["src"][:4]]
    ending(model, tmp_path / name, texts[0])
    (tmp_path / name / "generation_config.json").write_text(json.dumps(written))
    languages = [f"languages=[{','.join(family.languages)}]"] if family.languages else []
    assert import_model([f"model={name}", "run=ours", "--quiet", *languages]) == 0
    ours, n_ended = s2s.load("ours"), 0
    vocab, eos = ours.task.vocab, model.config.eos_token_id
    for settings in SETTINGS.values():
        own = {"max_length": 40} | {key: value for key, value in written.items() if key.endswith("_token_id")}
        whole = {**own, **settings, "bad_words_ids": [[token] for token in vocab.never_output]}
        options = search_options(generation_settings({}, whole), len(family.start))
        entry = PLUGINS.registry.get("search", options["name"])
        search = entry.build(entry.config(**options))
        for line, source in zip(LINES["src"], texts, strict=False):
            config = transformers.GenerationConfig(**whole)
            theirs = model.generate(torch.tensor([source]), generation_config=config)[0, len(family.start) :].tolist()
            if eos not in theirs:
                continue
            (src,) = ours.task.encode_inputs([ours._example(line)])
            batch = s2s.make_batch([(src, [])], vocab)
            request = SearchRequest.from_batch(ours.model, batch.src, batch.src_pad, vocab)
            assert search_all(search, request)[0][0].tokens == theirs[: theirs.index(eos)], settings
            n_ended += 1
    assert n_ended > len(SETTINGS) * 4 / 3


CHOSEN: dict[str, Any] = {
    "num_beams": 3,
    "max_length": 23,
    "min_length": 6,
    "no_repeat_ngram_size": 3,
    "length_penalty": 0.7,
    "early_stopping": True,
    "repetition_penalty": 1.1,
    "renormalize_logits": True,
}


def state_of(run: str) -> dict[str, Any]:
    """What must not change: search, special tokens, languages, and the ids of texts on both sides."""
    config, task = Run.load_task(find_run(run), PLUGINS)
    ids = [task.encode_inputs([s2s.Example(line, "")])[0] for line in LINES["src"][:6]]
    targets = [list(pair.tgt) for pair in task.encode([s2s.Example("a", line) for line in LINES["tgt"][:6]])]
    sides = [[str(piece) for piece in task.vocabulary(side)] for side in ("src", "tgt")]  # type: ignore[arg-type]
    languages = [getattr(config.task, name, None) for name in ("src_lang", "tgt_lang")]
    search = asdict(config.search)
    return {"search": search, "vocab": task.vocab, "ids": ids, "targets": targets, "sides": sides, "of": languages}


def written_settings(folder: Path) -> dict[str, Any]:
    settings = json.loads((folder / "generation_config.json").read_text())
    return {name: value for name, value in settings.items() if name != "transformers_version"}


@pytest.mark.parametrize("name", ["opus", *FAMILIES])
def test_settings_tokens_and_languages_stay_when_a_model_is_tuned_and_goes_out(name: str, tmp_path: Path) -> None:
    folder, languages = tmp_path / name, FAMILIES[name].languages if name in FAMILIES else ()
    if name == "opus":
        opus_mt(folder)
    else:
        published(name, folder)
    file = folder / "generation_config.json"
    pad = json.loads((folder / "config.json").read_text())["pad_token_id"]
    file.write_text(json.dumps({**json.loads(file.read_text()), **CHOSEN, "bad_words_ids": [[pad]]}))
    (tmp_path / "some.src").write_text(f"{LINES['src'][0]}\n")
    chosen = [f"languages=[{','.join(languages)}]"] if languages else []
    assert import_model([f"model={name}", "run=ours", "--quiet", *chosen]) == 0
    before, written = state_of("ours"), None
    assert before["search"]["min_len"] == 6 - len(before["vocab"].starting_tokens)
    tuning = ["train.init_from=ours", "task.train=[train.src,train.tgt]", "train.steps=1", "train.check=false"]
    for run, options in {"ours": None, "full": ["train.init_weight=0"], "adapted": ["arch=lora"]}.items():
        if options is not None:
            assert train([*tuning, *options, f"run={run}", "--quiet"]) == 0
            assert state_of(run) == before
        assert export([f"run={run}", "format=hf", f"output={run}-hf", "input=some.src", "--quiet"]) == 0
        settings = written_settings(tmp_path / f"{run}-hf")
        assert written in (None, settings)
        written = settings
        assert CHOSEN.items() <= {**settings, "max_length": CHOSEN["max_length"]}.items()
        codes = {"opus": [], "bart": [], "t5": []}.get(name, chosen)
        assert import_model([f"model={run}-hf", f"run={run}-again", "--quiet", *codes]) == 0
        again = state_of(f"{run}-again")
        assert again["search"] == before["search"]
        assert again["sides"] == before["sides"]
        assert [again[part] for part in ("ids", "targets")] == [before[part] for part in ("ids", "targets")]
        tokens = [(v.pad, v.unk, v.bos, v.eos, v.src_eos, v.starting_tokens) for v in (again["vocab"], before["vocab"])]
        assert tokens[0] == tokens[1]


OLD: dict[str, Any] = {
    "bos_token_id": 0,
    "pad_token_id": 1,
    "force_bos_token_to_be_generated": True,
    "num_beams": 4,
    "early_stopping": True,
    "task_specific_params": {"summarization": {"min_length": 56}},
}


@pytest.mark.parametrize(
    ("config", "generation", "search", "unused"),
    [
        (OLD, None, {"beam": 4, "stop": "first_k", "length_offset": 1, "max_len_b": 510},
         "not used of its settings: task_specific_params of summarization"),
        (OLD, {"num_beams": 2}, {"beam": 2, "stop": "heuristic", "max_len_b": 511},
         "not used of its settings: task_specific_params of summarization"),
        ({}, {"do_sample": True, "temperature": 0.7}, {"name": "sample", "temperature": 0.7, "top_k": 50}, ""),
        ({}, {"do_sample": True, "num_beams": 2, "min_p": 0.1}, {"name": "beam", "beam": 2},
         "not used of its settings: min_p=0.1, do_sample=True"),
        ({}, {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.3},
         {"num_beam_groups": 2, "diversity_penalty": 0.3}, ""),
        ({}, {"encoder_no_repeat_ngram_size": 3, "bad_words_ids": [[1], [7, 8]], "suppress_tokens": [5]}, {"beam": 1},
         "not used of its settings: encoder_no_repeat_ngram_size=3, suppress_tokens=[5], bad_words_ids=[[1], [7, 8]]"),
    ],
)  # fmt: skip
def test_settings_of_old_and_new_files(config: Any, generation: Any, search: dict[str, Any], unused: str) -> None:
    """As generate does, config.json counts only where there is no generation_config.json."""
    settings = generation_settings(config, generation)
    found = search_options(settings, 2 if "forced_bos_token_id" in settings else 1)
    assert search.items() <= found.items()
    PLUGINS.registry.get("search", found["name"]).config(**found)
    assert unused_settings(config, settings, pad=1) == ([unused] if unused else [])


def test_the_first_screen_says_all_settings() -> None:
    search = search_options({**CHOSEN, "num_beam_groups": 3, "diversity_penalty": 0.2}, 2)
    assert settings_notes({"search": search, "task": {"subword": {}}}) == [
        "its own settings: beam 3, length penalty 0.7, stop first_k, 3 groups with diversity penalty 0.2, "
        "repetition penalty 1.1, no 3 tokens twice, at least 4 tokens, at most 21 tokens, "
        "probabilities of forbidden tokens divided among others"
    ]
    sampled = search_options({"do_sample": True, "top_p": 0.9}, 1)
    (note,) = settings_notes({"search": sampled, "task": {"subword": {}}})
    assert note == "its own settings: drawn at random, top_k 50, top_p 0.9, at most 511 tokens"
