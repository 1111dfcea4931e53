"""task=multilingual: directions of corpora, tokens of languages, temperature, what inputs may leave open."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from s2s import ConfigError, DataError, Example, load_plugins, make_batch
from s2s.generation.inputs import InputFields, as_input
from s2s.training.dev_set import dev_parts, grouped
from s2s_multilingual import MultilingualConfig
from s2s_multilingual.languages import Languages, short_codes
from s2s_multilingual.task import Multilingual
from s2s_testing import assert_task_round_trips

if TYPE_CHECKING:
    from pathlib import Path

LINES = {
    "en": ["the dog sees a cat", "a cat eats", "the house is old"],
    "de": ["der Hund sieht eine Katze", "eine Katze frisst", "das Haus ist alt"],
    "fr": ["le chien voit un chat", "un chat mange", "la maison est vieille"],
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """a.en, a.de of 30 lines, b.en, b.fr of 3, dev.en, dev.de, dev.fr."""
    for name, languages, n in [("a", "en de", 10), ("b", "en fr", 1), ("dev", "en de fr", 1)]:
        for language in languages.split():
            (tmp_path / f"{name}.{language}").write_text("".join(f"{line}\n" for line in LINES[language] * n))
    return tmp_path


def made(files: Path, **options: Any) -> Multilingual:
    """The task on these corpora, with a learnt vocabulary."""
    train = [[str(files / "a.en"), str(files / "a.de")], [str(files / "b.en"), str(files / "b.fr")]]
    valid = [[str(files / f"dev.{language}") for language in ("en", "de", "fr")]]
    options = {"train": train, "valid": valid, "vocab_size": 70, **options}
    task = Multilingual(MultilingualConfig(name="multilingual", **options))
    directory = files / "tokenizer"
    directory.mkdir(exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    task.learn(directory)
    return task


def pieces(task: Multilingual, ids: list[int]) -> list[str]:
    return [str(task.vocabulary("src")[i]) for i in ids]


PLACES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "johnson": ({}, ["<2de>", "TEXT"], ["TEXT"]),
    "nllb": ({"before": ["src"], "start": ["bos", "tgt"]}, ["<2en>", "TEXT"], ["<2de>", "TEXT"]),
    "mbart": (
        {"before": [], "end": ["eos", "src"], "start": ["tgt"]}, ["TEXT", "</s>", "<2en>"], ["<2de>", "TEXT"]
    ),
    "both": ({"before": ["src", "tgt"], "tag": "__{}__"}, ["__en__", "__de__", "TEXT"], ["TEXT"]),
}  # fmt: skip


@pytest.mark.parametrize(("place", "n_tags"), [("johnson", 3), ("nllb", 3), ("mbart", 0), ("both", 3)])
def test_languages_are_tags_where_their_tokens_begin_sources(place: str, n_tags: int, files: Path) -> None:
    task = made(files, **PLACES[place][0])
    assert task.vocab.tags == n_tags
    assert [pieces(task, [i])[0] for i in task.vocab.tag_ids] == (list(task.symbols()) if n_tags else [])
    sources = [pair.src for pair in task.encode([one for one in task.usable() if isinstance(one, Example)])]
    assert all(src[0] in task.vocab.tag_ids for src in sources) == bool(n_tags)


@pytest.mark.parametrize(("options", "src", "tgt"), PLACES.values(), ids=PLACES)
def test_tokens_of_languages_stand_where_options_put_them(
    options: dict[str, Any], src: list[str], tgt: list[str], files: Path
) -> None:
    task = made(files, **options)
    example = next(one for one in task.examples("train", "a/en-de") if isinstance(one, Example))
    text = {"src": task.encode_source([example.src])[0], "tgt": task.tgt.encode([example.tgt])[0]}
    (pair,) = task.encode([example])
    for side, expected, ids in (("src", src, pair.src), ("tgt", tgt, pair.tgt)):
        i = expected.index("TEXT")
        assert pieces(task, list(ids)) == [*expected[:i], *pieces(task, text[side]), *expected[i + 1 :]]
    batch = make_batch([pair], task.vocab)
    own_start, own_end = options.get("start") == ["tgt"], "end" in options
    assert batch.src[0].tolist() == [*pair.src, *([] if own_end else [task.vocab.eos])]
    assert batch.tgt_in[0].tolist() == [*([] if own_start else [task.vocab.bos]), *pair.tgt]
    assert batch.tgt_out[0].tolist() == [*(pair.tgt[1:] if own_start else pair.tgt), task.vocab.eos]
    assert task.source_text(pair.src) == example.src
    assert (
        task.vocab.started(task.forced_tokens(example))
        == tuple(batch.tgt_in[0, : 1 + len(tgt[:-1])].tolist())[: 1 + len(tgt[:-1]) - own_start]
    )
    n_before = src.index("TEXT")
    assert task.source_offsets(example.src)[n_before] == (0, 3)
    assert len(task.source_offsets(example.src)) == len(pair.src)


@pytest.mark.parametrize("options", [options for options, _, _ in PLACES.values()], ids=PLACES)
def test_the_task_keeps_its_contract(options: dict[str, Any], files: Path) -> None:
    assert_task_round_trips(made(files, **options), files / "other")


def test_a_source_that_is_too_long_keeps_the_token_that_ends_it(files: Path) -> None:
    task = made(files, before=[], end=["eos", "src"], start=["tgt"])
    (ids,) = task.encode_inputs([Example("the dog sees a cat", fields={"src_lang": "en", "tgt_lang": "de"})])
    assert task.cut_source(ids, 5) == [*ids[:3], *ids[-2:]]
    assert task.cut_source(ids, len(ids)) == ids


def test_corpora_are_read_both_ways_and_in_all_pairs_of_their_files(files: Path) -> None:
    task = made(files)
    assert [name for name, _ in task.corpora("train")] == ["a/en-de", "a/de-en", "b/en-fr", "b/fr-en"]
    assert task.corpora("valid") == [
        ("en-de", 1.0), ("de-en", 1.0), ("en-fr", 1.0), ("fr-en", 1.0), ("de-fr", 0.0), ("fr-de", 0.0)
    ]  # fmt: skip
    for direction, _ in task.corpora("valid"):
        src, tgt = direction.split("-")
        expected = [Example(*pair, fields={"src_lang": src, "tgt_lang": tgt}) for pair in zip(LINES[src], LINES[tgt])]  # noqa: B905
        assert list(task.examples("valid", direction)) == expected
    assert [(src, tgt) for src, tgt, _ in task.directions()] == [
        tuple(name.split("-")) for name, _ in task.corpora("valid")
    ]


def test_directions_select_what_is_trained(files: Path) -> None:
    task = made(files, directions=["en-mul"])
    assert [name for name, _ in task.corpora("train")] == ["a/en-de", "b/en-fr"]
    assert [name for name, _ in task.corpora("valid")] == ["en-de", "en-fr"]
    assert task.symbols() == ["<2de>", "<2fr>"]
    with pytest.raises(ConfigError, match=r"task\.directions: en-it is none of the training text's: en-de, de-en"):
        made(files, directions=["en-it"])


def test_languages_are_named_beside_files_of_any_form(files: Path) -> None:
    (files / "pairs.tsv").write_text("a dog\tein Hund\n")
    (files / "own.jsonl").write_text('{"src": "un chat", "tgt": "a cat", "src_lang": "fr", "tgt_lang": "en"}\n')
    train = {
        "tsv": {"files": [str(files / "pairs.tsv")], "languages": ["en", "de"]},
        "own": {"files": [str(files / "own.jsonl")]},
        "txt": {"files": [str(files / "a.en"), str(files / "b.fr")], "fields": {"src_lang": "en", "tgt_lang": "it"}},
    }
    task = Multilingual(MultilingualConfig(name="multilingual", train=train, languages=["fr"]))
    assert list(task.examples("train", "tsv/de-en")) == [
        Example("ein Hund", "a dog", {"src_lang": "de", "tgt_lang": "en"})
    ]
    assert list(task.examples("train", "own")) == [Example("un chat", "a cat", {"src_lang": "fr", "tgt_lang": "en"})]
    assert [name for name, _ in task.corpora("train")][-1] == "txt/it-en"
    assert set(task.known.targets) == {"en", "de", "it", "fr"}


WRONG: dict[str, tuple[Any, str]] = {
    "unknown": ([["a.txt", "b.txt"]], r"which languages have a\.txt, b\.txt\? Give languages: \[en,de\]"),
    "one-list": ([["a.en", "a.de", "b.en", "b.fr"]], "and each of several corpora as a list of its own"),
    "twice": ({"a": {"files": ["a.en", "a.de"], "languages": ["de", "de"]}}, "de, de names a language twice"),
    "too-many": ({"a": {"files": ["a.en", "a.de"], "languages": ["en", "de", "fr"]}}, "2 files, but 3 languages"),
    "one": ({"a": {"files": ["a.en", "a.de"], "languages": ["en"]}}, "give two or more, such as"),
    "none": ([], "task=multilingual: which languages"),
}


@pytest.mark.parametrize(("train", "message"), WRONG.values(), ids=WRONG)
def test_corpora_without_clear_languages_are_refused(train: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Multilingual(MultilingualConfig(name="multilingual", train=train))


def test_a_model_of_several_targets_must_read_which(files: Path) -> None:
    with pytest.raises(ConfigError, match="one must have tgt, or outputs have any language"):
        made(files, before=["src"])


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_temperature_gives_each_direction_its_share(temperature: float, files: Path) -> None:
    task = made(files, temperature=temperature)
    counts = {"a/en-de": 30, "a/de-en": 30, "b/en-fr": 3, "b/fr-en": 3}
    seen = {name: weight * counts[name] for name, weight in task.weights(counts).items()}
    powers = {name: n ** (1 / temperature) for name, n in counts.items()}
    for name, n in seen.items():
        assert n / sum(seen.values()) == pytest.approx(powers[name] / sum(powers.values()))
    assert sum(seen.values()) == pytest.approx(sum(counts.values()))
    read = Counter(one.fields["tgt_lang"] for one in task.usable())
    assert read["fr"] / read["de"] == pytest.approx(seen["b/en-fr"] / seen["a/en-de"], rel=0.1)
    assert read["de"] == 30, "no text is left out of the vocabulary's"


def test_each_direction_is_scored_by_itself(files: Path) -> None:
    parts = dev_parts(made(files, metrics=["bleu", "bleu_moses"]), load_plugins().registry)
    assert [(part.name, part.weight) for part in parts][3:5] == [("fr-en", 1.0), ("de-fr", 0.0)]
    assert [part.metrics[1].config.lang for part in parts[:3]] == ["de", "en", "fr"]  # type: ignore[attr-defined]


def test_inputs_are_scored_by_their_direction(files: Path) -> None:
    """Inputs need not name their language where the model does not read it."""
    task = made(files, languages=["jpn_Jpan"])
    english = {"src_lang": "en", "tgt_lang": "de"}
    given = [english, {"src_lang": "de", "tgt_lang": "ja"}, {"tgt_lang": "en"}, english]
    read = InputFields(task, [], {})
    fields = [read(as_input({"src": "x", **one})) for one in given]
    parts = grouped(task, load_plugins().registry, fields, ["bleu"])
    assert [(part.name, part.rows) for part in parts] == [("en-de", [0, 3]), ("de-jpn_Jpan", [1]), ("mul-en", [2])]
    assert [part.metrics[0](["x"], [["x"]]).signature.count("tok:char") for part in parts] == [0, 1, 0]


CODES = ["eng_Latn", "deu_Latn", "zho_Hans", "zho_Hant", "nob_Latn"]
ALL = Languages([(a, b) for a in CODES for b in CODES if a != b], CODES, ("", ""), needs_src=True)


@pytest.mark.parametrize(
    ("given", "code"),
    [("de", "deu_Latn"), ("deu", "deu_Latn"), ("GER", "deu_Latn"), ("deu-latn", "deu_Latn"), ("en-US", ""), ("zh", ""),
     ("zh-Hant", "zho_Hant"), ("zh_hans", "zho_Hans"), ("nb", "nob_Latn"), ("fr", "")],
    ids=str,
)  # fmt: skip
def test_a_name_means_the_only_language_that_it_fits(given: str, code: str) -> None:
    src = "eng_Latn" if code != "eng_Latn" else "deu_Latn"
    if code:
        assert ALL.completed(src, given) == (src, code)
    else:
        with pytest.raises(ValueError, match=rf"tgt_lang={given}(: the model has no such language| may be)"):
            ALL.completed(src, given)


def test_short_names_mean_the_codes_that_they_are_made_of() -> None:
    for codes in (CODES, ["en_XX", "de_DE", "zh_CN"], ["en", "pt-BR", "pt-PT"]):
        languages = Languages([(codes[0], code) for code in codes[1:]], codes, ("", ""), needs_src=False)
        for code, short in short_codes(codes).items():
            other = next(one for one in codes if one != code)
            assert languages.completed(other, short) == (other, code)


def test_what_an_input_leaves_open_follows_where_only_one_is_possible() -> None:
    one_to_many = Languages([("en", "de"), ("en", "fr")], [], ("", ""), needs_src=True)
    assert one_to_many.completed("", "de") == ("en", "de")
    with pytest.raises(ValueError, match=r"tgt_lang is missing: into which language\? Give one of de, fr"):
        one_to_many.completed("", "")
    many_to_one = Languages([("de", "en"), ("fr", "en")], [], ("", ""), needs_src=False)
    assert many_to_one.completed("", "") == ("", "en")
    with_defaults = Languages([("en", "de"), ("de", "en")], ["en", "de"], ("en", "de"), needs_src=True)
    assert with_defaults.completed("", "") == ("en", "de")
    assert with_defaults.completed("", "en") == ("de", "en")
    assert with_defaults.completed("de", "") == ("de", "en")
    with pytest.raises(ValueError, match="src_lang is missing: in which language is the input"):
        ALL.completed("", "de")


def test_inputs_have_the_codes_of_the_model(files: Path) -> None:
    task = made(files)
    fields = InputFields(task, [], {})
    assert fields(as_input({"src": "a", "tgt_lang": "deu"})) == {"src_lang": "", "tgt_lang": "de"}
    with pytest.raises(DataError, match=r"tgt_lang is missing: into which language. Give one of de, en, fr"):
        fields(as_input("a"))
    with pytest.raises(DataError, match=r"tgt_lang=it: the model has no such language"):
        fields(as_input({"src": "a", "tgt_lang": "it"}))


def test_a_run_with_another_runs_vocabulary_knows_its_languages(files: Path) -> None:
    made(files)
    options = {"train": [[str(files / "a.en"), str(files / "a.de")]], "vocab_size": 70}
    task = Multilingual(MultilingualConfig(name="multilingual", **options))
    assert "fr" not in task.known.codes
    task.load(files / "tokenizer")
    assert task.known.completed("en", "fr") == ("en", "fr")
    assert [direction[:2] for direction in task.directions()] == [("en", "de"), ("de", "en")]


def test_corpora_by_name_have_their_languages() -> None:
    """No file is read to know the directions."""
    task = Multilingual(MultilingualConfig(name="multilingual", train=["wmt14_en_de", "wmt14_en_fr"]))
    assert [name for name, _ in task.corpora("train")] == [
        *("wmt14_en_de/en-de", "wmt14_en_de/de-en", "wmt14_en_fr/en-fr", "wmt14_en_fr/fr-en")
    ]
