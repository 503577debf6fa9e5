"""DALL-E's dVAE and BigGAN-deep on random weights: the pictures of their own packages, and pictures found by a guide.

Golden values come from the packages DALL-E 0.1 (`dall_e.Decoder`, with its checks of sizes off) and
pytorch-pretrained-biggan 0.1.1 (`BigGAN`), given the weights that `fill_weights` makes.
"""

import json
import sys
import types

import numpy as np
import pytest

from captious.errors import InputError
from captious.models._guided import load_guided
from captious.models.painters import PainterOptions, Prompt

torch = pytest.importorskip("torch")

from captious.models._generators import BigGan, BigGanNetwork, load_biggan, load_dalle_decoder

TEXT = "a red ball in the snow"
BIGGAN = {
    "output_dim": 16,
    "z_dim": 4,
    "channel_width": 4,
    "num_classes": 5,
    "layers": [[False, 16, 16], [True, 16, 8], [True, 8, 4], [False, 4, 2], [False, 2, 1]],
    "attention_layer_position": 2,
    "eps": 1e-4,
    "n_stats": 3,
}


def numbers(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def fill_weights(shapes):
    """Random tensors by name; those of spectral norms are the leading singular vectors of their weight."""
    state = {}
    for number, name in enumerate(sorted(shapes)):
        values = numbers(shapes[name], number) * np.float32(0.3)
        state[name] = torch.from_numpy(1 + np.abs(values) if "running_vars" in name else values)
    for name in [one for one in state if one.endswith("weight_orig")]:
        left, _, right = np.linalg.svd(state[name].flatten(1).numpy().astype(np.float64), full_matrices=False)
        state[name[:-4] + "u"] = torch.from_numpy(left[:, 0].astype(np.float32))
        state[name[:-4] + "v"] = torch.from_numpy(right[0].astype(np.float32))
    return state


def dalle_shapes(start=6, hidden=4, codes=7):
    shapes = {"blocks.input.w": (start, codes, 1, 1), "blocks.input.b": (start,)}
    width = start
    for group, out in enumerate((8 * hidden, 4 * hidden, 2 * hidden, hidden), start=1):
        for block in (1, 2):
            path, quarter = f"blocks.group_{group}.block_{block}", out // 4
            convolutions = [(quarter, width, 1), (quarter, quarter, 3), (quarter, quarter, 3), (out, quarter, 3)]
            for number, (to, into, side) in enumerate(convolutions, start=1):
                shapes[f"{path}.res_path.conv_{number}.w"] = (to, into, side, side)
                shapes[f"{path}.res_path.conv_{number}.b"] = (to,)
            if width != out:
                shapes |= {f"{path}.id_path.w": (out, width, 1, 1), f"{path}.id_path.b": (out,)}
            width = out
    return shapes | {"blocks.output.conv.w": (6, width, 1, 1), "blocks.output.conv.b": (6,)}


def pickle_whole_module(state, path, monkeypatch, trap=None):
    """A file like DALL-E's own: the pickle of a module whose class the reader does not have."""
    foreign = types.ModuleType("foreign_dall_e")

    class Part(torch.nn.Module):
        pass

    Part.__module__, Part.__qualname__, foreign.Part = "foreign_dall_e", "Part", Part
    monkeypatch.setitem(sys.modules, "foreign_dall_e", foreign)
    root = Part()
    for name, tensor in state.items():
        *parts, last = name.split(".")
        module = root
        for part in parts:
            if part not in module._modules:
                module.add_module(part, Part())
            module = module._modules[part]
        module.register_parameter(last, torch.nn.Parameter(tensor))
    root.trap = trap
    torch.save(root, path)
    monkeypatch.delitem(sys.modules, "foreign_dall_e")


class Trap:
    """Runs code when it is unpickled by a reader that imports what a file names."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.fixture
def dalle(tmp_path, monkeypatch):
    path = tmp_path / "decoder.pkl"
    pickle_whole_module(fill_weights(dalle_shapes()), path, monkeypatch, Trap(tmp_path / "sprung"))
    return path


@pytest.fixture
def biggan(tmp_path):
    folder = tmp_path / "biggan-tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(BIGGAN))
    state = fill_weights({name: tuple(one.shape) for name, one in BigGanNetwork(BIGGAN).state_dict().items()})
    torch.save(state, folder / "pytorch_model.bin")
    return folder


def test_the_dvae_gives_the_pictures_of_its_own_package_and_runs_nothing_of_its_file(dalle, tmp_path):
    with torch.no_grad():
        picture = load_dalle_decoder(dalle)(torch.from_numpy(np.abs(numbers((1, 7, 2, 3), 102)))).numpy()
    assert picture.shape == (1, 3, 16, 24)
    assert picture.mean() == pytest.approx(0.5435580611, abs=1e-5)
    assert picture[0, :, 3, 5] == pytest.approx([0.5412946939, 0.6487134099, 0.4678163230], abs=1e-5)
    assert not (tmp_path / "sprung").exists()


def test_biggan_gives_the_pictures_of_its_own_package(biggan):
    latents = torch.from_numpy(numbers((1, 4), 100)).repeat(6, 1)
    classes = torch.from_numpy(np.abs(numbers((1, 5), 101))).repeat(6, 1)
    with torch.no_grad():
        picture = load_biggan(biggan).eval()(latents, classes).numpy()
    assert picture.shape == (1, 3, 16, 16)
    assert picture.mean() == pytest.approx(-0.3359999955, abs=1e-4)
    assert picture[0, :, 3, 5] == pytest.approx([-0.4371391237, -0.3392176032, -0.2396368384], abs=1e-4)


def test_every_layer_of_biggan_has_a_condition_of_its_own(biggan):
    network = load_biggan(biggan).eval()
    latents, classes = torch.from_numpy(numbers((6, 4), 1)), torch.from_numpy(np.abs(numbers((6, 5), 2)))
    with torch.no_grad():
        before = network(latents, classes)
        for row in range(6):
            other = latents.clone()
            other[row] += 1
            assert not torch.allclose(network(other, classes), before)


def test_the_penalty_of_biggan_by_hand():
    """Two rows of latents 1, -1: mean 0, deviation √2 (n − 1), mean square 1, skewness 0, kurtosis 1 − 3.

    |1 − √2| + 0 + 4 · 1 + 2; of class weights .5 and .25 the smaller one counts: (50 · .25)² = 156.25.
    """
    penalty = BigGan(None, 16).compute_penalty(
        [torch.tensor([[1.0, -1.0]] * 2), torch.logit(torch.tensor([[0.5, 0.25]] * 2))]
    )
    assert float(penalty) == pytest.approx(2**0.5 - 1 + 4 + 2 + 156.25, abs=1e-4)


def see(pixels):
    from PIL import Image

    from captious.models.mini import load_mini

    encoder = load_mini("captious-mini")
    image = encoder.image_features(encoder.prepare(Image.fromarray(pixels))[None])[0]
    text = encoder.text_features(encoder.tokenize([TEXT]).ids)[0]
    return float(image @ text / np.linalg.norm(image) / np.linalg.norm(text))


@pytest.mark.parametrize("kind", ["dalle", "biggan"])
def test_optimization_brings_the_picture_nearer_to_the_text(kind, dalle, biggan):
    folder, options = (dalle, {"size": 16}) if kind == "dalle" else (biggan, {})
    likeness = []
    for steps in (1, 25):
        painter = load_guided(str(folder), PainterOptions(steps=steps, guide="captious-mini", **options), cutouts=0)
        assert painter.shape == (16, 16, 3)
        first, second = painter.paint([Prompt(TEXT, 0), Prompt(TEXT, 1)])
        assert (first.pixels != second.pixels).any()
        (again,) = painter.paint([Prompt(TEXT, 1)])
        assert (again.pixels == second.pixels).all()
        likeness.append(np.mean([see(first.pixels[0]), see(second.pixels[0])]))
    assert likeness[1] > likeness[0]


def test_what_does_not_fit(dalle, biggan, tmp_path):
    with pytest.raises(InputError, match="size is 20, expected a multiple of 8"):
        load_guided(str(dalle), PainterOptions(guide="captious-mini", size=20))
    with pytest.raises(InputError, match="size is 32, this BigGAN gives 16"):
        load_guided(str(biggan), PainterOptions(guide="captious-mini", size=32))
    torch.save({"weight": torch.zeros(2)}, tmp_path / "other.pkl")
    with pytest.raises(InputError, match=r"expected the decoder of DALL-E's dVAE"):
        load_guided(str(tmp_path / "other.pkl"), PainterOptions(guide="captious-mini"))
    (biggan / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match=r"has no pytorch_model\.bin"):
        load_guided(str(biggan), PainterOptions(guide="captious-mini"))
