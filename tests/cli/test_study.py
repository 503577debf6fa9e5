"""``captious study`` as a user types it."""

import json
from functools import partial

import pytest
from lab.toy import make, write

from captious.study.recipes import RECIPES


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=20), tmp_path_factory.mktemp("sample") / "s", images=False)


@pytest.fixture
def study(run):
    return partial(run, "study")


@pytest.fixture
def arguments(sample):
    return sample / "ratings.jsonl", "--references", sample / "references.json", "--metrics", "rouge,cider"


def test_run_prints_protocol_table_and_signatures(study, arguments):
    code, out, _ = study("run", *arguments, "--samples", 50)
    assert code == 0
    for part in ("every rating is a row", "CIDEr-D", "τ-b", "95% interval", "400 rows of 80 captions", "seed=12345"):
        assert part in out


def test_run_as_json_latex_and_folder(study, arguments, tmp_path):
    summary = json.loads(study("run", *arguments, "--samples", 20, "--statistic", "tau_c", "--json")[1])
    assert summary["headline"] == "tau_c" and {row["metric"] for row in summary["metrics"]} == {"rouge", "cider"}
    assert r"\toprule" in study("run", *arguments, "--samples", 20, "--latex")[1]
    code, _, error = study("run", *arguments, "--samples", 20, "--out", tmp_path / "study")
    assert code == 0 and "study.html" in error
    assert (tmp_path / "study" / "study.html").exists()
    code, _, error = study("run", *arguments, "--out", tmp_path / "study")
    assert code == 2 and "--overwrite" in error


def test_scores_computed_elsewhere(study, sample, tmp_path):
    rows = [json.loads(line) for line in (sample / "ratings.jsonl").read_text().splitlines()]
    lines = [f"{row['id']},{row['captioner']},{row['quality']}" for row in rows]
    path = tmp_path / "mine.csv"
    path.write_text("id,system,mine\n" + "\n".join(lines) + "\n")
    summary = json.loads(study("run", sample / "ratings.jsonl", "--scores", path, "--samples", 20, "--json")[1])
    assert [row["metric"] for row in summary["metrics"]] == ["mine"]
    assert summary["metrics"][0]["statistics"]["tau_b"]["value"] > 0.5
    path.write_text("id,system,mine\n" + "\n".join(lines[:10]) + "\n9,x,1\n")
    code, _, error = study("run", sample / "ratings.jsonl", "--scores", path)
    assert code == 2 and "70 of 80 rated items" in error and "1 of 11 values" in error
    assert study("run", sample / "ratings.jsonl", "--scores", path, "--missing", "skip", "--samples", 20)[0] == 0


def test_systems_by_their_ratings(study, sample, tmp_path):
    code, out, _ = study("systems", sample / "ratings.jsonl", "--samples", 50, "--difference", 0.2)
    assert code == 0
    for part in ("mean rating", "p (Holm)", "would have been found with probability 0.80", "of 0.20", "ci:boot"):
        assert part in out
    data = json.loads(study("systems", sample / "ratings.jsonl", "--samples", 20, "--json")[1])
    rows = [json.loads(line) for line in (sample / "ratings.jsonl").read_text().splitlines()]
    best = data["questions"][0]["systems"][0]
    values = [value for row in rows if row["captioner"] == best["system"] for value in row["ratings"]]
    assert best["mean"]["value"] == pytest.approx(sum(values) / len(values)) and best["ratings"] == len(values)
    assert r"\toprule" in study("systems", sample / "ratings.jsonl", "--samples", 20, "--latex")[1]
    assert study("systems", sample / "ratings.jsonl", "--samples", 20, "--out", tmp_path / "result")[0] == 0
    assert {"systems.html", "people.csv", "people_tests.csv"} <= {path.name for path in (tmp_path / "result").iterdir()}
    code, _, error = study("systems", sample / "ratings.jsonl", "--system", "id", "--aspects", "none")
    assert code == 2 and "no column 'none'" in error


