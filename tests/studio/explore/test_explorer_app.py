"""The explorer's server: every route, who gets in, and captions that attack."""

import json
from pathlib import Path

import pytest
from PIL import Image
from tests.studio.explore.conftest import REFERENCES, SYSTEMS, write_run
from tests.studio.hostile import HOSTILE

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
pytest.importorskip("httpx", reason="httpx is not installed")

from starlette.testclient import TestClient

from captious import evaluate
from captious.options import Resampling
from captious.studio.explore._explorer_app import build_app
from captious.studio.explore._media import Pictures
from captious.studio.explore.explorer_table import open_table

TOKEN = "a-token-of-the-owner"


def client_of(table):
    client = TestClient(build_app(table, TOKEN), base_url="http://127.0.0.1")
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


@pytest.fixture
def client(table):
    return client_of(table)


def about_of(client):
    text = client.get("/").text
    return json.loads(text.split('id="about">')[1].split("</script>")[0])


def post(client, path, body, **headers):
    return client.post(path, json=body, headers={"X-Form-Token": about_of(client)["token"], **headers})


def test_only_the_holder_of_the_token_gets_in(table):
    client = TestClient(build_app(table, TOKEN), base_url="http://127.0.0.1")
    for path in ("/", "/api/list", "/api/item?id=1", "/thumbnail/0", "/image/0", "/ids.txt", "/explore.js"):
        assert client.get(path).status_code == 403
    assert client.get("/?token=wrong-token-of-someone").status_code == 403
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_the_page_runs_no_script_but_its_own(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "style-src 'self'" in policy and "unsafe" not in policy
    assert " style=" not in answer.text and "onclick" not in answer.text
    assert answer.text.count("<script") == 2 and "innerHTML" not in client.get("/explore.js").text


def test_the_page_knows_systems_scores_and_what_is_missing(client):
    about = about_of(client)
    assert [system["name"] for system in about["systems"]] == ["sat", "oscar"]
    assert [metric["label"] for metric in about["metrics"]] == ["ROUGE-L", "BLEU-1", "Human rating", "Human fluency"]
    assert about["total"] == 4 and about["rated"] is True and about["unscored"] == {"all": 0, "systems": [0, 0]}
    assert about["metrics"][2]["bounds"] == [1.5, 4.0]
    assert about["systems"][0]["signatures"][0].startswith("rouge|")


def test_a_list_has_a_page_of_records_in_order(client):
    found = client.get("/api/list", params={"sort": "rouge", "order": "worst", "system": "oscar", "number": 3}).json()
    assert (found["total"], found["first"], len(found["records"])) == (4, 0, 3)
    assert found["records"][0]["id"] == "1" and found["records"][0]["systems"][1]["texts"] == ["a cat"]
    last = client.get("/api/list", params={"order": "given", "first": 900, "number": 3}).json()
    assert last["first"] == 3 and [record["id"] for record in last["records"]] == ["4"]
    record = last["records"][0]
    assert record["references"] == REFERENCES["4"] and record["picture"] == "thumbnail/3"


def test_a_filter_that_cannot_be_read_is_one_line_and_no_page(client):
    answer = client.get("/api/list", params={"where": "rouge <"})
    assert answer.status_code == 400
    assert answer.json() == {"error": "filter, character 8: expected a column, a number or a text, found the end"}


@pytest.mark.parametrize(
    "address",
    [
        "/api/list?sort=nosuch",
        "/api/list?number=-1",
        "/api/list?first=99999999999",
        "/api/item?id=nosuch",
        "/api/item",
        "/api/explain?system=sat&score=nosuch&id=1",
        "/api/explain?score=rouge&id=1",
        "/api/distribution?score=rouge&low=1&high=0",
        "/api/distribution?score=rouge&low=a&high=0",
        "/api/distribution?score=rouge&low=nan&high=inf",
        "/api/points?x=a",
        "/ids.txt?where=rouge",
        "/api/summary?where=rouge",
        "/api/summary?sort=nosuch",
        "/api/points?x=rouge&y=rating&where=rouge+<",
        "/api/agreement?lasso=1",
        "/api/list?number=0",
        "/api/list?number=1.5",
        "/api/distribution?score=rouge&low=0&high=1&bins=0",
        "/api/list?where=" + "(" * 20_000,
        "/api/list?where=" + "not " * 900 + "rouge",
        "/api/list?where=caption%20matches%20%22(%22",
        "/api/list?where=caption%20has%20%22%ED%A0%80",
        "/api/list?sort=" + "x" * 20_000,
        "/api/item?id=%ED%A0%80",
        "/api/item?id=%00",
        "/api/list?lasso=1e308,1e308;-1e308,1e308",
    ],
)
def test_a_wrong_address_is_answered_with_one_line(client, address):
    answer = client.get(address)
    assert answer.status_code == 400 and "\n" not in answer.json()["error"] and len(answer.text) < 1000


@pytest.mark.parametrize(
    "view",
    [
        {"where": "words in (1.5)"},
        {"where": "words in (1.5, 2)"},
        {"q": "%_'\";--"},
        {"q": "\ufffd " * 40},
        {"where": 'caption == "\'; DROP TABLE items; --"'},
        {"lasso": "1e308,1e308;-1e308,1e308;-1e308,-1e308"},
        {"min": "-1e308", "max": "1e308"},
        {"where": "rouge / 0 > 1 or rouge * 1e308 * 1e308 < 1"},
    ],
)
def test_a_strange_address_is_answered_like_any_other(client, view):
    answer = client.get("/api/list", params=view)
    assert answer.status_code == 200 and answer.json()["total"] <= 4
    assert client.get("/api/list").json()["total"] == 4


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("study", "[" * 20_000),
        ("views", '{"name": ' * 5000),
        ("study", '"\\ud800"'),
        ("study", '{"name": "a", "ids": ["\\ud800"]}'),
        ("study", '{"name": "a", "view": {"where": "\\ud800"}}'),
        ("study", '{"name": "a", "view": 3}'),
        ("study", '{"name": "a", "view": [["a"]]}'),
        ("views", '{"name": "\\ud800", "address": "x"}'),
        ("views", '{"name": "a", "address": "x\\ud800"}'),
    ],
)
def test_a_wrong_body_is_answered_with_one_line(client, route, body):
    headers = {"X-Form-Token": about_of(client)["token"]}
    answer = client.post(f"/api/{route}", content=body, headers=headers)
    assert answer.status_code == 400 and "\n" not in answer.json()["error"]


