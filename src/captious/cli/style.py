"""``captious style``: which words make a style, and how well captions carry one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious.cli import options as o
from captious.options import SEED

if TYPE_CHECKING:
    from captious.metrics.style.model import StyleModel

app = typer.Typer(
    help="Contrastive n-grams: fit styles, see their words, rank and check captions.", no_args_is_help=True
)

Model = Annotated[Path, typer.Argument(help="A model from: captious style fit.")]
CaptionColumn = Annotated[str | None, typer.Option("--caption-column", help="Column of the captions.")]
StyleColumn = Annotated[str, typer.Option("--style-column", help="Column of the styles.")]
Html = Annotated[Path | None, typer.Option("--html", help="Also write it as a page.")]


@app.command()
def fit(
    corpora: Annotated[list[str], typer.Argument(help="Captions with styles: JSONL, CSV, TSV, Parquet, …")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, such as flickr.style.")],
    caption_column: CaptionColumn = None,
    style_column: StyleColumn = "style",
    tokenizer: Annotated[str, typer.Option("--tokenizer", help="plain, ptb, 13a or whitespace.")] = "plain",
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """Count the n-grams of each style in one pass, and keep them as a model."""
    from captious.errors import InputError
    from captious.metrics.style import model as count
    from captious.metrics.style.model import save
    from captious.probes.style import StyleColumns, stream
    from captious.render.progress import display

    if out.exists() and not overwrite:
        raise InputError(f"{out}: is there already; add --overwrite to replace it")
    with display() as (step, _, _):
        rows = stream(corpora, StyleColumns(caption_column, style_column))
        model = count.fit(rows, tokenizer=tokenizer, name=out.stem, progress=lambda seen: step(f"{seen:,} captions"))
        save(model, out)
    facts = _facts(model)
    if as_json:
        _json({"file": str(out), **facts})
        return
    sizes = ", ".join(f"{size:,}" for size in facts["ngrams"])
    number = int(model.captions.sum())
    typer.echo(f"{out}: {number:,} captions in {len(model.styles)} styles; n-grams of orders 1 to 4: {sizes}")
    typer.echo(facts["signature"])


@app.command()
def words(
    model: Model,
    style: Annotated[list[str] | None, typer.Option("--style", "-s", help="A style; all, if not given.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many n-grams of each order.")] = 30,
    n: Annotated[int | None, typer.Option("--n", min=1, max=4, help="One order only.")] = None,
    html: Html = None,
    chart: Annotated[Path | None, typer.Option("--chart", help="Also draw the words of one order as SVG.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """The n-grams that make a style."""
    from captious._files import whole_file
    from captious.metrics.style.explain import all_orders
    from captious.probes import _style_pages as page
    from captious.probes import _style_pages as show
    from captious.render.terminal import output

    loaded = _load(model)
    names = style or list(loaded.styles)
    found = {name: all_orders(loaded, name, top) for name in names}
    if n is not None:
        found = {name: [part if i == n else [] for i, part in enumerate(parts, 1)] for name, parts in found.items()}
    if html is not None:
        _write(html, page.words_page(found, show.signature(loaded)))
    if chart is not None:
        what = "Words" if (n or 1) == 1 else f"{n}-grams"
        title = f"{what} with the highest contrastive score: captions that hold them · CNG"
        with whole_file(chart) as draft:
            draft.write_text(
                page.words_chart({name: found[name][(n or 1) - 1] for name in names}, title), encoding="utf-8"
            )
        typer.echo(f"written: {chart}", err=True)
    if as_json:
        listed = {name: [word._asdict() for part in parts for word in part] for name, parts in found.items()}
        _json({"styles": listed, "signature": show.signature(loaded)})
        return
    for name, parts in found.items():
        output().print(show.words_view(name, parts))
    typer.echo(show.signature(loaded))


@app.command()
def rank(
    model: Model,
    caption: Annotated[str, typer.Argument(help="Any caption.")],
    style: Annotated[str | None, typer.Option("--style", "-s", help="Explain this style, not the closest.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many styles and n-grams to print.")] = 10,
    html: Html = None,
    as_json: o.AsJson = False,
) -> None:
    """Which styles a caption is closest to, and why: every n-gram with what it adds."""
    from captious.errors import InputError
    from captious.metrics.style.explain import explain, ranking
    from captious.probes import _style_pages as page
    from captious.probes import _style_pages as show
    from captious.render.terminal import output

    loaded = _load(model)
    found = ranking(loaded, caption)
    why = explain(loaded, caption, style or found[0][0])
    if not why.words:
        raise InputError(f"caption {caption!r} has no words, expected at least one")
    if html is not None:
        _write(html, page.why_page(why, found, show.signature(loaded)))
    if as_json:
        parts = [vars(part) for part in why.contributions]
        explained = {"style": why.style, "value": why.value, "words": why.words, "ngrams": parts}
        _json({"caption": caption, "styles": dict(found), "why": explained, "signature": show.signature(loaded)})
        return
    output().print(show.why_view(why, found, top))
    typer.echo(show.signature(loaded))


@app.command()
def scores(
    model: Model,
    ngrams: Annotated[list[str], typer.Argument(help="Words or n-grams of up to four words.")],
    style: Annotated[list[str] | None, typer.Option("--style", "-s", help="A style; all, if not given.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Scores of chosen words under chosen styles, as in the paper's Figure 2."""
    from captious.metrics.style.explain import score_table
    from captious.probes import _style_pages as show
    from captious.render.terminal import output

    loaded = _load(model)
    table = score_table(loaded, ngrams, style or [])
    if as_json:
        _json({"scores": table, "signature": show.signature(loaded)})
        return
    output().print(show.scores_view(table))
    typer.echo(show.signature(loaded))


