"""What a training reports of its model is what the analyses report of it."""

import pytest

from captious.metrics.registry import parse_all
from captious.models.load import load
from captious.options import Resampling
from captious.probes.retrieval import retrieval
from captious.probes.specificity import read_details, specificity
from captious.probes.vectors import embed, read_pictured
from captious.train.run import Choices, Job, train
from captious.train.schedule import chosen

ONCE = Resampling(samples=0)


def before(data, base, out, objective, rows, **choices):
    """The first validation, of the model as it was."""
    settings = chosen(objective, False, False, epochs=1, batch=12, device="cpu", lock=())
    job = Job(
        objective,
        str(data / f"{rows.removesuffix('-val').replace('val', 'train')}.jsonl"),
        out,
        settings,
        images=data / "images",
        base=str(base),
        choices=Choices(**choices),
        validate=str(data / f"{rows}.jsonl"),
    )
    return train(job).validations[0]["validation"]


def test_the_specificity_rate_is_that_of_captious_specificity(data, base, tmp_path):
    told = before(data, base, tmp_path / "out", "specs", "val", negatives="given")
    details = read_details(data / "val.jsonl", data / "images")
    (found,) = specificity(details, parse_all(f"specs(weights={base},value=raw)"), how=ONCE)
    assert told["sr_pos"] == pytest.approx(100 * found.positive.value, abs=1e-3)
    assert told["sr_neg"] == pytest.approx(100 * found.negative.value, abs=1e-3)
    assert 0 < told["sr"] < 100


def test_the_recall_is_that_of_captious_analyse_retrieval(data, base, tmp_path):
    told = before(data, base, tmp_path / "out", "clip", "short-val")
    to_image, to_text = retrieval(
        embed(read_pictured(data / "short-val.jsonl", data / "images"), load(str(base))), ONCE
    )
    for name, found in (("text_to_image", to_image), ("image_to_text", to_text)):
        rates = [told[f"{name}_r{depth}"] / 100 for depth in (1, 5, 10)]
        assert rates == pytest.approx([one.value for one in found.recall], abs=1e-4)
    assert told["text_to_image_r10"] > told["text_to_image_r1"]
