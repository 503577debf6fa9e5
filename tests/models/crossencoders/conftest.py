"""Tiny models of every backbone."""

import pytest


@pytest.fixture(scope="session")
def tiny():
    """The makers of ``models.py``."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    torch.set_num_threads(1)
    from tests.models.crossencoders import models

    return models


@pytest.fixture
def on_cpu():
    """Encoders and backbones run on the CPU, in small batches."""
    from captious.options import Runtime, using

    with using(Runtime(device="cpu", batch=4)):
        yield
