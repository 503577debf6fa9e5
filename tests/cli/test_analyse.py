"""``captious specificity``, ``captious analyse`` and images in the other commands, as a user types them."""

import json
import sys

import pytest

from captious._files import MARKER
from captious.cli.app import main
from captious.evaluation import evaluate
from captious.options import Runtime, current
from captious.samples import make, write

pytestmark = pytest.mark.usefixtures("colors")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=12), tmp_path_factory.mktemp("sample") / "s", size=32)


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["captious", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return command


def test_score_with_images(run, sample, tmp_path):
    given = (sample / "predictions" / "solid.json", "--references", sample / "references.json")
    metrics = ("--metrics", "clipscore,refclipscore,longclip,specs,specs_routed")
    code, out, error = run("score", *given, *metrics, "--images", sample / "images", "--out", tmp_path / "run")
    assert code == 0, error
    for part in ("CLIPScore", "RefCLIPScore", "LongCLIP", "SPECS", "|encoder:Xiaohud/SPECS#", "|by_short:12|"):
        assert part in out
    summary = json.loads((tmp_path / "run" / MARKER).read_text())
    assert [row["unscored"] for row in summary["metrics"]] == [0] * 5
    code, _, error = run("score", *given, "--metrics", "clipscore")
    assert code == 2 and "no image; give their folder with --images" in error and error.count("\n") == 1


def test_a_caption_beyond_the_limit_is_warned_of_and_written_down(run, sample, tmp_path):
    given = (sample / "long.jsonl", "--images", sample / "images", "--metrics", "specs(weights=short)")
    code, out, error = run("score", *given, "--out", tmp_path / "run")
    assert code == 0 and "|truncated:12|" in out and "12 captions are longer than the encoder's 8 tokens" in error
    assert "12 captions are longer" in (tmp_path / "run" / MARKER).read_text()


def test_runtime_options_reach_the_encoder(run, sample, monkeypatch, colors):
    from captious.models import load as loading

    seen = []

    def load(weights, **options):
        seen.append(current())
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
    assert seen[-1].batch == 3 and current().batch == 256


def test_compare_and_study_with_images(run, sample):
    files = [sample / "predictions" / f"{name}.json" for name in ("solid", "sloppy")]
    code, out, error = run("compare", *files, "--images", sample / "images", "--metrics", "clipscore", "--samples", 20)
    assert code == 0 and "CLIPScore" in out, error
    given = (sample / "ratings.jsonl", "--images", sample / "images", "--metrics", "clipscore", "--samples", 20)
    code, out, error = run("study", "run", *given)
    assert code == 0 and "CLIPScore" in out and "|encoder:openai/clip-vit-base-patch32#" in out, error


def test_specificity(run, sample, tmp_path):
    given = (sample / "long.jsonl", "--images", sample / "images", "--metrics", "clipscore,specs", "--samples", 20)
    code, out, error = run("specificity", *given, "--out", tmp_path / "sr")
    assert code == 0 and "SR_pos" in out and "12 captions of 12 images" in out and "report.html" in error
    assert (tmp_path / "sr" / "report.html").read_text().count("<svg") == 2
    summary = json.loads(run("specificity", *given, "--counting", "macro", "--json")[1])
    assert summary["counting"] == "macro" and [row["label"] for row in summary["metrics"]] == ["CLIPScore", "SPECS"]
    code, _, error = run("specificity", sample / "long.jsonl", "--metrics", "rouge")
    assert code == 2 and "no references; give a file of references with --references" in error
    code, out, _ = run(
        "specificity", *given[:3], "-r", sample / "references.json", "--metrics", "rouge", "--samples", 0
    )
    assert code == 0 and "ROUGE-L" in out


@pytest.mark.parametrize("name", ["retrieval", "hubness"])
def test_retrieval_and_hubness(run, sample, tmp_path, name):
    given = (sample / "references.json", "--images", sample / "images", "--encoder", "one, two", "--samples", 20)
    more = ("--k", 3) if name == "hubness" else ()
    code, out, error = run("analyse", name, *given, *more, "--out", tmp_path / "a")
    assert code == 0, error
    assert "two" in out and "image → caption" in out and "encoder:two#" in out
    assert (
        len(json.loads(run("analyse", name, *given, *more, "--json")[1])["recall" if name == "retrieval" else name])
        == 4
    )
    code, _, error = run("analyse", name, *given, *more, "--out", tmp_path / "a")
    assert code == 2 and "--overwrite" in error


def test_classification(run, sample, tmp_path):
    rows = [json.loads(line) for line in (sample / "scenes.jsonl").read_text().splitlines()]
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n" + "".join(f"{row['id']},{row['setting']}\n" for row in rows))
    code, out, error = run("analyse", "classification", path, "--images", sample / "images", "--samples", 20)
    assert code == 0 and "accuracy at 1" in out, error


def test_compositionality(run, sample, tmp_path):
    given = ("--images", sample / "images", "--metrics", "clipscore", "--samples", 20)
    code, out, error = run("analyse", "compositionality", sample / "predictions" / "solid.json", *given)
    assert code == 0 and "within-trigrams" in out, error
    code, out, _ = run("analyse", "compositionality", sample / "predictions" / "solid.json", *given, "--kinds", "words")
    assert code == 0 and "within-trigrams" not in out


def test_length_in_tokens(run, sample, tmp_path):
    given = (
        sample / "ratings.jsonl",
        "--references",
        sample / "references.json",
        "--metrics",
        "rouge",
        "--samples",
        20,
    )
    code, out, error = run("analyse", "length", *given, "--tokens", "colors", "--out", tmp_path / "l")
    assert code == 0 and "tokens" in out, error
    tokens = json.loads(run("analyse", "length", *given, "--tokens", "colors", "--json")[1])["buckets"]
    words = json.loads(run("analyse", "length", *given, "--json")[1])["buckets"]
    assert [bucket["low"] - 2 for bucket in tokens] == [bucket["low"] for bucket in words]  # start and end
    assert tokens[0]["unit"] == "tokens" and "<svg" in (tmp_path / "l" / "report.html").read_text()


def test_fitting_heeds_the_long_encoder_of_the_routed_score(run, sample, tmp_path):
    row = {"id": 1001, "units": ["a cat", "in a room", "by a red chair", "under a lamp"]}
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({**row, "wrong_units": row["units"]}) + "\n")
    given = (pairs, "--images", sample / "images", "--metrics", "specs_routed(long=short)", "--json", "--samples", 0)
    assert [
        json.loads(run("specificity", *given, *more)[1])["metrics"][0]["pairs"] for more in ((), ("--fitting",))
    ] == [
        3,
        1,  # "a cat in a room" has 7 tokens with its ends, of 8 that fit; the next unit has four more
    ]
