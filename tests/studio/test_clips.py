"""Clips in the studio and the explorer: which files are played, to whom, in parts, with events, keys and stills."""

import json
import os
import re
from io import BytesIO
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from starlette.testclient import TestClient
from tests.studio.clips import write_clip
from tests.studio.collect.test_rater_pages import Fields, browser
from tests.studio.explore.conftest import REFERENCES, SYSTEMS
from tests.studio.studies import OWNER

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.models import clip_stills
from captious.options import Resampling
from captious.runs import open_run
from captious.studio._study_app import build_app
from captious.studio._video_events import match_events
from captious.studio.access import Limit, Rules, find_sound_file, find_video_file, hash_token, make_token
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import build_tasks
from captious.studio.collect.study_check import check_plan
from captious.studio.collect.study_plan import read_plan
from captious.studio.explore._explorer_app import build_app as build_explorer
from captious.studio.explore.explorer_table import open_table
from captious.studio.explore.site import export_site

TOKEN = "a-token-of-the-owner"
# The first bytes of files, for what reads no more.
WEBM = b"\x1a\x45\xdf\xa3" + bytes(200)
AVI = b"RIFF\0\0\0\0AVI LIST" + bytes(200)
SHORT = Resampling(samples=0)


@pytest.fixture
def clips(tmp_path):
    """A folder with a file for every item that begins like a WebM video; the fourth is of a kind that nobody plays."""
    folder = tmp_path / "clips"
    folder.mkdir()
    for key in "123":
        (folder / f"{key}.webm").write_bytes(WEBM + key.encode())
    (folder / "4.avi").write_bytes(AVI)
    return folder


@pytest.fixture
def drawn(clips):
    """The same folder with clips that a browser plays; the fourth is still of a kind that nobody plays."""
    for key in "123":
        write_clip(clips / f"{key}.webm", seconds=20 if key == "1" else 2)
    write_clip(clips / "4.avi", seconds=1, codec="mpeg4")
    return clips


# Types and folders


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (b"\0\0\0\x20ftypisom", "video/mp4"),
        (b"\0\0\0\x14ftypqt  ", "video/mp4"),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81", "video/webm"),
        (b"OggS\0\2", "video/ogg"),
    ],
)
def test_the_first_bytes_say_what_a_video_is(tmp_path, beginning, kind):
    (tmp_path / "a.webm").write_bytes(beginning + bytes(20))
    assert find_video_file(tmp_path, "a.webm")[1] == kind


@pytest.mark.parametrize("beginning", [AVI, b"\0\0\1\xba", b"\0\0\0\x18ftypheic", b"<svg xmlns=", b""])
def test_what_browsers_do_not_play_is_refused_with_the_way_to_convert_it(tmp_path, beginning):
    (tmp_path / "a.mp4").write_bytes(beginning)
    with pytest.raises(InputError, match=r"expected an MP4, WebM or Ogg video.* ffmpeg -i x -c:v libx264"):
        find_video_file(tmp_path, "a.mp4")


def test_the_folder_decides_what_an_mp4_file_is(shared_data):
    folder = shared_data / "tiny_clips"
    assert find_sound_file(folder, "sound.mp4")[1] == "audio/mp4"
    assert find_video_file(folder, "counter.mp4")[1] == "video/mp4"
    assert find_video_file(folder, "counter.webm")[1] == "video/webm"


def test_videos_are_found_inside_the_folder_and_nowhere_else(tmp_path, clips):
    (tmp_path / "secret.webm").write_bytes(WEBM)
    (clips / "outward.webm").symlink_to(tmp_path / "secret.webm")
    (clips / "inward.mp4").symlink_to(clips / "1.webm")
    os.mkfifo(clips / "pipe.webm")
    assert find_video_file(clips, "inward.mp4")[1] == "video/webm"
    for name in ("../secret.webm", "outward.webm", str(tmp_path / "secret.webm"), "none.webm", "pipe.webm", "", "a\0"):
        with pytest.raises(InputError, match="expected a"):
            find_video_file(clips, name)


