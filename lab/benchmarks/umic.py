"""UMIC-style fusion models: what training brings, and how fast it is.

    python lab/benchmarks/umic.py drawn  # drawn scenes, captious-mini; minutes of one core
    python lab/benchmarks/umic.py photographs --encoder photographs/flickr-clip-… --out umic-photographs
    python lab/benchmarks/umic.py speed [--device cuda] [--encoder NAME]  # the two ratios of docs/umic.md

Drawn scenes to train on come from seed 2, those to measure on from seed 1; captious-mini's own were of seed 1000.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import umic_drawn
import umic_photographs
import umic_speed

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def main() -> None:
    """Run one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["drawn", "photographs", "speed"])
    parser.add_argument(
        "--items", type=int, default=0, help="scenes to train on, images of each split, or speed's images"
    )
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--encoder", default="captious-mini")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=None, help="where models go; a temporary folder by default")
    parser.add_argument("--flickr", type=Path, default=SHARED / "flickr8k")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        out = options.out or Path(place)
        if options.what == "drawn":
            umic_drawn.run(out, options.items or 4000, options.epochs or 1, options.seed)
        elif options.what == "photographs":
            umic_photographs.run(
                out, options.flickr, options.encoder, options.device, options.items, options.epochs or 2, options.seed
            )
        else:
            umic_speed.run(out, options.encoder, options.device, options.items or 2000, options.batch or 256)


if __name__ == "__main__":
    main()
