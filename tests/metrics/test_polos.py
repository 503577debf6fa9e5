"""Polos, compared with the output of the authors' code on random weights.

``learned/polos`` of the shared data says how its numbers were made (keio-smilab24/Polos, commit 839d64d).
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.metrics.polos_checkpoint import write_polos

from captious import Scorer, score_shards
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.models.polos import load_polos

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def golden(shared_data, tmp_path):
    """A copy of the folder, the captions and the authors' output."""
    source = shared_data / "learned" / "polos"
    folder = tmp_path / "reprod"
    folder.mkdir()
    for part in ("clip_tokenizer", "text_encoder"):
        shutil.copytree(source / part, folder / part)
        (folder / part).chmod(0o755)
    for name in ("state_dict.safetensors", "hparams.json"):
        shutil.copyfile(source / name, folder / name)
    rows = json.loads((source / "inputs.json").read_text())
    captions = CaptionSet.of(
        {str(number): row["caption"] for number, row in enumerate(rows)},
        {str(number): row["references"] for number, row in enumerate(rows)},
        {"image": [str(source / row["image"]) for row in rows]},
    )
    return folder, captions, json.loads((source / "expected.json").read_text())


def values(text, captions):
    return [*parse(text).measure(captions).items.values()]


@pytest.mark.shared_data
def test_scores_are_those_of_the_authors_for_every_batch(golden):
    folder, captions, expected = golden
    for size in (1, 3, 64):
        assert values(f"polos({folder},batch={size})", captions) == pytest.approx(expected[f"batch_{size}"], abs=1e-5)
    even_first = captions.take([0, 2, 4, 1, 3, 5])
    measured = parse(f"polos({folder},batch=3)").measure(even_first).items
    assert [measured[str(item)] for item in range(6)] == pytest.approx(expected["batch_3_even_items_first"], abs=1e-5)


@pytest.mark.shared_data
def test_tokens_vectors_and_scores_of_references_are_those_of_the_authors(golden):
    folder, captions, expected = golden
    model = load_polos(str(folder))
    for item, parts in enumerate(expected["parts"]):
        text = captions.candidates.values[item]
        assert model.sentences.tokenize([text]).ids[0].tolist() == parts["roberta_ids"]
        vector = model.sentences.batch_features([text])[0]
        assert vector == pytest.approx(parts["sentence_vector"], abs=1e-5)
        ids = model.clip.tokenize([f"A photo depicts {text}"]).ids
        assert ids[0].tolist() == parts["clip_ids"][: ids.shape[1]]
        assert model.clip.text_features(ids)[0, :16] == pytest.approx(parts["clip_text"], abs=1e-5)
        for reference, score in zip(captions.item(item).references, parts["score_per_reference"], strict=True):
            one = CaptionSet.of({"1": text}, {"1": [reference]}, {"image": [captions.images[item]]})
            assert values(f"polos({folder})", one) == pytest.approx([score], abs=1e-5)


@pytest.mark.shared_data
def test_images_become_rgb_and_are_then_cropped_as_openai_does(golden):
    from PIL import Image

    folder, captions, expected = golden
    clip = load_polos(str(folder)).clip
    for image, parts in zip(captions.images, expected["parts"], strict=True):
        pixels = clip.prepare(Image.open(image))[None]
        assert clip.image_features(pixels)[0, :16] == pytest.approx(parts["clip_image"], abs=1e-5)


@pytest.mark.shared_data
def test_batches_drop_references_and_count_them(golden):
    folder, captions, _ = golden
    measured = parse(f"polos({folder},batch=3)").measure(captions)
    # The items have 3, 2, 4 and 1, 2, 3 references: 1 + 0 + 2 and 0 + 1 + 2 are dropped.
    assert "|batch:3|" in str(measured.signature) and "|dropped:6|" in str(measured.signature)
    assert any(
        "batches of 3 dropped 6 references, as the authors' code does; polos without batch uses all" in line
        for line in measured.warnings
    )


@pytest.mark.shared_data
def test_a_tokenizer_without_tokenizer_json_gives_the_same_ids(golden):
    folder, captions, expected = golden
    (folder / "text_encoder" / "tokenizer.json").unlink()
    assert values(f"polos({folder})", captions) == pytest.approx(expected["batch_1"], abs=1e-5)


