"""The page in a browser: sentences as they come, alternatives, attention by mouse and by keyboard."""

from __future__ import annotations

import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

import uvicorn
from playwright.sync_api import sync_playwright
from serving import tiny_server, train_run

from s2s_serve.app import create_app

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]

TEXT = "the old dog sees the cat\nthe cat eats\na dog sees the old cat"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = tiny_server(train_run(tmp_path_factory.mktemp("served")))
    loop = uvicorn.Server(uvicorn.Config(create_app(server), port=0, log_level="error"))
    thread = threading.Thread(target=loop.run)
    thread.start()
    while not loop.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{loop.servers[0].sockets[0].getsockname()[1]}/"
    loop.should_exit = True
    thread.join()


@pytest.fixture(params=[(1200, 800, "light"), (390, 800, "dark")], ids=["desk", "phone"])
def page(request: pytest.FixtureRequest, address: str) -> Iterator[Any]:
    """The page, which logs no error."""
    width, height, scheme = request.param
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        complaints: list[str] = []
        found.on("console", lambda message: complaints.append(message.text))
        found.on("pageerror", lambda error: complaints.append(str(error)))
        found.goto(address)
        yield found
        assert complaints == []
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
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], "nothing sticks out"


def test_every_control_has_a_name(page: Any) -> None:
    for control in page.locator("select, input, textarea, button").all():
        if control.is_visible():
            assert control.evaluate("e => (e.labels && e.labels.length) || e.textContent.trim().length > 0")
