"""study.toml: what it may say, and one line for every mistake."""

from dataclasses import fields
from pathlib import Path

import pytest

from captious.errors import InputError
from captious.studio.collect._panels import RaterPanel
from captious.studio.collect._subjects import read_subjects
from captious.studio.collect.study_plan import (
    Aspect,
    Checks,
    LabelOption,
    Participants,
    Plan,
    Source,
    Thresholds,
    parse_plan,
    read_plan,
)

PATH = Path("study.toml")
TOP = 'title = "Dogs"\nkind = "ratings"\ncaptions = ["a.jsonl"]\n'
ASPECT = '[[aspects]]\nname = "overall"\nquestion = "How good?"\n'
LABELS = 'title = "Ages"\nkind = "labels"\nimages = "photos"\n'
OPTIONS = "".join(f'[[options]]\nname = "{name}"\nkey = "{name[0]}"\n' for name in ("young", "old", "none"))

WHOLE = '''title = "Which captioner describes best?"
kind = "ratings"                 # ratings | ranking | pairs | yesno | labels
captions = ["preds/sat.jsonl", "preds/oscar.jsonl"]     # the file is the system, or a column system
references = "refs.json"
show_references = true           # as in CapEval1k
images = "photos/"
together = 4                     # captions of one image on one page, order shuffled and recorded
overlap = 3                      # ratings per caption
per_rater = 40                   # tasks, then the end page
lease = "20 min"
instructions = """
Rate the captions.

- Use the whole scale.
"""
consent = "…"                    # optional page before the first task

[[aspects]]
name = "overall"
question = "How good is this caption for the image?"
scale = [1, 5]
ends = ["very bad", "very good"]
faults = ["a plate of food and food: grammatical but odd", "a plate of fruits: too general"]

[checks]
gold = "gold.jsonl"              # task ids with the expected answer or range; silent
every = 12
flag = { failed = 2, seconds = 3 }   # flags for the owner; never rejects by itself
repeat = 2                       # tasks shown again, for consistency

[participants]
countries = ["Ireland"]
languages = ["English", "Irish"]
approval = 95
submissions = 100
currency = "EUR"

[panel]
name = "prolific"                # or connect, sona, another one
completed = "C1ABCDEF"
full = "C2FULL"                  # paid screen-out, so that no latecomer goes empty-handed
'''


def test_every_key_arrives(tmp_path):
    (tmp_path / "study.toml").write_text(WHOLE, encoding="utf-8")
    plan = read_plan(tmp_path / "study.toml")
    assert (plan.title, plan.kind, plan.together) == ("Which captioner describes best?", "ratings", 4)
    assert plan.captions == ("preds/sat.jsonl", "preds/oscar.jsonl") and plan.lease == 1200
    assert plan.checks == Checks("gold.jsonl", 12, 2, Thresholds(2, 3.0))
    assert plan.panel == RaterPanel(
        "prolific", "PROLIFIC_PID", ("STUDY_ID", "SESSION_ID"), completed="C1ABCDEF", full="C2FULL"
    )
    assert plan.participants == Participants(("Ireland",), ("English", "Irish"), 95, 100, currency="EUR")
    (aspect,) = plan.aspects
    assert aspect.points == (1, 2, 3, 4, 5) and aspect.ends == ("very bad", "very good") and len(aspect.faults) == 2
    assert plan.summary == "Rate the captions." and plan.details == "- Use the whole scale."
    assert plan.text == WHOLE and plan.file("preds/sat.jsonl") == tmp_path / "preds" / "sat.jsonl"


