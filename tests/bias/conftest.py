"""Small tasks and planted subjects that several tests of bias share."""

import numpy as np
import pytest
from lab.toy import make

from captious.bias.corpus import AuditedCaptioner, ClassifierTask, draw_split


def small_task(seed, role, images=60, classes=2):
    """Random captions of 1 to 8 words; class 1, 2, … mostly ends with its own word."""
    rng = np.random.default_rng([seed, len(role)])
    labels = np.arange(images) % classes
    captions = [
        (*(f"w{number}" for number in rng.integers(0, 30, rng.integers(1, 9))), *((f"tell{label}",) if label else ()))
        for label in labels
    ]
    split = draw_split([str(image) for image in range(images)], labels.tolist(), seed)
    return ClassifierTask(captions, labels, classes, split, seed, role)


def planted_subject(bias, human_bias, items=1500, name="planted", seed=0):
    sample = make(items, seed, bias=bias, human_bias=human_bias)
    rows = [row for scene in sample.scenes() if (row := sample.biased(scene))]
    columns = ({row["id"]: row[key] for row in rows} for key in ("label", "caption", "references"))
    return AuditedCaptioner.of(name, *columns)


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors of these tests are so small that more threads only wait for each other."""
    torch = pytest.importorskip("torch", reason="the extra bias is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make_task():
    return small_task


@pytest.fixture
def planted():
    return planted_subject
