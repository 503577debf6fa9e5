"""What comes with the package: the demo set, made by ``lab/toy``, and the small encoder that sees its pictures."""

from pathlib import Path

DEMO = Path(__file__).parent / "demo"
"""60 drawn scenes: references, captions of four captioners, long and styled ones, ratings, planted bias, images."""
