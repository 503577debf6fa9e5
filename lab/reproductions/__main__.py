"""The papers' own experiments, each by one command: python -m lab.reproductions NAME …

The names are onlystyle, umic, specs, grid, imagine, imagine-texts, relic, judges, questions, chair and stress.

What follows the name goes to the script; ``-h`` after it lists what it takes.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = {
    "onlystyle": HERE.parent / "captioners" / "__main__.py",
    **{
        name: HERE / f"{name.replace('-', '_')}.py"
        for name in (
            "umic",
            "specs",
            "grid",
            "imagine",
            "imagine-texts",
            "relic",
            "judges",
            "questions",
            "chair",
            "stress",
        )
    },
}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in SCRIPTS:
        sys.exit(f"python -m lab.reproductions {name}: expected one of {', '.join(SCRIPTS)}")
    sys.argv[:2] = [f"python -m lab.reproductions {name}"]
    sys.path.insert(0, str(HERE))  # the scripts import each other by their plain names
    runpy.run_path(str(SCRIPTS[name]), run_name="__main__")


if __name__ == "__main__":
    main()
