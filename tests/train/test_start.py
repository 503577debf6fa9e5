"""From examples to objectives: units that are found, models that are stretched, first sentences."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from captious.errors import InputError
from captious.options import Runtime
from captious.train._contrast import cut_first_sentence, make_encoder, stretch_positions
from captious.train._data import Example
from captious.train._specs import add_units
from captious.train._towers import lock
from captious.train.run import train
from captious.train.training_options import ClipOptions, Settings, SpecsOptions, Training, UmicOptions


def test_units_are_found_where_rows_have_none():
    given = Example("a", Path("a"), ("A cat sleeps.",), ("A cat", "sleeps."))
    bare = Example("b", Path("b"), ("A cat sleeps on a sofa. The cat is under a blanket with fringed edges.",))
    first, second = add_units([given, bare])
    assert first is given
    assert second.units == ("A cat sleeps on a sofa .", "The cat is under a blanket", "with fringed edges .")


def test_training_on_found_units(data, base, tmp_path):
    rows = (data / "train.jsonl").read_text().replace('"units"', '"other"').replace('"wrong_units"', '"more"')
    (tmp_path / "bare.jsonl").write_text(rows)
    job = Training(tmp_path / "out", str(tmp_path / "bare.jsonl"), str(base), images=data / "images")
    assert train(job, SpecsOptions(), Settings(1, 12, lr=1e-5, gather=False), Runtime(device="cpu")).finished


def test_first_sentences():
    assert cut_first_sentence("One. Two. Three.") == "One"
    assert cut_first_sentence("no stop at all") == "no stop at all"


def test_a_model_is_stretched_to_248_tokens_and_reads_short_texts_as_before(tmp_path, make_encoder):
    from captious.models.loading import load_trainable

    old = make_encoder(tmp_path / "tokenizer", limit=77)
    old.save(tmp_path / "old")
    ids = torch.from_numpy(old.tokenize(["the left is red", "blue"]).ids)
    before = old.text_tensor(ids).detach()
    table = old.module.text_model.embeddings.position_embedding.weight.detach().numpy().copy()
    new = stretch_positions(load_trainable(str(tmp_path / "old"), "cpu"))
    assert new.limit == 248 and new.module.config.text_config.max_position_embeddings == 248
    assert torch.allclose(new.text_tensor(ids), before, atol=1e-6)
    # Row 20 + 4i + k is (4 - k)/4 of old row 20 + i and k/4 of the next.
    row = new.module.text_model.embeddings.position_embedding.weight[20 + 4 * 3 + 1].detach().numpy()
    assert np.allclose(row, 0.75 * table[23] + 0.25 * table[24], atol=1e-6)
    new.save(tmp_path / "new")
    again = load_trainable(str(tmp_path / "new"), "cpu")
    long = torch.from_numpy(again.tokenize(["red " * 200]).ids)
    assert long.shape == (1, 202) and torch.allclose(again.text_tensor(long), new.text_tensor(long), atol=1e-5)
    assert again.fingerprint == new.fingerprint
    assert stretch_positions(again) is again


def test_a_training_starts_from_one_thing():
    with pytest.raises(InputError, match="pass one of base="):
        make_encoder("a", "cpu", "mini")
    with pytest.raises(InputError, match="pass one of base="):
        make_encoder(None, "cpu")


def test_the_start_decides_what_is_left_open():
    new, dual = ClipOptions(new="mini"), ClipOptions(towers=("vision", "text"))
    chosen = [options.resolve_settings(None) for options in (ClipOptions(), new, dual)]
    assert [(one.lr, one.epochs, one.batch_size) for one in chosen] == [
        (1e-5, 10, 256),
        (1e-3, 20, 256),
        (1e-4, 20, 512),
    ]
    locked = dual.resolve_settings(replace(ClipOptions.published, lock=("image",), epochs=7))
    assert (locked.lr, locked.head_lr, locked.epochs, locked.augment) == (1e-3, 0, 7, 0)
    assert UmicOptions().resolve_settings(None).lr == 5e-4 and UmicOptions("vilt").resolve_settings(None).lr == 5e-5


def test_settings_refuse_nonsense():
    with pytest.raises(InputError, match="batch_size 0, expected a whole number of at least 1"):
        replace(Settings(), batch_size=0)
    with pytest.raises(InputError, match="learning rate lr=-1, expected more than 0"):
        replace(Settings(), lr=-1)


class Partial:
    """An encoder of which some layers of the image tower can be locked."""

    name = "partial"

    def __init__(self):
        self.module = torch.nn.ModuleDict({"vision_model": torch.nn.Linear(2, 2), "text_model": torch.nn.Linear(2, 2)})
        self.module.vision_model, self.module.text_model = self.module["vision_model"], self.module["text_model"]
        self.frozen_images = self.image_head = self.frozen_texts = self.text_head = None
        self.layers = None

    def freeze_image_layers(self, layers):
        self.layers = layers


def test_towers_are_locked_whole_or_in_part():
    encoder = Partial()
    lock(encoder, ("image:9",))
    assert encoder.layers == 9 and not encoder.module.vision_model.weight.requires_grad
    assert encoder.module.text_model.weight.requires_grad
    for wrong in ("ears", "text:2", "image:many"):
        with pytest.raises(InputError, match=f"lock={wrong}: expected image, text"):
            lock(Partial(), (wrong,))


def test_two_towers_that_read_long_texts_need_no_stretching():
    long = SimpleNamespace(
        limit=512, name="dino+minilm", module=SimpleNamespace(config=SimpleNamespace(model_type="captious-dual"))
    )
    assert stretch_positions(long) is long
    long.limit = 128
    with pytest.raises(InputError, match="is not a CLIP model, whose table of positions could be stretched"):
        stretch_positions(long)


def test_hinges_in_cosines_have_a_margin_in_cosines(data, base, tmp_path):
    parts = {}
    for units in ("logit", "cosine"):
        job = Training(tmp_path / units, str(data / "train.jsonl"), str(base), images=data / "images")
        options = SpecsOptions(margin="paper", units=units)
        settings = Settings(None, 12, lr=1e-9, total_steps=1, gather=False)
        parts[units] = train(job, options, settings, Runtime(device="cpu")).last
    logit, cosine = parts["logit"], parts["cosine"]
    for name in ("positive", "negative", "margin"):
        assert cosine[name] * logit["scale"] == pytest.approx(logit[name], rel=1e-4)
    assert cosine["contrast"] == pytest.approx(logit["contrast"], rel=1e-5)
