"""Functions with option dataclasses as commands: what is shown, what is parsed, what is refused."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Literal

import pytest

from captious.cli.commands import Command, CommandGroup, command, replace_arguments
from captious.cli.params import Omit, Only, Param, Rare
from captious.cli.session import deliver
from captious.errors import InputError
from captious.options import Argument, Option, Options, Output, Reading, Resampling, Runtime


@dataclass(frozen=True)
class Schedule(Options):
    lr: Annotated[float, Option("Largest learning rate.")] = 0.1
    warmup_steps: Annotated[int, Option("Steps until then.", min=0)] = 10


@dataclass(frozen=True)
class Settings(Options):
    source: Annotated[str, Argument("A recipe, or a file of rows.")]
    data: Annotated[Path, Option("Rows to learn from.", flags=("-d",))]
    schedule: Schedule = Schedule()
    loss_weights: Annotated[tuple[float, float], Option("Of the two losses.")] = (1.0, 8.0)
    lock: Annotated[tuple[Literal["image", "text"], ...], Option("Towers that do not learn.")] = ()
    gather: Annotated[bool | None, Option("Contrast over all processes.")] = None
    epochs: Annotated[int | None, Option("Passes over the data.", min=1)] = None

    def __post_init__(self):
        super().__post_init__()
        if self.schedule.warmup_steps and self.epochs == 1:
            raise InputError("one epoch is too short; pass warmup_steps=0 or epochs=..., in clip(epochs=1) too")


def app_of(*functions):
    app = CommandGroup("app")
    for function in functions:
        command(app)(function)
    return app


RECEIVED = []


@pytest.fixture
def run(capsys, monkeypatch):
    """Call a function as a command: gives the exit code, what the function received, and both outputs."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")

    def call(function, *arguments):
        RECEIVED.clear()
        with pytest.raises(SystemExit) as exit:
            app_of(function)([function.__name__, *map(str, arguments)])
        captured = capsys.readouterr()
        return exit.value.code, RECEIVED[0] if RECEIVED else None, captured.out, captured.err

    return call


def score(
    predictions: Annotated[str, Argument("Candidate captions.")],
    reading: Reading,
    resampling: Resampling,
    runtime: Runtime,
    output: Output,
    metrics: Annotated[tuple[str, ...], Option("Which metrics.", flags=("-m",))] = ("bleu", "cider"),
    worst: Annotated[int, Option("Also print this number of worst items.", min=0)] = 0,
):
    """Score captions."""
    RECEIVED.append((predictions, reading, resampling, runtime, output, metrics, worst))


def train(settings: Settings):
    RECEIVED.append(settings)


def test_every_field_is_an_option_and_the_dataclasses_are_rebuilt(run):
    code, values, _, _ = run(score, "a.json", "-r", "refs.json", "--level", "0.9", "--precision", "bf16", "--json")
    assert code == 0
    assert values == (
        "a.json",
        Reading(references="refs.json"),
        Resampling(level=0.9),
        Runtime(precision="bf16"),
        Output(json=True),
        ("bleu", "cider"),
        0,
    )


def test_help_shows_each_default_where_it_is_written_and_fits_80_columns(run):
    code, _, shown, _ = run(score, "--help-all")
    assert code == 0
    assert max(map(len, shown.splitlines())) <= 80 and "…" not in shown
    for text in ("[default: 1000]", "[default: 12345]", "[default: 0.95]", "[default: 256]", "[default: bleu, cider]"):
        assert text in shown
    for flag in ("--references, -r FILE", "--references-column", "--no-cache", "--overwrite", "CAPTIOUS_DEVICE"):
        assert flag in shown
    assert " --cache" not in shown and "--progress" not in shown and "--log" not in shown
    for panel in ("Arguments", "Options", "Reading", "Intervals", "Models", "Output"):
        assert f"\n\n{panel}\n" in shown
    assert "<" not in shown and ">" not in shown  # neither types nor bounds
    (row,) = (line for line in shown.splitlines() if "--seed" in line)
    assert row.endswith("[default: 12345]")


