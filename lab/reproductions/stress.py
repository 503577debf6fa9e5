"""The stress card of metrics on photographs: Flickr8k's first caption of an image against its four others.

    python -m lab.reproductions stress --data flickr8k --items 500 --metrics "cider,meteor" --out card/
    python -m lab.reproductions stress --data flickr8k --items 500 --metrics "clipscore(weights=FOLDER)" --out card/

``--data`` is the folder of ``captions.jsonl`` and ``images``; ``test_ids.txt`` keeps to the images that the encoder of
`lab/reproductions/photographs.py`, whose folder is the second command's, was not trained on.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--metrics", default="bleu(n=4),rouge,cider")
    parser.add_argument("--out", type=Path, required=True)
    arguments, further = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        captions = Path(folder) / "flickr8k.jsonl"
        number = write_captions(arguments.data, captions)
        print(f"{arguments.items} of {number} images", file=sys.stderr)
        command = [sys.executable, "-m", "captious", "probe", "stress", str(captions), "--metrics", arguments.metrics]
        command += ["--images", str(arguments.data / "images"), "--items", str(arguments.items)]
        subprocess.run([*command, "--out", str(arguments.out), *further], check=True)


if __name__ == "__main__":
    main()
