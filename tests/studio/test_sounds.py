"""Sounds in the studio and the explorer: which files are played, to whom, in parts, by the keyboard, and no others."""

import json
import struct
import wave

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from starlette.testclient import TestClient
from tests.studio.collect.test_rater_pages import Fields, browser
from tests.studio.explore.conftest import REFERENCES, SYSTEMS
from tests.studio.studies import OWNER

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.options import Resampling
from captious.studio._study_app import build_app
from captious.studio.access import Limit, Rules, find_sound_file, hash_token, make_token
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import build_tasks
from captious.studio.collect.study_check import check_plan
from captious.studio.collect.study_plan import read_plan
from captious.studio.explore._explorer_app import build_app as build_explorer
from captious.studio.explore.explorer_table import open_table
from captious.studio.explore.site import export_site

TOKEN = "a-token-of-the-owner"


def write_sound(path, seconds=1):
    """A tone of a square wave."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(struct.pack("<20h", *[4000] * 10, *[-4000] * 10) * (400 * seconds))
    return path


@pytest.fixture
def clips(tmp_path):
    folder = tmp_path / "clips"
    folder.mkdir()
    for key in REFERENCES:
        write_sound(folder / f"{key}.wav")
    return folder


def test_sounds_are_found_inside_the_folder_and_nowhere_else(tmp_path, clips):
    write_sound(tmp_path / "secret.wav")
    (clips / "deep").mkdir()
    write_sound(clips / "deep/a.wav")
    (clips / "page.wav").write_text("<!doctype html><script>alert(1)</script>")
    (clips / "outward.wav").symlink_to(tmp_path / "secret.wav")
    (clips / "inward.mp3").symlink_to(clips / "1.wav")
    for name in ("1.wav", "deep/a.wav", "inward.mp3"):
        assert find_sound_file(clips, name)[1] == "audio/wav"
    hostile = [
        "../secret.wav",
        "outward.wav",
        str(tmp_path / "secret.wav"),
        "page.wav",
        "none.wav",
        "deep",
        "",
        "a\0.wav",
    ]
    for name in hostile:
        with pytest.raises(InputError, match=r"expected a (sound|WAV)"):
            find_sound_file(clips, name)


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (b"fLaC\0\0\0\x22", "audio/flac"),
        (b"OggS\0\2", "audio/ogg"),
        (b"ID3\4", "audio/mpeg"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
    ],
)
def test_the_content_says_what_a_sound_is(tmp_path, beginning, kind):
    (tmp_path / "a.wav").write_bytes(beginning + bytes(20))
    assert find_sound_file(tmp_path, "a.wav")[1] == kind


def write_study(tmp_path, **more):
    for name, captions in SYSTEMS.items():
        rows = [{"id": key, "audio": f"{key}.wav", "caption": text} for key, text in captions.items()]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = {
        "title": "Sounds",
        "kind": "pairs",
        "captions": ["sat.jsonl", "oscar.jsonl"],
        "audio": "clips",
        "overlap": 1,
    }
    lines |= more
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
    (tmp_path / "study.toml").write_text(text)
    return read_plan(tmp_path / "study.toml")


class Sounding:
    """A study of sounds that has begun."""

    def __init__(self, tmp_path):
        plan = write_study(tmp_path)
        self.log = StudyLog.open(tmp_path / "study.db")
        self.log.begin(plan, build_tasks(plan))
        self.app = build_app(self.log.plan(), self.log, Rules(), "http://127.0.0.1", OWNER, Limit(1000, seconds=1))

    def link(self):
        token = make_token()
        self.log.add_raters([hash_token(token)])
        return f"/r/{token}"


def address_of(text):
    (sound,) = [values for tag, values in Fields(text).tags if tag == "audio"]
    assert "controls" in sound and sound["aria-label"] == "The sound of this task"
    return sound["src"]


def test_a_rater_hears_the_sound_of_an_open_task_and_no_other(tmp_path, clips):
    study = Sounding(tmp_path)
    client = browser(study)
    page = client.get(study.link())
    address, name = address_of(page.text), Fields(page.text).hidden["page"]
    assert address == f"/sound/{name}" and ".wav" not in page.text and "<img" not in page.text
    assert "media-src 'self'" in page.headers["content-security-policy"]
    whole = client.get(address)
    assert whole.headers["content-type"] == "audio/wav" and whole.content.startswith(b"RIFF")
    part = client.get(address, headers={"range": "bytes=100-199"})
    assert part.status_code == 206 and part.content == whole.content[100:200], "a player asks for parts"
    foreign = Fields(browser(study).get(study.link()).text).hidden["page"]
    wrong = ["/sound/t1", f"/sound/{foreign}", "/sound/..%2fstudy.toml", "/sound/%2e%2e"]
    assert {client.get(path).status_code for path in wrong} == {404}
    assert browser(study).get(address).status_code == 403
    for path in clips.iterdir():
        path.unlink()
        path.symlink_to(tmp_path / "sat.jsonl")
    assert client.get(address).status_code == 404, "a link out of the folder is not followed"


def test_the_owner_hears_it_too(tmp_path, clips):
    study = Sounding(tmp_path)
    client = TestClient(study.app, base_url="http://127.0.0.1")
    assert client.get(f"/owner?token={OWNER}").status_code == 200
    assert client.get("/owner/sound/t1").headers["content-type"] == "audio/wav"
    assert client.get("/owner/sound/t99").status_code == 404


def test_missing_and_broken_sounds_are_reported_before_the_study_begins(tmp_path, clips):
    (clips / "2.wav").unlink()
    with pytest.raises(InputError, match=r"clips: 1 id \(2\.wav\) without a sound, expected one for every item"):
        build_tasks(write_study(tmp_path))
    tasks = build_tasks(write_study(tmp_path, missing="skip"))
    assert [task.audio for task in tasks] == ["1.wav", "3.wav", "4.wav"]
    (clips / "3.wav").write_text("no sound")
    found = [str(finding.message) for finding in check_plan(write_study(tmp_path, missing="skip")).findings]
    assert any("1 sound (id 3): '3.wav' in" in text and "expected a WAV" in text for text in found)


@pytest.fixture
def run(tmp_path, clips):
    columns = {"audio": [f"{key}.wav" for key in REFERENCES]}
    captions = CaptionSet.of(SYSTEMS["sat"], REFERENCES, columns, name="sat.json")
    evaluate(captions, "rouge", resampling=Resampling(samples=0)).save(tmp_path / "run")
    return tmp_path / "run"


def client_of(table):
    client = TestClient(build_explorer(table, TOKEN), base_url="http://127.0.0.1")
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


def test_the_explorer_plays_sounds_of_the_named_folder_alone(tmp_path, run, clips):
    client = client_of(open_table([run], audio=clips))
    record = client.get("/api/item?id=1").json()
    assert record["sound"] == "sound/0" and record["picture"] is None
    assert client.get("/sound/0").content == (clips / "1.wav").read_bytes()
    assert client.get("/sound/0", headers={"range": "bytes=0-3"}).content == b"RIFF"
    assert {client.get(path).status_code for path in ("/sound/99", "/sound/-1", "/sound/../etc/passwd")} == {404}
    (clips / "1.wav").unlink()
    (clips / "1.wav").symlink_to(write_sound(tmp_path / "secret.wav"))
    assert client.get("/sound/0").status_code == 404
    assert TestClient(build_explorer(open_table([run], audio=clips), TOKEN), base_url="http://127.0.0.1").get(
        "/sound/1"
    ).status_code in (401, 403), "not without the token"


def test_without_a_folder_only_sounds_inside_the_run_are_played(run, clips):
    table = open_table([run])
    assert client_of(table).get("/api/item?id=1").json()["sound"] is None
    assert any(
        "sounds are outside the run, such as 1.wav; name their folder with --audio" in one for one in table.warnings
    )
    write_sound(run / "1.wav")
    assert client_of(open_table([run])).get("/sound/0").status_code == 200


def test_a_page_without_a_server_has_the_sounds_beside_it(tmp_path, run, clips):
    (clips / "4.wav").unlink()
    export_site(open_table([run], audio=clips), tmp_path / "site")
    text = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["sounds"] == ["sounds/0.wav", "sounds/1.wav", "sounds/2.wav", None] and "media-src 'self'" in text
    assert (tmp_path / "site/sounds/2.wav").read_bytes() == (clips / "3.wav").read_bytes()


PLAYING = "id => { const one = document.querySelector(id); return one && !one.paused && one.currentTime > 0; }"


def test_the_key_p_plays_and_pauses_in_both(page, serve, tmp_path, run, clips):
    for path in clips.iterdir():
        write_sound(path, seconds=600)  # longer than a busy machine takes to look whether it plays
    study = Sounding(tmp_path)
    page.goto(serve(study.app) + study.link())
    page.keyboard.press("p")
    page.wait_for_function(PLAYING, arg="#sound")
    page.keyboard.press("p")
    page.wait_for_function("() => document.querySelector('#sound').paused")
    page.goto(serve(build_explorer(open_table([run], audio=clips), TOKEN)) + f"/?token={TOKEN}")
    page.wait_for_selector("[data-item] audio")
    page.keyboard.press("j")
    page.keyboard.press("p")
    page.wait_for_function(PLAYING, arg="[data-item].current audio")
    page.keyboard.press("o")
    page.wait_for_selector("#full audio")
    page.keyboard.press("p")
    page.wait_for_function(PLAYING, arg="#full audio")
    assert page.evaluate("() => [...document.querySelectorAll('audio')].filter((one) => !one.paused).length") == 1
