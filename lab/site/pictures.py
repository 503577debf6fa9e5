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
from lab.site.terminal import draw, record

IMAGES = Path(__file__).resolve().parents[2] / "docs/images"
DEMO = captious.demo().folder
# Commands whose page is shown. They run on copies of the demo files, so that no page names a folder of this machine.
REPORTS: dict[str, tuple[str, ...]] = {
    "study": (
        *("study", "run", "ratings.jsonl", "-r", "references.json"),
        *("--metrics", "bleu(n=4),rouge,cider,clipscore(captious-mini)", "--images", "images"),
    ),
    "stress": (
        *("probe", "stress", "predictions/expert.json", "-r", "references.json"),
        *("--metrics", "bleu(n=4),rouge,cider", "--edits", "harm,damage,gaming"),
    ),
    "bias": (*("bias", "lic", "bias.jsonl", "--label", "label", "--mask", "gender", "--seeds", "4"),),
    "gate": (
        *("gate", "predictions/solid.json", "predictions/expert.json"),
        *("-r", "references.json", "--metrics", "cider,rouge", "--margin", "5%"),
    ),
    "hallucination": (
        *("probe", "hallucination", "predictions/sloppy.json", "predictions/expert.json"),
        *("--metric", "chair(objects=objects.jsonl,vocabulary=objects.txt)"),
    ),
}
PADDING = ("a", "two", "of", "in", "the", "and", "there", "are", "on", "field", "to")
SIZE = {"width": 1180, "height": 860}


def report(name: str, page: Any) -> None:
    """A picture of the page that a command writes."""
    with tempfile.TemporaryDirectory() as folder:
        copies, out = Path(folder) / "demo", Path(folder) / "out"
        shutil.copytree(DEMO, copies)
        subprocess.run([sys.executable, "-m", "captious", *REPORTS[name], "--out", str(out)], check=True, cwd=copies)
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
    Image.open(picture).convert("RGB").quantize(256, kmeans=2).save(picture, optimize=True)


@contextmanager
def serving(*arguments: str, link: str = r"(http\S+)") -> Iterator[str]:
    """A command that serves pages, and the link that it prints."""
    command = [sys.executable, "-m", "captious", *arguments, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield next(found[1] for line in server.stdout if (found := re.search(link, line)))
        finally:
            server.terminate()


def owner(page: Any) -> None:
    """A picture of the page on which the owner of a study watches it."""
    with serving("studio", "demo", link=r"owner\s+(\S+)") as link:
        page.goto(link)
        page.wait_for_timeout(2500)
        page.screenshot(path=str(IMAGES / "owner.png"))


def rate(page: Any) -> bytes:
    """The first task of a rater, half answered."""
    with serving("studio", "demo", link=r"rate\s+(\S+)") as link:
        page.goto(link)
        page.get_by_role("button", name="I agree").click()
        page.wait_for_timeout(500)
        while page.locator("input[type=radio]").count() == 0:  # instructions come first
            page.locator("main button, form button").last.click()
            page.wait_for_timeout(500)
        for caption, rating in enumerate((4, 2)):
            page.locator("fieldset, [role=radiogroup]").nth(caption).locator("label").nth(rating - 1).click()
        page.wait_for_timeout(300)
        return bytes(page.screenshot())


def explore(page: Any, folder: Path) -> bytes:
    """The items of the explorer as a grid, with the captions of three systems."""
    references = ("-r", f"{DEMO}/references.json", "--images", f"{DEMO}/images")
    runs = [folder / name for name in ("expert", "solid", "sloppy")]
    for run in runs:
        command = ("score", f"{DEMO}/predictions/{run.name}.json", *references, "-m", "bleu(n=4),rouge,cider")
        subprocess.run([sys.executable, "-m", "captious", *command, "--out", str(run)], check=True, capture_output=True)
    with serving("view", *map(str, runs), "--ratings", f"{DEMO}/ratings.jsonl", *references[2:]) as link:
        page.goto(link)
        page.wait_for_timeout(1500)
        page.get_by_role("button", name="Grid").first.click()
        page.wait_for_timeout(800)
        page.evaluate(TO_ITEMS)
        page.wait_for_timeout(1500)
        return bytes(page.screenshot())


TO_ITEMS = "[...document.querySelectorAll('h2')].find(one => one.textContent == 'Items').scrollIntoView()"
PANELS = {
    "terminal": "captious demo: every number with its interval",
    "report": "The report: one file, the worst captions first",
    "explorer": "captious view: captions, scores and ratings in a browser",
    "rating": "captious studio: a page to send raters to",
}
COLLAGE = """<style>
body {{ margin: 0; padding: 28px; background: #eceff4; font: 600 19px "DejaVu Sans", sans-serif; color: #1b1f2a; }}
main {{ display: grid; grid-template-columns: 1fr 1fr; gap: 26px; }}
figure {{ margin: 0; background: white; border-radius: 12px; overflow: hidden; box-shadow: 0 2px 14px #0002; }}
figcaption {{ padding: 12px 18px; border-bottom: 1px solid #dde2ea; }}
figure > img, figure > svg {{ display: block; width: 100%; height: 520px; }}
img {{ object-fit: cover; object-position: top left; }}
.terminal {{ background: #0d1117; color: white; }}
</style><main>{figures}</main>"""


def overview(page: Any) -> None:
    """The picture of the README: terminal, report, explorer and rating page."""
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "demo"
        subprocess.run([sys.executable, "-m", "captious", "demo", "--out", str(run)], check=True, capture_output=True)
        page.goto((run / "report.html").as_uri())
        page.wait_for_timeout(800)
        page.evaluate(TO_ITEMS)
        page.wait_for_timeout(800)
        shots = {"report": page.screenshot(), "explorer": explore(page, Path(name)), "rating": rate(page)}
        files = {kind: Path(name) / f"{kind}.png" for kind in shots}
        for kind, shot in shots.items():
            files[kind].write_bytes(shot)
        contents = {kind: f'<img src="{file.name}">' for kind, file in files.items()}
        contents["terminal"] = draw(record(("captious demo --out demo",)))
        figures = "".join(
            f'<figure class="{kind}"><figcaption>{words}</figcaption>{contents[kind]}</figure>'
            for kind, words in PANELS.items()
        )
        (Path(name) / "overview.html").write_text(COLLAGE.format(figures=figures), encoding="utf-8")
        page.emulate_media(reduced_motion="reduce")
        page.set_viewport_size({"width": 1640, "height": 1190})
        _take(page, Path(name) / "overview.html", "overview")


@contextmanager
def chromium() -> Iterator[Any]:
    """A tab of the installed browser."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser.new_page(viewport=SIZE, device_scale_factor=1.5)
        browser.close()


def main() -> None:
    """Take the pictures that are named, or all."""
    others = {"owner": owner, "drift": drift, "overview": overview}
    with chromium() as page:
        for name in sys.argv[1:] or [*REPORTS, *others]:
            others[name](page) if name in others else report(name, page)


if __name__ == "__main__":
    main()
