"""Clips in tars and in Parquet files: scored as files are, resumed after a kill, copied unchanged."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs.shards.test_scoring import columns, values

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.shards import expand, read_shard
from captious.models import loading
from captious.models.frame_features import frame_features
from captious.options import Engine, Reading, Resampling
from captious.runs import Run, open_run
from captious.runs.keep_items import keep
from captious.runs.shards.scoring import score_shards

pytestmark = pytest.mark.shared_data
MINI = "clipscore(weights=captious-mini)"
SERIAL, NONE = Engine("serial"), Resampling(0)
NAMES = ("scenes.mp4", "counter.webm", "counter_rotated.mp4", "cut.mp4")
CAPTION = "two orange cats beside a red chair"
BROKEN = "video: breaks off before its index (moov)"


@pytest.fixture
def clips(shared_data):
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'captious[video]'")
    return shared_data / "tiny_clips"


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def tars(tmp_path, clips):
    """Three tars of four clips each, one of which is broken."""
    for shard in range(3):
        members: dict[str, bytes] = {}
        for place, name in enumerate(NAMES):
            members[f"{shard}{place}.{name.partition('.')[2]}"] = (clips / name).read_bytes()
            members[f"{shard}{place}.txt"] = CAPTION.encode()
        write_tar(tmp_path / f"{shard}.tar", members)
    return str(tmp_path / "{0..2}.tar")


@pytest.fixture
def expected(clips):
    captions = CaptionSet.of(dict.fromkeys(NAMES, CAPTION), columns={"video": [str(clips / one) for one in NAMES]})
    return captious.evaluate(captions, MINI, resampling=NONE)[MINI]


def test_clips_of_tars_score_as_files(tars, expected, tmp_path):
    report = score_shards(tars, MINI, out=tmp_path / "run", resampling=NONE, engine=SERIAL)
    scores = values(tmp_path / "run", MINI)
    for shard in range(3):
        for place, name in enumerate(NAMES[:3]):
            assert scores[f"{shard}{place}"] == pytest.approx(expected.items[name], abs=1e-6)
        assert scores[f"{shard}3"] is None
    assert "|frames:uniform:10|items:12|rotated:3|unscored:3|" in report.signature(MINI)
    assert report[MINI].reasons == {f"{shard}3": BROKEN for shard in range(3)}


DRIVER = """
import os, signal, sys
from captious.options import Engine, Resampling
from captious.runs.folder import Run
from captious.runs.shards.scoring import score_shards

original, parts = Run.write_part, []

def dying(self, *arguments):
    parts.append(arguments)
    if len(parts) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(self, *arguments)

