"""The page in a browser: what it shows, that it fits, and that the keyboard and screen readers reach all of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from harness.browser import NEEDS_CHROMIUM, SIZES, fits, launched, opened
from harness.small_server import listening, tiny_server, train_run

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]

SVG = "http://www.w3.org/2000/svg"
TEXT = "a dog\nthe cat eats\nthe old dog"
"""The tiny run has an output for each line"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(tiny_server(train_run(tmp_path_factory.mktemp("served")))) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found


@pytest.fixture(params=list(SIZES))
def page(request: pytest.FixtureRequest, browser: Any, address: str) -> Iterator[Any]:
    with opened(browser, address, request.param) as found:
        found.locator("#go", has_text="Translate").wait_for()
        yield found


def generate(page: Any, text: str = TEXT) -> None:
    page.get_by_label("Input").fill(text)
    page.get_by_label("Input").press("Control+Enter")
    page.get_by_text("sentences in").wait_for()


def test_a_text_is_generated_explored_and_fits_the_screen(page: Any) -> None:
    generate(page)
    sentences = page.locator(".sentence")
    assert sentences.count() == 3
    shown = page.get_by_label("The chosen sentence")
    assert shown.get_by_text("Sentence 1 of 3").is_visible()
    assert shown.locator("li").count() == 2, "two alternatives"

    sentences.last.click()
    assert shown.get_by_text("Sentence 3 of 3").is_visible()
    tokens = shown.locator("[role=option]")
    tokens.first.focus()
    assert tokens.first.get_attribute("aria-selected") == "true"
    if tokens.count() > 1:
        page.keyboard.press("End")
        assert tokens.last.get_attribute("aria-selected") == "true"
        assert tokens.first.get_attribute("aria-selected") == "false"
    assert "%" in page.locator(".explain").inner_text(), "attention is said in words, too"
    assert min(map(contrast, page.locator(".src-tokens .token").all())) >= 4.5, "words stay legible in their shade"
    page.get_by_text("Do this from a program").click()
    assert fits(page)


def contrast(element: Any) -> float:
    """Of a word's colour to that behind it, as WCAG 2.1 defines it, were the whole attention on it."""
    return float(
        element.evaluate("""e => {
            e.style.backgroundColor = "rgba(var(--heat), 0.5)";
            const read = colour => colour.match(/[\\d.]+/g).map(Number);
            const linear = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
            const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255)
                + 0.0722 * linear(b / 255);
            const shade = read(getComputedStyle(e).backgroundColor);
            const card = read(getComputedStyle(e.closest(".card")).backgroundColor);
            const behind = luminance(card.slice(0, 3).map((c, i) => (1 - shade[3]) * c + shade[3] * shade[i]));
            const ink = luminance(read(getComputedStyle(e).color));
            return (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
        }""")
    )


def test_the_keyboard_alone_reaches_everything_in_the_order_of_the_page(page: Any) -> None:
    generate(page)
    page.get_by_role("link", name="API reference").first.focus()
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('role')"))
    order = ["source", "target", "text", "clear", "go", "button", "option", "copy", "live", "nbest", "file"]
    assert reached[: len(order)] == order, "one stop for all sentences, and one for the tokens of a sentence"
    page.locator(".sentence").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_text("Sentence 2 of 3").is_visible()
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("group", name="curl").is_visible()


def test_what_changes_is_announced_and_errors_are_plain(page: Any) -> None:
    page.get_by_label("Input").press("Control+Enter")
    assert page.get_by_role("status").inner_text() == "The input is empty."
    page.get_by_label("Translate while typing").uncheck()
    page.get_by_label("Input").fill("the old dog sees the cat")
    page.route("**/v1/generate", lambda route: route.fulfill(status=429, json={"error": {"message": "come later"}}))
    page.locator("#go", has_text="Translate").click()
    page.get_by_role("status").get_by_text("Come later.").wait_for()
    page.unroute("**/v1/generate")
    page.locator("#go", has_text="Translate").click()
    page.get_by_role("status").get_by_text("1 sentence in").wait_for()
    output = page.get_by_role("log", name="Output")
    assert output.get_attribute("aria-live") == "polite"
    assert output.locator(".sentence").count() == 1


def test_a_parser_s_trees_are_drawn_and_said_and_so_are_its_alternatives(page: Any) -> None:
    """With a server's answers of a parser in place of the translator's."""
    views = {"svg": f'<svg xmlns="{SVG}" width="900" height="20"><text y="15">S</text></svg>', "pretty": "S\n|\na"}
    best, other = ({"hyp": f"(S ({tag} a))", "score": -1.0, "views": views} for tag in ("NN", "VB"))
    sentence = {"text": 0, "sentence": 0, "of": 1, "line": 0, "src": "a", **best, "nbest": [best, other]}
    run = {"name": "parser", "views": ["pretty", "svg"], "align": False, "nbest": 2, "ready": True, "directions": []}
    answer_with(page, [run], [sentence])
    assert page.get_by_label("Input").get_attribute("placeholder") == "A sentence a line"
    page.get_by_label("Input").fill("a")
    page.get_by_role("button", name="Parse").click()
    page.get_by_text("1 sentence in").wait_for()
    assert page.get_by_role("img", name="(S (NN a))").evaluate("e => e.complete && e.naturalWidth") == 900
    page.get_by_text("1 alternative", exact=True).click()
    assert page.get_by_role("img", name="(S (VB a))").is_visible()
    assert fits(page), "a wide tree scrolls in its own frame"
    assert not page.get_by_text("Translate files").is_visible()


def answer_with(page: Any, runs: list[dict[str, Any]], sentences: list[dict[str, Any]]) -> None:
    """Answer with these in place of the server."""
    parts = [*(("sentence", each) for each in sentences), ("done", {"results": [{"hyp": "all"}]})]
    events = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in parts)
    served = {"runs": runs, "documents": {"text": [".txt"]}, "max_chars": 1000, "max_document": 1000}
    page.route("**/v1/runs", lambda route: route.fulfill(json=served))
    page.route("**/v1/generate", lambda route: route.fulfill(body=events, content_type="text/event-stream"))
    page.reload()
    page.locator("#hint", has_text="starts").wait_for()


def test_text_from_right_to_left_runs_and_is_reached_so(page: Any) -> None:
    way = {"source": "en", "target": "ar", "input_fields": {}}
    run = {"name": "en-ar", "views": [], "align": True, "nbest": 1, "ready": True, "directions": [way]}
    attention = {"src": ["▁a", "▁b"], "tgt": ["▁كلب", "▁كبير"], "weights": [[0.9, 0.1], [0.1, 0.9]]}
    sentence = {"sentence": 0, "of": 1, "src": "a b", "hyp": "كلب كبير", "score": -1.0, "attention": attention}
    answer_with(page, [run], [sentence])
    page.get_by_label("Input").fill("a b")
    page.get_by_text("1 sentence in").wait_for()
    output = page.get_by_role("log", name="Output")
    assert (output.get_attribute("lang"), output.evaluate("e => e.matches(':dir(rtl)')")) == ("ar", True)
    first, second = page.locator("[role=option]").all()
    assert second.bounding_box()["x"] < first.bounding_box()["x"]
    first.focus()
    page.keyboard.press("ArrowLeft")
    assert second.get_attribute("aria-selected") == "true", "the arrow points to the next word"


def test_every_control_has_a_name(page: Any) -> None:
    for control in page.locator("select, input, textarea, button").all():
        if control.is_visible():
            assert control.evaluate("e => e.labels?.length || e.textContent.trim() || e.ariaLabel"), control
