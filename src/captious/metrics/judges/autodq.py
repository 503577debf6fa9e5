"""AutoDQ: events of a description and of its reference, each checked against the other text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet, Item
from captious.io.questions import QUESTION_COLUMN, open_questions
from captious.metrics.contract import Need, Shared
from captious.metrics.explanation import VERDICT, Breakdown, Contribution
from captious.metrics.judges._choices import AnswerOptions, ChosenAnswer, build_joint_request, read_joint_reply
from captious.metrics.judges._facts import (
    FactMetric,
    ask_each,
    limit_list_tokens,
    number_lines,
    read_bullets,
    require_complete,
)
from captious.metrics.judges._question_metric import find_item_questions
from captious.metrics.judges.judged import JudgeSetup, JudgeVerdict, quote
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.render import Column

ENTAILMENT = "entailment"
RELATIONS = AnswerOptions.words(ENTAILMENT, "neutral", "contradiction")
# Maximum number of events of a caption.
MOST_EVENTS = 10
# Origin of an event: events of the reference count for recall, events of the caption for precision.
REFERENCE, CAPTION = "reference", "caption"
# Placeholder of an event in dry runs.
BLANK = " " * 40


class CheckedEvents(NamedTuple):
    """The events of one text, with the relation of the other text to each."""

    events: Sequence[str]
    relations: Sequence[str]

    @property
    def share(self) -> float:
        """The share of events that the other text entails; 1 where there are none."""
        return sum(one == ENTAILMENT for one in self.relations) / len(self.events) if self.events else 1.0


@dataclass(frozen=True)
class AutoDQ(FactMetric):
    """AutoDQ: how many events of the reference a description has, and how many of its own events the reference has.

    A text model, which sees no frame of the video, lists at most ten events of the description, and says for each event
    of the reference whether the description entails it, is neutral or contradicts it; and likewise for each event of
    the description and the reference. Only entailment counts::

        recall    = events of the reference that the description entails / events of the reference
        precision = events of the description that the reference entails / events of the description
        F1        = 2 · recall · precision / (recall + precision)

    The F1 of a set is that of its mean recall and its mean precision, not a mean of F1s. DREAM-1K takes the mean of its
    five subsets' means, which is the same where the subsets are of one size and all items have a value.

    Events of the reference come from ``questions=FILE`` (DREAM-1K's rows with ``events``) or a column ``events``; where
    an item has none of these, the model lists those of its references. Three or four calls per caption. An item whose
    reference or caption has no events has no value; ``empty=one`` gives it a recall or precision of 1, as the original
    does. A reply that cannot be read leaves the caption without a value. ``prompt`` names a folder with
    ``autodq_events.txt`` or ``autodq_check.txt``.

    >>> AutoDQ("gpt-4o-mini").label, AutoDQ("gpt-4o-mini", value="recall").label
    ('AutoDQ', 'AutoDQ recall')
    """

    questions: str = ""
    """File with the events of the references; without it the column ``events``, or the model."""
    value: Literal["f1", "recall", "precision"] = "f1"
    """What becomes of the events."""
    empty: Literal["nan", "one"] = "nan"
    """The value of a text without events."""
    schema: bool = False
    """Whether the server must make the checks follow a JSON schema, which changes what a model says."""

    name: ClassVar[str] = "autodq"
    citation: ClassVar[str] = (
        "Wang, Yuan, Zhang, Sun. Tarsier: Recipes for Training and Evaluating Large Video Description Models. 2024."
    )
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {"autodq_events": ("text",), "autodq_check": ("text", "events")}
    row_size: ClassVar[int] = 3
    reply_tokens: ClassVar[int] = 80
    part_unit: ClassVar[str] = "event"
    part_columns: ClassVar[Sequence[Column]] = (Column(VERDICT, "text"), Column("event of", "text", key="side"))

    @property
    def label(self) -> str:
        """The label with the name of the value, if it is not F1."""
        return "AutoDQ" if self.value == "f1" else f"AutoDQ {self.value}"

    @property
    def needs(self) -> tuple[Need, ...]:
        """References, unless only a file of their events counts."""
        return ("judge",) if self.value == "recall" and self.questions else ("references", "judge")

    def prepare(self, captions: CaptionSet) -> Shared[JudgeSetup]:
        """Load the judge, the prompts and the file of events."""
        shared = super().prepare(captions)
        if not self.questions:
            return shared
        table = open_questions(self.questions)
        return Shared(replace(shared.value, tables={QUESTION_COLUMN: table}), f"{shared.key}|{table}")

    def aggregate(self, rows: Floats) -> Floats:
        """Compute the mean recall, the mean precision, or the F1 of both."""
        with np.errstate(invalid="ignore", divide="ignore"):
            recall, precision = rows[..., 0] / rows[..., 2], rows[..., 1] / rows[..., 2]
            if self.value != "f1":
                return recall if self.value == "recall" else precision
            both = recall + precision
            f1: Floats = np.where(both == 0, 0.0, 2 * recall * precision / both)
        return f1

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build the requests for the events of each caption; for recall, the checks of the given events."""
        if self.value != "recall":
            return [self._build_list_request(item.candidate, setup) for item in captions]
        lists = [(item, find_item_events(item, setup)) for item in captions]
        return [self._build_check_request(item.candidate, events, setup) for item, events in lists if events]

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """Collect the events of both texts with their relations, and compute the value."""
        items = list(captions)
        if self.schema:
            setup.judge.can("schema")  # recorded in the signature; the schema is sent in any case
        nothing = [CheckedEvents((), ())] * len(items)
        recall, precision = list[CheckedEvents | Failure](nothing), list[CheckedEvents | Failure](nothing)
        if self.value != "precision":
            events = self._list_reference_events(items, setup)
            recall = self._check_events([item.candidate for item in items], events, REFERENCE, setup)
        if self.value != "recall":
            events = self._list_events([item.candidate for item in items], CAPTION, setup)
            precision = self._check_events([" ".join(item.references) for item in items], events, CAPTION, setup)
        return [self._build_verdict(*both) for both in zip(recall, precision, strict=True)]

    def _list_reference_events(self, items: Sequence[Item], setup: JudgeSetup) -> list[list[str] | Failure]:
        """List the events of each reference: those given, or else by the model."""
        given = [find_item_events(item, setup) for item in items]
        unlisted = [index for index, events in enumerate(given) if events is None]
        texts = [" ".join(items[index].references) for index in unlisted]
        listed = dict(zip(unlisted, self._list_events(texts, REFERENCE, setup), strict=True))
        return [listed[index] if events is None else events for index, events in enumerate(given)]

    def _list_events(self, texts: Sequence[str], side: str, setup: JudgeSetup) -> list[list[str] | Failure]:
        requests = [self._build_list_request(text, setup) for text in texts]
        return ask_each(setup.judge, requests, [read_events] * len(texts), f"{self.label}: events of the {side}")

    def _check_events(
        self, texts: Sequence[str], lists: Sequence[list[str] | Failure], side: str, setup: JudgeSetup
    ) -> list[CheckedEvents | Failure]:
        """Ask how each text is related to the events of the other one."""
        requests: list[Request | Failure] = []
        for text, events in zip(texts, lists, strict=True):
            if isinstance(events, Failure):
                requests.append(events)
            else:
                none = Failure(f"no events in the {side}")
                requests.append(self._build_check_request(text, events, setup) if events else none)
        parsers = [
            partial(read_joint_reply, options=[RELATIONS] * (0 if isinstance(events, Failure) else len(events)))
            for events in lists
        ]
        replies = ask_each(setup.judge, requests, parsers, f"{self.label}: checking events of the {side}")
        return [self._pair_relations(*pair) for pair in zip(lists, replies, strict=True)]

    def _pair_relations(
        self, events: list[str] | Failure, reply: list[ChosenAnswer] | Failure
    ) -> CheckedEvents | Failure:
        if isinstance(events, Failure):
            return events
        if not events and self.empty == "one":
            return CheckedEvents((), ())
        return reply if isinstance(reply, Failure) else CheckedEvents(events, [one.text for one in reply])

    def _build_list_request(self, text: str, setup: JudgeSetup) -> Request:
        prompt = setup.prompts["autodq_events"].format(text=quote(text))
        return Request((Turn("user", prompt.strip()),), max_tokens=limit_list_tokens(text, 4))

    def _build_check_request(self, text: str, events: Sequence[str], setup: JudgeSetup) -> Request:
        prompt = setup.prompts["autodq_check"].format(text=quote(text), events=number_lines(events))
        return build_joint_request(Turn("user", prompt.strip()), [RELATIONS] * len(events), self.schema)

    def _build_verdict(
        self, recall: CheckedEvents | Failure, precision: CheckedEvents | Failure
    ) -> JudgeVerdict | Failure:
        if isinstance(recall, Failure) or isinstance(precision, Failure):
            return next(one for one in (recall, precision) if isinstance(one, Failure))
        sums = (recall.share, precision.share, 1.0)
        parts = [
            Contribution(event, (relation == ENTAILMENT) / len(one.events), details={VERDICT: relation, "side": side})
            for one, side in ((recall, REFERENCE), (precision, CAPTION))
            for event, relation in zip(one.events, one.relations, strict=True)
        ]
        counts = [
            f"{sum(relation == ENTAILMENT for relation in one.relations)} of {len(one.events)} events of the {side}"
            for one, side in ((recall, REFERENCE), (precision, CAPTION))
            if one.events
        ]
        value = float(self.aggregate(np.asarray(sums)))
        return JudgeVerdict(value, parts=parts, summary=", ".join(counts), sums=sums)

    def build_breakdown(self, verdicts: Sequence[JudgeVerdict]) -> Breakdown:
        """Break the value down by events: the part of each in recall or precision, times the derivative of F1."""
        breakdown = super().build_breakdown(verdicts)
        recall, precision, _ = np.mean([one.sums for one in verdicts], axis=0)
        slopes = {REFERENCE: float(self.value == "recall"), CAPTION: float(self.value == "precision")}
        if self.value == "f1":
            both = (recall + precision) ** 2 or 1.0
            # F1 = 2rp / (r + p) = r · ∂F1/∂r + p · ∂F1/∂p, so these slopes split it exactly.
            slopes = {REFERENCE: 2 * precision**2 / both, CAPTION: 2 * recall**2 / both}
        events = [part for part in breakdown.parts if "side" in part.details]  # empty if no text has events
        parts = [part._replace(adds=float(part.adds * slopes[part.details["side"]])) for part in events]
        missing = recall * slopes[REFERENCE] + precision * slopes[CAPTION] - sum(part.adds for part in parts)
        if missing > 1e-12:
            parts.append(Contribution("a text without events", float(missing), None, {VERDICT: "", "side": ""}))
        return replace(breakdown, parts=parts)

    def estimate_later_calls(self, item: Item, facts: int, setup: JudgeSetup) -> list[tuple[Request, int, int]]:
        """Estimate the check of the caption's events, and the listing and check of the reference's."""
        own = find_item_events(item, setup)
        reference, events = " ".join(item.references), own if own is not None else [BLANK] * MOST_EVENTS
        calls = []
        if self.value != "precision":
            if own is None:
                calls.append((self._build_list_request(reference, setup), 1, self.reply_tokens))
            if self.value == "f1" or own is None:
                calls.append(
                    (self._build_check_request(item.candidate, events, setup), int(bool(events)), 8 * len(events))
                )
        if self.value != "recall":
            number = min(facts, MOST_EVENTS)
            calls.append((self._build_check_request(reference, [BLANK] * number, setup), 1, 8 * number))
        return calls

    def settings(self, state: Shared[JudgeSetup]) -> Mapping[str, str]:
        """Return the judge with its prompts, and the file of events."""
        return {**super().settings(state), **{name: str(table) for name, table in state.value.tables.items()}}


def find_item_events(item: Item, setup: JudgeSetup) -> list[str] | None:
    """Find the events that come with an item; None if the model must list them."""
    own = find_item_questions(item, setup.tables)
    return None if isinstance(own, Failure) else [one.text for one in own.questions]


def read_events(reply: Reply) -> list[str]:
    """Read the events of a reply, at most ten."""
    return read_bullets(require_complete(reply))[:MOST_EVENTS]
