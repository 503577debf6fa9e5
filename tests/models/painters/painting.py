"""A painter whose pictures a reader can work out."""

import numpy as np

from captious.models.painters import BLACK, NOT_FINITE, NOTHING, PaintedBatch

COLORS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}


class Mixer:
    """Paints the mean of the colors that a text names: under seed 0 plain, under other seeds half green.

    ``black`` and ``broken`` in a text give what is no picture; a text without a color says nothing.
    """

    name, settings, shape, cache_pictures = "mixer", "size=4", (4, 4, 3), True

    def __init__(self, fingerprint="0123456789ab", limit=6):
        self.fingerprint, self.limit, self.painted = fingerprint, limit, []

    def exceeds_limit(self, texts):
        return np.array([len(text.split()) > self.limit for text in texts], bool)

    def paint(self, prompts):
        for place, prompt in enumerate(prompts):
            self.painted.append(prompt)
            words = prompt.text.lower().split()
            code = next((code for word, code in (("black", BLACK), ("broken", NOT_FINITE)) if word in words), 0)
            named = [COLORS[word] for word in words if word in COLORS]
            code = code or (0 if named else NOTHING)
            color = np.mean(named, axis=0) if named and not code else np.zeros(3)
            if prompt.seed and not code:
                color = (color + np.array(COLORS["green"])) / 2
            pixels = np.broadcast_to((255 * color).round().astype(np.uint8), (1, 4, 4, 3))
            yield PaintedBatch([place], pixels, np.array([code], np.int32))


def make_mixer(options):
    """The painter as a metric names it: tests.models.painters.painting:make_mixer."""
    return Mixer()
