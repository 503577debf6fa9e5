"""BERTScore on a tiny random BERT: values by hand, idf, references, limits, shards.

With a real model (all-MiniLM-L6-v2, layer 5, 40 Flickr8k captions, one to five references, with and without idf) P, R
and F1 were compared with those of the package bert-score 0.3.13: they differ by at most 1.2e-7.
"""

import math
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from captious import CaptionSet
from captious.errors import InputError
from captious.metrics.bertscore import BertScore
from captious.metrics.registry import parse
from captious.models.language import load_contextual
from captious.options import Runtime, using

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS += ["a", "dog", "cat", "red", "runs", "sits", "on", "the", "mat", "two", "dogs"]
CANDIDATES = {"1": "a dog runs", "2": "the red cat sits on a mat", "3": "two dogs"}
REFERENCES = {"1": ("the dog runs on", "two dogs"), "2": ("a cat sits",), "3": ("two dogs", "a red mat", "cat")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("bert")
    (place / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=10, **shape)
    transformers.BertModel(config).save_pretrained(place)
    transformers.BertTokenizerFast(str(place / "vocab.txt"), model_max_length=10).save_pretrained(place)
    return place


@pytest.fixture(autouse=True)
def on_cpu():
    with using(Runtime(device="cpu")):
        yield


def the_set(candidates=CANDIDATES, references=REFERENCES):
    return CaptionSet.of(candidates, {key: references[key] for key in candidates})


@cache
def bert(folder):
    return transformers.BertModel.from_pretrained(folder).eval()


@cache
def states(folder, text, layer):
    model = bert(folder)
    ids = [2, *(WORDS.index(word) for word in text.split()), 3]
    with torch.no_grad():
        found = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0].numpy()
    return ids, found / np.linalg.norm(found, axis=1, keepdims=True)


def by_hand(folder, layer, idf=False):
    """P, R and F1 of each item, in plain loops."""
    documents = [text for texts in REFERENCES.values() for text in texts]

    def weight(token):
        if not idf:
            return 0.0 if token in (2, 3) else 1.0
        among = sum(token in states(folder, text, layer)[0] for text in documents)
        return math.log((len(documents) + 1) / (among + 1))

    rows = []
    for key, candidate in CANDIDATES.items():
        found = []
        for reference in REFERENCES[key]:
            (ids, x), (others, y) = states(folder, candidate, layer), states(folder, reference, layer)
            cosines = x @ y.T
            one = sum(weight(token) * cosines[place].max() for place, token in enumerate(ids)) / sum(map(weight, ids))
            other = sum(weight(token) * cosines[:, place].max() for place, token in enumerate(others))
            other /= sum(map(weight, others))
            found.append((one, other, 2 * one * other / (one + other)))
        rows.append(np.max(found, axis=0))
    return np.array(rows)


@pytest.mark.parametrize(("layer", "idf"), [(1, "none"), (3, "none"), (2, "refs")])
def test_values_are_those_of_plain_loops(folder, layer, idf):
    wanted = by_hand(folder, layer, idf == "refs")
    for column, value in enumerate(("precision", "recall", "f1")):
        metric = BertScore(weights=str(folder), layer=layer, value=value, idf=idf)
        found = metric.measure(the_set()).rows
        assert found[:, 0] == pytest.approx(wanted[:, column], abs=1e-6) and found[:, 1].tolist() == [1, 1, 1]


def test_a_caption_that_is_a_reference_has_one_and_the_baseline_stretches(folder):
    plain, stretched = (
        BertScore(weights=str(folder), baseline=baseline).measure(the_set()).rows[:, 0] for baseline in (0.0, 0.5)
    )
    assert plain[2] == pytest.approx(1, abs=1e-6)
    assert stretched == pytest.approx((plain - 0.5) / 0.5, abs=1e-9)