# Studies


def write_study(tmp_path, rows=(), **more):
    """Captions of two systems, and the study that asks about them; `rows` are more columns of each item."""
    columns = {row["id"]: row for row in rows}
    for name, captions in SYSTEMS.items():
        lines = [
            {"id": key, "video": f"{key}.{'avi' if key == '4' else 'webm'}", "caption": text, **columns.get(key, {})}
            for key, text in captions.items()
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    table = {"title": "Clips", "kind": "pairs", "captions": ["sat.jsonl", "oscar.jsonl"], "videos": "clips"}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in {**table, "overlap": 1, **more}.items() if value)
    (tmp_path / "study.toml").write_text(text)
    return read_plan(tmp_path / "study.toml")


def begin_study(tmp_path, rows=(), **more):
    """A study of the clips that browsers play, with its app, and a function that makes links of raters."""
    plan = write_study(tmp_path, rows, **{"ids": ["1", "2", "3"], **more})
    log = StudyLog.open(tmp_path / "study.db")
    log.begin(plan, build_tasks(plan))
    app = build_app(log.plan(), log, Rules(), "http://127.0.0.1", OWNER, Limit(1000, seconds=1))

    def link():
        token = make_token()
        log.add_raters([hash_token(token)])
        return f"/r/{token}"

    return SimpleNamespace(log=log, app=app, link=link)


def video_of(text):
    (video,) = [values for tag, values in Fields(text).tags if tag == "video"]
    return video


def test_a_rater_watches_the_clip_of_an_open_task_and_no_other(tmp_path, clips):
    study = begin_study(tmp_path)
    client = browser(study)
    page = client.get(study.link())
    video, name = video_of(page.text), Fields(page.text).hidden["page"]
    assert {"controls", "muted", "playsinline"} <= video.keys() and not {"autoplay", "loop"} & video.keys()
    assert video["preload"] == "metadata" and video["aria-label"] == "The video of this task"
    assert video["src"] == f"/video/{name}" and ".webm" not in page.text and ".avi" not in page.text
    assert "Caption" in page.text and "play or pause the video" in page.text
    whole = client.get(video["src"])
    assert whole.headers["content-type"] == "video/webm" and whole.content.startswith(WEBM[:4])
    part = client.get(video["src"], headers={"range": "bytes=2-5"})
    assert part.status_code == 206 and part.content == whole.content[2:6]
    assert part.headers["content-range"] == f"bytes 2-5/{len(whole.content)}"
    foreign = Fields(browser(study).get(study.link()).text).hidden["page"]
    for kind in ("video", "poster", "strip"):
        wrong = [f"/{kind}/t1", f"/{kind}/{foreign}", f"/{kind}/..%2fstudy.toml", f"/{kind}/%2e%2e"]
        assert {client.get(path).status_code for path in wrong} == {404}
    assert browser(study).get(video["src"]).status_code == 403
    for path in clips.iterdir():
        path.unlink()
        path.symlink_to(tmp_path / "sat.jsonl")
    assert client.get(video["src"]).status_code == 404, "a link out of the folder is not followed"


def test_an_item_that_is_an_event_is_played_from_its_start_to_its_end(tmp_path, clips):
    study = begin_study(tmp_path, [{"id": key, "start": 1.5, "end": 4} for key in "1234"])
    page = browser(study).get(study.link()).text
    assert video_of(page)["src"].endswith("#t=1.5,4") and "data-part" in video_of(page)
    buttons = [values for tag, values in Fields(page).tags if tag == "button" and "data-start" in values]
    assert [(one["data-start"], one["data-end"]) for one in buttons] == [("1.5", "4.0")]


