"""Terms in outputs: what counts as one; outputs have one wherever their sources do, and are else as without."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import s2s
from harness.small_server import served, tiny_server
from harness.tiny_runs import call, train_tiny
from s2s.generation import Input
from s2s.registry import Choice
from s2s_constraints.glossary import read_glossary
from s2s_constraints.input_constraints import LexicalConstraints
from s2s_constraints.symbols import joins
from s2s_constraints.term_forms import form_in, required_forms

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.generation import Output

TERMS = {"cat": ["hund", "ein"], "old dog": ["alter kater"], "eats": ["isst"]}
SOURCES = [
    "the cat sees the old dog",
    "a cat",
    "the dog",
    "old",
    "the category",
    "the cat eats the old dog",
    "",
    "eats",
]


@pytest.mark.parametrize(
    ("output", "target", "form"),
    [
        ("Die Datei wird geöffnet.", "Datei", "Datei"),
        ("Alle Dateien", "Datei", "Dateien"),
        ("die Formatvorlage", "Formatvorlagen", "Formatvorlage"),
        ("Seit gestern", "Seite", None),
        ("die Eigenschaft", "Eigenschaften", "Eigenschaft"),
        ("Sie öffnen es", "Öffnen", "öffnen"),
        ("ein alter Kater", "alter Kater", "alter Kater"),
        ("der alten Kater", "alter Kater", None),
        ("Suchen und Ersetzen", "Suchen & Ersetzen", None),
        ("Suchen & Ersetzen", "Suchen & Ersetzen", "Suchen & Ersetzen"),
        ("gehört zum Menüband", "Menü", "Menüband"),
        ("das Hauptmenü", "Menü", None),
        ("東京都に行く", "東京", "東京"),
        ("a => b", "=>", "=>"),
        ("", "Datei", None),
    ],
)
def test_a_form_of_a_term_has_words_that_begin_with_its_stems(output: str, target: str, form: str | None) -> None:
    assert form_in(output, target) == form


def test_a_second_search_requires_the_term_as_it_is_or_with_a_capital() -> None:
    assert required_forms("öffnen", any_case=False) == ["öffnen", "Öffnen"]
    assert required_forms("Datei", any_case=False) == ["Datei"]
    assert required_forms("Datei", any_case=True) == ["Datei", "datei"]
    assert required_forms("東京", any_case=True) == ["東京"]


def stands(text: str, word: str) -> bool:
    """As whole words, by looking at every place."""
    places = [i for i in range(len(text)) if text.startswith(word, i)]
    return any(
        not joins(text[i - 1 : i] if i else "", word[0]) and not joins(word[-1], text[i + len(word) :][:1])
        for i in places
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terms")
    train_tiny(folder)
    (folder / "terms.tsv").write_text("".join(f"{source}\t{'|'.join(TERMS[source])}\tx\n" for source in TERMS))
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> s2s.TrainedModel:
    return s2s.load(str(folder / "runs/x"), search={"beam": 4})


def check(source: str, free: Output, output: Output) -> int:
    """That the output has a form of each term; the number of those that the one without terms lacks."""
    terms = [term for term in TERMS if stands(source.lower(), term)]
    lacking = [t for t in terms if not any(form_in(free.hyp, target) for target in TERMS[t])]
    if not lacking:
        assert output == free
    for term in lacking:
        forms = [form for target in TERMS[term] for form in required_forms(target, any_case=False)]
        assert any(stands(output.hyp, form) for form in forms), (source, output.hyp)
    assert all(any(form_in(output.hyp, target) for target in TERMS[term]) for term in terms)
    return len(lacking)


def test_outputs_have_the_terms_of_their_sources_and_others_stay_as_they_are(
    folder: Path, model: s2s.TrainedModel
) -> None:
    path = str(folder / "terms.tsv")
    free, outputs = list(model.generate(SOURCES)), list(model.generate(SOURCES, terms=path))
    assert [output.src for output in outputs] == SOURCES
    lacking = [check(*each) for each in zip(SOURCES, free, outputs, strict=True)]
    assert sum(lacking) > 4
    counts = model.generator(terms=path).counts
    assert (counts.inputs, counts.revised, counts.lacking) == (len(SOURCES), sum(map(bool, lacking)), 0)
    texts = [output.hyp for output in outputs]
    assert s2s.load(str(folder / "runs/x"), search={"beam": 4}, terms=path).translate(SOURCES) == texts
    assert model.translate([{"src": source, "terms": TERMS} for source in SOURCES]) == texts
    assert model.translate(SOURCES, input_fields={"terms": TERMS}) == texts


def test_terms_of_an_input_replace_those_of_the_file(folder: Path, model: s2s.TrainedModel) -> None:
    outputs = model.translate([{"src": "a cat", "terms": {"cat": "sieht"}}, "a cat"], terms=str(folder / "terms.tsv"))
    assert form_in(outputs[0], "sieht")
    assert any(form_in(outputs[1], target) for target in TERMS["cat"])


def test_terms_go_with_prefix_and_phrases(folder: Path, model: s2s.TrainedModel) -> None:
    asked = {"src": "the cat", "prefix": "alt", "phrases": ["isst"], "terms": {"cat": "kater"}}
    output = model.translate(asked, search={"beam": 8})
    assert output.startswith("alt")
    assert stands(output, "isst")
    assert form_in(output, "kater")


def test_an_output_stays_where_the_terms_have_no_room(folder: Path, model: s2s.TrainedModel) -> None:
    """And is counted, as are those that were searched again."""
    short: Any = {"search": {"max_len_a": 0.0, "max_len_b": 1, "min_len": 1}}
    terms = {"cat": "der alte kater sieht"}
    (free,) = model.generate(["a cat"], **short)
    assert list(model.generate([{"src": "a cat", "terms": terms}], **short)) == [free]
    counts = model.generator(**short).counts
    assert (counts.revised, counts.lacking, counts.unanswered) == (1, 1, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cat": 3}, r"'cat' has a text as its translation, or a list of texts, not 3"),
        ({"cat": [3]}, r"'cat' has a text as its translation, or a list of texts, not \[3\]"),
        ({"cat": []}, "'cat' has an empty translation"),
        ({"cat": ""}, "'cat' has an empty translation"),
        ({"cat": ["a", " "]}, "'cat' has an empty translation"),
        ({"": "x"}, "'' is no term of a source"),
    ],
    ids=str,
)
def test_terms_of_an_input_in_another_form_are_refused(wrong: Any, message: str, model: s2s.TrainedModel) -> None:
    with pytest.raises(s2s.DataError, match=f"^terms: {message}"):
        model.translate({"src": "a cat", "terms": wrong})


def test_a_translation_that_no_tokens_spell_is_not_required(
    model: s2s.TrainedModel, caplog: pytest.LogCaptureFixture
) -> None:
    free = model.translate("a cat")
    assert model.translate({"src": "a cat", "terms": {"cat": "漢字"}}) == free
    assert "'漢字' has symbols that are not in the vocabulary" in caplog.text
    assert len(caplog.records) == 1
    assert form_in(model.translate({"src": "a cat", "terms": {"cat": ["漢字", "hund"]}}), "hund")
    assert len(caplog.records) == 1, "for each translation once, and not for one with a capital"


def test_a_form_with_a_symbol_that_was_put_back_is_not_required(model: s2s.TrainedModel) -> None:
    """The second search, for the other term, requires any form that the vocabulary spells."""
    generator = model.generator()
    provider = LexicalConstraints(Choice())
    asked = Input("a cat old", fields={"terms": {"cat": "hund", "old": "kater"}})
    revision = provider.revision(generator.config, model.task, asked)  # type: ignore[arg-type]
    assert revision is not None
    assert form_in("hundΩ x", "hund") == "hundΩ"
    again, other = revision("hundΩ x"), revision("x")
    assert again == other
    assert again is not None


def test_a_glossary_may_be_in_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert read_glossary("~/terms.tsv").terms.keys() == read_glossary(str(folder / "terms.tsv")).terms.keys()


def test_the_command_reads_a_file_and_terms_of_single_lines(folder: Path, capsys: Any) -> None:
    lines = [json.dumps({"src": "the cat"}), json.dumps({"src": "the cat", "terms": {"cat": "alter"}})]
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    run, terms = f"run={folder / 'runs/x'}", f"terms={folder / 'terms.tsv'}"
    code, out, err = call("s2s-generate", [run, f"input={folder / 'in.jsonl'}", "format=jsonl", terms], capsys)
    assert code == 0
    first, second = (json.loads(line)["hyp"] for line in out.splitlines())
    assert any(form_in(first, target) for target in TERMS["cat"])
    assert form_in(second, "alter")
    assert "searched again" in err


def test_the_command_refuses_what_is_no_glossary(folder: Path, capsys: Any) -> None:
    bad = folder / "bad.tsv"
    bad.write_text("dog Hund\n")
    run, given = f"run={folder / 'runs/x'}", f"input={folder / 'a.en'}"
    for path, error in ((bad, f"{bad}:1: expected a source term, a tab"), (folder / "none.tsv", "none.tsv")):
        code, out, err = call("s2s-generate", [run, given, f"terms={path}"], capsys)
        assert (code, out) == (2, "")
        assert error in err
        assert len(err.strip().splitlines()) == 1


def test_the_server_has_terms_of_its_own_and_of_requests(folder: Path, model: s2s.TrainedModel) -> None:
    run, path = str(folder / "runs/x"), str(folder / "terms.tsv")
    expected = model.translate(SOURCES[0], terms=path)
    body, search = {"text": SOURCES[0], "split": False}, {"search": {"beam": 4}}
    with served(tiny_server(run, generate=search)) as server:
        (result,) = server.post("/v1/generate", body | {"terms": TERMS}).json()["results"]
        refused = server.post("/v1/generate", body | {"terms": {"cat": []}})
    assert result["hyp"] == expected
    assert (refused.status_code, "terms: 'cat'" in refused.text) == (422, True)
    with served(tiny_server(run, generate={"terms": path, **search})) as server:
        (result,) = server.post("/v1/generate", body).json()["results"]
    assert result["hyp"] == expected
