"""A column ``language``: each language is scored by itself, and nothing is averaged over them."""

import json

import pytest
from tests._core.test_languages import CHINESE, NONE, rows

import captious
from captious import InputError
from captious._by_language import split_languages

ENGLISH = {
    "e1": ("a dog runs on the grass", ["a brown dog runs", "the dog runs on grass"]),
    "e2": ("two cats", ["two cats sleep", "cats on a sofa"]),
    "e3": ("a bus", ["a red bus", "the bus stops"]),
}


def mixed(chinese="zh"):
    """Rows of both languages in turns."""
    theirs = [{**row, "language": chinese} for row in rows()]
    ours = [{**row, "language": "en"} for row in rows(ENGLISH)]
    return [row for pair in zip(theirs, ours, strict=False) for row in pair] + theirs[len(ours) :]


def written(path, given):
    path.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    return path


def test_each_language_has_the_values_of_its_items_alone():
    """Document frequencies, tokens and sizes are those of the language, however the rows are mixed."""
    result = captious.evaluate_by_language(mixed(), "bleu(n=2),cider,rouge", resampling=NONE)
    for code, items in {"zh": CHINESE, "en": ENGLISH}.items():
        alone = captious.evaluate(rows(items), "bleu(n=2),cider,rouge", resampling=NONE, language=code)
        assert [one.corpus for one in result[code]] == [one.corpus for one in alone]
        assert set(result[code].captions.ids) == set(items)
    assert "tok:zh-char.1" in str(result["zh"]["cider"].signature) and "tok:ptb.1" in str(
        result["en"]["cider"].signature
    )
    assert not any("several languages" in line for line in result.document().warnings)


def test_the_table_has_a_row_for_each_language_and_no_mean():
    result = captious.evaluate_by_language(mixed(), "rouge", resampling=NONE)
    table = result.to_pandas()
    assert table["language"].tolist() == ["Chinese", "English"] and table["items"].tolist() == [4, 3]
    assert table["rouge"].tolist() == [result[code]["rouge"].corpus for code in ("zh", "en")]
    assert "do not compare" in str(result) and repr(result) == "<LanguageReports zh 4, en 3 items>"


def test_a_metric_has_no_value_in_a_language_that_it_does_not_know():
    given = [{**row, "objects": ["dog"]} for row in mixed()]
    result = captious.evaluate_by_language(given, "rouge,chair(value=s)", resampling=NONE)
    assert list(result["zh"].measurements) == ["rouge"] and list(result["en"].measurements) == [
        "rouge",
        "chair(value=s)",
    ]
    (why,) = result.refused["zh"]
    assert why.startswith("chair(value=s) knows English only, the captions are in Chinese")
    assert f"Chinese: {why}" in result.document().warnings
    only = captious.evaluate_by_language(given, "chair(value=s)", resampling=NONE)
    assert list(only.reports) == ["en"]
    with pytest.raises(InputError, match="knows English only"):
        captious.evaluate_by_language([row for row in given if row["language"] == "zh"], "chair", resampling=NONE)


def test_codes_may_have_a_region_and_what_is_no_code_is_refused():
    assert list(split_languages(captious.read(mixed("zh-Hant_TW")))) == ["zh", "en"]
    with pytest.raises(InputError, match=r"1 item \(2\) without a value in the column 'language'"):
        split_languages(captious.read([{**row, "language": None if row["id"] == "2" else "zh"} for row in rows()]))
    with pytest.raises(InputError, match=r"items \(\w.*language='chinese', expected a code .*did you mean 'zh'"):
        split_languages(captious.read(mixed("Chinese")))
    with pytest.raises(InputError, match="no column 'language'"):
        split_languages(captious.read(rows()))
    with pytest.raises(InputError, match="language='zh' was named for all items"):
        split_languages(captious.read(rows(), reading=captious.Reading(language="zh")))
    with pytest.raises(InputError, match=r"no kana, expected some in Japanese .*; the column 'language' says so"):
        split_languages(captious.read(mixed("ja")))


