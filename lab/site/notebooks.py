"""Executed notebooks as pages: their text, their code, and what each cell printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def notebook_pages(docs: Path) -> dict[str, str]:
    """Markdown by path, for every notebook under the folder."""
    return {
        path.relative_to(docs).with_suffix(".md").as_posix(): notebook_markdown(json.loads(path.read_text("utf-8")))
        + f'\n<a href="{path.name}" download>Download this notebook</a>\n'
        for path in sorted(docs.rglob("*.ipynb"))
    }


def notebook_markdown(notebook: dict[str, Any]) -> str:
    """One notebook as Markdown; a cell's outputs follow its code."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(f"```python\n{source}\n```")
            parts += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(filter(None, parts)) + "\n"


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    if output["output_type"] == "error":
        return _text(f"{output['ename']}: {output['evalue']}")
    data = {kind: "".join(value) if isinstance(value, list) else value for kind, value in output["data"].items()}
    if "image/svg+xml" in data:
        return _html(data["image/svg+xml"])
    if "image/png" in data:
        return f'<img alt="output of the cell" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        return _html(data["text/html"])
    return _text(data.get("text/plain", ""))


def _text(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip("\n")
    return f"```text\n{plain}\n```" if plain else ""


def _html(text: str) -> str:
    """A block that Markdown leaves alone: it ends at an empty line, so there is none inside."""
    return '<div class="output">\n' + re.sub(r"\n\s*\n", "\n", text.strip()) + "\n</div>"
