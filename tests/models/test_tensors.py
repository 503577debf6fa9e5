"""Safetensors by hand against the safetensors library."""

from __future__ import annotations

import numpy as np
import pytest

from captious.errors import InputError
from captious.models.mini import read_tensors, write_tensors

ARRAYS = {
    "b": np.arange(6, dtype=np.float32).reshape(2, 3) / 3,
    "a": np.array(2.5, np.float32),
    "empty": np.zeros((0, 2), np.float32),
}


@pytest.mark.parametrize("half", [False, True])
def test_the_library_reads_what_is_written(tmp_path, half):
    library = pytest.importorskip("safetensors.numpy")
    write_tensors(tmp_path / "x", ARRAYS, half=half)
    found = library.load_file(tmp_path / "x")
    for name, array in ARRAYS.items():
        assert np.array_equal(found[name], array.astype(np.float16) if half else array)
        assert np.array_equal(read_tensors(tmp_path / "x")[name], found[name].astype(np.float32))


def test_what_the_library_writes_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    values = torch.tensor([[1.5, -2.0], [3e-5, 7e8]])
    kinds = {"half": torch.float16, "brain": torch.bfloat16, "single": torch.float32, "double": torch.float64}
    stored = {name: values.clamp(max=6e4).to(kind) for name, kind in kinds.items()}
    library.save_file({**stored, "ids": torch.arange(3)}, tmp_path / "x")
    found = read_tensors(tmp_path / "x")
    assert set(found) == set(kinds)
    for name, tensor in stored.items():
        assert np.array_equal(found[name], tensor.float().numpy())


def test_other_files_are_refused(tmp_path):
    for content in (b"", b"PK\x03\x04" * 30, b"\x02\0\0\0\0\0\0\0{}"[:9]):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(InputError, match="not a whole safetensors file"):
            read_tensors(tmp_path / "x")
