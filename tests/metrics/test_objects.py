"""Tokenizers and encoders of one's own, given to metrics as objects."""

import copy
import gc
import json
import pickle
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from captious import CaptionSet, Engine, InputError, Resampling, Scorer, compare, demo, evaluate, metric, score_shards
from captious._core.plugins import find_object
from captious.metrics import EncoderMetric, MeanMetric, Scored, State, candidate_means
from captious.metrics.bertscore import BertScore
from captious.metrics.bleu import Bleu
from captious.metrics.capture.capture import Capture
from captious.metrics.cider import Cider
from captious.metrics.clip.clipscore import ClipScore, RefClipScore
from captious.metrics.contract import TokenMetric
from captious.metrics.registry import METRICS, get_metric_class
from captious.metrics.sbert import Sbert
from captious.models import cosines, image_features, load, text_features
from captious.models.encoder import Tokens
from captious.testing import ContractError, check_encoder, check_metric, check_tokenizer
from captious.text import TextTable, Tokenizer

FEW = Resampling(50)
CAPTIONS = CaptionSet.of(
    {"1": "a-red dog runs", "2": "two cats sit here"}, {"1": ["a-red dog sits"], "2": ["two cats run here"]}
)


def split_hyphens(text):
    return text.lower().replace("-", " ").split()


HYPHENS = Tokenizer("hyphens", "1.0", split_hyphens)


class Letters:
    """An encoder that counts letters of a text and the brightness of an image in six bands."""

    name, fingerprint, precision, dimension, limit = "letters", "0f1e2d", "fp32", 6, 30

    def tokenize(self, texts):
        ids = np.zeros((len(texts), self.limit), np.int64)
        for row, text in zip(ids, texts, strict=True):
            row[: min(len(text), self.limit)] = [ord(letter) for letter in text[: self.limit]]
        return Tokens(ids, np.array([len(text) for text in texts], np.int64))

    def text_features(self, ids):
        return np.stack([(ids % 6 == band).sum(1) for band in range(6)], axis=1).astype(np.float32) + 1

    def prepare(self, picture):
        return np.asarray(picture.convert("RGB").resize((6, 6)), np.uint8)

    def image_features(self, pixels):
        return pixels.astype(np.float32).mean(axis=(2, 3)) + 1


def test_a_tokenizer_object_is_used_and_named_in_the_signature():
    measured = Bleu(n=1, tokenizer=HYPHENS).measure(CAPTIONS)
    # "a red dog runs" against "a red dog sits": 3 of 4; "two cats sit here" against "two cats run here": 3 of 4
    assert measured.values.tolist() == pytest.approx([0.75, 0.75])
    assert "|tok:hyphens.1.0|" in str(measured.signature)
    assert Bleu(n=1, tokenizer="whitespace").measure(CAPTIONS).values[0] == pytest.approx(2 / 3)  # "a-red" is one


def test_parameters_of_a_written_form_are_passed_by_name():
    assert metric("bleu(n=1)", tokenizer=HYPHENS) == Bleu(n=1, tokenizer=HYPHENS)
    assert metric("BLEU-2", tokenizer="13a") == Bleu(n=2, tokenizer="13a")
    with pytest.raises(InputError, match=r"^rouge has no parameter 'weights', legal ones: .*tokenizer"):
        metric("rouge", weights="captious-mini")
    with pytest.raises(InputError, match=r"^'clipscore\(captious-mini\)' sets weights, and so does weights=\.\.\."):
        metric("clipscore(captious-mini)", weights=Letters())


def test_two_versions_of_a_tokenizer_are_two_metrics():
    other = Tokenizer("hyphens", "1.1", str.split)
    report = evaluate(CAPTIONS, [Bleu(n=1, tokenizer=HYPHENS), Bleu(n=1, tokenizer=other)], resampling=FEW)
    assert [one.values[0] for one in report] == pytest.approx([0.75, 2 / 3])


@pytest.mark.parametrize("name", [name for name in METRICS if issubclass(get_metric_class(name), TokenMetric)])
def test_every_metric_with_a_tokenizer_takes_an_object(name):
    kind = get_metric_class(name)
    if "tokenizer" in {field.name for field in fields(kind)}:
        made = kind(tokenizer=HYPHENS)
        assert "tokenizer=hyphens.1.0" in str(made) and metric(str(made)) == made
        assert kind(tokenizer=Tokenizer("13a", 1, *TOOL[2:])) == kind(tokenizer="13a")