def test_the_owner_watches_it_too(tmp_path, drawn):
    client = TestClient(begin_study(tmp_path).app, base_url="http://127.0.0.1")
    assert client.get(f"/owner?token={OWNER}").status_code == 200
    assert client.get("/owner/video/t1").headers["content-type"] == "video/webm"
    assert client.get("/owner/poster/t1").headers["content-type"] == "image/jpeg"
    assert client.get("/owner/video/t99").status_code == 404
    page = client.get("/owner/tasks/t1").text
    assert video_of(page)["src"] == "/owner/video/t1" and video_of(page)["preload"] == "none"
    assert "/owner/poster/t1" in client.get("/owner/tasks").text


def test_missing_clips_and_kinds_that_nobody_plays_are_reported_before_the_study_begins(tmp_path, clips):
    found = [str(finding.message) for finding in check_plan(write_study(tmp_path)).findings]
    assert any("1 video (id 4): '4.avi' in" in text and "ffmpeg -i x -c:v libx264" in text for text in found)
    (clips / "2.webm").unlink()
    with pytest.raises(InputError, match=r"clips: 1 id \(2\.webm\) without a video, expected one for every item"):
        build_tasks(write_study(tmp_path))
    tasks = build_tasks(write_study(tmp_path, missing="skip"))
    assert [task.video for task in tasks] == ["1.webm", "3.webm", "4.avi"]
    with pytest.raises(InputError, match="must_watch without videos"):
        write_study(tmp_path, videos=None, must_watch=True)


def test_new_writes_a_study_of_clips(run, tmp_path, clips):
    write_study(tmp_path)
    arguments = ("--kind", "pairs", "--captions", tmp_path / "sat.jsonl", tmp_path / "oscar.jsonl")
    code, out, _ = run("studio", "new", tmp_path / "own.toml", *arguments, "--videos", clips)
    assert code == 0 and "4 tasks" in out
    text = (tmp_path / "own.toml").read_text()
    assert f'videos = "{clips}"' in text and '\nimages = "' not in text
    assert "Which caption describes the video better?" in text and "Look at the video" in text


# Explorer

EVENTS = {
    "sat": [[[0, 1], [8, 11], [15, 16]], None, None, None],
    "oscar": [[[0, 10]], None, None, None],
}
REFERENCE_EVENTS = [[[0, 1], [8, 12]], None, None, None]


def write_run(folder, name):
    """A run of clips, the first with three events by sat and one by oscar; the third item is a part of its clip."""
    captions = dict(SYSTEMS[name])
    captions["1"] = ["a brown dog runs", "the dog is running", "a bus"] if name == "sat" else ["a cat"]
    columns = {
        "video": ["1.webm", "2.webm", "3.webm", "4.avi"],
        "events": EVENTS[name],
        "reference_events": REFERENCE_EVENTS,
        "duration": [20.0, None, None, None],
        "start": [None, None, 0.5, None],
        "end": [None, None, 1.5, None],
    }
    made = CaptionSet.of(captions, REFERENCES, columns, name=f"{name}.json")
    evaluate(made, "rouge,bleu(n=1)", resampling=SHORT).save(folder / name)
    return folder / name


@pytest.fixture
def runs(tmp_path):
    return [write_run(tmp_path, name) for name in SYSTEMS]


def client_of(table):
    client = TestClient(build_explorer(table, TOKEN), base_url="http://127.0.0.1")
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


def test_the_explorer_plays_clips_of_the_named_folder_alone(tmp_path, runs, clips, monkeypatch):
    monkeypatch.setattr("captious.studio.explore._explorer_app.can_decode", lambda: False)
    client = client_of(open_table(runs[:1], videos=clips))
    record = client.get("/api/item?id=1").json()
    assert (record["video"], record["poster"], record["strip"]) == ("video/0", None, None), "without PyAV"
    whole = client.get("/video/0")
    assert whole.content == (clips / "1.webm").read_bytes() and whole.headers["content-type"] == "video/webm"
    part = client.get("/video/0", headers={"range": "bytes=1-2"})
    assert part.status_code == 206 and part.content == whole.content[1:3]
    last = client.get("/api/item?id=4").json()
    assert last["video"] is None and last["has_video"] and client.get("/video/3").status_code == 404
    assert {client.get(path).status_code for path in ("/video/99", "/video/-1", "/video/../etc/passwd")} == {404}
    (clips / "1.webm").unlink()
    (tmp_path / "secret.webm").write_bytes(WEBM)
    (clips / "1.webm").symlink_to(tmp_path / "secret.webm")
    assert client.get("/video/0").status_code == 404
    strange = TestClient(build_explorer(open_table(runs[:1], videos=clips), TOKEN), base_url="http://127.0.0.1")
    assert strange.get("/video/1").status_code in (401, 403), "not without the token"


