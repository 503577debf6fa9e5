"""What an expression may name: the columns of a run's items, and the SQL that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from captious.errors import AmbiguousKey, InputError, UnknownKey, format_choices, format_suggestion
from captious.metrics.registry import find_key

Kind: TypeAlias = Literal["number", "text", "texts", "truth"]
"""What the values of a column are; ``texts``: a list of texts an item, ``truth``: true or false."""
LISTED = 12
"""Names that an error lists."""
COUNTS = ("words", "characters", "candidates")
ALIASES = {"captions": "caption", "candidate": "caption", "reference": "references"}
"""Other spellings of columns."""
STORED = ("words", "characters")
"""Counts that a run holds, because counting the words of all captions takes longer than all else."""
INPUT = "input."
"""A prefix for the name of a column of the input, where something else has that name."""


class FilterError(InputError):
    """An expression that cannot be used; ``at`` is the index of the character at fault."""

    def __init__(self, message: str, text: str = "", at: int = 0, kind: str = "filter") -> None:
        found = f" at {text[at : at + 24]!r}" if at < len(text) else ""
        super().__init__(f"{kind}, character {at + 1}{found}: {message}")
        self.message, self.at = message, at


class UnknownName(FilterError, UnknownKey):
    """An expression with a name that means nothing."""


@dataclass(frozen=True)
class FilterColumn:
    """A column that an expression may name: what its values are, and the SQL that reads them.

    The SQL is written by captious, with names of columns quoted by `quoted`. It must give null for a missing value and
    never a NaN. A number may be of any numeric type.
    """

    kind: Kind
    sql: str
    folded: str = ""
    """SQL of the texts of the column in lower case, one per line, where they are stored so: it makes ``has`` quick."""


@dataclass(frozen=True)
class FilterSchema:
    """What an expression may name."""

    columns: Mapping[str, FilterColumn]
    """Columns by name: metrics by their written form, `COUNTS`, ``id``, ``caption``, ``references``, the input's."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels by written form, of the columns that are metrics or have a label for another reason."""
    systems: Mapping[str, Mapping[str, FilterColumn]] = field(default_factory=dict)
    """What ``@`` may name, and the columns of each."""
    what: str = "metric or column"
    """What errors call that which is named."""

    def resolve(self, name: str) -> str:
        """The name of the column that a name means; an UnknownKey where it means none or several.

        >>> schema = FilterSchema({"bleu(n=4)": FilterColumn("number", ""), "width": FilterColumn("number", "")},
        ...     {"bleu(n=4)": "BLEU-4"})
        >>> schema.resolve("bleu"), schema.resolve("bleu-4"), schema.resolve("Width"), schema.resolve("input.width")
        ('bleu(n=4)', 'bleu(n=4)', 'width', 'width')
        """
        if name in self.columns and (name in self.labels or name in FACTS):
            return name
        metric, error = self._metric(name)
        if name in self.columns:
            if metric:
                raise AmbiguousKey(
                    f"{name!r} is a metric and a column of the input, expected `{metric}` or `{INPUT}{name}`"
                )
            return name
        if metric:
            return metric
        plain = name.removeprefix(INPUT)
        if plain != name and plain in self.columns and plain not in self.labels:
            return plain
        lower = ALIASES.get(name.lower(), name.lower())
        same = [lower] if lower in self.columns else [one for one in self.columns if one.lower() == lower]
        if len(same) == 1:
            return same[0]
        if len(same) > 1:
            raise AmbiguousKey(f"{name!r} names {len(same)} columns, expected one of {', '.join(same)}")
        raise error or self.unknown(name)

    def _metric(self, name: str) -> tuple[str, UnknownKey | None]:
        """The metric that a name means; where it means several, the error that says so."""
        labels = {key: label for key, label in self.labels.items() if key in self.columns}
        if not labels:
            return "", None
        try:
            return find_key(name, labels), None
        except AmbiguousKey as error:
            return "", error
        except UnknownKey:
            return "", None

    def unknown(self, name: str) -> UnknownKey:
        """The error that lists what is there, with the nearest name."""
        spellings = [*self.columns, *self.labels.values(), *(key.partition("(")[0] for key in self.labels)]
        hint = format_suggestion(name, spellings) or format_suggestion(name.lower(), spellings)
        return UnknownKey(f"no {self.what} {name[:60]!r}{format_choices(name, self.columns, hint, LISTED)}")