TOOL = [getattr(TextTable.of(CAPTIONS, "13a").tokenizer, field.name) for field in fields(Tokenizer)]


def test_an_object_travels_with_its_metric():
    made = Cider(tokenizer=Tokenizer("travels", 3, split_hyphens))
    content = pickle.dumps(made)
    text = str(made)
    assert copy.deepcopy(made) == made
    del made
    gc.collect()
    assert find_object("travels.3") is None  # nothing is kept for objects that nobody has any more
    with pytest.raises(InputError, match=r"unknown tokenizer 'travels\.3'"):
        metric(text)
    again = pickle.loads(content)
    assert metric(text) == again and again.measure(CAPTIONS).corpus == Cider(tokenizer=HYPHENS).measure(CAPTIONS).corpus


def test_an_older_metric_outlives_a_newer_one_with_the_same_tokenizer():
    old = Bleu(n=1, tokenizer=Tokenizer("twice", 1, split_hyphens))
    new = Bleu(n=1, tokenizer=Tokenizer("twice", 1, split_hyphens))
    assert old == new
    del new
    gc.collect()
    assert old.measure(CAPTIONS).values[0] == pytest.approx(0.75)


def test_scorers_comparisons_and_shards_take_objects(tmp_path):
    made = [Bleu(n=1, tokenizer=HYPHENS), Cider(tokenizer=HYPHENS)]
    scorer = Scorer(made[:1], references={"1": ["a-red dog sits"]})
    assert scorer(["1"], ["a-red dog runs"])["bleu(n=1,tokenizer=hyphens.1.0)"].tolist() == pytest.approx([0.75])
    other = CaptionSet.of({"1": "a dog", "2": "two cats"}, {"1": ["a-red dog sits"], "2": ["two cats run here"]})
    compared = compare({"one": CAPTIONS, "two": other}, made, resampling=FEW)
    assert "tokenizer=hyphens.1.0" in str(compared)
    for number, (key, text) in enumerate({"1": "a-red dog runs", "2": "two cats sit here"}.items()):
        row = {"id": key, "caption": text, "references": list(CAPTIONS.references[number])}
        (tmp_path / f"part{number}.jsonl").write_text(json.dumps(row) + "\n")
    whole = {str(one): one.measure(CAPTIONS).corpus for one in made}
    for engine in ("serial", "processes"):
        report = score_shards(
            str(tmp_path / "part*.jsonl"), made, out=tmp_path / engine, engine=Engine(engine, 2), resampling=FEW
        )
        assert {str(one.metric): one.corpus for one in report} == pytest.approx(whole)


def test_a_tokenizer_that_cannot_travel_is_refused_in_one_line(tmp_path):
    for number in range(2):
        row = {"id": number, "caption": "a", "references": ["a"]}
        (tmp_path / f"part{number}.jsonl").write_text(json.dumps(row) + "\n")
    made = Bleu(n=1, tokenizer=Tokenizer("local", 1, lambda text: text.split()))
    with pytest.raises(InputError, match=r"worker processes cannot get it; define it at the top of a module") as error:
        score_shards(str(tmp_path / "part*.jsonl"), made, out=tmp_path / "run", engine=Engine("processes", 2))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ("mytok", r"^unknown tokenizer 'mytok', expected one of ptb, 13a, "),
        (str.split, r"^Bleu\(tokenizer=method_descriptor\): expected a name, or a captious\.text\.Tokenizer\("),
        (lambda text: [], r"^Bleu\(tokenizer=function\): expected a name, or a captious"),
        (object(), r"^Bleu\(tokenizer=object\): expected a name, or a captious"),
        (None, r"^Bleu\(tokenizer=None\): expected a name or a Tokenizer"),
        (Tokenizer("ptb", 2, str.split), r"'ptb': is the name of one of captious, expected another name"),
        (Tokenizer("My tokens", 1, str.split), r"'My tokens': expected a name of lower-case letters"),
        (Tokenizer("mine", "1 b", str.split), r"version is '1 b', expected text without spaces"),
        (Tokenizer("mine", 1, "split"), r"tokenize is 'split', expected a function"),
    ],
)
def test_what_is_no_tokenizer_is_refused_at_once(tokenizer, message):
    with pytest.raises(InputError, match=message) as error:
        Bleu(tokenizer=tokenizer)
    assert "\n" not in str(error.value)


