"""Files that come with the package: the demo set, made by ``lab/toy``, and the small encoder that sees its pictures."""

from pathlib import Path

# 60 drawn scenes: references, captions of four captioners, long and styled ones, ratings, planted bias, images.
DEMO = Path(__file__).parent / "demo"
# JSON Schemas of what commands print with --json, by the name of the command; written by lab/schemas.py.
SCHEMAS = Path(__file__).parent / "schemas.json"
