"""The joined table: several runs by id, and what people said as scores like any other."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.studio.explore.conftest import REFERENCES, SYSTEMS, write_run

from captious._compare import compare
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.options import Resampling
from captious.studio.explore.table import join


def test_runs_are_joined_by_id_and_a_system_that_lacks_an_item_has_no_value_there(tmp_path):
    first = write_run(tmp_path / "a", {"1": "a dog", "2": "a cat"}, name="sat")
    second = write_run(tmp_path / "b", {"4": "a train", "2": "a red chair"}, name="oscar")
    table = join([first, second])
    assert table.ids == ("1", "2", "4") and table.systems == ("sat", "oscar")
    assert [table.texts_of(column, 1) for column in table.captions] == [["a cat"], ["a red chair"]]
    assert [table.texts_of(column, 2) for column in table.captions] == [[], ["a train"]]
    assert np.isnan(table.values[0][0]).tolist() == [False, False, True]
    assert np.isnan(table.values[1][0]).tolist() == [True, False, False]
    assert [table.texts_of(table.references, item) for item in range(3)] == [REFERENCES[key] for key in "124"]
    assert [words.tolist()[1] for words in table.words] == [2.0, 3.0]


def test_values_are_those_of_the_run(table, runs):
    rows = pq.read_table(runs[1] / "items" / "captions.parquet").to_pylist()
    assert table.values[1][0].tolist() == [row["rouge"] for row in rows]
    assert [score.label for score in table.scores] == ["ROUGE-L", "BLEU-1", "Human rating", "Human fluency"]


def test_metrics_that_only_one_run_has_stand_beside_the_others(tmp_path):
    first = write_run(tmp_path / "a", SYSTEMS["sat"], metrics="rouge", name="sat")
    second = write_run(tmp_path / "b", SYSTEMS["oscar"], metrics="bleu(n=1),rouge", name="oscar")
    table = join([first, second])
    assert [score.key for score in table.scores] == ["rouge", "bleu(n=1)"]
    assert np.isnan(table.values[0][1]).all() and not np.isnan(table.values[1][1]).any()


def test_the_systems_of_a_comparison_are_systems(tmp_path):
    sets = {name: CaptionSet.of(captions, REFERENCES) for name, captions in SYSTEMS.items()}
    sets["sat v2/final"] = sets["sat"]
    compare(sets, "rouge", Resampling(samples=0), permutations=10).save(tmp_path / "run")
    table = join([tmp_path / "run"])
    assert table.systems == ("sat", "oscar", "sat v2/final")
    assert table.values[0][0].tolist() == table.values[2][0].tolist() != table.values[1][0].tolist()


def test_systems_of_one_name_are_called_by_their_folders_and_a_given_name_wins(tmp_path):
    first, second = (write_run(tmp_path / name, SYSTEMS["sat"], name="preds") for name in ("early", "late"))
    assert join([first, second]).systems == ("early", "late")
    assert join({"A": first, "B": second}).systems == ("A", "B")
    assert join([first, first]).systems == ("early", "early-2")


def test_ratings_become_scores_with_their_mean_and_the_gap_between_raters(table):
    # sat: item 1 has 5 and 2, item 2 has 1 and 2; oscar: item 2 has 4 alone.
    np.testing.assert_array_equal(table.values[0][2], [3.5, 1.5, np.nan, np.nan])
    np.testing.assert_array_equal(table.values[1][2], [np.nan, 4.0, np.nan, np.nan])
    np.testing.assert_array_equal(table.values[0][3], [4.0, 5.0, np.nan, np.nan])
    np.testing.assert_array_equal(table.gaps[0], [3.0, 1.0, np.nan, np.nan])
    assert np.isnan(table.gaps[1]).all()
    said = table.opinions[0, 0]
    assert [(one.rater, dict(one.ratings), one.comment, one.seconds) for one in said] == [
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
def test_a_rating_finds_its_caption_by_id_or_image_and_by_system_or_text(runs, tmp_path, row):
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    table = join(runs, path)
    assert list(table.opinions) == [(0, 0)] and table.values[0][2][0] == 3.5


def test_an_aspect_that_repeats_the_rating_is_no_score_of_its_own(runs, tmp_path):
    path = tmp_path / "other.jsonl"
    rows = [{"id": f"{key}/sat", "system": "sat", "rating": key, "overall": key, "fluency": 2} for key in (1, 2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [score.key for score in join(runs, path).scores][2:] == ["rating", "fluency"]


def test_ratings_of_other_captions_are_counted_or_refused(runs, tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"id": "9/x", "system": "x", "rating": 3}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"no rating belongs to a caption of the runs .*row 1|line 1"):
        join(runs, path)
    path.write_text('{"id": "9/x", "rating": 3}\n{"id": "1", "system": "sat", "rating": 3}\n', encoding="utf-8")
    assert "1 ratings belong to no caption" in join(runs, path).warnings[-1]


def test_images_come_from_the_folder_that_is_named(runs, tmp_path):
    from PIL import Image

    other = tmp_path / "other"
    other.mkdir()
    Image.new("RGB", (8, 8)).save(other / "2.jpg")
    assert join(runs).images[1].endswith("photos/2.png")
    assert join(runs, images=other).images[1] == str(other / "2.jpg")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "items" / "captions.parquet").unlink(), "captions.parquet: is missing"),
        (lambda run: (run / "items" / "captions.parquet").write_bytes(b"PAR1"), "captions.parquet: is damaged"),
        (lambda run: (run / "captious-run.json").unlink(), "no captious-run.json"),
        (lambda run: (run / "captious-run.json").write_text("{"), "is no JSON"),
        (lambda run: (run / "captious-run.json").write_text("[]"), "expected the facts of a run"),
        (lambda run: (run / "captious-run.json").write_text('{"format": 1, "metrics": [1]}'), "read is missing"),
    ],
)
def test_a_folder_that_is_no_run_is_refused_in_one_line(runs, spoil, message):
    spoil(runs[0])
    with pytest.raises(InputError, match=message) as caught:
        join(runs)
    assert str(runs[0]) in str(caught.value) and "\n" not in str(caught.value)


def test_runs_on_different_items_do_not_join(tmp_path):
    first = write_run(tmp_path / "a", {"1": "a dog"}, name="sat")
    second = write_run(tmp_path / "b", {"2": "a dog"}, name="oscar")
    with pytest.raises(InputError, match="no id is in both, such as '1' and '2'"):
        join([first, second])