def test_score_splits_by_the_column_and_writes_a_run_of_each_language(tmp_path, run):
    source = written(tmp_path / "mixed.jsonl", mixed())
    code, out, _ = run(
        "score", source, "-m", "rouge,cider", "--samples", "0", "--out", tmp_path / "out", "--explain", "e2"
    )
    assert code == 0 and "mixed.jsonl: 2 languages" in out and "Chinese" in out and "two cats" in out
    stored = captious.open_run(tmp_path / "out" / "zh")
    alone = captious.evaluate(rows(), "rouge,cider", resampling=NONE, language="zh")
    assert [one.corpus for one in stored] == [one.corpus for one in alone]
    assert (tmp_path / "out" / "en" / "report.html").exists()
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert (
        'href="zh/report.html"' in page
        and "href=" not in captious.evaluate_by_language(mixed(), "rouge", resampling=NONE).to_markdown()
    )
    code, _, err = run("score", tmp_path / "out")
    assert code == 2 and "is a report of several languages: name the folder of one of them, expected" in err
    code, out, _ = run("score", source, "-m", "rouge", "--samples", "0", "--json")
    assert code == 0 and list(json.loads(out)["languages"]) == ["zh", "en"]
    code, out, _ = run("score", source, "-m", "rouge", "--samples", "0", "--language", "zh")
    assert code == 0 and "7 items" in out  # what is named on the command line holds for all


def test_score_takes_the_language_of_a_file_that_names_one(tmp_path, run):
    source = written(tmp_path / "zh.jsonl", [{**row, "language": "zh"} for row in rows()])
    code, out, _ = run("score", source, "-m", "rouge", "--samples", "0", "--json")
    assert code == 0 and "lang:zh|tok:zh-char.1" in out and json.loads(out)["items"] == 4
    source = written(tmp_path / "en.jsonl", [{**row, "language": "en"} for row in rows(ENGLISH)])
    code, out, _ = run("score", source, "-m", "rouge", "--samples", "0", "--json")
    assert code == 0 and "lang:" not in out  # as without a column


def test_a_study_follows_the_language(tmp_path, run):
    given = [{**row, "rating": number, "image": row["id"]} for number, row in enumerate(rows())]
    source = written(tmp_path / "ratings.jsonl", given)
    command = ("study", "run", source, "--rating", "rating", "-m", "rouge", "--samples", "0", "--permutations", "10")
    code, out, err = run(*command, "--language", "zh", "--json")
    assert code == 0, err
    assert "rouge|lang:zh|tok:zh-char.1" in out and "clause" not in err
    both = [{**row, "rating": number, "image": row["id"]} for number, row in enumerate(mixed("zh-TW"))]
    written(source, both)
    code, out, err = run(*command, "--language", "zh", "--json")
    assert code == 0 and "rouge|lang:zh|tok:zh-char.1|beta:1.2|items:4|" in out, err
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[[layouts]]\nratings = "ratings.jsonl"\nimage = "image"\nrating = "rating"\n', encoding="utf-8")
    own = ("study", "run", recipe, "--data", tmp_path, *command[5:])
    code, out, err = run(*own, "--language", "zh", "--json")
    assert code == 0 and "rouge|lang:zh|tok:zh-char.1|beta:1.2|items:4|" in out, err
    code, out, err = run(*command, "--json")
    assert code == 0 and "|items:7|" in out
    assert "the column 'language' has 2 values (en, zh)" in " ".join(err.split())
    written(source, given)
    code, _, err = run(*command, "--language", "ja")
    assert code == 2 and "no kana, expected some in Japanese" in err


def test_a_column_with_one_language_counts_wherever_captions_are_read(tmp_path, run):
    """CHAIR knows English only."""
    german = [{**row, "language": "de", "caption": "ein Hund", "references": ["der Hund"]} for row in rows()]
    assert captious.read(german).language == "de"
    assert captious.read([{**row, "language": "en"} for row in german]).language == ""
    assert captious.read(german, reading=captious.Reading(language="fr")).language == "fr"
    source = written(tmp_path / "german.jsonl", german)
    for command in (["score", source], ["compare", f"a={source}", f"b={source}"]):
        code, _, err = run(*command, "-m", "chair", "--samples", "0")
        assert code == 2 and "in German" in err
    blank = written(tmp_path / "blank.jsonl", [{**row, "language": "de" if row["id"] != "2" else ""} for row in german])
    code, _, err = run("score", blank, "-m", "rouge", "--samples", "0")
    assert code == 2 and "blank.jsonl: 1 item (2) without a value in the column 'language'" in err