def test_without_a_folder_the_page_says_how_to_name_it(runs):
    table = open_table(runs)
    assert client_of(table).get("/api/item?id=1").json()["video"] is None
    (warning,) = [one for one in table.warnings if "videos" in one]
    assert warning == "videos are outside the run, such as 1.webm; name their folder with --videos to watch them"


@pytest.mark.parametrize("held", [True, False])
def test_every_system_has_the_events_of_its_own_captions(runs, clips, held, monkeypatch):
    if not held:
        monkeypatch.setattr("captious.studio.explore.explorer_table.HELD", -1)
    record = client_of(open_table(runs, videos=clips)).get("/api/item?id=1").json()
    assert record["events"] == [[0, 1], [8, 12]] and record["duration"] == 20
    assert [own["events"] for own in record["systems"]] == [EVENTS["sat"][0], EVENTS["oscar"][0]]
    # [8, 11] and [8, 12] share 3 of 4 seconds; [0, 10] and [8, 12] 2 of 12; [15, 16] overlaps no event.
    assert record["systems"][0]["matches"] == [[0, 0, 1.0], [1, 1, 0.75]] and record["systems"][1]["matches"] == []
    assert "events" not in record["fields"] and "video" not in record["fields"]


@pytest.mark.parametrize("held", [True, False])
def test_references_are_those_of_the_run_that_has_some(runs, clips, held, tmp_path, monkeypatch):
    if not held:
        monkeypatch.setattr("captious.studio.explore.explorer_table.HELD", -1)
    captions = CaptionSet.of(dict.fromkeys(SYSTEMS["sat"], "a dog"), name="plain.json")
    evaluate(captions, "vocab_size", resampling=SHORT).save(tmp_path / "plain")
    client = client_of(open_table([tmp_path / "plain", *runs], videos=clips))
    record = client.get("/api/item?id=1").json()
    assert record["references"] == list(REFERENCES["1"]) and record["events"] == [[0, 1], [8, 12]]
    found = client.get("/api/list", params={"where": f'references has "{REFERENCES["1"][0]}"'}).json()
    assert [one["id"] for one in found["records"]] == ["1"]


def test_the_overlap_of_events_is_that_of_densevid_eval():
    assert match_events([(0, 9)], [(0, 10)])[0].iou == 0.9
    assert match_events([(0, 2)], [(4, 6)]) == [] and match_events([None], [(0, 1)]) == []
    assert match_events([(5, 5)], [(5, 5)]) == [], "an event without length overlaps nothing"
    assert [one.reference for one in match_events([(0, 10)], [(0, 6), (0, 9), None])] == [1]


def test_meteor_of_matches_is_that_of_the_metric(runs, clips, compiled_meteor):
    pytest.importorskip("pycocoevalcap", reason="METEOR's tables are not here: pip install 'captious[meteor]'")
    values = client_of(open_table(runs, videos=clips)).get("/api/meteor?id=1").json()
    pairs = {"0": "a brown dog runs", "1": "the dog is running"}
    made = CaptionSet.of(pairs, {"0": REFERENCES["1"][:1], "1": REFERENCES["1"][1:]})
    expected = evaluate(made, "meteor", resampling=SHORT).measurements["meteor"].values
    assert values == [[pytest.approx(100 * value, abs=0.006) for value in expected], []]