def test_the_folder_of_an_export_is_read_by_its_recipe(study, tmp_path):
    rows = [
        {"id": f"{item}/{name}", "item": item, "system": name, "references": ["a dog runs"]}
        | {"caption": f"a {name} dog" if item % 2 else "a dog"}
        | {"rater": rater, "rating": 1 + (item + place) % 5, "fluency": 1 + place, "truth": None}
        for item in range(6)
        for place, name in enumerate(("a", "b"))
        for rater in ("r1", "r2", "r3")
    ]
    layout = 'ratings = "ratings.jsonl"\nimage = "item"\nrating = "rating"\nrater = "rater"\nsystem = "system"\n'
    (tmp_path / "ratings.toml").write_text(f'[[layouts]]\n{layout}aspects = ["fluency", "truth"]\n')
    (tmp_path / "study.toml").write_text('kind = "ratings"\n')
    (tmp_path / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    by_folder, by_file = (
        json.loads(study("systems", source, "--samples", 20, "--json")[1])
        for source in (tmp_path, tmp_path / "ratings.jsonl")
    )
    assert by_folder == by_file and [one["question"] for one in by_folder["questions"]] == ["rating", "fluency"]
    assert [one["mean"]["value"] for one in by_folder["questions"][1]["systems"]] == [2, 1]
    assert "truth: no answer" in study("systems", tmp_path, "--samples", 20)[2]
    summary = json.loads(study("run", tmp_path, "--metrics", "rouge,bleu(n=1)", "--samples", 20, "--json")[1])
    assert summary["people"]["questions"] == by_folder["questions"]


def test_a_recipe_without_its_data_says_where_to_get_it(study, tmp_path):
    code, _, error = study("run", "flickr8k-expert")
    assert code == 2 and "--data" in error and "Flickr8k_text.zip" in error
    code, _, error = study("run", "flickr8k-expert", "--data", tmp_path)
    assert code == 2 and "ExpertAnnotations.txt" in error
    code, out, _ = study("recipes", "--all")
    assert code == 0 and "pascal50s" in out and "source:" in out


def test_agreement(study, sample):
    code, out, _ = study("agreement", sample / "ratings.jsonl", "--measurement", "interval", "--samples", 50)
    assert code == 0 and "Krippendorff's alpha (interval)" in out and "The human ceiling" in out
    summary = json.loads(study("agreement", sample / "ratings.jsonl", "--samples", 20, "--json")[1])
    assert len(summary["raters"]) == 5 and 0 < summary["alpha"]["estimate"]["value"] < 1


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"id": 1, "rating": 2}, {"id": 2, "rating": 3}], (), "one rater only"),
        ([{"id": 1, "ratings": [2, 2]}, {"id": 2, "ratings": [2, 2]}], (), "all ratings are 2: alpha is undefined"),
        ([{"id": 1, "ratings": [2, 9]}], ("--scale", "1,5"), "row 1: rating 9 is outside the scale 1 to 5"),
    ],
)
def test_agreement_that_cannot_be_computed(study, tmp_path, rows, options, message):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, error = study("agreement", path, *options)
    assert code == 2 and message in error and error.count("\n") == 1 and out == ""


def test_power(study):
    code, out, _ = study("power", "--difference", 0.05, "--items", 200)
    assert code == 0 and "0.80" in out and "for power" in out and "assumed:" in out
    assert json.loads(study("power", "--difference", 0.05, "--items", 200, "--json")[1])["needed"] > 100


def test_combine(study, arguments, sample, tmp_path):
    rows = [json.loads(line) for line in (sample / "ratings.jsonl").read_text().splitlines()]
    lines = [f"{row['id']},{row['captioner']},{row['quality']},{row['share_right']}" for row in rows]
    path = tmp_path / "ie.csv"
    path.write_text("id,system,ie@1,ie@2\n" + "\n".join(lines) + "\n")
    code, out, _ = study("combine", *arguments, "--add", path, "--factors", "0.5,1", "--samples", 20)
    assert code == 0 and "rouge + ie" in out and "±" in out
    rows = json.loads(study("combine", *arguments, "--add", path, "--samples", 20, "--json")[1])["rows"]
    assert [row["seeds"] for row in rows] == [2, 2] and rows[0]["after"] > rows[0]["before"]


def test_lengths(study, arguments, tmp_path):
    code, out, _ = study("lengths", *arguments, "--edges", "6,9", "--samples", 20, "--out", tmp_path / "l")
    assert code == 0 and "6–8" in out and "<svg" in (tmp_path / "l" / "lengths.html").read_text()
    buckets = json.loads(study("lengths", *arguments, "--samples", 20, "--json")[1])["buckets"]
    assert sum(bucket["items"] for bucket in buckets) == 80


