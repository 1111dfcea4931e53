"""The pictures of docs/serving.md and docs/reports.md, by a headless chromium: python benchmarks/pictures.py.

Needs `pip install playwright`, Debian's chromium, and the runs of `make demo` and
s2s-train task=parsing task.trees=8000 arch=transformer_tiny arch.share_embeddings=target train.steps=900 run=parse
(any run of either task will do).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
TEXT = "The old cat sees a dog. My house is red.\nThe boys eat the bread and the women buy a small house in the city."
TREES = "The old cat sees a dog.\nMy sister buys the red house."
DESK, PHONE = (1200, 700), (390, 800)


def main() -> None:
    """All pictures."""
    IMAGES.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "s2s_serve.command", "run={en-de: demo, parse: parse}", "port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as driver:
        assert server.stderr is not None
        address = next(line for line in server.stderr if line.startswith("serving")).split()[1]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        pictures_of_the_page(browser, address)
        browser.close()
        server.terminate()


def pictures_of_the_page(browser: Browser, address: str) -> None:
    """A translation with attention, on a desk and on a phone in the dark; trees."""
    for name, size, scheme in (("page", DESK, "light"), ("page-phone-dark", PHONE, "dark")):
        page = opened(browser, address, size, scheme)
        page.get_by_label("Alternatives").fill("2")
        generate(page, TEXT)
        page.locator(".sentence").first.locator("summary").click()
        page.locator(".sentence").first.locator("[role=option]").nth(2).focus()
        page.screenshot(path=IMAGES / f"{name}.png")
        page.close()
    page = opened(browser, address, DESK, "light")
    page.get_by_label("Model").select_option("parse")
    generate(page, TREES)
    page.screenshot(path=IMAGES / "page-trees.png")
    page.close()


def opened(browser: Browser, address: str, size: tuple[int, int], scheme: Any) -> Any:
    """The page, of this width and height."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(address)
    return page


def generate(page: Any, text: str) -> None:
    """Send a text, and wait for the last sentence."""
    page.get_by_label("Input").fill(text)
    page.get_by_label("Input").press("Control+Enter")
    page.locator("#status", has_text=" in ").wait_for()


if __name__ == "__main__":
    main()
