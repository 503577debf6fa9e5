"""The fusion: it starts as the encoder's cosine, its states are the encoder's, its files are checked."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from captious.errors import InputError
from captious.models.crossencoders import load_backbone, read_marker, score_pairs
from captious.models.features import cosines, image_features, text_features
from captious.models.fusion import FusionConfig, FusionModule, load_fusion, make_fusion
from captious.models.hidden_states import HiddenStates, get_image_states, get_text_states, load_frozen_encoder
from captious.options import Runtime, using

pytestmark = pytest.mark.usefixtures("on_cpu")
MINI = "captious-mini"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Six drawn scenes: paths and captions."""
    from lab.toy import make, write

    sample = make(6, seed=9)
    folder = write(sample, tmp_path_factory.mktemp("scenes") / "sample")
    made = list(sample.scenes())
    return [str(folder / "images" / f"{scene.id}.png") for scene in made], [
        sample.references_of(scene)[0] for scene in made
    ]


def logits(backbone, paths, texts):
    rows = np.arange(len(paths))
    with torch.inference_mode():
        pictures, captions = backbone.pictures(paths), backbone.texts(texts)
        return backbone.logits(pictures.take(rows), captions.take(rows[:, None]))[:, 0].numpy()


def nudged(backbone, seed=1):
    """As if it had been trained."""
    torch.manual_seed(seed)
    torch.nn.init.normal_(backbone.module.head.weight)
    return backbone


def test_before_training_the_logit_is_a_line_through_the_cosine(scenes):
    paths, texts = scenes
    backbone = make_fusion(MINI, width=32)
    backbone.module.calibrate(torch.tensor([0.1, 0.3, 0.5]))
    expected = cosines(
        image_features(load_frozen_encoder(MINI), paths), text_features(load_frozen_encoder(MINI), texts)
    )
    slope, shift = float(backbone.module.slope.detach()), float(backbone.module.shift.detach())
    assert slope == pytest.approx(1.5 / 0.2)
    np.testing.assert_allclose(logits(backbone, paths, texts), slope * expected + shift, atol=1e-5)


def test_states_are_the_encoders_last_hidden_states(scenes):
    paths, texts = scenes
    encoder = load_frozen_encoder(MINI)
    found = get_image_states(encoder, [*paths, paths[0], "nowhere.png"])
    assert "nowhere.png: no such image" in found.faults[7] and found.index[6] == found.index[0]
    from captious.io.images import open_image

    pixels = encoder.pixels_to_tensor(np.stack([encoder.prepare(open_image(path)) for path in paths]))
    with torch.inference_mode():
        expected = encoder.module.vision_model(pixel_values=pixels).last_hidden_state.numpy()
    np.testing.assert_allclose(found.take(np.arange(6)).astype(np.float32), expected, atol=0.05, rtol=2e-3)
    for keep in (False, True, True):  # computed, computed and written, read again
        read = get_text_states(encoder, [*texts, texts[2]], keep)
        one = encoder.tokenize(texts[2:3])
        with torch.inference_mode():
            hidden = encoder.module.text_model(input_ids=torch.from_numpy(one.ids)).last_hidden_state[0].numpy()
        start, count = (part[read.index[6]] for part in (read.starts, read.counts))
        assert count == one.lengths[0] and len(read.vectors) == 6
        np.testing.assert_allclose(read.flat[start : start + count].astype(np.float32), hidden, atol=0.02, rtol=2e-3)
        vectors = text_features(encoder, texts)
        np.testing.assert_allclose(read.vectors, vectors.rows[vectors.index], atol=1e-6)


def test_one_pass_gives_the_vector_that_clipscore_uses(scenes):
    encoder = load_frozen_encoder(MINI)
    both = HiddenStates(encoder)
    pixels = np.random.default_rng(0).integers(0, 255, (2, 96, 96, 3), dtype=np.uint8)
    rows = both.image_features(pixels)
    np.testing.assert_allclose(rows[:, -encoder.dimension :], encoder.image_features(pixels), atol=1e-6)
    assert both.image_shape == (65, 160) and rows.shape == (2, both.dimension)


