"""The items of a document as data for the page's explorer, and thumbnails small enough to embed."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious._core.types import Floats
from captious.options import get_runtime, using
from captious.render.document import HasPicture, Items, Why

if TYPE_CHECKING:
    from PIL.Image import Image

# Decimals of the values on the page; files have full precision.
DECIMALS = 6
# Longest text of an additional column that is shown, in letters.
FIELD = 200
# Largest number of explanations on a page, over all systems and metrics: of items without a value and of the worst.
EXPLANATIONS = 1000
# At most one in this number of explanations is of an item without a value.
UNSCORED = 4
# Largest number of rows of a table in an explanation.
ROWS = 60
# Largest number of items on a page; if there are more, charts show those with texts and a random sample of the others.
ITEMS = 100_000
SEED = 0
# Longest side of a thumbnail in pixels.
SIDE = 224
Source = str | HasPicture | npt.NDArray[np.uint8] | None


def build_explorer_data(items: Items) -> tuple[dict[str, Any], list[str]]:
    """Return plain data for the scripts, with scores of all items and texts of selected ones, and thumbnails as data
    URIs.
    """
    signs = [1 if metric.higher_is_better else -1 for metric in items.metrics]
    columns = [sign * column for system in items.values for sign, column in zip(signs, system, strict=True)]
    shown = select_items(columns, len(items.ids), items.limit)
    present = _add_remainder(shown, len(items.ids))
    numbers = {index: number for number, index in enumerate(present)}
    sources = [items.images[index] for index in shown] if items.images else [None] * len(shown)
    images, pictures = make_thumbnails(sources)
    ids = [items.ids[index] for index in present]
    data = {
        "ids": ids,
        "whole": len(items.ids),
        "systems": [{"name": name} for name in items.systems],
        "metrics": [
            {"key": one.key, "label": one.label, "higher": one.higher_is_better, "range": one.range}
            for one in items.metrics
        ],
        "values": [[np.round(column[present], DECIMALS) for column in system] for system in items.values],
        "language": items.language,
        "lengths": [[_count_mean_words(texts[index], items.count_words) for index in present] for texts in items.texts],
        "reasons": [[{key: why[key] for key in ids if key in why} for why in system] for system in items.reasons]
        or [[{} for _ in items.metrics] for _ in items.systems],
        "shown": [numbers[index] for index in shown],
        "candidates": [[texts[index] for index in shown] for texts in items.texts],
        "references": [items.references[index] if len(items.references) else () for index in shown],
        "fields": [
            {
                name: format_field(column[index])[:FIELD]
                for name, column in items.fields.items()
                if is_shown(column[index])
            }
            for index in shown
        ],
        "pictures": pictures,
        "explanations": _collect_explanations(items, shown, numbers),
        "unreadable": sum(bool(one) and number is None for one, number in zip(sources, pictures, strict=True)),
    }
    return data, images


def is_shown(value: Any) -> bool:
    """Return True if a value of an additional column is shown with a caption; a list of objects, such as questions, is
    not.

    >>> is_shown("night"), is_shown(["dog", "cat"]), is_shown([{"question": "Who?"}]), is_shown(None)
    (True, True, False, False)
    """
    return value is not None and not (
        isinstance(value, (list, tuple)) and any(isinstance(one, Mapping) for one in value)
    )


def format_field(value: Any) -> str:
    """Format a value of an additional column."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _add_remainder(shown: Sequence[int], items: int) -> list[int]:
    """Return the items on the page: all, or those with texts and a random sample of others."""
    if items <= ITEMS:
        return list(range(items))
    order = np.random.default_rng(SEED).permutation(items)
    others = order[~np.isin(order, shown)][: max(ITEMS - len(shown), 0)]
    return sorted([*shown, *others.tolist()])


