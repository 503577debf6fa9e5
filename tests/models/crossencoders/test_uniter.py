"""The original layout: a tiny random checkpoint against a plain forward pass written here."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.umic import Umic
from captious.models.crossencoders import load_backbone
from captious.models.uniter import load_uniter

pytestmark = pytest.mark.usefixtures("on_cpu")

WIDTH, HEADS, LAYERS, REGIONS, INNER, ROWS = 16, 4, 2, 12, 20, 24


def layout(words):
    """Names and shapes of the original, written out."""
    norm = {"weight": (WIDTH,), "bias": (WIDTH,)}
    shapes = {
        "uniter.embeddings.word_embeddings.weight": (words, WIDTH),
        "uniter.embeddings.position_embeddings.weight": (ROWS, WIDTH),
        "uniter.embeddings.token_type_embeddings.weight": (2, WIDTH),
        "uniter.img_embeddings.img_linear.weight": (WIDTH, REGIONS),
        "uniter.img_embeddings.img_linear.bias": (WIDTH,),
        "uniter.img_embeddings.pos_linear.weight": (WIDTH, 7),
        "uniter.img_embeddings.pos_linear.bias": (WIDTH,),
        "uniter.img_embeddings.mask_embedding.weight": (2, REGIONS),
        "uniter.pooler.dense.weight": (WIDTH, WIDTH),
        "uniter.pooler.dense.bias": (WIDTH,),
        "rank_output.weight": (1, WIDTH),
        "rank_output.bias": (1,),
    }
    norms = ["uniter.embeddings.LayerNorm"]
    norms += [f"uniter.img_embeddings.{name}" for name in ("img_layer_norm", "pos_layer_norm", "LayerNorm")]
    for number in range(LAYERS):
        layer = f"uniter.encoder.layer.{number}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= {f"{layer}.{name}.weight": (WIDTH, WIDTH), f"{layer}.{name}.bias": (WIDTH,)}
        shapes |= {f"{layer}.intermediate.dense.weight": (INNER, WIDTH), f"{layer}.intermediate.dense.bias": (INNER,)}
        shapes |= {f"{layer}.output.dense.weight": (WIDTH, INNER), f"{layer}.output.dense.bias": (WIDTH,)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    return shapes | {f"{name}.{part}": shape for name in norms for part, shape in norm.items()}


@pytest.fixture
def checkpoint(tiny, tmp_path):
    """A folder as a user of the original has it: config.json, vocab.txt, one .pt file."""
    folder = tmp_path / "uniter"
    folder.mkdir()
    rng = np.random.default_rng(3)
    arrays = {key: rng.normal(0, 0.5, shape).astype(np.float32) for key, shape in layout(len(tiny.WORDS)).items()}
    torch.save({key: torch.from_numpy(one) for key, one in arrays.items()}, folder / "umic.pt")
    config = {
        "vocab_size": len(tiny.WORDS), "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "intermediate_size": INNER, "hidden_act": "gelu", "max_position_embeddings": ROWS, "type_vocab_size": 2,
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(tiny.WORDS) + "\n")
    return folder, arrays


@pytest.fixture
def regions(tmp_path):
    """Region files of two images: one with geometry of six numbers, one of seven."""
    folder = tmp_path / "regions"
    folder.mkdir()
    rng = np.random.default_rng(4)
    for name, count, sure in (("1", 14, 12), ("2", 30, 5)):
        boxes = rng.random((count, 6)).astype(np.float32)
        if name == "2":
            boxes = np.concatenate([boxes, boxes[:, 4:5] * boxes[:, 5:6]], axis=1)
        conf = np.where(np.arange(count) < sure, 0.9, 0.1)
        np.savez(folder / f"{name}.npz", features=rng.normal(size=(count, REGIONS)), norm_bb=boxes, conf=conf)
    return folder


def by_hand(arrays, ids, features, boxes):
    """The forward pass of one caption and one image in NumPy, as UNITER's paper and code have it."""
    import math

    def norm(states, name):
        mean, spread = states.mean(-1, keepdims=True), states.var(-1, keepdims=True)
        return (states - mean) / np.sqrt(spread + 1e-12) * arrays[f"{name}.weight"] + arrays[f"{name}.bias"]

    def linear(states, name):
        return states @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"]

    erf = np.vectorize(math.erf)
    words, places, types = (
        arrays[f"uniter.embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    text = norm(words[ids] + places[: len(ids)] + types[0], "uniter.embeddings.LayerNorm")
    image = "uniter.img_embeddings"
    seen = norm(linear(features, f"{image}.img_linear"), f"{image}.img_layer_norm")
    seen = seen + norm(linear(boxes, f"{image}.pos_linear"), f"{image}.pos_layer_norm") + types[1]
    states = np.concatenate([text, norm(seen, f"{image}.LayerNorm")]).astype(np.float64)
    for number in range(LAYERS):
        layer = f"uniter.encoder.layer.{number}"
        query, key, value = (
            linear(states, f"{layer}.attention.self.{name}").reshape(len(states), HEADS, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        weights = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(WIDTH / HEADS))
        weights /= weights.sum(-1, keepdims=True)
        mixed = (weights @ value).transpose(1, 0, 2).reshape(len(states), WIDTH)
        states = norm(states + linear(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        inner = linear(states, f"{layer}.intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        states = norm(states + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    pooled = np.tanh(linear(states[0], "uniter.pooler.dense"))
    return float(linear(pooled, "rank_output")[0])


def test_scores_are_those_of_a_plain_forward_pass(tiny, checkpoint, regions):
    folder, arrays = checkpoint
    backbone = load_uniter(folder, str(regions))
    texts = ["a red dog runs", "the cats , on the left ."]
    rows = np.arange(2)
    with torch.no_grad():
        pictures = backbone.pictures(["photos/1.jpg", "2.png"])
        found = backbone.logits(pictures.take(rows), backbone.texts(texts).take(rows[:, None]))[:, 0].numpy()
    number = {word: place for place, word in enumerate(tiny.WORDS)}
    written = (["a", "red", "dog", "runs"], ["the", "cat", "##s", ",", "on", "the", "left", "."])
    for place, (name, used) in enumerate((("1", 12), ("2", 10))):  # 12 are certain; of 5 certain ones at least 10
        held = np.load(regions / f"{name}.npz")
        features, boxes = held["features"][:used], held["norm_bb"][:used, :6]
        geometry = np.concatenate([boxes, boxes[:, 4:5] * boxes[:, 5:6]], axis=1)
        ids = [2, *(number[word] for word in written[place]), 3]
        assert found[place] == pytest.approx(by_hand(arrays, ids, features, geometry), abs=1e-4)


def test_the_metric_is_plain_umic_and_says_which_image_lacks_regions(checkpoint, regions, tmp_path):
    folder, _ = checkpoint
    (tmp_path / "saved").mkdir()
    load_uniter(folder, str(regions)).save(tmp_path / "saved")
    metric = Umic(weights=str(tmp_path / "saved"), regions=str(regions))
    assert metric.label == "UMIC" and str(metric).startswith("umic(")
    captions = CaptionSet.of({"1": "a red dog", "2": "a cat", "3": "a dog"}, {"1": [], "2": [], "3": []})
    measured = metric.measure(captions)
    assert np.isfinite(measured.values[:2]).all() and np.isnan(measured.values[2])
    assert "no region features" in measured.reasons["3"]
    backbone = load_backbone(tmp_path / "saved", str(regions))
    assert backbone.fingerprint in str(measured.signature)
    with pytest.raises(InputError, match="needs region features"):
        Umic(weights=str(tmp_path / "saved")).measure(
            CaptionSet.of({"1": "a dog"}, {"1": []}, {"image": ["photos/1.jpg"]})
        )


def test_a_checkpoint_without_rank_head_starts_from_the_positive_row(checkpoint):
    folder, arrays = checkpoint
    itm = torch.randn(2, WIDTH), torch.randn(2)
    state = {key: torch.from_numpy(one) for key, one in arrays.items() if not key.startswith("rank")}
    torch.save(state | {"itm_output.weight": itm[0], "itm_output.bias": itm[1]}, folder / "umic.pt")
    head = load_uniter(folder).module.rank_output
    assert torch.equal(head.weight, itm[0][1:]) and torch.equal(head.bias, itm[1][1:])


def test_other_weights_are_refused_in_one_line(checkpoint):
    folder, arrays = checkpoint
    torch.save({"some.weight": torch.zeros(2)}, folder / "umic.pt")
    with pytest.raises(InputError, match="not the weights of a UNITER"):
        load_uniter(folder)
    state = {key: torch.from_numpy(one) for key, one in arrays.items() if "layer.1." not in key}
    torch.save(state, folder / "umic.pt")
    with pytest.raises(InputError, match=r"16 of \d+ tensors are missing .* uniter\.encoder\.layer\.1\."):
        load_uniter(folder)


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"boxes": np.zeros(3)}, "contains boxes, expected the arrays features and norm_bb"),
        ({"features": np.zeros((3, 5)), "norm_bb": np.zeros((3, 7))}, r"shape \(3, 5\)"),
        ({"features": np.zeros((3, REGIONS)), "norm_bb": np.zeros((2, 7))}, r"shape \(2, 7\)"),
        ({"features": np.zeros((0, REGIONS)), "norm_bb": np.zeros((0, 7))}, "contains no region"),
        ({"features": np.full((3, REGIONS), np.nan), "norm_bb": np.zeros((3, 7))}, "a number that is not finite"),
        ({"features": np.full((3, REGIONS), "a"), "norm_bb": np.zeros((3, 7))}, "a number that is not finite"),
        ({"features": np.zeros((3, REGIONS)), "norm_bb": np.zeros((3, 7)), "conf": np.ones((3, 2))}, "conf of shape"),
    ],
)
def test_bad_region_files_become_faults(arrays, line, checkpoint, tmp_path):
    np.savez(tmp_path / "1.npz", **arrays)
    (tmp_path / "2.npz").write_bytes(b"no archive")
    (tmp_path / "3.npz").write_bytes((tmp_path / "1.npz").read_bytes()[:100])
    with (tmp_path / "4.npz").open("wb") as one:
        np.save(one, np.zeros(3))
    faults = load_uniter(checkpoint[0], str(tmp_path)).pictures(["1.jpg", "2.jpg", "3.jpg", "4.jpg"]).faults
    with pytest.raises(InputError, match=line):
        raise InputError(faults[0])
    assert "is not an .npz file" in faults[1] and "is not an .npz file" in faults[2]
    assert "is not an .npz file of arrays (it is one array without a name)" in faults[3]
