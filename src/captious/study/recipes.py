"""A benchmark protocol as a value: where the data lies, what is dropped, how ratings become rows, which tau."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from captious.errors import InputError, nearest, require
from captious.render import Document, Result, Text


@dataclass(frozen=True)
class Layout:
    """One form in which people have the data: files in the folder, and what their columns are called."""

    ratings: str
    references: tuple[str, ...] = ()
    """Files of references by image, the first that exists; none where the rows carry their own."""
    format: Literal["rows", "flickr8k", "clipscore"] = "rows"
    """``rows``: any file that ``captious.read`` takes, one rated caption or pair a row. ``flickr8k``: the text files of
    the original release. ``clipscore``: ``{image: {ground_truth: […], human_judgement: [{caption, rating}]}}``."""
    images: str | None = None
    """Folder of the images, where it is there."""
    id: str | None = None
    image: str | None = None
    caption: str | None = None
    rating: str | tuple[str, ...] | None = None
    """One column, of numbers, lists or ``{rater: number}``; or several, one for each rater."""
    system: str | None = None
    category: str | None = None
    rater: str | None = None
    preferred: str | None = None


@dataclass(frozen=True)
class Recipe:
    """A protocol that can be repeated. Every field that can move a number is printed with the result."""

    name: str
    layouts: tuple[Layout, ...]
    title: str = ""
    kind: Literal["ratings", "pairs"] = "ratings"
    own: Literal["keep", "drop", "unreference"] = "keep"
    """A candidate that is one of its image's references: kept; dropped; or kept and taken out of the references."""
    rows: Literal["each", "mean"] = "each"
    """Every rating is a row, or the mean of a caption's ratings is one."""
    tau: Literal["b", "c"] = "b"
    scale: tuple[float, float] | None = None
    ties: Literal["half", "strict"] = "half"
    """Of pairs: a metric that cannot tell two captions apart is half right, or wrong."""
    expected: int | None = None
    """Rows that the full data gives; another number is a warning."""
    source: str = ""
    """Where to get the data."""
    citation: str = ""
    notes: tuple[str, ...] = ()

    def protocol(self, headline: str = "") -> list[str]:
        """What is printed with the result, which metrics are ranked by the headline."""
        lines = [self.title or self.name]
        if self.kind == "pairs":
            lines.append(
                f"pairs: a tie of the metric counts {'½' if self.ties == 'half' else 'as wrong'}; both printed"
            )
        else:
            lines.append(
                "rows: " + ("every rating is a row" if self.rows == "each" else "the mean of a caption's ratings")
            )
            variant = headline[-1] if headline in ("tau_b", "tau_c") else self.tau if not headline else ""
            if variant:
                lines.append(f"headline: Kendall's tau-{variant}; the other variant and the tie rates stand beside it")
            else:
                lines.append(f"headline: {headline}; both variants of Kendall's tau stand beside it")
        if self.scale:
            lines.append(f"scale: {self.scale[0]:g} to {self.scale[1]:g}")
        own = {
            "keep": "candidates that are among the references are kept",
            "drop": "candidates that are among their image's references are dropped",
            "unreference": "a candidate among its image's references is taken out of them",
        }
        lines.append(f"references: {own[self.own]}")
        return [*lines, *self.notes]


def from_toml(path: str | Path) -> Recipe:
    """A recipe from a TOML file: the fields of `Recipe`, and one ``[[layouts]]`` table per `Layout`."""
    path = Path(path)
    try:
        table = _toml().loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such recipe") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: not a recipe in TOML ({str(error).splitlines()[0]})") from None
    layouts = table.pop("layouts", [])
    if not isinstance(layouts, list) or not layouts:
        raise InputError(f"{path}: no [[layouts]] table, expected at least one that names the file of ratings")
    parts = tuple(_build(Layout, layout, f"{path}: [[layouts]] {number}") for number, layout in enumerate(layouts, 1))
    recipe: Recipe = _build(Recipe, {"name": path.stem, **table, "layouts": parts}, str(path))
    return recipe


