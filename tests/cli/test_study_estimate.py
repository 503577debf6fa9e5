"""``captious study estimate`` and the commands next to it, as a user types them on the demo set."""

import json
import re

import pytest

from captious.data import DEMO

RATINGS = DEMO / "few-ratings.jsonl"
SYSTEMS = ("expert", "solid", "sloppy", "parrot")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A comparison of the four captioners, and its folder."""
    import captious

    folder = tmp_path_factory.mktemp("demo") / "runs"
    demo = captious.demo()
    captious.compare([demo.systems[name] for name in SYSTEMS], metrics="rouge,cider").save(folder)
    return folder


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (("estimate", "--using", "cider"), "expert wins: people would rate it 4.20 (3.56–4.83), and solid 3.65."),
        (("threshold", "--metric", "cider", "--good", 3, "--at-least", 0.8), "Keep 'cider >= 0.708934': 92 % of what"),
        (("calibrate", "--metric", "cider"), "The rating of a caption (1 to 5) is predicted with an error of 0.676;"),
        (("audit", "--judge", "cider"), "No fault of CIDEr-D was found (80 rated captions of 20 images)."),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_the_line_after_the_title_is_the_answer(run, runs, command, answer):
    name, *options = command
    code, out, error = run("study", name, RATINGS, runs, *options)
    assert code == 0, error
    assert out.splitlines()[1].startswith(answer), out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("estimate", "--using", "cidr"), r"--using cidr: no such number in .*; did you mean 'cider'\?"),
        (("estimate", "--anytime", "--planned", 20), "--anytime as well as --planned, expected one of them"),
        (("estimate", "--looked", 10), "--looked needs --planned"),
        (("estimate", "--share", 9), "--share 9: ratings are 1 to 5"),
        (("estimate", "--precision", -1), "--precision -1.0, expected a number above 0"),
        (("estimate", "--level", 95), "confidence level 95.0, expected a number between 0 and 1"),
        (("threshold", "--metric", "cidr", "--good", 3), r"--metric cidr: no such number in .*did you mean 'cider'\?"),
        (("calibrate", "--metric", "spice"), "no metric 'spice'; there are rouge, cider"),
        (("audit", "--judge", "fleur"), "no metric 'fleur'; there are rouge, cider"),
        (("audit", "--judge", "cider", "--same-maker", "x"), "--same-maker x: expected JUDGE=SYSTEM"),
        (("audit", "--same-maker", "cider=x"), "cider=x: no such system, expected one of expert, parrot"),
        (("audit", "--arena", "nowhere"), "nowhere: expected the output of captious arena"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_wrong_input_is_one_line_in_the_words_of_the_command(run, runs, line, message):
    name, *options = line
    code, out, error = run("study", name, RATINGS, runs, *options)
    (refusal,) = [text for text in error.splitlines() if text.startswith("captious: ")]
    assert code == 2 and not out
    assert re.search(message, refusal), refusal


def test_a_draw_is_never_written_over(run, runs, tmp_path):
    drawn = tmp_path / "next.jsonl"
    code, out, error = run("study", "choose", runs, "--using", "cider", "--next", 15, "--out", drawn)
    assert code == 0 and out.splitlines()[1].startswith("Rate 15 of 60 images next, drawn in 5 strata"), error
    rows = [json.loads(line) for line in drawn.read_text().splitlines()]
    assert {row["probability"] for row in rows} == {0.25} and len({row["id"] for row in rows}) == 15
    assert run("study", "choose", runs, "--next", 5, "--out", drawn)[0] == 2
    assert len(drawn.read_text().splitlines()) == len(rows)
    code, _, error = run("study", "choose", runs, "--next", 61, "--out", tmp_path / "more.jsonl")
    assert code == 2 and "--next 61: expected at most the 60 images that are not rated yet" in error
    assert not (tmp_path / "more.jsonl").exists()
