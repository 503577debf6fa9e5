"""UMIC: a caption judged against its image by a model that learnt to rank true captions above wrong ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from captious._typing import Bools, Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.clip.encoded import image_paths, mark, too_long, unseen, with_images_or_refuse
from captious.metrics.contract import MeanMetric, Need, Sums, summed
from captious.models.crossencoders import ORIGINAL, Backbone, called, load_backbone, read_marker
from captious.models.devices import resolve_precision
from captious.options import current


@dataclass(frozen=True, eq=False)
class Trained:
    """A model as a metric's state: shards all have the same one, so merging changes nothing."""

    backbone: Backbone
    fingerprint: str

    def merge(self, other: Trained) -> Trained:
        """The same model."""
        if self.fingerprint != other.fingerprint:
            raise InputError(f"cannot merge shards scored by UMIC models {self.fingerprint} and {other.fingerprint}")
        return self


@dataclass(frozen=True)
class Umic(MeanMetric):
    """UMIC: how well a caption suits its image by a learnt ranking model, without references.

    The model gives a logit to image and caption together; the score is its sigmoid, from 0 to 1. It was trained to rank
    a true caption above five kinds of wrong ones by a margin (``captious train umic``). ``weights`` is the folder of
    such a training. Names tell models apart: ``umic-fusion(…)`` is a small fusion over a frozen encoder, ``umic-vilt``
    and ``umic-blip`` are fine-tuned matching models; only the original UNITER with region features is called plain
    UMIC, and takes ``regions``, a folder with an ``.npz`` file of features for each image. The signature has a hash
    of the weights. The corpus value is the mean; an item with several candidates has their mean.

    The original has 109.9 million parameters. A default fusion over CLIP ViT-B/32 has 2.7 million and adds 0.11 GFLOPs
    for a caption of 16 tokens to the encoder's own; on a CPU, new captions of images that are cached took 1.2 times as
    long as CLIPScore. The parameters of a model of your own stand in its ``captious-umic.json``.

    >>> print(Umic(weights="my-umic"))  # once the folder is there, named after the backbone it holds
    umic(weights=my-umic)
    """

    weights: str = ""
    regions: str | None = None

    name: ClassVar[str] = "umic"
    needs: ClassVar[tuple[Need, ...]] = ("image", "model")
    citation: ClassVar[str] = (
        "Lee, Yoon, Dernoncourt, Bui, Jung. UMIC: an unreferenced metric for image captioning via contrastive learning."
        " ACL-IJCNLP 2021."
    )

    @property
    def backbone_name(self) -> str:
        """What the weights are of; empty where there are none to read."""
        try:
            return str(read_marker(self.weights)["backbone"]) if self.weights else ""
        except InputError:
            return ""

    @property
    def label(self) -> str:
        """UMIC for the original, and for others a name that says what they are."""
        name = self.backbone_name
        return "UMIC" if name == ORIGINAL else called(name) if name else "umic"

    def __str__(self) -> str:
        name = self.backbone_name
        return super().__str__().replace("umic", called(name), 1) if name else super().__str__()

    def prepare(self, captions: CaptionSet) -> Any:
        """The model."""
        return with_images_or_refuse(self, captions, self.load)

    def load(self) -> Trained:
        """The model of the weights."""
        if not self.weights:
            raise InputError("umic needs weights: a folder that captious train umic wrote")
        backbone = load_backbone(self.weights, self.regions)
        return Trained(backbone, backbone.fingerprint)

    def statistics(self, captions: CaptionSet, state: Trained) -> Sums:
        """Sum of the candidates' scores, and their number; NaN where one of them has none."""
        _, values, _, _ = _judged(self, captions, state)
        return summed(captions, values)

    def settings(self, state: Any) -> Mapping[str, str]:
        """The model by content, its encoder, and the precision."""
        backbone = state.backbone
        encoder = getattr(backbone, "encoder", None)
        told = {"model": f"{called(backbone.name)}#{state.fingerprint}{',upright' * current().upright}"}
        if encoder is not None:
            told["encoder"] = mark(encoder)
        fine = encoder.precision if encoder is not None else resolve_precision(backbone.device, current().precision)
        return {**told, "precision": fine}

    def unscorable(self, captions: CaptionSet) -> Mapping[str, Bools]:
        """An item needs an image (the original: regions), and candidates that say something."""
        return {**super().unscorable(captions), **unseen(captions, self._paths(captions))}

    def faults(self, captions: CaptionSet, state: Any) -> Mapping[int, str]:
        """Why an image could not be used, by item."""
        return _judged(self, captions, state)[2]

    def counts(self, captions: CaptionSet, state: Any) -> Mapping[str, int]:
        """Captions cut at the model's limit."""
        return {"truncated": len(_judged(self, captions, state)[3])}

    def remarks(self, captions: CaptionSet) -> list[str]:
        """Captions beyond the model's limit: how many, and of which items."""
        state = self.prepare(captions)
        return too_long(self.label, captions, _judged(self, captions, state)[3], state.backbone.limit)

    def remedy(self, reason: str) -> str:
        """Where images come from."""
        if reason == "no image":
            return "; give their folder with --images, or a column 'image' with their paths"
        return super().remedy(reason)

    def _paths(self, captions: CaptionSet) -> Sequence[str | None]:
        """Images; where regions are given as files, an item without one is found by its id."""
        found = image_paths(captions)
        return [path or key for path, key in zip(found, captions.ids, strict=True)] if self.regions else found


Found = tuple[Ints, Floats, dict[int, str], list[int]]
_MADE: WeakKeyDictionary[CaptionSet, dict[Any, Found]] = WeakKeyDictionary()


def _judged(metric: Umic, captions: CaptionSet, state: Trained) -> Found:
    """Of each candidate its item and score; of items, faults; items whose caption was cut. Once per set and model."""
    from captious.metrics.clip.encoded import tokens_of
    from captious.models.crossencoders import judge

    key = (state.fingerprint, metric.regions, current().upright)
    made = _MADE.setdefault(captions, {})
    if key in made:
        return made[key]
    backbone: Any = state.backbone
    paths = metric._paths(captions)
    item = np.repeat(np.arange(len(captions)), captions.candidates.counts)
    texts = captions.candidates.values
    usable = [n for n, one in enumerate(item.tolist()) if paths[one] is not None and texts[n].strip()]
    values = np.full(len(item), np.nan)
    faults: dict[int, str] = {}
    cut: list[int] = []
    if usable:
        found = judge(backbone, [str(paths[item[n]]) for n in usable], [texts[n] for n in usable])
        values[usable] = found.scores
        for place, why in found.faults.items():
            owner = int(item[usable[place]])
            faults[owner] = f"image: {why.removeprefix(f'{paths[owner]}: ')}"
        reader: Any = getattr(backbone, "encoder", None) or _Reader(backbone.tokenizer)
        before = getattr(backbone, "prefix", "")
        lengths = tokens_of(reader, [before + texts[n] for n in usable])
        cut = item[np.array(usable)[lengths > backbone.limit]].tolist()
    made[key] = (item, values, faults, cut)
    return made[key]


@dataclass(frozen=True)
class _Reader:
    """A tokenizer where an encoder is asked for."""

    tokenize: Any
