"""A run that comes from somebody else: nothing is asked, imported or opened that lies outside of its folder."""

import datetime
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import captious
from captious import CaptionSet, InputError, Resampling
from captious._core.files import RUN
from captious.runs import Run, open_run

CAPTIONS = {"1": "a red dog", "2": "a cat"}
REFERENCES = {"1": ["a red dog"], "2": ["one cat"]}


@pytest.fixture
def run(tmp_path):
    """A run of two captions whose images lie outside of it."""
    (tmp_path / "photos").mkdir()
    for key in CAPTIONS:
        Image.new("RGB", (16, 16), (200, 30, 30)).save(tmp_path / "photos" / f"{key}.png")
    images = {"image": [str(tmp_path / "photos" / f"{key}.png") for key in CAPTIONS]}
    captions = CaptionSet.of(CAPTIONS, REFERENCES, images, "preds.json")
    captious.evaluate(captions, "rouge,clipscore(weights=captious-mini)", resampling=Resampling(20)).save(
        tmp_path / "run"
    )
    return tmp_path / "run"


def change(run, **facts):
    """Write other facts into the marker."""
    record = json.loads((run / RUN).read_text())
    (run / RUN).write_text(json.dumps({**record, **facts}))
    return record


def renamed(run, before, after):
    """Call a metric otherwise, in the marker, the items and the rows: what a foreign run may say it was scored by."""
    text = (run / RUN).read_text()
    (run / RUN).write_text(text.replace(json.dumps(before)[1:-1], json.dumps(after)[1:-1]))
    for folder in ("items", "rows"):
        path = run / folder / "captions.parquet"
        table = pq.read_table(path)
        metadata = {
            key: value.replace(json.dumps(before)[1:-1].encode(), json.dumps(after)[1:-1].encode())
            for key, value in (table.schema.metadata or {}).items()
        }
        names = [after if name == before else name for name in table.column_names]
        pq.write_table(table.rename_columns(names).replace_schema_metadata(metadata), path)


def test_no_chat_model_is_asked(run, monkeypatch, tmp_path):
    """The run names a judge, the reader has an endpoint and a key in the environment: nothing may be sent there."""
    from captious.models.chat import judge

    asked = []
    monkeypatch.setattr(judge, "Endpoint", lambda *arguments: asked.append(arguments) or pytest.fail("asked"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "home"))
    for metric in ("clair(model=gpt-4o)", "fleur(model=gpt-4o)"):
        renamed(run, "rouge", metric)
        report = open_run(run)
        assert f"{report.label(metric)} is not explained: " in report.explain("1").remarks[0]
        with pytest.raises(InputError, match=r"replies|no reply|outside the run|images="):
            report.explain("1", metric)
        renamed(run, metric, "rouge")
    assert not asked


def test_no_module_is_imported(run, tmp_path, monkeypatch):
    (tmp_path / "foreign_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for metric in ("imagine(painter=foreign_module:painter)", "foreign_module"):
        renamed(run, "rouge", metric)
        report = open_run(run)
        report.explain("1")
        str(report)
        renamed(run, metric, "rouge")
    assert "foreign_module" not in sys.modules


def test_images_outside_of_the_run_are_not_opened(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("captious.io.images.read_regular", lambda path, *more: opened.append(path) or b"")
    report = open_run(run)
    assert report.captions.images == [None, None]
    with pytest.raises(InputError, match=r"run: the image of 1 is outside the run \(.*1\.png\); pass images=\.\.\."):
        report.explain("1", "clipscore")
    assert report.explain("1").remarks[0].startswith("CLIPScore is not explained: ")
    report.save(tmp_path / "page.html")
    report.worst()._repr_html_()
    assert not opened
    monkeypatch.undo()
    assert open_run(run, images=tmp_path / "photos").explain("1", "clipscore")["clipscore"].parts


def test_images_in_the_folder_of_the_run_are_its_own(run, tmp_path):
    (tmp_path / "photos").rename(run / "photos")
    path = run / "items" / "captions.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("image")
    names = pa.array(["photos/1.png", "../photos/2.png"])
    pq.write_table(table.set_column(place, "image", names), path)
    assert open_run(run).captions.images == [str((run / "photos" / "1.png").resolve()), None]


@pytest.mark.parametrize("link", ["items/captions.parquet", "items"])
def test_a_link_out_of_the_run_is_not_followed(run, tmp_path, link):
    (run / link).rename(tmp_path / "elsewhere")
    (run / link).symlink_to(tmp_path / "elsewhere")
    for use in (open_run, lambda run: captious.keep(run, "rouge > 0"), open_items):
        with pytest.raises(InputError, match=r"captions\.parquet: is a link that leads out of the run"):
            use(run)


def open_items(run):
    """What the explorer opens."""
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'captious[query]'")
    from captious.studio.explore.explorer_table import open_table

    open_table([run])


def test_a_link_within_the_run_is_followed(run):
    (run / "items").rename(run / "moved")
    (run / "items").symlink_to("moved")
    assert captious.keep(run, "rouge > 0").passing == 2


METRIC = {"metric": "rouge"}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"metrics": [METRIC]}, "metrics[0].label is missing, expected a text"),
        ({"metrics": [7]}, "metrics[0] is 7, expected an object"),
        ({"metrics": {}}, "metrics is {}, expected a list"),
        ({"items": "two"}, "items is 'two', expected a whole number"),
        ({"parts": {"../../secret": 2}}, "'../../secret' is not the name of a part"),
        ({"parts": {"captions": 3}}, "has 2 items, the marker says 3"),
        ({"unit": "page"}, "unit is 'page', expected item or shard"),
        ({"format": 1}, "has format 1, expected 2; score the captions again"),
        ({"resampling": {"samples": 1, "seed": 1, "level": 7}}, "confidence level 7"),
        ({"warnings": "none"}, "warnings is 'none', expected a list"),
    ],
)
def test_a_marker_with_other_values_is_refused_in_one_line(run, facts, message):
    change(run, **facts)
    with pytest.raises(InputError) as caught:
        open_run(run)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("lost", ["signature", "label", "value", "decimals"])
