"""Contrastive objectives: CLIP, with several captions and soft targets, and LongCLIP; and the models they start from.

All similarities are cosines times exp(logit scale), about 100, as in the published code.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from captious._core.random import draw_for_rows
from captious._core.types import Ints
from captious.errors import InputError, require
from captious.options import Runtime, using
from captious.train import distributed
from captious.train._data import Example, TokenLists, tokenize_texts
from captious.train._objective import Method, Objective, TrainingBatch, Validation
from captious.train._schedule import Rows
from captious.train._towers import Towers, build_towers, lock, normalize, split_tower
from captious.train._validation import RetrievalValidation

torch = require("torch", "clip")

Tensor = Any


def contrast(
    images: Tensor, texts: Tensor, scale: Tensor, *, both: bool = True, gather: bool = False, smoothing: float = 0.0
) -> Tensor:
    """Compute the cross-entropy of each text over the batch's images and, with ``both``, of each image over the texts.

    ``images`` and ``texts`` are unit vectors of the same rows. With ``gather`` the candidates come from all processes.
    """
    first = distributed.get_rank() * len(images) if gather else 0
    target = torch.arange(first, first + len(images), device=images.device)
    entropy = torch.nn.functional.cross_entropy
    to_image = scale * texts @ distributed.gather_rows(images, gather).T
    loss = entropy(to_image, target, label_smoothing=smoothing)
    if not both:
        return loss
    to_text = scale * images @ distributed.gather_rows(texts, gather).T
    return (loss + entropy(to_text, target, label_smoothing=smoothing)) / 2


def project_images(images: Tensor, components: int, *, gather: bool = False) -> Tensor:
    """Project image vectors onto the batch's first principal components, for matching short captions (LongCLIP).

    The mean is kept. The components are treated as constants: gradients flow only through the vectors, because those of
    an eigenvector are undefined if eigenvalues coincide. The result is not normalized.
    """
    every_image = distributed.gather_rows(images, gather)
    with torch.autocast(images.device.type, enabled=False):
        mean = every_image.mean(dim=0)
        centered = (every_image - mean).detach()
        # Both Gram matrices have the same leading directions; decompose the smaller one.
        if len(centered) < centered.shape[1]:
            values, vectors = torch.linalg.eigh(centered @ centered.T)
            # n centered rows span at most n - 1 directions: drop those with an eigenvalue of about 0.
            length = torch.where(values > 1e-6 * values[-1], values.clamp(min=0).rsqrt(), 0)
            basis = (centered.T @ (vectors * length))[:, -components:]
        else:
            _, vectors = torch.linalg.eigh(centered.T @ centered)
            basis = vectors[:, -components:]
        return (images - mean) @ basis @ basis.T + mean


# Keys that separate the random draws by purpose.
_CAPTION, _CAPTIONS = 21, 41
CHUNK = 256
# Default initial model of LongCLIP.
LONGCLIP_BASE = "openai/clip-vit-base-patch32"


@dataclass
class ClipContrast(Objective):
    """CLIP's symmetric contrastive objective, with one caption per image, drawn anew in each epoch."""

    towers: Towers
    captions: TokenLists
    first: Ints
    images: Ints
    seed: int = 0
    gather: bool = True
    most_scale: float = 4.6052
    """Upper bound of the logit scale: ln 100, as in CLIP's training."""

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> TrainingBatch:
        """Prepare images, each with its captions of this epoch."""
        chosen = self.chosen(rows, epoch)
        texts = [[self.towers.frame.around(self.captions[caption])] for caption in chosen.ravel().tolist()]
        images = self.towers.make_image_batch(self.images[rows], epoch)
        return TrainingBatch(images, self.towers.make_text_batch(texts), (rows, chosen))

    def chosen(self, rows: Rows, epoch: int) -> Ints:
        """Draw one caption for each example, as a column."""
        counts = self.first[rows + 1] - self.first[rows]
        captions = self.first[rows] + (draw_for_rows(rows, self.seed, epoch, _CAPTION) * counts).astype(np.int64)
        return captions[:, None]

    def parts(self, batch: TrainingBatch) -> dict[str, Tensor]:
        images = normalize(self.towers.images(batch.images))
        texts = normalize(self.towers.texts(batch.texts))
        return {"loss": contrast(images, texts, self.towers.scale, gather=self.gather)}

    def after_step(self) -> None:
        """Clamp the logit scale."""
        with torch.no_grad():
            self.towers.encoder.logit_scale.clamp_(max=self.most_scale)


