"""``captious judge-noise``: does a judge repeat itself?"""

from __future__ import annotations

from typing import Annotated, Any

from captious.cli.params import Only
from captious.cli.session import JUDGES, Items, Session
from captious.options import MOST_REPEATS, Argument, Option

# `captious.cli.session.Metrics` with the singular, which most people write for one judge.
JudgeMetrics = Annotated[
    tuple[str, ...],
    Option(
        'Metrics, such as "bleu(n=4),cider(idf=refs)", or all.',
        flags=("-m",),
        aliases=("--metric",),
        metavar="METRICS",
    ),
]


def judge_noise(
    captions: Annotated[str, Argument("Captions by id, in the formats of captious score.")],
    session: Annotated[
        Session,
        Only(
            *("references", "images", "missing", "format", "id_column", "references_id_column", "candidate_column"),
            *("references_column", "language", "unpack_limit", "samples", "seed", "level", "interval"),
            *("device", *JUDGES, "out", "overwrite", "json", "latex", "csv"),
        ),
    ],
    metrics: JudgeMetrics,
    items: Items = 50,
    repeats: Annotated[int, Option("How often each caption is judged.", min=2, max=MOST_REPEATS)] = 5,
) -> None:
    """Ask a judge about the same captions several times: how much its scores change, and how much captions differ.

    Stored replies do not hide the noise: each repeat has its own seed and its own stored replies. An interrupted run
    continues where it stopped. --dry-run counts the requests. captious study audit --judge-noise FOLDER adds the
    result to an audit.

    Example: captious judge-noise preds.json --images photos/ --metric "fleur(llava)" --items 50 --repeats 5
    Example: captious judge-noise preds.json -r refs.json -m "clair(gpt-4o-mini)" --dry-run --prices 0.15,0.60
    """
    from captious.study import judge_noise as ask_again
    from captious.study import plan_judge_noise

    with session.working() as step:
        source = session.read_and_warn(captions)
        settings: dict[str, Any] = {"items": items, "repeats": repeats, "resampling": session.resampling}
        if session.runtime.judging.dry_run:
            session.deliver(plan_judge_noise(source, metrics, **settings))
            return
        result = ask_again(source, metrics, progress=step, **settings)
    session.deliver(result)
