"""UMIC: a caption judged against its image by a model trained to rank true captions above wrong ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.statistic_rows import Scored, find_blank_texts, score_encoded_captions
from captious.models.crossencoders import ORIGINAL, Backbone, get_metric_name, load_backbone, read_marker, score_pairs
from captious.models.devices import resolve_precision
from captious.models.encoder import encoder_id
from captious.options import get_runtime


@dataclass(frozen=True)
class Umic(MeanMetric):
    """UMIC: how well a caption suits its image according to a learned ranking model, without references.

    The model gives a logit to image and caption together; the score is its sigmoid, from 0 to 1. It was trained to rank
    a true caption above five kinds of wrong ones by a margin (``captious train umic``). ``weights`` is the folder of
    such a training. Labels distinguish the models: ``umic-fusion`` is a small fusion over a frozen encoder,
    ``umic-vilt`` and ``umic-blip`` are fine-tuned matching models; only the original UNITER with region features is
    called plain UMIC, and takes ``regions``, a folder with an ``.npz`` file of features for each image. The signature
    has a hash of the weights. The corpus value is the mean; an item with several candidates has their mean.

    The original has 109.9 million parameters. A default fusion over CLIP ViT-B/32 has 2.7 million and adds 0.11 GFLOPs
    for a caption of 16 tokens to the encoder's own; on a CPU, new captions of images that are cached took 1.2 times as
    long as CLIPScore. The parameters of your own model are in its ``captious-umic.json``.

    >>> print(Umic(weights="my-umic"))
    umic(weights=my-umic)
    """

    weights: str = ""
    regions: str | None = None

    name: ClassVar[str] = "umic"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    main: ClassVar[str] = "weights"
    reads: ClassVar[str] = "regions of images"
    citation: ClassVar[str] = (
        "Lee, Yoon, Dernoncourt, Bui, Jung. UMIC: an unreferenced metric for image captioning via contrastive learning."
        " ACL-IJCNLP 2021."
    )

    @property
    def needs(self) -> tuple[Need, ...]:
        """An image, or regions: an item without an image is then found by its id."""
        return ("model",) if self.regions else ("image", "model")

    @property
    def label(self) -> str:
        """UMIC for the original, and the backbone's name for other models."""
        try:
            backbone = str(read_marker(self.weights)["backbone"]) if self.weights else ""
        except InputError:
            backbone = ""
        return "UMIC" if backbone == ORIGINAL else get_metric_name(backbone) if backbone else "umic"

    def prepare(self, captions: CaptionSet) -> Shared[Backbone]:
        """Load the cross-encoder."""
        if not self.weights:
            raise InputError("umic needs weights: a folder that captious train umic wrote")
        backbone = load_backbone(self.weights, self.regions)
        return Shared(backbone, f"the UMIC model {backbone.fingerprint}")

    def score_items(self, captions: CaptionSet, state: Shared[Backbone]) -> Scored:
        """Return rows with the sum of the candidates' scores, and their number."""
        backbone = state.value
        images = captions.images
        if self.regions:  # files of the image's name, or of the item's id
            images = [one if isinstance(one, str) else key for one, key in zip(images, captions.ids, strict=True)]
        owners, texts = captions.candidates.owners, captions.candidates.values
        usable = [n for n, item in enumerate(owners.tolist()) if images[item] is not None and texts[n].strip()]
        values, lengths = np.full(len(owners), np.nan), np.zeros(len(owners), dtype=np.int64)
        faults: dict[int, str] = {}
        if usable:
            pictures = [image for n in usable if (image := images[owners[n]]) is not None]
            judged = score_pairs(backbone, pictures, [texts[n] for n in usable])
            values[usable] = judged.scores
            for index, fault in judged.faults.items():
                item = int(owners[usable[index]])
                faults[item] = f"image: {fault.removeprefix(f'{images[item]}: ')}"
            lengths[usable] = backbone.count_tokens([texts[n] for n in usable])
        reasons = {**faults, **find_blank_texts(captions)}
        return score_encoded_captions(self.label, captions, values, reasons, lengths, backbone.limit)

    def settings(self, state: Shared[Backbone]) -> Mapping[str, str]:
        """Return the model by content, its encoder, and the precision."""
        backbone = state.value
        encoder = backbone.frozen_encoder
        model = {
            "model": f"{get_metric_name(backbone.name)}#{backbone.fingerprint}{',upright' * get_runtime().upright}"
        }
        if encoder is None:
            return {**model, "precision": resolve_precision(backbone.device, get_runtime().precision)}
        return {**model, "encoder": encoder_id(encoder), "precision": encoder.precision}
