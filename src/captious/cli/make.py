"""``captious make``: units, scene graphs, idf corpora, objects, edited captions, pictures and region features."""

from __future__ import annotations

from captious.cli.commands import CommandGroup, command
from captious.cli.make_edits import edits
from captious.cli.make_graphs import graphs
from captious.cli.make_idf import idf
from captious.cli.make_negatives import negatives
from captious.cli.make_objects import objects
from captious.cli.make_pictures import pictures
from captious.cli.make_regions import regions
from captious.cli.make_units import units

app = CommandGroup("make")
for function in (units, graphs, idf, objects, negatives, edits, pictures, regions):
    command(app)(function)
