"""Devices by name, and the precision each takes by itself."""

import pytest

from captious.errors import InputError
from captious.models.devices import resolve_device, resolve_precision

torch = pytest.importorskip("torch")


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto").type == "cuda"


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_cuda_absent(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="finds no GPU here") as error:
        resolve_device(name)
    assert name in str(error.value)


def test_a_gpu_beyond_those_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert str(resolve_device("cuda:0")) == "cuda:0"
    with pytest.raises(InputError, match="finds 1 GPU here"):
        resolve_device("cuda:3")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "meta"])
def test_no_such_device(name):
    with pytest.raises(InputError, match="expected auto, cpu, cuda"):
        resolve_device(name)


def test_precision():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [resolve_precision(cpu, "auto"), resolve_precision(gpu, "auto"), resolve_precision(gpu, "bf16")] == [
        "fp32",
        "fp16",
        "bf16",
    ]
    with pytest.raises(InputError, match="precision 'fp8'"):
        resolve_precision(gpu, "fp8")
