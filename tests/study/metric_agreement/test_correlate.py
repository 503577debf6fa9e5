"""``captious.correlate``: the study object, its tables and files, and what bad input gets."""

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from lab.toy import make, write

import captious
from captious._core.files import OUTPUT
from captious.captions import Ragged
from captious.errors import InputError
from captious.metrics.meteor import resources
from captious.options import Resampling
from captious.render import Evidence, Gallery
from captious.render.html import render_page
from captious.render.terminal import format_text
from captious.study.judgments import Preferences, Ratings, open_ratings
from captious.study.recipes import Recipe


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=25), tmp_path_factory.mktemp("sample") / "s", size=48)


@pytest.fixture(scope="module")
def ratings(sample):
    return open_ratings(sample / "ratings.jsonl", sample / "references.json", images=sample / "images")


@pytest.fixture(scope="module")
def study(ratings):
    return captious.correlate(ratings, "bleu(n=1),rouge,cider", resampling=Resampling(200))


@pytest.mark.parametrize("before", ["", "import captious.study.metric_agreement.study", "from captious import study"])
def test_the_function_and_the_package_have_names_of_their_own(before):
    program = (
        f"import captious\n{before}\n"
        "from captious.options import Resampling\n"
        "values = {'a': 1, 'b': 2, 'c': 3}\n"
        "result = captious.correlate(values, {'m': values}, resampling=Resampling(samples=0))\n"
        "import captious.study\n"
        "assert captious.study.correlate is captious.correlate\n"
        "print(result.estimates['m']['tau_b'].value)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1.0"], done.stderr


def test_importing_the_package_imports_nothing_heavy():
    program = "import sys, captious, captious.study, captious.study.study_options; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "rich", "pyarrow"} & set(done.stdout.split())


def test_the_table_has_both_taus_ties_and_counts(study):
    text = format_text(study.document(), width=160)
    for part in ("τ-b", "τ-c", "95% interval", "ties", "500 rows of 100 captions of 25 images", "tied in the ratings"):
        assert part in text
    rows = [line.split() for line in text.splitlines()]
    assert ["1", "CIDEr-D"] in [row[:2] for row in rows]
    names = [getattr(column, "name", column) for column in study.document().table("metrics").columns]
    assert names[2:5] == ["τ-b", "τ-c", "ties"]  # the ties stand beside the taus that they move


def test_no_number_is_cut_on_a_narrow_terminal(study):
    text = format_text(study.document(), width=80)
    assert "…" not in text.split("study:")[0]
    for key, estimates in study.estimates.items():
        for name in ("tau_b", "tau_c", "spearman", "pearson", "sample_tau", "accuracy_eq", "system_tau"):
            assert f"{100 * estimates[name].value:.2f}" in text, (key, name)


def test_abbreviations_are_explained_under_the_table(study):
    note = study.document().table("metrics").note
    for part in ("τ-b, τ-c: Kendall's tau", "acc. eq: caption pairs", "1−R²: squared error", "ties: row pairs"):
        assert part in note


def test_systems_have_a_table_of_their_own(study):
    systems, means = study.document().table("systems"), study.document().table("means")
    assert [column.name for column in systems.heads] == ["metric", "system τ", "system r", "soft acc."]
    assert systems.rows[0][1].value == study.estimates[study.order[0]]["system_tau"].value
    by_system = {}
    for key, value in zip(study.ids, study.design.mean, strict=True):
        by_system.setdefault(key.rsplit("/", 1)[1], []).append(value)
    assert {row[0]: pytest.approx(row[2]) for row in means.rows} == {key: np.mean(v) for key, v in by_system.items()}