def test_a_picture_is_refused_before_any_work(study, arguments, tmp_path):
    code, out, error = study("lengths", *arguments, "--out", tmp_path / "lengths.png")
    assert code == 2 and out == "" and error.count("\n") == 1
    assert "pictures are not written; expected a folder" in error and ".csv, .json, .parquet, .html" in error
    assert not (tmp_path / "lengths.png").exists()


def test_length_in_tokens(study, sample, tmp_path, colors):
    arguments = (
        sample / "ratings.jsonl",
        "--references",
        sample / "references.json",
        "--metrics",
        "rouge",
        "--samples",
        20,
    )
    code, out, error = study("lengths", *arguments, "--tokens", "colors", "--out", tmp_path / "l")
    assert code == 0 and "tokens" in out, error
    tokens = json.loads(study("lengths", *arguments, "--tokens", "colors", "--json")[1])["buckets"]
    words = json.loads(study("lengths", *arguments, "--json")[1])["buckets"]
    assert [bucket["low"] - 2 for bucket in tokens] == [bucket["low"] for bucket in words]  # start and end
    assert tokens[0]["unit"] == "tokens" and "<svg" in (tmp_path / "l" / "lengths.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--statistic", "tau"), "no such statistic"),
        (("--rating", "stars"), "no column 'stars', found columns id, captioner"),
        (("--scale", "5"), "--scale 5"),
        (("--scale", "5,1"), "--scale 5,1"),
        (("--system", "nosuch"), "no column 'nosuch'"),
        (("--rater", "annotatr"), "no column 'annotatr'"),
        (("--group", "nosuch"), "no column 'nosuch'"),
        (("--candidate-column", "captoin"), "did you mean 'caption'"),
        (("--id-column", "uid"), "no column 'uid'"),
        (("--scores-id-column", "uid"), "pass --scores"),
        (("--scale", "nan,5"), "--scale nan"),
        (("--data", "folder"), "a file of ratings and no recipe; leave out --data"),
        (("--level", "2"), "confidence level"),
    ],
)
def test_bad_options_are_one_line(study, arguments, options, message):
    code, out, error = study("run", *arguments, *options)
    assert code == 2 and message in error and error.count("\n") == 1 and out == ""


def test_a_sheet_with_one_column_per_rater(study, tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text("id,ann,bob\n1,1,2\n2,3,3\n3,5,4\n4,2,\n")
    summary = json.loads(study("agreement", path, "--rating", "ann,bob", "--samples", 0, "--json")[1])
    assert [rater["name"] for rater in summary["raters"]] == ["ann", "bob"]
    assert [rater["ratings"] for rater in summary["raters"]] == [4, 3]
    code, _, error = study("agreement", path, "--rating", "ann", "--rating", "carl")
    assert code == 2 and "no column 'carl', found columns id, ann, bob" in error


def test_systems_change_what_is_printed(study, arguments):
    code, out, _ = study("run", *arguments, "--samples", 20)
    assert code == 0 and "Between the 4 systems" in out and "system τ" in out and "soft acc." in out


def test_a_recipe_refuses_columns(study, tmp_path):
    code, _, error = study("run", "flickr8k-expert", "--data", tmp_path, "--group", "picture")
    assert code == 2 and "leave out --group" in error


@pytest.fixture
def own(tmp_path):
    """Ratings with columns of their own, one rating a row, and a metric in another file, by image and caption."""
    rows, values = [], ["img,text,mymetric"]
    for number in range(24):
        for system, words in (("up", "a dog"), ("down", "some cat")):
            text = f"{words} {number}"
            values.append(f"{number}.jpg,{text},{(7 * number + len(system)) % 11}")
            for rater in ("ann", "bob"):
                rating = 1 + (3 * number + len(rater + system)) % 5
                rows.append({"img": f"{number}.jpg", "sys": system, "text": text, "who": rater, "stars": rating})
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "mine.csv").write_text("\n".join(values) + "\n")
    columns = ("--group", "img", "--candidate-column", "text", "--rating", "stars", "--rater", "who")
    return tmp_path / "r.jsonl", *columns, "--scores", tmp_path / "mine.csv", "--samples", 0


