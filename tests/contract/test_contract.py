"""What every metric owes its users, by the checks of `captious.testing`, to the last digit: none is exempt."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from tests.contract.fixtures import (
    COLOR_METRICS,
    EVENT_METRICS,
    EXAMPLES,
    FILES,
    captions,
    dense_captions,
    judge,
    mixer,
)

import captious
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.registry import METRICS, get_metric_class, names, parse
from captious.options import Runtime, using
from captious.testing import CHECKS, MODELS, Trial

FORMS = [(name, form) for name, forms in EXAMPLES.items() for form in forms]
every_metric = pytest.mark.parametrize(("name", "form"), FORMS, ids=[form.partition("{")[0] for _, form in FORMS])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of the files that examples name, each written when first asked for."""
    written = {}

    def path(name):
        if name not in written:
            written[name] = FILES[name](tmp_path_factory.mktemp(name))
        return written[name]

    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return captions(tmp_path_factory.mktemp("images"))


@pytest.fixture
def whole(name, plain):
    return dense_captions(plain) if name in EVENT_METRICS else plain


@pytest.fixture
def metric(name, form, files, request, monkeypatch):
    if name in COLOR_METRICS:
        request.getfixturevalue("colors")
        mixer(monkeypatch)
    if name in ("capture", "spice", "spider"):
        pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'captious[spice]'")
    judge(name, monkeypatch)
    with using(Runtime(device="cpu")):
        yield parse(re.sub(r"\{(\w+)\}", lambda match: str(files(match[1])), form))


def test_every_metric_has_an_example():
    assert set(EXAMPLES) == set(METRICS) == {get_metric_class(name).name for name in METRICS}
    assert set(names()) >= set(METRICS)


# Models in single precision, whose last digits depend on which texts stand in a batch together.
LEARNT = ("{bert}", "{bleurt}", "{umic}", "{polos}")


@every_metric
@pytest.mark.parametrize("promise", CHECKS)
def test_the_contract_is_kept(metric, whole, promise, form):
    tolerance = MODELS if any(model in form for model in LEARNT) else 0.0
    assert list(CHECKS[promise](Trial(metric, whole, tolerance))) == []


@every_metric
def test_what_an_item_lacks_is_its_reason(metric, whole):
    measured = metric.measure(whole)
    assert len(measured.reasons) < len(whole)
    if "events" in metric.needs:
        assert measured.items["no candidates"] == 0, "a video without predictions counts 0"
    else:
        assert measured.reasons["no candidates"] == "no candidate caption"
    for need in ("references", "image"):
        assert (measured.reasons.get(f"no {need}") == f"no {need}") == (need in metric.needs)
    lonely = measured.reasons.get("one candidate") == "one candidate, needs several"
    assert lonely == ("several candidates" in metric.needs)
    assert f"|unscored:{len(measured.reasons)}|" in str(measured.signature)


@every_metric
def test_scoring_happens_once(metric, whole, monkeypatch):
    calls = []
    for step in ("prepare", "score_items"):
        original = getattr(type(metric), step)

        def counted(self, *arguments, step=step, original=original):
            calls.append(step)
            return original(self, *arguments)

        monkeypatch.setattr(type(metric), step, counted)
    measured = metric.measure(whole)
    assert calls == ["prepare", "score_items"]
    assert measured.values is not None and measured.corpus == measured.corpus and isinstance(measured.warnings, tuple)
    assert calls == ["prepare", "score_items"], "values, corpus value and warnings are not computed again"


@pytest.mark.parametrize("name", METRICS)
def test_the_facts_of_the_card_are_there(name):
    metric = get_metric_class(name)()
    assert isinstance(metric, Metric) and metric.name == name and metric.label
    assert (metric.__doc__ or "").strip() and ">>>" in metric.__doc__


@every_metric
def test_a_metric_that_does_not_explain_says_so(metric, whole):
    if not metric.explains:
        with pytest.raises(InputError, match="does not explain single values"):
            metric.explain(whole, whole.ids[0])


ROOT = Path(__file__).resolve().parents[2]


@cache
def documented_fields():
    """The fields in the tables of the page *How to read a signature*."""
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/guide/signatures.md").read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(name for row in rows for name in re.findall(r"`(\w+)`", row))


@every_metric
def test_every_field_of_the_signature_is_explained(metric, whole):
    signature = metric.measure(whole).signature
    assert {*signature.settings, *signature.counts} <= documented_fields(), signature


def test_every_explained_field_exists():
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/captious").rglob("*.py"))
    assert len(documented_fields()) > 60
    for name in documented_fields():
        assert re.search(rf'"{name}"|\b{name}:[{{s]|[|"]{name}:', code), f"no code writes the field {name}"


DEMO = captious.demo().folder
RESULTS = {
    "score": ("score", DEMO / "predictions/solid.json", "-r", DEMO / "references.json", "-m", "cider"),
    "study": ("study", "run", DEMO / "ratings.jsonl", "-r", DEMO / "references.json", "-m", "rouge"),
    "systems": ("study", "systems", DEMO / "ratings.jsonl"),
    "bias": ("bias", "lic", DEMO / "bias.jsonl", "--label", "label", "--mask", "gender", "--seeds", "1"),
    "stress": ("probe", "stress", DEMO / "predictions/solid.json", "-r", DEMO / "references.json", "-m", "rouge"),
}


@pytest.mark.parametrize("command", RESULTS.values(), ids=RESULTS)
def test_every_field_of_other_results_is_explained(command, run):
    code, out, err = run(*command, "--json")
    assert code == 0, err
    for signature in json.loads(out)["signatures"]:
        assert set(re.findall(r"(?:^|\|)(\w+):", signature)) <= documented_fields(), signature
