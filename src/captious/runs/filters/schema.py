"""The names that an expression may use: the columns of a run's items, and the SQL that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from captious.errors import AmbiguousKey, InputError, UnknownKey, format_choices, format_suggestion
from captious.metrics.registry import find_key

# Type of the values of a column; `texts`: a list of texts per item, `truth`: true or false.
Kind: TypeAlias = Literal["number", "text", "texts", "truth"]
# Number of names that an error lists.
LISTED = 12
COUNTS = ("words", "characters", "candidates")
# Other spellings of columns.
ALIASES = {"captions": "caption", "candidate": "caption", "reference": "references"}
# Counts that are stored in a run, because counting the words of all captions would dominate the time of a filter.
STORED = ("words", "characters")
# Prefix of an input column whose name is used otherwise.
INPUT = "input."


class FilterError(InputError):
    """An expression that cannot be used; ``at`` is the index of the character at fault."""

    def __init__(self, message: str, text: str = "", at: int = 0, kind: str = "filter") -> None:
        found = f" at {text[at : at + 24]!r}" if at < len(text) else ""
        super().__init__(f"{kind}, character {at + 1}{found}: {message}")
        self.message, self.at = message, at


class UnknownName(FilterError, UnknownKey):
    """An expression with an unknown name."""


@dataclass(frozen=True)
class FilterColumn:
    """A column that an expression may name: the type of its values, and the SQL that reads them.

    The SQL is written by captious, with names of columns quoted by `quote`. It must give null for a missing value and
    never a NaN. A number may be of any numeric type.
    """

    kind: Kind
    sql: str
    folded: str = ""
    """SQL of the texts of the column in lower case, one per line, if they are stored so: it makes ``has`` fast."""


@dataclass(frozen=True)
class FilterSchema:
    """The names that an expression may use."""

    columns: Mapping[str, FilterColumn]
    """Columns by name: metrics by their written form, `COUNTS`, ``id``, ``caption``, ``references``, the input's."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels by written form, of the columns that are metrics or have a label for another reason."""
    systems: Mapping[str, Mapping[str, FilterColumn]] = field(default_factory=dict)
    """The systems that ``@`` may name, with the columns of each."""
    what: str = "metric or column"
    """The word for a name in error messages."""

    def resolve(self, name: str) -> str:
        """Return the column for a name; raise UnknownKey if there is none or several.

        >>> schema = FilterSchema({"bleu(n=4)": FilterColumn("number", ""), "width": FilterColumn("number", "")},
        ...     {"bleu(n=4)": "BLEU-4"})
        >>> schema.resolve("bleu"), schema.resolve("bleu-4"), schema.resolve("Width"), schema.resolve("input.width")
        ('bleu(n=4)', 'bleu(n=4)', 'width', 'width')
        """
        if name in self.columns and (name in self.labels or name in FACTS):
            return name
        metric, error = self._find_metric(name)
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
        raise error or self.make_unknown_error(name)

    def _find_metric(self, name: str) -> tuple[str, UnknownKey | None]:
        """Return the metric for a name, and an error if the name is ambiguous."""
        labels = {key: label for key, label in self.labels.items() if key in self.columns}
        if not labels:
            return "", None
        try:
            return find_key(name, labels), None
        except AmbiguousKey as error:
            return "", error
        except UnknownKey:
            return "", None

    def make_unknown_error(self, name: str) -> UnknownKey:
        """Return the error that lists the columns and suggests the nearest name."""
        spellings = [*self.columns, *self.labels.values(), *(key.partition("(")[0] for key in self.labels)]
        hint = format_suggestion(name, spellings) or format_suggestion(name.lower(), spellings)
        return UnknownKey(f"no {self.what} {name[:60]!r}{format_choices(name, self.columns, hint, LISTED)}")


# Columns that every run has, or that belong to captious; a column of the input with such a name needs `input.`.
FACTS = ("id", "caption", "references", "image", "system", *COUNTS)


def quote(name: str) -> str:
    """Return the name of a column as a quoted SQL identifier.

    >>> quote('cider(idf=coco)'), quote('a"b')
    ('"cider(idf=coco)"', '"a""b"')
    """
    return '"' + name.replace('"', '""') + '"'


def get_column_types(relation: Any) -> dict[str, str]:
    """Return the columns of a DuckDB relation with the names of their types."""
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


# The white space of Python's str.split.
_WHITE = r"\t-\r\x{1c}-\x{20}\x{85}\p{Z}"
# Matches a text whose words are not separated by single spaces; other texts are counted by a faster function.
_UNEVEN = (
    r"  |^ | $|^$|[\t-\r\x{1c}-\x{1f}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)


def _count_words_sql(text: str) -> str:
    """Return SQL for the number of words of a text."""
    words = f"regexp_extract_all({text}, '[^{_WHITE}]+')"
    return f"CASE WHEN regexp_matches({text}, '{_UNEVEN}') THEN len({words}) ELSE len(string_split({text}, ' ')) END"


def _average_sql(count: Callable[[str], str], texts: str) -> str:
    """Return SQL for the mean of a count over a list of texts."""
    alone, each = count(f"{texts}[1]"), count("one")
    return f"CAST(CASE WHEN len({texts}) = 1 THEN {alone} ELSE list_avg([{each} FOR one IN {texts}]) END AS DOUBLE)"


def list_run_columns(types: Mapping[str, str], labels: Mapping[str, str], table: str = "") -> dict[str, FilterColumn]:
    """Return the columns of a run that an expression may name, from the DuckDB types of the stored columns.

    ``words`` and ``characters`` are counted if they are not stored. A column of the input with the name of another
    column is stored with `INPUT` before it.
    ``table`` is the name of the table, if the statement has several.
    """
    begin = f"{quote(table)}." if table else ""
    columns = {key: FilterColumn("number", begin + quote(key)) for key in labels if key in types}
    if "candidates" in types:
        columns |= list_caption_columns(f"{begin}candidates")
    columns |= {name: FilterColumn("number", begin + quote(name)) for name in STORED if name in types}
    for name, kind in types.items():
        if name not in labels and name not in ("candidates", "unscored", *STORED):
            column = make_column(begin + quote(name), kind)
            if column is not None:
                columns[name if name not in columns else INPUT + name] = column
    return columns


def list_caption_columns(candidates: str) -> dict[str, FilterColumn]:
    """Return the columns of captions that an expression may name, given the SQL of a list of candidates."""
    return {
        "words": FilterColumn("number", _average_sql(_count_words_sql, candidates)),
        "characters": FilterColumn("number", _average_sql("length({})".format, candidates)),
        "candidates": FilterColumn("number", f"len({candidates})"),
        "caption": FilterColumn("texts", candidates),
    }


def make_column(sql: str, kind: str) -> FilterColumn | None:
    """Return a column for a DuckDB type, or None if it contains bytes."""
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
