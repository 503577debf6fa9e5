"""Five kinds of task: ratings, ranking, pairs, yes/no lists, labels. One file each, behind the contract of `Kind`."""

from __future__ import annotations

from captious.studio.kinds.kind import Answer as Answer
from captious.studio.kinds.kind import Gap as Gap
from captious.studio.kinds.kind import Incomplete as Incomplete
from captious.studio.kinds.kind import Kind
from captious.studio.kinds.labels import Labels
from captious.studio.kinds.pairs import Pairs
from captious.studio.kinds.ranking import Ranking
from captious.studio.kinds.ratings import Ratings
from captious.studio.kinds.yesno import YesNo
from captious.studio.plan import KindName, Plan

KINDS: dict[KindName, Kind] = {kind.name: kind for kind in (Ratings(), Ranking(), Pairs(), YesNo(), Labels())}


def kind_of(plan: Plan) -> Kind:
    """The kind of task that a plan asks for."""
    return KINDS[plan.kind]
