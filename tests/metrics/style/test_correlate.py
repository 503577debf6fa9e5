from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from captious.errors import InputError
from captious.metrics.style.model import StyleModel
from captious.probes.style import correlate


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows(ranks: dict[str, list[int]], captions: list[str], style: str = "happy") -> list[dict[str, object]]:
    return [
        {"style": style, "caption": caption, "rank": rank, "rater": rater}
        for rater, given in ranks.items()
        for caption, rank in zip(captions, given, strict=True)
    ]


def test_the_most_common_ranking_stands_for_people(model: StyleModel, tmp_path: Path) -> None:
    captions = ["a fine day", "a day", "the grey dog weeps"]
    votes = {"1": [3, 2, 1], "2": [1, 2, 3], "3": [3, 2, 1]}
    (found,) = correlate(model, write(tmp_path / "r.jsonl", rows(votes, captions)))
    assert found.ranking == (3, 2, 1)
    assert (found.style, found.raters) == ("happy", 3)
    assert found.spearman == pytest.approx(1.0)
    # Pearson by the textbook formula for n = 3: ranks 3, 2, 1 have deviations 1, 0, −1.
    high, middle, low = found.scores
    mean = (high + middle + low) / 3
    spread = math.sqrt(sum((score - mean) ** 2 for score in found.scores))
    assert found.pearson == pytest.approx((high - low) / (math.sqrt(2) * spread))


def test_a_swapped_pair_gives_one_half(model: StyleModel, tmp_path: Path) -> None:
    captions = ["a fine day", "a day", "the grey dog weeps"]
    (found,) = correlate(model, write(tmp_path / "r.jsonl", rows({"1": [2, 3, 1]}, captions)))
    assert found.spearman == pytest.approx(0.5)


def test_constant_scores_have_no_correlation(model: StyleModel, tmp_path: Path) -> None:
    (found,) = correlate(model, write(tmp_path / "r.jsonl", rows({"1": [1, 2]}, ["zebra", "yak"])))
    assert math.isnan(found.pearson) and math.isnan(found.spearman)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"style": "hapy"}, "row 2: the style model moods has no style 'hapy'"),
        ({"rank": "best"}, "row 2: rank is 'best', expected a number"),
        ({"caption": "x"}, "row 2: caption 'x' is ranked twice"),
    ],
)
def test_bad_rows(model: StyleModel, tmp_path: Path, change: dict[str, object], message: str) -> None:
    given = rows({"1": [1, 2]}, ["x", "y"])
    given[1] |= change
    with pytest.raises(InputError, match=message):
        correlate(model, write(tmp_path / "r.jsonl", given))


def test_missing_column_and_rank(model: StyleModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 1: no rank: found columns style, caption"):
        correlate(model, write(tmp_path / "r.jsonl", [{"style": "happy", "caption": "x"}]))
    given = rows({"1": [1, 2], "2": [1, 2]}, ["x", "y"])[:-1]
    with pytest.raises(InputError, match="rater '2' gives 'y' no rank for 'happy'"):
        correlate(model, write(tmp_path / "r.jsonl", given))