def test_two_systems_are_enough():
    rng = np.random.default_rng(3)
    people = Ratings.of(
        {str(number): float(rng.integers(1, 6)) for number in range(40)},
        groups=[str(number // 2) for number in range(40)],
        systems=["a", "b"] * 20,
    )
    values = {key: float(value + rng.normal()) for key, value in zip(people.ids, people.mean, strict=True)}
    result = captious.correlate(people, {"m": values}, resampling=Resampling(20), statistic="system_tau")
    assert abs(result.estimates["m"]["system_tau"].value) == 1
    assert "two systems" in result.document().table("systems").note


def test_systems_without_a_common_image_have_no_soft_accuracy():
    systems = ["a"] * 6 + ["b"] * 6
    people = Ratings.of({str(number): number % 4 for number in range(12)}, systems=systems)
    values = {str(number): float(number % 5) for number in range(12)}
    result = captious.correlate(people, {"m": values}, resampling=Resampling(0))
    assert np.isnan(result.soft["m"]) and "no image in common" in str(result)


def test_metrics_are_named_loosely_and_compared(study):
    contest = study.compare("cider", "ROUGE-L")
    assert (contest.first, contest.second) == ("cider", "rouge")
    gap = study.estimates["cider"]["tau_b"].value - study.estimates["rouge"]["tau_b"].value
    assert contest.difference == pytest.approx(gap, abs=1e-12)
    assert contest.low < contest.difference < contest.high
    assert contest.williams.degrees == 97
    other = study.compare("rouge", "cider")
    assert other.difference == pytest.approx(-contest.difference) and other.p == pytest.approx(contest.p, abs=0.05)
    with pytest.raises(InputError, match="did you mean 'cider'"):
        study.compare("cidr", "rouge")


def test_a_study_is_the_same_under_a_seed_and_its_signature_says_it(ratings, study):
    again = captious.correlate(ratings, "bleu(n=1),rouge,cider", resampling=Resampling(200))
    assert again.estimates == study.estimates and again.contests == study.contests
    other = captious.correlate(ratings, "bleu(n=1),rouge,cider", resampling=Resampling(200, 1))
    assert other.estimates["cider"]["tau_b"].low != study.estimates["cider"]["tau_b"].low
    assert "seed=12345" in study.signature and "seed=1," in other.signature


def test_p_values_are_holm_adjusted_over_all_pairs(study):
    raw = sorted(contest.p for contest in study.contests)
    assert len(raw) == 3
    assert min(contest.p_holm for contest in study.contests) == pytest.approx(min(1.0, 3 * raw[0]))


def test_other_headlines(ratings):
    for statistic in ("pearson", "spearman", "sample_tau", "accuracy_eq", "system_pearson"):
        result = captious.correlate(
            ratings, "rouge,cider", statistic=statistic, resampling=Resampling(20), permutations=50
        )
        assert result.statistic == statistic
        assert 0 < result.contests[0].p <= 1
    with pytest.raises(InputError, match="no such statistic"):
        captious.correlate(ratings, "rouge", statistic="tau")


def test_a_metric_whose_lower_is_better_is_turned():
    people = {str(number): number % 5 for number in range(30)}
    from captious.study.scores import MetricScores

    errors = np.array([-float(number % 5) for number in range(30)])
    result = captious.correlate(
        people, [MetricScores("err", "error", errors, higher_is_better=False)], resampling=Resampling(0)
    )
    assert result.estimates["err"]["tau_b"].value == pytest.approx(1.0)
    assert result.warnings == ("error: lower is better, its sign is reversed",)


def test_items_without_a_value_are_left_out_for_all_and_counted():
    people = {str(number): number % 5 for number in range(30)}
    one = {key: value + 0.1 * int(key) for key, value in people.items()}
    other = {**one, "3": float("nan"), "7": float("nan")}
    result = captious.correlate(people, {"one": one, "other": other}, resampling=Resampling(0))
    assert result.missing == {"one": 0, "other": 2} and result.design.items == 28
    assert "2 items for which a metric has no value" in str(result)


def test_a_filter_leaves_out_captions_before_anything_is_computed():
    people = {str(number): number % 5 for number in range(30)}
    one = {key: value + 0.1 * int(key) for key, value in people.items()}
    half = {key: value for key, value in people.items() if int(key) < 15}
    result = captious.correlate(
        people, {"one": one}, resampling=Resampling(0), where="one < 100 and not rating > 3 and id != '2'"
    )
    kept = {key: value for key, value in people.items() if value <= 3 and key != "2"}
    alone = captious.correlate(kept, {"one": one}, resampling=Resampling(0))
    assert result.ids == tuple(kept) and result.estimates == alone.estimates
    assert result.ratings.dropped == {"not one < 100 and not rating > 3 and id != '2'": 7}
    assert "|where:one < 100 and not rating > 3 and id != '2'|" in result.signature
    with pytest.raises(InputError, match=r"no caption is left, one > 100 is true for none"):
        captious.correlate(half, {"one": one}, resampling=Resampling(0), where="one > 100")
    with pytest.raises(
        InputError, match=r"filter, character 1 at 'on > 1': no metric or column 'on'; did you mean 'one"
    ):
        captious.correlate(half, {"one": one}, resampling=Resampling(0), where="on > 1")


def test_a_filter_sees_captions_systems_and_images(ratings):
    texts = {item.id: item.candidate for item in ratings.captions}
    system = ratings.systems[0]
    expected = [
        key
        for key, one, mean in zip(ratings.ids, ratings.systems, ratings.mean, strict=True)
        if one == system and len(texts[key].split()) > 4 and mean < 5
    ]
    where = f'system == "{system}" and words > 4 and rating < 5 and references is present and raters >= 1'
    result = captious.correlate(ratings, "rouge", resampling=Resampling(0), where=where)
    assert list(result.ids) == expected and 3 < len(expected) < len(texts)


def test_few_permutations_are_warned_of(ratings):
    result = captious.correlate(ratings, "bleu,rouge,cider", resampling=Resampling(0), permutations=100)
    assert "cannot reach" in result.warnings[0]


def test_latex_is_whole_booktabs_tables(study):
    text = study.to_latex()
    tables = re.findall(r"\\begin{tabular}.*?\\end{tabular}", text, re.DOTALL)
    assert len(tables) == text.count(r"\begin{tabular}") == 5  # metrics, between systems, their means, people, tests
    for part in tables:
        head = re.search(r"\\begin{tabular}{(\w+)}", part)[1]
        body = [line for line in part.splitlines() if line.endswith(r"\\")]
        assert {line.count("&") + 1 for line in body} == {len(head)}
        assert part.index(r"\toprule") < part.index(r"\midrule") < part.index(r"\bottomrule")
    body = [line for line in tables[0].splitlines() if line.endswith(r"\\")]
    assert len(body) == 4 and r"\textbf{" in body[1] and r"$\tau_b$" in body[0]
    assert "τ" not in re.sub(r"(?m)^%.*$", "", text)
    assert ("dagger$" in tables[0]) == (len(study.clusters[0]) > 1)


def test_a_tie_with_the_best_is_marked():
    rng = np.random.default_rng(0)
    quality = rng.integers(1, 6, 60).astype(float)
    people = {str(number): value for number, value in enumerate(quality)}
    noisy = [dict(zip(people, quality + rng.normal(0, 1, 60), strict=True)) for _ in range(2)]
    result = captious.correlate(people, {"a_1": noisy[0], "b": noisy[1]}, resampling=Resampling(50))
    assert len(result.clusters) == 1
    assert r"a\_1" in result.to_latex() and result.to_latex().count(r"$^\dagger$") == 1
    assert "metrics that share a rank do not differ significantly" in " ".join(str(result).split())


def test_saving_writes_everything_whole(study, tmp_path):
    target = tmp_path / "out"
    study.save(str(target))
    names = {path.name for path in target.iterdir()}
    tables = {"metrics.csv", "systems.csv", "means.csv", "contests.csv", "people.csv", "people_tests.csv"}
    assert names == {OUTPUT, "study.csv", "study.tex", "study.txt", "items.jsonl", "study.html"} | tables
    summary = json.loads((target / OUTPUT).read_text())
    assert summary["rows"] == 500 and summary["contests"][0]["p_holm"] <= 1
    assert all("soft_pairwise_accuracy" in metric for metric in summary["metrics"])
    rows = list(csv.DictReader(io.StringIO((target / "study.csv").read_text())))
    cider = next(row for row in rows if row["metric"] == "cider" and row["statistic"] == "tau_b")
    assert float(cider["value"]) == study.estimates["cider"]["tau_b"].value and cider["missing"] == "0"
    assert len((target / "items.jsonl").read_text().splitlines()) == 100
    with pytest.raises(InputError, match="already exists"):
        study.save(str(target))


def test_the_page_holds_captions_as_data_only(ratings):
    from dataclasses import replace

    captions = ratings.captions
    texts = ["</script><b>a dog" if index % 2 else text for index, text in enumerate(captions.candidates.values)]
    evil = replace(captions, candidates=replace(captions.candidates, values=tuple(texts)))
    result = captious.correlate(
        replace(ratings, captions=evil), "bleu(n=1),rouge", resampling=Resampling(20), permutations=20
    )
    text = render_page(result.document())
    assert "</script><b>a dog" not in text and "<b>a dog" not in text
    assert "data:image/" in text and "Where ROUGE-L and people disagree most" in text
    assert not re.search(r'(src|href)="http', text)
    sections = result.document().sections
    (gallery,) = [part for part in sections if isinstance(part, Gallery)]  # of the best metric
    assert gallery.title == f"Where {result.labels[result.order[0]]} and people disagree most"
    worst = next(part for part in sections if isinstance(part, Evidence) and "ROUGE-L" in part.title)
    assert len(worst.entries) == 20 and worst.entries[0].references


def test_rows_of_means():
    people = {"a": [1, 2], "b": [2, 2], "c": [4, 5], "d": [3, 5]}
    values = {"m": {"a": 1.0, "b": 2.0, "c": 4.0, "d": 3.0}}
    each = captious.correlate(people, values, resampling=Resampling(0))
    mean = captious.correlate(people, values, resampling=Resampling(0), recipe=Recipe("r", (), rows="mean"))
    assert len(each.design.human) == 8 and len(mean.design.human) == 4
    assert mean.estimates["m"]["pearson"].value == pytest.approx(np.corrcoef([1.5, 2, 4.5, 4], [1, 2, 4, 3])[0, 1])


PEOPLE = {str(number): number % 3 for number in range(9)}


@pytest.mark.parametrize(
    ("people", "values", "message"),
    [
        (
            dict.fromkeys(PEOPLE, 2),
            {key: float(key) for key in PEOPLE},
            "all 9 ratings are 2: agreement with people is",
        ),
        (PEOPLE, dict.fromkeys(PEOPLE, 0.5), "m is 0.5 on all 9 items of ratings: a constant"),
        (PEOPLE, {"0": 1.0, "x": 2.0}, r"8 of 9 rated items \(1, 2, 3, …\) have no m, and 1 of 2 values \(x\)"),
        (PEOPLE, {"x": 1.0}, "9 of 9 rated items"),
        (
            {"0": 1, "1": 2},
            {"0": 1.0, "1": 2.0},
            "2 items have ratings and values of every metric, expected at least 3",
        ),
    ],
)
def test_what_cannot_be_studied_is_said(people, values, message):
    with pytest.raises(InputError, match=message):
        captious.correlate(people, {"m": values})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": "williams"}, "at least 4 rated items, ratings has 3"),
        ({"test": "bootstrap", "resampling": Resampling(samples=0)}, "resamples"),
    ],
)
def test_tests_that_cannot_be_run(options, message):
    people = {"a": 1, "b": 2, "c": 2}
    with pytest.raises(InputError, match=message):
        captious.correlate(people, {"m": {"a": 1, "b": 2, "c": 3}, "k": {"a": 1, "b": 3, "c": 2}}, **options)


