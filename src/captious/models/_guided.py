"""Pictures found by optimization: a decoder's latent is moved until an encoder sees the text in the picture.

The way of VQGAN+CLIP and dVAE+CLIP, over a ``diffusers`` ``VQModel`` or ``AutoencoderKL``, with plain Adam. Pictures
are optimized one by one: a batch rounds differently, and hundreds of steps would make different pictures of that.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious._core.types import Bools
from captious.errors import InputError
from captious.models._diffusion import compute_fingerprint, import_diffusers, open_model
from captious.models._model_folders import read_json
from captious.models.devices import quiet
from captious.models.encoder import count_tokens
from captious.models.loading import load_trainable
from captious.models.painters import PaintedBatch, PainterOptions, Prompt, as_pixels
from captious.options import get_runtime

if TYPE_CHECKING:
    import torch

    from captious.models.clip import TorchEncoder


GUIDE = "openai/clip-vit-base-patch32"
STEPS, RATE, CUTOUTS = 200, 0.1, 16
DECODERS = ("VQModel", "AutoencoderKL")


@dataclass(eq=False)
class Guided:
    """A :class:`captious.models.painters.Painter` guided by an encoder, made by :func:`load_guided`."""

    name: str
    fingerprint: str
    settings: str
    shape: tuple[int, int, int]
    decoder: Any = field(repr=False)
    guide: TorchEncoder = field(repr=False)
    steps: int
    cutouts: int
    """Random squares of the picture that the guide sees in every step, besides the whole picture."""
    cache_pictures: bool = True

    def exceeds_limit(self, texts: Sequence[str]) -> Bools:
        """Return a mask of the texts that are longer than the guide's token limit."""
        return count_tokens(self.guide, texts) > self.guide.limit

    def paint(self, prompts: Sequence[Prompt]) -> Iterator[PaintedBatch]:
        """Optimize one picture after another."""
        for index, prompt in enumerate(prompts):
            pixels, codes = as_pixels(self._optimize_picture(prompt)[None])
            yield PaintedBatch([index], pixels, codes)

    def _optimize_picture(self, prompt: Prompt) -> Any:
        import torch

        draws = torch.Generator("cpu").manual_seed(prompt.seed)
        with torch.no_grad():
            ids = torch.as_tensor(self.guide.tokenize([prompt.text]).ids, device=self.guide.device)
            goal = torch.nn.functional.normalize(self.guide.text_tensor(ids), dim=-1)
        latent = self._draw_start(draws).requires_grad_()
        optimizer = torch.optim.Adam([latent], lr=RATE)
        for _ in range(self.steps):
            optimizer.zero_grad()
            views = self.guide.image_tensor(self._make_views(self._decode_latent(latent), draws))
            loss = -(torch.nn.functional.normalize(views, dim=-1) @ goal.T).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            return self._decode_latent(latent)[0].permute(1, 2, 0).float().cpu().numpy()

    def _draw_start(self, draws: torch.Generator) -> torch.Tensor:
        """Draw random codes of the codebook, or normal noise if the decoder has no codebook."""
        import torch

        config, device = self.decoder.config, self.guide.device
        side = self.shape[0] // 2 ** (len(config.block_out_channels) - 1)
        if not hasattr(self.decoder, "quantize"):
            return torch.randn((1, config.latent_channels, side, side), generator=draws).to(device)
        codes = self.decoder.quantize.embedding.weight.detach()
        chosen = torch.randint(len(codes), (side * side,), generator=draws)
        start: torch.Tensor = codes[chosen.to(device)].T.reshape(1, -1, side, side).contiguous()
        return start

    def _decode_latent(self, latent: torch.Tensor) -> torch.Tensor:
        """Decode a latent to pictures with values from 0 to 1."""
        scaled = latent if hasattr(self.decoder, "quantize") else latent / self.decoder.config.scaling_factor
        pictures: torch.Tensor = (self.decoder.decode(scaled).sample / 2 + 0.5).clamp(0, 1)
        return pictures

    def _make_views(self, picture: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
        """Return the whole picture and random squares of it, resized and normalized for the guide."""
        import torch

        side, crop = picture.shape[-1], self.guide.preparation.crop
        views = [picture]
        for _ in range(self.cutouts):
            share, left, top = torch.rand(3, generator=draws).tolist()
            width = max(1, round(side * (0.5 + 0.5 * share)))
            x, y = int(left * (side - width + 1)), int(top * (side - width + 1))
            views.append(picture[..., y : y + width, x : x + width])
        resized = [
            torch.nn.functional.interpolate(one, (crop, crop), mode="bicubic", antialias=True, align_corners=False)
            for one in views
        ]
        return self.guide.normalize(torch.cat(resized))


def load_guided(name: str, options: PainterOptions, cutouts: int = CUTOUTS) -> Guided:
    """Load the painter over a decoder by folder or hub id."""
    options.refuse(f"guided:{name}", "steps", "size", "guide")
    library = import_diffusers()

    def load(path: str, offline: bool) -> Any:
        kind = _read_decoder_class(library, path, offline)
        if kind not in DECODERS:
            raise InputError(f"painter 'guided:{name}': is a {kind}, expected {' or '.join(DECODERS)}")
        with quiet():
            return getattr(library, kind).from_pretrained(path, local_files_only=offline)

    decoder = open_model(name, "config.json", load)
    weights = options.guide or GUIDE
    guide = load_trainable(weights, get_runtime().device)
    decoder.to(guide.device)
    for module in (decoder, guide.module):
        module.eval().requires_grad_(False)
    times = 2 ** (len(decoder.config.block_out_channels) - 1)
    side = options.size or int(decoder.config.sample_size)
    if side % times:
        raise InputError(f"painter 'guided:{name}': size is {side}, expected a multiple of {times}")
    steps = options.steps or STEPS
    settings = f"guide={guide.name}#{guide.fingerprint},steps={steps},rate={RATE:g},cutouts={cutouts},size={side}"
    mark = compute_fingerprint({"decoder": decoder}, settings)
    painter_name = f"guided:{Path(name).name if Path(name).exists() else name}"
    return Guided(painter_name, mark, settings, (side, side, 3), decoder, guide, steps, cutouts)


def _read_decoder_class(library: Any, path: str, offline: bool) -> str:
    """Read the class name from the configuration of a folder or a repository."""
    if Path(path).is_dir():
        return str(read_json(Path(path) / "config.json").get("_class_name", "model whose config.json names no class"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # diffusers' own use of the hub's package
        config = library.AutoencoderKL.load_config(path, local_files_only=offline)
    return str(config.get("_class_name", "AutoencoderKL"))