def test_a_metric_without_a_fact_or_with_another_type(run, lost):
    metrics = json.loads((run / RUN).read_text())["metrics"]
    for changed in ({name: value for name, value in metrics[0].items() if name != lost}, {**metrics[0], lost: [1]}):
        change(run, metrics=[changed])
        if lost != "label" and lost not in changed:
            Run.at(run)  # what is not there is not known
        else:
            with pytest.raises(InputError, match=rf"metrics\[0\]\.{lost} (is missing|is \[1\]), expected"):
                Run.at(run)


def test_scores_of_text_are_refused(run):
    path = run / "items" / "captions.parquet"
    table = pq.read_table(path)
    texts = table.set_column(table.column_names.index("rouge"), "rouge", pa.array(["high", "low"]))
    pq.write_table(texts, path)
    with pytest.raises(InputError, match=r"captions\.parquet: column 'rouge' contains string, expected numbers"):
        next(open_run(run).items())


def test_the_command_says_it_in_one_line_with_exit_code_2(run, capsys):
    from captious.cli.app import main

    change(run, metrics=[METRIC])
    for command in (["score", str(run)], ["compare", str(run), str(run)], ["keep", str(run), "words > 1"]):
        sys.argv = ["captious", *command]
        with pytest.raises(SystemExit) as end:
            main()
        errors = capsys.readouterr().err
        problems = [line for line in errors.splitlines() if not line.startswith("warning: ")]
        assert end.value.code == 2 and len(problems) == 1 and "label is missing" in problems[0]


def test_a_marker_without_a_kind_of_interval_is_one_of_percentiles(run):
    """Runs that were written before there was a choice; another word than the known ones is refused."""
    record = change(run)
    resampling = {key: value for key, value in record["resampling"].items() if key != "interval"}
    assert record["resampling"]["interval"] == "percentile"
    change(run, resampling=resampling)
    assert open_run(run).resampling == Resampling(20)
    change(run, resampling={**resampling, "interval": "bca"})
    with pytest.raises(InputError, match=r"resampling\.interval is 'bca', expected percentile or t"):
        open_run(run)


@pytest.mark.parametrize("folder", ["items", "rows"])
def test_a_column_that_is_there_twice_is_refused(run, folder):
    path = run / folder / "captions.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column(table.column_names[-1], table.column(0)), path)
    with pytest.raises(InputError, match=rf"{folder}/captions\.parquet: column '.+' occurs twice"):
        open_run(run).captions  # noqa: B018 - reading is what is refused


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("references", {"a": 1}, "contains struct<a: int64>, expected lists of texts"),
        ("words", "{}", "contains string, expected numbers"),
    ],
)
def test_a_column_of_another_kind_is_refused(run, column, value, message):
    path = run / "items" / "captions.parquet"
    table = pq.read_table(path)
    others = pa.array([value] * len(table))
    pq.write_table(table.set_column(table.column_names.index(column), column, others), path)
    with pytest.raises(InputError, match=f"column '{column}' {message}"):
        open_run(run).captions  # noqa: B018 - reading is what is refused


def test_a_run_without_a_part_is_refused(run):
    change(run, parts={})
    with pytest.raises(InputError, match="run: names no part with an item, expected at least one"):
        open_run(run)
    with pytest.raises(InputError, match="run: names no part with an item, expected at least one"):
        Run.at(run).captions()


def test_an_image_that_is_no_text_is_none_in_the_explorer(run):
    pictures = pytest.importorskip("captious.studio.explore._media", reason="captious[studio] is not installed")
    for folder in (None, run):
        assert pictures.Pictures([str(run)], folder).find_path("nosuch", datetime.datetime(2026, 1, 1)) is None