@app.command()
def check(
    model: Model,
    corpus: Annotated[str, typer.Argument(help="Captions with styles that the model knows.")],
    readings: Annotated[bool, typer.Option("--readings", help="StyleCIDEr under every reading.")] = False,
    reading: Annotated[
        str, typer.Option("--reading", help='One reading, as --readings prints it: "references=pooled, itself=keep".')
    ] = "default",
    sample: Annotated[int, typer.Option("--sample", min=0, help="Test so many captions, drawn at random.")] = 0,
    seed: o.Seed = SEED,
    caption_column: CaptionColumn = None,
    style_column: StyleColumn = "style",
    id_column: o.IdColumn = None,
    as_json: o.AsJson = False,
) -> None:
    """The paper's Table 1 on any corpus: how often a caption scores higher under its own style; ties fail."""
    from captious.metrics.style.stylecider import READINGS, Reading
    from captious.probes import _style_pages as show
    from captious.probes import style as table
    from captious.probes.style import StyleCheck, StyleColumns, read_styled
    from captious.render.progress import display
    from captious.render.terminal import output

    chosen = READINGS if readings else (Reading.parse(reading),)
    loaded = _load(model)
    columns = StyleColumns(caption_column, style_column, id_column)
    with display() as (step, _, _):
        tested = StyleCheck.of(loaded, read_styled(corpus, columns), sample, seed)
        result = table.table_one(tested, chosen, seed, step)
    if as_json:
        _json({**result.summary(), "signature": show.signature(loaded)})
        return
    output().print(result.view())
    typer.echo(show.signature(loaded) + (f"|sample:{sample}|seed:{seed}" if sample else ""))


@app.command()
def correlate(
    model: Model,
    rankings: Annotated[str, typer.Argument(help="Rows with style, caption, rank (1 the worst), and maybe rater.")],
    as_json: o.AsJson = False,
) -> None:
    """OnlyStyle against people's rankings of captions, style by style, as in the paper's Table 4."""
    from captious.probes import _style_pages as show
    from captious.probes.style import correlate as correlated
    from captious.render.terminal import output

    loaded = _load(model)
    found = correlated(loaded, rankings)
    if as_json:
        _json({"styles": [row._asdict() for row in found], "signature": show.signature(loaded)})
        return
    output().print(show.agreement_view(found))
    typer.echo(show.signature(loaded))


def _load(path: Path) -> StyleModel:
    from captious.metrics.style.model import load

    return load(path).contrasting()


def _facts(model: StyleModel) -> dict[str, Any]:
    from captious.probes._style_pages import signature

    return {
        "styles": dict(zip(model.styles, model.captions.tolist(), strict=True)),
        "ngrams": [len(order.last) for order in model.orders],
        "signature": signature(model),
    }


def _json(content: Any) -> None:
    typer.echo(json.dumps(_finite(content), ensure_ascii=False, indent=2))


def _finite(content: Any) -> Any:
    """NaN, which JSON lacks, as null."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and math.isnan(content) else content


def _write(path: Path, text: str) -> None:
    from captious._files import whole_file

    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
    typer.echo(f"written: {path}", err=True)