class ContrastiveObjective(Objective):
    """An objective with several texts per image; several batches are encoded together, with separate losses."""

    texts_per_image: ClassVar[int]
    joins = True

    def parts(self, batch: TrainingBatch) -> dict[str, Tensor]:
        images = normalize(self.towers.images(batch.images)).chunk(batch.joined)
        texts = normalize(self.towers.texts(batch.texts)).unflatten(0, (-1, self.texts_per_image)).chunk(batch.joined)
        losses = [self.losses(*pair) for pair in zip(images, texts, strict=True)]
        return {key: sum(parts[key] for parts in losses) / len(losses) for key in losses[0]}

    @abstractmethod
    def losses(self, images: Tensor, texts: Tensor) -> dict[str, Tensor]:
        """Compute the losses of one batch, given unit vectors: images × dimensions, images × texts × dimensions."""


@dataclass
class LongShort(ContrastiveObjective):
    """LongCLIP's objective: the long caption with the image, its first sentence with the image's coarse features.

    Coarse features are the projection on the first principal components of the batch. Both directions count, with label
    smoothing.
    """

    towers: Towers
    long: TokenLists
    short: TokenLists
    images: Ints
    gather: bool = True
    components: int = 32
    smoothing: float = 0.1
    texts_per_image = 2

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> TrainingBatch:
        """Prepare images, each with its caption and the caption's first sentence."""
        around = self.towers.frame.around
        texts = [[around(self.long[row]), around(self.short[row])] for row in rows.tolist()]
        return TrainingBatch(
            self.towers.make_image_batch(self.images[rows], epoch), self.towers.make_text_batch(texts), joined=count
        )

    def losses(self, images: Tensor, texts: Tensor) -> dict[str, Tensor]:
        long, short = texts.unbind(1)
        coarse = project_images(images, self.components, gather=self.gather)
        scale, gather, smoothing = self.towers.scale, self.gather, self.smoothing
        parts = {
            "long": contrast(images, long, scale, gather=gather, smoothing=smoothing),
            "short": contrast(coarse, short, scale, gather=gather, smoothing=smoothing),
        }
        return {"loss": parts["long"] + parts["short"], **parts}


