"""The pictures of docs/serving.md and docs/reports.md, taken with headless Chromium: python benchmarks/pictures.py.

Needs `pip install playwright pillow`, Debian's chromium, and five runs (any runs of these tasks will do):
make demo
S="schedule=cosine schedule.lr=0.004 schedule.warmup=60 train.tokens=2000 valid.every=150"
P="task=parsing task.trees=4000 arch=transformer_tiny arch.dropout=0 arch.share_embeddings=target"
T="task=translation task.pairs=8000 arch=transformer_tiny arch.dropout=0"
s2s-train run=parse $P $S train.steps=900
s2s-train run=reverse $T task.src_lang=de task.tgt_lang=en $S train.steps=900
s2s-train run=small $T $S train.steps=300
s2s-train run=rnn task=translation task.pairs=8000 arch=rnn_tiny $S train.steps=300
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
TEXT = "The old cat sees a dog. My house is red.\nThe boys eat the bread and the women buy a small house in the city."
TREES = "The old cat sees a dog.\nMy sister buys the red house."
SENTENCE = "The boys eat the bread and the women buy a small house."
DESK, PHONE = (1200, 700), (390, 800)
COLOURS = 128
FEW = ("sentences=60", "samples=100", "pairs=2000")
"""Number of sentences that a report reads, few enough for a minute"""


def main() -> None:
    """Take all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with serving("run={en-de: demo, de-en: reverse, parse: parse}") as address:
            pictures_of_the_page(browser, address)
        pictures_of_reports(browser, Path(folder))
        for form, height in (("attention", 320), ("figures", 900)):
            picture_of_attention(browser, Path(folder, f"{form}.html"), form, height)
        browser.close()


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """Run s2s-serve; yields its address."""
    command = [sys.executable, "-m", "s2s_serve.command", *options, "port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        yield next(line for line in server.stderr if line.startswith("serving")).split()[1]
        server.terminate()


def pictures_of_the_page(browser: Browser, address: str) -> None:
    """A translation with attention on a desktop, a streaming translation on a phone in dark mode, parse trees, and the
    reference of the API."""
    page = opened(browser, address, DESK, "light")
    generate(page, TEXT)
    page.locator("[role=option]").nth(2).focus()
    save("page", page.screenshot)
    page.close()

    page = opened(browser, address, PHONE, "dark")
    page.get_by_label("Input").fill("\n".join([TEXT] * 100))
    page.get_by_label("Input").press("Control+Enter")
    page.locator(".sentence").nth(2).wait_for()
    page.locator("#output").evaluate("output => output.scrollIntoView()")
    save("page-phone-dark", page.screenshot)
    page.close()

    page = opened(browser, address, DESK, "light")
    page.get_by_label("Model").select_option("parse")
    generate(page, TREES)
    save("page-trees", page.screenshot)
    page.close()

    page = opened(browser, f"{address}/docs#post-v1-generate", DESK, "light")
    page.locator("#post-v1-generate").scroll_into_view_if_needed()
    save("page-reference", page.screenshot)
    page.close()


def pictures_of_reports(browser: Browser, folder: Path) -> None:
    """The report of one run, the comparison of three runs, and a parser's worst sentence."""
    for name, runs in (("one", "demo"), ("three", "[small,rnn,demo]"), ("parser", "parse")):
        options = [f"run={runs}", *FEW, f"output={folder}/{name}", "--quiet"]
        subprocess.run([sys.executable, "-m", "s2s_report.command", *options], check=True)
    page = browser.new_page(viewport={"width": DESK[0], "height": 900})
    page.goto(f"file://{folder}/one.html")
    save("report", page.screenshot)
    page.goto(f"file://{folder}/three.html")
    wins = section(page, "Largest wins of demo")
    wins.locator("summary").first.click()
    wins.get_by_text("Attention of demo").first.click()
    wins.locator("details[open] details[open] [role=option]").nth(2).focus()
    save("report-three-wins", wins.locator("details").first.screenshot)
    page.goto(f"file://{folder}/parser.html")
    worst = section(page, "Worst sentences")
    worst.locator("summary").first.click()
    save("report-trees", worst.locator("details").first.screenshot)
    page.close()


def picture_of_attention(browser: Browser, path: Path, form: str, height: int) -> None:
    """A page that s2s-generate writes in an output format with attention."""
    command = [sys.executable, "-m", "s2s", "generate", "run=demo", "threads=1", f"format={form}", "--quiet"]
    done = subprocess.run(command, input=SENTENCE, check=True, capture_output=True, text=True)
    path.write_text(done.stdout, encoding="utf-8")
    page = browser.new_page(viewport={"width": 900, "height": height})
    page.goto(f"file://{path}")
    if form == "attention":
        page.locator("[role=option]").nth(3).focus()
    save(form, page.screenshot)
    page.close()


def section(page: Any, title: str) -> Any:
    """A section of a report."""
    return page.locator("section", has=page.locator("h2", has_text=title)).first


def opened(browser: Browser, address: str, size: tuple[int, int], scheme: Any) -> Any:
    """Open the page in a window of this width and height."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(address)
    return page


def generate(page: Any, text: str) -> None:
    """Submit a text and wait for the last sentence."""
    page.get_by_label("Input").fill(text)
    page.get_by_label("Input").press("Control+Enter")
    page.locator("#status", has_text=re.compile(r"sentences? in \d")).wait_for()


def save(name: str, take: Callable[[], bytes]) -> None:
    """Save a screenshot with a reduced palette, which makes the file a third as large."""
    picture = Image.open(io.BytesIO(take())).convert("RGB").quantize(COLOURS)
    picture.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