def test_states_of_a_dual_encoder(tmp_path, scenes):
    transformers = pytest.importorskip("transformers")
    from captious.models.dual import DualHeads as Heads
    from captious.models.dual import new_dual

    paths, texts = scenes
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = transformers.Dinov2Model(transformers.Dinov2Config(**size, mlp_ratio=2, image_size=140, patch_size=14))
    vision.save_pretrained(tmp_path / "vision")
    from transformers import BertConfig, BertModel

    BertModel(BertConfig(**size, intermediate_size=32, vocab_size=1000, max_position_embeddings=40)).save_pretrained(
        tmp_path / "text"
    )
    from captious.models.mini import WordTokenizer

    WordTokenizer.from_texts(texts, 40).save(tmp_path / "text")
    encoder = new_dual(str(tmp_path / "vision"), str(tmp_path / "text"), Heads(dimension=8, hidden=16), device="cpu")
    found = get_image_states(encoder, paths)
    assert found.rows.shape == (6, 1 + 5 * 5, 16)  # a grid of 10 x 10 averaged by 2 x 2, behind the class token
    with using(Runtime(device="cpu", cache=False)):
        np.testing.assert_allclose(image_features(encoder, paths).rows, found.vectors.rows, atol=1e-6)
    read = get_text_states(encoder, texts)
    with using(Runtime(device="cpu", batch=4, cache=False)):
        expected = text_features(encoder, texts)
    np.testing.assert_allclose(read.vectors, expected.rows[expected.index], atol=1e-6)


def test_a_caption_is_judged_alike_alone_and_beside_longer_ones(scenes):
    paths, texts = scenes
    backbone = nudged(make_fusion(MINI, width=32))
    backbone.module.eval()
    together = logits(backbone, paths, texts)
    alone = np.concatenate([logits(backbone, [path], [text]) for path, text in zip(paths, texts, strict=True)])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    rows = np.arange(6)
    with torch.inference_mode():
        many = backbone.logits(
            backbone.pictures(paths).take(rows), backbone.texts(texts).take(np.stack([rows, rows[::-1]], axis=1))
        )
    np.testing.assert_allclose(many[:, 0].numpy(), alone, atol=1e-5)


def test_saved_and_loaded_it_scores_the_same(scenes, tmp_path):
    paths, texts = scenes
    backbone = nudged(make_fusion(MINI, width=32, prefix="A photo depicts "))
    before = score_pairs(backbone, paths, texts)
    backbone.save(tmp_path)
    again = load_backbone(tmp_path)
    assert again.fingerprint == backbone.fingerprint and read_marker(tmp_path)["called"] == "umic-fusion"
    with using(Runtime(device="cpu", batch=4, cache=False)):
        np.testing.assert_array_equal(score_pairs(again, paths, texts).logits, before.logits)


def test_scores_are_cached_by_weights_and_content(scenes, tmp_path, monkeypatch):
    paths, texts = scenes
    backbone = nudged(make_fusion(MINI, width=32))
    first = score_pairs(backbone, paths, texts)
    monkeypatch.setattr(type(backbone), "pictures", None)  # whoever calls it now fails
    np.testing.assert_allclose(score_pairs(backbone, paths[::-1], texts[::-1]).logits, first.logits[::-1], atol=1e-7)
    monkeypatch.undo()
    other = score_pairs(nudged(backbone, seed=2), paths, texts)
    assert np.abs(other.logits - first.logits).min() > 1e-6


def test_weights_of_another_shape_or_encoder_are_refused(scenes, tmp_path):
    backbone = make_fusion(MINI, width=32)
    backbone.save(tmp_path)
    record = json.loads((tmp_path / "captious-umic.json").read_text())
    record["shape"]["width"] = 64
    with pytest.raises(InputError, match="weights of another model"):
        load_fusion(tmp_path, record)
    record["shape"]["width"] = 32
    record["encoder"]["weights"] = "captious-mini-specs"
    with pytest.raises(InputError, match=r"was trained on the encoder captious-mini#\w+, but captious-mini-specs is"):
        load_fusion(tmp_path, record)
    record["encoder"] |= {"weights": MINI, "precision": "bf16"}  # fingerprints cannot be compared, sizes can
    record["shape"]["patches"] = 50
    with pytest.raises(InputError, match=r"an encoder captious-mini with states of \(50, .*, but captious-mini has"):
        load_fusion(tmp_path, record)


