"""A run is a run: the same captions, scored as a file and as shards, give the same numbers in every command."""

import json
from dataclasses import replace
from itertools import product

import pyarrow.parquet as pq
import pytest
from tests.runs.shards.data import records

import captious
from captious._core.files import OUTPUT, RUN
from captious._evaluate import add_metrics
from captious.errors import InputError
from captious.options import Engine, Resampling
from captious.runs import is_run
from captious.runs.folder import Run, open_runs
from captious.runs.shards.scoring import score_shards

METRICS = "bleu(n=4),rouge,cider,vocab_size"
FEW = Resampling(100)
SHARDS = 3


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def captions_of_system(name):
    """The second system repeats the first reference in every third item."""
    rows = records(60)
    if name == "b":
        rows = [{**row, "caption": row["references"][0]} if place % 3 == 0 else row for place, row in enumerate(rows)]
    return rows


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs by system and kind: what the same command makes of a file and of the same lines in three shards."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    for name in "ab":
        rows = captions_of_system(name)
        write_lines(folder / f"{name}.jsonl", rows)
        for number in range(SHARDS):
            write_lines(folder / name / f"part-{number}.jsonl", rows[20 * number : 20 * (number + 1)])
        captious.evaluate(folder / f"{name}.jsonl", METRICS, resampling=FEW).save(folder / f"file_{name}")
        source = str(folder / name / "*.jsonl")
        score_shards(source, METRICS, out=folder / f"shards_{name}", resampling=FEW, engine=Engine("serial"))
        made[name] = {"file": folder / f"file_{name}", "shards": folder / f"shards_{name}"}
    return made


KINDS = list(product(("file", "shards"), repeat=2))


def test_both_kinds_have_the_same_folders_and_tables(runs):
    file, shards = ({path.name for path in runs["a"][kind].iterdir()} for kind in ("file", "shards"))
    assert file - {"states"} == {
        RUN, "items", "rows", "types", "items.csv", "scores.csv", "report.html", "report.json", "report.tex",
        "report.txt",
    }  # fmt: skip
    assert shards == file | {"states", "shards.csv", "steps.csv"}  # what only shards have
    texts = [(runs["a"][kind] / "items.csv").read_text() for kind in ("file", "shards")]
    assert texts[0] == texts[1]


def test_reports_are_equal(runs):
    file, shards = (captious.open_run(runs["a"][kind]) for kind in ("file", "shards"))
    assert file.to_pandas("scores").equals(shards.to_pandas("scores")) and file.signatures == shards.signatures
    assert file.read_notes == shards.read_notes == ["captions: `caption`; references: `references`, 2 per item"]
    assert file.to_pandas().equals(shards.to_pandas())
    assert [row[0] for row in file.worst(5).tables["worst"].rows] == [
        row[0] for row in shards.worst(5).tables["worst"].rows
    ]
    assert file.explain("i3", "cider").data() == shards.explain("i3", "cider").data()
    headings = [section.title for section in shards.document().sections if hasattr(section, "title")]
    assert "Time and shards" in headings


@pytest.mark.parametrize(("base", "new"), KINDS)
def test_compare_and_gate_take_any_two(runs, base, new):
    expected = captious.compare({name: runs[name]["file"] for name in "ab"}, None, resampling=FEW, permutations=200)
    mixed = captious.compare({"a": runs["a"][base], "b": runs["b"][new]}, None, resampling=FEW, permutations=200)
    assert mixed.differences == expected.differences and mixed.test == expected.test
    assert mixed.to_pandas("systems").equals(expected.to_pandas("systems"))
    assert mixed.document().notes == expected.document().notes
    margins = {"cider": 0.05, "rouge": 0.01}
    gates = [
        captious.gate(*pair, "cider,rouge", margin=margins, resampling=FEW)
        for pair in ((runs["a"]["file"], runs["b"]["file"]), (runs["a"][base], runs["b"][new]))
    ]
    assert gates[0].rows == gates[1].rows and gates[1].unit == "items"


