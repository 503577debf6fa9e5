"""Records commands on the demo set as an animated terminal, one SVG file without scripts: the picture of the README.

PYTHONPATH=. python -m lab.site.terminal     # writes docs/images/terminal.svg
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.console import Console
from rich.text import Text

import captious

PICTURE = Path(__file__).resolve().parents[2] / "docs/images/terminal.svg"
COLUMNS = 96
# Lines of the terminal, the command included.
ROWS = 24
COMMANDS = (
    "captious demo --out demo",
    "captious score expert.json --references references.json --metrics cider --worst 2",
    "captious compare solid.json expert.json --references references.json --percent",
)
# Pixels of a character, of a line, around the text, and above it.
WIDTH, HEIGHT, MARGIN, TOP = 8.0, 17, 18, 44
# Seconds to type a command, and to read what it prints.
TYPING, READING = 1.4, 5.0
COLORS = {"red": "#ff7b72", "green": "#7ee787", "yellow": "#e3b341", "blue": "#79c0ff", "cyan": "#76e3ea"}
FONTS = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace'
FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" role="img"
  viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">
<title>captious in a terminal</title>
<desc>{description}</desc>
<style>
text {{ fill: #e6edf3; white-space: pre; font: 13px {fonts}; }}
.bold {{ font-weight: 600; fill: #ffffff; }}
.dim {{ fill: #8b949e; }}
.prompt {{ fill: #7ee787; }}
.scene {{ opacity: 0; }}
.scene:last-of-type {{ opacity: 1; }}
{animations}
@media (prefers-reduced-motion: reduce) {{ .scene, .scene * {{ animation: none !important; }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<circle cx="22" cy="20" r="6" fill="#ff5f57"/>
<circle cx="42" cy="20" r="6" fill="#febc2e"/>
<circle cx="62" cy="20" r="6" fill="#28c840"/>
{scenes}
</svg>
"""


@dataclass(frozen=True)
class Scene:
    """A command and the lines that it prints, with their colors."""

    command: str
    lines: tuple[Text, ...]


def record(commands: Sequence[str] = COMMANDS) -> list[Scene]:
    """Run commands in a folder with the files of the demo set."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = captious.demo().folder
        for file in (demo / "references.json", *(demo / "predictions").glob("*.json")):
            shutil.copy(file, folder)
        return [Scene(command, _printed(command, folder)) for command in commands]


def _printed(command: str, folder: Path) -> tuple[Text, ...]:
    """The first lines on standard output; the last one says how many are left out."""
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    called = [sys.executable, "-m", *command.split()]
    done = subprocess.run(called, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    lines = Text.from_ansi(done.stdout.rstrip()).split("\n")
    shown = list(lines[: ROWS - 1])
    if left := len(lines) - len(shown):
        shown[-1] = Text.assemble((f"… and {left + 1} more lines", "dim"))
    return tuple(shown)


def draw(scenes: Sequence[Scene]) -> str:
    """Scenes one after the other, again and again; a reader who prefers no motion sees the last one."""
    step = TYPING + READING
    total = step * len(scenes)
    animations = []
    for number, scene in enumerate(scenes):
        start, typed, end = (100 * (number * step + after) / total for after in (0, TYPING, step))
        animations.append(_appears(f"scene-{number}", start, end, total))
        animations.append(_types(f"typing-{number}", len(scene.command), start, typed, total))
        animations.append(_appears(f"output-{number}", typed, end, total))
    return FRAME.format(
        width=COLUMNS * WIDTH + 2 * MARGIN,
        height=TOP + ROWS * HEIGHT,
        fonts=FONTS,
        description=escape("Commands and what they print: " + "; ".join(scene.command for scene in scenes)),
        animations="\n".join(animations),
        scenes="\n".join(_scene(number, scene) for number, scene in enumerate(scenes)),
    )


def _appears(name: str, start: float, end: float, total: float) -> str:
    """Style of an element that is visible between two percentages of the loop."""
    frames = f"0% {{ opacity: 0 }} {start:.2f}% {{ opacity: 1 }} {end:.2f}%, 100% {{ opacity: {int(end == 100)} }}"
    return _animated(name, frames, total, "step-end")


def _types(name: str, characters: int, start: float, end: float, total: float) -> str:
    """Style of a text whose characters appear one by one."""
    hidden = f"clip-path: inset(0 100% 0 0); animation-timing-function: steps({characters})"
    frames = f"0%, {start:.2f}% {{ {hidden} }} {end:.2f}%, 100% {{ clip-path: inset(0 -1% 0 0) }}"
    return _animated(name, frames, total, "linear")


def _animated(name: str, frames: str, seconds: float, timing: str) -> str:
    return f"@keyframes {name} {{ {frames} }}\n#{name} {{ animation: {name} {seconds:.1f}s {timing} infinite; }}"


def _scene(number: int, scene: Scene) -> str:
    prompt = f'<text x="{MARGIN}" y="{TOP}" class="prompt">$</text>'
    command = _line(Text(scene.command), 0, indent=2)
    lines = "\n".join(_line(line, row) for row, line in enumerate(scene.lines, 1) if line.plain.strip())
    return (
        f'<g class="scene" id="scene-{number}">\n{prompt}<g id="typing-{number}">{command}</g>\n'
        f'<g id="output-{number}">\n{lines}\n</g>\n</g>'
    )


def _line(line: Text, row: int, indent: int = 0) -> str:
    """A line of text, as wide as its characters whatever the font of the reader."""
    spans = []
    for segment in line.render(Console(color_system="truecolor", width=COLUMNS), end=""):
        style, text = segment.style, escape(segment.text, quote=False)
        color = style.color.name if style and style.color else ""
        kind = "bold" if style and style.bold else "dim" if style and style.dim else ""
        if color in COLORS:
            text = f'<tspan fill="{COLORS[color]}">{text}</tspan>'
        elif kind:
            text = f'<tspan class="{kind}">{text}</tspan>'
        spans.append(text)
    place = f'x="{MARGIN + indent * WIDTH:g}" y="{TOP + row * HEIGHT}" textLength="{line.cell_len * WIDTH:g}"'
    return f'<text {place} xml:space="preserve">{"".join(spans)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(record()), encoding="utf-8")