def test_a_poster_is_the_middle_frame_and_made_once(runs, drawn, monkeypatch):
    from PIL import Image

    client = client_of(open_table(runs, videos=drawn))
    record = client.get("/api/item?id=2").json()
    poster = client.get(f"/{record['poster']}")
    image = Image.open(BytesIO(poster.content))
    assert image.format == "JPEG" and image.size == (160, 120)
    # The bar moves from the left edge to the right one, so it is in the middle of the middle frame.
    row = [sum(image.convert("RGB").getpixel((x, 60))) for x in range(160)]
    assert 60 < row.index(max(row)) < 100
    strip = Image.open(BytesIO(client.get(f"/{record['strip']}").content))
    assert strip.size == (6 * 160, 120)
    monkeypatch.setattr(clip_stills, "_read_frames", lambda *given: pytest.fail("it was stored"))
    assert client.get(f"/{record['poster']}").content == poster.content
    assert client.get("/strip/99").status_code == client.get("/poster/99").status_code == 404


def test_large_clips_have_small_posters(tmp_path, runs, clips):
    from PIL import Image

    write_clip(clips / "1.webm", seconds=1, size=(640, 480))
    content = client_of(open_table(runs, videos=clips)).get("/poster/0").content
    assert Image.open(BytesIO(content)).size == (320, 240)


def test_the_times_of_frames_are_those_of_the_clip(runs, drawn):
    client = client_of(open_table(runs, videos=drawn))
    times = client.get("/api/times?id=2").json()
    assert len(times) == 20 and times[:3] == pytest.approx([0, 0.1, 0.2], abs=0.002)
    (drawn / "2.webm").write_bytes(WEBM)
    assert client.get("/api/times?id=2").json() is None and client.get("/poster/1").status_code == 404


# The page of a report


def make_report(drawn, number=2):
    videos = [str(drawn / f"{1 + place % 2}.webm") for place in range(number)]
    captions = {str(key): "a bar" for key in range(number)}
    made = CaptionSet.of(captions, {key: ["a bar moves"] for key in captions}, {"video": videos})
    return evaluate(made, "rouge", resampling=SHORT)


def test_a_report_has_posters_and_no_clips(drawn, tmp_path):
    make_report(drawn).save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(set(re.findall(r"data:image/\w+;base64,[^\"]+", text))) == 2 and "<video" not in text
    make_report(drawn).save(tmp_path / "run")
    open_run(tmp_path / "run").save(tmp_path / "again.html")
    again = (tmp_path / "again.html").read_text(encoding="utf-8")
    assert "data:image/" not in again, "a stored run may come from elsewhere, and name any file"


def test_a_large_report_opens_no_clip(drawn, tmp_path, monkeypatch):
    monkeypatch.setattr("captious.runs.report_sections.MOST_POSTERS", 2)
    monkeypatch.setattr(clip_stills, "_read_frames", lambda *given: pytest.fail("too many to open"))
    make_report(drawn, 3).save(tmp_path / "report.html")
    assert "data:image/" not in (tmp_path / "report.html").read_text(encoding="utf-8")


# Pages without a server