def test_a_folder_that_does_not_hold_what_its_marker_says_is_refused(tmp_path):
    make_fusion(MINI, width=8).save(tmp_path)
    marker = tmp_path / "captious-umic.json"
    record = json.loads(marker.read_text())
    marker.write_text(json.dumps({**record, "backbone": "vilt"}))
    with pytest.raises(InputError, match=r"has no folder model, but captious-umic\.json says that it is umic-vilt"):
        load_backbone(tmp_path)
    marker.write_text(json.dumps({key: value for key, value in record.items() if key != "shape"}))
    with pytest.raises(InputError, match=r"captious-umic\.json: has no shape"):
        load_backbone(tmp_path)


def test_a_prefix_is_put_before_captions_and_makes_another_model(scenes):
    paths, texts = scenes
    plain, told = make_fusion(MINI, width=8), make_fusion(MINI, width=8, prefix="A drawing of ")
    assert plain.fingerprint != told.fingerprint
    expected = logits(plain, paths, [f"A drawing of {text}" for text in texts])
    np.testing.assert_allclose(logits(told, paths, texts), expected, atol=1e-6)
    assert np.abs(logits(plain, paths, texts) - expected).max() > 1e-4


def test_scores_of_images_turned_upright_are_kept_apart(scenes, tmp_path):
    from PIL import Image

    picture = Image.open(scenes[0][0])
    turned = Image.Exif()
    turned[0x0112] = 6
    path = tmp_path / "turned.jpg"
    picture.convert("RGB").save(path, exif=turned)
    backbone, found = make_fusion(MINI, width=8), []
    for upright in (False, True, False, True):  # the last two come from the cache
        with using(Runtime(device="cpu", upright=upright)):
            found.append(score_pairs(backbone, [str(path)], [scenes[1][0]]).logits[0])
    assert found[:2] == found[2:] and abs(found[0] - found[1]) > 1e-5


def test_an_encoder_is_looked_for_beside_the_model_and_beside_its_best_only(scenes, tmp_path):
    (tmp_path / "encoder").mkdir()  # not one: to look into it is an error
    for name in ("best", "mine"):
        (tmp_path / name).mkdir()
        make_fusion(MINI, width=8).save(tmp_path / name)
    record = json.loads((tmp_path / "mine" / "captious-umic.json").read_text())
    assert load_fusion(tmp_path / "mine", record).weights == MINI
    with pytest.raises(InputError, match="its encoder captious-mini is not available"):
        load_fusion(tmp_path / "best", record)


def test_the_residual_learns_though_its_head_starts_at_zero():
    torch.manual_seed(0)
    module = FusionModule(FusionConfig(patches=5, image_width=6, text_width=7, dimension=4, tokens=9, width=8, heads=2))
    batch = (torch.randn(2, 5, 6), torch.randn(2, 4), torch.randn(2, 3, 4, 7), torch.ones(2, 3, 4, dtype=torch.bool),
             torch.randn(2, 3, 4))  # fmt: skip
    module(*batch).sum().backward()
    assert module.head.weight.grad.abs().max() > 0


def test_the_last_layer_computes_what_is_read_and_nothing_else_changes():
    torch.manual_seed(0)
    module = FusionModule(FusionConfig(5, 12, 10, 6, 8, width=16, layers=2, heads=2)).eval()
    torch.nn.init.normal_(module.head.weight)
    inside = torch.arange(4) < torch.tensor([[4, 2, 3], [1, 4, 2]])[..., None]
    given = torch.randn(2, 5, 12), torch.randn(2, 6), torch.randn(2, 3, 4, 10), inside, torch.randn(2, 3, 6)
    rows = []
    for layer in module.layers:
        layer.register_forward_hook(lambda layer, args, found: rows.append(found.shape[2]))
    short = module(*given)
    for layer in module.layers:  # every layer for every token
        layer.register_forward_pre_hook(lambda layer, args, named: (args, {}), with_kwargs=True)
    assert torch.allclose(module(*given), short, atol=1e-6)
    assert rows == [5, 1, 5, 5]


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(InputError, match="expected a width that the heads divide"):
        make_fusion(MINI, width=30)
