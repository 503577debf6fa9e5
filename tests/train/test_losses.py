"""The losses against arithmetic in NumPy."""

import numpy as np
import pytest
import torch

from captious.errors import InputError
from captious.train import _contrast as losses
from captious.train._specs import Margin


def hinge(margin, gap):
    return np.maximum(0, margin - gap).mean()


STEPS = [  # base, positive, negative similarities in logit units
    (np.array([20.0, 21.0]), np.array([20.6, 21.2]), np.array([19.0, 21.5])),
    (np.array([20.0, 21.0]), np.array([24.0, 25.0]), np.array([19.9, 20.9])),
    (np.array([20.0, 21.0]), np.array([19.0, 20.0]), np.array([20.5, 21.7])),
    (np.array([20.0, 21.0]), np.array([20.3, 21.3]), np.array([17.0, 18.0])),
]


def test_margin_of_the_code_is_one_number_carried_through_the_steps():
    # By hand, ε before each use and the gap it becomes (clamped to [0, 1.5]):
    #   step 1: pos uses 0;   ε = mean(.6, .2) = .4;    neg uses .4;  ε = mean(1, -.5) = .25
    #   step 2: pos uses .25; ε = mean(4, 4) -> 1.5;    neg uses 1.5; ε = mean(.1, .1) = .1
    #   step 3: pos uses .1;  ε = mean(-1, -1) -> 0;    neg uses 0;   ε = mean(-.5, -.7) -> 0
    #   step 4: pos uses 0;   ε = mean(.3, .3) = .3;    neg uses .3;  ε = mean(3, 3) -> 1.5
    expected = [(0, 0.4), (0.25, 1.5), (0.1, 0), (0, 0.3)]
    left = [0.25, 0.1, 0, 1.5]
    margin = Margin.named("code")
    for (base, positive, negative), (first, second), after in zip(STEPS, expected, left, strict=True):
        found = margin.compute_hinges(*map(torch.tensor, (base, positive, negative)))
        assert found[0].item() == pytest.approx(hinge(first, positive - base), abs=1e-6)
        assert found[1].item() == pytest.approx(hinge(second, base - negative), abs=1e-6)
        assert margin.value.item() == pytest.approx(after, abs=1e-6)


def test_margin_of_the_paper_is_each_pairs_own_and_forgets():
    margin = Margin.named("paper")
    for base, positive, negative in STEPS:
        up, down = positive - base, base - negative
        found = margin.compute_hinges(*map(torch.tensor, (base, positive, negative)))
        assert found[0].item() == pytest.approx(hinge(np.clip(up.mean(), 0, 1.5), up), abs=1e-6)
        assert found[1].item() == pytest.approx(hinge(np.clip(down.mean(), 0, 1.5), down), abs=1e-6)


def test_a_fixed_margin_stays():
    margin = Margin.named("0.5")
    for base, positive, negative in STEPS:
        found = margin.compute_hinges(*map(torch.tensor, (base, positive, negative)))
        assert found[0].item() == pytest.approx(hinge(0.5, positive - base), abs=1e-6)
        assert found[1].item() == pytest.approx(hinge(0.5, base - negative), abs=1e-6)
        assert margin.value.item() == 0.5


def test_an_unknown_margin_is_named():
    with pytest.raises(InputError, match="margin 'wide', expected code, paper, or a number"):
        Margin.named("wide")


def test_no_gradient_flows_through_the_margin():
    base, positive, negative = (torch.tensor(part, requires_grad=True) for part in STEPS[0])
    margin = Margin.named("paper")
    margin.compute_hinges(base, positive, negative)[0].backward()
    # mean gap .4: only the second example (gap .2) is inside the margin; 1/N of it goes up and down.
    assert base.grad.tolist() == [0, 0.5] and positive.grad.tolist() == [0, -0.5]


@pytest.fixture
def vectors():
    rng = np.random.default_rng(3)
    images, texts = rng.normal(size=(2, 5, 4))
    return images / np.linalg.norm(images, axis=1)[:, None], texts / np.linalg.norm(texts, axis=1)[:, None]


def entropy(logits, smoothing=0.0):
    shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    size = len(logits)
    targets = np.eye(size) * (1 - smoothing) + smoothing / size
    return -(targets * shares).sum(axis=1).mean()


def test_contrast_in_one_and_both_directions(vectors):
    images, texts = vectors
    logits = 10 * texts @ images.T
    tensors = torch.tensor(images), torch.tensor(texts), torch.tensor(10.0)
    assert losses.contrast(*tensors, both=False).item() == pytest.approx(entropy(logits), abs=1e-9)
    both = (entropy(logits) + entropy(logits.T)) / 2
    assert losses.contrast(*tensors).item() == pytest.approx(both, abs=1e-9)
    smooth = (entropy(logits, 0.1) + entropy(logits.T, 0.1)) / 2
    assert losses.contrast(*tensors, smoothing=0.1).item() == pytest.approx(smooth, abs=1e-9)


@pytest.mark.parametrize(("size", "width"), [(5, 4), (4, 9)])
def test_coarse_features_are_the_projection_on_principal_components(size, width):
    images = np.random.default_rng(0).normal(size=(size, width))
    centered = images - images.mean(axis=0)
    _, _, directions = np.linalg.svd(centered)
    expected = centered @ directions[:2].T @ directions[:2] + images.mean(axis=0)
    assert np.allclose(losses.project_images(torch.tensor(images), 2).numpy(), expected)
    whole = losses.project_images(torch.tensor(images), 32).numpy()
    assert np.allclose(whole, images, atol=1e-6)


def test_hinges_in_cosines_are_those_in_logits_divided_by_the_scale():
    scale = 100.0
    logit, cosine = Margin.named("code"), Margin.named("code")
    for base, positive, negative in STEPS:
        parts = [torch.tensor(one) for one in (base, positive, negative)]
        large = logit.compute_hinges(*parts)
        small = cosine.compute_hinges(*(part / scale for part in parts), most=1.5 / scale)
        assert [scale * float(one) for one in small] == pytest.approx([float(one) for one in large], abs=1e-5)
        assert scale * float(cosine.value) == pytest.approx(float(logit.value), abs=1e-5)
