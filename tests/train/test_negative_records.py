"""Rows, files and the sample to look at."""

import json

import numpy as np
import pytest
from PIL import Image

from captious.edits.lexicon import CaptionCorpus
from captious.errors import InputError
from captious.train.negative_records import (
    NegativeSample,
    iterate_records,
    make_record,
    mark_changes,
    write_negatives,
)
from captious.train.negatives import make_negatives
from captious.train.similar_images import SimilarImages, compute_image_vectors


def test_the_file_holds_what_the_rows_say(pets, tagger, tmp_path):
    made = make_negatives(pets, tagger=tagger, per=3)
    assert write_negatives(made, tmp_path / "neg.jsonl") == 12 * 5 * 3
    assert [json.loads(line) for line in (tmp_path / "neg.jsonl").open()] == list(iterate_records(made))


def test_quotes_and_letters_of_all_kinds_survive(tagger, tmp_path):
    corpus = CaptionCorpus.of({'a"\\': ['a "dog" runs\u2028', "ein Hündchen \U0001f415"], "b": ["the\tcat sleeps", ""]})
    made = make_negatives(corpus, tagger=tagger, per=4)
    write_negatives(made, tmp_path / "neg.jsonl")
    with (tmp_path / "neg.jsonl").open(encoding="utf-8", newline="\n") as file:
        assert [json.loads(line) for line in file] == list(iterate_records(made))
    assert {entry["id"] for entry in iterate_records(made)} == {'a"\\', "b"}


def test_a_row_says_what_was_done(pets, tagger):
    made = make_negatives(pets, ("repeat", "substitute", "random"), tagger=tagger)
    one = make_record(made, 1)
    assert list(one) == ["id", "caption", "kind", "negative", "done"] and one["kind"] == "substitute"
    for old, new in one["done"]["replaced"]:
        assert old in one["caption"] and new in one["negative"]
    assert list(make_record(made, 2)["done"]) == ["from"]


def test_a_sample_shows_each_image_once_before_any_twice(pets, tagger):
    made = make_negatives(pets, ("random", "repeat"), tagger=tagger)
    chosen = NegativeSample(made, 6).draw_examples()
    assert {made.ids[number] for number in chosen["random"]} == set(pets.ids)
    assert [made.caption[n] for n in chosen["random"]] == [made.caption[n] for n in chosen["repeat"]]
    assert len(NegativeSample(made, 100).draw_examples()["random"]) == 12


def test_changed_words_are_marked(tagger):
    corpus = CaptionCorpus.of({"1": ["a dog, a dogsled"], "2": ["the cat"]})
    made = make_negatives(corpus, ("substitute",), tagger=tagger)
    before, after = mark_changes(made, 0)
    assert [(span.text, span.tone) for span in before.spans if span.tone] == [("dog", "strong")]
    assert [(span.text, span.tone) for span in after.spans if span.tone] == [("cat", "bad")]
    assert str(before) == "a dog, a dogsled" and str(after) == made.texts[0]


def test_the_document_counts_and_shows(pets, tagger):
    made = make_negatives(pets, ("random", "repeat"), tagger=tagger)
    shown = NegativeSample(made, 2, warnings=("one",)).document()
    assert [table.key for table in shown.tables.values()] == ["counts", "random", "repeat"]
    assert shown.tables["counts"].rows[0] == ("random", 12, "—", 0) and shown.warnings == ("one",)
    assert shown.tables["repeat"].title == "repeat: 2 of 12" and len(shown.tables["repeat"].rows) == 2
    assert shown.data["counts"] == made.counts() and len(shown.data["look"]["random"]) == 2
    assert list(NegativeSample(made).document().tables) == ["counts"]


class Colors:
    """An encoder that sees nothing but the mean color."""

    name, fingerprint, precision, dimension, limit = "colors", "0123456789ab", "fp32", 3, 8

    def prepare(self, picture):
        return np.asarray(picture.convert("RGB").resize((4, 4)))

    def image_features(self, pixels):
        return pixels.mean(axis=(1, 2)).astype(np.float32) + 1


def test_vectors_by_an_encoder(pets, tmp_path, monkeypatch):
    monkeypatch.setattr("captious.models.loading.load", lambda weights: Colors())
    for key, color in {"1": "red", "2": "blue", "3": "darkred", "4": "darkblue", "5": "green"}.items():
        Image.new("RGB", (8, 8), color).save(tmp_path / f"{key}.png")
    found, warnings = compute_image_vectors(pets, tmp_path, "colors")
    assert len(warnings) == 1 and "1 images without a vector" in warnings[0] and "such as 6 (" in warnings[0]
    assert np.isnan(found[5]).all()
    near = SimilarImages.of(pets, found).pictures.index
    assert near[:5, 0].tolist()[:4] == [2, 3, 0, 1] and (near[5] == -1).all()


def test_vectors_from_a_file(pets, tmp_path):
    def written(**arrays):
        np.savez(tmp_path / "v.npz", **arrays)
        return compute_image_vectors(pets, image_features=tmp_path / "v.npz")

    found, warnings = written(ids=np.array(["3", "1"]), features=np.array([[1, 2], [3, 4]], np.int8), scale=[0.5, 2.0])
    assert found[2].tolist() == [0.5, 4.0] and found[0].tolist() == [1.5, 8.0] and np.isnan(found[1]).all()
    assert warnings == ("4 images without a vector are compared only by captions, such as 2 (not in v.npz)",)
    for arrays, message in (
        ({"rows": np.eye(2)}, "contains rows, expected the arrays ids and features"),
        ({"ids": ["1"], "features": np.eye(2)}, "expected one row of numbers for each id"),
        ({"ids": ["x", "y"], "features": np.eye(2)}, "no vector of any image"),
        ({"ids": ["1", "2"], "features": np.eye(2), "scale": np.ones(3)}, "expected one number for each dimension"),
    ):
        with pytest.raises(InputError, match=message):
            written(**arrays)
    (tmp_path / "v.npz").write_text("nonsense")
    with pytest.raises(InputError, match=r"not an \.npz file"):
        compute_image_vectors(pets, image_features=tmp_path / "v.npz")
    with pytest.raises(InputError, match="no such file"):
        compute_image_vectors(pets, image_features=tmp_path / "w.npz")
    assert compute_image_vectors(pets)[0] is None
    with pytest.raises(InputError, match="expected both or neither"):
        compute_image_vectors(pets, tmp_path)