def recipe_named(name: str) -> Recipe | None:
    """A built-in recipe, one from a TOML file, or None where the name is that of a file."""
    if name.endswith(".toml"):
        return from_toml(name)
    if name in RECIPES:
        return RECIPES[name]
    if not Path(name).exists() and "." not in name:
        raise InputError(f"{name}: no such file or recipe, recipes: {', '.join(RECIPES)}{nearest(name, RECIPES)}")
    return None


def _build(kind: Any, table: dict[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    for name, value in table.items():
        if name not in known:
            raise InputError(f"{where}: unknown field {name!r}, known: {', '.join(known)}{nearest(name, known)}")
        if get_origin(hints[name]) is Literal and value not in (choices := get_args(hints[name])):
            raise InputError(f"{where}: {name} = {value!r}, expected one of {', '.join(choices)}")
        if isinstance(value, list):
            table[name] = tuple(value)
    try:
        return kind(**table)
    except TypeError:
        raise InputError(f"{where}: no field 'ratings', expected the name of the file of ratings") from None


def _toml() -> Any:
    return require("tomllib" if sys.version_info >= (3, 11) else "tomli", "study")


_COCO = ("val2014.jsonl.gz", "../coco/val2014.jsonl.gz", "captions_val2014.json", "../coco/karpathy_test.jsonl")

FLICKR8K_EXPERT = Recipe(
    name="flickr8k-expert",
    title="Flickr8k-Expert: 5,664 captions of 1,000 images, three experts each",
    layouts=(
        Layout(
            "expert.jsonl", ("captions.jsonl",), image="image", caption="caption", rating="ratings", images="images"
        ),
        Layout("ExpertAnnotations.txt", ("Flickr8k.token.txt",), format="flickr8k", images="Flicker8k_Dataset"),
        Layout("flickr8k.json", format="clipscore", images="images"),
    ),
    own="drop",
    tau="c",
    scale=(1, 4),
    expected=16_992,
    source="Flickr8k_text.zip of Hodosh et al. (ExpertAnnotations.txt, Flickr8k.token.txt), or flickr8k.json of "
    "jmhessel/clipscore",
    citation="Hodosh, Young, Hockenmaier 2013, JAIR 47",
    notes=("averaging the three experts first gives other numbers: not done",),
)

FLICKR8K_CF = Recipe(
    name="flickr8k-cf",
    title="Flickr8k-CF: 47,830 image–caption pairs, share of yes votes of three or more crowd workers",
    layouts=(
        Layout(
            "crowdflower.jsonl", ("captions.jsonl",), image="image", caption="caption", rating="rating", images="images"
        ),
        Layout("CrowdFlowerAnnotations.txt", ("Flickr8k.token.txt",), format="flickr8k", images="Flicker8k_Dataset"),
        Layout("crowdflower_flickr8k.json", format="clipscore", images="images"),
    ),
    own="unreference",
    tau="b",
    scale=(0, 1),
    expected=47_830,
    source="Flickr8k_text.zip of Hodosh et al. (CrowdFlowerAnnotations.txt, Flickr8k.token.txt), or "
    "crowdflower_flickr8k.json of jmhessel/clipscore",
    citation="Hodosh, Young, Hockenmaier 2013, JAIR 47",
)

COMPOSITE = Recipe(
    name="composite",
    title="Composite: 3,995 images of Flickr8k, Flickr30k and COCO, three captions each, correctness 1 to 5",
    layouts=(
        Layout("composite.jsonl", image="image", caption="caption", rating="rating"),
        Layout("composite.json", format="clipscore"),
    ),
    tau="c",
    scale=(1, 5),
    expected=11_985,
    source="the AMT_eval folder of Aditya et al., made into rows of image, caption, rating and references",
    citation="Aditya et al. 2015, arXiv:1511.03292",
    notes=("papers differ on candidates equal to a reference (UMIC keeps them): see references above",),
)

PASCAL50S = Recipe(
    name="pascal50s",
    title="Pascal-50S: 4 × 1,000 caption pairs (HC, HI, HM, MM), the caption that most of 48 people prefer",
    kind="pairs",
    layouts=(Layout("pairs.jsonl", image="image", caption="captions", preferred="preferred"),),
    expected=4_000,
    source="Vedantam et al., vrama91.github.io/cider, made into rows of image, captions, preferred, category and "
    "references",
    citation="Vedantam, Zitnick, Parikh 2015, CVPR",
    notes=("the mean is the unweighted mean of the categories",),
)

CAPEVAL1K = Recipe(
    name="capeval1k",
    title="CapEval1k: 1,000 captions of 250 COCO images by four models, human score 0 to 1",
    layouts=(Layout("capeval1k.jsonl", _COCO, id="id", image="image", caption="caption", rating="human"),),
    tau="c",
    scale=(0, 1),
    expected=1_000,
    source="hwanheelee1993/UMIC (capeval1k), references from COCO val2014",
    citation="Lee et al. 2021, ACL",
    notes=("the paper reports tau-b under a protocol that is not quite clear; both variants are printed",),
)

THUMB = Recipe(
    name="thumb",
    title="THumB 1.0: 500 COCO images, four models and a human caption each",
    layouts=(
        Layout("mscoco_THumB-1.0.jsonl", _COCO, image="image", caption="hyp", rating="human_score", system="SYS"),
        Layout(
            "mscoco/mscoco_THumB-1.0.jsonl", _COCO, image="image", caption="hyp", rating="human_score", system="SYS"
        ),
    ),
    own="unreference",
    tau="b",
    source="jungokasai/THumB (mscoco/mscoco_THumB-1.0.jsonl), references from COCO val2014",
    citation="Kasai et al. 2022, NAACL",
)

DECAPBENCH = Recipe(
    name="decapbench",
    title="DeCapBench-style ratings of long captions: the same images described by several models",
    layouts=(
        Layout("ratings.jsonl", ("references.jsonl",), image="image", caption="caption", rating="rating"),
        Layout("ratings.jsonl", image="image", caption="caption", rating="rating"),
    ),
    rows="mean",
    tau="b",
    source="rows of image, system, caption, rating (a number or one per rater), and references if a metric needs them",
    citation="Ye et al. 2025, ICLR",
    notes=("sample tau: Kendall within each image, averaged over images; 1−R² with the metric's own sum of squares",),
)

IIW = Recipe(
    name="iiw",
    title="ImageInWords side-by-sides: which of two long descriptions is better, on five points",
    kind="pairs",
    layouts=(
        Layout("side_by_side.jsonl", image="image", caption="captions", category="aspect", preferred="preferred"),
    ),
    source="google/imageinwords, datasets/*/data.jsonl (the fields iiw-human-sxs-*), made into rows of image, captions,"
    " aspect and preferred: 0 or 1, or null for a tie of the people, which is left out",
    citation="Garg et al. 2024, EMNLP",
)

RECIPES = {
    recipe.name: recipe
    for recipe in (FLICKR8K_EXPERT, FLICKR8K_CF, COMPOSITE, PASCAL50S, CAPEVAL1K, THUMB, DECAPBENCH, IIW)
}


@dataclass(frozen=True, repr=False)
class Catalog(Result):
    """The benchmarks that have a recipe."""

    recipes: tuple[Recipe, ...] = tuple(RECIPES.values())

    def __repr__(self) -> str:
        return f"Catalog({', '.join(recipe.name for recipe in self.recipes)})"

    def document(self) -> Document:
        """Each recipe's protocol, the files that are looked for, and where to get them."""
        sections = []
        for recipe in self.recipes:
            files = "; or ".join(" + ".join([layout.ratings, *layout.references[:1]]) for layout in recipe.layouts)
            lines = [*recipe.protocol(), f"files: {files}", f"source: {recipe.source}", recipe.citation]
            sections.append(Text(lines, recipe.name, bullets=True))
        data = {recipe.name: asdict(recipe) for recipe in self.recipes}
        return Document("Benchmarks that have a recipe", "", sections, data=data, name="recipes")
