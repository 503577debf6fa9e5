"""Weights come out of every kind of file under their bare names, and nothing in a file is run."""

import pickle

import pytest

from captious.errors import InputError
from captious.models.checkpoints import read_checkpoint

torch = pytest.importorskip("torch")


def weights():
    return {"a": torch.arange(4.0), "b.weight": torch.ones(2, 3)}


@pytest.mark.parametrize(
    "wrapped",
    [
        weights(),
        {"state_dict": weights(), "epoch": 3},
        {"model": weights()},
        {"model_state_dict": {"module": weights()}},
        {f"module.{key}": value for key, value in weights().items()},
        {"state_dict": {f"module.model.{key}": value for key, value in weights().items()}},
        {key: value.half() for key, value in weights().items()},
    ],
)
def test_wrappers_prefixes_and_halves(tmp_path, wrapped):
    torch.save(wrapped, tmp_path / "a.pth")
    found = read_checkpoint(tmp_path / "a.pth")
    assert {key: value.tolist() for key, value in found.items()} == {
        key: value.tolist() for key, value in weights().items()
    }
    assert all(value.dtype == torch.float32 for value in found.values())


def test_safetensors(tmp_path):
    from safetensors.torch import save_file

    save_file(weights(), tmp_path / "a.safetensors")
    assert read_checkpoint(tmp_path / "a.safetensors")["b.weight"].shape == (2, 3)


def test_torchscript(tmp_path):
    torch.jit.trace(torch.nn.Linear(2, 3), torch.zeros(1, 2)).save(str(tmp_path / "a.pt"))
    assert set(read_checkpoint(tmp_path / "a.pt")) == {"weight", "bias"}


class _Dangerous:
    def __reduce__(self):
        return (print, ("run",))


def test_pickled_objects_are_not_opened(tmp_path, capsys):
    torch.save({"model": _Dangerous()}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="could run code") as error:
        read_checkpoint(tmp_path / "a.pt")
    assert "a.pt" in str(error.value)
    assert "run" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_not_a_checkpoint(tmp_path, name):
    (tmp_path / name).write_bytes(b"<html>404 not found</html>" * 10)
    with pytest.raises(InputError, match=f"{name}: is not a checkpoint") as error:
        read_checkpoint(tmp_path / name)
    assert "\n" not in str(error.value)
    assert not str(error.value).endswith("()")


@pytest.mark.parametrize("content", [b"", b"a plain text", b"junk" * 100])
def test_what_torch_would_take_for_a_pickle(tmp_path, content):
    """Its own complaint would be about Python objects, a number, or nothing at all."""
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"is not a checkpoint of torch or safetensors, or is damaged$"):
        read_checkpoint(tmp_path / "a.pt")


def test_truncated(tmp_path):
    torch.save(weights(), tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:300])
    with pytest.raises(InputError, match="damaged"):
        read_checkpoint(tmp_path / "a.pt")


def test_no_tensors_inside(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="contains no tensors"):
        read_checkpoint(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(InputError):
        read_checkpoint(tmp_path / "b.pt")
