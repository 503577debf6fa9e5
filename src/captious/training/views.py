"""Another view of a training image each epoch: a crop, perhaps mirrored, a little lighter or darker.

Drawn from the image's number and the epoch alone, so a training that resumes sees what it would have seen; applied on
the device to whole batches. Captions that say left or right are then wrong half of the time, which is rare in what
people write; hue is left alone, since they do write of colours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from captious.extras import require
from captious.training.schedule import Rows, draws

Views = npt.NDArray[np.float32]
_TAG = 31
STRETCH, LIGHT = 0.4, 0.2


def drawn(rows: Rows, strength: float, seed: int, epoch: int) -> Views:
    """One row per image: width, height, centre across, centre down, contrast, brightness.

    ``strength`` is the share of the area that may be lost; a negative width mirrors.

    >>> width, height, across, down, _, _ = drawn(np.array([7]), 0.5, seed=0, epoch=1)[0]
    >>> bool(0.5 < abs(width) <= 1 and 0.5 < height <= 1 and abs(across) <= 1 - abs(width))
    True
    """
    area, shape, across, down, mirror, contrast, light = (
        draws(rows, seed, epoch, _TAG + number) for number in range(7)
    )
    kept, stretch = 1 - strength * area, np.exp((shape - 0.5) * STRETCH)
    width, height = np.minimum(np.sqrt(kept * stretch), 1), np.minimum(np.sqrt(kept / stretch), 1)
    columns = (
        np.where(mirror < 0.5, -width, width),
        height,
        (2 * across - 1) * (1 - width),
        (2 * down - 1) * (1 - height),
        1 + (2 * contrast - 1) * LIGHT,
        (2 * light - 1) * LIGHT,
    )
    return np.stack(columns, axis=1).astype(np.float32)


def seen(pixels: Any, views: Any) -> Any:
    """Normalised pixels, n × 3 × height × width, through their views."""
    torch = require("torch", "clip")
    sample = torch.nn.functional
    width, height, across, down, contrast, light = views.to(pixels.device, pixels.dtype).unbind(1)
    none = torch.zeros_like(width)
    maps = torch.stack([torch.stack([width, none, across], 1), torch.stack([none, height, down], 1)], 1)
    grid = sample.affine_grid(maps, list(pixels.shape), align_corners=False)
    cut = sample.grid_sample(pixels, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    middle = cut.mean((1, 2, 3), keepdim=True)
    return (cut - middle) * contrast.view(-1, 1, 1, 1) + middle + light.view(-1, 1, 1, 1)
