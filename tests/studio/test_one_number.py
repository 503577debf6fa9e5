"""One number has the same digits in the terminal, JSON, reports, the explorer, a site, and on the owner's page."""

import html
import json

import numpy as np
import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")

from starlette.testclient import TestClient
from tests.studio.studies import OWNER

from captious.studio._study_app import build_app as build_studio
from captious.studio.access import Limit, Rules
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import Choice, Task
from captious.studio.collect.study_plan import Aspect, Plan
from captious.studio.explore._explorer_app import build_app
from captious.studio.explore.explorer_table import open_table
from captious.studio.explore.site import export_site
from captious.studio.owner.export import export_study
from captious.studio.owner.study_progress import study_progress

TOKEN = "a-token-of-the-owner"
WORDS = ("a", "dog", "runs", "on", "the", "red", "grass", "near", "two", "small", "balls")


@pytest.fixture
def compared(run, tmp_path):
    """Two systems on 60 items, compared by two metrics: the folder, what the terminal prints, and the JSON."""
    rng = np.random.default_rng(5)
    references = {str(key): " ".join(rng.choice(WORDS, 7)) for key in range(60)}
    (tmp_path / "refs.json").write_text(json.dumps(references))
    for name, kept in (("good", 6), ("fair", 4)):
        captions = {key: " ".join([*text.split()[:kept], *rng.choice(WORDS, 3)]) for key, text in references.items()}
        (tmp_path / f"{name}.json").write_text(json.dumps(captions))
    folder = tmp_path / "compared"
    files = [tmp_path / "good.json", tmp_path / "fair.json", "--references", tmp_path / "refs.json"]
    code, text, error = run("compare", *files, "--metrics", "rouge,bleu(n=1)", "--out", folder)
    assert code == 0, error
    return folder, text, json.loads(run("compare", *files, "--metrics", "rouge,bleu(n=1)", "--json")[1])


def numbers_of(report, metric):
    """The value of a metric and both ends of its interval, from the JSON of a report."""
    (facts,) = (one for one in report["metrics"] if one["metric"] == metric)
    return [facts[part] for part in ("value", "low", "high")]


def shown(value, low, high):
    """A value with half of its interval as a table of systems prints it."""
    return f"{value:.4f} ± {(high - low) / 2:.4f}"


