r"""The filter language: one expression over the scores, texts and further columns of items, executed by DuckDB.

    clipscore > 0.28 and words > 4
    0.2 < cider <= 1.5 and not (caption has "watermark" or id in ("7", "12"))
    top(clipscore, 0.3) and cider@sat > cider@oscar and language == "en"

How it is used::

    schema = FilterSchema(list_run_columns(types, labels), labels) # the names: see `FilterColumn`
    filter = parse_filter("top(cider, 0.3) and words > 4", schema) # a FilterError names the character
    thresholds = find_thresholds(connection, "items", filter.quantiles)
    condition = filter.condition(thresholds)                       # .sql and .parameters
    connection.execute(f"SELECT id FROM items WHERE {condition.sql}", condition.parameters)

``types`` are the columns of a DuckDB relation with the names of their types (`get_column_types`), ``labels`` those of
the metrics among them by written form. The SQL of a condition consists of words of this module, of the SQL of the
schema's columns, and of named parameters: no text of a user becomes SQL. A name in an expression is only ever
looked up in the schema. Parameters are called ``$f0``, ``$f1``, …, or begin with another ``prefix``, so that several
conditions and parameters of the caller fit into one statement.

A filter may be compiled against several tables. The explorer of several systems parses the text once for each system,
with a schema whose columns read that system, and whose ``systems`` resolve names such as ``cider@sat``.
`match_rows` filters an Arrow table in memory, `parse_formula` parses pure arithmetic, which is computed in Python.

Semantics of an expression:

- ``and``, ``or``, ``not``, parentheses; ``< <= > >= == !=``, also ``0.2 < cider < 2``, and ``=`` for ``==``;
  ``+ - * /``; ``in`` and ``not in`` with a list.
- ``has`` finds a part of a text, case-insensitive; ``"dog" in caption`` is its case-sensitive form. ``matches`` finds a
  regular expression (RE2). If a column has several texts, as ``caption`` may have, one that passes is enough.
- ``is missing``, ``is not missing``, ``is present``.
- ``top(x, 0.3)`` is true for the 30 % of items with the highest values, ``bottom`` for those with the lowest, among
  the items that have a value;
  ``quantile(x, 0.9)`` is a number.
- A name is the written form, label or short name of a metric, or the name of a column. A name with characters of the
  language, such as spaces, is written in back quotes. A hyphen or a point inside a name belongs to it: ``bleu-1`` is
  BLEU-1, and ``bleu - 1`` is a difference. ``cider@sat`` and ``sat.cider`` are the values in one of several runs.
  ``input.NAME`` is a column of the input whose name also means something else.
- ``words`` and ``characters`` are means over the candidates of an item, as all metrics average them. Words are
  separated by white space. ``candidates`` is their number.
- A value that is missing is neither above nor below anything, and arithmetic whose result is not finite has none. A
  clause that depends on a missing value is unknown, and an unknown clause does not pass.
"""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