def test_the_first_help_leaves_rare_options_out_and_says_so(run):
    code, _, shown, _ = run(score, "--help")
    assert code == 0 and "--references, -r FILE" in shown and "--batch" not in shown
    shown_flags, all_flags = (
        {word for word in text.split() if word.startswith("--")} for text in (shown, run(score, "--help-all")[2])
    )
    assert shown_flags < all_flags and re.search(r"\n\d+ more options: .* score --help-all\n$", shown)
    assert run(score, "a.json", "--batch", "8")[1][3] == Runtime(batch=8)  # it is an option as any other

    def few(reading: Annotated[Reading, Only("references", "format")]):
        """Few options: all are shown."""

    assert "--format" in run(few, "--help")[2] and "more option" not in run(few, "--help")[2]

    def own(reading: Annotated[Reading, Rare("images")], runtime: Runtime, output: Output):
        """A command may call more options rare."""

    assert "--images" not in run(own, "--help")[2] and "--images" in run(own, "--help-all")[2]


def test_a_switch_that_is_on_by_default_is_turned_off_by_its_flag(run):
    assert run(score, "a.json")[1][3].cache is True
    assert run(score, "a.json", "--no-cache")[1][3].cache is False


def test_the_environment_gives_the_device_and_the_batch_unless_the_command_does(run, monkeypatch):
    monkeypatch.setenv("CAPTIOUS_DEVICE", "cuda:1")
    monkeypatch.setenv("CAPTIOUS_BATCH", "32")
    assert run(score, "a.json")[1][3] == Runtime("cuda:1", 32)
    assert run(score, "a.json", "--device", "cpu")[1][3] == Runtime("cpu", 32)


@pytest.mark.parametrize(
    "arguments",
    [("-m", "bleu(n=4,tokenizer=13a)", "--metrics", "cider"), ("--metrics", "bleu(n=4,tokenizer=13a), cider")],
)
def test_a_list_may_be_repeated_or_have_commas(run, arguments):
    assert run(score, "a.json", *arguments)[1][5] == ("bleu(n=4,tokenizer=13a)", "cider")


@pytest.mark.parametrize(
    "arguments", [("--level", "0.9", "--level", "0.95"), ("-o", "a", "--out", "b"), ("--json", "--json")]
)
def test_what_is_no_list_may_not_be_repeated(run, arguments):
    code, values, _, error = run(score, "a.json", *arguments)
    assert (code, values) == (2, None) and "is given 2 times, expected once" in error


def test_an_argument_too_many_is_refused_with_a_hint_at_the_references(run):
    code, values, _, error = run(score, "a.json", "refs.json")
    assert (code, values) == (2, None) and "unexpected argument refs.json" in error and "-r refs.json" in error
    assert "-r" not in run(train, "r", "--data", "a", "stray")[3].partition("unexpected")[2]
    assert run(score, "a.json", "refs.json", "--help")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--missing", "skp"), "Invalid value for '--missing': 'skp' is not one of 'error', 'skip'"),
        (("--samples", "many"), "Invalid value for '--samples': 'many' is not a valid whole number"),
        (("--level", "high"), "Invalid value for '--level': 'high' is not a valid number"),
        (("--levl", "0.9"), "--level"),
    ],
)
def test_what_cannot_be_parsed_names_the_flag(run, arguments, message):
    code, values, _, error = run(score, "a.json", *arguments)
    assert (code, values) == (2, None) and message in error


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [("--batch", "0", "at least 1"), ("--samples", "-1", "at least 0"), ("--samples", "1000001", "at most 1000000")],
)
def test_a_number_beyond_its_bounds_is_refused(run, flag, value, expected):
    with pytest.raises(InputError, match=f"^{flag} {value}, expected a whole number of {expected}$"):
        run(score, "a.json", flag, value)


def test_what_a_dataclass_refuses_is_told_with_flags(run):
    with pytest.raises(InputError, match=r"^confidence level 95\.0, expected .*, such as --level 0\.95$"):
        run(score, "a.json", "--level", "95")
    with pytest.raises(InputError, match=r"^--json as well as --latex, expected one form"):
        run(score, "a.json", "--json", "--latex")
    message = r"^one epoch is too short; pass --warmup-steps 0 or --epochs, in clip\(epochs=1\) too$"
    with pytest.raises(InputError, match=message):
        run(train, "r", "--data", "a", "--epochs", "1")