def data_of(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "media-src 'self'" in text
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def test_a_page_without_a_server_has_the_clips_beside_it(tmp_path, runs, drawn):
    export_site(open_table(runs, videos=drawn), tmp_path / "site")
    data = data_of(tmp_path / "site")
    assert data["videos"] == ["videos/0.webm", "videos/1.webm", "videos/2.webm", None]
    assert data["strips"][:3] == [None] * 3 and data["has_video"] == [True] * 4
    for name in (*data["posters"], data["strips"][3]):
        assert (tmp_path / "site" / name).read_bytes().startswith(b"\xff\xd8\xff")
    assert (tmp_path / "site/videos/1.webm").read_bytes() == (drawn / "2.webm").read_bytes()
    assert data["events"][0][0] == EVENTS["sat"][0] and data["part"] == [None, None, [0.5, 1.5], None]
    assert data["matches"][0][0] == [[0, 0, 1.0], [1, 1, 0.75]]


def test_clips_that_are_too_large_are_refused_with_their_total(run, tmp_path, runs, clips):
    (clips / "1.webm").write_bytes(WEBM + bytes(1_500_000))
    arguments = ("view", *runs, "--videos", clips, "--out", tmp_path / "site")
    code, _, error = run(*arguments, "--most-size", "1MB")
    assert code == 2 and "the videos have 1.5 MB together, expected at most 1MB; pass --most-size" in error
    assert error.count("\n") == 1 and not (tmp_path / "site").exists()
    assert run(*arguments, "--most-size", "2MB")[0] == 0
    assert (tmp_path / "site/videos/0.webm").stat().st_size > 1_500_000


def test_a_study_of_selected_items_has_their_clips(runs, clips):
    client = client_of(open_table(runs, videos=clips))
    token = json.loads(client.get("/").text.split('id="about">')[1].split("</script>")[0])["token"]
    made = client.post("/api/study", json={"ids": ["1", "2"], "name": "few"}, headers={"x-form-token": token}).json()
    plan = read_plan(runs[0].parent / "few/study.toml")
    assert made["items"] == 2 and plan.file(plan.videos).resolve() == clips.resolve()
    assert sorted({task.video for task in build_tasks(plan)}) == ["1.webm", "2.webm"]


# In a browser: a state is waited for, never a time, since the machine may be busy.


PLAYS = "one => { const video = document.querySelector(one); return video && !video.paused && video.currentTime > 0; }"
STOPPED = "one => document.querySelector(one).paused"
SAYS = "#full .timeline [role=status] >> text="


@pytest.fixture
def explore(page, serve, runs, drawn):
    """``explore(view)`` opens the explorer of the two runs with their clips; gives the tab."""

    def opened(view="order=given", width=1280):
        address = serve(build_explorer(open_table(runs, videos=drawn), TOKEN))
        page.set_viewport_size({"width": width, "height": 800})
        page.request.get(f"{address}/?token={TOKEN}")
        page.goto(f"{address}/#{view}")
        page.wait_for_selector("[data-item]")
        page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
        return page

    return opened


def arrives(page, low, high, player="#full video"):
    """Wait until a player is between two times and no longer on its way there."""
    page.wait_for_function(
        "([one, low, high]) => { const video = document.querySelector(one); return video && !video.seeking && "
        "low <= video.currentTime && video.currentTime <= high; }",
        arg=[player, low, high],
    )


def loads(page, player="#full video"):
    """Wait until a player has the frame at its place."""
    page.wait_for_function("one => document.querySelector(one)?.readyState > 1", arg=player)


def list_serious_findings(page, **options):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page, **options).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


def test_keys_play_step_and_jump(explore):
    page = explore("order=given&item=2")
    loads(page)
    page.wait_for_selector("#full video[aria-label='Video of item 2, 2 seconds']")
    page.keyboard.press(".")
    arrives(page, 0.1, 0.199)  # the second of ten frames a second
    page.keyboard.press(".")
    arrives(page, 0.2, 0.299)
    page.keyboard.press(",")
    arrives(page, 0.1, 0.199)
    page.keyboard.press("ArrowRight")
    arrives(page, 1.1, 1.199)
    page.keyboard.press("ArrowLeft")
    arrives(page, 0.1, 0.199)
    assert page.evaluate("() => document.querySelector('#full video').muted")
    page.keyboard.press("m")
    assert not page.evaluate("() => document.querySelector('#full video').muted")
    page.keyboard.press("m")
    page.keyboard.press("p")
    page.wait_for_function("() => document.querySelector('#full video').ended")


