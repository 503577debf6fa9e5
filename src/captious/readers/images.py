"""Which image belongs to which item."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from captious.captions import CaptionSet
from captious.errors import InputError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"})


def with_images(captions: CaptionSet, folder: str | Path) -> CaptionSet:
    """The set with the paths of its images as the column ``image``.

    An image is looked for by the file name in the column ``image``, by the same name with another ending, by the item's
    id, and by the id with COCO's twelve digits. Where nothing is found the path that was expected stands.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder of images")
    files = {path.name: path for path in sorted(root.iterdir()) if path.suffix.lower() in SUFFIXES}
    stems = {Path(name).stem: path for name, path in files.items()}
    names = captions.columns.get("image", (None,) * len(captions))
    paths = []
    for key, name in zip(captions.ids, names, strict=True):
        wanted = Path(str(name)).name if name else key
        found = (
            files.get(wanted) or stems.get(Path(wanted).stem) or stems.get(Path(key).stem) or stems.get(key.zfill(12))
        )
        paths.append(str(found or root / wanted))
    if captions.ids and not any(Path(path).is_file() for path in paths):
        raise InputError(f"{root}: holds no image of any item; looked for {Path(paths[0]).name} and the like")
    return replace(captions, columns={**captions.columns, "image": tuple(paths)})