def test_the_test_behind_the_clusters_can_be_chosen(ratings):
    for test, field in (("williams", "williams"), ("bootstrap", "p_bootstrap")):
        contest = captious.correlate(
            ratings, "rouge,cider", resampling=Resampling(50), permutations=50, test=test
        ).contests[0]
        assert contest.p == (contest.williams.p if field == "williams" else contest.p_bootstrap)


def test_ids_that_do_not_join_can_be_skipped():
    values = {key: float(key) for key in list(PEOPLE)[:6]}
    result = captious.correlate(PEOPLE, {"m": values}, missing="skip", resampling=Resampling(0))
    assert result.missing == {"m": 3} and result.design.items == 6


def test_one_image_cannot_be_resampled():
    with pytest.raises(InputError, match="one image or group"):
        captious.correlate(Ratings.of(PEOPLE, groups=["i"] * 9), {"m": {key: float(key) for key in PEOPLE}})


def test_ratings_without_captions_cannot_be_measured():
    with pytest.raises(InputError, match="ratings without captions"):
        captious.correlate(PEOPLE, "cider")


def test_disagreements_are_the_largest_gaps_in_standing(study):
    worst = study.disagreements(5)["cider"]
    gaps = [abs(row["gap"]) for row in worst]
    assert gaps == sorted(gaps, reverse=True) and len(worst) == 5
    assert all(row["gap"] == pytest.approx(row["metric"] - row["people"]) for row in worst)


