"""The filter language: what it means, what it refuses, and that it equals Python on every item."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.errors import InputError
from captious.metrics.registry import parse_all
from captious.scale.expression import parse_filter

NAN = float("nan")
METRICS = parse_all("bleu(n=1),bleu(n=2),cider(idf=coco),rouge")
VALUES = {
    "bleu(n=1)": np.array([0.5, 0.9, 0.2, NAN]),
    "bleu(n=2)": np.array([0.1, 0.3, 0.0, NAN]),
    "cider(idf=coco)": np.array([0.4, NAN, 1.6, 0.2]),
    "rouge": np.array([0.3, 0.6, 0.5, 0.4]),
    "words": np.array([3, 5, 8, 13]),
    "characters": np.array([12.0, 20.0, 30.0, 60.0]),
    "candidates": np.array([1.0, 1.0, 2.0, 1.0]),
    "id": pa.array(["7", "8", "9", "10"]),
    "caption": pa.array(["a cat", "a dog", "two\ncats", ""]),
}


def passing(text):
    """Ids that pass every clause."""
    clauses = [clause.truth(VALUES, 4).holds for clause in parse_filter(text, METRICS).clauses]
    return VALUES["id"].filter(pa.array(np.logical_and.reduce(clauses))).to_pylist()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("words > 4", ["8", "9", "10"]),
        ("cider > 0.3 and words > 4", ["9"]),
        ("CIDEr > 0.3", ["7", "9"]),
        ("0.3 < rouge <= 0.5", ["9", "10"]),
        ("bleu(n=2) > 0.05", ["7", "8"]),
        ("`bleu(n=2)` > 0.05 and `bleu(n=1)` < 0.6", ["7"]),
        ('"BLEU-2" > 0.05', ["7", "8"]),
        ("bleu(n=2) / bleu(n=1) > 0.25", ["8"]),
        ("-rouge + 1 > 2 * (0.5 - 0.2)", ["7"]),  # 0.7 and no other above 0.6; 1 - 0.4 is 0.6 itself
        ("words in (3, 13)", ["7", "10"]),
        ("words not in [3, 13]", ["8", "9"]),
        ('id in ("7", "10")', ["7", "10"]),
        ('id != "7" and not words > 8', ["8", "9"]),
        ('"cat" in caption', ["7", "9"]),
        ('"cat" not in caption', ["8", "10"]),
        ("1 < 2", ["7", "8", "9", "10"]),
        ("candidates == 2 or characters >= 60", ["9", "10"]),
        ("words\n  > 4 and\twords < 10", ["8", "9"]),
    ],
)
def test_what_passes(text, ids):
    assert passing(text) == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        # Item 8 has no CIDEr: neither a comparison nor its opposite holds for it.
        ("cider > 0", ["7", "9", "10"]),
        ("not cider > 0", []),
        ("cider != 0.4", ["9", "10"]),
        ("cider + 1 > -5", ["7", "9", "10"]),
        # What holds without the missing value holds.
        ("cider > 0.3 or words == 5", ["7", "8", "9"]),
        ("not (cider > 9 and words > 100)", ["7", "8", "9", "10"]),
        # Division by zero has no value: item 9 has no unigram of weight here, item 10 no BLEU.
        ("rouge / bleu(n=2) < 1000", ["7", "8"]),
        ("rouge / bleu(n=2) >= 1000", []),
    ],
)
def test_a_missing_value_never_passes(text, ids):
    assert passing(text) == ids


def test_clauses_are_the_parts_of_the_conjunction():
    read = parse_filter("(rouge > 0.3 and (words > 4)) and (cider > 1 or words > 6)", METRICS)
    assert [clause.text for clause in read.clauses] == ["rouge > 0.3", "words > 4", "cider > 1 or words > 6"]
    assert [clause.columns for clause in read.clauses] == [("rouge",), ("words",), ("cider(idf=coco)", "words")]


def test_shares_are_ranks_over_all_items():
    read = parse_filter("top(rouge, 0.3) and words > quantile(words, 0.5) and bottom(rouge + cider, 0.25)", METRICS)
    assert [(one.text, one.share, one.highest) for one in read.quantiles] == [
        ("top(rouge, 0.3)", 0.3, True),
        ("quantile(words, 0.5)", 0.5, False),
        ("bottom(rouge + cider, 0.25)", 0.25, False),
    ]
    top, median, bottom = read.quantiles
    # Of ten values in ascending order, the three highest begin at index 7; five lie at or below index 4.
    assert (top.rank(10), median.rank(10), bottom.rank(10)) == (7, 4, 2)
    assert [top.rank(items) for items in (1, 2, 100)] == [0, 1, 70]
    thresholds = {"top(rouge, 0.3)": 0.5, "quantile(words, 0.5)": 5.0, "bottom(rouge + cider, 0.25)": 0.7}
    outcome = [clause.truth({**VALUES, **thresholds}, 4).holds.tolist() for clause in read.clauses]
    assert outcome == [[False, True, True, False], [False, False, True, True], [True, False, False, True]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "filter: it is empty, expected an expression such as clipscore > 0.28 and words > 4"),
        (
            "cidr > 0.3",
            "filter, character 1 at 'cidr > 0.3': no metric or column 'cidr', there are bleu(n=1), bleu(n=2), "
            "cider(idf=coco), rouge, words, characters, candidates, id, caption; did you mean 'cider'?",
        ),
        (
            "words > 4 and bleu > 0.1",
            "filter, character 15 at 'bleu > 0.1': bleu names 2 metrics, expected one of bleu(n=1), bleu(n=2)",
        ),
        ("ROUGE-L > 0.3", "id, caption; ROUGE-L needs back quotes: `ROUGE-L`"),
        ("`ROUGE-L` > 0.3 and word > 4", "id, caption; did you mean 'words'?"),
        ("words >", "something is missing at the end"),
        ("words > 4 rouge", "not understood"),
        ("words = 4", "expected == to compare, found ="),
        ("words > 4 && rouge > 1", "expected 'and', found '&&'"),
        ("(words > 4) & (rouge > 1)", "filter, character 16 at 'rouge > 1)': expected 'and' in place of &"),
        ("words > 4 AND rouge > 1", "expected 'and', found 'AND'"),
        ("words ** 2 > 4", "filter, character 10 at '2 > 4': expected + - * or /"),
        ("(words > 4", "a parenthesis is missing"),
        ("words", "filter, character 1 at 'words': expected a comparison such as clipscore > 0.28"),
        ("words + 3 and rouge > 1", "filter, character 1 at 'words + 3 and rouge > 1': expected a comparison"),
        ("id > 4", "id is a text and has no order, expected ==, != or in"),
        ("id == 4", 'id is a text, expected one in quotation marks beside it, such as "4"'),
        ("id + 1 > 4", "id is a text, which compares with no number"),
        ('words > "four"', "no metric or column 'four', there are"),
        ('words > "four"', "a text compares with no number"),
        ("words in 5", "expected a list after 'in'"),
        ("words in ()", "expected a list after 'in'"),
        ("words > (rouge > 0.1)", "expected a number here, found a condition"),
        ("words > True", "True is no number"),
        ("words > 1j", "1j is no number"),
        ("words > " + "9" * 400, "the number is too large"),
        ("words is 4", "'is' is not understood, expected == or !="),
        ("words > `rouge", "a text that begins with ` has no end"),
        ("words > 4 # long", "filter, character 11 at '# long': # is not understood here"),
        ("top(rouge)", "expected top(metric, share), such as top(cider, 0.3)"),
        ("top(rouge, 30)", "expected a share between 0 and 1, such as top(cider, 0.3)"),
        ("top(rouge, 0.3) > 1", "top(...) holds or fails and is no number, try quantile"),
        ("rouge > quantile(3, 0.5)", "expected a metric or a column, found a number alone"),
        ("top(quantile(rouge, 0.1), 0.3)", "a quantile cannot be one of another quantile"),
        ("__import__('os').system('true') > 1", "is not understood, expected numbers and names"),
        ("words[0] > 1", "'words[0]' is not understood, expected numbers and names"),
        ("(lambda: 1)() > 1", "is not understood, expected numbers and names"),
        ("[w for w in words] > 1", "is not understood, expected numbers and names"),
        ("(" * 1500 + "words > 4" + ")" * 1500, "filter"),
        ("not " * 900 + "words > 4", "nested too deeply"),
        ("words + " * 400 + "words > 4", "nested too deeply"),
        ("words > 4 or " * 400 + "words > 5", "it has 5209 characters, expected at most 4000"),
        ("words > 4\0", "filter"),
        ("ünïcödé_" * 3 + " > 4 and `é` > 1", "no metric or column"),
        ("rouge > 0 and `é` > x", "filter, character 15 at '`é` > x': no metric or column 'é'"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(InputError) as error:
        parse_filter(text, METRICS)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


NUMBERS = st.sampled_from(["a", "b", "c", "0.5", "2", "0"])
SUMS = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=4,
)
SIGNS = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(SUMS, SIGNS, SUMS).map(" ".join),
        st.tuples(SUMS, SIGNS, SUMS, SIGNS, SUMS).map(" ".join),
        st.tuples(SUMS, st.sampled_from(["in", "not in"]), st.just("(0.5, 2, 0)")).map(" ".join),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda part: f"(not {part})"),
    ),
    max_leaves=4,
)
CELLS = st.one_of(st.just(NAN), st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.5]), st.floats(-4, 4))


class Known(float):
    """A number as Python computes with it; NaN stands for a missing one, and for a result that is not finite."""

    def _result(self, compute):
        try:
            result = compute()
        except ZeroDivisionError:
            return Known(NAN)
        return Known(result if math.isfinite(result) else NAN)

    def __add__(self, other):
        return self._result(lambda: float(self) + float(other))

    def __sub__(self, other):
        return self._result(lambda: float(self) - float(other))

    def __mul__(self, other):
        return self._result(lambda: float(self) * float(other))

    def __truediv__(self, other):
        return self._result(lambda: float(self) / float(other))


def plain(text, row):
    """The three-valued outcome for one item: the expression is run by Python for every way the unknown may turn out.

    Comparisons are replaced by their outcome, an unknown one by a letter that is both true and false in turn. That
    equals Kleene's logic wherever no comparison occurs twice, so each occurrence has its own letter.
    """
    import ast
    from itertools import product

    unknown = []

    class Outcome(ast.NodeTransformer):
        def visit_Compare(self, node):
            sides = [Number().visit(side) for side in (node.left, *node.comparators)]
            links = []
            for left, sign, right in zip(sides, node.ops, sides[1:], strict=False):
                elements = right.elts if isinstance(right, ast.Tuple) else [right]
                code = [
                    compile(ast.fix_missing_locations(ast.Expression(side)), "", "eval") for side in (left, *elements)
                ]
                numbers = [eval(one, {"Known": Known, **row}) for one in code]
                if any(math.isnan(number) for number in numbers):
                    unknown.append(f"u{len(unknown)}")
                    links.append(ast.Name(unknown[-1], ast.Load()))
                    continue
                names = {f"n{index}": number for index, number in enumerate(numbers)}
                right = ast.Tuple([ast.Name(name, ast.Load()) for name in list(names)[1:]], ast.Load())
                side = right if isinstance(sign, (ast.In, ast.NotIn)) else right.elts[0]
                link = ast.Compare(ast.Name("n0", ast.Load()), [sign], [side])
                outcome = eval(compile(ast.fix_missing_locations(ast.Expression(link)), "", "eval"), names)
                links.append(ast.Constant(outcome))
            return ast.BoolOp(ast.And(), links) if len(links) > 1 else links[0]

    class Number(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.Call(ast.Name("Known", ast.Load()), [node], [])

    code = compile(ast.fix_missing_locations(Outcome().visit(ast.parse(text, mode="eval"))), "", "eval")
    outcomes = {
        bool(eval(code, dict(zip(unknown, turn, strict=True)))) for turn in product([True, False], repeat=len(unknown))
    }
    return outcomes.pop() if len(outcomes) == 1 else None


@given(CONDITIONS, st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5))
def test_it_equals_python_on_every_item(text, rows):
    names = {"a": "rouge", "b": "cider(idf=coco)", "c": "words"}
    columns = {name: np.array([row[index] for row in rows]) for index, name in enumerate(names.values())}
    written = "".join(f"`{names[letter]}`" if letter in names and alone else letter for letter, alone in letters(text))
    clauses = [clause.truth(columns, len(rows)) for clause in parse_filter(written, METRICS).clauses]
    for index, row in enumerate(rows):
        expected = plain(text, dict(zip("abc", map(Known, row), strict=True)))
        holds = all(clause.holds[index] for clause in clauses)
        fails = any(clause.fails[index] for clause in clauses)
        assert (True if holds else False if fails else None) == expected


def letters(text):
    """Each character, and whether it stands alone."""
    padded = f" {text} "
    for index in range(1, len(padded) - 1):
        around = padded[index - 1] + padded[index + 1]
        yield padded[index], not any(character.isalpha() for character in around)


def test_a_name_alone_is_the_metric_that_a_report_finds_by_it():
    assert parse_filter("bleu > 0.1", parse_all("bleu")).columns == ("bleu(n=4)",)
