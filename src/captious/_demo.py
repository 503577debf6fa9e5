"""``captious.demo``: captions, references, images and ratings that are included in the package."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from captious.captions import CaptionSet
from captious.data import DEMO
from captious.io.read import read
from captious.study.ratings import Ratings, open_ratings
from captious.study.recipes import Layout

# The captioners of the demo, from the worst to the best by construction.
CAPTIONERS = ("parrot", "sloppy", "solid", "expert")


@dataclass(frozen=True)
class Demo:
    """Sixty drawn scenes with five references each, four captioners, and five ratings of every caption."""

    folder: Path = DEMO
    """The folder of the files, for commands that read files."""

    def __repr__(self) -> str:
        return f"<Demo: captions by {', '.join(self.systems)}; {len(self.ratings.ids)} rated captions>"

    @cached_property
    def systems(self) -> dict[str, CaptionSet]:
        """The captions of each captioner with their references and images, the worst captioner first."""
        files = {name: self.folder / "predictions" / f"{name}.json" for name in CAPTIONERS}
        sets = {name: read(file, references=self.references, images=self.images) for name, file in files.items()}
        return {name: replace(captions, name=name) for name, captions in sets.items()}

    @cached_property
    def ratings(self) -> Ratings:
        """Every caption of the captioners with its ratings from 1 to 5, for ``captious.correlate``."""
        file = self.folder / "ratings.jsonl"
        layout = Layout(file.name, system="captioner")
        ratings = open_ratings(file, self.references, columns=layout, images=self.images)
        captions = replace(ratings.captions, name="rated captions") if ratings.captions else None
        return replace(ratings, captions=captions, name="demo")

    @property
    def references(self) -> Path:
        """The file of the references."""
        return self.folder / "references.json"

    @property
    def images(self) -> Path:
        """The folder of the images."""
        return self.folder / "images"


def demo() -> Demo:
    """Return the demo set of the package.

    >>> demo().systems["solid"]["1001"].candidate
    'Some cats in a room'
    """
    return Demo()