def test_of_all_metrics_a_constant_one_is_left_out_with_a_word(ratings, monkeypatch):
    monkeypatch.setattr(resources, "has_tables", lambda named: False)
    same = Ragged.of([["a red dog"]] * len(ratings.captions))
    known = replace(ratings, captions=replace(ratings.captions, candidates=same))
    with pytest.raises(InputError, match="a constant correlates with nothing"):
        captious.correlate(known, "vocab_size,cider", resampling=Resampling(0))
    study = captious.correlate(known, "all", resampling=Resampling(0), permutations=10)
    assert "vocab_size" not in study.labels and "cider" in study.labels
    assert study.warnings[0].startswith("left out, the same for every caption: ") and "vocab_size" in study.warnings[0]


def test_the_largest_disagreements_are_a_table_and_in_a_notebook_cards(study):
    worst = study.worst(3, "cider")
    rows = study.disagreements(3)["cider"]
    frame = worst.to_pandas()
    assert frame["id"].tolist() == [row["items"][0] for row in rows]
    assert frame["mean_rating"].tolist() == [row["human"] for row in rows]
    markup = worst._repr_html_()
    assert "<table" not in markup and all(row["items"][0] in markup for row in rows)
    assert study.worst(2).title.startswith(f"2 largest disagreements of {study.labels[study.order[0]]} ")


def test_of_pairs_the_worst_are_those_where_the_metric_prefers_what_people_reject():
    ids = tuple(f"{pair}/{side}" for pair in range(4) for side in (0, 1))
    pairs = Preferences(ids, np.array([0.0, 1, 0, 0]), tuple("abcd"), ("HC",) * 4)
    values = dict(zip(ids, (1.0, 2.0, 0.0, 5.0, 0.0, 4.0, 3.0, 1.0), strict=True))
    study = captious.correlate(
        pairs, {"m": values}, recipe=Recipe("p", (), kind="pairs"), resampling=Resampling(0), permutations=9
    )
    # The metric is wrong on the first pair (2 against 1) and on the third (4 against 0).
    assert study.worst().to_pandas().to_dict("list") == {
        "preferred": ["2/0", "0/0"],
        "m": [0.0, 1.0],
        "rejected": ["2/1", "0/1"],
        "m_rejected": [4.0, 2.0],
    }
    assert repr(pairs) == "<Preferences pairs: 4 pairs>"
    assert study.signature.startswith("study:pairs|statistic:mean|")  # pairs have no aspect to name
