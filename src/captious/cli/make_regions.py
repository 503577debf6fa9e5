"""``captious make regions``: published region features as files that UMIC reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import click

from captious.cli.params import Only
from captious.cli.session import Out, Session
from captious.options import Argument, Option


def regions(
    database: Annotated[Path, Argument("Folder of an LMDB in UNITER's layout, such as feat_th0.2_max100_min10.")],
    out: Out,
    session: Annotated[Session, Only("overwrite")],
    names: Annotated[
        Literal["keep", "number"], Option("Name files after images, or after the number at the end of their names.")
    ] = "keep",
) -> None:
    """Convert published region features to one .npz file for each image, for UMIC on UNITER.

    Example: captious make regions coco_val2014/feat_th0.2_max100_min10 --out butd/ --names number
    """
    from captious.models.region_database import convert_regions

    with session.working() as step:
        step("converting")
        number = convert_regions(database, out, names, session.output.overwrite)
    click.echo(f"{out}: region features of {number:,} images")