def test_nested_dataclasses_tuples_choices_and_three_way_switches(run):
    assert run(train, "r", "-d", "rows.jsonl")[1] == Settings("r", Path("rows.jsonl"))
    arguments = ("--lr", "0.5", "--loss-weights", "2,3", "--lock", "text", "--lock", "image", "--no-gather")
    expected = Settings("r", Path("a"), Schedule(lr=0.5), (2.0, 3.0), ("text", "image"), False)
    assert run(train, "r", "--data", "a", *arguments)[1] == expected
    assert run(train, "r", "--data", "a", "--gather")[1].gather is True
    assert run(train, "r")[0] == 2  # --data has no default


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--loss-weights", "1"), "--loss-weights 1: expected 2 values"),
        (("--loss-weights", "1,2,"), "--loss-weights 1,2,: expected a number before and after each comma"),
        (("--loss-weights", "1,two"), "--loss-weights two: expected a number"),
        (("--lock", "image,txt"), "--lock txt: expected image, text"),
        (("--lock", ""), "--lock : expected at least one value"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(run, arguments, message):
    with pytest.raises(InputError, match=message):
        run(train, "r", "--data", "a", *arguments)


def test_files_and_arguments_keep_their_commas(run):
    def many(
        texts: Annotated[list[str], Argument("Texts.")],
        scores: Annotated[tuple[Path, ...], Option("Files.")] = (),
    ):
        RECEIVED.append((texts, scores))

    values = run(many, "a, b", "c", "--scores", "x,y.csv", "--scores", "z.csv")[1]
    assert values == (["a, b", "c"], (Path("x,y.csv"), Path("z.csv")))


FEW, REPLACED, FIXED = Resampling(samples=200), Output(overwrite=True), Settings("recipe", Path("fixed"))


def narrow(
    resampling: Annotated[Resampling, Omit("level", "seed")] = FEW,
    output: Annotated[Output, Only("json")] = REPLACED,
    settings: Annotated[Settings, Only("lr")] = FIXED,
):
    RECEIVED.append((resampling, output, settings))


def test_a_command_narrows_a_group_and_has_its_own_defaults(run):
    _, _, shown, _ = run(narrow, "--help")
    assert "--samples" in shown and "[default: 200]" in shown and "--json" in shown and "--lr" in shown
    for flag in ("--level", "--seed", "--out", "--overwrite", "--data", "--warmup-steps"):
        assert flag not in shown
    assert run(narrow, "--samples", "5", "--lr", "2")[1] == (
        Resampling(5),
        Output(overwrite=True),
        Settings("recipe", Path("fixed"), Schedule(lr=2.0)),
    )
    assert run(narrow, "--level", "0.9")[0] == 2


def test_a_new_field_is_an_argument_of_the_api_and_an_option(run):
    @dataclass(frozen=True)
    class Wider(Resampling):
        shuffles: Annotated[int, Option("Shuffles of the randomization test.", min=1)] = 10_000

    def wide(resampling: Wider):
        RECEIVED.append(resampling)

    assert Wider(shuffles=3).shuffles == 3
    assert run(wide, "--shuffles", "7", "--level", "0.9")[1] == Wider(level=0.9, shuffles=7)
    assert "[default: 10000]" in run(wide, "--help")[2]


def test_one_command_cannot_have_one_name_for_two_options():
    def clash(resampling: Resampling, seed: Annotated[int, Option("Another seed.")] = 0): ...

    with pytest.raises(TypeError, match="clash: several options are called seed"):
        _ = Command(clash).params


def test_a_parameter_without_an_explanation_is_refused():
    def silent(items: int = 3): ...

    with pytest.raises(TypeError, match="items: expected an Option"):
        _ = Command(silent).params


def test_flags_take_the_place_of_arguments_in_messages_and_of_nothing_else():
    params = [
        Param("images", Path, Option("Folder."), None),
        Param("missing", Literal["error", "skip"], Option("Ids."), "error"),
        Param("id_column", str, Option("Column."), None),
        Param("cache", bool, Option("Cache."), True),
        Param("predictions", str, Argument("Captions."), None),
    ]
    for message, expected in {
        "pass reading=Reading(missing='skip') to leave them out": "pass --missing skip to leave them out",
        "reading=Reading(id_column=...) where another column is the id.": "--id-column where another column is the id.",
        "pass images=FOLDER.": "pass --images FOLDER.",
        "pass cache=False, not cache=True": "pass --no-cache, not cache=True",
        "data/images=3/x.json: row 2": "data/images=3/x.json: row 2",
        "caption 'images=1 of 2' has no words": "caption 'images=1 of 2' has no words",
        "METEOR's tables: clipscore(images=1)": "METEOR's tables: clipscore(images=1)",
        "predictions=None, other=3": "predictions=None, other=3",
    }.items():
        assert replace_arguments(message, params) == expected


class Outcome:
    def __init__(self, fails=False):
        self.fails, self.saved = fails, None

    def document(self):
        return SimpleNamespace(name="report", warnings=["2 captions are empty"])

    def print(self, signatures=False):
        print("a table")
        print("warning: 2 captions are empty", file=sys.stderr)

    def to_json(self):
        return "{}\n"

    def to_latex(self):
        return "\\begin{tabular}\n"

    def save(self, path, overwrite=False, percent=False):
        if self.fails:
            raise OSError("disk full")
        self.saved = path, overwrite


@pytest.mark.parametrize(
    ("output", "printed"),
    [(Output(), "a table\n"), (Output(json=True), "{}\n"), (Output(latex=True), "\\begin{tabular}\n")],
)
def test_deliver_prints_the_result_in_the_form_asked_for_and_warnings_apart(capsys, output, printed):
    deliver(Outcome(), output)
    assert capsys.readouterr() == (printed, "warning: 2 captions are empty\n")


def test_deliver_saves_and_says_where(capsys):
    result = Outcome()
    deliver(result, Output("run1", overwrite=True))
    assert result.saved == ("run1", True)
    assert capsys.readouterr().err.endswith("written: run1/report.html\n")


def test_a_result_that_cannot_be_saved_is_still_printed(capsys):
    with pytest.raises(OSError, match="disk full"):
        deliver(Outcome(fails=True), Output("run1"))
    assert capsys.readouterr().out == "a table\n"


def test_an_option_may_take_all_words_up_to_the_next_flag(run):
    def pick(
        place: Annotated[Path, Argument("Where to write.")],
        files: Annotated[tuple[str, ...], Option("Files.", words=True)] = (),
        title: Annotated[str, Option("Title.")] = "",
    ) -> None:
        RECEIVED.append((place, files, title))

    for words in ("p --files a b c --title t", "p --files a b --title t --files c", "p --title t --files=a b c"):
        code, received, _, _ = run(pick, *words.split())
        assert (code, received) == (0, (Path("p"), ("a", "b", "c"), "t"))
    code, _, _, error = run(pick, "--files", "a", "b", "p")
    assert code == 2 and "no PLACE, expected it before --files" in error


def test_help_imports_no_group_and_scoring_no_filters(tmp_path):
    """Imports that a user would wait for."""
    (tmp_path / "a.jsonl").write_text('{"id": 1, "caption": "a dog", "references": ["a dog"]}\n')
    code = "import sys; from captious.cli.app import main; sys.argv = {}\ntry: main()\nfinally: print(*sys.modules)"
    for argv, absent in (
        (["captious", "--help"], {"pydantic", "numpy", "rich", "captious.cli.studio", "captious.runs.filters"}),
        (
            ["captious", "score", str(tmp_path / "a.jsonl"), "-m", "rouge"],
            {"pydantic", "captious.runs.filters", "pyarrow"},
        ),
    ):
        done = subprocess.run([sys.executable, "-c", code.format(argv)], capture_output=True, text=True, check=True)
        assert not absent.intersection(done.stdout.split())
