"""Real photographs: an image–text encoder from DINOv2-S and MiniLM, trained on Flickr8k, judged by people's ratings.

    python lab/reproductions/parts.py --packages SITE-PACKAGES --out parts/ --whole  # the two pretrained towers
    python lab/reproductions/photographs.py --parts parts/ --out photographs/  # both towers learn: a GPU, minutes
    python lab/reproductions/photographs.py --parts parts112/ --out photographs/ --how part --rows 1500  # 2 cores: 1 h

Trains on the Flickr8k images outside the test split; the learning rate of the towers is chosen by recall on the dev
split. Then the test split is looked at once: retrieval, Flickr8k-Expert (whose 1,000 images are all in it), and the
Specificity Rate of long captions made by joining an image's five captions. Every number is printed by a `captious`
command. `--how part` wants parts made with `--side 112 --whole`; `--how locked` parts without either: it trains heads
alone on the shared features of DINOv2.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SHARED = Path(os.environ.get("CAPTIOUS_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

# Of the towers; the best on the dev split is taken.
RATES = ("3e-5", "6e-5", "1e-4")
TUNED = ("--captions-per-image", "2", "--soften", "0.5", "--augment", "0.5", "--epochs", "30", "--batch-size", "512")
# Nothing is chosen here: one training each.
FIXED = {
    "locked": shlex.split("--lock image,text --captions-per-image 5 --soften 0.5 --epochs 30 --batch-size 512"),
    "part": shlex.split(
        "--lock image:9,text --captions-per-image 5 --soften 0.5 --epochs 6 --batch-size 256 "
        "--lr 1e-4 --head-lr 1e-3 --precision bf16"
    ),
}
SPECS = ("--lr", "3e-5", "--epochs", "5", "--batch-size", "128", "--accumulate", "1", "--augment", "0.5")
HEADS_SPECS = ("--lock", "image,text", "--lr", "3e-4", "--epochs", "20", "--batch-size", "128", "--accumulate", "1")
Command = tuple[str, ...]


def write_data(flickr: Path, out: Path, limit: int, rows_long: int = 0) -> None:
    """The splits as rows of captions, and the same with the five captions of an image as one of five sentences."""
    split = {name: set((flickr / f"{name}_ids.txt").read_text().split()) for name in ("train", "dev", "test")}
    rows = [json.loads(line) for line in (flickr / "captions.jsonl").read_text(encoding="utf-8").splitlines()]
    there = {path.stem for path in (flickr / "images").iterdir()}
    rows = [row for row in rows if Path(row["id"]).stem in there]
    for name in split:
        # 91 images are in no split: they are outside the test split, and train.
        kept = [row for row in rows if row["id"] in split[name] or (name == "train" and _nowhere(row["id"], split))]
        kept = kept[: limit or None]
        _write(out / f"{name}.jsonl", [{"id": row["id"], "captions": row["references"]} for row in kept])
        some = kept[: rows_long or None] if name == "train" else kept
        long = [{"id": row["id"], "units": [sentence(text) for text in row["references"]]} for row in some]
        _write(out / f"{name}_long.jsonl", [{**row, "caption": " ".join(row["units"])} for row in long])


def sentence(caption: str) -> str:
    """A caption as a sentence: trimmed, with a full stop.

    >>> sentence(" Two dogs run . ")
    'Two dogs run.'
    """
    return caption.strip().rstrip(" .").strip() + "."


def _nowhere(key: str, split: dict[str, set[str]]) -> bool:
    return not any(key in keys for keys in split.values())


def _write(path: Path, rows: Sequence[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class Runner:
    """Runs `captious` commands, several at once where they do not wait for each other."""

    def __init__(self, captious: str, out: Path) -> None:
        self.captious, self.out = shlex.split(captious), out
        self.environment = {**os.environ, "CAPTIOUS_HOME": str(out / "home"), "COLUMNS": "140"}

    def __call__(self, *commands: Command) -> list[str]:
        """What the commands print; all of it is shown, with its command, when all are done."""
        started = time.perf_counter()
        running = [
            subprocess.Popen(
                [*self.captious, *command],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for command in commands
        ]
        printed = []
        for command, process in zip(commands, running, strict=True):
            found, complaints = process.communicate()
            if process.returncode:
                raise SystemExit(f"captious {shlex.join(command)}\n{found}{complaints[-3000:]}")
            shown = "" if "--json" in command else found
            print(f"$ captious {shlex.join(command)}\n{shown}", flush=True)
            printed.append(found)
        print(f"({time.perf_counter() - started:.0f} s)\n", flush=True)
        return printed


def fixed(run: Runner, start: Command, how: str, known: Command, trial: Command) -> Path:
    """Train with the image tower held still, whole or in part."""
    run((*start, *FIXED[how], *known, "--out", str(run.out / f"flickr-{how}"), *trial))
    return run.out / f"flickr-{how}"


def tuned(run: Runner, start: Command, images: Path, trial: Command) -> Path:
    """Train both towers at each rate; the one that is best on the dev split."""
    candidates = [run.out / f"flickr-clip-{rate}" for rate in RATES]
    pairs = zip(RATES, candidates, strict=True)
    run(*((*start, *TUNED, "--lr", rate, "--out", str(folder), *trial) for rate, folder in pairs))
    encoders = ",".join(map(str, candidates))
    judged = ("probe", "retrieval", str(run.out / "dev.jsonl"), "--images", str(images), "--encoder", encoders)
    (found,) = run((*judged, "--json"))
    best = max(candidates, key=lambda folder: _recall(found, folder.name))
    print(f"best on the dev split: {best.name}\n", flush=True)
    return best


def _recall(found: str, name: str) -> float:
    """The mean of all recalls of an encoder."""
    rows = [row for row in json.loads(found)["recall"] if row["encoder"].startswith(f"{name}#")]
    values = [100 * one["value"] for row in rows for one in row["recall"]]
    print(f"{name}: mean recall {sum(values) / len(values):.2f}")
    return sum(values) / len(values)


def judge(run: Runner, best: Path, flickr: Path) -> None:
    """The test split: retrieval, Flickr8k-Expert, Specificity Rate."""
    images, specific = str(flickr / "images"), run.out / f"{best.name}-specs"
    plain = f'clipscore(weights={best},value=raw,prefix="")'
    others = (f'clipscore(weights={best},prefix="")', f'refclipscore(weights={best},prefix="")')
    people = ",".join((plain, *others, f"specs(weights={specific})", "cider"))
    detail = ",".join((plain, f"specs(weights={specific})"))
    retrieval = ("probe", "retrieval", str(run.out / "test.jsonl"), "--images", images)
    long = ("probe", "specificity", str(run.out / "test_long.jsonl"), "--images", images, "--metrics", detail)
    run(
        (*retrieval, "--encoder", f"{best},{specific}"),
        ("study", "run", "flickr8k-expert", "--data", str(flickr), "--images", images, "--metrics", people),
        (*long, "--control"),
    )


def main() -> None:
    """The whole experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", type=Path, default=Path("parts"), help="the folder that lab/reproductions/parts.py wrote"
    )
    parser.add_argument("--flickr", type=Path, default=SHARED / "flickr8k")
    parser.add_argument("--out", type=Path, default=Path("photographs"))
    parser.add_argument("--how", choices=("tuned", *FIXED), default="tuned", help="what learns")
    parser.add_argument("--rows", type=int, default=0, help="long captions to train on; 0 for all")
    parser.add_argument("--captious", default=f"{sys.executable} -m captious", help="the command")
    parser.add_argument("--limit", type=int, default=0, help="a trial on so many images of each split, one epoch")
    options = parser.parse_args()
    run = Runner(options.captious, options.out.resolve())
    write_data(options.flickr, run.out, options.limit, options.rows)
    trial = ("--epochs", "1", "--batch-size", "16") if options.limit else ()
    images, features = options.flickr / "images", options.flickr / "dinov2_small.npz"
    known: Command = ("--image-features", str(features)) if options.how == "locked" and features.is_file() else ()
    towers = f"{options.parts / 'dinov2-small'},{options.parts / 'minilm'}"
    start = ("train", "clip", str(run.out / "train.jsonl"), "--images", str(images), "--towers", towers)
    if options.how == "tuned":
        best, specific = tuned(run, start, images, trial), SPECS
    else:
        best, specific = fixed(run, start, options.how, known, trial), (*HEADS_SPECS, *known)
    long = (str(run.out / "train_long.jsonl"), "--images", str(images), "--base", str(best))
    run(("train", "specs", *long, *specific, "--out", str(run.out / f"{best.name}-specs"), *trial))
    judge(run, best, options.flickr)


if __name__ == "__main__":
    main()
