"""The readings of equation 10: summed vectors give what pairs of captions give, and each reading differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lab.reproductions.onlystyle import DEFAULT, READINGS, Cosines, Pairs, Reading, stylecider
from lab.toy import make

from captious.errors import InputError
from captious.metrics.style.fitting import fit
from captious.probes.style_check import StyledCaptions, StyledCorpus, read_styled


def styled(rows: list[tuple[str, str]]) -> StyledCorpus:
    styles, texts = zip(*rows, strict=True)
    return StyledCorpus("rows", styles, texts, tuple(map(str, range(len(rows)))))


@pytest.fixture(scope="module")
def sample() -> StyledCorpus:
    made = make(40)
    return styled([(row["style"], row["caption"]) for scene in made.scenes() for row in made.styled(scene)])


def test_table_one_by_hand() -> None:
    # No caption shares a weighted word with another: similarity 0 on both sides, and a tie fails.
    check = StyledCaptions.of(None, styled([("p", "x"), ("q", "y"), ("p", "z"), ("q", "z")]))
    assert stylecider(check).tolist() == [0.0, 0.0, 0.0, 0.0]
    # Kept among its references, x resembles itself; z has weight 0 and does not.
    assert stylecider(check, Reading(itself="keep")).tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("itself", ["drop", "keep"])
@pytest.mark.parametrize("negative", ["signed", "zero"])
@pytest.mark.parametrize("weights", ["style", "reference"])
@pytest.mark.parametrize("tf", [False, True])
def test_summed_vectors_equal_pairs(sample: StyledCorpus, itself, negative, weights, tf: bool) -> None:
    reading = Reading(itself=itself, negative=negative, weights=weights, tf=tf)
    check = StyledCaptions.of(None, sample)
    everyone = np.ones(len(sample.texts), dtype=np.bool_)
    copies = np.bincount(check.copy_of)[check.copy_of]
    pairs = Pairs(check.ngrams, check.style, copies, reading, check.copy_of)
    expected = np.full((len(sample.texts), 4), np.nan)
    for captions, scores in pairs.scores(everyone):
        expected[captions] = scores
    for captions, scores in Cosines(check.ngrams, check.style, copies, reading).scores(everyone):
        assert np.abs(scores - expected[captions]).max() < 1e-12


def test_summed_vectors_equal_pairs_for_a_model_of_other_captions(sample: StyledCorpus) -> None:
    half = len(sample.texts) // 2
    model = fit(zip(sample.styles[:half], sample.texts[:half], strict=True))
    rest = StyledCorpus("rest", sample.styles[half:], sample.texts[half:], sample.ids[half:])
    check = StyledCaptions.of(model, rest)
    assert np.array_equal(stylecider(check), stylecider(check, Reading(clip=True))), "clip without tf changes nothing"


def test_the_default_is_what_the_probe_computes(sample: StyledCorpus) -> None:
    check = StyledCaptions.of(None, sample)
    assert np.array_equal(check.stylecider(), stylecider(check, DEFAULT))


def test_pooled_references_by_hand() -> None:
    # Unigrams: x in p only (2 captions), y in q only, u and v in p once each. F_p = [x 2, u 1, v 1]: ECDF(1) = 2/3.
    # CNG_p: x 1/2, u and v 1/3, y −1/2. "x u" against the rest of p ("x v"), orders above 2 absent, bigrams unshared:
    # mean and pooled are one reference each, so both give the same cosine, and q shares nothing: a win.
    rows = [("p", "x u"), ("p", "x v"), ("q", "y")]
    check = StyledCaptions.of(None, styled(rows))
    for reading in (Reading(), Reading(references="pooled"), Reading(references="max")):
        assert stylecider(check, reading)[:2].tolist() == [1.0, 1.0]
        assert np.isnan(stylecider(check, reading)[2]), "the only caption of its style has no reference"


def test_every_reading_makes_a_difference(sample: StyledCorpus) -> None:
    # Short captions of few words in three styles, in which counts, lengths and negative weights all matter.
    rng = np.random.default_rng(0)
    rows = [(f"s{i % 3}", " ".join(rng.choice(list("aabbcdefg"), rng.integers(1, 9)))) for i in range(90)]
    check = StyledCaptions.of(None, styled(rows))

    def wins(**given) -> np.ndarray:
        return stylecider(check, Reading(**given))

    default = wins()
    for other in (
        {"itself": "keep"},
        {"references": "max"},
        {"references": "pooled"},
        {"weights": "reference"},
        {"weights": "own"},
        {"negative": "zero"},
        {"tf": True},
        {"length_penalty": True},
        {"sampled": 1},
    ):
        assert not np.array_equal(default, wins(**other)), other
    assert not np.array_equal(wins(tf=True), wins(tf=True, clip=True))


def test_sampled_references_are_seeded(sample: StyledCorpus) -> None:
    check = StyledCaptions.of(None, sample, 30)
    one, same, other = (stylecider(check, Reading(sampled=2), seed) for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_readings_have_names_of_their_own() -> None:
    assert len({str(reading) for reading in READINGS}) == len(READINGS) == 22
    with pytest.raises(InputError, match="pooled references go with"):
        Reading(references="pooled", clip=True).checked()


@pytest.mark.shared_data
def test_kept_captions_on_flickrstyle(shared_data: Path) -> None:
    # 0.953 comes from an independent implementation.
    check = StyledCaptions.of(None, read_styled(shared_data / "style" / "flickrstyle.jsonl"))
    assert stylecider(check, Reading(itself="keep")).mean() == pytest.approx(0.953, abs=5e-4)