FACTS = ("id", "caption", "references", "image", "system", *COUNTS)
"""Columns that every run has, or that belong to captious; a column of the input with such a name needs ``input.``."""


def quoted(name: str) -> str:
    """The name of a column as SQL.

    >>> quoted('cider(idf=coco)'), quoted('a"b')
    ('"cider(idf=coco)"', '"a""b"')
    """
    return '"' + name.replace('"', '""') + '"'


def column_types(relation: Any) -> dict[str, str]:
    """The columns of a DuckDB relation with the names of their types."""
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


_WHITE = r"\t-\r\x{1c}-\x{20}\x{85}\p{Z}"
"""White space as Python's str.split takes it."""
_UNEVEN = (
    r"  |^ | $|^$|[\t-\r\x{1c}-\x{1f}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)
"""A text whose words are not separated by single spaces; the others are counted faster."""


def _words(text: str) -> str:
    """SQL of the number of words in a text."""
    words = f"regexp_extract_all({text}, '[^{_WHITE}]+')"
    return f"CASE WHEN regexp_matches({text}, '{_UNEVEN}') THEN len({words}) ELSE len(string_split({text}, ' ')) END"


def _mean(count: Callable[[str], str], texts: str) -> str:
    """SQL of the mean of a count over a list of texts."""
    alone, each = count(f"{texts}[1]"), count("one")
    return f"CAST(CASE WHEN len({texts}) = 1 THEN {alone} ELSE list_avg([{each} FOR one IN {texts}]) END AS DOUBLE)"


def run_columns(types: Mapping[str, str], labels: Mapping[str, str], table: str = "") -> dict[str, FilterColumn]:
    """The columns of a run's items that an expression may name, from the DuckDB types of what is stored.

    ``words`` and ``characters`` are counted where they are not stored. A column of the input with the name of another
    column is stored with `INPUT` before it.
    ``table`` is the name of the table in the statement, where it has several.
    """
    begin = f"{quoted(table)}." if table else ""
    columns = {key: FilterColumn("number", begin + quoted(key)) for key in labels if key in types}
    if "candidates" in types:
        columns |= caption_columns(f"{begin}candidates")
    columns |= {name: FilterColumn("number", begin + quoted(name)) for name in STORED if name in types}
    for name, kind in types.items():
        if name not in labels and name not in ("candidates", "unscored", *STORED):
            column = column_of_type(begin + quoted(name), kind)
            if column is not None:
                columns[name if name not in columns else INPUT + name] = column
    return columns


def caption_columns(candidates: str) -> dict[str, FilterColumn]:
    """What an expression may name of captions, given the SQL of a list of candidates."""
    return {
        "words": FilterColumn("number", _mean(_words, candidates)),
        "characters": FilterColumn("number", _mean("length({})".format, candidates)),
        "candidates": FilterColumn("number", f"len({candidates})"),
        "caption": FilterColumn("texts", candidates),
    }


def column_of_type(sql: str, kind: str) -> FilterColumn | None:
    """A column by its DuckDB type; None where it holds bytes."""
    if kind in ("FLOAT", "DOUBLE"):
        return FilterColumn("number", f"CASE WHEN isnan({sql}) THEN NULL ELSE {sql} END")
    if kind in _WHOLE:
        return FilterColumn("number", sql)
    if kind.startswith("DECIMAL"):
        return FilterColumn("number", f"CAST({sql} AS DOUBLE)")
    if kind in ("VARCHAR", "VARCHAR[]"):
        return FilterColumn("text" if kind == "VARCHAR" else "texts", sql)
    if kind == "BOOLEAN":
        return FilterColumn("truth", sql)
    if kind.startswith("BLOB"):
        return None
    return FilterColumn("text", f"CAST({sql} AS VARCHAR)")


_WHOLE = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")} | {
    "INTEGER",
    "UINTEGER",
}
