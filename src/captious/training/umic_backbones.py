"""What a training of UMIC starts from: a new fusion, a pretrained matching model, or a folder of either."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from captious.errors import InputError, nearest
from captious.training.umic_parts import ENCODER, Job
from captious.umic.backbone import Backbone, called

NAMED = ("fusion", "vilt", "blip")


def starting_backbone(job: Job) -> Backbone:
    """What a training starts from; a choice that this backbone has no use for is refused."""
    from captious.umic import blip, saving, uniter, vilt

    place = Path(job.backbone)
    if job.backbone in NAMED and job.regions is not None:
        raise InputError(f"--regions {job.regions}: is for a UNITER, but --backbone is {job.backbone}")
    if job.backbone == "fusion":
        from captious.umic.fusion import new_fusion

        return new_fusion(job.encoder or ENCODER, job.settings.seed, job.prefix, **job.sizes)
    if job.backbone not in NAMED and (place / saving.MARKER).is_file():
        return _earlier(job, place)
    if job.prefix:
        raise InputError(f"--prefix {job.prefix!r}: is for a new fusion, but --backbone is {job.backbone}")
    if job.backbone in NAMED:
        return vilt.load_vilt(vilt.DEFAULT) if job.backbone == "vilt" else blip.load_blip(blip.DEFAULT)
    kind = ""
    with suppress(OSError, ValueError):
        kind = json.loads((place / "config.json").read_text(encoding="utf-8")).get("model_type", "")
    if job.regions is not None:
        return uniter.load_uniter(place, job.regions)
    if kind == "vilt" or (not place.exists() and "vilt" in job.backbone.lower()):
        return vilt.load_vilt(job.backbone)
    if kind == "blip" or (not place.exists() and "blip" in job.backbone.lower()):
        return blip.load_blip(job.backbone)
    raise InputError(
        f"--backbone {job.backbone}: expected {', '.join(NAMED)}, or a folder or hub id of a ViLT, a BLIP or an "
        f"earlier training{nearest(job.backbone, NAMED)}"
    )


def _earlier(job: Job, place: Path) -> Backbone:
    """A model that was trained here before; a fusion keeps its own encoder and prefix."""
    from captious.umic import saving

    record = saving.read_marker(place)
    kept = {"prefix": record.get("prefix", "")}
    if record["backbone"] == "fusion":
        kept["encoder"] = record["encoder"]["weights"]
    for name, own in kept.items():
        given = getattr(job, name)
        if given and given != own:
            raise InputError(
                f"--{name} {given}: {place} is {called(record['backbone'])} and goes on with its own, {own!r}"
            )
    return saving.open_backbone(place, job.regions)