def site_data(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def test_a_metric_in_terminal_json_report_explorer_and_site(compared, tmp_path):
    folder, terminal, report = compared
    (file,) = folder.glob("*.html")
    page = html.unescape(file.read_text(encoding="utf-8"))
    table = open_table([folder])
    client = TestClient(build_app(table, TOKEN), base_url="http://127.0.0.1")
    client.get(f"/?token={TOKEN}")
    export_site(table, tmp_path / "site")
    site = site_data(tmp_path / "site")
    for place, score in enumerate(table.scores):
        summary = client.get("/api/summary", params={"sort": score.key}).json()
        for system, name in enumerate(table.systems):
            numbers = numbers_of(report["systems"][name], score.key)
            digits = shown(*numbers)
            assert digits in terminal and digits in page
            for other in (summary["systems"][system], site["whole"][place]["systems"][system]):
                assert [other[part] for part in ("value", "low", "high")] == numbers
        # The test of two systems too: `compare` has it without a correction, for there is one.
        (difference,) = (row for row in report["differences"] if row["metric"] == score.key)
        assert summary["test"]["p"] == difference["p"] == site["whole"][place]["tests"][0]["p"]
        assert summary["level"] == site["level"] == 0.95


def test_a_selection_is_resampled_as_the_run_was(compared, run, tmp_path):
    """A filter that all captions pass gives the interval of the report: its method, seed, samples and level."""
    folder = tmp_path / "run"
    options = ("--samples", 300, "--seed", 7, "--level", 0.9, "--interval", "t")
    command = ("score", tmp_path / "good.json", "--references", tmp_path / "refs.json", "--metrics", "rouge")
    code, _, error = run(*command, *options, "--out", folder)
    assert code == 0, error
    client = TestClient(build_app(open_table([folder]), TOKEN), base_url="http://127.0.0.1")
    client.get(f"/?token={TOKEN}")
    stored = numbers_of(json.loads(run(*command, *options, "--json")[1]), "rouge")
    for where in ("", "words > 0"):
        found = client.get("/api/summary", params={"where": where}).json()
        assert found["level"] == 0.9
        assert [found["systems"][0][part] for part in ("value", "low", "high")] == pytest.approx(stored, abs=1e-12)


def test_the_pages_print_the_digits_of_the_report(compared, page, serve, tmp_path):
    folder, terminal, report = compared
    table = open_table([folder])
    digits = [shown(*numbers_of(report["systems"][name], "rouge")) for name in table.systems]
    assert len(digits) == 2 and all(number in terminal for number in digits)
    address = serve(build_app(table, TOKEN))
    page.request.get(f"{address}/?token={TOKEN}")
    export_site(table, tmp_path / "site")
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    site = serve(Starlette(routes=[Mount("/", StaticFiles(directory=tmp_path / "site", html=True))]))
    for start in (address, site):
        page.goto("about:blank")
        page.goto(f"{start}/#sort=rouge")
        page.wait_for_selector("#summary >> text=half of the 95 % interval")
        text = page.inner_text("#summary")
        assert all(number in text for number in digits), text


@pytest.fixture(params=["ordinal", "interval"])
def log(request, tmp_path):
    """Twelve images with captions of three systems, rated by four raters who do not agree well."""
    aspects = (Aspect("overall", "How good?"),)
    plan = Plan(tmp_path / "study.toml", "Dogs", "ratings", aspects=aspects, overlap=4, together=3, images="photos")
    log = StudyLog.open(tmp_path / "study.db")
    measurement = None if request.param == "ordinal" else request.param  # ordinal is the default
    log.begin(
        Plan(**{**vars(plan), "measurement": measurement}),
        [
            Task(f"t{n}", str(n), f"p{n}.png", tuple(Choice(one, f"{one} dog {n}", f"system-{one}") for one in "abc"))
            for n in range(12)
        ],
    )
    rng = np.random.default_rng(8)
    for rater in log.add_raters([f"rater {number}" for number in range(4)]):
        for page in range(12):
            task = log.next_page(rater.id)
            good = dict(zip("abc", (4, 3.4, 2.5), strict=True))
            ratings = {one: {"overall": int(np.clip(rng.normal(good[one], 1.2), 1, 5))} for one in "abc"}
            body = {"order": list(task.order), "purpose": "work", "seconds": 5.0, "answer": {"ratings": ratings}}
            log.record(rater.id, "answered", f"{rater.id}-{page}", task.task.id, body)
    yield log
    log.close()


def test_people_on_the_owners_page_and_in_the_commands(log, run, tmp_path):
    export_study(log, tmp_path / "export")
    app = build_studio(log.plan(), log, Rules(), "http://127.0.0.1", OWNER, Limit(1000, seconds=1))
    client = TestClient(app, base_url="http://127.0.0.1:8765")
    client.get(f"/owner?token={OWNER}")
    owner = html.unescape(client.get("/owner").text)

    code, systems, error = run("study", "systems", tmp_path / "export")
    assert code == 0, error
    data = json.loads(run("study", "systems", tmp_path / "export", "--json")[1])
    lines = systems.splitlines()
    for one in data["questions"][0]["systems"]:
        mean = one["mean"]
        value, ends = f"{mean['value']:.2f}", f"{mean['low']:.2f} – {mean['high']:.2f}"
        assert any(value in line and ends in line for line in lines)
        assert f">{value}<" in owner and ends in owner
    for one in data["questions"][0]["contests"]:
        assert f"{one['difference']['low']:+.2f} – {one['difference']['high']:+.2f}".replace("-", "−") in owner.replace(
            "-", "−"
        )
    # The words of the note are those of the method in the signature.
    assert "95%,t)" in systems and "Student's t" in " ".join(systems.split()) and "percentile" not in systems
    assert "Student's t" in owner

    measurement = log.plan().measurement or "ordinal"
    alphas = [
        run("study", "agreement", tmp_path / "export" / name)[1] for name in ("", "ratings.jsonl", "ratings.toml")
    ]
    status = str(study_progress(log))
    record = json.loads(run("study", "agreement", tmp_path / "export", "--json")[1])["alpha"]
    alpha = record["estimate"]
    assert record["measurement"] == measurement
    digits, ends = f"{alpha['value']:.3f}", (f"{alpha['low']:.3f}", f"{alpha['high']:.3f}")
    for text in (*alphas, status):
        assert digits in text and f"{ends[0]} – {ends[1]}" in text and measurement in text
    assert f'<p class="big">{digits}</p>' in owner and f"[{ends[0]}, {ends[1]}]".replace("-", "−") in owner
    other = "interval" if measurement == "ordinal" else "ordinal"
    assert digits not in run("study", "agreement", tmp_path / "export", "--measurement", other)[1]
