"""What the page asks of the server: while typing, in other directions, with files; and what it gives to programs."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from harness.browser import NEEDS_CHROMIUM, launched, opened
from harness.small_server import listening, tiny_server, train_run
from s2s_serve.language_names import NAMES, language_name

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]

HTML = b"<p>the <b>old dog</b> sees the cat</p>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def address(run: str) -> Iterator[str]:
    """Two directions of one language pair, and a third language, all by one run that has learnt only the first."""
    server = tiny_server(run, run=dict.fromkeys(("en-de", "de-en", "en-pt_BR"), run), max_chars=5000)
    for name, engine in server.engines.items():
        engine.task.languages = tuple(name.split("-"))
    with listening(server) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    with opened(browser, address) as found:
        found.locator("#go", has_text="Translate").wait_for()
        yield found


def bodies(page: Any) -> list[dict[str, Any]]:
    """Those of all requests for outputs from now on."""
    sent: list[dict[str, Any]] = []
    page.on("request", lambda request: request.url.endswith("/generate") and sent.append(request.post_data_json))
    return sent


def done(page: Any) -> str:
    """The text of the output, when it is complete."""
    page.get_by_text(" in 0.").or_(page.get_by_text(" in 1.")).wait_for()
    return str(page.get_by_role("log", name="Output").inner_text())


def test_a_text_is_translated_while_it_is_typed_but_not_for_every_letter(page: Any) -> None:
    sent = bodies(page)
    page.get_by_label("Input").press_sequentially("the old dog", delay=20)
    typed = done(page)
    assert [body["text"] for body in sent] == ["the old dog"]
    page.locator("#go", has_text="Translate").click()
    page.wait_for_timeout(100)
    assert done(page) == typed, "as at a click"
    page.get_by_label("Input").fill("")
    assert page.get_by_role("log", name="Output").inner_text() == ""


def test_a_late_answer_never_replaces_that_to_a_newer_text(page: Any) -> None:
    sent, failed, held = bodies(page), [], []
    page.on("requestfailed", lambda request: failed.append(request.post_data_json["text"]))
    page.route("**/v1/generate", lambda route: held.append(route) if not held else route.continue_())
    page.get_by_label("Input").fill("the cat eats the old dog")
    page.wait_for_timeout(600)
    page.get_by_label("Input").fill("a dog")
    expected = done(page)
    assert failed == ["the cat eats the old dog"], "its request is cancelled"
    assert [body["text"] for body in sent][1:] == ["a dog"]
    held[0].abort()
    page.wait_for_timeout(200)
    assert page.get_by_role("log", name="Output").inner_text() == expected


def test_a_long_text_is_translated_at_a_click_alone(page: Any) -> None:
    sent = bodies(page)
    page.get_by_label("Input").fill("the old dog sees the cat.\n" * 60)
    page.wait_for_timeout(700)
    assert sent == []
    assert "press Translate" in page.locator("#hint").inner_text()
    page.get_by_label("Input").fill("the old dog sees the cat.\n" * 200)
    page.locator("#go", has_text="Translate").click()
    page.get_by_role("status").get_by_text("5,200 characters are more than the 5,000 allowed").wait_for()
    assert "more than 5,000" in page.locator("#hint").inner_text()


def test_languages_have_names_and_a_direction_finds_its_run(page: Any) -> None:
    assert page.title() == "English to German · s2s"
    assert page.get_by_label("From").locator("option").all_inner_texts() == ["English", "German – Deutsch"]
    brazilian = "Brazilian Portuguese – Português (Brasil)"
    assert page.get_by_label("To").locator("option").all_inner_texts() == ["German – Deutsch", brazilian]
    page.get_by_label("To").select_option(label=brazilian)
    assert page.get_by_label("Model").input_value() == "en-pt_BR"
    assert page.get_by_role("button", name="Swap").is_disabled()
    page.get_by_label("From").select_option("de")
    assert (page.get_by_label("Model").input_value(), page.title()) == ("de-en", "German to English · s2s")


def test_a_run_of_several_directions_is_asked_with_their_fields(page: Any) -> None:
    """With a description of such a run in place of the server's."""
    ways = [("en", "de"), ("en", "fr"), ("de", "en")]
    directions = [{"source": src, "target": tgt, "input_fields": {"language": tgt}} for src, tgt in ways]
    run = {"name": "many", "views": [], "align": False, "nbest": 1, "ready": True, "directions": directions}
    served = {"runs": [run], "documents": {"text": [".txt"]}, "max_chars": 1000, "max_document": 1000}
    page.route("**/v1/runs", lambda route: route.fulfill(json=served))
    page.route("**/v1/documents?*", lambda route: route.fulfill(body="un chien"))
    page.reload()
    page.get_by_label("To").select_option(label="French – Français")
    assert page.get_by_role("button", name="Swap").is_disabled()
    page.get_by_label("Input").fill("a dog")
    with page.expect_request("**/v1/documents?*") as asked:
        page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a dog"})
    assert parse_qs(urlsplit(asked.value.url).query)["input_fields"] == ['{"language":"fr"}']
    page.get_by_role("link", name="Save a.fr.txt").wait_for()
    page.get_by_label("To").select_option("de")
    with page.expect_request(lambda request: "/generate" in request.url and '"language":"en"' in request.post_data):
        page.get_by_role("button", name="Swap").click()
    assert page.title() == "German to English · s2s"
    assert not page.get_by_label("Model").is_visible()


