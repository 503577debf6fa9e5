"""Pictures found by optimization over tiny random decoders, guided by captious-mini."""

import numpy as np
import pytest

from captious.errors import InputError
from captious.models._guided import load_guided
from captious.models.painters import PainterOptions, Prompt, load_painter

TEXT = "a red ball in the snow"


def likeness(painter, pixels):
    from PIL import Image

    from captious.models.mini import load_mini

    encoder = load_mini("captious-mini")
    seen = encoder.image_features(encoder.prepare(Image.fromarray(pixels))[None])[0]
    said = encoder.text_features(encoder.tokenize([TEXT]).ids)[0]
    return float(seen @ said / np.linalg.norm(seen) / np.linalg.norm(said))


@pytest.mark.parametrize("kind", ["kl", "vq"])
def test_optimization_brings_the_picture_nearer_to_the_text(decoders, kind):
    found = {}
    for steps in (1, 12):
        painter = load_guided(str(decoders / kind), PainterOptions(steps=steps, guide="captious-mini"), cutouts=0)
        batches = list(painter.paint([Prompt(TEXT, 0), Prompt(TEXT, 1)]))
        assert [batch.indices for batch in batches] == [[0], [1]] and not any(batch.codes.any() for batch in batches)
        assert (batches[0].pixels != batches[1].pixels).any()
        found[steps] = np.mean([likeness(painter, batch.pixels[0]) for batch in batches])
    assert found[12] > found[1]


def test_the_same_seed_gives_the_same_picture_alone_or_with_others(decoders):
    painter = load_guided(str(decoders / "vq"), PainterOptions(steps=2, guide="captious-mini"), cutouts=2)
    first, second = painter.paint([Prompt(TEXT, 0), Prompt(TEXT, 1)])
    (alone,) = painter.paint([Prompt(TEXT, 1)])
    assert (alone.pixels == second.pixels).all() and painter.shape == first.pixels.shape[1:]
    assert f"guide=captious-mini#{painter.guide.fingerprint},steps=2" in painter.settings


def test_what_does_not_fit(decoders, pipeline):
    with pytest.raises(InputError, match="is a UNet2DConditionModel, expected VQModel or AutoencoderKL"):
        load_painter(f"guided:{pipeline / 'unet'}", PainterOptions(guide="captious-mini"))
    with pytest.raises(InputError, match="size is 15, expected a multiple of 2"):
        load_painter(f"guided:{decoders / 'kl'}", PainterOptions(guide="captious-mini", size=15))
    with pytest.raises(InputError, match="no such folder"):
        load_painter("guided:nowhere at all", PainterOptions(guide="captious-mini"))


def test_no_decoder_and_no_network(monkeypatch):
    """Diffusers says of a hub that does not answer that the file is not there."""
    hub = pytest.importorskip("huggingface_hub")

    def unreachable(*arguments, **options):
        raise ConnectionError

    monkeypatch.setattr(hub.HfApi, "model_info", unreachable)
    with pytest.raises(InputError, match="not on this machine, and the hub cannot be reached"):
        load_painter("guided:owner/no-such-decoder", PainterOptions(guide="captious-mini"))