@pytest.mark.parametrize(("first", "second"), KINDS)
def test_keep_takes_any_two(runs, first, second, tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'captious[query]'")
    kept = []
    for one, other in (("file", "file"), (first, second)):
        both = {"a": runs["a"][one], "b": runs["b"][other]}
        out = tmp_path / f"{one}-{other}.parquet"
        selection = captious.keep(both, "b.rouge > a.rouge and top(cider, 0.9)", out=out, best="rouge", overwrite=True)
        assert selection.kept > 0
        table = pq.read_table(out).drop_columns("shard")
        kept.append((selection.read, selection.clauses, selection.thresholds, selection.reasons, table.to_pydict()))
    assert kept[0] == kept[1]


@pytest.mark.parametrize(("first", "second"), KINDS)
def test_view_takes_any_two(runs, first, second, tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'captious[query]'")
    from captious.studio.explore._view_summary import Summaries
    from captious.studio.explore._views import Explorer, parse_view
    from captious.studio.explore.explorer_table import open_table
    from captious.studio.explore.site import export_site

    summaries = []
    for one, other in (("file", "file"), (first, second)):
        table = open_table({"a": runs["a"][one], "b": runs["b"][other]})
        summaries.append([Summaries(Explorer(table)).summarize(parse_view(table, {"sort": key})) for key in ("cider",)])
    assert summaries[0] == summaries[1]
    export_site(table, tmp_path / "site")
    assert not is_run(tmp_path / "site") and (tmp_path / "site" / OUTPUT).exists()
    with pytest.raises(InputError, match="site: is not a run, expected a folder that captious score wrote"):
        captious.open_run(tmp_path / "site")


def test_values_correlate_with_ratings_alike(runs):
    pytest.importorskip("scipy")
    ratings = [{"id": f"i{number}", "rating": number % 5} for number in range(60)]
    studies = [captious.correlate(ratings, runs["a"][kind], resampling=Resampling(20)) for kind in ("file", "shards")]
    assert studies[0].to_pandas().equals(studies[1].to_pandas())


def test_metrics_are_added_to_the_run_of_shards_from_a_file(runs, tmp_path):
    for kind in ("file", "shards"):
        captions = captious.read(runs["a"]["file"].parent / "a.jsonl")
        added = add_metrics(captious.open_run(runs["a"][kind]), "distinct_n(n=2)", FEW, captions=captions)
        added.save(tmp_path / kind)
    file, shards = (captious.open_run(tmp_path / kind) for kind in ("file", "shards"))
    assert file.to_pandas("scores").equals(shards.to_pandas("scores"))
    # The folder of shards keeps its parts, so that the same shards can be scored into it again.
    run = Run.at(tmp_path / "shards")
    marker = run.marker
    assert marker.parts == {f"part-{number}": 20 for number in range(SHARDS)} and len(marker.shards) == SHARDS
    assert shards.read_notes == file.read_notes and [part.references for part in run.summaries()] == [(2, 2)] * SHARDS
    assert {part.columns["captions"] for part in run.summaries()} == {"`caption`"}
    assert shards.explain("i3", "cider")["cider"].value == file.explain("i3", "cider")["cider"].value


def test_a_file_without_statistics_says_what_to_do(runs, tmp_path):
    report = captious.evaluate(runs["a"]["file"].parent / "a.jsonl", "rouge", resampling=FEW)
    replace(report, source=replace(report.source, store_rows=False)).save(tmp_path / "run")
    assert not (tmp_path / "run" / "rows").exists()
    again = captious.open_run(tmp_path / "run")
    assert again.to_pandas("scores").equals(report.to_pandas("scores"))
    with pytest.raises(InputError, match="has no statistics of its items, expected runs of the same shards"):
        captious.compare({"a": tmp_path / "run", "b": runs["b"]["file"]})


def test_a_comparison_is_no_run_and_has_those_of_its_systems(runs, tmp_path):
    both = {name: runs[name]["shards"] for name in "ab"}
    captious.compare(both, None, resampling=FEW, permutations=20).save(tmp_path / "compared")
    assert not is_run(tmp_path / "compared")
    assert list(open_runs(tmp_path / "compared")) == ["a", "b"]
    with pytest.raises(InputError, match="compared: is a comparison: name the folder of one of its systems, expected"):
        captious.open_run(tmp_path / "compared")
