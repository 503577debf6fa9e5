"""Stress cards: of metrics on Flickr8k's photographs, and of a small chat judge on the demo set.

    python -m lab.reproductions stress --data flickr8k --items 500 --metrics "cider,meteor" --out card/
    python -m lab.reproductions stress --data flickr8k --items 500 --metrics "clipscore(weights=FOLDER)" --out card/
    python -m lab.reproductions stress --smollm2 --items 50 --replies replies.db --out card/

``--data`` is the folder of ``captions.jsonl`` and ``images``: the first caption of an image is scored against its four
others. ``test_ids.txt`` keeps to the images that the encoder of `lab/reproductions/photographs.py`, whose folder is the
second command's, was not trained on. ``--smollm2`` starts llama.cpp's server with SmolLM2-135M on a free port of this
computer, and asks it about the demo set's captions of *solid*; run from the root of the repository with PYTHONPATH=.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def write_captions(data: Path, path: Path) -> int:
    """Write the first caption of every image as its candidate, the others as references; return their number."""
    names = data / "test_ids.txt"
    kept = {Path(name).stem for name in names.read_text(encoding="utf-8").split()} if names.exists() else None
    with (data / "captions.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if kept is None or Path(row["id"]).stem in kept]
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            first, *others = row["references"]
            file.write(json.dumps({"id": row["id"], "caption": first, "references": others}) + "\n")
    return len(rows)


def judge_demo(items: int, out: Path, further: list[str]) -> None:
    """The card of a judge that says yes or no to a caption beside its references."""
    from judges import MODEL, model_file, start_server

    import captious

    server = start_server(model_file(), threads=1)
    with tempfile.TemporaryDirectory() as folder:
        captions = Path(folder) / "solid.jsonl"
        solid = captious.demo().systems["solid"]
        rows = [{"id": one.id, "caption": one.candidate, "references": list(one.references)} for one in solid]
        captions.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        command = [sys.executable, "-m", "captious", "probe", "stress", str(captions), "--items", str(items)]
        command += ["--metrics", f"fleur({MODEL},context=references,answer=yes-no)", "--concurrency", "2"]
        command += ["--endpoint", f"{server.listening_address}/v1", "--out", str(out), *further]
        subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path)
    source.add_argument("--smollm2", action="store_true")
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--metrics", default="bleu(n=4),rouge,cider")
    parser.add_argument("--out", type=Path, required=True)
    arguments, further = parser.parse_known_args()
    if arguments.smollm2:
        judge_demo(arguments.items, arguments.out, further)
        return
    with tempfile.TemporaryDirectory() as folder:
        captions = Path(folder) / "flickr8k.jsonl"
        number = write_captions(arguments.data, captions)
        print(f"{arguments.items} of {number} images", file=sys.stderr)
        command = [sys.executable, "-m", "captious", "probe", "stress", str(captions), "--metrics", arguments.metrics]
        command += ["--images", str(arguments.data / "images"), "--items", str(arguments.items)]
        subprocess.run([*command, "--out", str(arguments.out), *further], check=True)


if __name__ == "__main__":
    main()
