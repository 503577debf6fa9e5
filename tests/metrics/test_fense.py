"""FENSE: its penalty by hand from stored probabilities, where those come from, and what is refused."""

import json

import pytest
from tests.contract.fixtures import bert

torch = pytest.importorskip("torch")

from captious import CaptionSet
from captious.errors import InputError
from captious.metrics.fense import Fense
from captious.metrics.registry import parse
from captious.metrics.sbert import Sbert
from captious.options import Runtime, using

REFERENCES = {"1": ["the dog runs on", "a cat"], "2": ["a fine day", "two dogs"], "3": ["a red ball"]}
CANDIDATES = {"1": "a red dog runs", "2": "a dog runs and a", "3": "the cat sits"}
# Only the second is above 0.9: a probability at the threshold is no error.
PROBABILITIES = {"1": 0.9, "2": 0.9001, "3": 0.05}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(bert(tmp_path_factory.mktemp("model")))


@pytest.fixture(autouse=True)
def on_cpu():
    with using(Runtime(device="cpu")):
        yield


@pytest.fixture
def similarity(folder):
    return Sbert(folder, over="mean").measure(CaptionSet.of(CANDIDATES, REFERENCES)).items


def column():
    values = list(PROBABILITIES.values())
    return CaptionSet.of(CANDIDATES, REFERENCES, {"error_probability": values})


def test_a_caption_with_an_error_keeps_a_tenth(folder, similarity):
    measured = Fense(folder).measure(column())
    expected = {"1": similarity["1"], "2": similarity["2"] * (1 - 0.9), "3": similarity["3"]}
    assert measured.items == pytest.approx(expected, abs=1e-12)
    assert measured.corpus == pytest.approx(sum(expected.values()) / 3, abs=1e-12)
    assert "|fluency:column|" in str(measured.signature)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "aac-metrics"])
def test_a_file_of_probabilities_gives_the_same(folder, tmp_path, kind):
    name = "fluency_error.error_prob" if kind == "aac-metrics" else "error_probability"
    path = tmp_path / ("errors.jsonl" if kind == "jsonl" else "errors.csv")
    if kind == "jsonl":
        path.write_text("".join(json.dumps({"id": key, name: one}) + "\n" for key, one in PROBABILITIES.items()))
    else:
        path.write_text(f"file_name,{name}\n" + "".join(f"{key},{one}\n" for key, one in PROBABILITIES.items()))
    measured = Fense(folder, fluency=str(path)).measure(CaptionSet.of(CANDIDATES, REFERENCES))
    assert measured.items == Fense(folder).measure(column()).items
    assert f"|fluency:{path.name}#" in str(measured.signature)


def test_threshold_and_penalty(folder, similarity):
    measured = parse(f"fense(weights={folder},threshold=0.01,penalty=0.5)").measure(column())
    assert measured.items == pytest.approx({key: 0.5 * value for key, value in similarity.items()}, abs=1e-12)
    with pytest.raises(InputError, match="fense: expected a threshold and a penalty from 0 to 1"):
        Fense(penalty=1.5)


def test_several_candidates_have_a_probability_each(folder):
    captions = CaptionSet.of({"1": ["a dog", "a cat runs and"]}, REFERENCES | {"1": ["a red dog"]})
    each = Sbert(folder, over="mean").measure(captions.split_candidates()).values
    measured = Fense(folder).measure(
        CaptionSet.of({"1": ["a dog", "a cat runs and"]}, {"1": ["a red dog"]}, {"error_probability": [[0.1, 0.99]]})
    )
    assert measured.items["1"] == pytest.approx((each[0] + 0.1 * each[1]) / 2, abs=1e-9)


def test_an_item_without_a_probability_has_no_value_and_none_at_all_is_refused(folder):
    captions = CaptionSet.of(CANDIDATES, REFERENCES, {"error_probability": [0.1, None, ""]})
    assert Fense(folder).measure(captions).reasons == dict.fromkeys("23", "no error probability")
    bare = CaptionSet.of(CANDIDATES, REFERENCES)
    with pytest.raises(
        InputError, match=r"no error probability; name a detector or a file with fluency=\.\.\., or give"
    ):
        Fense(folder).refuse_empty(Fense(folder).measure(bare), "captions")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("id,error_probability\n1,1.2\n", r"row 2: error_probability is '1.2', expected a number from 0 to 1"),
        ("id,error_probability\n1,often\n", r"row 2: error_probability is 'often', expected a number from 0 to 1"),
        ("id,p\n1,0.5\n", r"row 2: found columns id, p, expected an id and error_probability"),
        ("id,error_probability\n1,0.5\n1,0.6\n", r"row 3: id '1' occurs twice, expected each once"),
        ('id,error_probability\n1,"[0.5, 0.6]"\n', r"id '1' has 2 values of error_probability for 1 captions"),
    ],
)
def test_bad_files_are_refused_in_one_line(folder, tmp_path, rows, message):
    (tmp_path / "errors.csv").write_text(rows)
    with pytest.raises(InputError, match=message):
        Fense(folder, fluency=str(tmp_path / "errors.csv")).measure(CaptionSet.of(CANDIDATES, REFERENCES))


def test_the_explanation_names_the_error(folder):
    parts = Fense(folder).explain(column(), "2").parts
    assert [part.name for part in parts] == ["similarity", "fluency error"]
    assert parts[1].adds == pytest.approx(-0.9 * parts[0].adds)