def test_events_are_played_by_keys_and_by_the_mouse_and_stop_at_their_end(explore):
    page = explore("order=given&item=1")
    loads(page)
    bars = page.locator("#full .bar[role=button]")
    # Two references above; of sat's captions the third describes none of them, nor does oscar's.
    assert bars.all_inner_texts() == ["1", "2", "1", "2", "", ""]
    page.keyboard.press("]")
    page.wait_for_selector(f"{SAYS}sat, event 1 of 3, 0:00 to 0:01")
    page.wait_for_function(PLAYS, arg="#full video")
    page.wait_for_function(STOPPED, arg="#full video")
    assert page.get_attribute("#full video", "aria-label") == "Video of item 1, 20 seconds, event 1 of 3"
    assert page.evaluate("() => document.querySelector('#full video').currentTime") < 19
    page.keyboard.press("]")
    page.wait_for_selector(f"{SAYS}event 2 of 3, 0:08 to 0:11")
    page.wait_for_selector(f"{SAYS}IoU 0.75 with reference 2")
    arrives(page, 8, 19)
    page.keyboard.press("[")
    page.wait_for_selector(f"{SAYS}event 1 of 3")
    bars.nth(1).click()
    page.wait_for_selector(f"{SAYS}references, event 2 of 2, 0:08 to 0:12")
    arrives(page, 8, 19)
    page.click("#full .event .when >> text=0:15–0:16")
    page.wait_for_selector(f"{SAYS}sat, event 3 of 3")
    page.wait_for_function(STOPPED, arg="#full video")
    assert bars.nth(1).get_attribute("href") == "video/0#t=8,12"


COUNT_REPEATS = """() => {
  const video = document.querySelector("#full video");
  window.repeats = 0;
  let before = 0;
  video.addEventListener("timeupdate", () => {
    if (video.currentTime < before) window.repeats += 1;
    before = video.currentTime;
  });
}"""


def test_an_event_is_repeated_unless_motion_is_to_be_reduced(explore):
    page = explore("order=given&item=1")
    loads(page)
    page.evaluate(COUNT_REPEATS)
    page.keyboard.press("l")
    assert page.get_attribute("#full .timeline button:text('Loop')", "aria-pressed") == "true"
    page.keyboard.press("]")
    page.wait_for_function("() => window.repeats >= 2")
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_function(STOPPED, arg="#full video")
    page.keyboard.press("l")
    page.wait_for_selector(f"{SAYS}No loop: this device asks for reduced motion.")


def test_one_clip_plays_at_a_time_and_none_by_itself(explore):
    page = explore("order=given&layout=grid")
    players = page.locator("[data-item] video")
    assert players.count() == 3
    assert players.evaluate_all("all => all.every((one) => one.paused && one.preload === 'none' && one.poster)")
    page.keyboard.press("j")
    page.keyboard.press("p")
    page.wait_for_function(PLAYS, arg="[data-item='1'] video")
    page.keyboard.press("j")
    page.keyboard.press("p")
    page.wait_for_function(PLAYS, arg="[data-item='2'] video")
    page.wait_for_function(STOPPED, arg="[data-item='1'] video")
    page.keyboard.press("o")
    loads(page)
    page.keyboard.press("p")
    page.wait_for_function(PLAYS, arg="#full video")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('#full video')")


def test_a_kind_that_browsers_do_not_play_shows_frames_and_how_to_convert_it(explore, drawn):
    (drawn / "2.webm").write_bytes(WEBM)  # begins like a video, and is none
    page = explore("order=given&item=4")
    page.wait_for_selector("#full .unplayable >> text=ffmpeg -i x -c:v libx264 -pix_fmt yuv420p y.mp4")
    page.wait_for_function("() => document.querySelector('#full .strip')?.naturalWidth === 960")
    page.keyboard.press("Escape")
    page.locator("[data-item='2'] video").evaluate("one => one.play().catch(() => {})")
    page.wait_for_selector("[data-item='2'] .unplayable")


def test_the_timeline_fits_a_phone_and_an_accessibility_check(explore):
    page = explore("order=given&item=1", width=360)
    loads(page)
    assert page.locator("#full").evaluate("one => one.scrollWidth <= one.clientWidth")
    assert min(page.locator("#full .timeline button").evaluate_all("all => all.map((one) => one.offsetHeight)")) >= 44
    assert list_serious_findings(page, context="#full") == []


