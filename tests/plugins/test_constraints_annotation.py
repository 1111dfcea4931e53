"""Annotated terms: how sources are annotated in training and generation, and what becomes of outputs and links."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import s2s
from harness.shipped_plugins import shipped
from harness.tiny_runs import SMALL, call, train_tiny
from s2s.cli import train
from s2s.compose.conversion import build_choice
from s2s.generation.kept_parts import Part
from s2s.generation.source_text import SourceText
from s2s_constraints.annotation import SYMBOLS, term_notes
from s2s_constraints.glossary import Glossary, Term, read_glossary
from s2s_constraints.lexicon import associated_terms
from s2s_constraints.term_forms import form_in

if TYPE_CHECKING:
    from pathlib import Path

NOISE = "task.noise=[{name: terms, file: terms.tsv, share: 0.5}]"
TERMS = {"cat": "Kater", "old dog": "alter Hund", "eats": "essen", "the": "das"}


def noise(path: Path, terms: dict[str, str]) -> Any:
    """The kind, with these terms."""
    kind = build_choice("terms", "noise", shipped().registry, "task.noise[0]")
    path.write_text("".join(f"{source}\t{target}\n" for source, target in terms.items()))
    kind.load(path)
    return kind


def without(text: str) -> str:
    """An annotated source without its annotations, by another way than they are made."""
    begin, translation, end = SYMBOLS
    for part in text.split(f"{begin} ")[1:]:
        term, _, rest = part.partition(f" {translation} ")
        text = text.replace(f"{begin} {part}", term + rest.partition(f" {end}")[2])
    return text


def test_terms_are_annotated_where_the_target_has_a_form_of_their_translation(tmp_path: Path) -> None:
    kind, src = noise(tmp_path / "terms", TERMS), "The old dog, the CAT and the old  dog"
    tgt = "der alter Hunde und der Katers"
    seen = {kind.altered(src, tgt, Random(seed)) for seed in range(50)}
    assert {tgt for _, tgt in seen} == {tgt}
    assert {without(text) for text, _ in seen} == {src}
    first, cat = "<|term|> old dog <|is|> alter Hund <|/term|>", "<|term|> CAT <|is|> Kater <|/term|>"
    second = first.replace("old dog", "old  dog")
    every = {
        f"The {a}, the {b} and the {c}" for a in ("old dog", first) for b in ("CAT", cat) for c in ("old  dog", second)
    }
    assert {text for text, _ in seen} == every - {src}
    assert kind.altered("the bird", "der Vogel", Random(1)) == ("the bird", "der Vogel")


def test_annotations_depend_on_the_seed_alone(tmp_path: Path) -> None:
    kind = noise(tmp_path / "terms", TERMS)
    once, again = ([kind.altered("a cat eats", "ein kater essen", Random(n)) for n in range(20)] for _ in range(2))
    assert once == again
    assert len(set(once)) > 2


@pytest.mark.parametrize("text", ["Cafe\u0301  noir", "un\u00a0cafe\u0301\t noir!", "café noir", " cafe\u0301 noir"])
def test_places_are_those_of_the_text_as_it_is_written(text: str) -> None:
    glossary = Glossary([Term("Café noir", ("x",))])
    ((begin, end, _, written),) = glossary.occurrences(text)
    assert text[begin:end].split()[1] == "noir"
    assert text[begin].casefold() == "c"
    assert written.casefold() == "café noir"


def test_tokens_of_an_annotation_are_aligned_with_the_term() -> None:
    """What is between symbols stands for the term, also behind a part that was taken out."""
    src = "see Ω the old dog."
    text = SourceText.without(src, [Part(4, 5)])
    read = text.annotated(term_notes(Glossary([Term("old dog", ("alter Hund",))]), text.read, bool))
    assert read.read == "see the <|term|> old dog <|is|> alter Hund <|/term|>."

    def links(word: str) -> set[str]:
        begin = read.read.index(word)
        _, found = read.restored("x", [(begin, begin + len(word), 0, 1)])
        return {src[sb:se] for sb, se, tb, _ in found if src[sb:se] != "Ω"}

    words = {word: links(word) for word in ("see", "the", "old", "dog", ".", "alter", "Hund", "<|is|>", "<|term|>")}
    assert {word: words[word] for word in ("see", "the", "old", "dog", ".")} == {
        word: {word} for word in ("see", "the", "old", "dog", ".")
    }
    assert words["alter"] & {"old", "ol", "l", "o"}
    assert words["Hund"] & {"dog", "og", "g"}
    assert words["<|is|>"] == {"g"}
    assert words["<|term|>"] == {"o"}


def test_words_of_the_training_pairs_have_their_most_associated_translation() -> None:
    """Words of grammar, rare words, and words that always occur together have none."""
    pairs = [
        (f"the {w}{n} is here", f"das {w.upper()}{n} ist hier") for n in range(20) for w in ("ab", "cd") for _ in "123"
    ]
    pairs += [("the xx yy", "das XX YY")] * 3 + [("rare", "SELTEN")]
    terms = {term.source: term.targets for term in associated_terms(pairs)}
    assert terms == {f"{w}{n}": (f"{w.upper()}{n}",) for n in range(20) for w in ("ab", "cd")}
    assert associated_terms([]) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("annotated")
    (folder / "terms.tsv").write_text("cat\tkater\nold\talte\ndog\tder hund\n")
    train_tiny(folder, NOISE, "task.vocab_size=60", "task.unknown_symbols=0")
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> s2s.TrainedModel:
    return s2s.load(str(folder / "runs/x"), search={"beam": 4})


def test_a_run_keeps_its_terms_and_has_tokens_for_the_symbols(folder: Path, model: s2s.TrainedModel) -> None:
    task: Any = model.task
    assert set(SYMBOLS) < set(task.vocabulary("src"))
    kept = read_glossary(str(folder / "runs/x/tokenizer/noise.0"))
    assert kept.terms == read_glossary(str(folder / "terms.tsv")).terms
    assert str(folder / "terms.tsv").endswith(str(task.files()[0]))
    vary, (pair,) = task.variation(), task.encode([s2s.Example("the old cat", "der alter kater")])
    varied = [vary(pair, seed).src for seed in range(0, 2**64, 2**58)]
    texts = {task.src.decode(ids) for ids in varied}
    assert {without(text) for text in texts} == {"the old cat"}
    assert len(texts) == 4


def read_of(model: s2s.TrainedModel, text: Any, **options: Any) -> list[str]:
    """What the model reads of the segments of an input, by its ids."""
    task: Any = model.task
    (segments,), error = model.generator(**options).read([s2s.generation.inputs.as_input(text)])
    assert error is None
    assert all(task.encode_source([segment.text]) == [segment.ids] for segment in segments)
    return [task.source_text(segment.ids) for segment in segments]


def test_a_run_that_was_trained_so_reads_annotations(folder: Path, model: s2s.TrainedModel) -> None:
    terms = str(folder / "terms.tsv")
    annotated = "the <|term|> cat <|is|> kater <|/term|> sees a <|term|> dog <|is|> der hund <|/term|>"
    asked = "the cat sees a dog"
    for by in ("auto", "annotation"):
        assert read_of(model, asked, terms=terms, terms_by=by) == [annotated]
    assert read_of(model, asked, terms=terms, terms_by="constraint") == [asked]
    assert read_of(model, asked) == [asked]
    assert read_of(model, {"src": asked, "terms": {"dog": ["文書", "hund"]}}) == [
        "the cat sees a <|term|> dog <|is|> hund <|/term|>"
    ]
    assert read_of(model, {"src": asked, "terms": {"dog": "文書"}}) == [asked]


def test_each_part_of_a_source_that_is_too_long_has_its_own_terms(folder: Path, model: s2s.TrainedModel) -> None:
    terms, sentence = str(folder / "terms.tsv"), "the cat sees the old dog\n"
    read = read_of(model, sentence * 3, terms=terms, split=False, max_source=60)
    assert [without(text) for text in read] == [sentence.strip()] * 3
    assert all(text.count("<|is|>") == 3 for text in read)


def test_what_is_read_beside_a_text_does_not_make_it_long(folder: Path, model: s2s.TrainedModel, caplog: Any) -> None:
    """Neither longer than training text, nor so long that its output is suspiciously short."""
    options: Any = {"terms": str(folder / "terms.tsv"), "search": {"max_len_a": 0.0, "max_len_b": 2}}
    sources = ["the cat sees the old dog", "a dog"]
    (long, short), _ = model.generator(**options).read(list(map(s2s.generation.Input, sources)))
    assert len(long[0].ids) > 21 > len(model.task.encode_source(sources[:1])[0]), "21: the longest of the training text"
    assert len(short[0].ids) > 8 > len(model.task.encode_source(sources[1:])[0])
    generator = model.generator(**options)
    assert len(list(generator(sources[1:]))) == 1
    assert (generator.counts.longer, generator.counts.short, caplog.text) == (0, 0, "")
    model.generator(**options).read([s2s.generation.Input(sources[0])])
    assert caplog.text == ""


def test_annotations_are_in_lower_case_if_the_task_is(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("Cat\tKATER\n")
    train_tiny(tmp_path, NOISE, "task.vocab_size=60", "task.lowercase=true", "task.unknown_symbols=0")
    model = s2s.load(str(tmp_path / "runs/x"))
    task: Any = model.task
    read = "the <|term|> cat <|is|> kater <|/term|>"
    vary, (pair,) = task.variation(), task.encode([s2s.Example("the Cat", "der Kater")])
    assert task.source_text(vary(pair, 1).src) == read
    (segments,), _ = model.generator(terms=str(tmp_path / "terms.tsv")).read([s2s.generation.Input("THE Cat")])
    assert task.source_text(segments[0].ids) == read


def test_outputs_have_the_terms_whatever_the_model_has_learnt(model: s2s.TrainedModel) -> None:
    """A model of four updates: the constraint is what remains; markup and placeholders come out once."""
    asked = {"src": "the cat {0} sees the old dog", "terms": {"cat": "hund", "dog": "kater"}}
    output = model.translate(asked)
    assert all(form_in(output, target) for target in ("hund", "kater"))
    assert output.count("{0}") == 1
    assert not any(symbol in output for symbol in SYMBOLS)


@pytest.mark.parametrize("name", ["{cat}", "https://example.org/cat", "%(cat)s", "cat@old.org"])
@pytest.mark.parametrize("by", ["annotation", "constraint"])
def test_terms_in_what_is_copied_are_none(name: str, by: str, model: s2s.TrainedModel) -> None:
    """They are neither annotated nor required."""
    asked = {"src": f"the {name} sees the old dog", "terms": {"cat": "hund", "old": "der"}}
    assert not any("hund" in read for read in read_of(model, asked, terms_by=by))
    (plain,) = model.generate([{**asked, "terms": {"old": "der"}}], terms_by=by)
    (output,) = model.generate([asked], terms_by=by)
    assert output == plain
    assert output.hyp.count(name) == 1


def test_links_are_between_the_input_and_its_output(model: s2s.TrainedModel) -> None:
    """Ω is copied, and so asks for links."""
    (output,) = model.generate([{"src": "the cat Ω sees a dog", "terms": {"cat": "hund"}}])
    links, n = output.best.links, len(output.src)
    assert output.src == "the cat Ω sees a dog"
    assert any(output.src[sb:se] == output.hyp[tb:te] == "Ω" for sb, se, tb, te in links)
    assert len(links) > 1
    assert all(0 <= sb < se <= n and 0 <= tb < te <= len(output.hyp) for sb, se, tb, te in links)


def test_a_run_that_was_not_trained_so_is_refused_annotations(tmp_path: Path, capsys: Any) -> None:
    train_tiny(tmp_path)
    (tmp_path / "terms.tsv").write_text("cat\thund\n")
    run, given = f"run={tmp_path / 'runs/x'}", f"input={tmp_path / 'a.en'}"
    code, out, err = call(
        "s2s-generate", [run, given, f"terms={tmp_path / 'terms.tsv'}", "terms_by=annotation"], capsys
    )
    assert (code, out) == (2, "")
    assert "terms_by=annotation: the model was trained without task.noise=[terms]" in err


@pytest.mark.parametrize(
    ("terms", "message"),
    [("dog Hund\n", "terms.tsv:1: expected a source term, a tab"), ("moon\tMond\n", "no term of terms.tsv beside its")],
)
def test_training_refuses_a_glossary_that_is_of_no_use(
    terms: str, message: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text((folder / name).read_text())
    (tmp_path / "terms.tsv").write_text(terms)
    monkeypatch.chdir(tmp_path)
    code, _, err = call("s2s-train", [*SMALL, NOISE, "train.steps=2", "run=y", "--quiet"], capsys)
    assert code == 2
    assert message in err


def test_training_refuses_to_learn_terms_from_too_few_words(folder: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)
    code, _, err = call("s2s-train", [*SMALL, "task.noise=[terms]", "train.steps=2", "run=y", "--quiet"], capsys)
    assert code == 2
    assert "task.noise: the training pairs have too few words to learn terms from" in err


def noun(draw: Random, consonants: str, last: str) -> str:
    """A made-up word."""
    return "".join(draw.choice(consonants) + draw.choice("aeiou") for _ in range(draw.choice((3, 4)))) + last


def sentence(draw: Random, terms: list[tuple[str, str]]) -> tuple[str, str]:
    """A pair whose second noun has an ending in the target that terms do not have."""
    (a, b), (c, d) = draw.sample(terms, 2)
    verb, of_verb = draw.choice([("sees", "sieht"), ("eats", "isst"), ("finds", "findet"), ("likes", "mag")])
    old, alte = draw.choice([("", ""), ("old ", "alte ")])
    return f"the {old}{a} {verb} the {c}", f"der {alte}{b} {of_verb} den {d}en"


@pytest.mark.slow
def test_a_model_inflects_terms_that_it_has_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a constraint has the terms as they are, and too late to translate the rest."""
    draw = Random(1)
    terms = list({noun(draw, "bdfgklm", "p"): noun(draw, "nprstvz", "k").capitalize() for _ in range(2200)}.items())
    seen, unseen = terms[100:], terms[:100]
    pairs = [sentence(draw, seen) for _ in range(6000)]
    for name, lines in (("a.en", [src for src, _ in pairs]), ("a.de", [tgt for _, tgt in pairs])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    for name, some in (("seen.tsv", seen), ("unseen.tsv", unseen)):
        (tmp_path / name).write_text("".join(f"{source}\t{target}\n" for source, target in some))
    monkeypatch.chdir(tmp_path)
    size = ("arch.d_model=64", "arch.d_ff=128", "arch.n_heads=4", "arch.n_encoder_layers=2", "arch.n_decoder_layers=2")
    noise = "task.noise=[{name: terms, file: seen.tsv, share: 0.9}]"
    learning = ("task.vocab_size=150", "task.unknown_symbols=0", "arch.dropout=0", "schedule.warmup=300")
    amount = ("train.steps=1200", "train.tokens=1500", "checkpoint.every=1200")
    arguments = [*SMALL, *size, noise, *learning, *amount, "run=x", "--quiet"]
    assert train.main(arguments) == 0
    model = s2s.load("runs/x", search={"beam": 4}, terms="unseen.tsv")
    test = [sentence(draw, unseen) for _ in range(16)]
    exact = {
        by: sum(
            out == tgt
            for out, (_, tgt) in zip(model.translate([src for src, _ in test], terms_by=by), test, strict=True)
        )
        for by in ("annotation", "constraint")
    }
    assert exact["annotation"] >= 12, exact
    assert exact["constraint"] <= 4, exact