def test_where_a_view_lists_an_item(client):
    view = {"sort": "rouge", "order": "best", "system": "oscar"}
    assert client.get("/api/place", params={**view, "id": "2"}).json() == {"place": 0}
    assert client.get("/api/place", params={**view, "where": "rouge < 1", "id": "2"}).json() == {"place": -1}


def test_an_item_in_full_has_ratings_comments_and_places(client):
    record = client.get("/api/item", params={"id": "1"}).json()
    sat, oscar = record["systems"]
    assert [one["rater"] for one in sat["ratings"]] == ["r1", "r2"] and sat["ratings"][1]["comment"] == "<b>no</b>"
    assert oscar["ratings"] == []
    assert sat["values"][2:] == [3.5, 4.0] and oscar["values"][2:] == [None, None]
    assert sat["shares"][0] == 50.0  # 2 of 4 are lower: items 1 and 3 have 1.0
    assert record["fields"] == {"style": "happy"} and record["large"] == "image/0"


def test_why_a_score_is_so_adds_up_to_it(client, table):
    place = [score.key for score in table.scores].index("rouge")
    record = client.get("/api/item", params={"id": "2"}).json()
    assert place in record["systems"][0]["explained"]
    sections = client.get("/api/explain", params={"system": "sat", "score": "rouge", "id": "2"}).json()
    assert any("rows" in section for section in sections)


def test_bars_are_as_long_as_what_parts_add(client):
    found = client.get("/api/explain", params={"id": "2", "system": "sat", "score": "rouge"}).json()
    columns = next(section["columns"] for section in found if "columns" in section)
    assert [column["name"] for column in columns][:2] == ["word", "adds"]
    assert columns[0]["bars"] is None and columns[1]["bars"] == [1.0]  # one word, "a", is shared