def test_a_metric_of_ones_own_joins_by_image_and_caption(study, own):
    code, out, error = study("run", *own)
    assert code == 0 and "mymetric" in out and "Between the" not in out, error
    summary = json.loads(study("run", *own, "--json")[1])
    assert summary["items"] == 48 and summary["rows"] == 96


def test_systems_are_compared_where_their_column_is_named(study, own):
    code, out, _ = study("run", *own, "--system", "sys", "--statistic", "system_tau")
    assert code == 0 and "Between the 2 systems" in out and "up" in out and "down" in out
    code, _, error = study("run", *own, "--statistic", "system_tau")
    assert code == 2 and "name their column with --system" in error


def test_the_rater_is_an_option_wherever_ratings_are_read(study, own):
    assert study("lengths", *own)[0] == 0
    assert study("combine", *own, "--add", own[-3])[0] == 0
    assert "ann" in study("agreement", *own[:9], "--samples", 0)[1]


def test_combine_begins_with_the_number_of_run(study, arguments):
    run = json.loads(study("run", *arguments, "--samples", 0, "--json")[1])
    taus = {row["metric"]: row["statistics"]["tau_b"]["value"] for row in run["metrics"]}
    rows = json.loads(study("combine", *arguments, "--add", "bleu(n=1)", "--samples", 0, "--json")[1])["rows"]
    assert {row["metric"]: row["before"] for row in rows} == pytest.approx(taus)
    assert {row["statistic"] for row in rows} == {"tau_b"}


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("combine", ("--add", "bleu(n=1)", "--factors", "nan"), "--factors nan, expected a finite number"),
        ("combine", ("--add", "bleu(n=1)", "--factors", "1,inf"), "--factors inf, expected a finite number"),
        ("lengths", ("--edges", "-5"), "--edges -5: expected lengths between"),
        ("lengths", ("--edges", "900"), "--edges 900: expected lengths between"),
    ],
)
def test_numbers_that_mean_nothing_here(study, arguments, command, options, message):
    code, out, error = study(command, *arguments, "--samples", 0, *options)
    assert code == 2 and message in error and error.count("\n") == 1 and out == ""


def test_power_takes_tau_as_tables_print_it(study):
    points = json.loads(study("power", "--difference", 5, "--tau", 45, "--items", 50, "--json")[1])
    assert points["difference"] == 0.05 and "tau 0.45" in points["assumed"]


def test_sorted_ratings_come_with_what_to_do(study, tmp_path):
    path = tmp_path / "sorted.jsonl"
    rows = [{"id": number, "ratings": sorted([number % 3 + 1, number % 5 + 1, 4])} for number in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, error = study("agreement", path, "--samples", 0)
    assert code == 0 and "ignore the ceiling and the table of raters" in error


def test_recipes_say_whether_they_have_met_their_files(study):
    code, out, _ = study("recipes", "--all")
    assert code == 0 and out.count("tried on the authors' files:") == len(RECIPES) and "nebula" in out


def test_scores_that_are_given_twice(run, tmp_path):
    rows = [{"id": str(number), "image": str(number), "caption": "a dog", "rating": number % 3} for number in range(6)]
    (tmp_path / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "p.csv").write_text("id,mine\n" + "".join(f"{number},{number % 4}\n" for number in range(6)))
    scores = ["--scores", tmp_path / "p.csv"]
    code, out, error = run("study", "run", tmp_path / "ratings.jsonl", *scores, *scores)
    assert (code, out) == (2, "") and "p.csv: given 2 times, expected each file or run once" in error
    assert run("study", "run", tmp_path / "ratings.jsonl", *scores, "--samples", 0)[0] == 0


def test_a_system_that_is_given_twice_is_said(run, tmp_path):
    (tmp_path / "p.json").write_text(json.dumps({"1": "a dog", "2": "a cat"}))
    (tmp_path / "r.json").write_text(json.dumps({"1": ["a dog"], "2": ["the cat"]}))
    pair = [tmp_path / "p.json", tmp_path / "p.json"]
    code, _, error = run("compare", *pair, "-r", tmp_path / "r.json", "-m", "rouge", "--samples", 0)
    assert code == 0 and "p.json is given twice, as 'p' and 'p-2'" in error.replace(f"{tmp_path.name}-", "")
