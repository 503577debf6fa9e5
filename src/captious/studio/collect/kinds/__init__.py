"""Five kinds of task: ratings, ranking, pairs, yes/no lists, labels. One module each, with the interface `TaskKind`."""

from __future__ import annotations

from captious.stats.rater_agreement import Measurement
from captious.studio.collect.kinds.kind import Answer as Answer
from captious.studio.collect.kinds.kind import Gap as Gap
from captious.studio.collect.kinds.kind import GradedAnswer as GradedAnswer
from captious.studio.collect.kinds.kind import Incomplete as Incomplete
from captious.studio.collect.kinds.kind import TaskKind
from captious.studio.collect.kinds.labels import LabelsKind
from captious.studio.collect.kinds.pairs import PairsKind
from captious.studio.collect.kinds.ranking import RankingKind
from captious.studio.collect.kinds.ratings import RatingsKind
from captious.studio.collect.kinds.yesno import YesNoKind
from captious.studio.collect.study_plan import KindName, Plan

KINDS: dict[KindName, TaskKind] = {
    kind.name: kind for kind in (RatingsKind(), RankingKind(), PairsKind(), YesNoKind(), LabelsKind())
}


def kind_of(plan: Plan) -> TaskKind:
    """Return the kind of task of a plan."""
    return KINDS[plan.kind]


def get_measurement(plan: Plan) -> Measurement:
    """Return the level of measurement at which agreement is computed: that of the plan, or of its kind of task."""
    return plan.measurement or kind_of(plan).measurement
