"""``captious make pictures``: pictures of texts (ImaginE)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from captious.cli.params import Only
from captious.cli.session import Imagination, Out, Session
from captious.errors import InputError
from captious.options import Argument, Option

if TYPE_CHECKING:
    from captious.captions import CaptionSet


def pictures(
    texts: Annotated[str, Argument("Texts by id, with or without references and ratings; '-' for standard input.")],
    out: Out,
    session: Annotated[Session, Only("references", "overwrite", "json", "device", "batch", "precision", "cache")],
    metric: Imagination = "imagine",
    most: Annotated[int, Option("Texts on the page.", min=1)] = 100,
    rating: Annotated[str | None, Option("Column of the ratings.", metavar="NAME")] = None,
    painters: Annotated[
        tuple[str, ...],
        Option("Painters to show side by side, instead of the metric's.", flags=("--painter",), metavar="PAINTERS"),
    ] = (),
    compile: Annotated[bool, Option("Compile the model first, for many pictures on a GPU.")] = False,
) -> None:
    """Paint texts into a gallery: pictures by seed, similarity to the reference, disagreement with people (ImaginE).

    With several painters the page has a row per text and a picture per painter; texts are in the order of the file.

    Example: captious make pictures ratings.jsonl --references references.json --out gallery/
    Example: captious make pictures texts.jsonl --painter stable-diffusion-v1-1/,guided:biggan-deep-512/ --out gallery/
    """
    from captious.probes.pictures import compare_painters, paint

    session = replace(session, output=replace(session.output, out=out))
    with session.working() as step:
        captions, ratings = _read_rated_texts(texts, session, rating)
        if painters:
            compared = compare_painters(captions, metric, painters, most=most, compile=compile, progress=step)
        else:
            gallery = paint(captions, metric, ratings, most=most, compile=compile, progress=step)
    session.deliver(compared if painters else gallery)


def _read_rated_texts(texts: str, session: Session, rating: str | None) -> tuple[CaptionSet, Any]:
    """Read texts, and the mean rating of each if the rows have ratings."""
    from captious.io.columns import RATING_COLUMNS
    from captious.io.formats import read_rows
    from captious.study.judgments import open_ratings
    from captious.study.recipes import Layout

    first = next(iter(read_rows(texts)), None) if texts != "-" else None
    columns = () if first is None else tuple(first.fields)
    if rating is None and not any(name in columns for name in RATING_COLUMNS):
        return session.read_and_warn(texts), None
    ratings = open_ratings(texts, session.reading.references, columns=Layout(texts, rating=rating))
    if ratings.captions is None:
        raise InputError(f"{texts}: ratings without captions")
    return ratings.captions, ratings.mean
