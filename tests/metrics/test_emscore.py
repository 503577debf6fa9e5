"""EMScore: the golden vectors of the authors' function, captious-mini on frames of a clip, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest

import captious
from captious.captions import CaptionSet, VideoData
from captious.errors import InputError
from captious.metrics.clip import emscore
from captious.metrics.clip.emscore import EmScore
from captious.metrics.registry import parse
from captious.models.encoder import Tokens
from captious.models.token_rows import TokenRows
from captious.options import Reading, Resampling, Runtime, using
from captious.text.token_frequencies import TokenFrequency

VALUES = ("fine_p", "fine_r", "fine_f", "coarse", "full_p", "full_r", "full_f")
TARGETS = {"video": "XV", "references": "XX*", "both": "XVX*"}
# Results of golden.json and the options that give them. `unpadded_idf` has the idf table of the code, which counts
# the padding token, on the formulas of the paper: no option asks for that mixture.
RESULTS = {
    "unpadded_uniform": {},
    "unpadded_idf_without_padding_token": {"idf": "refs"},
    "code_batch64_uniform": {"rules": "code"},
    "code_batch3_uniform": {"rules": "code", "batch": 3},
    "code_batch64_idf": {"rules": "code", "idf": "refs"},
    "code_batch3_idf": {"rules": "code", "idf": "refs", "batch": 3},
}


class VectorEncoder:
    """The vectors of emscore_vectors: that of token t at place i is embeddings[t] + positions[i]."""

    name, fingerprint, precision, limit = "vectors", "0123456789ab", "fp32", 24

    def __init__(self, golden, arrays):
        self.ids, self.arrays = golden["token_ids"], arrays
        self.end, self.dimension = golden["end"], arrays["positions"].shape[1]

    def tokenize(self, texts):
        rows = [self.ids[text] for text in texts]
        width = max(map(len, rows), default=0)
        ids = np.array([[*row, *[0] * (width - len(row))] for row in rows], np.int64).reshape(len(rows), width)
        return Tokens(ids, np.array([len(row) for row in rows], np.int64))

    def token_features(self, ids):
        vectors = self.arrays["token_embeddings"][ids] + self.arrays["positions"][: ids.shape[1]]
        after = (ids == self.end).cumsum(axis=1) - (ids == self.end) > 0
        return np.where(after[..., None], 0.0, vectors).astype(np.float32)

    def text_features(self, ids):
        return self.token_features(ids)[np.arange(len(ids)), (ids == self.end).argmax(axis=1)]

    def prepare(self, picture):
        raise AssertionError("the frames are given as vectors")

    def image_features(self, pixels):
        raise AssertionError("the frames are given as vectors")


@pytest.fixture
def golden(shared_data):
    return json.loads((shared_data / "emscore_vectors/golden.json").read_text())


@pytest.fixture
def vectors(golden, shared_data):
    with np.load(shared_data / "emscore_vectors/features.npz") as arrays:
        return VectorEncoder(golden, dict(arrays.items()))


@pytest.fixture
def captions(golden, vectors):
    videos = {name: VideoData(vectors.arrays[f"frames_{name}"], name) for name in golden["videos"]}
    return CaptionSet.of(
        dict(zip(golden["videos"], golden["captions"], strict=True)),
        dict(zip(golden["videos"], golden["references"], strict=True)),
        {"video": list(videos.values())},
    )


@pytest.fixture
def exact(monkeypatch):
    """Vectors of tokens in full precision; the store has half."""

    def get_exact_vectors(encoder, texts):
        tokens = encoder.tokenize(texts)
        rows = [one[:length] for one, length in zip(encoder.token_features(tokens.ids), tokens.lengths, strict=True)]
        unit = [one / np.linalg.norm(one.astype(np.float64), axis=1, keepdims=True) for one in rows]
        starts = np.cumsum(tokens.lengths) - tokens.lengths
        ids = np.concatenate([one[:length] for one, length in zip(tokens.ids, tokens.lengths, strict=True)])
        ends = np.stack([one[-1] for one in unit])
        return TokenRows(np.concatenate(unit), ids, starts, tokens.lengths, np.arange(len(texts)), tokens.lengths, ends)

    monkeypatch.setattr(emscore, "get_token_vectors", get_exact_vectors)


@pytest.mark.shared_data
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("against", TARGETS)
@pytest.mark.parametrize("value", VALUES)
def test_the_authors_numbers(golden, vectors, captions, exact, result, against, value):
    metric = EmScore(vectors, against=against, value=value, **RESULTS[result])
    expected = golden["results"][result][TARGETS[against]][value]
    # Six decimals are stored, and vectors of the frames are in single precision.
    assert metric.measure(captions).values == pytest.approx(expected, abs=1e-6)


@pytest.mark.shared_data
@pytest.mark.parametrize("options", RESULTS.values(), ids=RESULTS)
def test_half_precision_moves_no_value_by_more_than_two_in_ten_thousand(golden, vectors, captions, options):
    (name,) = [name for name, own in RESULTS.items() if own == options]
    for value in VALUES:
        measured = EmScore(vectors, value=value, **options).measure(captions)
        assert measured.values == pytest.approx(golden["results"][name]["XVX*"][value], abs=2e-4)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("rules", "table", "end"), [("paper", "idf_without_padding", 1.857378), ("code", "idf_code", 1.817)]
)
def test_the_idf_of_tokens(golden, vectors, captions, rules, table, end):
    metric = EmScore(vectors, idf="refs", rules=rules)
    matcher = emscore.Matcher(metric, captions, vectors, metric.prepare(captions))
    known = np.array([int(key) for key in golden[table] if int(key) != golden["end"]])
    expected = [golden[table][str(key)] for key in known]
    assert matcher._weigh_ids(known) == pytest.approx(expected, abs=1e-7)
    assert matcher._weigh_end() == pytest.approx(end, abs=1e-6)
    assert matcher.corpus.compute_idf(np.array([50])) == pytest.approx(golden["idf_unseen"])


# captious-mini on the six frames of scenes.mp4


@pytest.fixture
def scenes(shared_data):
    """Golden numbers of three captions on the frames of one clip, and the captions with that folder of frames."""
    golden = json.loads((shared_data / "tiny_clips/emscore_mini.json").read_text())
    folder = str(shared_data / "tiny_clips/frames/scenes")
    rows = [
        {"id": f"c{number}", "caption": text, "references": references, "video": folder}
        for number, (text, references) in enumerate(zip(golden["captions"], golden["references"], strict=True))
    ]
    return golden, captious.read(rows)


@pytest.mark.shared_data
@pytest.mark.parametrize(("idf", "weights"), [("none", "uniform"), ("refs", "idf=refs")])
def test_captious_mini_on_frames(scenes, idf, weights):
    golden, captions = scenes
    results = [one for one in golden["results"] if one["weights"] == weights]
    for against, target in (("video", "XV"), ("references", "XX")):
        for value in ("fine_p", "fine_r", "fine_f", "coarse", "full_f"):
            measured = EmScore("captious-mini", against=against, value=value, idf=idf).measure(captions)
            assert measured.values == pytest.approx([one[target][value] for one in results], abs=2e-4)
    measured = EmScore("captious-mini", idf=idf).measure(captions)
    assert measured.values == pytest.approx([one["both_full_f"] for one in results], abs=2e-4)


@pytest.mark.shared_data
@pytest.mark.parametrize("idf", ["none", "refs"])
def test_order_and_batch_do_not_matter(scenes, idf):
    _, captions = scenes
    metric = EmScore("captious-mini", idf=idf)
    expected = metric.measure(captions).items
    order = [2, 0, 1]
    turned = metric.measure(captions.take(order))
    assert turned.items == pytest.approx(dict(expected), abs=1e-9)
    with using(Runtime(device="cpu", batch=1, cache=False)):
        assert metric.measure(replace(captions)).items == pytest.approx(dict(expected), abs=1e-6)


@pytest.mark.shared_data
def test_an_explanation_names_frames_and_adds_up(scenes):
    _, captions = scenes
    explanation = EmScore("captious-mini", against="video").explain(captions, "c1")
    parts = {part.name: part for part in explanation.parts}
    assert sum(part.adds for part in explanation.parts) == pytest.approx(explanation.value, abs=1e-12)
    assert {f"frame {number}" for number in range(6)} <= set(parts)
    # scenes.mp4 shows three drawings of four frames; frames 2 and 3 of the six, from 0, are the cat on the street.
    assert parts["street"].details["nearest"] in ("frame 2", "frame 3")
    assert parts["frame 2"].adds > parts["frame 0"].adds
    (table,) = explanation.breakdown.tables
    assert table.title == "what each frame adds" and len(table.rows) == 6


@pytest.mark.shared_data
def test_an_idf_corpus_by_name(scenes, run, tmp_path):
    _, captions = scenes
    rows = [{"id": key, "references": list(own)} for key, own in zip(captions.ids, captions.references, strict=True)]
    (tmp_path / "refs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = run(
        "make", "idf", tmp_path / "refs.jsonl", "--tokens", "captious-mini", "--out", tmp_path / "x.tokens"
    )
    assert code == 0, err
    assert "6 captions" in out
    named = EmScore("captious-mini", idf=str(tmp_path / "x.tokens")).measure(captions)
    assert named.values == pytest.approx(EmScore("captious-mini", idf="refs").measure(captions).values, abs=1e-12)
    assert f"|idf:{tmp_path / 'x.tokens'}:6:" in str(named.signature)


def test_an_idf_corpus_of_other_tokens_is_refused(colors, tmp_path):
    TokenFrequency.of("tokenizer of others", np.array([1, 2]), np.array([2])).save(tmp_path / "other.tokens")
    captions = CaptionSet.of({"1": "a dog"}, {"1": ["a dog"]})
    with pytest.raises(InputError, match="has tokens of tokenizer of others, these weights have those of colors#"):
        EmScore("colors", against="references", idf=str(tmp_path / "other.tokens")).measure(captions)
    with pytest.raises(InputError, match="no idf corpus 'nowhere' of tokens: expected none, refs, candidates"):
        EmScore("colors", against="references", idf="nowhere").measure(captions)


# Worked by hand with the `ColorEncoder`: a token is (red, green, blue, other) counted up to it, start is (1, 1, 1, 1).


def make_set(caption, references=(), frames=()):
    """One item whose frames are given as vectors."""
    columns = {"video": [VideoData(np.array(frames, np.float32), "v")]} if len(frames) else {}
    return CaptionSet.of({"1": caption}, {"1": list(references)} if references else None, columns)


def test_by_hand(colors):
    # "red": start (½, ½, ½, ½), red (1, 0, 0, 0), end the same. Frames red and blue.
    captions = make_set("red", frames=[[1, 0, 0, 0], [0, 0, 1, 0]])
    root = np.sqrt(0.5)
    expected = {
        "fine_p": (0.5 + 1 + 1) / 3,
        "fine_r": (1 + 0.5) / 2,  # the frame that is blue is nearest to the start token
        "coarse": root,  # v̄ = (½, 0, ½, 0)
        "full_p": (root + (0.5 + 1 + 1) / 3) / 2,
    }
    for value, number in expected.items():
        metric = EmScore("colors", against="video", value=value)
        assert metric.measure(captions).values == pytest.approx([number], abs=1e-4)
    # Without the start token the blue frame has nothing near, and only one token is left without the end token too.
    for special, r in (("both", 0.75), ("end", 0.5), ("none", 0.5)):
        metric = EmScore("colors", against="video", value="fine_r", special=special)
        assert metric.measure(captions).values == pytest.approx([r], abs=1e-4)
    quarter = EmScore("colors", against="video", value="full_p", coarse=0.25).measure(captions)
    assert quarter.values == pytest.approx([0.25 * root + 0.75 * 2.5 / 3], abs=1e-4)


def test_a_negative_p_has_no_harmonic_mean(colors):
    # Every token of "red" points away from both frames.
    captions = make_set("red", frames=[[-1, 0, 0, 0], [-1, -1, 0, 0]])
    measured = EmScore("colors", against="video", value="fine_f").measure(captions)
    assert measured.values.tolist() == [0.0] and "|nonpositive:1|" in str(measured.signature)
    # P = (−½ − √½ − √½) / 3, the nearest to each; R = (−½ − √½) / 2; of two negative numbers the formula is negative.
    p, r = (-0.5 - 2 * np.sqrt(0.5)) / 3, (-0.5 - np.sqrt(0.5)) / 2
    code = EmScore("colors", against="video", value="fine_f", rules="code", batch=1).measure(captions)
    assert code.values == pytest.approx([2 * p * r / (p + r)], abs=1e-4)
    assert "nonpositive" not in str(code.signature)
    assert EmScore("colors", against="video", value="fine_p").measure(captions).values == pytest.approx([p], abs=1e-4)


def test_a_single_reference_has_no_idf(colors):
    measured = EmScore("colors", against="references", idf="refs").measure(make_set("red dog", ["red dog"]))
    assert dict(measured.reasons) == {"1": "all weights are 0"} and np.isnan(measured.values).all()


def test_the_best_of_each_part_may_come_from_several_references(colors):
    # P is best against the second reference, R against the first: every token of "red" is near one of "red dog cat".
    captions = make_set("red", ["red dog cat ball", "red"])
    both, p = (
        EmScore("colors", against="references", value="fine_p"),
        EmScore("colors", against="references", value="fine_r"),
    )
    assert both.measure(captions).values == pytest.approx([1.0]) and p.measure(captions).values == pytest.approx([1.0])
    alone = make_set("red", ["red dog cat ball"])
    assert p.measure(alone).values[0] < 1


@pytest.mark.parametrize(
    ("references", "frames", "label"),
    [
        (["a dog"], [[1, 0, 0, 0]], "EMScore(X,V,X*)"),
        ([], [[1, 0, 0, 0]], "EMScore(X,V)"),
        (["a dog"], [], "EMScore(X,X*)"),
    ],
)
def test_it_compares_with_what_there_is(colors, references, frames, label):
    report = captious.evaluate(
        make_set("a red dog", references, frames), "emscore(colors)", resampling=Resampling(samples=0)
    )
    (measured,) = report.measurements.values()
    assert measured.metric.label == label
    assert parse(str(measured.metric)) == measured.metric


def test_a_single_frame_is_an_image(colors, tmp_path):
    from PIL import Image

    Image.new("RGB", (8, 6), (255, 0, 0)).save(tmp_path / "red.png")
    captions = {"1": "a red dog"}
    image = captious.evaluate(captions, "emscore(colors)", images={"1": str(tmp_path / "red.png")})
    video = captious.evaluate(captions, "emscore(colors)", reading=Reading(videos={"1": str(tmp_path)}))
    assert next(iter(image)).corpus == next(iter(video)).corpus
    assert "|frames:uniform:10|" in str(next(iter(video)).signature)


def test_what_is_refused(colors):
    with pytest.raises(InputError, match="only rules=code pads batches"):
        EmScore(batch=32)
    with pytest.raises(InputError, match=r"coarse=1.5\): expected a weight from 0 to 1"):
        EmScore(coarse=1.5)
    with pytest.raises(InputError, match="scores the captions of a whole file in batches"):
        captious.Scorer("emscore(colors,against=references,rules=code)", references={"1": ["a dog"]})


def test_an_encoder_without_vectors_of_tokens(monkeypatch):
    from captious.models import loading

    class Blind:
        name, fingerprint, precision, limit, dimension = "blind", "00", "fp32", 77, 4

        def tokenize(self, texts):
            return Tokens(np.zeros((len(texts), 2), np.int64), np.full(len(texts), 2))

    monkeypatch.setattr(loading, "load", lambda weights, **options: Blind())
    with pytest.raises(InputError, match=r"encoder blind: has no vectors of tokens \(token_features\)"):
        EmScore("blind", against="references").measure(make_set("red", ["red"]))


@pytest.mark.parametrize("metric", ["emscore(captious-mini)", "emscore(captious-mini,against=video,idf=candidates)"])
def test_shards_have_the_values_of_the_file(tmp_path, metric):
    from PIL import Image

    for number, color in enumerate(((255, 0, 0), (0, 200, 0), (0, 0, 255), (250, 250, 0))):
        (tmp_path / f"clips/v{number}").mkdir(parents=True)
        Image.new("RGB", (20, 20), color).save(tmp_path / f"clips/v{number}/0.png")
    texts = ["a red cat", "two dogs in a green garden", "a blue bird", "a bus"]
    rows = [
        {"id": f"v{number}", "caption": text, "references": [text[2:], "a thing"], "video": f"v{number}"}
        for number, text in enumerate(texts)
    ]
    (tmp_path / "shards").mkdir()
    for shard, part in enumerate((rows[:1], rows[1:])):
        (tmp_path / f"shards/{shard}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    options = {"reading": Reading(videos=str(tmp_path / "clips")), "resampling": Resampling(samples=0)}
    (whole,) = captious.evaluate(rows, metric, **options)
    report = captious.score_shards(str(tmp_path / "shards" / "*.jsonl"), metric, out=tmp_path / "run", **options)
    (stored,) = report.measurements.values()
    assert stored.corpus == pytest.approx(whole.corpus, abs=1e-6)
    assert stored.metric.label == whole.metric.label
    assert stored.signature.settings == whole.signature.settings
