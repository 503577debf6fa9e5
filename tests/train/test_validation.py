"""What a training reports of its model is what the analyses report of it."""

from dataclasses import replace

import pytest

from captious.io.read import read
from captious.metrics.registry import parse_all
from captious.models.loading import load
from captious.options import Reading, Resampling, Runtime
from captious.probes.retrieval import measure_recalls
from captious.probes.specificity import probe_specificity, read_details
from captious.probes.vectors import encode_captions
from captious.train.run import train
from captious.train.training_options import ClipOptions, SpecsOptions, Training

ONCE = Resampling(samples=0)


def before(data, base, out, options, rows):
    """The first validation, of the model as it was."""
    learnt = data / f"{rows.removesuffix('-val').replace('val', 'train')}.jsonl"
    job = Training(out, str(learnt), str(base), validate=str(data / f"{rows}.jsonl"), images=data / "images")
    settings = replace(options.published, epochs=1, batch_size=12)
    return train(job, options, settings, Runtime(device="cpu")).validations[0]["validation"]


def test_the_specificity_rate_is_that_of_captious_probe_specificity(data, base, tmp_path):
    told = before(data, base, tmp_path / "out", SpecsOptions(negatives="given"), "val")
    details = read_details(data / "val.jsonl", data / "images")
    (found,) = probe_specificity(details, parse_all(f"specs(weights={base},value=raw)"), ONCE).rows
    assert told["sr_pos"] == pytest.approx(100 * found.positive.value, abs=1e-3)
    assert told["sr_neg"] == pytest.approx(100 * found.negative.value, abs=1e-3)
    assert 0 < told["sr"] < 100


def test_the_recall_is_that_of_captious_probe_retrieval(data, base, tmp_path):
    told = before(data, base, tmp_path / "out", ClipOptions(), "short-val")
    captions = read(data / "short-val.jsonl", images=data / "images", reading=Reading(several=True))
    to_image, to_text = measure_recalls(encode_captions(captions, load(str(base))), ONCE)
    for name, found in (("text_to_image", to_image), ("image_to_text", to_text)):
        rates = [told[f"{name}_r{depth}"] / 100 for depth in (1, 5, 10)]
        assert rates == pytest.approx([one.value for one in found.recall], abs=1e-4)
    assert told["text_to_image_r10"] > told["text_to_image_r1"]
