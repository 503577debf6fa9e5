"""Judges on videos: frames in order in one message with their times, other frames other replies, and plain refusals."""

import base64
import io
import json
import re

import pytest
from tests.metrics.judges.answers import ANSWERS
from tests.models.chat.stub import asked, pictures

import captious
from captious.captions import ImageData
from captious.errors import InputError
from captious.models.chat._endpoint import Unanswered
from captious.models.chat.messages import Request, Turn
from captious.options import Judging, Reading, Resampling, Runtime

pytest.importorskip("aiohttp")
Image = pytest.importorskip("PIL.Image")
ALL = "These are {} frames of one video, in order"


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Two videos of 20 frames as folders of images: frame i of the first has the gray 10 · i, the second is larger."""
    folder = tmp_path_factory.mktemp("clips")
    for name, size in (("small", (60, 40)), ("large", (900, 600))):
        (folder / name).mkdir()
        for number in range(20):
            Image.new("RGB", size, (10 * number,) * 3).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture
def captions(clips):
    return [
        {"id": name, "caption": "a red dog", "references": ["the dog", "a dog runs"], "video": str(clips / name)}
        for name in ("small", "large")
    ]


@pytest.fixture
def score(captions, tmp_path):
    """Scores the captions by a judge; options are those of judging, and ``frames``."""

    def measure(metric, frames=None, **options):
        runtime = Runtime(judging=Judging(replies=tmp_path / "replies.db", **options))
        reading = Reading(frames=frames) if frames else Reading()
        report = captious.evaluate(captions, metric, reading=reading, runtime=runtime, resampling=Resampling(samples=0))
        return next(iter(report))

    return measure


def decode(url):
    kind, _, content = url.partition(",")
    assert kind == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(content)))


def show(body):
    """The sizes of the images of a message, and which frames they are by their gray."""
    images = [decode(url) for url in pictures(body)]
    return {image.size for image in images}, [round(image.convert("L").getpixel((5, 5)) / 10) for image in images]


def yes(body):
    return ANSWERS["vqascore"](body)


def test_frames_come_in_order_in_one_message(model, score):
    stub = model(yes)
    measured = score("vqascore(stub)")
    seen = {size: numbers for sizes, numbers in map(show, stub.bodies) for size in sizes}
    # uniform:8 of 20 frames; the longer side of 900 × 600 is reduced to 768.
    assert seen == {(60, 40): [0, 2, 5, 8, 10, 13, 16, 19], (768, 512): [0, 2, 5, 8, 10, 13, 16, 19]}
    assert all(asked(body).startswith(f"{ALL.format(8)}.\n\n") for body in stub.bodies)
    assert "|frames:uniform:8|" in str(measured.signature) and "|image:768" in str(measured.signature)


@pytest.mark.shared_data
def test_the_text_has_the_times(model, shared_data, tmp_path):
    pytest.importorskip("av")
    stub = model(yes)
    rows = [{"id": "c", "caption": "squares", "video": str(shared_data / "tiny_clips/counter.mp4")}]
    runtime = Runtime(judging=Judging(replies=tmp_path / "replies.db", judge_frames=4))
    captious.evaluate(rows, "vqascore(stub)", runtime=runtime, resampling=Resampling(samples=0))
    # uniform:4 of 20 frames at 10 per second: frames 0, 6, 12 and 19.
    assert asked(stub.bodies[0]).startswith(f"{ALL.format(4)}, at 0.0 s, 0.6 s, 1.2 s, 1.9 s.\n\n")


def test_other_frames_are_another_question(model, score):
    stub = model(yes)
    first = score("vqascore(stub)")
    assert len(stub.bodies) == 2
    score("vqascore(stub)")
    assert len(stub.bodies) == 2, "the replies are stored"
    other = score("vqascore(stub)", frames="middle:10")
    assert len(stub.bodies) == 4 and show(stub.bodies[-1])[1] == [1, 3, 6, 8, 11, 13, 16, 18]
    assert "|frames:middle:8|" in str(other.signature)
    score("vqascore(stub)", judge_frames=3)
    assert len(stub.bodies) == 6 and show(stub.bodies[-1])[1] == [0, 9, 19]
    every = score("vqascore(stub)", frames="all", judge_frames=2)
    assert show(stub.bodies[-1])[1] == [0, 19] and "|frames:all,uniform:2|" in str(every.signature)
    assert first.signature != other.signature


def get_prompt_digest(measured):
    return re.search(r"\|prompt:(\w+)", str(measured.signature))[1]


def test_the_prompt_differs_from_that_of_images_which_stays(model, score, clips, tmp_path):
    model(yes)
    image = captious.evaluate(
        {"1": "a red dog"},
        "vqascore(stub)",
        images={"1": str(clips / "small/0.png")},
        runtime=Runtime(judging=Judging(replies=tmp_path / "replies.db")),
        resampling=Resampling(samples=0),
    )
    (image,) = image
    assert get_prompt_digest(image) != get_prompt_digest(score("vqascore(stub)"))
    assert "frames" not in str(image.signature) and "image:" not in str(image.signature)
    # Each frame alone is an image, with the prompt of images.
    assert get_prompt_digest(image) == get_prompt_digest(score("vqascore(stub,frames=each)"))
    # Computed before judges could read videos: the digest of a question about an image of one pixel.
    pixel = "47494638396101000100800000000000ffffff2c00000000010001000002024401003b"
    request = Request((Turn("user", "Does it show a dog?", (ImageData(bytes.fromhex(pixel), "dot"),)),))
    assert request.digest("m") == "2197b51fd7200bb50e0fd49bc36b50c48f472d540f35c2fe803e122f0d0fcd09"


def test_each_frame_by_itself(model, score):
    """p(yes) is .1 for every frame of ten in gray, so that the mean over frames 0, 9 and 19 is their sum by three."""

    def answer(body):
        (_, (number,)) = show(body)
        chance = {0: 0.9, 9: 0.6, 19: 0.3}[number]
        return {
            "model": "stub",
            "choices": [{"message": {"content": "Yes"}, "logprobs": {"content": [token(chance)]}}],
        }

    def token(chance):
        from math import log

        top = [{"token": "Yes", "logprob": log(chance)}, {"token": "No", "logprob": log(1 - chance)}]
        return {"token": "Yes", "logprob": 0.0, "top_logprobs": top}

    stub = model(answer)
    measured = score("vqascore(stub,frames=each)", judge_frames=3)
    assert len(stub.bodies) == 6 and not any("frames" in asked(body) for body in stub.bodies)
    assert measured.values == pytest.approx([0.6, 0.6])


JUDGES = {
    "fleur": "fleur(stub)",
    "reffleur": "reffleur(stub)",
    "gveval": "gveval(stub)",
    "faithscore": "faithscore(stub)",
    "rlaifv": "rlaifv(stub)",
    "dcscore": "dcscore(stub,samples=1)",
    "vqascore": "vqascore(stub)",
    "tifa": "tifa(stub,questions={questions})",
    "dsg": "dsg(stub,questions={questions})",
}


@pytest.mark.parametrize("name", JUDGES)
def test_every_judge_that_sees_images_sees_frames(name, model, score, tmp_path):
    rows = [
        {"id": one, "question": "Is there a dog?", "choices": ["yes", "no"], "answer": "yes"}
        for one in ("small", "large")
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stub = model(ANSWERS[name])
    measured = score(JUDGES[name].format(questions=tmp_path / "questions.jsonl"))
    sent = [len(pictures(body)) for body in stub.bodies if pictures(body)]
    assert sent and set(sent) == {8} and not measured.reasons
    assert "|frames:uniform:8|" in str(measured.signature)


@pytest.mark.parametrize("form", ["clair(stub)", "gveval(stub,mode=references)"])
def test_a_judge_that_reads_text_sends_no_frames(form, model, score):
    stub = model(ANSWERS[form.partition("(")[0]])
    measured = score(form)
    assert not any(pictures(body) for body in stub.bodies) and "frames" not in str(measured.signature)


def test_the_arena_shows_frames(model, captions, tmp_path):
    stub = model(lambda body: json.dumps({"reason": "why", "better": "first"}))
    arena = captious.arena(
        {"a": captions, "b": [{**row, "caption": "a cat"} for row in captions]},
        "stub",
        runtime=Runtime(judging=Judging(replies=tmp_path / "replies.db")),
    )
    questions = [body for body in stub.bodies if "The frames are attached." in asked(body)]
    assert len(questions) == 4 and all(len(pictures(body)) == 8 for body in questions)
    assert "|images:shown|frames:uniform:8|image:768|" in arena.signature


def test_a_dry_run_counts_images(model, score, captions, tmp_path, run):
    stub = model(yes)
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in captions))
    options = ("--replies", tmp_path / "dry.db", "--dry-run")
    code, out, err = run("score", tmp_path / "captions.jsonl", "-m", "vqascore(stub)", "--json", *options)
    assert code == 0, err
    (row,) = json.loads(out)["calls"]
    assert (row["calls"], row["images"]) == (2, 16) and row["prompt_tokens"] > 16 * 765 and not stub.bodies
    form = "vqascore(stub,frames=each)"
    code, out, err = run("score", tmp_path / "captions.jsonl", "-m", form, "--judge-frames", 3, *options)
    assert code == 0 and "6 calls with 6 images" in " ".join(out.split()), err


def test_a_server_that_takes_fewer_images(model, score):
    model(lambda body: Unanswered("status 400: At most 1 image(s) may be provided in one request."))
    with pytest.raises(InputError) as error:
        score("vqascore(stub)")
    assert str(error.value).endswith(
        "the server took 1 image, the request has 8; raise its limit or use --judge-frames 1"
    )


def test_a_video_that_cannot_be_read_costs_its_item(model, captions, tmp_path):
    model(yes)
    (tmp_path / "empty").mkdir()
    rows = [*captions, {**captions[0], "id": "broken", "video": str(tmp_path / "empty")}]
    runtime = Runtime(judging=Judging(replies=tmp_path / "replies.db"))
    (measured,) = captious.evaluate(rows, "vqascore(stub)", runtime=runtime, resampling=Resampling(samples=0))
    assert list(measured.reasons) == ["broken"] and measured.reasons["broken"].startswith("video: ")