def test_a_page_without_a_server_plays_events(page, tmp_path, runs, drawn, serve):
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    export_site(open_table(runs, videos=drawn), tmp_path / "site")
    files = Mount("/", StaticFiles(directory=tmp_path / "site", html=True))
    page.goto(serve(Starlette(routes=[files])) + "/#order=given&item=1")
    loads(page)
    assert page.locator("#full .bar[role=button]").all_inner_texts() == ["1", "2", "1", "2", "", ""]
    page.keyboard.press("]")
    page.wait_for_function(PLAYS, arg="#full video")
    page.wait_for_function(STOPPED, arg="#full video")


def test_answers_open_when_the_clip_has_been_watched(page, serve, tmp_path, drawn):
    study = begin_study(tmp_path, must_watch=True, ids=["2"])
    page.goto(serve(study.app) + study.link())
    page.wait_for_selector("form[data-closed]")
    loads(page, "#clip")
    assert "Watch the video to its end first" in page.inner_text("#watch")
    page.keyboard.press("1")
    page.locator("#answer .side").first.click()
    page.locator("#save").click()
    page.wait_for_selector("#status >> text=Watch the video to its end first")
    assert page.locator("input:checked").count() == 0
    # Whoever moves to the end has not watched it.
    page.evaluate("() => { const clip = document.querySelector('#clip'); clip.currentTime = clip.duration; }")
    page.wait_for_function("() => document.querySelector('#clip').ended && !document.querySelector('#clip').seeking")
    assert page.locator("form[data-closed]").count() == 1
    page.locator("#clip").focus()
    page.keyboard.press("p")
    page.wait_for_selector("#status >> text=You have watched the video")
    assert page.locator("form[data-closed]").count() == 0 and not page.is_visible("#watch")
    page.reload()
    page.wait_for_selector("form:not([data-closed])")
    page.locator("#answer .side").first.click()
    page.keyboard.press("Enter")
    page.wait_for_url("**/done")
    assert [event.kind for event in study.log.events()].count("answered") == 1


SPAN = "({ played }) => [played.start(0), played.end(played.length - 1)]"


def test_p_plays_only_the_event_that_a_page_is_about(page, serve, tmp_path, drawn):
    study = begin_study(tmp_path, [{"id": "1", "start": 2, "end": 3}], must_watch=True, ids=["1"])
    page.goto(serve(study.app) + study.link())
    loads(page, "#clip")
    page.wait_for_selector(".events button[aria-label='Event 1 of 1, 0:02 to 0:03']")
    page.keyboard.press("p")
    page.wait_for_selector("form:not([data-closed])")
    page.wait_for_function(STOPPED, arg="#clip")
    first, last = page.locator("#clip").evaluate(SPAN)
    assert 1.5 < first < 2.5 and last < 19


def test_a_rater_whose_browser_does_not_play_a_clip_sees_frames_and_may_answer(page, serve, tmp_path, drawn):
    study = begin_study(tmp_path, must_watch=True, ids=["4"])
    page.goto(serve(study.app) + study.link())
    page.wait_for_selector("form:not([data-closed]) >> text=Your browser may not play this kind of video")
    page.wait_for_function("() => document.querySelector('.strip')?.naturalWidth === 960")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**/done")


def test_a_rating_page_with_a_clip_fits_a_phone(page, serve, tmp_path, drawn):
    study = begin_study(tmp_path, [{"id": "1", "events": [[0, 2.5], [4, 9]]}], ids=["1"])
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(serve(study.app) + study.link())
    loads(page, "#clip")
    page.click(".events button >> text=0:04–0:09")
    page.wait_for_function(PLAYS, arg="#clip")
    arrives(page, 4, 19, "#clip")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    assert page.locator("#answer .side").first.is_visible()
    assert list_serious_findings(page) == []
