"""A real server that ignores what it is asked: ``transformers serve`` sends no probabilities, holds to no schema."""

import math

import pytest
from tests.models.chat.conftest import need
from tests.models.chat.serving import NEXT, transformers_serve, write_number_model

from captious.captions import CaptionSet
from captious.metrics.judges.clair import Clair
from captious.metrics.judges.fleur import Fleur
from captious.models.chat.judge import load_judge
from captious.options import Judging, Runtime, using

CAPTIONS = {"1": "a red dog", "2": "a cat"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Its address, and the name of its model."""
    need("aiohttp", "httpx", "torch", "transformers", "fastapi", "openai")
    folder = write_number_model(tmp_path_factory.mktemp("numbers"))
    with transformers_serve(folder, folder.with_suffix(".log")) as url:
        yield url, str(folder)


@pytest.fixture
def captions():
    return CaptionSet.of(CAPTIONS, {id: [text] for id, text in CAPTIONS.items()})


@pytest.fixture
def model(server, tmp_path):
    url, name = server
    with using(Runtime(judging=Judging(endpoint=url, replies=tmp_path / "replies.db", concurrency=1))):
        yield name


def test_what_the_server_does_is_seen_and_not_believed(model):
    judge = load_judge(model)
    abilities = {name: judge.can(name) for name in ("logprobs", "schema", "n", "seed")}
    assert abilities == {"logprobs": False, "schema": False, "n": False, "seed": True}


def test_a_rating_falls_back_on_samples_and_the_signature_says_why(model, captions):
    metric = Fleur(model, context="references", samples=4)
    measured = metric.measure(captions)
    assert "|logprobs:ignored|n:ignored|seed:followed|" in str(measured.signature)
    assert "|sampled:2|" in str(measured.signature) and not measured.reasons
    for id in CAPTIONS:
        numbers = [4 * part.adds for part in metric.explain(captions, id).parts]
        assert len(numbers) == 4 and all(any(math.isclose(one, float(word)) for word in NEXT) for one in numbers)
        assert math.isclose(measured.items[id], sum(numbers) / 4)


def test_a_schema_that_is_ignored_is_said_and_what_comes_is_read_as_ever(model, captions):
    measured = Clair(model, schema=True).measure(captions)
    assert "|schema:ignored|" in str(measured.signature) and "|unreadable:2|" in str(measured.signature)
    assert all(reason.startswith("unreadable reply: no JSON object in '0.") for reason in measured.reasons.values())
