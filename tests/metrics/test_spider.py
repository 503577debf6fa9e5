"""SPIDEr: the mean of its parts, the best candidate and the parts of that one, fluency, and SPICE from a file."""

import json

import pytest

pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")

from captious import CaptionSet
from captious.errors import InputError
from captious.metrics.cider import Cider
from captious.metrics.registry import parse
from captious.metrics.spice.spice import Spice
from captious.metrics.spider import Spider

REFERENCES = {
    "1": ["a brown dog barks in the rain", "the dog barks loudly"],
    "2": ["water flows over rocks", "a stream runs over small rocks"],
    "3": ["a man speaks while birds sing", "birds sing and a man talks"],
}
FIRST = {"1": "a brown dog barks", "2": "a car passes by", "3": "a man speaks while birds sing"}
SECOND = {"1": "the dog barks loudly", "2": "water flows over rocks", "3": "rain"}


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    from tests.contract.fixtures import meteor_data

    return str(meteor_data(tmp_path_factory.mktemp("wordnet")))


def parts(candidates, resources):
    """CIDEr-D and SPICE of each item, by the two metrics themselves."""
    captions = CaptionSet.of(candidates, REFERENCES)
    return Cider().measure(captions).items, Spice(resources=resources).measure(captions).items


def test_it_is_the_mean_of_both(resources):
    cider, spice = parts(FIRST, resources)
    measured = Spider(resources=resources).measure(CaptionSet.of(FIRST, REFERENCES))
    expected = {key: (cider[key] + spice[key]) / 2 for key in FIRST}
    assert measured.items == pytest.approx(expected, abs=1e-12)
    assert measured.corpus == pytest.approx(sum(expected.values()) / 3, abs=1e-12)
    assert measured.metric.label == "SPIDEr (spaCy)"
    signature = str(measured.signature)
    assert "|idf:refs:3:" in signature and "|parser:" in signature and "|tok:ptb" in signature
    assert "CIDEr's idf comes from only 3 items" in measured.warnings[0]


def test_the_best_candidate_and_its_own_parts(resources):
    both = CaptionSet.of({key: [FIRST[key], SECOND[key]] for key in FIRST}, REFERENCES)
    sides = [parts(side, resources) for side in (FIRST, SECOND)]
    spider = [{key: (cider[key] + spice[key]) / 2 for key in FIRST} for cider, spice in sides]
    chosen = {key: int(spider[1][key] > spider[0][key]) for key in FIRST}
    assert chosen == {"1": 1, "2": 1, "3": 0}
    assert sides[0][1]["1"] > sides[1][1]["1"], "the largest SPICE of item 1 is not that of the best candidate"
    for value, index in {"cider": 0, "spice": 1}.items():
        measured = Spider(value=value, best=True, resources=resources).measure(both)
        assert measured.items == pytest.approx({key: sides[chosen[key]][index][key] for key in FIRST}, abs=1e-12)
    measured = Spider(best=True, resources=resources).measure(both)
    best = {key: spider[chosen[key]][key] for key in FIRST}
    assert measured.items == pytest.approx(best, abs=1e-12)
    assert measured.corpus == pytest.approx(sum(best.values()) / 3, abs=1e-12)
    mean = Spider(resources=resources).measure(both)
    assert mean.items == pytest.approx({key: (spider[0][key] + spider[1][key]) / 2 for key in FIRST}, abs=1e-12)


def test_of_equal_candidates_the_first_counts_once(resources):
    twice = CaptionSet.of({key: [text, text] for key, text in FIRST.items()}, REFERENCES)
    once = Spider(resources=resources).measure(CaptionSet.of(FIRST, REFERENCES))
    assert Spider(best=True, resources=resources).measure(twice).items == pytest.approx(once.items)


def test_fluency_takes_nine_tenths_of_spider_and_nothing_of_its_parts(resources):
    captions = CaptionSet.of(FIRST, REFERENCES, {"error_probability": [0.95, 0.9, 0.2]})
    cider, spice = parts(FIRST, resources)
    whole = {key: (cider[key] + spice[key]) / 2 for key in FIRST}
    fluent = parse(f"spider_fl(resources={resources})").measure(captions)
    assert fluent.items == pytest.approx({**whole, "1": 0.1 * whole["1"]}, abs=1e-12)
    assert fluent.metric.label == "SPIDEr-FL (spaCy)"
    part = Spider(value="cider", fluency="error_probability", resources=resources).measure(captions)
    assert part.items == pytest.approx(dict(cider))


def test_fluency_can_change_which_candidate_is_best(resources):
    captions = CaptionSet.of(
        {"1": [FIRST["1"], SECOND["1"]], "2": [FIRST["2"], SECOND["2"]], "3": [FIRST["3"], SECOND["3"]]},
        REFERENCES,
        {"error_probability": [[0.1, 0.95], [0.1, 0.1], [0.1, 0.1]]},
    )
    cider, spice = parts(FIRST, resources)
    measured = Spider(best=True, fluency="error_probability", resources=resources).measure(captions)
    assert measured.items["1"] == pytest.approx((cider["1"] + spice["1"]) / 2)


def test_spice_of_the_original_from_its_file(tmp_path):
    rows = [{"image_id": key, "scores": {"All": {"f": f}}} for key, f in {"1": 0.4, "2": 0.0, "3": 1.0}.items()]
    (tmp_path / "spice.json").write_text(json.dumps(rows))
    metric = parse(f"spider(spice={tmp_path / 'spice.json'})")
    captions = CaptionSet.of(FIRST, REFERENCES)
    cider = Cider().measure(captions).items
    expected = {"1": (cider["1"] + 0.4) / 2, "2": cider["2"] / 2, "3": (cider["3"] + 1) / 2}
    assert metric.measure(captions).items == pytest.approx(expected, abs=1e-12)
    assert metric.label == "SPIDEr (original SPICE)" and metric.needs == ("references",)
    rows[1]["scores"]["All"]["f"] = 0.6
    (tmp_path / "spice.json").write_text(json.dumps(rows))
    assert metric.measure(captions).items["2"] == pytest.approx((cider["2"] + 0.6) / 2), (
        "a file that changed is read again"
    )
    several = CaptionSet.of({**FIRST, "1": ["a dog", "dogs"]}, REFERENCES)
    assert metric.measure(several).reasons == {
        "1": "several candidates, and the file of SPICE has one value for each item"
    }
    strangers = CaptionSet.of({"9": "a dog"}, {"9": ["a dog"]})
    with pytest.raises(InputError, match=r"spice\.json must be of these captions, with their ids"):
        metric.refuse_empty(metric.measure(strangers), "captions")


def test_the_explanation_has_the_two_halves_and_the_error(resources):
    captions = CaptionSet.of(FIRST, REFERENCES, {"error_probability": [0.95, 0.9, 0.2]})
    parts = Spider(fluency="error_probability", resources=resources).explain(captions, "1").parts
    assert [part.name for part in parts] == ["CIDEr-D / 2", "SPICE / 2", "fluency error"]
    assert parts[2].adds == pytest.approx(-0.9 * (parts[0].adds + parts[1].adds))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("SPIDEr", "spider"),
        ("spider-max", "spider(best=yes)"),
        ("SPIDEr-FL", "spider(fluency=error_probability)"),
        ("spider_fl(fluency=errors.csv)", "spider(fluency=errors.csv)"),
    ],
)
def test_its_names(text, form):
    assert str(parse(text)) == form
