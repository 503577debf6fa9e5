"""Image generators that a guided painter optimizes: decoders of ``diffusers``, DALL-E's dVAE, and BigGAN-deep.

A generator draws the start of its free variables, turns them into a picture, and may add a penalty. The settings of
BigGAN are the defaults of Big Sleep. The loop of dVAE+CLIP was not published: here it is that of a decoder of
``diffusers`` over relaxed codes, whose temperature falls from 1 to 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from captious.errors import InputError, require
from captious.models._model_folders import fill, read_json, read_state

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "imagine")

functional = torch.nn.functional
Variables = list["torch.Tensor"]


@dataclass
class Generator:
    """A differentiable generator of one picture at a time."""

    module: Any
    side: int
    rate: ClassVar[float] = 0.1
    """The learning rate of Adam."""
    weight: ClassVar[float] = 1.0
    """The factor on the cosine of picture and text."""
    cutouts: ClassVar[int] = 16
    """Squares of the picture that the guide sees in each step."""
    decay: ClassVar[float] = 0.0
    """Decay of the moving average of the variables, from which the final picture is made; 0 for their last values."""
    shows_whole: ClassVar[bool] = True
    """Whether the guide sees the whole picture too."""
    resampling: ClassVar[Mapping[str, Any]] = {"mode": "bicubic", "antialias": True, "align_corners": False}

    def draw_start(self, draws: torch.Generator) -> Variables:
        """Draw the free variables from a generator on the CPU."""
        raise NotImplementedError

    def draw_share(self, draws: torch.Generator) -> float:
        """Draw the side of a cutout as a share of the picture's."""
        return 0.5 + 0.5 * float(torch.rand(1, generator=draws))

    def make_picture(self, variables: Variables, draws: torch.Generator | None, progress: float) -> torch.Tensor:
        """Return the picture, 1 × 3 × side × side from 0 to 1; ``draws`` is None for the final one."""
        raise NotImplementedError

    def compute_penalty(self, variables: Variables) -> torch.Tensor | float:
        """Compute the penalty that is added to the loss."""
        return 0.0


class DiffusersDecoder(Generator):
    """A ``VQModel`` or ``AutoencoderKL``: the free variable is the latent."""

    def draw_start(self, draws: torch.Generator) -> Variables:
        """Draw random codes of the codebook, or normal noise if the decoder has no codebook."""
        config, decoder = self.module.config, self.module
        side = self.side // 2 ** (len(config.block_out_channels) - 1)
        if not hasattr(decoder, "quantize"):
            return [torch.randn((1, config.latent_channels, side, side), generator=draws)]
        codes = decoder.quantize.embedding.weight.detach().cpu()
        chosen = torch.randint(len(codes), (side * side,), generator=draws)
        return [codes[chosen].T.reshape(1, -1, side, side).contiguous()]

    def make_picture(self, variables: Variables, draws: torch.Generator | None, progress: float) -> torch.Tensor:
        """Decode the latent."""
        (latent,) = variables
        scaled = latent if hasattr(self.module, "quantize") else latent / self.module.config.scaling_factor
        picture: torch.Tensor = (self.module.decode(scaled).sample / 2 + 0.5).clamp(0, 1)
        return picture


# DALL-E's dVAE maps pixels to the inside of the range: x · (1 − 2ε) + ε.
_EPSILON = 0.1
# Temperature of the relaxed codes in the first and in the last step.
_TEMPERATURES = (1.0, 0.1)


