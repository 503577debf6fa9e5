"""Malformed files, options, metrics, runs, tars: one line and exit code 2, or a result that says what is left out."""

from collections import Counter

import pytest
from tests.fuzz import inputs
from tests.fuzz.cases import COMMANDS, NOT_RUN, READS_NOTHING, SLOTS, Case, case_of, filled, leaves, params_of
from tests.fuzz.running import ACCEPTED, REFUSED, outcome_of, run_case

SEED, FEW, MANY, BLOCK = 7, 400, 6000, 100

pytestmark = pytest.mark.usefixtures("compiled_meteor")


def test_every_command_is_tried():
    """A new command must have a right command line here, so that its files and options are spoiled too."""
    assert set(COMMANDS) | NOT_RUN == {name for name, _ in leaves()}


def test_every_command_that_reads_a_file_has_a_file_to_spoil():
    spoilable = {name for name, lines in COMMANDS.items() if any(f"{{{slot}}}" in " ".join(lines) for slot in SLOTS)}
    assert set(COMMANDS) - spoilable == READS_NOTHING - NOT_RUN


def test_every_option_of_a_file_is_known_as_one():
    """An option that takes a file or a folder says so, and then it is given pipes, devices and links."""
    metavars = ("FILE", "PATH")
    paths = {param.name for _, one in leaves() for param in params_of(one) if param.option.metavar in metavars}
    assert {"references", "scores", "classes", "templates", "validate", "captions", "file", "image_features"} <= paths


RIGHT = [(name, line) for name, lines in COMMANDS.items() for line in lines if "{weights}" not in line + name]


@pytest.mark.parametrize(("name", "line"), RIGHT, ids=[f"{name} {n}" for n, (name, _) in enumerate(RIGHT)])
def test_the_right_command_line_is_accepted(name, line, tmp_path):
    """Else nothing behind the first complaint would be tried."""
    if name == "cache add":
        pytest.skip("METEOR's data is not shipped")
    if name == "make graphs":
        pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")
    slots = {slot: SLOTS[slot].right(tmp_path, slot) for slot in SLOTS if f"{{{slot}}}" in line}
    words = [filled(word, {**slots, "out": str(tmp_path / "out")}) for word in line.split()]
    outcome = outcome_of(Case((*name.split(), *words), "nothing", inputs.ODD), tmp_path)
    assert (outcome.kind, outcome.code) == (ACCEPTED, 0), outcome


def test_a_case_is_the_same_under_the_same_seed(tmp_path):
    for number in range(30):
        folders = [tmp_path / f"{number}-{name}" for name in "ab"]
        cases = []
        for folder in folders:
            folder.mkdir()
            case = case_of(SEED, number, folder)
            cases.append([part.replace(str(folder), "FOLDER") for part in case.arguments])
        assert cases[0] == cases[1]


def test_the_cases_of_every_run_are_of_all_families(tmp_path):
    """Each family has its share of any 100 cases, and spoils what it says: a metric, a run, a tar."""
    families = Counter()
    for number in range(BLOCK):
        (tmp_path / str(number)).mkdir()
        case = case_of(SEED, number, tmp_path / str(number))
        families[case.family] += 1
        if case.family in ("metric", "changed", "tar"):
            assert case.what.startswith(f"{case.family}: ")
    assert set(families) == {"file", "option", "metric", "changed", "tar", "video"} and min(families.values()) >= 8


def ends_well(numbers, folder):
    """Run cases; list those that did not end well."""
    bad = []
    for number in numbers:
        case, outcome = run_case(SEED, number, folder)
        if outcome.kind not in (REFUSED, ACCEPTED):
            line = f"case {number}: {outcome.kind}: {case.what}: {outcome.why}\n  {' '.join(case.arguments)}"
            # xdist sends reports as UTF-8, which half characters break.
            bad.append(line.encode("ascii", "backslashreplace").decode())
    return bad


@pytest.mark.parametrize("first", range(0, FEW, BLOCK))
def test_malformed_input_is_refused_in_one_line(first, tmp_path):
    bad = ends_well(range(first, first + BLOCK), tmp_path)
    assert not bad, "\n".join(bad)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FEW, MANY, BLOCK))
def test_much_malformed_input_is_refused_in_one_line(first, tmp_path):
    bad = ends_well(range(first, first + BLOCK), tmp_path)
    assert not bad, "\n".join(bad)
