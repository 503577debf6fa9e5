"""Run the notebooks of the documentation, and store what they show: ``python -m lab.notebooks``.

Stored outputs show everywhere without scripts: charts are pictures. Nothing of the machine is kept. The tests run every
notebook again and compare the texts.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from PIL import Image

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
# Columns of printed tables.
WIDTH = "100"
PNG = "image/png"
_SETUP = "%config InlineBackend.print_figure_kwargs = {'dpi': 130, 'bbox_inches': None}"


def notebooks() -> list[Path]:
    """The notebooks of the documentation."""
    return sorted(FOLDER.glob("*.ipynb"))


def execute(path: Path) -> Any:
    """The notebook with the outputs of a new run, in a folder of its own."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(_SETUP))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COLUMNS": WIDTH}
        client = nbclient.NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute(env=environment)
    del notebook.cells[0]
    _clean(notebook)
    return notebook


def _clean(notebook: Any) -> None:
    language = {"name": "python"}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": language})
    number = 0
    for index, cell in enumerate(notebook.cells):
        cell.metadata = {}
        cell.id = f"cell-{index}"
        if cell.cell_type == "code":
            number += 1
            cell.execution_count = number
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = number


def texts(notebook: Any) -> list[str]:
    """What each code cell shows in words: printed lines, and results without markup, pictures and versions."""
    shown = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            parts = []
            for output in cell.outputs:
                data = output.get("data", {})
                drawn = any(kind.startswith("image/") for kind in data)
                parts.append(output.get("text", "") if not data else "[chart]" if drawn else _words(data))
            shown.append("\n".join(parts))
    return shown


def _words(data: Any) -> str:
    text = re.sub(r"<[^>]+>", " ", data["text/html"]) if "text/html" in data else data["text/plain"]
    return re.sub(r"captious:[\d.]+\w*", "captious", re.sub(r"\s+", " ", text))


def with_small_pictures(notebook: Any) -> Any:
    """The notebook with charts of few colors, in a fraction of their bytes, and without their names in words."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if PNG in output.get("data", {}):
                buffer = BytesIO()
                picture = Image.open(BytesIO(b64decode(output.data[PNG]))).convert("RGB")
                picture.quantize(64).save(buffer, "png", optimize=True)
                output.data = nbformat.from_dict({PNG: b64encode(buffer.getvalue()).decode()})
    return notebook


def main() -> None:
    """Run all notebooks, or those named, and store them."""
    for path in [Path(name) for name in sys.argv[1:]] or notebooks():
        notebook = with_small_pictures(execute(path))
        nbformat.validate(notebook)
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
