"""LibreTranslate's API, against the responses in its own documentation."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.small_server import Served, listening, served, tiny_server, train_run
from s2s_serve.language_names import language_name
from s2s_serve.languages import Detector, served_code

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY = {"q": "the old dog", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        found = train_run(tmp_path_factory.mktemp("served"))
        patch.chdir(Path(found).parents[1])  # where its training text is
        yield found


@pytest.fixture(scope="module")
def server(run: str) -> Iterator[Served]:
    with served(tiny_server(run)) as started:
        yield started


def hyp(server: Served, text: str) -> str:
    """By our own API."""
    found: str = server.post("/v1/generate", {"text": text}).json()["results"][0]["hyp"]
    return found


def test_a_text_is_a_text_and_a_list_a_list(server: Served) -> None:
    assert server.post("/translate", QUERY).json() == {"translatedText": hyp(server, "the old dog")}
    found = server.post("/translate", QUERY | {"q": ["a cat", "the old dog"]}).json()
    assert found == {"translatedText": [hyp(server, "a cat"), hyp(server, "the old dog")]}


def test_a_form_is_as_good_as_json(server: Served) -> None:
    form = server.ask(lambda client: client.post("/translate", data=QUERY))
    assert form.json() == server.post("/translate", QUERY).json()


@pytest.mark.parametrize(
    ("source", "target"), [("EN", "DE"), ("en-US", "de-AT"), ("en_gb", "de-Latn-CH"), ("AUTO", "De")]
)
def test_a_language_may_be_in_capitals_or_have_a_region(server: Served, source: str, target: str) -> None:
    found = server.post("/translate", QUERY | {"source": source, "target": target}).json()
    assert found["translatedText"] == hyp(server, "the old dog")


@pytest.mark.parametrize(
    ("code", "served", "expected"),
    [
        ("PT_br", ["pt", "pt-BR"], "pt-BR"),
        ("pt-PT", ["pt", "pt-BR"], "pt"),
        ("zh-hant-tw", ["zh-Hant", "zh-Hans"], "zh-Hant"),
        ("eng", ["en"], "eng"),
        ("x-US", ["en"], "x-US"),
        ("", ["en"], ""),
    ],
)
def test_a_code_means_the_nearest_that_is_served(code: str, served: list[str], expected: str) -> None:
    assert served_code(code, served) == expected


@pytest.mark.slow
def test_its_own_client_in_python_works(run: str, server: Served) -> None:
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    pytest.importorskip("libretranslatepy", reason="LibreTranslate's client is not installed")
    from libretranslatepy import LibreTranslateAPI

    with listening(tiny_server(run)) as address:
        client = LibreTranslateAPI(address)
        assert client.translate("the old dog", "en", "de") == hyp(server, "the old dog")
        assert client.detect("the old dog")[0]["language"] == "en"
        assert [language["code"] for language in client.languages()] == ["en"]


def test_its_health_is_ours(server: Served) -> None:
    answer = server.ask(lambda client: client.get("/health"))
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_alternatives_and_the_detected_language_are_there_if_asked_for(server: Served) -> None:
    found = server.post("/translate", QUERY | {"source": "auto", "alternatives": 2}).json()
    assert found["detectedLanguage"]["language"] == "en"
    assert 50 < found["detectedLanguage"]["confidence"] <= 100
    best, *others = server.post("/v1/generate", {"text": "the old dog", "nbest": 3}).json()["results"][0]["nbest"]
    assert (found["translatedText"], found["alternatives"]) == (best["hyp"], [each["hyp"] for each in others])


def test_there_are_as_many_alternatives_as_the_beam_finds(run: str) -> None:
    with served(tiny_server(run, generate={"search": {"beam": 2}})) as narrow:
        assert len(narrow.post("/translate", QUERY | {"alternatives": 1}).json()["alternatives"]) == 1
        answer = narrow.post("/translate", QUERY | {"alternatives": 2})
        assert (answer.status_code, answer.json()["error"]) == (
            400,
            "Invalid request: alternatives must be a number from 0 to 1",
        )
        same = narrow.post("/translate", QUERY | {"source": "de", "alternatives": 1}).json()
        assert same == {"translatedText": QUERY["q"], "alternatives": []}


def test_each_text_of_a_list_has_its_own_language(server: Served) -> None:
    found = server.post(
        "/translate", QUERY | {"q": ["the old dog", "der alte Hund schläft nicht"], "source": "auto"}
    ).json()
    assert [each["language"] for each in found["detectedLanguage"]] == ["en", "de"]
    assert found["translatedText"][1] == "der alte Hund schläft nicht", "it is German already"


def test_a_sentence_with_tags_is_translated_whole(server: Served) -> None:
    page = '<p class="x">the old <b>dog</b><br/>sees a cat</p><script>the cat</script><!-- a cat --><p>5 &lt;</p>'
    found = server.post("/translate", QUERY | {"q": page, "format": "html", "alternatives": 1}).json()
    plain = server.post("/translate", QUERY | {"q": "the old dog sees a cat", "alternatives": 1}).json()
    translations = [found["translatedText"], *found["alternatives"]]
    for translation, text in zip(translations, [plain["translatedText"], *plain["alternatives"]], strict=True):
        assert translation.startswith('<p class="x">')
        assert translation.endswith("</p><script>the cat</script><!-- a cat --><p>5 &lt;</p>")
        paragraph = translation.partition("</p>")[0]
        assert re.sub("<[^>]*>", "", paragraph) == escape(text, quote=False)
        assert [paragraph.count(tag) for tag in ("<b>", "</b>", "<br/>")] == [1, 1, 1]


def test_a_page_in_a_request_is_text_whatever_it_declares(server: Served) -> None:
    page = "<meta charset=iso-8859-1><p translate=no>naïve – 日本</p>"
    assert server.post("/translate", QUERY | {"q": page, "format": "html"}).json() == {"translatedText": page}


def test_the_language_of_a_page_is_that_of_its_text(server: Served) -> None:
    markup = '<p title="der alter hund isst die katze"><!-- der hund isst --><script>die katze isst</script>'
    query = QUERY | {"source": "auto", "format": "html"}
    found = server.post("/translate", query | {"q": f"{markup}the old <b>dog</b></p>"}).json()
    plain = server.post("/translate", query | {"q": "the old dog"}).json()
    assert found["detectedLanguage"] == plain["detectedLanguage"]


def test_a_line_break_in_html_does_not_divide_a_sentence(server: Served) -> None:
    found = server.post("/translate", QUERY | {"q": "<p>the old\n  dog</p>", "format": "html"}).json()
    assert found["translatedText"] == f"<p>{hyp(server, 'the old dog')}</p>"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *(("de", "German"), ("sw", "Swahili"), ("pt_BR", "Portuguese (BR)"), ("zh-Hans", "Chinese (Hans)")),
        *(("EN", "English"), ("tlh", "tlh"), ("", "")),
    ],
)
def test_a_language_has_a_name_and_an_unknown_one_its_code(code: str, name: str) -> None:
    assert language_name(code) == name


def test_languages_are_those_of_the_runs(server: Served) -> None:
    found = server.ask(lambda client: client.get("/languages")).json()
    assert found == [{"code": "en", "name": "English", "targets": ["de"]}]


BAD: dict[str, dict[str, Any]] = {
    "no q": {"source": "en", "target": "de"},
    "q of numbers": QUERY | {"q": [1]},
    "no target": {"q": "a", "source": "en"},
    "unknown source": QUERY | {"source": "xx"},
    "unknown target": QUERY | {"target": "xx"},
    "unknown format": QUERY | {"format": "pdf"},
    "too many alternatives": QUERY | {"alternatives": 99},
    "nothing to detect": QUERY | {"q": "…", "source": "auto"},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_400_with_the_reason_as_text(server: Served, case: str) -> None:
    answer = server.post("/translate", BAD[case])
    assert answer.status_code == 400
    assert isinstance(answer.json()["error"], str)


@pytest.fixture(scope="module")
def detect() -> Detector:
    return Detector(["de", "en", "ru", "ja", "tlh"])


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("das ist die Katze", "de"),
        ("This is the cat.", "en"),
        ("Это кошка, и она спит. OK?", "ru"),
        ("これは猫です", "ja"),
        ("東京都", "ja"),
        ("木", "ja"),
        ("The", "en"),
        ("yes", "en"),
        ("ja", "de"),
        ("der Hund", "de"),
    ],
)
def test_a_served_language_is_detected(detect: Detector, text: str, language: str) -> None:
    languages = detect(text)
    assert languages[0].language == language
    assert sum(each.confidence for each in languages) == pytest.approx(100, abs=0.2)
    assert "tlh" not in {each.language for each in languages}, "the classifier does not have it"


@pytest.mark.parametrize("text", ["", "123 …", "😀", "a", "A!", "η γάτα κοιμάται", "القطة نائمة"])
def test_without_evidence_and_in_the_script_of_no_served_language_there_is_none(detect: Detector, text: str) -> None:
    assert detect(text) == []


def test_confidence_is_low_where_there_is_little_evidence(detect: Detector) -> None:
    assert detect("xq")[0].confidence < 60
