"""The joined table: several runs by id, and what people said as scores like any other."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.studio.explore.conftest import REFERENCES, SYSTEMS, write_run

from captious._compare import compare
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.options import Resampling
from captious.studio.explore._item_json import find_first
from captious.studio.explore.explorer_table import open_table


def test_runs_are_joined_by_id_and_a_system_that_lacks_an_item_has_no_value_there(tmp_path, kept):
    first = write_run(tmp_path / "a", {"1": "a dog", "2": "a cat"}, name="sat")
    second = write_run(tmp_path / "b", {"4": "a train", "2": "a red chair"}, name="oscar")
    table = open_table([first, second])
    assert [table.find_item(key) for key in "1234"] == [0, 1, None, 2] and table.systems == ("sat", "oscar")
    rows = table.read_rows([2, 1, 0])
    assert [[row and row["candidates"] for row in own] for own in rows] == [
        [None, ["a cat"], ["a dog"]],
        [["a train"], ["a red chair"], None],
    ]
    assert [find_first(own, "references") for own in zip(*rows, strict=True)] == [REFERENCES[key] for key in "421"]
    assert np.isnan(table.read_values(0, 0)).tolist() == [False, False, True]
    assert np.isnan(table.read_values(1, 0)).tolist() == [True, False, False]
    assert [table.read_column(table.get_words_sql(system)).tolist()[1] for system in (0, 1)] == [2.0, 3.0]


def test_values_are_those_of_the_run(table, runs):
    rows = pq.read_table(runs[1] / "items" / "captions.parquet").to_pylist()
    assert table.read_values(1, 0).tolist() == [row["rouge"] for row in rows]
    assert [score.label for score in table.scores] == ["ROUGE-L", "BLEU-1", "Human rating", "Human fluency"]


def test_metrics_that_only_one_run_has_stand_beside_the_others(tmp_path):
    first = write_run(tmp_path / "a", SYSTEMS["sat"], metrics="rouge", name="sat")
    second = write_run(tmp_path / "b", SYSTEMS["oscar"], metrics="bleu(n=1),rouge", name="oscar")
    table = open_table([first, second])
    assert [score.key for score in table.scores] == ["rouge", "bleu(n=1)"]
    assert np.isnan(table.read_values(0, 1)).all() and not np.isnan(table.read_values(1, 1)).any()


def test_the_metric_words_is_shown_beside_the_number_of_words(tmp_path):
    table = open_table([write_run(tmp_path / "run", {"1": "a cat", "2": "a dog runs"}, metrics="rouge,words")])
    assert [score.key for score in table.scores] == ["rouge", "words"]
    assert table.read_values(0, 1).tolist() == [2.0, 3.0]


def test_the_systems_of_a_comparison_are_systems(tmp_path):
    sets = {name: CaptionSet.of(captions, REFERENCES) for name, captions in SYSTEMS.items()}
    sets["sat v2/final"] = sets["sat"]
    compare(sets, "rouge", resampling=Resampling(samples=0), permutations=10).save(tmp_path / "run")
    table = open_table([tmp_path / "run"])
    assert table.systems == ("sat", "oscar", "sat v2/final")
    assert table.read_values(0, 0).tolist() == table.read_values(2, 0).tolist() != table.read_values(1, 0).tolist()


def test_systems_of_one_name_are_called_by_their_folders_and_a_given_name_wins(tmp_path):
    first, second = (write_run(tmp_path / name, SYSTEMS["sat"], name="preds") for name in ("early", "late"))
    assert open_table([first, second]).systems == ("early", "late")
    assert open_table({"A": first, "B": second}).systems == ("A", "B")
    assert open_table([first, first]).systems == ("early", "early-2")


def test_ratings_become_scores_with_their_mean_and_the_gap_between_raters(table):
    # sat: item 1 has 5 and 2, item 2 has 1 and 2; oscar: item 2 has 4 alone.
    np.testing.assert_array_equal(table.read_values(0, 2), [3.5, 1.5, np.nan, np.nan])
    np.testing.assert_array_equal(table.read_values(1, 2), [np.nan, 4.0, np.nan, np.nan])
    np.testing.assert_array_equal(table.read_values(0, 3), [4.0, 5.0, np.nan, np.nan])
    np.testing.assert_array_equal(table.read_column(table.get_gap_sql(0)), [3.0, 1.0, np.nan, np.nan])
    assert np.isnan(table.read_column(table.get_gap_sql(1))).all()
    said = table.ratings[0, 0]
    assert [(one.rater, dict(one.values), one.comment, one.seconds) for one in said] == [
        ("r1", {"rating": 5.0, "fluency": 4.0}, "", 3.5),
        ("r2", {"rating": 2.0}, "<b>no</b>", None),
    ]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "1", "captioner": "sat", "ratings": [5, 2]},
        {"image": "1.png", "system": "sat", "ratings": {"x": 5, "y": 2}},
        {"id": "1", "caption": "a  brown dog runs on the grass", "ratings": [5, 2]},
        {
            "id": "photos/1.png",
            "image": "photos/1.png",
            "system": "elsewhere",
            "caption": SYSTEMS["sat"]["1"],
            "rating": [5, 2],
        },
    ],
)
def test_a_rating_finds_its_caption_by_id_or_image_and_by_system_or_text(runs, tmp_path, row, kept):
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    table = open_table(runs, path)
    assert list(table.ratings) == [(0, 0)] and table.read_values(0, 2)[0] == 3.5


def test_a_rating_of_an_aspect_that_no_statistic_holds_is_refused(runs, tmp_path, kept):
    path = tmp_path / "other.jsonl"
    path.write_text(f'{{"id": "1", "system": "sat", "rating": 2, "fluency": {10**400}}}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.jsonl: row 1: fluency is infinite or too large, expected a number"):
        open_table(runs, path)


def test_an_aspect_that_repeats_the_rating_is_no_score_of_its_own(runs, tmp_path):
    path = tmp_path / "other.jsonl"
    rows = [{"id": f"{key}/sat", "system": "sat", "rating": key, "overall": key, "fluency": 2} for key in (1, 2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [score.key for score in open_table(runs, path).scores][2:] == ["rating", "fluency"]


def test_one_odd_row_of_ratings_does_not_stop_the_explorer(runs, ratings):
    rows = ratings.read_text().splitlines()
    odd = json.dumps({**json.loads(rows[1]), "rating": "n/a"})
    ratings.write_text("\n".join([rows[0], odd, *rows[2:]]) + "\n")
    table = open_table(runs, ratings)
    assert sum(map(len, table.ratings.values())) == len(rows) - 1
    assert any(
        "1 row left out that cannot be read" in one and "row 2: rating is 'n/a'" in one for one in table.warnings
    )


def test_ratings_of_other_captions_are_counted_or_refused(runs, tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"id": "9/x", "system": "x", "rating": 3}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"no rating belongs to a caption of the runs .*row 1|line 1"):
        open_table(runs, path)
    path.write_text('{"id": "9/x", "rating": 3}\n{"id": "1", "system": "sat", "rating": 3}\n', encoding="utf-8")
    assert "1 ratings belong to no caption" in open_table(runs, path).warnings[-1]


def test_images_come_from_the_folder_that_is_named(runs, tmp_path):
    from PIL import Image

    other = tmp_path / "other"
    other.mkdir()
    Image.new("RGB", (8, 8)).save(other / "2.jpg")
    assert open_table(runs, images=other).pictures.find_path("2", str(tmp_path / "photos" / "2.png")) == other / "2.jpg"


def test_images_outside_of_a_run_are_not_opened_unless_their_folder_is_named(tmp_path, own_images):
    run = write_run(tmp_path / "run", SYSTEMS["sat"], name="sat", images=own_images)
    table = open_table([run])
    assert table.pictures.find_path("1", str(own_images / "1.png")) is None
    assert table.warnings[-1].startswith("images are outside the run, such as 1.png; name their folder")
    (run / "photos").mkdir()
    (own_images / "1.png").rename(run / "photos" / "1.png")
    assert table.pictures.find_path("1", "photos/1.png") == run / "photos" / "1.png"
    assert table.pictures.find_path("1", "../run/photos/1.png") is not None
    (run / "photos" / "2.png").symlink_to(own_images / "2.png")
    for outside in ("photos/2.png", "../photos/2.png", "s3://bucket/2.png", "a\0b", None):
        assert table.pictures.find_path("2", outside) is None
    assert not any("outside" in warning for warning in open_table([run], images=own_images).warnings)
    (tmp_path / "empty").mkdir()
    warning = open_table([run], images=tmp_path / "empty").warnings[-1]
    assert warning == f"{tmp_path / 'empty'}: contains none of the images, such as 1.png"


@pytest.mark.parametrize(("column", "value", "expected"), [("words", "x", "numbers"), ("image", ["x.png"], "texts")])
def test_a_column_of_another_kind_is_refused_in_one_line(runs, column, value, expected):
    path = runs[0] / "items" / "captions.parquet"
    table = pq.read_table(path)
    values = pa.array([value] * len(table))
    pq.write_table(table.set_column(table.column_names.index(column), column, values), path)
    with pytest.raises(InputError, match=f"column '{column}' contains .*, expected {expected}"):
        open_table(runs)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "items" / "captions.parquet").unlink(), "captions.parquet: is missing"),
        (lambda run: (run / "items" / "captions.parquet").write_bytes(b"PAR1"), "captions.parquet: is damaged"),
        (lambda run: (run / "captious-run.json").unlink(), "no captious-run.json"),
        (lambda run: (run / "captious-run.json").write_text("{"), "is not JSON"),
        (lambda run: (run / "captious-run.json").write_text("[]"), "expected the facts of a run"),
        (lambda run: (run / "captious-run.json").write_text('{"format": 2, "metrics": [1]}'), "name is missing"),
    ],
)
def test_a_folder_that_is_no_run_is_refused_in_one_line(runs, spoil, message):
    spoil(runs[0])
    with pytest.raises(InputError, match=message) as caught:
        open_table(runs)
    assert str(runs[0]) in str(caught.value) and "\n" not in str(caught.value)


def test_runs_on_different_items_do_not_open_table(tmp_path):
    first = write_run(tmp_path / "a", {"1": "a dog"}, name="sat")
    second = write_run(tmp_path / "b", {"2": "a dog"}, name="oscar")
    with pytest.raises(InputError, match="no id is in both, such as '1' and '2'"):
        open_table([first, second])


def test_runs_with_an_id_twice_do_not_join_and_one_alone_is_shown(tmp_path, kept):
    import pyarrow as pa

    runs = [write_run(tmp_path / name, SYSTEMS[name], name=name) for name in SYSTEMS]
    path = runs[0] / "items" / "captions.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "id", pa.array(["1", "2", "2", "4"])), path)
    assert len(open_table(runs[:1])) == 4
    with pytest.raises(InputError, match="the id '2' occurs twice"):
        open_table(runs)


def test_parts_whose_columns_differ_are_one_table(tmp_path, kept):
    import pyarrow as pa

    run = write_run(tmp_path / "run", SYSTEMS["sat"], name="sat")
    marker, items = json.loads((run / "captious-run.json").read_text()), run / "items"
    table = pq.read_table(items / "captions.parquet")
    for part, rows, width in (("a", table.slice(0, 2), pa.array([3, 4])), ("b", table.slice(2), pa.array(["x", "y"]))):
        pq.write_table(rows.append_column("width", width), items / f"{part}.parquet")
    (run / "captious-run.json").write_text(json.dumps({**marker, "parts": {"a": 2, "b": 2}}))
    opened = open_table([run])
    assert [row["width"] for row in opened.read_rows([3, 0, 2, 1])[0]] == ["y", "3", "x", "4"]


def test_the_connection_reads_no_file_and_cannot_be_changed(table, tmp_path):
    import duckdb

    (tmp_path / "secret.csv").write_text("a\n1\n")
    statements = [
        f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'other.db'}'",
        "SET enable_external_access = true",
        "SET memory_limit = '10GB'",
        "INSTALL httpfs",
    ]
    for statement in statements:
        with table.cursor() as cursor, pytest.raises(duckdb.Error):
            cursor.execute(statement)
    assert not (tmp_path / "out.csv").exists()
