"""The benchmark of the explorer runs: on few items, for what it prints and not for how fast it is."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'captious[studio]'")
pytest.importorskip("httpx", reason="httpx is not installed")

SCRIPT = Path(__file__).parents[3] / "lab" / "benchmarks" / "explore.py"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_the_benchmark_asks_for_everything_the_page_shows():
    command = [sys.executable, str(SCRIPT), "--items", "300", "--images", "3", "--rounds", "3"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0, outcome.stderr
    lines = outcome.stdout.splitlines()
    assert lines[0] == "300 items, 2 systems, 4 metrics and ratings, 0 MB"
    rows = lines[lines.index("") + 2 : lines.index("", lines.index("") + 1)]
    assert len(rows) == 18 and all(float(number) >= 0 for row in rows for number in row[32:].split())
    assert rows[-1].startswith("thumbnail") and lines[-1].startswith("memory at the end: ")
