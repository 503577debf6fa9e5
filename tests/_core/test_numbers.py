"""One strict reader of numbers: what Python's float takes and people do not mean is refused everywhere."""

import pytest

import captious
from captious._core.numbers import parse_number, parse_whole
from captious.errors import InputError
from captious.gating.margins import AllowedLoss
from captious.studio.owner.simulate import read_share

ODD = ["1_000", "١٢", "３", "0x10", "1,5", "½", "", "1e", "--1", "1 2"]


@pytest.mark.parametrize("text", ODD)
def test_what_is_no_number(text):
    for parse in (parse_number, parse_whole):
        with pytest.raises(ValueError, match="is not a number"):
            parse(text)


@pytest.mark.parametrize(("text", "value"), [("1", 1), (" -2.50 ", -2.5), (".5", 0.5), ("3.", 3), ("+1E-2", 0.01)])
def test_what_is_a_number(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["1_000", "١", "３%"])
def test_margins_and_parameters(text):
    with pytest.raises(InputError, match=f"margin '{text}', expected "):
        AllowedLoss.of(text)
    with pytest.raises(InputError, match=r"n.*expected a whole number"):
        captious.metric(f"bleu(n={text})")
    with pytest.raises(InputError, match="expected a kind and its share"):
        read_share([f"careful={text}"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--raters", "1_0"), "'--raters': '1_0' is not a valid whole number"),
        (("--raters", "２"), "'--raters': '２' is not a valid whole number"),
        (("--tau", "٤"), "'--tau': '٤' is not a valid number"),
    ],
)
def test_options(run, option, message):
    code, out, error = run("study", "power", "--difference", 3, *option)
    assert (code, out) == (2, "") and message in error


def test_lists_of_numbers(run):
    code, _, error = run("study", "combine", "ratings.jsonl", "--factors", "1_0,2")
    assert code == 2 and "--factors 1_0: expected a number" in error
