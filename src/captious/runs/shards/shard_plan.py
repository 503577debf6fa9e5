"""Plan of scoring shards, made before they are scored: workers, limits of chat models, and the output folder.

An unfinished run is resumed. More shards and more metrics can be added to a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path, PurePath
from types import NoneType
from typing import TYPE_CHECKING, Any

from captious._core.files import RUN, digest, refuse_irregular, sweep
from captious._version import __version__
from captious.engines.processes import count_processes, list_visible_gpus
from captious.errors import InputError
from captious.io.shards import Shard, expand, read_shard
from captious.io.storage import Storage, is_remote, split_address
from captious.metrics.contract import Metric, TokenMetric
from captious.metrics.registry import choose_inputs, parse_all
from captious.metrics.requests import Specs, choose_metrics
from captious.options import Engine, Judging, Reading, get_runtime
from captious.runs.folder import Run, format_shards
from captious.runs.marker import Marker, MetricFacts
from captious.runs.run_tables import hide_folder

if TYPE_CHECKING:
    from captious.metrics.judges.dry_run import DryRun
    from captious.metrics.judges.judged import CallPlan

# Options about what is stored; if metrics are added to a run, those of the run apply.
STORED = ("store_references", "store_rows")
REPLACE = "pass overwrite=True to replace them, or name another folder"


def assign_gpus(engine: Engine, metrics: Sequence[Metric], device: str) -> Engine:
    """Return the engine with one GPU per process if the metrics' models run on the GPUs of this machine.

    Without this there would be one process per core, and each would load its model onto the same GPU. If the device is
    one certain GPU, such as ``cuda:1``, there is one process by default. On a Ray cluster the user sets ``gpus``.
    """
    models = any("model" in metric.needs for metric in metrics)
    if engine.engine in ("serial", "ray") or engine.gpus or not models or not list_visible_gpus():
        return engine
    from captious.models.devices import resolve_device

    if resolve_device(device).type != "cuda":
        return engine
    # "cuda:1" names one GPU, which every process would share.
    return replace(engine, gpus=1.0) if device in ("auto", "cuda") else replace(engine, jobs=engine.jobs or 1)


def refuse_unready(engine: Engine) -> None:
    """Raise InputError if the engine is Ray and Ray is not installed.

    Called before the output folder is claimed, so that a run that cannot start overwrites nothing.
    """
    if engine.engine == "ray":
        from captious.engines.ray import import_ray

        import_ray()


def divide_limits(judging: Judging, metrics: Sequence[Metric], engine: Engine, shards: int) -> Judging:
    """Return the limits of chat models for one worker: its share of concurrency, tokens and cost.

    Raises InputError if the number of workers is unknown, as on a Ray cluster without ``jobs``.
    """
    if engine.engine == "serial" or not any("judge" in metric.needs for metric in metrics):
        return judging
    if engine.engine == "ray" and not engine.jobs:
        raise InputError("metrics that ask a chat model share its limits over the workers; pass jobs=..., their number")
    workers = min(engine.jobs, shards) if engine.engine == "ray" else count_processes(engine, shards)
    return replace(
        judging,
        concurrency=max(1, judging.concurrency // workers),
        most_tokens=judging.most_tokens and max(1, judging.most_tokens // workers),
        most_cost=judging.most_cost and judging.most_cost / workers,
    )


def plan_shards(
    source: Any, metrics: Specs, reading: Reading = Reading(), progress: Callable[[str], None] | None = None
) -> DryRun:
    """Plan the calls to chat models for all shards, without making any."""
    from captious.metrics.judges.dry_run import DryRun, dry_run
    from captious.metrics.judges.judged import CallPlan

    shards = expand(source, reading.format)
    chosen = parse_for_shards(metrics, shards, reading)
    plans: dict[tuple[str, str], CallPlan] = {}
    together = CallPlan()
    for number, shard in enumerate(shards, 1):
        if progress:
            progress(f"shard {number:,} of {len(shards):,}")
        captions = read_shard(shard, reading, images=need_images(chosen)).captions
        own = dry_run({shard.name: captions}, chosen)
        together += own.total.numbers
        for (_, metric), calls in own.plans.items():
            key = (f"{len(shards):,} shards", metric)
            plans[key] = plans.get(key, CallPlan()) + calls.numbers
    return DryRun(plans, get_runtime().judging.prices, together=together)


def parse_for_shards(metrics: Specs, shards: Sequence[Shard], reading: Reading) -> list[Metric]:
    """Parse the metrics. The first shard is read if what is measured depends on what its captions have.

    Which metrics ``all`` stands for depends on whether there are references, and so does what some metrics compare.
    """
    specs = choose_metrics(metrics)
    chosen = [spec for spec in specs if isinstance(spec, Metric)]
    if len(chosen) < len(specs):
        return parse_all(specs, [read_shard(shards[0], reading, images=False).captions])
    if all(metric.choose_inputs(True, False) == metric for metric in chosen):
        return chosen
    return choose_inputs(chosen, [read_shard(shards[0], reading).captions])


def need_images(metrics: Sequence[Metric]) -> bool:
    """Return True if any of the metrics needs images."""
    return any("image" in metric.needs for metric in metrics)


def need_columns(metrics: Sequence[Metric]) -> bool:
    """Return True if any of the metrics may need columns other than ids and captions to prepare its corpus state."""
    texts = {"references", "several candidates"}  # what captions have without further columns
    return not all(isinstance(metric, TokenMetric) and texts.issuperset(metric.needs) for metric in metrics)


def collect_reading_facts(reading: Reading, store_references: bool = True, store_rows: bool = True) -> dict[str, Any]:
    """Collect the reading options that differ from their default, for the marker.

    The marker may be published with the run: it has only the last part of absolute paths. A reference file is named
    with the digest of its content, so that a changed file is noticed. Raises InputError for references, images or
    videos in memory, which workers cannot read.
    """
    facts: dict[str, Any] = {}
    for option in fields(reading):
        value = getattr(reading, option.name)
        if option.name in ("references", "images", "videos") and not isinstance(value, (str, os.PathLike, NoneType)):
            raise InputError(f"{option.name}: {type(value).__name__}, expected a path that every worker can read")
        if value != option.default:
            facts[option.name] = value if isinstance(value, bool) else os.fspath(value)
    facts |= {name: hide_folder(facts[name]) for name in ("references", "images", "videos", "items") if name in facts}
    if reading.references is not None:
        folder, name = split_address(os.fspath(reading.references))
        facts["references"] += f"#{digest(Storage.at(folder).read(name))}"
    stored = dict(zip(STORED, (store_references, store_rows), strict=True))
    return facts | {name: False for name, kept in stored.items() if not kept}


def claim_folder(
    address: str | os.PathLike[str],
    metrics: Sequence[Metric],
    shards: Sequence[Shard],
    reading: Mapping[str, Any],
    *,
    add: bool = False,
    overwrite: bool = False,
) -> Run:
    """Return the run to write these scores to: a new one, or an unfinished one with the same settings.

    With ``add`` the metrics are added to those of an existing run. New shards are always added. Raises InputError if
    the folder has other scores, unless ``overwrite`` removes what captious wrote, and always if it has other files.
    """
    storage = Storage.at(address)
    address = storage.address
    facts = tuple(MetricFacts.of(metric) for metric in metrics)
    marker = Marker(
        PurePath(address.rstrip("/")).name, facts, "shard", shards=tuple(shards), reading=reading, complete=False
    )
    if not is_remote(address):
        _check_folder(Path(address))
    if not storage.exists(RUN):
        if add:
            raise InputError(f"{address}: no {RUN}, expected a run to add metrics to")
        if storage.names() or (not is_remote(address) and _is_occupied(Path(address))):
            raise InputError(f"{address}: exists and was not written by captious (no {RUN}); name another folder")
        run = Run(address, marker)
        run.write_marker()
        return run
    if overwrite and not add:
        Run.at(address).discard()
        run = Run(address, marker)
        run.write_marker()
        return run
    existing = Run.at(address)
    if not existing.marker.shards:
        raise InputError(f"{address}: contains the scores of {existing.marker.name}, not of shards; {REPLACE}")
    if add:
        stored = {name: value for name, value in existing.marker.reading.items() if name in STORED}
        marker = replace(marker, reading={**reading, **stored})
        new = tuple(one for one in facts if one.metric not in existing.metrics)
        marker = replace(marker, metrics=(*existing.marker.metrics, *new))
    marker = replace(marker, shards=_keep_names(shards, existing.marker.shards), history=existing.marker.history)
    change = describe_change(marker, existing.marker, add) or _describe_changed_shards(existing, marker)
    if change:
        raise InputError(f"{address}: contains other scores: {change}; {REPLACE}")
    # A complete run stays marked as complete on disk; scoring marks it as incomplete only if its values will change.
    kept = existing.marker if existing.marker.complete else marker
    run = Run(address, replace(kept, metrics=marker.metrics, shards=marker.shards, reading=marker.reading))
    if not existing.marker.complete:
        run.write_marker()
    return run


def describe_change(marker: Marker, other: Marker, add: bool = False) -> str:
    """Describe the first difference from the marker of an existing run that prevents resuming it; empty if none.

    More shards, and shards in another order, do not prevent it.
    """
    if marker.version != other.version:
        return f"it is of captious {other.version}, this is {__version__}"
    now, before = ([one.metric for one in both.metrics] for both in (marker, other))
    if set(before) - set(now) or (set(now) - set(before) and not add):
        hint = "" if set(before) - set(now) else "; pass add=... for metrics to be added"
        return f"it has {', '.join(before)}, now it is {', '.join(now)}{hint}"
    if marker.reading_options != other.reading_options:
        names = {**marker.reading_options, **other.reading_options}
        name = next(name for name in names if marker.reading.get(name) != other.reading.get(name))
        return f"it was read with {_format_option(other, name)}, now it is {_format_option(marker, name)}"
    now, before = ([shard.name for shard in both.shards] for both in (marker, other))
    if gone := sorted(set(before).difference(now)):
        return (
            f"of its {format_shards(len(before))} {len(gone)} {_format_verb(gone)} no longer there, such as {gone[0]}"
        )
    return ""


def _format_option(marker: Marker, name: str) -> str:
    return f"{name}={marker.reading[name]}" if name in marker.reading else f"no {name}=..."


def _format_verb(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _keep_names(shards: Sequence[Shard], before: Sequence[Shard]) -> tuple[Shard, ...]:
    """Return the shards with the names that they had in the run before.

    A name contains as many parent folders as are needed to make it unique, so it may change when shards are added. A
    new shard whose name is taken gets the digest of its address as a suffix.
    """
    names = {one.address: one.name for one in before}
    known = [replace(one, name=names.get(one.address, one.name)) for one in shards]
    taken = {one.name for one in known if one.address in names}
    return tuple(
        replace(one, name=f"{one.name}-{digest(one.address.encode())}")
        if one.address not in names and one.name in taken
        else one
        for one in known
    )


def _describe_changed_shards(existing: Run, marker: Marker) -> str:
    """Describe shards whose size changed after they were scored; empty if there are none.

    A shard without scores, such as one that failed, may change.
    """
    before = {shard.name: shard.size for shard in existing.marker.shards}
    resized = [one for one in marker.shards if one.name in before and one.size != before[one.name]]
    scored = [one for one in resized if existing.storage.exists(existing.items_name(one.name))]
    changed = [one for one in scored if existing.summary(one.name).size != one.size]
    if not changed:
        return ""
    first = f"{changed[0].name} ({before[changed[0].name]:,} bytes, now {changed[0].size:,})"
    return f"of its {format_shards(len(before))} {len(changed)} changed since they were scored, such as {first}"


def _check_folder(path: Path) -> None:
    """Raise InputError if the path exists and is not a folder; remove drafts that killed processes left in it."""
    refuse_irregular(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file, expected the name of a folder to write")
    sweep(path / RUN)


def _is_occupied(path: Path) -> bool:
    return path.is_dir() and any(path.iterdir())