class DalleBlock(torch.nn.Module):
    """A residual block of the dVAE's decoder, named as its tensors are."""

    def __init__(self, width: int, out: int, hidden: int, gain: float) -> None:
        super().__init__()
        self.id_path = torch.nn.Conv2d(width, out, 1) if width != out else torch.nn.Identity()
        sizes = ((width, hidden, 1), (hidden, hidden, 3), (hidden, hidden, 3), (hidden, out, 3))
        convolutions = {
            f"conv_{number}": torch.nn.Conv2d(into, to, side, padding=side // 2)
            for number, (into, to, side) in enumerate(sizes, start=1)
        }
        self.res_path = torch.nn.ModuleDict(convolutions)
        self.gain = gain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the residual path, scaled by the gain."""
        hidden = x
        for convolution in self.res_path.values():
            hidden = convolution(hidden.relu())
        result: torch.Tensor = self.id_path(x) + self.gain * hidden
        return result


class DalleDecoderNetwork(torch.nn.Module):
    """The decoder of DALL-E's dVAE: a map of code weights to six channels, of which the first three are the picture."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        super().__init__()
        names = sorted({key.split(".")[1] for key in state if key.split(".")[1].startswith("group_")})
        blocks = [sorted({key.split(".")[2] for key in state if key.startswith(f"blocks.{name}.")}) for name in names]
        gain = 1 / sum(map(len, blocks)) ** 2
        width = len(state["blocks.input.b"])
        self.input = torch.nn.Conv2d(state["blocks.input.w"].shape[1], width, 1)
        groups = []
        for name, parts in zip(names, blocks, strict=True):
            group = []
            for part in parts:
                path = f"blocks.{name}.{part}.res_path"
                out, hidden = len(state[f"{path}.conv_4.b"]), len(state[f"{path}.conv_1.b"])
                group.append(DalleBlock(width, out, hidden, gain))
                width = out
            groups.append(torch.nn.Sequential(*group))
        self.groups = torch.nn.ModuleList(groups)
        self.output = torch.nn.Conv2d(width, len(state["blocks.output.conv.b"]), 1)

    @property
    def codes(self) -> int:
        """The number of codes of the vocabulary."""
        return int(self.input.weight.shape[1])

    @property
    def times(self) -> int:
        """The side of the picture for one code."""
        return int(2 ** (len(self.groups) - 1))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Decode weights of codes, n × codes × height × width, to pictures from 0 to 1."""
        x = self.input(codes)
        for number, group in enumerate(self.groups):
            x = functional.interpolate(x, scale_factor=2, mode="nearest") if number else x
            x = group(x)
        values = self.output(x.relu())[:, :3].sigmoid()
        picture: torch.Tensor = ((values - _EPSILON) / (1 - 2 * _EPSILON)).clamp(0, 1)
        return picture


def load_dalle_decoder(path: Path) -> DalleDecoderNetwork:
    """Load the decoder of a ``decoder.pkl``; only tensors of the file are read, its classes are never imported."""
    from captious.models.checkpoints import read_tensors

    tensors = {key: value.float() for key, value in read_tensors(path).items()}
    try:
        network = DalleDecoderNetwork(tensors)
    except (KeyError, IndexError, ZeroDivisionError):
        raise InputError(
            f"{path}: expected the decoder of DALL-E's dVAE, with tensors such as blocks.input.w"
        ) from None
    fill(network, {_rename_dalle(key): value for key, value in tensors.items()}, path)
    return network


def _rename_dalle(key: str) -> str:
    """Convert the name of a published tensor to the name in `DalleDecoderNetwork`.

    >>> _rename_dalle("blocks.group_2.block_1.res_path.conv_3.w"), _rename_dalle("blocks.output.conv.b")
    ('groups.1.0.res_path.conv_3.weight', 'output.bias')
    """
    parts = key.removeprefix("blocks.").split(".")
    parts[-1] = {"w": "weight", "b": "bias"}.get(parts[-1], parts[-1])
    if parts[0] == "output":
        return f"output.{parts[-1]}"
    for number, (name, plural) in enumerate((("group_", "groups."), ("block_", ""))):
        if number < len(parts) and parts[number].startswith(name):
            parts[number] = f"{plural}{int(parts[number].removeprefix(name)) - 1}"
    return ".".join(parts)


class DalleDecoder(Generator):
    """DALL-E's dVAE: the free variables are logits of the codes, relaxed by Gumbel's softmax."""

    def draw_start(self, draws: torch.Generator) -> Variables:
        """Draw normal logits."""
        side = self.side // self.module.times
        return [torch.randn((1, self.module.codes, side, side), generator=draws)]

    def make_picture(self, variables: Variables, draws: torch.Generator | None, progress: float) -> torch.Tensor:
        """Decode the relaxed codes; the final picture has the most likely code at each place."""
        (logits,) = variables
        if draws is None:
            codes = functional.one_hot(logits.argmax(1), logits.shape[1]).permute(0, 3, 1, 2).float()
        else:
            first, last = _TEMPERATURES
            uniform = torch.rand(logits.shape, generator=draws).clamp(1e-9, 1 - 1e-7)
            gumbel = -torch.log(-torch.log(uniform)).to(logits.device)
            temperature = first * (last / first) ** progress
            codes = ((logits + gumbel) / temperature).softmax(1)
        picture: torch.Tensor = self.module(codes)
        return picture


def _add_spectral_norm(module: torch.nn.Module, eps: float) -> torch.nn.Module:
    # The published tensors are weight_orig, weight_u and weight_v, which only the older function of torch knows.
    return torch.nn.utils.spectral_norm(module, eps=eps)


class BigGanNorm(torch.nn.Module):
    """Batch norm with stored statistics; scale and offset depend on the condition, if it has a width."""

    running_means: torch.Tensor
    running_vars: torch.Tensor

    def __init__(self, width: int, condition: int, statistics: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("running_means", torch.zeros(statistics, width))
        self.register_buffer("running_vars", torch.ones(statistics, width))
        if condition:
            self.scale = _add_spectral_norm(torch.nn.Linear(condition, width, bias=False), eps)
            self.offset = _add_spectral_norm(torch.nn.Linear(condition, width, bias=False), eps)
        else:
            self.weight = torch.nn.Parameter(torch.ones(width))
            self.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:
        """Normalize with the last statistics, which are those without truncation of the latents."""
        if condition is None:
            scale, offset = self.weight[None], self.bias[None]
        else:
            scale, offset = 1 + self.scale(condition), self.offset(condition)
        mean, variance = self.running_means[-1], self.running_vars[-1]
        factor = scale / (variance + self.eps).sqrt()
        result: torch.Tensor = x * factor[..., None, None] + (offset - mean * factor)[..., None, None]
        return result


class BigGanAttention(torch.nn.Module):
    """Self-attention over places, with keys and values pooled by two."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        eighth, half = width // 8, width // 2
        self.snconv1x1_theta = _add_spectral_norm(torch.nn.Conv2d(width, eighth, 1, bias=False), eps)
        self.snconv1x1_phi = _add_spectral_norm(torch.nn.Conv2d(width, eighth, 1, bias=False), eps)
        self.snconv1x1_g = _add_spectral_norm(torch.nn.Conv2d(width, half, 1, bias=False), eps)
        self.snconv1x1_o_conv = _add_spectral_norm(torch.nn.Conv2d(half, width, 1, bias=False), eps)
        self.gamma = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the attention of every place to all others."""
        query = self.snconv1x1_theta(x).flatten(2)
        key, value = (functional.max_pool2d(part(x), 2).flatten(2) for part in (self.snconv1x1_phi, self.snconv1x1_g))
        weights = (query.transpose(1, 2) @ key).softmax(-1)
        attended = (value @ weights.transpose(1, 2)).unflatten(2, x.shape[2:])
        result: torch.Tensor = x + self.gamma * self.snconv1x1_o_conv(attended)
        return result


class BigGanBlock(torch.nn.Module):
    """A residual block of BigGAN-deep: four conditional norms and convolutions through a quarter of the channels."""

    def __init__(self, width: int, out: int, condition: int, doubles: bool, statistics: int, eps: float) -> None:
        super().__init__()
        self.doubles, self.out = doubles, out
        middle = width // 4
        sizes = ((width, middle, 1), (middle, middle, 3), (middle, middle, 3), (middle, out, 1))
        for number, (into, to, side) in enumerate(sizes):
            setattr(self, f"bn_{number}", BigGanNorm(into, condition, statistics, eps))
            convolution = torch.nn.Conv2d(into, to, side, padding=side // 2)
            setattr(self, f"conv_{number}", _add_spectral_norm(convolution, eps))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Add the residual path; a narrower output keeps the first channels of the input."""
        hidden, kept = x, x[:, : self.out]
        for number in range(4):
            hidden = getattr(self, f"bn_{number}")(hidden, condition).relu()
            if number == 1 and self.doubles:
                hidden = functional.interpolate(hidden, scale_factor=2, mode="nearest")
            hidden = getattr(self, f"conv_{number}")(hidden)
        return hidden + (functional.interpolate(kept, scale_factor=2, mode="nearest") if self.doubles else kept)


class BigGanGenerator(torch.nn.Module):
    """The layers of BigGAN-deep, each with a condition of its own, as Big Sleep optimizes them."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width, condition, eps = int(config["channel_width"]), 2 * int(config["z_dim"]), float(config["eps"])
        statistics = int(config["n_stats"])
        self.gen_z = _add_spectral_norm(torch.nn.Linear(condition, 4 * 4 * 16 * width), eps)
        layers: list[torch.nn.Module] = []
        for number, (doubles, into, out) in enumerate(config["layers"]):
            if number == config["attention_layer_position"]:
                layers.append(BigGanAttention(width * into, eps))
            layers.append(BigGanBlock(width * into, width * out, condition, bool(doubles), statistics, eps))
        self.layers = torch.nn.ModuleList(layers)
        self.bn = BigGanNorm(width, 0, statistics, eps)
        self.conv_to_rgb = _add_spectral_norm(torch.nn.Conv2d(width, width, 3, padding=1), eps)

    def forward(self, conditions: torch.Tensor) -> torch.Tensor:
        """Return a picture from −1 to 1; the first condition is for the start, the others are for the blocks."""
        first, *rest = conditions[:, None]
        # The start has its channels last, as in the TensorFlow model that the weights come from.
        x = self.gen_z(first).unflatten(1, (4, 4, -1)).permute(0, 3, 1, 2)
        block_conditions = iter(rest)
        for layer in self.layers:
            x = layer(x, next(block_conditions)) if isinstance(layer, BigGanBlock) else layer(x)
        picture: torch.Tensor = self.conv_to_rgb(self.bn(x).relu())[:, :3].tanh()
        return picture


class BigGanNetwork(torch.nn.Module):
    """BigGAN-deep in the layout of ``pytorch-pretrained-biggan``."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.config = dict(config)
        self.embeddings = torch.nn.Linear(int(config["num_classes"]), int(config["z_dim"]), bias=False)
        self.generator = BigGanGenerator(config)

    def forward(self, latents: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return a picture from −1 to 1, given a row of latents and of class weights for each layer."""
        picture: torch.Tensor = self.generator(torch.cat([latents, self.embeddings(classes)], dim=1))
        return picture


_BIGGAN_KEYS = ("channel_width", "z_dim", "eps", "n_stats", "layers", "attention_layer_position", "num_classes")


def load_biggan(folder: Path) -> BigGanNetwork:
    """Load a folder with ``config.json`` and ``pytorch_model.bin`` (or ``model.safetensors``)."""
    config = read_json(folder / "config.json")
    missing = [key for key in _BIGGAN_KEYS if key not in config]
    if missing:
        raise InputError(f"{folder / 'config.json'}: has no {missing[0]}, expected the settings of a BigGAN-deep")
    network = BigGanNetwork(config)
    path = next(
        (folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).is_file()), None
    )
    if path is None:
        raise InputError(f"{folder}: has no pytorch_model.bin, expected a BigGAN-deep")
    known, state = network.state_dict(), read_state(path)
    # Files of older versions of torch also have each weight after its division by the spectral norm.
    fill(network, {key: value for key, value in state.items() if key in known}, path)
    return network


class BigGan(Generator):
    """BigGAN-deep with Big Sleep's loss: latents and class weights of every layer are free."""

    rate = 0.07
    weight = 100.0
    cutouts = 128
    decay = 0.99
    shows_whole = False
    resampling: ClassVar[Mapping[str, Any]] = {"mode": "nearest"}

    def draw_start(self, draws: torch.Generator) -> Variables:
        """Draw normal latents, and class logits around −3.9."""
        config = self.module.config
        rows = len(config["layers"]) + 1
        latents = torch.randn((rows, config["z_dim"]), generator=draws)
        logits = torch.randn((rows, config["num_classes"]), generator=draws) * 0.3 - 3.9
        return [latents, logits]

    def draw_share(self, draws: torch.Generator) -> float:
        """Draw the side of a cutout from a normal distribution, between .5 and .95."""
        return min(max(0.8 + 0.3 * float(torch.randn(1, generator=draws)), 0.5), 0.95)

    def make_picture(self, variables: Variables, draws: torch.Generator | None, progress: float) -> torch.Tensor:
        """Generate the picture of latents and class weights."""
        latents, logits = variables
        picture: torch.Tensor = (self.module(latents, logits.sigmoid()) + 1) / 2
        return picture

    def compute_penalty(self, variables: Variables) -> torch.Tensor:
        """Compute Big Sleep's penalty, which keeps latents normal and all but one class weight of a layer small.

        Latents are compared with a normal distribution by deviation, mean, skewness and kurtosis.
        """
        latents, logits = variables
        spread = (1 - latents.std(dim=1)).abs().mean() + latents.mean(dim=1).abs().mean()
        spread = spread + 4 * latents.square().mean().clamp(min=1)
        centered = latents - latents.mean(dim=1, keepdim=True)
        z = centered / centered.square().mean(dim=1, keepdim=True).sqrt()
        shape = ((z**4).mean(dim=1) - 3).abs() + (z**3).mean(dim=1).abs()
        weights = logits.sigmoid()
        small = weights.topk(weights.shape[1] - 1, dim=1, largest=False).values
        penalty: torch.Tensor = spread + shape.mean() + (50 * small).square().mean()
        return penalty


def update_average(averages: Variables, variables: Sequence[torch.Tensor], decay: float, step: int) -> None:
    """Move averages towards the variables after a step, counted from 0; they begin as the variables' start values.

    >>> averages = [torch.tensor([0.0])]
    >>> update_average(averages, [torch.tensor([1.0])], 0.5, 0)
    >>> round(averages[0].item(), 6)  # weights of the start and of the step: .25 and .5, divided by their sum
    0.666667
    """
    share = (1 - decay) / (1 - decay ** (step + 2))
    for average, variable in zip(averages, variables, strict=True):
        average.lerp_(variable.detach(), share)