@dataclass
class SoftContrast(ClipContrast):
    """CLIP's objective with ``per_image`` captions of each image as positives; ``soften`` is the weight of soft
    targets.

    ``sharpness`` multiplies the cosines of captions before their softmax.
    """

    per_image: int = 2
    soften: float = 0.0
    sharpness: float = 10.0
    _texts: Tensor = field(default=None, init=False, repr=False)
    _images: Tensor = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.soften:
            self._texts = self._encode_captions()
            owner = torch.from_numpy(np.repeat(np.arange(len(self)), np.diff(self.first))).to(self._texts.device)
            sums = torch.zeros(len(self), self._texts.shape[1], device=self._texts.device)
            self._images = normalize(sums.index_add_(0, owner, self._texts))

    def chosen(self, rows: Rows, epoch: int) -> Ints:
        """Draw captions for each example, without repetition if it has enough."""
        counts = self.first[rows + 1] - self.first[rows]
        columns = np.arange(max(int(counts.max()), 1))
        captions = self.first[rows][:, None] + columns
        keys = np.where(columns < counts[:, None], draw_for_rows(captions, self.seed, epoch, _CAPTIONS), 2.0)
        order = np.argsort(keys, axis=1)
        # An example with fewer captions repeats them in the same order.
        turns = np.arange(self.per_image) % counts[:, None]
        indices: Ints = np.take_along_axis(captions, np.take_along_axis(order, turns, axis=1), axis=1)
        return indices

    def parts(self, batch: TrainingBatch) -> dict[str, Tensor]:
        images = normalize(self.towers.images(batch.images))
        texts = normalize(self.towers.texts(batch.texts))
        every_image, every_text = (distributed.gather_rows(each, self.gather) for each in (images, texts))
        rows, chosen = batch.extra
        to_text, to_image = self._compute_targets(rows, chosen, images.device)
        scale = self.towers.scale
        entropy = torch.nn.functional.cross_entropy
        loss = entropy(scale * images @ every_text.T, to_text) + entropy(scale * texts @ every_image.T, to_image)
        return {"loss": loss / 2}

    def _compute_targets(self, rows: Rows, chosen: Ints, device: Any) -> tuple[Tensor, Tensor]:
        """Return the target distributions of images over the captions of all processes, and of captions over images."""
        share = self.per_image
        first = distributed.get_rank() if self.gather else 0
        world = distributed.get_world_size() if self.gather else 1
        own = torch.arange(len(rows), device=device) + first * len(rows)
        right = torch.nn.functional.one_hot(own, world * len(rows)).float()
        to_text, to_image = right.repeat_interleave(share, 1) / share, right.repeat_interleave(share, 0)
        if not self.soften:
            return to_text, to_image
        images = self._images[torch.from_numpy(rows).to(device)]
        texts = self._texts[torch.from_numpy(chosen.ravel()).to(device)]
        near = self.sharpness * images @ distributed.gather_rows(texts, self.gather).T
        far = self.sharpness * texts @ distributed.gather_rows(images, self.gather).T
        keep = 1 - self.soften
        return keep * to_text + self.soften * near.softmax(1), keep * to_image + self.soften * far.softmax(1)

    def _encode_captions(self) -> Tensor:
        """Compute unit vectors of all captions with the current text tower; cache the features if it is locked."""
        encoder, frame = self.towers.encoder, self.towers.frame
        below, _ = split_tower(encoder, "text")
        encoder.module.eval()
        order = np.argsort(np.diff(self.captions.offsets), kind="stable")  # texts of similar length need little padding
        vectors = []
        with torch.no_grad():
            for at in range(0, len(order), CHUNK):
                texts = [frame.around(self.captions[caption]) for caption in order[at : at + CHUNK].tolist()]
                features = below(torch.from_numpy(frame.stack(texts)).to(encoder.device)).float()
                if "text" in self.towers.locked:
                    self.towers.add_text_features(texts, features)
                vectors.append(normalize(features))
        return torch.cat(vectors)[torch.from_numpy(np.argsort(order)).to(encoder.device)]


class EncoderMethod(Method):
    """A training of an encoder with an image and a text tower."""

    def start(self, examples: Sequence[Example]) -> Any:
        """Load a new encoder, and lock the towers that are not trained."""
        encoder = self.open_encoder(examples)
        lock(encoder, self.job.settings.lock)
        return encoder

    def open_encoder(self, examples: Sequence[Example]) -> Any:
        """Load the initial encoder."""
        return make_encoder(self.job.training.base, self.job.runtime.device)

    def towers(self, examples: Sequence[Example], encoder: Any) -> tuple[Towers, Ints]:
        """Build the towers with the images of the examples; return them and the image of each example."""
        towers, images, note = build_towers(examples, encoder, self.job)
        self.notes.append(note)
        return towers, images

    def report_cut_texts(self, texts: TokenLists, encoder: Any) -> TokenLists:
        """Return the texts; add a note on those longer than the encoder's limit."""
        cut = int((texts.lengths > np.diff(texts.offsets)).sum())
        if cut:
            self.notes.append(f"{cut} of {len(texts)} captions are longer than {encoder.limit} tokens and are cut")
        return texts

    def validation(self, checks: Sequence[Example], model: Any) -> Validation:
        """Make the validation by retrieval recall on the validation images."""
        towers, images, _ = build_towers(checks, model, self.job)
        return RetrievalValidation(
            towers, *_tokenize_captions([self.captions(example) for example in checks], model), images
        )

    def captions(self, example: Example) -> Sequence[str]:
        """Return the captions of an example that are retrieved."""
        return example.captions


class ClipMethod(EncoderMethod):
    """The training of ``captious train clip``."""

    merges = True

    def open_encoder(self, examples: Sequence[Example]) -> Any:
        """Load an existing model, or make a new small one or new heads on two towers."""
        options = self.job.options
        texts = [text for one in examples for text in (*one.captions, *one.units, *one.wrong_units)]
        where, seed = self.job.runtime.device, self.job.settings.seed
        return make_encoder(
            self.job.training.base, where, options.new, options.towers, options.heads, texts=texts, seed=seed
        )

    def objective(self, examples: Sequence[Example], model: Any) -> Objective:
        """Make the objective with one caption per image, or several."""
        options, settings = self.job.options, self.job.settings
        towers, images = self.towers(examples, model)
        captions, first = _tokenize_captions([example.captions for example in examples], model)
        shared = (towers, self.report_cut_texts(captions, model), first, images, settings.seed, settings.gather)
        if options.captions_per_image == 1 and not options.soften:
            return ClipContrast(*shared)
        return SoftContrast(*shared, per_image=options.captions_per_image, soften=options.soften)


