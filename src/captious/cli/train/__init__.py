"""``captious train``: make an encoder or a learnt metric, or a better one. One file per command."""

from __future__ import annotations

import typer

from captious.cli.train import clip, longclip, specs, umic

app = typer.Typer(help="Train encoders: clip, longclip, specs; and umic, a learnt metric.", no_args_is_help=True)
for _command in (clip.clip, longclip.longclip, specs.specs, umic.umic):
    app.command()(_command)
