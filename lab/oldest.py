"""The tests of ``make quick`` with the lowest versions that captious allows, or with the newest: ``make oldest``.

``python -m lab.oldest --python python3.10`` makes the environment ``.venv-oldest`` with that Python, installs captious
with every package of the base install and of the extra ``quick`` at its lower bound in ``pyproject.toml``, prints the
versions, and runs ``lab.quick``. ``--newest`` does the same with the newest version of every package. What follows
goes to ``lab.quick``, such as ``tests/io -x``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXTRA = "quick"


def main(arguments: Sequence[str]) -> int:
    """Make the environment, and return the exit code of the tests."""
    parser = argparse.ArgumentParser(prog="python -m lab.oldest", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the Python of the environment")
    parser.add_argument("--newest", action="store_true", help="the newest version of every package")
    parser.add_argument("--folder", type=Path, help="where the environment is made, .venv-oldest or .venv-newest")
    options, rest = parser.parse_known_args(arguments)
    folder = options.folder or ROOT / (".venv-newest" if options.newest else ".venv-oldest")
    subprocess.run([options.python, "-m", "venv", "--clear", str(folder)], check=True)
    python = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))

    def pip(*words: str) -> None:
        subprocess.run([python, "-m", "pip", *words], check=True, cwd=ROOT)

    install = ["install", "--quiet", "--upgrade"]
    # Constraints, and not requirements: a lower bound that another package does not allow is an error of pip.
    constraints = ROOT / "constraints.txt"
    if not options.newest:
        # Python 3.10 has no reader of TOML. The environment itself reads the bounds, for their markers are about it.
        pip(*install, "packaging", "tomli")
        program = "from lab.oldest import print_lower_bounds as show; show()"
        bounds = subprocess.run([python, "-c", program], check=True, cwd=ROOT, capture_output=True, text=True).stdout
        constraints = folder / "lowest.txt"
        constraints.write_text(bounds, encoding="utf-8")
    pip(*install, "--constraint", str(constraints), "--editable", f".[{EXTRA}]")
    pip("check")
    pip("list")
    return subprocess.run([python, "-m", "lab.quick", *rest], check=False, cwd=ROOT).returncode


def print_lower_bounds() -> None:
    """Print a line such as ``numpy==1.26`` for each package of this project that this Python needs."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print(*lower_bounds(project), sep="\n")


def lower_bounds(project: dict[str, Any]) -> list[str]:
    """Return the packages of the base install and of `EXTRA` at their lowest versions, as constraints of pip.

    >>> needs = ["rich>=13.8,<16", "tomli>=2; python_version < '3'"]
    >>> lower_bounds({"dependencies": needs, "optional-dependencies": {"quick": ["pytest>=8"]}})
    ['rich==13.8', 'pytest==8']
    """
    from packaging.requirements import Requirement

    constraints = []
    for requirement in map(Requirement, (*project["dependencies"], *project["optional-dependencies"][EXTRA])):
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        bounds = [bound.version for bound in requirement.specifier if bound.operator in (">=", "==", "~=")]
        if len(bounds) != 1:
            sys.exit(f"pyproject.toml: {requirement} has {len(bounds)} lower bounds, expected one, such as rich>=13.8")
        constraints.append(f"{requirement.name}=={bounds[0]}")
    return constraints


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
