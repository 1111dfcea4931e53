"""Pages in headless chromium."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
SIZES = {"desk": (1200, 800, "light"), "phone": (390, 800, "dark")}
EXPECTED = "Failed to load resource: "
"""What chromium logs of requests that a test has refused, before the reason"""


@contextmanager
def launched() -> Iterator[Any]:
    """A browser."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, address: str, kind: str = "desk") -> Iterator[Any]:
    """A page, which logs no error but refused requests, and asks no other server; kind: of SIZES."""
    width, height, scheme = SIZES[kind]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    page.close()
    assert [one for one in complaints if not one.startswith(EXPECTED)] == []
    origin = "/".join(address.split("/")[:3])
    assert [url for url in asked if not url.startswith((origin, "data:", "blob:"))] == []


def fits(page: Any) -> bool:
    """Whether nothing sticks out at the sides of the window."""
    width, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return bool(width <= window)
