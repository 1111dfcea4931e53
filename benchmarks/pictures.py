"""The pictures of docs/serving.md and docs/reports.md, by a headless chromium: python benchmarks/pictures.py.

Needs `pip install playwright`, Debian's chromium, and the runs of `make demo` and
s2s-train task=parsing task.trees=8000 arch=transformer_tiny arch.share_embeddings=target train.steps=900 run=parse
(any run of either task will do).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
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
        pictures_of_reports(browser)
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


def pictures_of_reports(browser: Browser) -> None:
    """The report of a parser on a few sentences, and the attention of a sentence, as files."""
    with tempfile.TemporaryDirectory() as folder:
        few = ["sentences=40", "samples=20", "pairs=2000", f"output={folder}/report"]
        subprocess.run([sys.executable, "-m", "s2s_report.command", "run=parse", *few], check=True)
        page = browser.new_page(viewport={"width": DESK[0], "height": 760})
        page.goto(f"file://{folder}/report.html")
        worst = page.locator("section", has=page.locator("h2", has_text="Worst sentences"))
        worst.locator("summary").first.click()
        worst.screenshot(path=IMAGES / "report-trees.png")
        page.close()
        for form in ("attention", "figures"):
            options = ["run=demo", "threads=1", f"format={form}", "--quiet"]
            command = [sys.executable, "-m", "s2s", "generate", *options]
            sentence = "The boys eat the bread and the women buy a small house."
            done = subprocess.run(command, input=sentence, check=True, capture_output=True, text=True)
            Path(folder, f"{form}.html").write_text(done.stdout, encoding="utf-8")
            page = browser.new_page(viewport={"width": 900, "height": 320 if form == "attention" else 900})
            page.goto(f"file://{folder}/{form}.html")
            if form == "attention":
                page.get_by_label("Layer").select_option(label="cross 1")
                page.locator("[role=option]").nth(3).focus()
            page.screenshot(path=IMAGES / f"{form}.png")
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
