"""The captioners of lab/captioners: the data's split, teacher forcing against decoding, beam search, and the scores."""

import doctest
import importlib
import itertools
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lab.captioners import score as scoring
from lab.captioners.data import END, LONGEST, PAD, START, UNKNOWN, Data, Inputs, Vocabulary
from lab.captioners.decode import search
from lab.captioners.models import ARCHITECTURES, FORMS
from lab.captioners.pack import STYLES, compress, pack, restore, split_of
from lab.captioners.train import PAPER, Job, decode, run_all, train

from captious import CaptionSet, Resampling
from captious.metrics import parse

NOUNS, ENDINGS = ("dog", "girl", "boat"), {"humorous": "like a clown", "romantic": "with true love"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """120 images of three kinds: the features say the noun, the style says the ending."""
    data = tmp_path_factory.mktemp("shared")
    (data / "style").mkdir()
    (data / "flickr8k").mkdir()
    generator = np.random.default_rng(0)
    kinds = [index % len(NOUNS) for index in range(120)]
    ids = [f"{index}.jpg" for index in range(120)]
    styled = [
        {"id": key, "style": style, "caption": f"a {NOUNS[kind]} runs {ENDINGS[style]} ."}
        for (key, kind), style in itertools.product(zip(ids, kinds, strict=True), STYLES)
    ]
    factual = [{"id": key, "references": [f"A {NOUNS[kind]} runs ."] * 2} for key, kind in zip(ids, kinds, strict=True)]
    for path, rows in (("style/flickrstyle.jsonl", styled), ("flickr8k/captions.jsonl", factual)):
        (data / path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    means = generator.normal(size=(len(NOUNS), 768)) * 40
    features = np.clip(means[kinds] + generator.normal(size=(120, 768)), -127, 127).astype(np.int8)
    np.savez(data / "flickr8k" / "dinov2_small.npz", ids=ids, features=features, scale=np.full(768, 0.02))
    return data


@pytest.fixture(scope="module")
def packed(shared, tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "flickrstyle.npz"
    pack(shared, path)
    return path


SHORT = {"epochs": 12, "patience": 12, "batch": 16, "rate": 5e-3, "width": 32}
# Masked words are few: SVinVL needs more epochs.
SMALL = {
    name: replace(settings, **SHORT)
    if settings.decay
    else replace(settings, **SHORT | {"epochs": 30, "pretraining": 2})
    for name, settings in PAPER.items()
}


@pytest.mark.parametrize("name", ["grid", "pack", "data", "score"])
def test_examples_in_docstrings(name):
    assert doctest.testmod(importlib.import_module(f"lab.captioners.{name}")).failed == 0


def test_the_split_is_that_of_the_paper_and_depends_on_the_image_alone():
    splits = [split_of(f"{number}.jpg") for number in range(7000)]
    # 1,000 of 7,000 to test, 600 of the other 6,000 to validate; three standard deviations are 88 and 71.
    assert abs(splits.count("test") - 1000) < 88 and abs(splits.count("validation") - 600) < 71
    assert split_of("17.jpg") == splits[17]


def test_compressed_features_are_close_and_keep_no_component_below_the_unit():
    generator = np.random.default_rng(0)
    # Four places of 30 channels, made of three factors.
    factors = generator.normal(size=(500, 3)).astype(np.float32)
    features = np.einsum("nf,fpc->npc", factors, generator.normal(size=(3, 4, 30))).astype(np.float32)
    stored = compress(features, step=0.1)
    restored = restore({f"a_{key}": value for key, value in stored.items()}, "a_")
    # Rounding to a unit u leaves an error of u²/12 for each of the components that are kept, spread over 120 numbers.
    unit, kept = float(stored["unit"]), len(stored["kept"])
    error = np.square(restored - features).mean()
    assert unit == pytest.approx(0.1 * (features - features.mean(axis=0)).std(), rel=1e-5)
    assert error < 1.3 * (kept * unit**2 / 12 + (120 - kept) * unit**2 / 4) / 120
    # Three factors at four places span twelve of the thirty channels.
    assert kept <= 4 * 12 and error < 0.001 * features.var()


def test_neighbours_are_training_images_other_than_the_image(packed):
    data = Data(packed)
    kinds = [int(row["id"].split(".")[0]) % len(NOUNS) for row in data.rows]
    for index, row in enumerate(data.rows):
        assert len(set(row["neighbours"])) == 5 and index not in row["neighbours"]
        assert all(data.rows[other]["split"] == "train" for other in row["neighbours"])
        assert ("factual" in row) == (row["split"] == "train")
    alike = [kinds[other] == kinds[index] for index, row in enumerate(data.rows) for other in row["neighbours"]]
    assert np.mean(alike) > 2 / 3  # by chance 1/3


def test_words_seen_in_fewer_than_three_captions_are_unknown():
    vocabulary = Vocabulary(["a dog", "a dog .", "a dog dog", "a cat cat cat"])
    assert vocabulary.words[4:] == ["a", "dog"]
    assert vocabulary.encode("A cat , a dog !") == [4, UNKNOWN, 4, 5, END]
    assert vocabulary.decode([4, 5, END, 4]) == "a dog"
    assert len(vocabulary.encode("a " * 50)) == LONGEST + 1


def draw_inputs():
    """Four images of three regions, with five dense captions of four words each, and two of PAD."""
    generator = torch.Generator().manual_seed(0)
    dense = torch.randint(4, 11, (4, 5, 6), generator=generator)
    dense[:, :, 4:] = PAD
    regions, pooled = torch.randn(4, 3, 5, generator=generator), torch.randn(4, 7, generator=generator)
    return Inputs(regions, pooled, dense, torch.tensor([0, 1, 0, 1]))


@pytest.mark.parametrize(("architecture", "form"), list(itertools.product(ARCHITECTURES, FORMS)))
def test_decoding_word_by_word_gives_the_logits_of_teacher_forcing(architecture, form):
    torch.manual_seed(0)
    model = ARCHITECTURES[architecture](11, 3, 5, 7, form, width=16).eval()
    inputs, words = draw_inputs(), torch.randint(4, 11, (4, 6))
    state, word, steps = model.start(inputs), torch.full((4,), START), []
    for position in range(6):
        logits, state = model.step(word, state)
        steps.append(logits)
        word = words[:, position]
    torch.testing.assert_close(torch.stack(steps, dim=1), model(inputs, words))
    other = model(inputs._replace(style=1 - inputs.style), words)
    assert torch.equal(other, model(inputs, words)) == (form == "none")


@pytest.mark.parametrize(("architecture", "reads"), [("updown", False), ("multi-updown", True), ("svinvl", True)])
def test_dense_captions_are_read_by_the_two_captioners_that_have_them(architecture, reads):
    torch.manual_seed(0)
    model = ARCHITECTURES[architecture](11, 3, 5, 7, "style", width=16).eval()
    inputs, words = draw_inputs(), torch.randint(4, 11, (4, 6))
    others = inputs._replace(dense=torch.where(inputs.dense == PAD, PAD, 4))
    assert torch.equal(model(others, words), model(inputs, words)) != reads
    # Padding is not read.
    wider = inputs._replace(dense=torch.nn.functional.pad(inputs.dense, (0, 2), value=PAD))
    if architecture != "svinvl":  # there the captions have places in the text
        torch.testing.assert_close(model(wider, words), model(inputs, words))


def test_multi_updown_adds_the_states_of_its_two_decoders():
    torch.manual_seed(0)
    model = ARCHITECTURES["multi-updown"](11, 3, 5, 7, "style", width=16).eval()
    state = model.start(draw_inputs())
    after = model.advance(torch.full((4,), START), state)
    known = torch.cat([model.embed(torch.full((4,), START)), state[4]], dim=1)
    image = model.image(known, state[5], state[6:9], state[:4])
    text = model.text(known, state[9], state[10:], state[:4])
    for part, (one, other) in enumerate(zip(image, text, strict=True)):
        torch.testing.assert_close(after[part], one + other)


def test_svinvl_hides_as_oscar_does():
    torch.manual_seed(0)
    model = ARCHITECTURES["svinvl"](1000, 3, 5, 7, "style", width=16)
    words = torch.full((3000, 20), 7)
    words[::3, 2:], words[1::3, 10:] = PAD, PAD  # captions of 2, 10 and 20 words
    hidden, targets = model.hide(words)
    number = (targets != PAD).sum(dim=1)
    # 15 % of 3, 11 and 21 tokens with [CLS], rounded, from 1 to 3: 0.45, 1.65 and 3.15.
    assert [number[rest::3].unique().tolist() for rest in range(3)] == [[1], [2], [3]]
    chosen = targets != PAD
    assert torch.equal(hidden[~chosen], words[~chosen]) and (targets[chosen] == 7).all()
    # 6,000 words; three standard deviations are 0.016.
    assert abs((hidden[chosen] == model.mask).float().mean() - 0.8) < 0.016
    assert abs((hidden[chosen] == 7).float().mean() - 0.1) < 0.016


def test_a_masked_word_does_not_see_what_follows():
    torch.manual_seed(0)
    model = ARCHITECTURES["svinvl"](11, 3, 5, 7, "style", width=16).eval()
    inputs, words = draw_inputs(), torch.randint(4, 11, (4, 6))
    later = words.clone()
    later[:, 3:] = 4
    assert torch.equal(model(inputs, later)[:, :4], model(inputs, words)[:, :4])


class Table(torch.nn.Module):
    """Logits that depend on the word before alone, for searches that can be followed by hand."""

    def __init__(self, likely):
        super().__init__()
        self.logits = torch.full((8, 8), -1e9)
        for (word, after), p in likely.items():
            self.logits[word, after] = float(np.log(p))

    def start(self, inputs):
        return (torch.zeros(len(inputs.style), 1),)

    def step(self, word, state):
        return self.logits[word].clone(), state


def images(number):
    return Inputs(None, None, None, torch.zeros(number, dtype=torch.long))


def test_a_beam_finds_the_caption_that_greedy_search_misses():
    # 4 is likelier at first, yet what follows it is not: 0.6 · 0.4 against 0.4 · 1 for the caption 5 6.
    model = Table(
        {(START, 4): 0.6, (START, 5): 0.4, (4, 6): 0.4, (4, 5): 0.35, (4, 7): 0.25, (5, 6): 1.0, (6, END): 1.0}
    )
    assert search(model, images(2), 1).tolist() == [[4, 6, END]] * 2
    assert search(model, images(2), 2).tolist() == [[5, 6, END]] * 2


def test_captions_end_are_not_empty_and_hold_no_special_words():
    model = Table({(START, END): 0.9, (START, 4): 0.1, (4, UNKNOWN): 0.8, (4, 5): 0.2, (5, 4): 1.0})
    assert search(model, images(1), 1).tolist() == [([4, 5] * LONGEST)[: LONGEST + 1]]


def test_captions_have_no_word_twice_in_a_row_and_no_bad_ending():
    model = Table({(START, 4): 1.0, (4, 4): 0.8, (4, 5): 0.2, (5, END): 0.9, (5, 6): 0.1, (6, END): 1.0})
    assert search(model, images(1), 1).tolist() == [[4, 5, END]]
    assert search(model, images(1), 1, bad_endings=[5]).tolist() == [[4, 5, 6, END]]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_captioner_learns_noun_and_style_and_a_seed_repeats(packed, architecture):
    data = Data(packed)
    job = Job(architecture, "style", 3)
    settings = SMALL[architecture]
    model, losses = train(job, data, settings)
    rows = list(decode(job, model, data))
    truth = {row["id"]: row for row in data.rows}
    right = [row["caption"] == truth[row["id"]][row["style"]].rstrip(" .") for row in rows]
    assert len(rows) == 4 * len(data.images("test")) and np.mean(right) > 0.9
    assert losses[-1]["validation"] < losses[0]["validation"]
    again = train(job, data, replace(settings, epochs=1))
    assert again.losses[0] == losses[0]


def test_padding_does_not_count_in_the_loss(packed):
    data = Data(packed)
    model = ARCHITECTURES["updown"](len(data.vocabulary), 2, 384, 768, "none", width=16).eval()
    batch = next(data.pairs("train").batches(4, torch.arange(4)))
    wider = batch._replace(words=torch.nn.functional.pad(batch.words, (0, 3), value=PAD))
    torch.testing.assert_close(model.compute_loss(wider, 0.0, 0.0), model.compute_loss(batch, 0.0, 0.0))


@pytest.fixture(scope="module")
def captions(packed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions")
    run_all(packed, folder, SMALL, 1, 1, "cpu")
    return folder


def test_the_verdict_sees_captioners_that_learnt_the_style(shared, captions, tmp_path):
    metrics = ["BLEU-1", "BLEU-4", "CIDEr", "StyleCIDEr", "OnlyStyle", "OnlyStyle, 3 styles"]
    text = scoring.score(shared, captions, tmp_path, metrics, Resampling(samples=100))
    assert "\n\nThe claim holds: of 3 captioners that are told the style, 3 score higher on OnlyStyle and 3 on" in text
    beam, greedy = json.loads((tmp_path / "onlystyle.json").read_text(encoding="utf-8"))
    assert (beam["search"], greedy["search"]) == ("beam", "greedy")
    plain = beam["systems"]["UPDOWN NoStyle"]
    assert abs(plain["metrics"]["OnlyStyle"]["value"]) < 1e-12  # one caption under both of two styles
    assert beam["systems"]["SVinVL"]["metrics"]["OnlyStyle"]["value"] > 0.2
    assert beam["above"]["OnlyStyle"]["Multi-UPDOWN"] > 0.9
    assert (tmp_path / "onlystyle.md").read_text(encoding="utf-8") == text
    # The paper's order by OnlyStyle cannot be seen where all three captioners are perfect.
    assert "| 0 of 2 hold, 0 are significantly the opposite |" in text


def test_a_quick_run_that_shows_nothing_says_that_it_is_too_short(shared, captions, tmp_path):
    rows = [json.loads(line) for line in (captions / "captions.jsonl").read_text(encoding="utf-8").splitlines()]
    same = "".join(json.dumps({**row, "caption": "a dog runs"}) + "\n" for row in rows)
    (tmp_path / "captions.jsonl").write_text(same, encoding="utf-8")
    metrics = ["BLEU-1", "BLEU-4", "CIDEr", "StyleCIDEr", "OnlyStyle"]
    text = scoring.score(shared, tmp_path, tmp_path, metrics, Resampling(samples=100), quick=True)
    assert "\n\nThis quick run is too short to decide the claim" in text
    assert text.count("| too short to decide |") == len(scoring.CLAIMS)


def test_seeds_that_a_captioner_does_not_have_are_left_out(captions, tmp_path):
    lines = (captions / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    more = [json.dumps(json.loads(line) | {"seed": 1}) for line in lines if '"updown"' in line]
    (tmp_path / "captions.jsonl").write_text("\n".join([*lines, *more]), encoding="utf-8")
    assert {key[2] for one in scoring.read_systems(tmp_path).values() for key in one} == {0}
    (tmp_path / "captions.jsonl").write_text("\n".join(more), encoding="utf-8")
    with pytest.raises(SystemExit, match="no captions of Multi-UPDOWN by beam search"):
        scoring.read_systems(tmp_path)


def test_rows_of_an_image_are_summed_over_styles_and_seeds():
    captions = {"a#humorous#0": "a cat", "b#humorous#0": "a dog", "a#romantic#0": "a cat", "a#humorous#1": "the cat"}
    measured = parse("bleu(n=1)").measure(CaptionSet.of(captions, dict.fromkeys(captions, "a cat")))
    statistic = scoring.by_image(measured)
    rows = np.asarray(measured.rows)
    assert statistic.rows.tolist() == [(rows[0] + rows[2] + rows[3]).tolist(), rows[1].tolist()]
    assert statistic.value == measured.corpus
    # Precision of words: seed 0 has 2 + 1 + 2 of 6, seed 1 has 1 of 2.
    assert scoring.by_seed(measured) == pytest.approx([5 / 6, 1 / 2])


def test_every_paper_has_its_command():
    done = subprocess.run(
        [sys.executable, "-m", "lab.reproductions", "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "expected one of onlystyle, umic, specs, grid, imagine, imagine-texts, relic, judges, questions, chair, stress"
    )
