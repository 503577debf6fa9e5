"""Pictures found by optimization: the free variables of a generator are moved until an encoder sees the text in them.

The way of VQGAN+CLIP, dVAE+CLIP and BigGAN+CLIP, over the generators of `captious.models._generators`, with plain Adam.
Pictures are optimized one by one: a batch rounds differently, and hundreds of steps would make different pictures of
that.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious._core.types import Bools
from captious.errors import InputError
from captious.models import _generators as generators
from captious.models._diffusion import compute_fingerprint, import_diffusers, open_model
from captious.models._generators import Generator
from captious.models._model_folders import read_json
from captious.models.devices import quiet
from captious.models.encoder import count_tokens
from captious.models.hub import find_local
from captious.models.loading import load_trainable
from captious.models.painters import PaintedBatch, PainterOptions, Prompt, as_pixels
from captious.options import get_runtime

if TYPE_CHECKING:
    import torch

    from captious.models.clip import TorchEncoder


GUIDE = "openai/clip-vit-base-patch32"
STEPS = 200
DECODERS = ("VQModel", "AutoencoderKL")
# Pictures of DALL-E's dVAE, in pixels.
DALLE_SIDE = 256


@dataclass(eq=False)
class Guided:
    """A :class:`captious.models.painters.Painter` guided by an encoder, made by :func:`load_guided`."""

    name: str
    fingerprint: str
    settings: str
    shape: tuple[int, int, int]
    generator: Generator = field(repr=False)
    guide: TorchEncoder = field(repr=False)
    steps: int
    cutouts: int
    """Random squares of the picture that the guide sees in every step."""
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

        draws, generator = torch.Generator("cpu").manual_seed(prompt.seed), self.generator
        with torch.no_grad():
            ids = torch.as_tensor(self.guide.tokenize([prompt.text]).ids, device=self.guide.device)
            goal = torch.nn.functional.normalize(self.guide.text_tensor(ids), dim=-1)
        variables = [start.to(self.guide.device).requires_grad_() for start in generator.draw_start(draws)]
        averages = [variable.detach().clone() for variable in variables]
        optimizer = torch.optim.Adam(variables, lr=generator.rate)
        for step in range(self.steps):
            optimizer.zero_grad()
            picture = generator.make_picture(variables, draws, step / self.steps)
            views = self.guide.image_tensor(self._make_views(picture, draws))
            likeness = (torch.nn.functional.normalize(views, dim=-1) @ goal.T).mean()
            loss = generator.compute_penalty(variables) - generator.weight * likeness
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if generator.decay:
                generators.update_average(averages, variables, generator.decay, step)
        with torch.no_grad():
            final = generator.make_picture(averages if generator.decay else variables, None, 1.0)
            return final[0].permute(1, 2, 0).float().cpu().numpy()

    def _make_views(self, picture: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
        """Return random squares of the picture, and the whole one, resized and normalized for the guide."""
        import torch

        side, crop, generator = picture.shape[-1], self.guide.preparation.crop, self.generator
        views = [picture] if generator.shows_whole or not self.cutouts else []
        for _ in range(self.cutouts):
            width = max(1, round(side * generator.draw_share(draws)))
            left, top = torch.rand(2, generator=draws).tolist()
            x, y = int(left * (side - width + 1)), int(top * (side - width + 1))
            views.append(picture[..., y : y + width, x : x + width])
        resized = [torch.nn.functional.interpolate(one, (crop, crop), **generator.resampling) for one in views]
        return self.guide.normalize(torch.cat(resized))


def load_guided(name: str, options: PainterOptions, cutouts: int | None = None) -> Guided:
    """Load the painter over a generator: a decoder by folder or hub id, a BigGAN-deep, or DALL-E's ``decoder.pkl``."""
    options.refuse(f"guided:{name}", "steps", "size", "guide")
    local = find_local(name)
    if local is not None and local.is_file():
        generator = _load_dalle(local, options)
    elif local is not None and (local / "decoder.pkl").is_file():
        generator = _load_dalle(local / "decoder.pkl", options)
    elif local is not None and "attention_layer_position" in _read_config(local):
        generator = _load_biggan(local, options)
    else:
        generator = _load_decoder(name, options)
    weights = options.guide or GUIDE
    guide = load_trainable(weights, get_runtime().device)
    generator.module.to(guide.device)
    for module in (generator.module, guide.module):
        module.eval().requires_grad_(False)
    steps, cutouts, side = options.steps or STEPS, generator.cutouts if cutouts is None else cutouts, generator.side
    settings = (
        f"guide={guide.name}#{guide.fingerprint},steps={steps},rate={generator.rate:g},cutouts={cutouts},size={side}"
    )
    mark = compute_fingerprint({"decoder": generator.module}, settings)
    painter_name = f"guided:{local.name if local is not None else name}"
    return Guided(painter_name, mark, settings, (side, side, 3), generator, guide, steps, cutouts)


def _load_dalle(path: Path, options: PainterOptions) -> Generator:
    decoder = generators.load_dalle_decoder(path)
    side = options.size or DALLE_SIDE
    if side % decoder.times:
        raise InputError(f"painter 'guided:{path}': size is {side}, expected a multiple of {decoder.times}")
    return generators.DalleDecoder(decoder, side)


def _load_biggan(folder: Path, options: PainterOptions) -> Generator:
    network = generators.load_biggan(folder)
    side = 4 * 2 ** sum(bool(doubles) for doubles, *_ in network.config["layers"])
    if options.size not in (None, side):
        raise InputError(f"painter 'guided:{folder}': size is {options.size}, this BigGAN gives {side}")
    return generators.BigGan(network, side)


def _load_decoder(name: str, options: PainterOptions) -> Generator:
    library = import_diffusers()

    def load(path: str, offline: bool) -> Any:
        kind = _read_decoder_class(library, path, offline)
        if kind not in DECODERS:
            raise InputError(f"painter 'guided:{name}': is a {kind}, expected {' or '.join(DECODERS)}")
        with quiet():
            return getattr(library, kind).from_pretrained(path, local_files_only=offline)

    decoder = open_model(name, "config.json", load)
    times = 2 ** (len(decoder.config.block_out_channels) - 1)
    side = options.size or int(decoder.config.sample_size)
    if side % times:
        raise InputError(f"painter 'guided:{name}': size is {side}, expected a multiple of {times}")
    return generators.DiffusersDecoder(decoder, side)


def _read_config(folder: Path) -> dict[str, Any]:
    return read_json(folder / "config.json") if (folder / "config.json").is_file() else {}


def _read_decoder_class(library: Any, path: str, offline: bool) -> str:
    """Read the class name from the configuration of a folder or a repository."""
    if Path(path).is_dir():
        return str(read_json(Path(path) / "config.json").get("_class_name", "model whose config.json names no class"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # diffusers' own use of the hub's package
        config = library.AutoencoderKL.load_config(path, local_files_only=offline)
    return str(config.get("_class_name", "AutoencoderKL"))
