"""Dry runs: the requests that a run would send to chat models, and their cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.judges.judged import AsksJudge, CallPlan
from captious.metrics.registry import parse_all
from captious.models.chat.judge import Usage, format_cost
from captious.models.chat.messages import CHARACTERS, IMAGE_TOKENS
from captious.options import get_runtime
from captious.render import Column, Document, Result, Table
from captious.render.answers import count_noun


@dataclass(frozen=True, eq=False, repr=False)
class DryRun(Result):
    """The calls of each metric on each set of captions."""

    plans: Mapping[tuple[str, str], CallPlan]
    """Plans by the name of the set and the written form of the metric."""
    prices: tuple[float, float]
    warnings: tuple[str, ...] = ()
    """Warnings about requests that could not be planned."""
    together: CallPlan | None = None
    """The plan of everything, where ``plans`` do not have the questions that show which are shared."""

    def __repr__(self) -> str:
        return f"<DryRun: {self.total.calls:,} calls, cost {format_cost(self.cost(self.total))}>"

    @cached_property
    def total(self) -> CallPlan:
        """The plan of all metrics on all sets together, in which a question that several ask counts once."""
        return self.together or reduce(add, self.plans.values(), CallPlan())

    def cost(self, plan: CallPlan) -> float:
        """Return the cost of a plan under the prices."""
        return Usage(prompt_tokens=plan.prompt_tokens, reply_tokens=plan.reply_tokens).cost(self.prices)

    def document(self) -> Document:
        """Build a table with a row for each metric and set, and their sum."""
        several = len({name for name, _ in self.plans}) > 1
        priced = any(self.prices)
        columns: list[Column | str] = ["metric", *(["captions"] if several else [])]
        images = any(plan.images for plan in self.plans.values())
        columns += [Column("calls"), Column("stored"), *([Column("images")] if images else [])]
        columns += [Column("tokens in"), Column("tokens out")]
        columns += [Column("cost", "text")] if priced else []

        def row(metric: str, name: str, plan: CallPlan) -> list[Any]:
            calls = [plan.calls, plan.stored, *([plan.images] if images else [])]
            cost = [format_cost(self.cost(plan))] if priced else []
            return [metric, *([name] if several else []), *calls, plan.prompt_tokens, plan.reply_tokens, *cost]

        rows = [row(metric, name, plan) for (name, metric), plan in self.plans.items()]
        if len(rows) > 1:
            rows.append(row("all", "", self.total))
        estimate = (
            f"Nothing was sent. Tokens are estimates: {CHARACTERS} characters per token, {IMAGE_TOKENS} tokens per "
            "image, "
            "replies of the usual length."
        )
        table = Table("calls", "Calls", columns, rows)
        notes = [estimate] if priced else [estimate, "Without prices there is no cost."]
        if sum(plan.calls + plan.stored for plan in self.plans.values()) > self.total.calls + self.total.stored:
            notes.append("A question that several rows share is asked once: it counts in each row, and once in all.")
        title = f"{self.total.calls:,} calls"
        total = self.total
        cost = f", {format_cost(self.cost(total))}" if priced else ""
        pictures = f"{count_noun(total.images, 'image')} and " if total.images else ""
        stored = f"; {count_noun(total.stored, 'reply', 'replies')} are stored already" if total.stored else ""
        answer = (
            f"It would take {count_noun(total.calls, 'call')} with {pictures}about {total.prompt_tokens:,} tokens of "
            f"questions and {total.reply_tokens:,} of replies{cost}{stored}."
        )
        return Document(title, "", [table], self.warnings, notes, data=self.data(), name="dry-run", answer=answer)

    def data(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""

        def numbers(plan: CallPlan) -> dict[str, Any]:
            names = ("calls", "stored", "images", "prompt_tokens", "reply_tokens")
            cost = self.cost(plan) if any(self.prices) else None
            return {**{name: getattr(plan, name) for name in names}, "cost": cost}

        facts = [{"metric": metric, "captions": name, **numbers(plan)} for (name, metric), plan in self.plans.items()]
        return {"prices": self.prices, "calls": facts, "total": numbers(self.total)}


def dry_run(captions: Mapping[str, CaptionSet], metrics: Iterable[str | Metric]) -> DryRun:
    """Plan the calls for scoring sets of captions. Metrics that ask no chat model are left out."""
    judged = [metric for metric in parse_all(metrics, captions.values()) if "judge" in metric.needs]
    if not judged:
        raise InputError("dry_run=True: none of these metrics asks a chat model")
    plans = {
        (name, str(metric)): metric.plan_scoring(one)
        for name, one in captions.items()
        for metric in judged
        if isinstance(metric, AsksJudge)
    }
    silent = [
        _explain_no_calls(metric, captions[name])
        for metric in judged
        for name in captions
        if (plan := plans.get((name, str(metric)))) and not plan.calls and not plan.stored
    ]
    return DryRun(plans, get_runtime().judging.prices, tuple(silent))


def _explain_no_calls(metric: Metric, captions: CaptionSet) -> str:
    """Explain why a metric would send no request about a set."""
    try:
        metric.refuse_unfit(captions)
    except InputError as error:
        return str(error)
    return f"{metric} would ask nothing about {captions.name}"
