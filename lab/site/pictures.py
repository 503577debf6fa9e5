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
from types import SimpleNamespace
from typing import Any

from PIL import Image

import captious
from captious.rewarding import read_drift

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
    "gate": (
        *("gate", f"{DEMO}/predictions/solid.json", f"{DEMO}/predictions/expert.json"),
        *("-r", f"{DEMO}/references.json", "--metrics", "cider,rouge", "--margin", "5%"),
    ),
    "hallucination": (
        *("probe", "hallucination", f"{DEMO}/predictions/sloppy.json", f"{DEMO}/predictions/expert.json"),
        *("--metric", f"chair(objects={DEMO}/objects.jsonl,vocabulary={DEMO}/objects.txt)"),
    ),
}
"""Commands whose page is shown."""
PADDING = ("a", "two", "of", "in", "the", "and", "there", "are", "on", "field", "to")
SIZE = {"width": 1180, "height": 860}


def report(name: str, page: Any) -> None:
    """A picture of the page that a command writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        subprocess.run([sys.executable, "-m", "captious", *REPORTS[name], "--out", str(out)], check=True)
        _take(page, next(out.glob("*.html")), name)


def drift(page: Any) -> None:
    """A picture of the page of a reward run in which a policy learns to append words that references often have."""
    expert, references = captious.demo().systems["expert"], captious.demo().references
    captions = {item.id: item.candidates[0] for item in expert}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (reward,) = captious.rewards(
            "rouge_n(value=recall)", references=references, watch="cider, distinct_n", every=1, out=folder / "log"
        )
        for step in range(12):
            sampled = [" ".join([text, *PADDING[:step]]) for text in captions.values()]
            reward(completions=sampled, id=list(captions), trainer_state=SimpleNamespace(global_step=step))
        read_drift(folder / "log").save(folder / "drift.html")
        _take(page, folder / "drift.html", "drift")


def _take(page: Any, file: Path, name: str) -> None:
    page.goto(file.as_uri())
    page.wait_for_timeout(800)
    picture = IMAGES / f"{name}.png"
    page.screenshot(path=str(picture))
    Image.open(picture).quantize(128).save(picture, optimize=True)


def owner(page: Any) -> None:
    """A picture of the page on which the owner of a study watches it."""
    command = [sys.executable, "-m", "captious", "studio", "demo", "--no-browser", "--port", "8799"]
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
    others = {"owner": owner, "drift": drift}
    with chromium() as page:
        for name in sys.argv[1:] or [*REPORTS, *others]:
            others[name](page) if name in others else report(name, page)


if __name__ == "__main__":
    main()