def test_why_knows_every_column_of_the_run_and_what_has_changed_since(tmp_path):
    from captious.metrics.style.fitting import fit
    from captious.metrics.style.model_files import save

    model = tmp_path / "two.style"
    save(fit([("happy", "a brown dog"), ("sad", "a bus")]), model)
    form = f"onlystyle(model={model})"
    client = client_of(open_table([write_run(tmp_path / "run", SYSTEMS["sat"], metrics=f"rouge,{form}")]))
    asked = {"system": "preds", "score": form, "id": "1"}
    texts = json.dumps(client.get("/api/explain", params=asked).json())
    assert "as happy" in texts and "sum: " in texts
    save(fit([("happy", "a dog"), ("sad", "a bus")]), model)
    client = client_of(open_table([tmp_path / "run"]))
    answer = client.get("/api/explain", params=asked)
    assert answer.status_code == 400 and "was computed with model:" in answer.text


def test_charts_are_about_all_items(client):
    bars = client.get("/api/distribution", params={"score": "rouge", "low": 0, "high": 1, "bins": 4}).json()
    assert [sum(one["counts"]) for one in bars] == [4, 4]
    dots = client.get("/api/points", params={"x": "rouge", "y": "rating"}).json()
    assert [[dot[0] for dot in one["dots"]] for one in dots] == [["1", "2"], ["2"]]
    assert client.get("/api/agreement").json()[0][0][0] == 1.0
    assert client.get("/api/lengths", params={"score": "rouge"}).json()["size"] == 1


def test_the_ids_of_a_list_are_a_file(client):
    answer = client.get("/ids.txt", params={"where": 'style == "happy"', "order": "given"})
    assert answer.text == "1\n3\n" and "attachment" in answer.headers["content-disposition"]


def test_images_come_by_number_and_thumbnails_are_made_once(client, table, images, monkeypatch):
    small = client.get("/thumbnail/0")
    assert (
        small.headers["content-type"] in ("image/webp", "image/jpeg")
        and small.headers["x-content-type-options"] == "nosniff"
    )
    whole = client.get("/image/0")
    assert whole.headers["content-type"] == "image/png" and whole.content == (images / "1.png").read_bytes()
    monkeypatch.setattr("captious.studio.explore._media.make_small_image", lambda *given: pytest.fail("made again"))
    assert client.get("/thumbnail/0").content == small.content
    assert client_of(table).get("/thumbnail/0").content == small.content


@pytest.mark.parametrize("path", ["/image/99", "/image/-1", "/image/../etc/passwd", "/thumbnail/1%2f..%2f", "/image/x"])
def test_what_is_no_number_of_an_item_is_not_found(client, path):
    assert client.get(path).status_code == 404


