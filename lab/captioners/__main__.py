"""OnlyStyle's Table 2: captioners that are told the style against the same captioners that are not.

    python -m lab.reproductions onlystyle                      # trains 18 models: on a GPU; days on a CPU
    python -m lab.reproductions onlystyle --quick              # 1,500 images, 6 small models: minutes on two cores
    python -m lab.reproductions onlystyle --captions FOLDER    # scores what lab.captioners.train wrote elsewhere

Prints one text of tables and writes it as ``onlystyle.md`` and ``onlystyle.json``. Table 1 of the paper and the
readings of StyleCIDEr: ``python lab/reproductions/onlystyle.py``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from captious import Resampling
from lab.captioners.score import METRICS, score

SHARED = Path(os.environ.get("CAPTIOUS_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
# Left out by ``--quick``.
SLOW = ("METEOR", "SPICE")


def train(data: Path, grid: Path | None, folder: Path, quick: bool) -> None:
    """Pack the data and train, on a GPU where there is one."""
    import torch

    from lab.captioners.pack import pack
    from lab.captioners.train import PAPER, QUICK, run_all

    device = "cuda" if torch.cuda.is_available() else "cpu"
    folder.mkdir(parents=True, exist_ok=True)
    pack(data, folder / "flickrstyle.npz", grid, images=1500 if quick else 0)
    processes = 9 if device == "cuda" else max(1, (os.cpu_count() or 1))
    run_all(folder / "flickrstyle.npz", folder, QUICK if quick else PAPER, 1 if quick else 3, processes, device)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.reproductions onlystyle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=SHARED, help="folder with style/ and flickr8k/")
    parser.add_argument("--grid", type=Path, help="image features by place, as lab/captioners/grid.py writes them")
    parser.add_argument("--captions", type=Path, help="captions that are there already: train nothing")
    parser.add_argument("--out", type=Path, default=Path("drawn/onlystyle"), help="for the tables")
    parser.add_argument("--quick", action="store_true", help="few images, small models, one seed, no METEOR or SPICE")
    args = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.captions or Path(scratch)
        if not args.captions:
            train(args.data, args.grid, folder, args.quick)
        metrics = [name for name in METRICS if not (args.quick and name in SLOW)]
        print(score(args.data, folder, args.out, metrics, Resampling(), args.quick))
    print(f"{time.perf_counter() - started:.0f} s; {args.out}/onlystyle.md, {args.out}/onlystyle.json")


if __name__ == "__main__":
    main()