class Tracer:
    """A class of a trainer that must not be found, and whose objects run code when they are unpickled."""

    def __reduce__(self):
        return (_create_file, (str(TRACE),))


TRACE = None


def _create_file(path):
    Path(path).touch()


@pytest.mark.shared_data
@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_with_foreign_classes_gives_its_tensors_and_runs_nothing(golden, tmp_path, monkeypatch, zipped):
    from argparse import Namespace

    folder, captions, expected = golden
    monkeypatch.setattr(f"{__name__}.TRACE", tmp_path / "ran")
    state = safetensors.load_file(folder / "state_dict.safetensors")
    content = {
        "pytorch-lightning_version": "1.3.8",
        "callbacks": {Tracer: {"best": np.float64(0.5)}, "tracer": Tracer()},
        "hyper_parameters": Namespace(layer="mix"),
        "state_dict": {key: torch.nn.Parameter(value) for key, value in state.items()},
    }
    torch.save(content, folder / "reprod.ckpt", _use_new_zipfile_serialization=zipped)
    (folder / "state_dict.safetensors").unlink()
    (folder / "hparams.json").unlink()
    (folder / "hparams.yaml").write_text("layer: mix\npool: cls\nactivations: Tanh\nfinal_activation: false\n")
    assert values(f"polos({folder})", captions) == pytest.approx(expected["batch_1"], abs=1e-5)
    assert not (tmp_path / "ran").exists()
    torch.load(folder / "reprod.ckpt", weights_only=False)  # the file does run code where everything is opened
    assert (tmp_path / "ran").exists()


@pytest.fixture
def polos(tmp_path):
    """A small Polos that needs no shared data."""
    return write_polos(tmp_path / "polos")


def show(photos, candidates, references):
    return CaptionSet.of(candidates, references, {"image": [str(photos / f"{name}.png") for name in candidates]})


@pytest.fixture
def captions(photos):
    return show(
        photos,
        {"red": "a red wall", "green": "grass", "blue": ["the sky", "a blue sky over the sea"]},
        {"red": ["a wall", "red", "red paint"], "green": ["green grass"], "blue": ["sky", " "]},
    )


def test_the_order_of_items_changes_nothing_without_batches(polos, captions):
    whole = parse(f"polos({polos})").measure(captions).items
    turned = parse(f"polos({polos})").measure(captions.take([2, 1, 0])).items
    assert dict(turned) == pytest.approx(dict(whole), abs=1e-6)
    jointly = parse(f"polos({polos},batch=3)").measure(captions).items
    assert jointly["red"] != pytest.approx(whole["red"], abs=1e-6)


def test_a_scorer_gives_the_values_of_evaluate_and_refuses_batches(polos, captions):
    whole = parse(f"polos({polos})").measure(captions).items
    scorer = Scorer(f"polos({polos})", references=captions)
    values = scorer(["green", "red"], ["grass", "a red wall"])["polos"]
    assert values.tolist() == pytest.approx([whole["green"], whole["red"]], abs=1e-6)
    with pytest.raises(InputError, match=r"batch=32\) scores the captions of a whole file in batches.*a scorer"):
        Scorer(f"polos({polos},batch=32)", references=captions)
    shard = polos.parent / "shard.jsonl"
    shard.write_text('{"id": "1", "caption": "a wall", "references": ["a wall"], "image": "red.png"}')
    with pytest.raises(InputError, match=r"not those of shards; leave batch out"):
        score_shards(str(shard), f"polos({polos},batch=32)", out=polos.parent / "run")


def test_parts_add_up_to_the_value_and_batches_have_none(polos, captions):
    metric = parse(f"polos({polos})")
    explained = metric.explain(captions, "red")
    assert sum(part.adds for part in explained.breakdown.parts) == pytest.approx(explained.value, abs=1e-6)
    joint = parse(f"polos({polos},batch=2)")
    assert not joint.explains
    with pytest.raises(InputError, match="does not explain single values"):
        joint.explain(captions, "red")


