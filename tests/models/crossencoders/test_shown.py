"""Images for backbones that look for themselves: what cannot be used is known before the first batch, kept or not."""

import numpy as np
import pytest
from PIL import Image

from captious.io.images import UnreadableImage
from captious.models import image_text_matching as shown
from captious.models.image_text_matching import PixelStore


@pytest.mark.parametrize("room", [0, 10**9])
def test_broken_images_are_found_whether_images_are_kept_or_not(room, tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "get_free_memory", lambda: room)
    paths = [tmp_path / f"{number}.png" for number in range(40)]
    for number, path in enumerate(paths):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(path)
    paths[36].write_bytes(b"no picture")
    found = PixelStore.of([str(path) for path in paths], lambda picture: np.asarray(picture))
    assert list(found.faults) == [36] and bool(found.pixels) == bool(room)
    assert [int(pixels[0, 0, 0]) for pixels in found.take(np.array([39, 3]))] == [39, 3]
    with pytest.raises(UnreadableImage, match=r"36\.png"):
        found.take(np.array([36]))
