"""The page in a browser: sentences as they come, alternatives, attention by mouse and by keyboard."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import sync_playwright

from harness.small_server import listening, tiny_server, train_run

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]

REFUSED = "status of 429"
EXPECTED = "Failed to load resource: the server responded with a "
"""What chromium logs of the one request that a test refuses, with `REFUSED` after it"""
SVG = "http://www.w3.org/2000/svg"
TEXT = "the old dog sees the cat\nthe cat eats\na dog sees the old cat"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(tiny_server(train_run(tmp_path_factory.mktemp("served")))) as found:
        yield found


@pytest.fixture(params=[(1200, 800, "light"), (390, 800, "dark")], ids=["desk", "phone"])
def page(request: pytest.FixtureRequest, address: str) -> Iterator[Any]:
    """The page, which logs no error."""
    width, height, scheme = request.param
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        complaints: list[str] = []
        found.on("console", lambda message: complaints.append(message.text.partition(REFUSED)[0]))
        found.on("pageerror", lambda error: complaints.append(str(error)))
        found.goto(address)
        yield found
        assert set(complaints) <= {EXPECTED}
        browser.close()


def test_a_text_is_generated_explored_and_fits_the_screen(page: Any) -> None:
    page.get_by_label("Alternatives").fill("2")
    page.get_by_label("Input").fill(TEXT)
    page.get_by_label("Input").press("Control+Enter")
    page.get_by_text("3 sentences in").wait_for()
    assert page.locator(".sentence").count() == 3
    summary = page.get_by_text("2 alternatives").first
    summary.click()
    assert page.locator(".sentence").first.locator("li").count() == 2

    explored = page.locator(".sentence", has=page.locator("[role=option]")).first
    tokens = explored.locator("[role=option]")
    tokens.first.focus()
    assert tokens.first.get_attribute("aria-selected") == "true"
    if tokens.count() > 1:
        page.keyboard.press("End")
        assert tokens.last.get_attribute("aria-selected") == "true"
        assert tokens.first.get_attribute("aria-selected") == "false"
    assert "%" in explored.locator(".explain").inner_text(), "attention is said in words, too"
    assert min(map(contrast, explored.locator(".src .token").all())) >= 4.5, "words stay legible in their shade"
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], "nothing sticks out"


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
            const card = read(getComputedStyle(document.getElementById("output")).backgroundColor);
            const behind = luminance(card.slice(0, 3).map((c, i) => (1 - shade[3]) * c + shade[3] * shade[i]));
            const ink = luminance(read(getComputedStyle(e).color));
            return (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
        }""")
    )


def test_the_keyboard_alone_reaches_everything_in_the_order_of_the_page(page: Any) -> None:
    page.get_by_label("Alternatives").fill("1")
    page.get_by_label("Input").fill(TEXT)
    page.get_by_label("Input").press("Control+Enter")
    page.get_by_text("3 sentences in").wait_for()
    page.get_by_label("Model").focus()
    reached = []
    for _ in range(12):
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('role')"))
        page.keyboard.press("Tab")
    assert reached[:4] == ["run", "nbest", "text", "go"]
    assert "option" in reached, "one stop for all tokens of a sentence"
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("li").first.is_visible()


def test_what_changes_is_announced_and_errors_are_plain(page: Any) -> None:
    page.get_by_label("Input").press("Control+Enter")
    assert page.get_by_role("status").inner_text() == "The input is empty."
    page.get_by_label("Input").fill("the old dog sees the cat")
    page.route("**/v1/generate", lambda route: route.fulfill(status=429, json={"error": {"message": "Come later."}}))
    page.get_by_role("button", name="Generate").click()
    page.get_by_role("status").get_by_text("Come later.").wait_for()
    page.unroute("**/v1/generate")
    page.get_by_role("button", name="Generate").click()
    page.get_by_role("status").get_by_text("1 sentence in").wait_for()
    assert page.get_by_role("log", name="Output").locator(".sentence").count() == 1


def test_a_parser_s_trees_are_drawn_and_said_and_so_are_its_alternatives(page: Any) -> None:
    """With a server's answers of a parser in place of the translator's."""
    views = {"svg": f'<svg xmlns="{SVG}" width="900" height="20"><text y="15">S</text></svg>', "pretty": "S\n|\na"}
    best, other = ({"hyp": f"(S ({tag} a))", "score": -1.0, "views": views} for tag in ("NN", "VB"))
    sentence = {"text": 0, "sentence": 0, "of": 1, "line": 0, "src": "a", **best, "nbest": [best, other]}
    events = (
        f"event: sentence\ndata: {json.dumps(sentence)}\n\nevent: done\ndata: {json.dumps({'results': [best]})}\n\n"
    )
    run = {"name": "parser", "views": ["pretty", "svg"], "align": False, "nbest": 2, "ready": True}
    page.route("**/v1/runs", lambda route: route.fulfill(json={"runs": [run]}))
    page.route("**/v1/generate", lambda route: route.fulfill(body=events, content_type="text/event-stream"))
    page.reload()
    page.get_by_text("A line is a sentence.").wait_for()
    page.get_by_label("Input").fill("a")
    page.get_by_role("button", name="Parse").click()
    page.get_by_text("1 sentence in").wait_for()
    assert page.get_by_role("img", name="(S (NN a))").evaluate("e => e.complete && e.naturalWidth") == 900
    page.get_by_text("1 alternative", exact=True).click()
    assert page.get_by_role("img", name="(S (VB a))").is_visible()
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], "a wide tree scrolls in its own frame"


def test_every_control_has_a_name(page: Any) -> None:
    for control in page.locator("select, input, textarea, button").all():
        if control.is_visible():
            assert control.evaluate("e => (e.labels && e.labels.length) || e.textContent.trim().length > 0")