def test_what_cannot_be_scored_has_a_reason(polos, photos):
    captions = show(
        photos,
        {"red": "a wall", "broken": "a wall", "green": " ", "blue": "a wall"},
        {"red": ["a wall"], "broken": ["a wall"], "green": ["a"], "blue": [" "]},
    )
    for size in (1, 2):
        measured = parse(f"polos({polos},batch={size})").measure(captions)
        assert np.isfinite(measured.items["red"]) and "not an image" in measured.reasons["broken"]
        assert measured.reasons["green"] == "empty caption"
        assert measured.reasons["blue"] == "all references are empty"


def test_long_captions_are_truncated_and_counted(polos, photos):
    captions = show(photos, {"red": "wall " * 200}, {"red": ["wall " * 200]})
    measured = parse(f"polos({polos})").measure(captions)
    assert np.isfinite(measured.corpus) and "|truncated:1|" in str(measured.signature)


def change_tensors(folder, changed):
    state = safetensors.load_file(folder / "state_dict.safetensors") | changed
    kept = {key: value for key, value in state.items() if value is not None}
    safetensors.save_file(kept, folder / "state_dict.safetensors")


HEAD = "ff.0.ff.linear_1.weight"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({HEAD: torch.zeros(8, 4 * 16 + 6 * 64)}, r"\(8, 448\), expected 8 × 3136 = 4·16 .* and 6·512 of CLIP"),
        ({HEAD: None}, "has no ff.0.ff.linear_1.weight"),
        ({"scalar_mix.gamma": None}, r"one number for each of 3 layers \(see scalar_mix.gamma\)"),
        ({"scalar_mix.scalar_parameters.3": torch.zeros(1)}, r"\(see scalar_mix.scalar_parameters.3\)"),
        ({"clip.ln_final.bias": None}, r"is not a CLIP of OpenAI's layout: missing ln_final.bias"),
        ({"encoder.model.embeddings.LayerNorm.bias": None}, "is not the RoBERTa of .*: missing embeddings.LayerNorm"),
    ],
)
def test_other_tensors_are_refused(polos, captions, changed, message):
    change_tensors(polos, changed)
    with pytest.raises(InputError, match=message):
        parse(f"polos({polos})").measure(captions)


def test_folders_with_missing_parts_are_refused(polos, captions, tmp_path):
    metric = parse(f"polos({polos})")
    (polos / "hparams.json").write_text('{"layer": "mix", "pool": "avg"}')
    with pytest.raises(InputError, match=r"hparams.json: pool is 'avg', expected 'cls'"):
        metric.measure(captions)
    (polos / "hparams.json").unlink()
    with pytest.raises(InputError, match=r"has no hparams.yaml or hparams.json, expected a folder with reprod.ckpt"):
        metric.measure(captions)
    (polos / "hparams.yaml").write_text("layer: !!python/object:os.system {}\n")
    with pytest.raises(InputError, match=r"hparams.yaml: cannot be read as plain YAML"):
        metric.measure(captions)
    (polos / "hparams.yaml").write_text("layer: mix\n")
    (polos / "text_encoder" / "vocab.json").unlink()
    with pytest.raises(InputError, match="text_encoder: has no tokenizer"):
        metric.measure(captions)
    (polos / "state_dict.safetensors").rename(tmp_path / "weights.safetensors")
    with pytest.raises(InputError, match=r"0 files of weights \(none\), expected one: reprod.ckpt"):
        metric.measure(captions)
    with pytest.raises(InputError, match="is a file, expected a folder"):
        parse(f"polos({tmp_path / 'weights.safetensors'})").measure(captions)
    (polos / "reprod.ckpt").write_text("no pickle")
    with pytest.raises(InputError, match=r"reprod.ckpt: is not a checkpoint of torch"):
        metric.measure(captions)
    with pytest.raises(InputError, match=r"weights 'nowhere': no such folder, expected one with reprod.ckpt"):
        parse("polos(nowhere)").measure(captions)
    with pytest.raises(InputError, match=r"polos needs weights: get reprod.zip from .*polos\(weights=reprod\)"):
        parse("polos").measure(captions)
    with pytest.raises(InputError, match=r"polos\(batch=0\): expected 1 or more"):
        parse("polos(batch=0)")
