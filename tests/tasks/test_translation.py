"""The translation task over files: forms of corpora, vocabularies, round trips, and what it refuses."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest

from harness.folders import DATA
from harness.word_numbers import word_numbers
from s2s.compose import compose
from s2s.config import Config
from s2s.config.data import DataConfig
from s2s.config.score import ScoreConfig
from s2s.data.invisible import visible
from s2s.data.preparation import prepare
from s2s.errors import ConfigError, DataError
from s2s.plugin import load_plugins
from s2s.task import Example, Rejected
from s2s_testing import assert_task_round_trips, check_task
from s2s_translation import TranslationConfig
from s2s_translation.task import Translation

if TYPE_CHECKING:
    from pathlib import Path

EN = ["A man rides a bicycle.", "Two dogs play in the snow.", "She reads a book.", "The old train stopped."] * 5
DE = ["Ein Mann fährt Rad.", "Zwei Hunde spielen im Schnee.", "Sie liest ein Buch.", "Der alte Zug hielt an."] * 5


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "train.en").write_text("\n".join(EN) + "\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("\n".join(DE) + "\n", encoding="utf-8")
    return [str(tmp_path / "train.en"), str(tmp_path / "train.de")]


def translation(train: Any, **options: Any) -> Translation:
    return Translation(TranslationConfig(name="translation", train=train, **{"vocab_size": 60, **options}))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subword": "unigram", "vocab_size": 50},
        {"joint": False, "src_vocab_size": 45, "tgt_vocab_size": 50},
        {"joint": False},
    ],
    ids=["joint", "unigram", "separate", "separate, one size"],
)
def test_it_keeps_the_contract_of_a_task(files: list[str], tmp_path: Path, options: dict[str, Any]) -> None:
    config = TranslationConfig(name="translation", train=files, **{"vocab_size": 60, **options})
    check_task(load_plugins().registry.get("task", "translation"), config, tmp_path)


def test_vocabularies_have_the_sizes_asked_for(files: list[str], tmp_path: Path) -> None:
    task = translation(files, joint=False, src_vocab_size=45, tgt_vocab_size=50)
    task.learn(tmp_path)
    assert (task.vocab.src, task.vocab.tgt, task.vocab.joint) == (45, 50, False)
    task = translation(files)
    task.learn(tmp_path)
    assert (task.vocab.src, task.vocab.tgt, task.vocab.joint) == (60, 60, True)
    assert (task.vocab.pad, task.vocab.unk, task.vocab.bos, task.vocab.eos) == (0, 1, 2, 3)


def test_lower_casing_covers_pairs_inputs_and_outputs(files: list[str], tmp_path: Path) -> None:
    task = translation(files, lowercase=True, vocab_size=55)
    assert_task_round_trips(task, tmp_path)
    assert next(iter(task.examples("train", "train"))) == Example(EN[0].lower(), DE[0].lower())
    assert task.encode_source([EN[0]]) == task.encode_source([EN[0].lower()])
    (encoded,) = task.encode([Example(EN[0], DE[0])])  # text from elsewhere, not through `examples`
    assert task.detokenize(encoded.tgt, EN[0]) == DE[0].lower()
    assert task.metric_options == {"lang": "de", "lowercase": True}


def test_corpora_have_names_weights_and_forms(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "more.tsv").write_text("one\teins\ntwo\tzwei\n")
    with gzip.open(tmp_path / "web.jsonl.gz", "wt") as file:
        file.write('{"src": "three", "tgt": "drei"}\n')
    task = translation(
        {
            "main": {"files": files, "weight": 2},
            "more": str(tmp_path / "more.tsv"),
            "web": str(tmp_path / "web.jsonl.gz"),
        },
        valid=files,
    )
    assert task.corpora("train") == [("main", 2.0), ("more", 1.0), ("web", 1.0)]
    assert task.corpora("valid") == [("train", 1.0)]
    assert task.corpora("test") == []
    assert list(task.examples("train", "more")) == [Example("one", "eins"), Example("two", "zwei")]
    assert list(task.examples("train", "web")) == [Example("three", "drei")]
    assert list(task.examples("valid", "train")) == list(map(Example, EN, DE))


def test_bad_lines_stop_or_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"one\nt\xffo\nthree\n")
    (tmp_path / "a.de").write_bytes(b"eins\nzwei\n\n")
    files = [str(tmp_path / "a.en"), str(tmp_path / "a.de")]
    with pytest.raises(DataError, match=r"a\.en:2: invalid UTF-8"):
        list(translation(files).examples("train", "a"))
    first, *others = translation(files, invalid="drop", lowercase=True).examples("train", "a")
    assert first == Example("one", "eins")
    assert [type(pair) for pair in others] == [Rejected, Rejected]


def test_what_is_prepared_depends_on_all_that_shapes_it(files: list[str]) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"subword": "unigram"},
        {"vocab_size": 61},
        {"joint": False},
        {"joint": False, "tgt_vocab_size": 61},
        {"character_coverage": 0.99},
        {"lowercase": True},
        {"invalid": "drop"},
    ]
    settings = [json.dumps(translation(files, **o).dependencies().settings, sort_keys=True) for o in options]
    assert len(set(settings)) == len(options)
    same = translation(files, metrics=["ter"], src_lang="en", test=files)
    assert json.dumps(same.dependencies().settings, sort_keys=True) == settings[0]


def test_files_of_training_and_development_are_watched(files: list[str]) -> None:
    other = [f"{file}.other" for file in files]
    task = translation({"a": files}, valid=other, test=["t.en", "t.de"])
    assert [str(file) for file in task.dependencies().files] == [*files, *other]


def test_a_vocabulary_too_large_names_its_option(files: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.vocab_size=5000 is too large"):
        translation(files, vocab_size=5000).learn(tmp_path)
    with pytest.raises(ConfigError, match=r"task\.tgt_vocab_size=5000 is too large"):
        translation(files, joint=False, tgt_vocab_size=5000).learn(tmp_path)
    with pytest.raises(ConfigError, match=r"task\.vocab_size=37000 is too large"):
        translation(files, vocab_size=None).learn(tmp_path)


def test_loading_refuses_what_the_configuration_does_not_fit(files: list[str], tmp_path: Path) -> None:
    translation(files).learn(tmp_path)
    with pytest.raises(DataError, match=r"made with task\.lowercase=false"):
        translation(files, lowercase=True).load(tmp_path)
    with pytest.raises(DataError, match=r"src\.model: no such file"):
        translation(files, joint=False).load(tmp_path)


def test_loading_refuses_another_tokeniser(files: list[str], tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    translation(files).learn(one)
    translation(files, vocab_size=50).learn(other)
    model = (one / "joint.model").read_bytes()
    (one / "joint.model").write_bytes((other / "joint.model").read_bytes())
    with pytest.raises(DataError, match=r"its vocabulary is [0-9a-f]{12}, but task\.json .* for [0-9a-f]{12}"):
        translation(files).load(one)
    (one / "joint.model").write_bytes(model[:100])
    with pytest.raises(DataError, match="not a subword model, or damaged"):
        translation(files).load(one)


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"lowercase": 1, "models": {}}', '{"models": 3}'])
def test_loading_refuses_damaged_settings(files: list[str], tmp_path: Path, content: str | None) -> None:
    translation(files).learn(tmp_path)
    (tmp_path / "task.json").unlink() if content is None else (tmp_path / "task.json").write_text(content)
    with pytest.raises(DataError, match=r"task\.json: missing or damaged"):
        translation(files).load(tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"src_lang": "False"}, "'no' for Norwegian"),
        ({"tgt_lang": "true"}, "'no' for Norwegian"),
        ({"valid": ["a.en", "a.de"]}, "without task.train"),
        ({"test": ["a.en", "a.de"]}, "without task.train"),
        ({"src_vocab_size": 10}, "task.joint=false"),
        ({"tgt_vocab_size": 0}, "task.joint=false"),
        ({"pairs": 0}, "task.pairs=0"),
    ],
    ids=str,
)
def test_a_wrong_configuration_says_what_to_give(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace(".", r"\.")):
        TranslationConfig(**options)


def test_norwegian_is_a_language() -> None:
    composed = compose(ScoreConfig, ["task=translation", "task.src_lang=no", "task.tgt_lang=en"], load_plugins())
    assert composed.config.task.src_lang == "no"  # type: ignore[attr-defined]


def test_the_preset_trains_the_base_model() -> None:
    composed = compose(Config, ["task=translation"], load_plugins())
    assert composed.config.task == TranslationConfig(name="translation")
    assert composed.origins["arch.name"].startswith("preset task=translation ")
    assert composed.config.arch.d_model == 512  # type: ignore[attr-defined]


def test_the_paper_gives_the_default_sizes(files: list[str]) -> None:
    assert TranslationConfig(train=files).sizes() == {"joint": ("task.vocab_size", 37_000)}
    assert TranslationConfig(train=files, joint=False, tgt_vocab_size=512).sizes() == {
        "src": ("task.vocab_size", 37_000),
        "tgt": ("task.tgt_vocab_size", 512),
    }


@pytest.mark.parametrize(
    ("train", "options", "languages"),
    [
        (["corpus.en", "corpus.de"], {}, ("en", "de")),
        (["a/train.tok.en", "a/train.tok.pt-BR.txt"], {}, ("en", "pt-BR")),
        (
            {"one": {"files": ["a.en", "a.fr"]}, "two": {"files": ["b.2020.en", "b.2020.fr"], "weight": 2}},
            {},
            ("en", "fr"),
        ),
        (["corpus.en", "corpus.de"], {"tgt_lang": "nds"}, ("en", "nds")),
        ([["a.en", "a.fr"], ["b.en", "b.de"]], {}, ("", "")),
        (["a.en", "b.en"], {}, ("", "")),
        (["train.src", "train.tgt"], {}, ("", "")),
        ("pairs.tsv", {}, ("", "")),
        (None, {}, ("", "")),
        (None, {"tgt_lang": "fr"}, ("", "fr")),
    ],
)
def test_languages_are_given_or_the_ends_of_file_names(
    train: Any, options: dict[str, Any], languages: tuple[str, str]
) -> None:
    task = translation(train, **options)
    assert task.languages == languages
    if train:
        assert list(task.directions()) == ([(*languages, {})] if all(languages) else [])
        assert task.source_language({}) == languages[0]
    assert task.metric_options == ({"lang": languages[1]} if languages[1] else {})


def test_the_synthetic_corpus_has_languages_which_scores_of_other_text_do_not_use() -> None:
    for options, languages in (({}, ("en", "de")), ({"src_lang": "de"}, ("de", "en"))):
        task = translation(None, **options)
        assert list(task.directions()) == [(*languages, {})]
        assert task.source_language({}) == languages[0]
        assert task.metric_options == {}


def test_registering_does_not_import_torch() -> None:
    code = "import sys, s2s_translation; sys.exit('torch' in sys.modules or 'sentencepiece' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def synthetic(**options: Any) -> Translation:
    return translation(None, pairs=300, **{"vocab_size": 300, **options})


@pytest.mark.parametrize("src", ["en", "de"])
def test_the_synthetic_corpus_keeps_the_contract_of_a_task(tmp_path: Path, src: str) -> None:
    entry = load_plugins().registry.get("task", "translation")
    check_task(entry, synthetic(src_lang=src).config, tmp_path)


def pairs_of(task: Translation, split: str) -> list[Example]:
    return [e for e in task.examples(split, "synthetic") if isinstance(e, Example)]


@pytest.mark.parametrize("src", ["en", "de"])
def test_no_sentence_of_the_synthetic_test_set_is_trained_on(src: str) -> None:
    task = synthetic(src_lang=src)
    splits = {split: pairs_of(task, split) for split in ("train", "valid", "test")}
    assert [len(pairs) for pairs in splits.values()] == [300, 1000, 1000]
    train, valid, test = ({pair.src for pair in pairs} for pairs in splits.values())
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert pairs_of(synthetic(src_lang=src), "valid") == splits["valid"]


def test_the_synthetic_corpus_has_two_directions() -> None:
    forward, backward = pairs_of(synthetic(), "train"), pairs_of(synthetic(tgt_lang="en"), "train")
    assert set(forward) & {Example(pair.tgt, pair.src) for pair in backward}
    assert "English to German" in " ".join(synthetic().describe())
    assert "German to English" in " ".join(synthetic(src_lang="de").describe())
    with pytest.raises(ConfigError, match="the synthetic corpus has en and de"):
        synthetic(tgt_lang="fr").dependencies()


def test_the_synthetic_corpus_is_made_anew_when_it_would_differ() -> None:
    options: list[dict[str, Any]] = [{}, {"synthetic_seed": 2}, {"src_lang": "de"}, {"vocab_size": 299}]
    settings = [json.dumps(synthetic(**o).dependencies().settings, sort_keys=True) for o in options]
    assert len(set(settings)) == len(options)
    assert settings[0] == json.dumps(synthetic(tgt_lang="de").dependencies().settings, sort_keys=True)
    assert not synthetic().dependencies().files


def test_the_synthetic_vocabulary_is_small() -> None:
    assert TranslationConfig().sizes() == {"joint": ("task.vocab_size", 1000)}


def shared(*names: str) -> list[str]:
    paths = [DATA / name for name in names]
    if not all(path.exists() for path in paths):
        pytest.skip(f"{names[0]} is not there")
    return [str(path) for path in paths]


def unbroken(line: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", visible(line)).split())


@pytest.mark.parametrize(
    ("train", "options", "exact"),
    [
        (("multi30k/val.en", "multi30k/val.de"), {"vocab_size": 2000}, 0.99),
        (("multi30k/val.en", "multi30k/val.de"), {"vocab_size": 2000, "lowercase": True}, 0.99),
        (
            ("wmt_newstest/en-de/newstest2014.en", "wmt_newstest/en-de/newstest2014.de"),
            {"joint": False, "src_vocab_size": 4000, "tgt_vocab_size": 5000},
            0.99,
        ),
    ],
    ids=["multi30k", "multi30k lower-cased", "newstest2014"],
)
def test_real_text_survives_up_to_white_space_and_nfkc(
    tmp_path: Path, train: tuple[str, str], options: dict[str, Any], exact: float
) -> None:
    task = translation(shared(*train), **options)
    task.learn(tmp_path)
    ((name, _),) = task.corpora("train")
    examples = [e for e in task.examples("train", name) if isinstance(e, Example)][:1000]
    assert len(examples) == 1000
    outputs = [task.detokenize(p.tgt, e.src) for p, e in zip(task.encode(examples), examples, strict=True)]
    survived = [unbroken(o) == unbroken(e.tgt) for o, e in zip(outputs, examples, strict=True)]
    assert sum(survived) == 1000
    assert sum(o == e.tgt for o, e in zip(outputs, examples, strict=True)) >= exact * 1000


def test_the_vocabulary_of_multi30k_is_the_published_size(tmp_path: Path) -> None:
    task = translation(shared("multi30k/train.en", "multi30k/train.de.gz"), vocab_size=10_000, lowercase=True)
    task.learn(tmp_path)
    assert (task.vocab.src, task.vocab.tgt) == (10_000, 10_000)
    assert sum(1 for _ in task.examples("train", "train")) == 29_000


@pytest.mark.parametrize("line", ["the cat sees", "a  cat ", "", "cat´s cat", "…", "cat\u3000the", "Ω catΩ the"])
def test_every_symbol_of_a_source_has_its_word(files: list[str], tmp_path: Path, line: str) -> None:
    """Normalisation may part words, or join them, before they are cut; the words are those of the line."""
    task = translation(files, vocab_size=40)
    task.learn(tmp_path)
    words = word_numbers(line, task.source_offsets(line))
    ids = task.encode_source([line])[0]
    assert len(words) == len(ids)
    assert set(words) <= set(range(max(len(line.split()), 1)))
    for number, word in enumerate(line.split()):
        own = [i for i, of in zip(ids, words, strict=True) if of == number]
        assert task.src.decode(own).split() == task.src.decode(task.encode_source([word])[0]).split()


@pytest.mark.parametrize("joint", [True, False])
def test_both_sides_are_encoded_anew_by_the_seed_and_keep_their_text(
    files: list[str], tmp_path: Path, joint: bool
) -> None:
    task = translation(files, joint=joint, subword_sampling=0.5, unknown_symbols=0.0)
    task.learn(tmp_path)
    vary = task.variation()
    assert vary
    pairs = task.encode([Example(*pair) for pair in zip(EN, DE, strict=True)])
    drawn = [[vary(pair, seed) for pair in pairs[:4]] for seed in (7 << 40, 8 << 40, 7 << 40)]
    assert drawn[0] == drawn[2]
    assert all(a.src != b.src or a.tgt != b.tgt for a, b in zip(*drawn[:2], strict=True))
    for pair, again in zip(pairs, drawn[0], strict=False):
        assert task.source_text(again.src) == task.source_text(pair.src)
        assert task.detokenize(again.tgt, "") == task.detokenize(pair.tgt, "")
    still = translation(files, joint=joint, unknown_symbols=0.0)
    still.load(tmp_path)
    assert still.variation() is None


def test_the_share_of_left_out_merges_is_checked(files: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"task.subword_sampling=1.5"):
        translation(files, subword_sampling=1.5)


def test_both_directions_of_a_corpus_are_prepared_side_by_side(tmp_path: Path) -> None:
    """One after the other in one place: the second is not taken for the first."""
    for side, word in (("en", "one"), ("de", "eins")):
        (tmp_path / f"train.{side}").write_text("".join(f"{word} {word * n}\n" for n in range(1, 30)))
    config = DataConfig(prepared=str(tmp_path / "prepared"))
    there, back = (
        prepare(translation([str(tmp_path / f"train.{side}") for side in sides], vocab_size=20), config)
        for sides in (("en", "de"), ("de", "en"))
    )
    assert there.directory != back.directory
    for row in range(29):
        (src, tgt), (back_src, back_tgt) = there.train[0][0][row], back.train[0][0][row]
        assert (list(src), list(tgt)) == (list(back_tgt), list(back_src))