def test_the_digest_is_that_of_the_text():
    one, other = (parse_plan(TOP + ASPECT + end, PATH) for end in ("", "# a remark\n"))
    assert one.digest != other.digest == parse_plan(TOP + ASPECT + "# a remark\n", Path("elsewhere.toml")).digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no title, expected a line of text"),
        ('title = "x"\n', "no kind, expected one of ratings, ranking, pairs, yesno, labels"),
        ('title = " "\nkind = "pairs"\n', "no title, expected a line of text"),
        ('title = "a\\nb"\nkind = "pairs"\n', "title = 'a\\nb', expected a line of text"),
        ('title = 3\nkind = "pairs"\n', "title = 3, expected a line of text"),
        (
            'title = "x"\nkind = "rating"\n',
            "kind = 'rating', expected one of ratings, ranking, pairs, yesno, labels; did you mean 'ratings'?",
        ),
        (TOP + "overlaps = 3\n", "unknown key overlaps, known: title, kind, captions, "),
        (TOP + "overlaps = 3\n", "; did you mean 'overlap'?"),
        (TOP + "path = 3\n", "unknown key path"),
        (TOP + "digest = 'x'\n", "unknown key digest"),
        (TOP + "overlap = 3.5\n" + ASPECT, "overlap = 3.5, expected a whole number"),
        (TOP + "overlap = 0\n" + ASPECT, "overlap = 0, expected a number from 1 to 1,000"),
        (TOP + "overlap = true\n" + ASPECT, "overlap = true, expected a whole number"),
        (TOP + "seconds = nan\n" + ASPECT, "seconds = nan, expected a number"),
        (TOP + "show_references = 1\n" + ASPECT, "show_references = 1, expected true or false"),
        (TOP + 'lease = "20"\n' + ASPECT, "lease = '20', expected a time from 10 s to 168 h, such as \"20 min\""),
        (TOP + "lease = 20\n" + ASPECT, "lease = 20, expected a time"),
        (TOP + 'lease = "9 days"\n' + ASPECT, "lease = '9 days', expected a time"),
        (TOP + 'lease = "1 s"\n' + ASPECT, "lease = '1 s', expected a time"),
        (
            TOP + "ids = [1, 2]\n" + ASPECT,
            "ids = [1, 2], expected a list of ids in quotation marks, or the name of a file",
        ),
        (TOP + 'tasks = "b.jsonl"\n' + ASPECT, "both captions and tasks, expected one of them"),
        ('title = "x"\nkind = "ratings"\n' + ASPECT, "nothing to ask about, expected captions or tasks"),
        ('title = "x"\nkind = "yesno"\n', "nothing to ask about, expected tasks"),
        (TOP.replace("a.jsonl", "") + ASPECT, "captions has the file '', expected a list of files"),
        (TOP + 'references = "\\u0000"\n' + ASPECT, "references has the file '\\x00', expected the name of a file"),
        (TOP, "no aspects, expected a table for each scale"),
        (TOP + "aspects = 3\n", "aspects = 3, expected a table for each scale"),
        (TOP + ASPECT + "color = 3\n", "[[aspects]] 1: unknown key color, known: name, question, scale, ends, faults"),
        (TOP + '[[aspects]]\nname = "x"\n', "[[aspects]] 1: no question"),
        (TOP + ASPECT + ASPECT, "[[aspects]] 2: name = 'overall' already exists"),
        (TOP + ASPECT.replace("overall", "two words"), "name = 'two words', expected a word of letters"),
        (TOP + ASPECT.replace("overall", "rater"), "name = 'rater', which is a column of the export already"),
        (TOP + ASPECT + "scale = [5, 1]\n", "scale = [5, 1], expected the lowest and the highest point"),
        (TOP + ASPECT + "scale = [1]\n", "scale = [1], expected the lowest"),
        (TOP + ASPECT + "scale = [1, 900]\n", "scale = [1, 900], expected at most 101 points"),
        (TOP + ASPECT + 'scale = ["a", "b"]\n', "scale = ['a', 'b'], expected the lowest"),
        (TOP + ASPECT + 'ends = ["bad"]\n', "ends = ['bad'], expected words for both ends"),
        (TOP + 'overall = "P + R"\n' + ASPECT, "overall = 'P + R': formula, character 1 at 'P + R': no name 'P'"),
        (TOP + 'overall = "overall/0"\n' + ASPECT, "overall = 'overall/0' has no value for any ratings"),
        (TOP + 'overall = "1/(overall-overall)"\n' + ASPECT, "has no value for any ratings, expected one for most"),
        (TOP + "ties = true\n" + ASPECT, "ties is for kind ranking or pairs, and kind is ratings"),
        (
            TOP + ASPECT + "[checks]\nevry = 3\n",
            "[checks]: unknown key evry, known: gold, every, repeat, flag, at; did you mean 'every'?",
        ),
        (TOP + "checks = 3\n" + ASPECT, "checks = 3, expected a table"),
        (
            TOP + ASPECT + "[checks]\nflag = 3\n",
            "[checks]: flag = 3, expected a table such as { failed = 2,",
        ),
        (TOP + ASPECT + "[checks]\nflag = { fail = 2 }\n", "[checks.flag]: unknown key fail, known: failed, seconds"),
        (TOP + ASPECT + "[checks]\nflag = { failed = 0 }\n", "[checks.flag]: failed = 0, expected a number from 1 to"),
        (TOP + ASPECT + "[checks]\nflag_failed = 2\n", "[checks]: unknown key flag_failed"),
        (
            TOP + ASPECT + '[source]\nname = "prolifik"\n',
            "[source]: name = 'prolifik', expected one of links, open",
        ),
        (
            TOP + ASPECT + '[source]\nname = "prolific"\n',
            "[source]: name = 'prolific': describe a panel in a table [panel] instead",
        ),
        (TOP + ASPECT + '[source]\ndone = "a b&c"\n', "[source]: done = 'a b&c', expected a code of letters"),
        ("source = 3\n" + TOP + ASPECT, "source = 3, expected a table"),
        ("panel = 3\n" + TOP + ASPECT, "panel = 3, expected a table, that is a line [panel] before its keys"),
        (TOP + ASPECT + "[participants]\napproval = 101\n", "[participants]: approval = 101, expected a number from 0"),
        (TOP + ASPECT + '[panel]\ncompleted = "C"\n', "[panel]: no name, expected a text in quotation marks"),
        (
            TOP + ASPECT + '[panel]\nname = "sona"\n',
            "[panel]: no completed, expected the address to which",
        ),
        (
            TOP + ASPECT + '[panel]\nname = "Bilendi"\ncompleted = "C"\n',
            "[panel]: name = 'Bilendi' without parameter, expected the name of the parameter with the participant's id",
        ),
        (
            TOP + ASPECT + '[panel]\nname = "x"\nparameter = "a&b"\ncompleted = "C"\n',
            "[panel]: parameter 'a&b', expected letters, digits, ., - and _",
        ),
        (
            TOP + ASPECT + '[panel]\nname = "x"\nparameter = "a"\nothers = ["a"]\ncompleted = "C"\n',
            "[panel]: others = ['a'], expected names that differ from parameter",
        ),
        (
            TOP + ASPECT + '[panel]\nname = "sona"\ncompleted = "http://u.example/?c={id}"\n',
            "[panel]: completed = 'http://u.example/?c={id}', expected an address that begins with https://",
        ),
        (
            TOP + ASPECT + '[panel]\nname = "sona"\ncompleted = "https://{id}.example/"\n',
            "expected an address that begins with https://",
        ),
        (
            TOP + ASPECT + '[panel]\nname = "sona"\ncompleted = "https://u.example/?c={person}"\n',
            "[panel]: completed has {person}, expected one of {id}",
        ),
        (
            TOP + ASPECT + '[panel]\nname = "sona"\ncompleted = "a code"\n',
            "[panel]: completed = 'a code', expected a code of letters, digits, - and _, or an address",
        ),
        (
            TOP + ASPECT + '[panel]\nname = "sona"\ncompleted = "C"\nkeys = "k.json"\n',
            "[panel]: keys is for name = 'prolific', and name is 'sona'",
        ),
        (
            TOP + ASPECT + '[source]\nname = "open"\n[panel]\nname = "sona"\ncompleted = "C"\n',
            "both [source] and [panel], expected one of them",
        ),
        (LABELS, "0 options, expected at least two"),
        (LABELS + OPTIONS.replace('"o"', '"y"'), "[[options]] 2: key = 'y' chooses another label already"),
        (LABELS + OPTIONS.replace('"o"', '"u"'), "[[options]] 2: key = 'u' goes back or shows the help"),
        (LABELS + OPTIONS.replace('"o"', '"old"'), "[[options]] 2: key = 'old', expected one character"),
        (LABELS + OPTIONS.replace('"old"', '"young"'), "[[options]] 2: name = 'young' is taken"),
        (
            LABELS + 'merge = "relic"\n' + OPTIONS.replace('"none"', '"neither"'),
            "merge = 'relic', which needs a label none",
        ),
        (LABELS + 'label = "id"\n' + OPTIONS, "label = 'id', which is a column of the export already"),
        ("title = \n", "not a study in TOML (Invalid value (at line 1, column 9))"),
        ("a = " + "[" * 5000, "not a study in TOML"),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_key(text, message):
    with pytest.raises(InputError) as caught:
        parse_plan(text, PATH)
    assert message in str(caught.value) and str(caught.value).startswith("study.toml: ")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_file_that_is_none(tmp_path):
    for name, content, message in (
        ("nowhere.toml", None, "no such study, expected a file that captious studio new wrote"),
        ("latin.toml", 'title = "é"'.encode("latin-1"), "byte 0xe9 at offset 9 is not UTF-8"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_plan(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        read_plan(tmp_path)


def test_a_file_of_another_editor(tmp_path):
    (tmp_path / "study.toml").write_bytes(b"\xef\xbb\xbf" + (TOP + ASPECT).replace("\n", "\r\n").encode())
    assert read_plan(tmp_path / "study.toml").title == "Dogs"


@pytest.mark.parametrize(("text", "seconds"), [("20 min", 1200), ("1.5 h", 5400), ("90 s", 90), ("2 minutes", 120)])
def test_a_lease_is_a_time(text, seconds):
    assert parse_plan(f'lease = "{text}"\n{TOP}{ASPECT}', PATH).lease == seconds


def test_labels_have_keys_of_their_own():
    plan = parse_plan(LABELS + OPTIONS.replace('key = "o"\n', ""), PATH)
    assert [(option.name, option.key) for option in plan.options] == [("young", "y"), ("old", "2"), ("none", "n")]


RATINGS = """
title = "Dogs"
kind = "ratings"
captions = ["a.jsonl"]
overall = "{}"
[[aspects]]
name = "P"
question = "How precise is it?"
[[aspects]]
name = "R"
question = "How complete is it?"
"""


@pytest.mark.parametrize(
    ("formula", "values", "result"),
    [
        ("mean", {"P": 5, "R": 2}, 3.5),
        ("mean", {"P": 5, "R": None}, None),
        ("(P + R) / 2", {"P": 5, "R": 2}, 3.5),
        ("P / (R - 1)", {"P": 3, "R": 1}, None),
        ("P-R/2", {"P": 3, "R": 1}, 2.5),
    ],
)
def test_the_overall_rating_is_arithmetic_on_aspects(formula, values, result):
    plan = parse_plan(RATINGS.format(formula), PATH)
    assert plan.formula.of(values) == result and plan.formula.text == formula


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("P + Q", "overall = 'P + Q': formula, character 5 at 'Q': no name 'Q'; there are P, R"),
        ("P ** R", "formula, character 3 at '** R': expected + - * or /"),
        ("__import__('os')", "no name '__import__'"),
        ("P.real", "formula, character 2 at '.real': '.' is not understood here"),
        ("P if R else 1", "formula, character 3 at 'if R else 1': unexpected 'if', expected an operator such as +"),
        ("P > 1", "formula, character 3 at '> 1': unexpected '>'"),
        ("top(P, 0.3)", "no name 'top(P"),
        ("[P]", "expected a column, a number or a text, found '['"),
        ("P +", "formula, character 4: expected a column, a number or a text, found the end"),
        ("1 + 1", "it names nothing, expected some of P, R"),
        ("P + 1e999", "the number is too large"),
        ("P + True", "found a condition"),
        ("(" * 300 + "P" + ")" * 300, "nested more than 40 deep"),
        ("P" + " + P" * 200, "it joins more than 100 numbers"),
    ],
)
def test_the_overall_rating_is_nothing_else(formula, message):
    with pytest.raises(InputError) as caught:
        parse_plan(RATINGS.format(formula), PATH)
    assert message in str(caught.value)


def test_the_guide_names_every_key():
    page = (Path(__file__).parents[3] / "docs" / "guide" / "study-file.md").read_text(encoding="utf-8")
    keys = {one.name for kind in (Plan, Aspect, LabelOption, Source, RaterPanel, Participants) for one in fields(kind)}
    keys |= {"gold", "every", "repeat", "flag", "failed"}
    tables = ("checks", "looks", "source", "panel", "participants")
    shown = {key: f"`[{key}]`" if key in tables else f"`{key}`" for key in keys - {"path", "digest", "origin"}}
    assert {key for key, text in shown.items() if text not in page} == set()


def test_looks_are_planned_in_the_study_file():
    plan = parse_plan(TOP + "[looks]\nplanned = 300\nnumber = 4\n" + ASPECT, PATH)
    assert (plan.looks.planned, plan.looks.number) == (300, 4)
    assert parse_plan(TOP + ASPECT, PATH).looks.planned == 0
    with pytest.raises(InputError, match="looks"):
        parse_plan(TOP + '[looks]\nplanned = "many"\n' + ASPECT, PATH)


def test_ids_of_study_choose_carry_how_items_were_drawn(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "1", "caption": "a dog"}\n{"id": "2", "caption": "a cat"}\n')
    (tmp_path / "next.jsonl").write_text('{"id": "2", "probability": 0.5, "stratum": "1", "batch": 1}\n')
    (tmp_path / "study.toml").write_text(TOP + 'ids = "next.jsonl"\n' + ASPECT)
    (subject,) = read_subjects(read_plan(tmp_path / "study.toml"), pytest.fail)
    drawn = {name: subject.fields[name] for name in ("probability", "stratum", "batch")}
    assert subject.id == "2" and drawn == {"probability": 0.5, "stratum": "1", "batch": 1}


def test_items_of_quotas_have_the_chance_of_their_group(tmp_path):
    """One of two indoor scenes and one of three outdoor ones."""
    places = ("in", "in", "out", "out", "out")
    rows = [f'{{"id": "{number}", "caption": "a dog", "scene": "{scene}"}}' for number, scene in enumerate(places)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    (tmp_path / "study.toml").write_text(TOP + 'stratum = "scene"\nquotas = { in = 1, out = 1 }\n' + ASPECT)
    subjects = read_subjects(read_plan(tmp_path / "study.toml"), pytest.fail)
    chances = {subject.fields["stratum"]: subject.fields["probability"] for subject in subjects}
    assert chances == {"in": 1 / 2, "out": 1 / 3} and {subject.fields["batch"] for subject in subjects} == {1}


def test_items_that_are_drawn_twice_have_the_chance_of_both_drawings(tmp_path):
    """Of two items that `study choose` drew with a chance of 0.4, one is drawn: 0.4 × 1 / 2."""
    rows = [f'{{"id": "{number}", "caption": "a dog"}}' for number in range(5)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    drawn = '{"id": "%d", "probability": 0.4, "stratum": "low", "batch": 2}\n'
    (tmp_path / "next.jsonl").write_text(drawn % 1 + drawn % 3)
    (tmp_path / "study.toml").write_text(TOP + 'ids = "next.jsonl"\nitems = 1\n' + ASPECT)
    (subject,) = read_subjects(read_plan(tmp_path / "study.toml"), pytest.fail)
    assert [subject.fields[name] for name in ("probability", "stratum", "batch")] == [0.2, "low", 2]


def test_items_that_were_picked_by_hand_have_no_probability(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "1", "caption": "a dog"}\n{"id": "2", "caption": "a cat"}\n')
    (tmp_path / "study.toml").write_text(TOP + 'ids = ["2"]\n' + ASPECT)
    (subject,) = read_subjects(read_plan(tmp_path / "study.toml"), pytest.fail)
    assert "probability" in subject.fields and subject.fields["probability"] is None