class LongClipMethod(EncoderMethod):
    """The training of ``captious train longclip``."""

    def open_encoder(self, examples: Sequence[Example]) -> Any:
        """Load a CLIP and extend its positions to 248 tokens."""
        encoder = stretch_positions(make_encoder(self.job.training.base or LONGCLIP_BASE, self.job.runtime.device))
        if self.job.options.logit_scale is not None:
            encoder.logit_scale.data.fill_(self.job.options.logit_scale)
        return encoder

    def objective(self, examples: Sequence[Example], model: Any) -> Objective:
        """Make the objective with long captions and their first sentences."""
        options = self.job.options
        towers, images = self.towers(examples, model)
        long = self.report_cut_texts(tokenize_texts(model, [example.captions[0] for example in examples]), model)
        short = tokenize_texts(model, [cut_first_sentence(example.captions[0]) for example in examples])
        return LongShort(towers, long, short, images, self.job.settings.gather, options.components, options.smoothing)

    def captions(self, example: Example) -> Sequence[str]:
        """Return the long caption."""
        return example.captions[:1]


def cut_first_sentence(caption: str) -> str:
    """Return the caption up to its first full stop and space, as in LongCLIP.

    >>> cut_first_sentence("A dog runs. It is brown.")
    'A dog runs'
    """
    return caption.split(". ", 1)[0]


def _tokenize_captions(lists: Sequence[Sequence[str]], encoder: Any) -> tuple[TokenLists, Ints]:
    """Tokenize all captions; return them and the index of the first of each example."""
    first = np.concatenate([[0], np.cumsum([len(texts) for texts in lists])]).astype(np.int64)
    return tokenize_texts(encoder, [text for texts in lists for text in texts]), first


def make_encoder(
    base: str | None,
    device: str,
    new: str | None = None,
    towers: tuple[str, str] | None = None,
    heads: str = "residual",
    *,
    texts: Iterable[str] = (),
    seed: int = 0,
) -> Any:
    """Return a trainable encoder in fp32: ``base`` loaded, a ``new`` one, or new heads on two ``towers``.

    The tokenizer of a new one is built from the words of ``texts``.
    """
    if [base, new, towers].count(None) != 2:
        raise InputError("pass one of base=... (a folder, file or hub id), new='mini', or towers=... (image and text)")
    if towers is not None:
        from captious.models.dual import DualHeads, new_dual

        return new_dual(*towers, DualHeads(heads=heads), seed=seed, device=device)
    with using(Runtime(device=device, precision="fp32")):
        if base is not None:
            from captious.models.loading import load_trainable

            return load_trainable(base, device)
        from captious.models.mini import make_mini

        return make_mini(texts, device=device, seed=seed)


def stretch_positions(encoder: Any) -> Any:
    """Extend the encoder from 77 to 248 tokens; one with as many already is returned unchanged."""
    from captious.models.checkpoints import stretch
    from captious.models.clip import wrap

    if encoder.limit >= 248:  # also two towers whose text model reads long texts, such as MiniLM
        return encoder
    config = encoder.module.config
    if getattr(config, "model_type", "") != "clip":
        raise InputError(f"{encoder.name}: is not a CLIP model, whose table of positions could be stretched")
    module = encoder.module
    tower = getattr(module.text_model, "text_model", module.text_model)
    old = tower.embeddings.position_embedding.weight.detach().cpu().numpy()
    table = torch.from_numpy(stretch(old).astype(np.float32))
    tower.embeddings.position_embedding = torch.nn.Embedding.from_pretrained(table, freeze=False)
    tower.embeddings.register_buffer("position_ids", torch.arange(len(table)).expand((1, -1)), persistent=False)
    config.text_config.max_position_embeddings = tower.config.max_position_embeddings = len(table)
    tokenizer = replace(encoder.tokenizer, limit=len(table))
    return wrap(module, tokenizer, encoder.preparation, encoder.name, str(encoder.device), "fp32")