def test_names_of_languages_are_those_of_the_browser(page: Any) -> None:
    others = {"bn", "tl", "tw", "bcl", "gom"}  # LibreTranslate's, or more precise ones
    ask = "code => new Intl.DisplayNames(['en'], {type: 'language', fallback: 'none'}).of(code)"
    known = {code: name for code in NAMES if (name := page.evaluate(ask, code)) and code not in others}
    assert len(known) > 100
    assert {code: language_name(code) for code in known} == known


def test_swap_takes_the_output_as_the_next_input(page: Any) -> None:
    page.get_by_label("Input").fill("the old dog")
    output = done(page)
    sent = bodies(page)
    page.get_by_role("button", name="Swap").click()
    done(page)
    assert page.get_by_label("Input").input_value() == output
    assert [(body["run"], body["text"]) for body in sent] == [("de-en", output)]
    page.get_by_role("button", name="Swap").click()
    assert page.get_by_label("Model").input_value() == "en-de"


def test_a_dropped_file_is_translated_as_a_document_to_be_saved(page: Any, address: str) -> None:
    page.evaluate(
        """html => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([html], "a page.html", {type: "text/html"}));
        transfer.items.add(new File(["x"], "x.pdf"));
        document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
    }""",
        HTML.decode(),
    )
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save a page.de.html").click()
    request = urllib.request.Request(f"{address}v1/documents?format=html&run=en-de", HTML)
    with urllib.request.urlopen(request) as answer:
        assert saved.value.path().read_bytes() == answer.read()
    assert saved.value.suggested_filename == "a page.de.html"
    page.get_by_text("The server reads no such files, but .docx").wait_for()
    page.get_by_role("button", name="Remove x.pdf").click()
    assert page.get_by_role("list", name="Files").locator("li").count() == 1


def test_chosen_files_are_translated_too_and_a_bad_one_is_named(page: Any) -> None:
    files = [("a.docx", b"no zip"), ("b.txt", b"the old dog\n")]
    page.locator("#file").set_input_files([{"name": name, "mimeType": "", "buffer": data} for name, data in files])
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save b.de.txt").click()
    assert saved.value.path().read_bytes().endswith(b"\n")
    assert "No docx document" in page.get_by_role("list", name="Files").locator("li").first.inner_text()


@pytest.mark.parametrize("language", ["curl", "Python"])
def test_the_examples_for_programs_run_and_give_what_the_page_shows(page: Any, language: str) -> None:
    page.get_by_label("Input").fill('it\'s $HOME, `pwd` \\ "the" 😀\n!! the old dog')
    done(page)
    page.get_by_text("Do this from a program").click()
    code = page.get_by_role("group", name=language).locator("pre").inner_text()
    command = ["bash", "-c", f"{code} -sS"] if language == "curl" else [sys.executable, "-c", code]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    page.evaluate(
        "() => { navigator.clipboard.writeText = text => { window.pasted = text; return Promise.resolve(); } }"
    )
    page.locator("#copy").click()
    hyp = page.evaluate("window.pasted")
    if language == "curl":
        printed = json.loads(printed)["results"][0]["hyp"] + "\n"
    assert printed == f"{hyp}\n"


def test_a_busy_server_is_asked_again_when_it_says(page: Any) -> None:
    tries = []

    def refuse_once(route: Any) -> None:
        tries.append(route)
        busy = {"status": 429, "headers": {"retry-after": "1"}, "json": {"error": {"message": "too many requests"}}}
        route.fulfill(**busy) if len(tries) == 1 else route.continue_()

    page.route("**/v1/generate", refuse_once)
    page.get_by_label("Input").fill("the old dog")
    page.get_by_role("status").get_by_text("Too many requests. Trying again in 1 s.").wait_for()
    assert done(page)
    assert len(tries) == 2


def test_a_server_that_is_gone_is_named_and_nothing_old_is_shown(page: Any) -> None:
    page.get_by_label("Input").fill("the old dog")
    done(page)
    page.route("**/v1/generate", lambda route: route.abort("connectionrefused"))
    page.get_by_label("Input").fill("the old cat")
    page.get_by_role("status").get_by_text("The server cannot be reached.").wait_for()
    assert page.get_by_role("log", name="Output").inner_text() == ""


def test_an_answer_without_an_end_is_an_error(page: Any) -> None:
    page.route("**/v1/generate", lambda route: route.fulfill(body="", content_type="text/event-stream"))
    page.get_by_label("Input").fill("the old dog")
    page.get_by_role("status").get_by_text("The connection has ended before the last sentence.").wait_for()


def test_markup_in_texts_is_text(page: Any) -> None:
    page.get_by_label("Input").fill("<img src=x onerror=alert(1)> the old dog")
    done(page)
    assert page.locator("#output img").count() == 0


def test_a_key_is_asked_for(browser: Any, run: str, tmp_path: Any) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    with listening(tiny_server(run, key_file=str(keys))) as locked, opened(browser, locked) as page:
        page.get_by_text("API key required").wait_for()
        page.get_by_label("API key").fill("secret")
        page.get_by_label("API key").press("Tab")
        page.locator("#go", has_text="Translate").wait_for()
        page.get_by_label("Input").fill("the old dog")
        assert done(page)
        page.get_by_text("Do this from a program").click()
        assert "secret" not in page.locator("#example").inner_text()
        assert "$KEY" in page.get_by_role("group", name="curl").inner_text()
