"""Takes the pictures of the documentation anew, of the demo set, in an installed Chromium.

PYTHONPATH=. python -m lab.site.pictures [NAME ...]     # into docs/images; all without names
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import captious

IMAGES = Path(__file__).resolve().parents[2] / "docs/images"
DEMO = captious.demo().folder
REPORTS: dict[str, tuple[str, ...]] = {
    "study": (
        *("study", "run", f"{DEMO}/ratings.jsonl", "-r", f"{DEMO}/references.json"),
        *("--metrics", "bleu(n=4),rouge,cider,clipscore(captious-mini)", "--images", f"{DEMO}/images"),
    ),
    "stress": (
        *("probe", "stress", f"{DEMO}/predictions/expert.json", "-r", f"{DEMO}/references.json"),
        *("--metrics", "bleu(n=4),rouge,cider", "--edits", "harm,damage,gaming"),
    ),
    "bias": (*("bias", "lic", f"{DEMO}/bias.jsonl", "--label", "label", "--mask", "gender", "--seeds", "4"),),
}
"""Commands whose page is shown."""
SIZE = {"width": 1180, "height": 860}


def report(name: str, page: Any) -> None:
    """A picture of the page that a command writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        subprocess.run([sys.executable, "-m", "captious", *REPORTS[name], "--out", str(out)], check=True)
        page.goto(next(out.glob("*.html")).as_uri())
        page.wait_for_timeout(800)
        page.screenshot(path=str(IMAGES / f"{name}.png"))


def owner(page: Any) -> None:
    """A picture of the page on which the owner of a study watches it."""
    command = [sys.executable, "-m", "captious", "studio", "demo", "--no-open", "--port", "8799"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            link = next(found[1] for line in server.stdout if (found := re.search(r"owner\s+(\S+)", line)))
            page.goto(link)
            page.wait_for_timeout(2500)
            page.screenshot(path=str(IMAGES / "owner.png"))
        finally:
            server.terminate()


@contextmanager
def chromium() -> Iterator[Any]:
    """A tab of the installed browser."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser.new_page(viewport=SIZE, device_scale_factor=1.5)
        browser.close()


def main() -> None:
    """Take the pictures that are named, or all."""
    names = sys.argv[1:] or [*REPORTS, "owner"]
    with chromium() as page:
        for name in names:
            owner(page) if name == "owner" else report(name, page)


if __name__ == "__main__":
    main()
