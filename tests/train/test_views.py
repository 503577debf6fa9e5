"""Views of training images: drawn from number and epoch, applied as geometry says."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from captious.train._data import apply_views, draw_views

PLAIN = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]


def picture():
    """Four quarters with a value each: 1 2 above, 3 4 below."""
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).repeat_interleave(8, 0).repeat_interleave(8, 1)
    return values.expand(1, 3, 16, 16)


def test_a_view_depends_on_the_image_and_the_epoch_alone():
    rows = np.arange(40)
    views = draw_views(rows, 0.5, seed=1, epoch=2)
    np.testing.assert_array_equal(views[[7, 3]], draw_views(np.array([7, 3]), 0.5, seed=1, epoch=2))
    for other in (draw_views(rows, 0.5, seed=1, epoch=3), draw_views(rows, 0.5, seed=2, epoch=2)):
        assert (other != views).mean() > 0.9


def test_a_crop_keeps_its_share_of_the_area_and_stays_inside():
    width, height, across, down, contrast, light = draw_views(np.arange(2000), 0.5, seed=0, epoch=0).T
    area = np.abs(width) * height
    assert 0.49 < area.min() < 0.6
    assert area.max() <= 1
    assert (np.abs(across) + np.abs(width) <= 1 + 1e-6).all()
    assert (np.abs(down) + height <= 1 + 1e-6).all()
    assert 0.45 < (width < 0).mean() < 0.55
    assert (contrast >= 0.8).all() and (contrast <= 1.2).all() and (np.abs(light) <= 0.2).all()


def test_the_plain_view_changes_nothing():
    torch.testing.assert_close(apply_views(picture(), torch.tensor([PLAIN])), picture())


def test_mirror_crop_and_light_by_hand():
    mirrored = apply_views(picture(), torch.tensor([[-1.0, *PLAIN[1:]]]))
    torch.testing.assert_close(mirrored, picture().flip(-1))
    # Half the width and height around the middle of the upper left quarter: nothing but its value.
    corner = apply_views(picture(), torch.tensor([[0.4, 0.4, -0.5, -0.5, 1.0, 0.0]]))
    torch.testing.assert_close(corner, torch.full((1, 3, 16, 16), 1.0))
    # The mean of the picture is 2.5: 1 becomes (1 − 2.5) · 2 + 2.5 + 0.5 = 0.
    lit = apply_views(picture(), torch.tensor([[1.0, 1.0, 0.0, 0.0, 2.0, 0.5]]))
    torch.testing.assert_close(lit[0, 0, 0, 0], torch.tensor(0.0))
