"""``captious.demo``: captions, references, images and ratings that are included in the package."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from captious._core.files import make_draft_folder, refuse_unwritable
from captious.captions import CaptionSet
from captious.data import DEMO
from captious.errors import InputError
from captious.io.read import read
from captious.study.judgments import Ratings, open_ratings
from captious.study.recipes import Layout

# The captioners of the demo, from the worst to the best by construction.
CAPTIONERS = ("parrot", "sloppy", "solid", "expert")
# Contents of the folder of the demo set.
CONTENTS = {
    "predictions/": f"captions of four captioners: {', '.join(CAPTIONERS)}",
    "references.json": "five references for each scene",
    "images/": "the scenes",
    "ratings.jsonl": "every caption with five ratings from 1 to 5, of simulated raters",
    "few-ratings.jsonl": "the ratings of every third scene only, a row for each rating",
    "long.jsonl": "long captions in detail units, right and wrong",
    "styles.jsonl": "plain, romantic, humorous and gloomy captions",
    "bias.jsonl": "captions of scenes with a person, with a label",
    "objects.jsonl": "the objects of each scene, for CHAIR",
    "objects.txt": "the words for these objects",
    "coco_annotations.json": "the references in the format of COCO",
    "scenes.jsonl": "everything that is drawn",
}


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

    def copy_files(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Copy the files into a folder, which is created if it does not exist, and return its path.

        Other files in the folder are not changed. Files of the same names are replaced only with ``overwrite``.
        """
        target = Path(folder)
        refuse_unwritable(target)
        if target.is_file():
            raise InputError(f"{target}: is a file, expected a folder for the files of the demo set")
        existing = [name for name in CONTENTS if (target / name).exists()]
        if existing and not overwrite:
            raise InputError(
                f"{target}: already contains {existing[0]}; pass overwrite=True to replace it, or name another folder"
            )
        target.mkdir(parents=True, exist_ok=True)
        # First to a draft on the same disk: if the disk is full, the folder stays as it was.
        with make_draft_folder(target / "demo") as draft:
            shutil.copytree(self.folder, draft, dirs_exist_ok=True, copy_function=shutil.copyfile)
            for file in (path for path in draft.rglob("*") if path.is_file()):
                copy = target / file.relative_to(draft)
                copy.parent.mkdir(exist_ok=True)
                file.replace(copy)
        return target

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
