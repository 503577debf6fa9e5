"""ViLT and BLIP as backbones: parity with the library, training, saving, bad weights."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from captious.errors import InputError
from captious.models.crossencoders import load_backbone, open_backbone, score_pairs
from captious.models.image_text_matching import load_blip, load_vilt
from captious.options import Runtime, using
from captious.train.run import train
from captious.train.training_options import Training, UmicOptions

LOADERS = {"vilt": load_vilt, "blip": load_blip}

pytestmark = pytest.mark.usefixtures("on_cpu")


@pytest.fixture
def data(tiny, tmp_path):
    return tiny.write_data(tmp_path / "data")


def texts_of(tiny, data):
    said = tiny.captions()
    return [texts[0] for texts in said.values()], [str(data / "images" / f"{key}.png") for key in said]


def test_vilt_is_the_librarys(tiny, tmp_path, data):
    model = tiny.tiny_vilt(tmp_path / "vilt")
    backbone = load_vilt(tmp_path / "vilt")
    texts, paths = texts_of(tiny, data)
    rows = np.arange(6)
    pixels = backbone.pictures(paths).take(rows)
    assert len({one.shape for one in pixels}) > 1  # so that padding matters
    ids, inside = backbone.texts(texts).take(rows[:, None])
    height, width = (max(one.shape[side] for one in pixels) for side in (0, 1))
    padded = np.zeros((6, 3, height, width), np.float32)
    mask = np.zeros((6, height, width), np.int64)
    for number, one in enumerate(pixels):
        padded[number, :, : one.shape[0], : one.shape[1]] = one.transpose(2, 0, 1) / 127.5 - 1
        mask[number, : one.shape[0], : one.shape[1]] = 1
    with torch.no_grad():
        expected = model(
            input_ids=ids[:, 0],
            attention_mask=inside[:, 0].long(),
            pixel_values=torch.from_numpy(padded),
            pixel_mask=torch.from_numpy(mask),
        ).logits[:, 0]
        found = backbone.logits(pixels, (ids, inside))[:, 0]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=2e-5)


def test_vilt_starts_from_the_positive_row_of_a_matching_head(tiny, tmp_path):
    from safetensors.torch import load_file, save_file

    tiny.tiny_vilt(tmp_path / "vilt")
    state = load_file(tmp_path / "vilt" / "model.safetensors")
    head = {"itm_score.fc.weight": torch.randn(2, 32), "itm_score.fc.bias": torch.randn(2)}
    state = {key: one for key, one in state.items() if not key.startswith("rank_output")} | head
    save_file(state, tmp_path / "vilt" / "model.safetensors", {"format": "pt"})
    rank = load_vilt(tmp_path / "vilt").module.rank_output
    assert torch.equal(rank.weight, head["itm_score.fc.weight"][1:])
    assert torch.equal(rank.bias, head["itm_score.fc.bias"][1:])


def test_blip_gives_the_librarys_positive_logit(tiny, tmp_path, data):
    model = tiny.tiny_blip(tmp_path / "blip")
    backbone = load_blip(tmp_path / "blip")
    texts, paths = texts_of(tiny, data)
    rows = np.arange(6)
    pixels, (ids, inside) = backbone.pictures(paths).take(rows), backbone.texts(texts).take(rows[:, None])
    mean, std = backbone.preparation.mean, backbone.preparation.std
    values = ((np.stack(pixels) / 255 - mean) / std).transpose(0, 3, 1, 2).astype(np.float32)
    with torch.no_grad():
        expected = model(
            input_ids=ids[:, 0], attention_mask=inside[:, 0].long(), pixel_values=torch.from_numpy(values)
        ).itm_score[:, 1]
        found = backbone.logits(pixels, (ids, inside))[:, 0]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", ["vilt", "blip"])
def test_two_steps_then_saved_and_loaded_scores_the_same(kind, tiny, tmp_path, data):
    getattr(tiny, f"tiny_{kind}")(tmp_path / kind)
    training = Training(tmp_path / "out", str(data / "captions.jsonl"), images=data / "images")
    settings = replace(UmicOptions.published, epochs=1, batch_size=6, lr=1e-2)
    outcome = train(training, UmicOptions(str(tmp_path / kind), hold_out=0.0), settings)
    assert outcome.steps == 2 and outcome.finished
    texts, paths = texts_of(tiny, data)
    before = score_pairs(LOADERS[kind](tmp_path / kind), paths, texts).logits
    after = score_pairs(load_backbone(tmp_path / "out"), paths, texts).logits
    assert np.abs(after - before).max() > 1e-3
    open_backbone(tmp_path / "out").save(make_folder(tmp_path / "again"))
    again = load_backbone(tmp_path / "again")
    assert again.fingerprint == load_backbone(tmp_path / "out").fingerprint
    with using(Runtime(device="cpu", batch=4, cache=False)):
        np.testing.assert_array_equal(score_pairs(again, paths, texts).logits, after)


def make_folder(path):
    path.mkdir()
    return path


def test_weights_of_another_backbone_are_refused_in_one_line(tiny, tmp_path):
    tiny.tiny_vilt(tmp_path / "vilt")
    with pytest.raises(InputError, match="type 'vilt', expected 'blip'"):
        load_blip(tmp_path / "vilt")
    backbone = load_vilt(tmp_path / "vilt")
    backbone.save(make_folder(tmp_path / "out"))
    record = json.loads((tmp_path / "out" / "captious-umic.json").read_text())
    (tmp_path / "out" / "captious-umic.json").write_text(json.dumps({**record, "backbone": "blip"}))
    with pytest.raises(InputError, match="type 'vilt', expected 'blip'"):
        load_backbone(tmp_path / "out")
    (tmp_path / "out" / "captious-umic.json").write_text(json.dumps({**record, "backbone": "oscar"}))
    with pytest.raises(InputError, match="backbone 'oscar', expected one of fusion, vilt, blip, uniter"):
        load_backbone(tmp_path / "out")


def test_a_folder_without_marker_is_refused(tiny, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        load_backbone(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has no captious-umic\.json"):
        load_backbone(tmp_path)