def _collect_explanations(items: Items, shown: Sequence[int], numbers: Mapping[int, int]) -> list[dict[str, Any]]:
    """Collect the explanations of each metric that has any, by system and the item's number on the page."""
    explained = [number for number, metric in enumerate(items.metrics) if metric.explained]
    if items.explain is None or not explained:
        return []
    most = max(1, EXPLANATIONS // (len(explained) * len(items.systems)))
    explanations = []
    for metric in explained:
        chosen = shown if len(shown) <= most else _select_explained(items, metric, shown, most)
        systems = [items.explain(system, metric, chosen) for system in range(len(items.systems))]
        keys = [str(numbers[index]) for index in chosen]
        by_item = [dict(zip(keys, map(_convert_why, whys), strict=True)) for whys in systems if whys]
        if len(by_item) == len(systems):
            is_complete = len(chosen) == len(shown)
            explanations.append({"metric": metric, "whole": is_complete, "number": len(chosen), "systems": by_item})
    return explanations


def _select_explained(items: Items, metric: int, shown: Sequence[int], most: int) -> list[int]:
    """Select items without a value, up to a share of ``most``, and those with the worst values."""
    sign = 1 if items.metrics[metric].higher_is_better else -1
    totals = np.sum([sign * system[metric][shown] for system in items.values], axis=0)
    order = np.argsort(totals, kind="stable").tolist()  # NaN is last
    scored = int(np.count_nonzero(~np.isnan(totals)))
    unscored = order[scored:][: max(most // UNSCORED, most - scored)]
    return sorted(shown[position] for position in [*unscored, *order[: most - len(unscored)]])


def _convert_why(why: Why) -> dict[str, Any]:
    from captious.render.sections import convert_sections

    return {"summary": why.summary, "sections": convert_sections(why.sections, ROWS)}


def select_items(columns: Sequence[Floats], items: int, limit: int) -> list[int]:
    """Select the items on the page: half are the worst, a quarter the best, in turns by column; the rest are random.

    A column has one value per item, higher being better; NaN is neither good nor bad.

    >>> select_items([np.array([0.5, 0.1, np.nan, 0.9, 0.3, 0.7])], 6, 2)
    [1, 3]
    """
    if items <= limit:
        return list(range(items))
    worst = [np.argsort(column, kind="stable")[: np.count_nonzero(~np.isnan(column))] for column in columns]
    best = [order[::-1] for order in worst]
    random = [np.random.default_rng(SEED).permutation(items)]
    chosen: dict[int, None] = {}
    for orders, total in ((worst, limit // 2), (best, limit - limit // 4), (random, limit)):
        for index in chain.from_iterable(zip_longest(*(order[:limit].tolist() for order in orders))):
            if len(chosen) >= total:
                break
            if index is not None:
                chosen[index] = None
    return sorted(chosen)


def _count_mean_words(texts: Sequence[str], count: Callable[[Sequence[str]], Sequence[int]] | None) -> float | None:
    """Return the mean length of the texts in words."""
    lengths = count(texts) if count else [len(text.split()) for text in texts]
    return round(sum(lengths) / len(texts), 2) if len(texts) else None


def make_thumbnails(images: Sequence[str | HasPicture | None]) -> tuple[list[str], list[int | None]]:
    """Return each different picture once as a data URI, and for every image the number of its picture."""
    distinct = list(dict.fromkeys(image for image in images if image))
    runtime = get_runtime()

    def make_in_thread(image: str | HasPicture) -> str | None:
        with using(runtime):  # threads do not inherit the runtime
            return make_thumbnail(image)

    with ThreadPoolExecutor() as pool:
        uris = dict(zip(distinct, pool.map(make_in_thread, distinct), strict=True))
    numbers: dict[str, int] = {}
    for uri in uris.values():
        if uri:
            numbers.setdefault(uri, len(numbers))
    return list(numbers), [numbers.get(uris[image] or "") if image else None for image in images]


def make_thumbnail(source: Source) -> str | None:
    """Return a file, an image in memory or an array of pixels as a data URI; None if it cannot be read."""
    small = make_small_image(source)
    return None if small is None else f"data:image/{small[0]};base64,{b64encode(small[1]).decode()}"


def make_small_image(source: Source, side: int = SIDE) -> tuple[str, bytes] | None:
    """Scale an image to at most ``side`` pixels; return its format and bytes, None if it cannot be read."""
    from PIL import Image, features

    kind = "webp" if features.check("webp") else "jpeg"
    buffer = BytesIO()
    try:
        small = _open_small(source, side)
        white = Image.new("RGBA", small.size, "white")
        Image.alpha_composite(white, small).convert("RGB").save(buffer, kind, quality=80)
    except (OSError, ValueError, TypeError, SyntaxError, MemoryError, Image.DecompressionBombError):
        return None
    return kind, buffer.getvalue()


def _open_small(source: Source, side: int) -> Image:
    from PIL import Image, ImageOps

    if source is None or isinstance(source, np.ndarray):
        picture: Image.Image = Image.fromarray(np.asarray(source, dtype=np.uint8))
        picture.thumbnail((side, side))
        return picture.convert("RGBA")
    # The same as encoders see: rotated by the EXIF tag only if the runtime asks for it.
    upright = get_runtime().upright
    if not isinstance(source, str):
        opened = source.picture()
        picture = _convert_to_eight_bits(ImageOps.exif_transpose(opened) if upright else opened.copy())
        picture.thumbnail((side, side))
        return picture.convert("RGBA")
    if not Path(source).is_file():  # opening a named pipe would block for ever
        raise OSError(f"{source}: is not a file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with Image.open(source) as opened:
            picture = _convert_to_eight_bits(ImageOps.exif_transpose(opened) if upright else opened)
            picture.thumbnail((side, side))
            return picture.convert("RGBA")


def _convert_to_eight_bits(picture: Any) -> Image:
    """Convert 16 or 32-bit grey levels to 8 bits by scaling; PIL itself would clip them at white."""
    from PIL import Image

    if picture.mode[0] not in "IF":
        return picture  # type: ignore[no-any-return]
    levels = np.asarray(picture, dtype=np.float64)
    white = 255.0 if levels.max(initial=0) <= 255 else max(65535.0, levels.max())
    return Image.fromarray((255 * np.clip(levels, 0, white) / white).astype(np.uint8))
