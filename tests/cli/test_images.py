"""Images in score, compare and study, as a user types them."""

import json

import pytest
from lab.toy import make, write

from captious._core.files import RUN
from captious._evaluate import evaluate
from captious.options import Runtime, get_runtime

pytestmark = pytest.mark.usefixtures("colors")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=12), tmp_path_factory.mktemp("sample") / "s", size=32)


def test_score_with_images(run, sample, tmp_path):
    given = (sample / "predictions" / "solid.json", "--references", sample / "references.json")
    metrics = ("--metrics", "clipscore,refclipscore,longclip,specs,specs_routed")
    code, out, error = run("score", *given, *metrics, "--images", sample / "images", "--out", tmp_path / "run")
    assert code == 0, error
    for part in ("CLIPScore", "RefCLIPScore", "LongCLIP", "SPECS", "|encoder:Xiaohud/SPECS#", "|by_short:12"):
        assert part in out
    summary = json.loads((tmp_path / "run" / RUN).read_text())
    assert [row["unscored"] for row in summary["metrics"]] == [0] * 5
    code, _, error = run("score", *given, "--metrics", "clipscore")
    assert code == 2 and "no image; pass --images" in error and error.count("\n") == 1


def test_a_caption_beyond_the_limit_is_warned_of_and_written_down(run, sample, tmp_path):
    given = (sample / "long.jsonl", "--images", sample / "images", "--metrics", "specs(weights=short)")
    code, out, error = run("score", *given, "--out", tmp_path / "run")
    assert code == 0 and "|truncated:12|" in out and "12 captions are longer than the encoder's 8 tokens" in error
    assert "12 captions are longer" in (tmp_path / "run" / RUN).read_text()


def test_runtime_options_reach_the_encoder(run, sample, monkeypatch, colors):
    from captious.models import loading

    seen = []

    def load(weights, **options):
        seen.append(get_runtime())
        return colors(weights)

    monkeypatch.setattr(loading, "load", load)
    given = (sample / "predictions" / "solid.json", "--images", sample / "images", "--metrics", "specs")
    options = ("--device", "cpu", "--batch", "7", "--precision", "fp32", "--no-cache", "--upright")
    assert run("score", *given, *options)[0] == 0
    runtime = seen[0]
    assert (runtime.device, runtime.batch, runtime.precision, runtime.cache, runtime.upright) == (
        "cpu", 7, "fp32", False, True,
    )  # fmt: skip
    from captious.io.read import read

    captions = read(sample / "predictions" / "solid.json", images=sample / "images")
    evaluate(captions, "specs", runtime=Runtime(batch=3))
    assert seen[-1].batch == 3 and get_runtime().batch == 256


def test_compare_and_study_with_images(run, sample):
    files = [sample / "predictions" / f"{name}.json" for name in ("solid", "sloppy")]
    code, out, error = run("compare", *files, "--images", sample / "images", "--metrics", "clipscore", "--samples", 20)
    assert code == 0 and "CLIPScore" in out, error
    given = (sample / "ratings.jsonl", "--images", sample / "images", "--metrics", "clipscore", "--samples", 20)
    code, out, error = run("study", "run", *given)
    assert code == 0 and "CLIPScore" in out and "|encoder:openai/clip-vit-base-patch32#" in out, error


@pytest.mark.parametrize("command", ["score", "compare"])
def test_view_finds_the_images_of_a_run_that_this_user_wrote(run, sample, tmp_path, monkeypatch, command):
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "home"))
    systems = [sample / "predictions" / f"{name}.json" for name in ("solid", "expert")][: 1 + (command == "compare")]
    given = (*systems, "--references", sample / "references.json", "--images", sample / "images", "--samples", 0)
    assert run(command, *given, "--metrics", "rouge", "--out", tmp_path / "out")[0] == 0
    code, _, error = run("view", tmp_path / "out", "--out", tmp_path / "site")
    assert code == 0 and "outside the run" not in error
    assert len(list((tmp_path / "site" / "images").iterdir())) == 12
    # The run names no folder of this machine, so elsewhere its images must be named.
    (tmp_path / "out").rename(tmp_path / "moved")
    written = b"".join(path.read_bytes() for path in (tmp_path / "moved").rglob("*") if path.is_file())
    assert str(sample).encode() not in written
    code, _, error = run("view", tmp_path / "moved", "--out", tmp_path / "second")
    assert code == 0 and "images are outside the run" in error and "--images" in error
