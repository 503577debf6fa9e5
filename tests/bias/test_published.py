"""The real data gives the numbers that were read off the originals."""

from dataclasses import replace

import numpy as np
import pytest

from captious.bias.corpus import MaskedCorpus, read_subjects
from captious.bias.masks import MASKED
from captious.bias.protocol import PRESETS, find_preset
from captious.errors import InputError
from captious.options import Reading

MODELS = ("sat", "oscar", "nic_plus", "nic_equalizer")


@pytest.fixture(scope="module")
def age(shared_data):
    return read_subjects([shared_data / "lic" / "age.jsonl.gz"], "label", Reading(candidate_column=",".join(MODELS)))


@pytest.mark.shared_data
def test_legacy_alignment_hides_the_known_shares_of_human_words(age, shared_data):
    # Of human tokens: unk 20.7, 21.4, 15.7, 15.8 %; masked 8.9 %.
    files = str(shared_data / "lic" / "vocabulary" / "{model}.txt")
    protocol = replace(find_preset("relic-age"), vocabulary=files)
    corpora = [MaskedCorpus.of(subject, protocol) for subject in age]
    assert [corpus.unknown for corpus in corpora] == pytest.approx([0.207, 0.214, 0.157, 0.158], abs=0.002)
    words = [word for column in corpora[0].humans for caption in column for word in caption]
    assert words.count(MASKED) / len(words) == pytest.approx(0.089, abs=0.001)


@pytest.mark.shared_data
def test_sizes_and_appendix_c(age):
    assert len(age[0].ids) == 7038
    # Distinct lower-cased whitespace tokens of each model's captions.
    assert [len({word for text in subject.captions for word in text.lower().split()}) for subject in age] == [
        *(641, 1167, 674, 666)
    ]
    tasks = MaskedCorpus.of(age[0], find_preset("relic-age-human")).tasks(0)
    assert [len(tasks)] + [len(part) for part in (tasks[0].split.train, tasks[0].split.test)] == [6, 4382, 488]
    assert not np.array_equal(tasks[0].split.test, tasks[1].split.test)


@pytest.mark.shared_data
def test_gender_and_race_take_their_people_from_coco(shared_data):
    for folder, images in (("gender", 10_780), ("race", 10_969)):
        file = shared_data / "lic" / folder / "sat.jsonl.gz"
        subject = read_subjects([file], "label", Reading(references=shared_data / "coco" / "val2014.jsonl.gz"), 5)[0]
        assert len(subject.ids) == images
        assert {len(texts) for texts in subject.humans} == {5}


def test_presets_carry_the_quirks():
    assert find_preset("relic", "age").frozen == {"epochs": 5, "rate": 1e-5} and not find_preset("hirota-gender").frozen
    assert not PRESETS["relic-race"].mask.words and not PRESETS["relic-race"].paired
    assert PRESETS["relic-age-human"].spaces
    with pytest.raises(InputError, match="did you mean 'relic-age'"):
        find_preset("relic-ag")