def test_an_unknown_tokenizer_is_refused_at_parsing():
    with pytest.raises(InputError, match=r"unknown tokenizer 'pbt', .*did you mean 'ptb'\?"):
        metric("bleu(n=4,tokenizer=pbt)")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text: text, "^tokenizer 'faulty' on '.*': TypeError: gave one text, expected a list"),
        (lambda text: [1], "TypeError: sequence item 0: expected str"),
        (lambda text: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_an_error_of_a_tokenizer_names_it_and_the_text(function, message):
    with pytest.raises(InputError, match=message):
        Bleu(tokenizer=Tokenizer("faulty", 1, function)).measure(CAPTIONS)


@pytest.fixture(scope="module")
def pictures():
    """Twelve items of the demo with captions, references and drawn images."""
    captions = demo().systems["solid"]
    return captions.take(range(12))


def test_an_encoder_object_gives_the_cosines_of_its_vectors(pictures):
    encoder = Letters()
    measured = ClipScore(weights=encoder, prefix="", value="raw").measure(pictures)
    from PIL import Image

    for key, value in list(measured.items.items())[:3]:
        index = pictures.position(key)
        with Image.open(pictures.images[index]) as picture:
            image = encoder.image_features(encoder.prepare(picture)[None])[0]
        text = encoder.text_features(encoder.tokenize([pictures.candidates[index][0]]).ids)[0]
        assert value == pytest.approx(image @ text / np.linalg.norm(image) / np.linalg.norm(text), abs=1e-6)
    assert "|encoder:letters#0f1e2d|precision:fp32|" in str(measured.signature)


def test_metrics_take_encoders_as_objects(pictures):
    encoder = Letters()
    made = [ClipScore(weights=encoder), RefClipScore(weights=encoder), Sbert(weights=encoder)]
    report = evaluate(pictures, made, resampling=FEW)
    for one in report:
        assert "letters#0f1e2d" in str(one.signature) and "(weights=letters#0f1e2d)" in str(one.metric)
        assert metric(str(one.metric)) == one.metric and not one.reasons
    assert pickle.loads(pickle.dumps(made[0])).measure(pictures).corpus == report[str(made[0])].corpus


def test_a_path_is_taken_as_its_text():
    assert ClipScore(weights=Path("folder") / "model") == ClipScore(weights=str(Path("folder") / "model"))


def test_what_is_no_encoder_is_refused(pictures):
    with pytest.raises(InputError, match=r"^ClipScore\(weights=dict\): expected a name, or an encoder, an object with"):
        ClipScore(weights={})

    class Half:
        name, fingerprint = "half", "1"

    with pytest.raises(InputError, match=r"^Half has no precision, dimension, .*expected an encoder with the members"):
        ClipScore(weights=Half()).measure(pictures)

    class Texts(Letters):
        prepare = image_features = property()

    with pytest.raises(InputError, match=r"has no prepare, image_features, expected .* of captious\.models\.Encoder"):
        ClipScore(weights=Texts()).measure(pictures)

    class Unnamed(Letters):
        name = "my encoder"

    with pytest.raises(InputError, match=r"name is 'my encoder', expected text without spaces"):
        ClipScore(weights=Unnamed())
    with pytest.raises(InputError, match=r"is an object, but this model is read from files"):
        BertScore(weights=Letters()).measure(pictures)
    with pytest.raises(InputError, match=r"activation=gelu is for checkpoint files"):
        ClipScore(weights=Letters(), activation="gelu").measure(pictures)


def test_sentence_encoders_of_ones_own_need_no_images():
    class Texts(Letters):
        prepare = image_features = property()

    encoder = Texts()
    captions = CaptionSet.of({"1": "a dog", "2": "cats"}, {"1": ["a dog"], "2": ["dogs", "cats"]})
    assert Sbert(weights=encoder).measure(captions).values.tolist() == pytest.approx([1, 1])
    assert str(Capture(weights=encoder)) == "capture(weights=letters#0f1e2d)"


def test_checks_of_tokenizers():
    check_tokenizer(HYPHENS)
    check_tokenizer("ptb")
    faulty = Tokenizer("faulty", 1, lambda text: [text] if text.strip() else [], lambda chunk: True)
    with pytest.raises(ContractError) as error:
        check_tokenizer(faulty)
    faults = "\n".join(error.value.faults)
    assert "faulty does not keep the contract of a tokenizer" in str(error.value)
    assert "have no space" in faults and "is_local says that" in faults
    with pytest.raises(ContractError, match="unknown tokenizer 'nothing'"):
        check_tokenizer("nothing")


def test_checks_of_encoders():
    check_encoder(Letters())
    check_encoder("captious-mini")

    class Faulty(Letters):
        precision = "fp8"

        def text_features(self, ids):
            return super().text_features(ids)[:, :5]

        def image_features(self, pixels):
            features = super().image_features(pixels)
            return features - features.mean(axis=0) + np.arange(len(features))[:, None] * np.eye(6)[0]

    with pytest.raises(ContractError, match="does not keep the contract of an encoder") as error:
        check_encoder(Faulty())
    faults = "\n".join(error.value.faults)
    assert "precision is 'fp8'" in faults and "text_features gives the shape (3, 5)" in faults
    assert "the vector of an image depends on the others" in faults


@dataclass(frozen=True)
class Nameless(MeanMetric):
    """The cosine of caption and image, whose signature does not say under which encoder."""

    weights: str = "captious-mini"
    name: ClassVar[str] = "nameless"
    needs: ClassVar[tuple] = ("image", "model")
    range: ClassVar[tuple] = (-1.0, 1.0)

    def score_items(self, captions, state):
        encoder = load(self.weights)
        owners = captions.candidates.owners
        images = image_features(encoder, [captions.images[owner] for owner in owners.tolist()])
        values = cosines(images, text_features(encoder, captions.candidates.values))
        return Scored(candidate_means(captions, values))


@dataclass(frozen=True)
class Named(EncoderMetric, Nameless):
    """The same with a signature."""

    weights: Any = "captious-mini"
    name: ClassVar[str] = "named"
    needs: ClassVar[tuple] = ("image", "model")

    def settings(self, state: Any) -> dict[str, str]:
        return {"own": "yes"}  # an override that forgets the encoder


@dataclass(frozen=True, eq=False)
class Total(State):
    """The sum of all cosines, and their number."""

    total: float
    number: int

    def merge(self, other: "Total") -> "Total":
        return Total(self.total + other.total, self.number + other.number)


@dataclass(frozen=True)
class Centered(EncoderMetric, MeanMetric):
    """The cosine minus the mean cosine of the corpus: a model beside a corpus state."""

    weights: Any = "captious-mini"
    name: ClassVar[str] = "centered"
    range: ClassVar[tuple] = (-2.0, 2.0)
    corpus_state: ClassVar[type[State]] = Total

    def _cosines(self, captions):
        return Named(self.weights).score_items(captions, None).rows[:, 0]

    def prepare(self, captions: CaptionSet) -> Total:
        values = self._cosines(captions)
        return Total(float(np.nansum(values)), int(np.isfinite(values).sum()))

    def score_items(self, captions, state):
        return Scored(self._cosines(captions) - state.total / state.number)


@pytest.fixture
def known(monkeypatch):
    kinds = {kind.name: kind for kind in (Nameless, Named, Centered)}
    monkeypatch.setattr("captious.metrics.registry.FUNCTIONS", kinds)


def test_a_metric_that_does_not_name_its_encoder_fails_the_check(known, pictures):
    fingerprint = load("captious-mini").fingerprint
    with pytest.raises(ContractError, match=f"it uses the model captious-mini#{fingerprint}, which its signature does"):
        check_metric("nameless", pictures)


def test_the_base_of_metrics_with_an_encoder_names_it(known, pictures):
    check_metric("named", pictures)
    signature = str(Named().measure(pictures).signature)
    assert f"|encoder:captious-mini#{load('captious-mini').fingerprint}|precision:fp32|own:yes|" in signature
    assert "|encoder:letters#0f1e2d|" in str(Named(weights=Letters()).measure(pictures).signature)


def test_a_model_beside_a_corpus_state(known, pictures):
    check_metric("centered", pictures)
    measured = Centered().measure(pictures)
    assert measured.corpus == pytest.approx(0, abs=1e-9) and "|encoder:captious-mini#" in str(measured.signature)


def test_weights_that_are_not_named_are_asked_for(pictures):
    with pytest.raises(InputError, match=r"named needs weights: name an encoder, named\(weights=…\)"):
        Named(weights="").measure(pictures)