Run.write_part = dying
score_shards(sys.argv[1], sys.argv[2], out=sys.argv[3], resampling=Resampling(0), engine=Engine("serial"))
"""


def test_a_killed_run_is_resumed(tars, tmp_path):
    killed = subprocess.run([sys.executable, "-c", DRIVER, tars, MINI, str(tmp_path / "run")])
    assert killed.returncode == -signal.SIGKILL
    report = score_shards(tars, MINI, out=tmp_path / "run", resampling=NONE, engine=SERIAL)
    assert report.history == ("resumed: 1 of 3 shards were already scored",)
    score_shards(tars, MINI, out=tmp_path / "other", resampling=NONE, engine=SERIAL)
    assert columns(tmp_path / "run") == columns(tmp_path / "other")
    assert open_run(tmp_path / "run").signature(MINI) == open_run(tmp_path / "other").signature(MINI)


def test_keep_copies_the_members_unchanged(tars, tmp_path, clips):
    score_shards(tars, MINI, out=tmp_path / "run", resampling=NONE, engine=SERIAL)
    keep(tmp_path / "run", f'"{MINI}" > 0.3', out=tmp_path / "kept", write="shards", engine=SERIAL)
    with tarfile.open(tmp_path / "kept" / "0.tar") as tar:
        assert sorted(tar.getnames()) == ["00.mp4", "00.txt"]
        assert tar.extractfile("00.mp4").read() == (clips / "scenes.mp4").read_bytes()


def test_numbered_images_are_frames_if_a_rule_is_given(tmp_path, clips):
    paths = sorted((clips / "frames" / "scenes").glob("*.png"))
    members = {f"a.{number}.png": paths[number].read_bytes() for number in (5, 4, 3, 2, 1, 0)}
    write_tar(tmp_path / "0.tar", {**members, "a.txt": CAPTION.encode(), "b.txt": b"a dog"})
    source = str(tmp_path / "*.tar")
    reading = Reading(frames="uniform:6")
    score_shards(source, MINI, out=tmp_path / "run", resampling=NONE, engine=SERIAL, reading=reading)
    # 0.466458 is the stored mean of the six images in pooling.json.
    assert values(tmp_path / "run", MINI) == {"a": pytest.approx(0.466458, abs=1e-6), "b": None}
    assert Run.at(tmp_path / "run").marker.reading["frames"] == "uniform:6"
    with pytest.raises(InputError, match="no image"):
        score_shards(source, MINI, out=tmp_path / "plain", resampling=NONE, engine=SERIAL)
    faults = read_shard(expand(source)[0]).examples
    assert "frames of videos if frames=... is given, such as frames='uniform:10'" in faults["numbered images, not read"]


def test_a_tar_that_is_read_as_a_file_has_the_frames_too(tmp_path, clips):
    paths = sorted((clips / "frames" / "scenes").glob("*.png"))
    members = {f"a.{number}.png": path.read_bytes() for number, path in enumerate(paths)}
    write_tar(tmp_path / "0.tar", {**members, "a.txt": CAPTION.encode()})
    captions = captious.read(tmp_path / "0.tar", reading=Reading(frames="uniform:6"))
    assert captious.evaluate(captions, MINI, resampling=NONE)[MINI].corpus == pytest.approx(0.466458, abs=1e-6)
    plain = captious.read(tmp_path / "0.tar")  # metrics of texts need no frames
    assert not plain.has_videos and "member 'a.0.png' is a numbered image" in plain.origin.remarks[0]


def test_vectors_in_tars(tmp_path, clips):
    encoder = loading.load("captious-mini")
    paths = sorted((clips / "frames" / "scenes").glob("*.png"))
    clip = captious.captions.Clip(captious.captions.VideoData(list(map(str, paths))))
    vectors = frame_features(encoder, [clip], captious.captions.FrameRule("all", 0)).of(0)
    files = {"npy": io.BytesIO(), "npz": io.BytesIO(), "bad": io.BytesIO(b"no array")}
    np.save(files["npy"], vectors)
    np.savez(files["npz"], features=vectors)
    members = {f"{name}.{name if name != 'bad' else 'npy'}": file.getvalue() for name, file in files.items()}
    members |= {f"{name}.txt": CAPTION.encode() for name in files}
    write_tar(tmp_path / "0.tar", members)
    report = score_shards(str(tmp_path / "*.tar"), MINI, out=tmp_path / "run", resampling=NONE, engine=SERIAL)
    assert list(values(tmp_path / "run", MINI).values()) == [pytest.approx(0.466458, abs=1e-6)] * 2
    assert "|frames:features|" in report.signature(MINI)
    (shard,) = expand(str(tmp_path / "*.tar"))
    assert dict(read_shard(shard).faults) == {"vectors of frames cannot be used": 1}


@pytest.mark.parametrize("packed", [False, True])
def test_bytes_of_clips_in_parquet(packed, tmp_path, clips, expected):
    contents = [(clips / name).read_bytes() for name in NAMES]
    videos = [{"bytes": content, "path": None} for content in contents] if packed else contents
    pq.write_table(pa.table({"id": NAMES, "caption": [CAPTION] * 4, "video": videos}), tmp_path / "0.parquet")
    score_shards(str(tmp_path / "*.parquet"), MINI, out=tmp_path / "run", resampling=NONE, engine=SERIAL)
    scores = values(tmp_path / "run", MINI)
    assert scores["scenes.mp4"] == pytest.approx(expected.items["scenes.mp4"], abs=1e-6) and scores["cut.mp4"] is None
    assert "video" not in pq.read_table(tmp_path / "run" / "items" / "0.parquet").column_names


def test_clips_are_read_only_for_metrics_that_need_them(tars):
    (shard, *_) = expand(tars)
    assert not read_shard(shard, images=False).captions.has_videos
    assert read_shard(shard, images=True).captions.has_videos
