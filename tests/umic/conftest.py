"""Tiny models of every backbone."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny():
    """The makers of ``models.py``."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("tiny_models", Path(__file__).with_name("models.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def on_cpu():
    """Encoders and backbones run on the CPU, in small batches."""
    from captious.options import Runtime, using

    with using(Runtime(device="cpu", batch=4)):
        yield
