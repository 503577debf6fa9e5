"""``captious style``: the words of a style, and how well captions match it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from captious.cli.commands import CommandGroup, command
from captious.cli.params import Only
from captious.cli.session import Classifiers, Folds, Seeds, Session, Tokenizer, deliver
from captious.errors import InputError
from captious.io.columns import STYLE_COLUMN
from captious.options import Argument, Option, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from captious.metrics.style.model import StyleModel
    from captious.probes.style_check import StyledCorpus, StyleRival

app = CommandGroup("style")

Model = Annotated[Path, Argument("A model from: captious style fit.")]
Top = Annotated[int, Option("Number of n-grams to print for each.", min=1)]
Corpus = Annotated[str, Argument("Captions with styles; those of a model must be known to it.")]
OneStyle = Annotated[str | None, Option("Look at this style, not only at the closest.", flags=("-s",), metavar="NAME")]
StyleColumn = Annotated[str, Option("Column of the styles.", metavar="NAME")]
Saved = Only("out", "overwrite", "json")


@command(app)
def fit(
    corpora: Annotated[tuple[str, ...], Argument("Captions with styles: JSONL, CSV, TSV, Parquet, …")],
    session: Annotated[Session, Only("out", "overwrite", "json", "candidate_column", "language")],
    style_column: StyleColumn = STYLE_COLUMN,
    tokenizer: Tokenizer | None = None,
) -> None:
    """Count the n-grams of each style in one pass and store them as a model: CORPUS.style, or the file of --out.

    --tokenizer defaults to plain, or to that of a --language without spaces between words.
    """
    from captious._core.files import refuse_existing
    from captious.metrics.style.fitting import choose_style_tokenizer, fit, warn_of_clauses
    from captious.metrics.style.model_files import save
    from captious.probes.style_check import stream
    from captious.render import Document

    out = Path(session.output.out or f"{Path(corpora[0]).name.split('.')[0]}.style")
    if session.output.out is None and corpora[0] == "-":
        raise InputError("the captions come from standard input, which has no name: pass out=...")
    refuse_existing(out, session.output.overwrite)
    with replace(session, output=Output()).working() as step:
        rows = stream(corpora, session.reading, style_column)
        name = tokenizer or choose_style_tokenizer(session.reading.language or "")
        model = fit(rows, tokenizer=name, name=out.stem, progress=lambda done: step(f"{done:,} captions"))
        save(model, out)
    ngrams = [len(order.last) for order in model.orders]
    shown = ", ".join(f"{size:,}" for size in ngrams)
    title = f"{int(model.captions.sum()):,} captions in {len(model.styles)} styles; n-grams of orders 1 to 4: {shown}"
    styles = dict(zip(model.styles, model.captions.tolist(), strict=True))
    data = {"file": str(out), "styles": styles, "ngrams": ngrams, "signature": model.signature}
    warnings = warn_of_clauses(model)
    document = Document(f"{out}: {title}", warnings=warnings, signatures=[model.signature], data=data)
    deliver(document, replace(session.output, out=None))


@command(app)
def words(
    model: Model,
    session: Annotated[Session, Saved],
    ngrams: Annotated[tuple[str, ...], Argument("Only these n-grams of up to four words; or names of styles.")] = (),
    style: Annotated[tuple[str, ...], Option("Styles; all by default.", flags=("-s",), metavar="NAMES")] = (),
    top: Top = 30,
    n: Annotated[int | None, Option("One order only.", min=1, max=4)] = None,
    contrast: Annotated[
        tuple[Literal["tfidf", "delta"], ...],
        Option("Weights of chosen n-grams besides CNG: tf-idf over styles, Delta tf-idf.", metavar="NAMES"),
    ] = (),
) -> None:
    """Print the n-grams that make a style, or the scores of chosen ones.

    Example: captious style words books.style romantic
    Example: captious style words books.style "the moon" --style romantic
    Example: captious style words books.style not happy --contrast tfidf,delta
    """
    from captious.metrics.style.explain import StyleTable, StyleWords

    with session.working():
        loaded = _load(model)
        # People type the style without --style.
        if not style and not contrast and all(name in loaded.styles for name in ngrams):
            style, ngrams = ngrams, ()
        if contrast and not ngrams:
            raise InputError("contrast=... needs n-grams: name them after the model")
        result = StyleTable.of(loaded, ngrams, style, contrast) if ngrams else StyleWords.of(loaded, style, top, n)
    session.deliver(result)


@command(app)
def explain(
    model: Model,
    caption: Annotated[str, Argument("Any caption.")],
    session: Annotated[Session, Saved],
    style: OneStyle = None,
    top: Top = 10,
) -> None:
    """Which styles a caption is closest to, and why: every n-gram with what it adds."""
    from captious.metrics.style.explain import explain

    with session.working():
        result = explain(_load(model), caption, style, top=top)
    session.deliver(result)


@command(app)
def check(
    model: Model,
    corpus: Corpus,
    session: Annotated[Session, Only("seed", "id_column", "candidate_column", "device", "out", "overwrite", "json")],
    sample: Annotated[int, Option("Number of captions to test, drawn at random.", min=0)] = 0,
    folds: Folds = 0,
    classifier: Classifiers = (),
    seeds: Seeds = 3,
    style_column: StyleColumn = STYLE_COLUMN,
) -> None:
    """Print how often a caption scores higher under its own style than under the others; ties fail.

    On captions that the model was fitted on, the shares are too high: --folds 5 measures them on held-out captions.
    --classifier trains a classifier on the same folds, from several random seeds.

    Example: captious style check books.style books.jsonl
    Example: captious style check books.style books.jsonl --folds 5 --classifier linear
    """
    from captious.probes.style_check import check, read_styled

    if classifier and not folds:
        raise InputError("classifier=... is tested on held-out captions: pass folds=5 too")
    if classifier and sample:
        raise InputError("classifier=... is tested on all captions: leave sample=... out")
    with session.working() as step:
        styled = read_styled(corpus, session.reading, style_column)
        result = check(_load(model), styled, sample, session.resampling, step, folds)
        if classifier:
            rivals = _train_rivals(classifier, styled, folds, session.resampling.seed, seeds, step)
            result = replace(result, rivals=rivals)
    session.deliver(result)


def _train_rivals(
    names: Sequence[str], styled: StyledCorpus, folds: int, seed: int, seeds: int, step: Callable[[str], None]
) -> tuple[StyleRival, ...]:
    from captious.bias import cross_fit
    from captious.bias.classifiers import make_classifier
    from captious.probes.style_check import StyleRival, split_folds

    parts = list(split_folds(styled, folds, seed))
    rivals = []
    for name in names:
        classifier = make_classifier(name)
        step(f"training {name}")
        first, wins = cross_fit(classifier, styled.texts, styled.styles, parts, seeds)
        rivals.append(StyleRival(name, tuple(first.tolist()), tuple(wins.tolist())))
    return tuple(rivals)


@command(app)
def where(
    corpus: Corpus,
    sentence: Annotated[str, Argument("A caption, or a part of one.")],
    session: Annotated[Session, Only("candidate_column", "out", "overwrite", "json")],
    style: OneStyle = None,
    style_column: StyleColumn = STYLE_COLUMN,
) -> None:
    """In which styles a sentence occurs, as a whole caption and as part of one, and which it is closest to.

    Example: captious style where books.jsonl "the moon is full" --style romantic
    """
    from captious.probes.style_check import read_styled
    from captious.probes.style_occurrences import find_sentence

    with session.working():
        result = find_sentence(read_styled(corpus, session.reading, style_column), sentence, style)
    session.deliver(result)


@command(app)
def correlate(
    model: Model,
    rankings: Annotated[str, Argument("Rows with style, caption, rank (1 the worst), and maybe rater and set.")],
    session: Annotated[Session, Saved],
) -> None:
    """OnlyStyle against people's rankings of captions, style by style, as in Table 4 of the OnlyStyle paper."""
    from captious.probes.rankings import correlate

    with session.working():
        result = correlate(_load(model), rankings)
    session.deliver(result)


def _load(path: Path) -> StyleModel:
    from captious.metrics.style.model_files import load

    return load(path).require_contrast()