def test_batches_and_blocks_change_nothing(folder, monkeypatch):
    whole = BertScore(weights=str(folder)).measure(the_set()).rows
    monkeypatch.setattr("captious.metrics.bertscore.BLOCK", 1)
    monkeypatch.setattr("captious.metrics.bertscore.PAIRS", 1)
    with using(Runtime(device="cpu", batch=1)):
        assert BertScore(weights=str(folder)).measure(the_set()).rows == pytest.approx(whole, abs=1e-6)


def test_texts_that_say_nothing_have_no_value(folder):
    captions = the_set({"1": "a dog", "2": " ", "3": "a cat"}, {"1": ("a dog", ""), "2": ("a cat",), "3": ("", " ")})
    found = BertScore(weights=str(folder)).measure(captions)
    assert found.reasons == {"2": "empty caption", "3": "all references are empty"}
    assert np.isnan(found.rows[1:, 0]).all() and found.rows[0, 0] == pytest.approx(1, abs=1e-6)


def test_a_text_beyond_the_limit_is_cut_before_its_end_and_counted(folder):
    model = load_contextual(str(folder))
    ids, lengths = model.tokens(["a dog " * 6, "a dog"])
    assert lengths.tolist() == [14, 4] and len(ids[0]) == 10 and ids[0][-1] == 3
    captions = the_set({"1": "a dog " * 6}, {"1": ("a dog",)})
    metric = BertScore(weights=str(folder))
    assert "truncated:1" in str(metric.measure(captions).signature)
    assert "1 caption is longer than the encoder's 10 tokens" in metric.measure(captions).warnings[0]


def test_shards_count_the_references_of_all(folder):
    metric = BertScore(weights=str(folder), idf="refs")
    whole = metric.measure(the_set())
    parts = [the_set({key: CANDIDATES[key]}) for key in CANDIDATES]
    first, *rest = map(metric.prepare, parts)
    for state in rest:
        first = first.merge(state)
    merged, *others = (metric.measure(part, first) for part in parts)
    for other in others:
        merged = merged.merge(other)
    assert merged.values == pytest.approx(whole.values, abs=1e-6) and str(merged.signature) == str(whole.signature)
    with pytest.raises(InputError, match="cannot merge shards scored by"):
        first.merge(BertScore(weights=str(folder), layer=1, idf="refs").prepare(parts[0]))


def test_layers_behind_the_chosen_one_are_not_computed(folder):
    assert len(load_contextual(str(folder), 2).module.encoder.layer) == 2
    assert load_contextual(str(folder), 2).fingerprint != load_contextual(str(folder), 3).fingerprint


def test_the_recommended_layer_is_taken_for_a_known_name(folder, tmp_path):
    known = tmp_path / "distilbert-base-uncased"
    known.symlink_to(folder)
    with pytest.raises(InputError, match=r"layer 5: .* has 3 layers, expected 1 to 3"):
        load_contextual(str(known))
    assert load_contextual(str(folder)).layer == 3


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("bertscore(layer=9,weights={folder})", "layer 9: .* has 3 layers"),
        ("bertscore(baseline=1)", "baseline 1: expected less than 1"),
        ("bertscore(weights=nowhere)", "no such file or folder"),
        ("bertscore(weights={folder}/..)", "is not a language model with its tokenizer"),
    ],
)
def test_what_cannot_be_is_one_line(folder, written, says):
    with pytest.raises(InputError, match=says) as caught:
        parse(written.format(folder=folder)).measure(the_set())
    assert "\n" not in str(caught.value)


def test_the_command_scores_with_it(folder, tmp_path):
    from captious.cli.app import build_app

    (tmp_path / "p.csv").write_text("id,caption\n1,a dog runs\n2,a cat\n")
    (tmp_path / "r.json").write_text('{"1": ["the dog runs on"], "2": ["a cat"]}')
    given = ["score", str(tmp_path / "p.csv"), "-r", str(tmp_path / "r.json"), "-m", f"bertscore(weights={folder})"]
    done = CliRunner().invoke(build_app(), [*given, "--device", "cpu"])
    assert done.exit_code == 0 and "BERTScore" in done.output, done.output