def test_only_images_inside_the_named_folder_are_shown(tmp_path, own_images):
    secret = tmp_path / "secret.png"
    Image.new("RGB", (8, 8)).save(secret)
    (own_images / "text.png").write_text("root:x:0:0")
    (own_images / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (own_images / "link.png").symlink_to(secret)
    paths = [
        own_images / "1.png",
        own_images / ".." / "secret.png",
        own_images / "link.png",
        own_images / "text.png",
        own_images / "drawing.svg",
    ]
    pictures = Pictures([str(tmp_path)], own_images)
    shown = [pictures.make_thumbnail("x", name) is not None for name in (*map(str, paths), "../secret.png", None)]
    assert shown == [True, False, False, False, False, False, False]


def test_views_are_kept_under_a_name_beside_the_first_run(client, table, runs):
    assert client.get("/api/views").json() == {}
    assert post(client, "/api/views", {"name": " my  dogs ", "address": "sort=rouge&q=dog"}).json() == {
        "my dogs": "sort=rouge&q=dog"
    }
    assert json.loads((runs[0].parent / "sat.views.json").read_text()) == {"my dogs": "sort=rouge&q=dog"}
    assert client_of(table).get("/api/views").json() == {"my dogs": "sort=rouge&q=dog"}
    assert post(client, "/api/views", {"name": "my dogs", "address": ""}).json() == {}
    assert post(client, "/api/views", {"name": "", "address": "x"}).status_code == 400


def test_a_change_needs_the_token_of_the_page_and_comes_from_it(client, runs):
    body = {"name": "a", "address": "x"}
    assert client.post("/api/views", json=body).status_code == 403
    assert client.post("/api/views", json=body, headers={"X-Form-Token": "guess"}).status_code == 403
    assert post(client, "/api/views", body, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert post(client, "/api/views", body, Origin="http://evil.example").status_code == 403
    assert post(client, "/api/views", {"name": "a", "address": "x" * 70_000}).status_code == 413
    assert not (runs[0].parent / "sat.views.json").exists()


def test_a_selection_becomes_a_study_that_studio_reads(client, runs, run):
    made = post(client, "/api/study", {"name": "dogs!", "ids": ["1", "3"]}).json()
    folder = runs[0].parent / "dogs"
    assert made["folder"] == str(folder) and made["items"] == 2
    assert (folder / "ids.txt").read_text() == "1\n3\n"
    rows = [json.loads(line) for line in (folder / "captions" / "sat.jsonl").read_text().splitlines()]
    assert rows == [{"id": key, "caption": SYSTEMS["sat"][key], "image": f"{key}.png"} for key in "13"]
    from captious.studio.collect.rating_tasks import build_tasks
    from captious.studio.collect.study_plan import read_plan

    tasks = build_tasks(read_plan(folder / "study.toml"))
    assert sorted(choice.text for task in tasks for choice in task.choices) == sorted(
        SYSTEMS[system][key] for system in SYSTEMS for key in "13"
    )
    again = post(client, "/api/study", {"name": "dogs", "ids": ["1"]})
    assert again.status_code == 400 and "already exists" in again.json()["error"]


def test_a_study_lies_beside_a_comparison_and_may_move(tmp_path, images):
    from captious._compare import compare
    from captious.studio.collect.rating_tasks import build_tasks
    from captious.studio.collect.study_plan import read_plan

    files = [tmp_path / f"{system}.json" for system in SYSTEMS]
    for file, captions in zip(files, SYSTEMS.values(), strict=True):
        file.write_text(json.dumps(captions))
    (tmp_path / "refs.json").write_text(json.dumps(REFERENCES))
    compare(files, "rouge", references=tmp_path / "refs.json", resampling=Resampling(samples=0)).save(tmp_path / "both")
    made = post(client_of(open_table([tmp_path / "both"])), "/api/study", {"name": "cats", "ids": ["2"]}).json()
    assert made["folder"] == str(tmp_path / "cats")  # a comparison that is written anew keeps the study
    (tmp_path / "cats").rename(tmp_path / "moved")
    tasks = build_tasks(read_plan(tmp_path / "moved" / "study.toml"))
    assert sorted(choice.text for task in tasks for choice in task.choices) == ["a cat sits on a red chair", "a dog"]


def test_a_study_has_the_captions_that_there_are(tmp_path):
    from captious.studio.collect.rating_tasks import build_tasks
    from captious.studio.collect.study_plan import read_plan

    few = {key: text for key, text in SYSTEMS["oscar"].items() if key != "1"}
    runs = [write_run(tmp_path / name, own, name=name) for name, own in (("sat", SYSTEMS["sat"]), ("oscar", few))]
    made = post(client_of(open_table(runs)), "/api/study", {"name": "two", "ids": ["1", "2"]}).json()
    tasks = build_tasks(read_plan(Path(made["folder"]) / "study.toml"))
    captions = sorted(choice.text for task in tasks for choice in task.choices)
    assert captions == ["a brown dog runs on the grass", "a cat sits on a red chair", "a dog"]


def test_a_study_finds_images_in_several_folders(tmp_path, own_images):
    from captious.studio.collect.rating_tasks import build_tasks
    from captious.studio.collect.study_plan import read_plan

    (own_images / "more").mkdir()
    for key in ("3", "4"):
        (own_images / f"{key}.png").rename(own_images / "more" / f"{key}.png")
    for folder, keys in ((own_images, "12"), (own_images / "more", "34")):
        write_run(tmp_path / keys, {key: SYSTEMS["sat"][key] for key in keys}, name="sat", images=folder)
    whole = write_run(tmp_path / "all", SYSTEMS["oscar"], name="oscar")
    table = open_table([whole, tmp_path / "12", tmp_path / "34"], images=own_images)
    made = post(client_of(table), "/api/study", {"name": "two", "ids": ["1", "4"]}).json()
    tasks = build_tasks(read_plan(Path(made["folder"]) / "study.toml"))
    assert {task.image for task in tasks} == {"1.png", "more/4.png"}


def test_a_list_says_what_sorts_it_and_whose_captions_pass(client):
    found = client.get("/api/list", params={"order": "raters", "where": 'caption has "dog"'}).json()["records"]
    assert [(one["id"], one["sorted_by"]) for one in found] == [("1", 3.0), ("2", 1.0)]
    assert [[own["passes"] for own in one["systems"]] for one in found] == [[True, False]] * 2  # only sat sees dogs


def test_without_ids_the_study_is_about_the_list(client):
    made = post(client, "/api/study", {"name": "happy", "view": {"where": 'style == "happy"', "order": "given"}}).json()
    assert (Path(made["folder"]) / "ids.txt").read_text() == "1\n3\n"
    assert post(client, "/api/study", {"name": "x", "view": {"where": "rouge < 0"}}).json() == {
        "error": "no item is selected"
    }
    assert post(client, "/api/study", {"name": "../..", "ids": ["1"]}).status_code == 400


def test_hostile_captions_are_text_in_every_answer(tmp_path):
    captions = {str(number): text for number, text in enumerate(HOSTILE, 1)}
    references = {key: [text, "a dog"] for key, text in captions.items()}
    run = write_run(tmp_path / "run", captions, references, metrics="rouge", name="</script><b>x</b>")
    client = client_of(open_table([run]))
    page = client.get("/").text
    assert page.count("</script>") == 2 and "<b>" not in page
    found = client.get("/api/list", params={"order": "given", "number": 100})
    assert found.headers["content-type"] == "application/json"
    assert [record["systems"][0]["texts"] for record in found.json()["records"]] == [[text] for text in HOSTILE]


@pytest.mark.parametrize("kept_in", ["memory", "disk"])
def test_words_of_a_card_are_tokens_of_the_language(tmp_path, monkeypatch, kept_in):
    if kept_in == "disk":
        monkeypatch.setattr("captious.studio.explore.explorer_table.HELD", -1)
    rows = [{"id": 1, "caption": ["一只狗。", "狗"], "references": ["一只小狗"]}]
    evaluate(rows, "rouge", resampling=Resampling(0), language="zh").save(tmp_path / "run")
    client = client_of(open_table([tmp_path / "run"]))
    (record,) = client.get("/api/list").json()["records"]
    assert record["systems"][0]["words"] == 2, "three characters and one; the full stop is none"


def test_a_foreign_run_asks_no_model_imports_nothing_and_opens_no_image_elsewhere(tmp_path, images, monkeypatch):
    import sys

    from captious.models.chat import judge

    names = {"rouge": "clair(model=gpt-4o)", "bleu(n=1)": "imagine(painter=foreign_module:painter)"}
    run = write_run(tmp_path / "run", SYSTEMS["sat"], name="sat", images=images)
    renamed(run, names)
    monkeypatch.setattr(judge, "Endpoint", lambda *given: pytest.fail("a chat model is asked"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    (tmp_path / "foreign_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        "captious.studio.explore._media.make_small_image", lambda *given: pytest.fail("an image is opened")
    )
    client = client_of(open_table([run]))
    assert about_of(client)["total"] == 4 and "images are outside the run" in client.get("/").text
    record = client.get("/api/list").json()["records"][0]
    assert (
        record["picture"] is None
        and client.get("/thumbnail/0").status_code == client.get("/image/0").status_code == 404
    )
    assert client.get("/api/item", params={"id": "1"}).status_code == 200
    for key in names.values():
        answer = client.get("/api/explain", params={"system": "sat", "score": key, "id": "1"})
        assert answer.status_code == 400 and "\n" not in answer.json()["error"]
    assert "foreign_module" not in sys.modules


def renamed(run, names):
    """Call metrics otherwise in a run, as one from somebody else may."""
    import pyarrow.parquet as pq

    for before, after in names.items():
        marker = run / "captious-run.json"
        marker.write_text(marker.read_text().replace(f'"{before}"', f'"{after}"'))
        for folder in ("items", "rows"):
            path = run / folder / "captions.parquet"
            table = pq.read_table(path)
            facts = {
                key: value.replace(before.encode(), after.encode())
                for key, value in (table.schema.metadata or {}).items()
            }
            columns = [after if name == before else name for name in table.column_names]
            pq.write_table(table.rename_columns(columns).replace_schema_metadata(facts), path)
