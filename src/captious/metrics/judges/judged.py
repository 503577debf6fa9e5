"""What all judges share: the model and the prompt as parameters, a verdict per caption, reasons where there is none."""

from __future__ import annotations

import json
import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from captious._files import digest
from captious.captions import CaptionSet, Item
from captious.errors import InputError, one_line
from captious.metrics.contract import MeanMetric, Scored, Shared
from captious.models.chat.judge import Judge, load_judge
from captious.models.chat.messages import Failure

PROMPTS = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Verdict:
    """What a judge made of one caption."""

    value: float
    reason: str = ""
    """The judge's own words."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else is worth showing, such as facts with their verdicts or the probabilities of digits."""


@dataclass(frozen=True, eq=False)
class Bench:
    """A judge with the prompts that it is asked by."""

    judge: Judge
    prompts: Mapping[str, str]

    @property
    def prompt_digest(self) -> str:
        """Stands for the prompts in a signature."""
        return digest(*(text.encode() for text in self.prompts.values()))


@dataclass(frozen=True)
class JudgedMetric(MeanMetric):
    """A metric whose values a chat model gives. The corpus value is the mean over captions that have one."""

    model: str = ""
    """Name of the model at the endpoint, or ``local:FOLDER``."""
    prompt: str = ""
    """File with another prompt."""

    main: ClassVar[str] = "model"
    always_shown: ClassVar[tuple[str, ...]] = ("model",)
    fields: ClassVar[tuple[str, ...]] = ("candidates", "references")
    """What a prompt must have in braces."""
    parse_rule: ClassVar[str] = "json"
    """How a reply becomes a value; part of the signature."""

    def prepare(self, captions: CaptionSet) -> Shared[Bench]:
        """The judge and the prompts; nothing is asked yet."""
        if not self.model:
            raise InputError(f"{self.name}: name the model that judges, such as {self.name}(model=gpt-4o-mini)")
        bench = Bench(load_judge(self.model), self.prompts())
        return Shared(bench, f"{self.model}#{bench.prompt_digest}")

    def prompts(self) -> dict[str, str]:
        """The texts that are asked, by name."""
        return {self.name: read_prompt(self.prompt or PROMPTS / f"{self.name}.txt", self.fields)}

    @abstractmethod
    def verdicts(self, captions: CaptionSet, bench: Bench) -> list[Verdict | Failure]:
        """One for each item: what the judge made of it."""

    def score_items(self, captions: CaptionSet, state: Shared[Bench]) -> Scored:
        """Rows: the value and 1; an item without a value has a reason."""
        rows, reasons = np.full((len(captions), 2), np.nan), dict[int, str]()
        missing = self._missing_inputs(captions)
        asked = [index for index in range(len(captions)) if index not in missing]
        verdicts = self.verdicts(captions.take(asked), state.value) if asked else []
        for index, verdict in zip(asked, verdicts, strict=True):
            if isinstance(verdict, Failure):
                reasons[index] = verdict.reason
            else:
                rows[index] = verdict.value, 1.0
        return Scored(rows, reasons, {"unreadable": sum("unreadable" in reason for reason in reasons.values())})

    def settings(self, state: Shared[Bench]) -> Mapping[str, str]:
        """Model as the server names it, prompt, parse rule."""
        return {"judge": state.value.judge.identity, "prompt": state.value.prompt_digest, "parse": self.parse_rule}


def read_prompt(path: str | Path, fields: Sequence[str]) -> str:
    """The text of a prompt, which has every field in braces."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)}), expected a text with a prompt") from None
    try:
        text.format(**dict.fromkeys(fields, ""))
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        braces = " and ".join(f"{{{name}}}" for name in fields)
        raise InputError(f"{path}: {error} in braces, expected {braces} alone; other braces are doubled") from None
    for name in fields:
        if f"{{{name}}}" not in text:
            raise InputError(f"{path}: has no {{{name}}}, which stands for what is judged")
    return text


def listed(texts: Sequence[str]) -> str:
    r"""Texts as lines with a hyphen, each on one line.

    >>> listed(["a dog", "two\ncats"])
    '- a dog\n- two cats'
    """
    return "\n".join(f"- {' '.join(text.split())}" for text in texts)


def items_of(captions: CaptionSet) -> list[Item]:
    """The items of a set, in order."""
    return [captions[key] for key in captions.ids]


def json_object(text: str) -> dict[str, Any]:
    r"""The first JSON object in a reply, whatever stands around it; braces inside its texts do no harm.

    >>> json_object('Sure! ```json\n{"score": 80, "reason": "a {red} dog"}\n```')
    {'score': 80, 'reason': 'a {red} dog'}
    """
    decoder = json.JSONDecoder(strict=False)
    for match in re.finditer(r"\{", text):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise ValueError(f"no JSON object in {shortened(text)}")


def number_between(value: Any, low: float, high: float, what: str = "score") -> float:
    """A number of a reply, which must be on its scale; a text such as "80" or "80/100" is no number of JSON but read.

    >>> number_between("80", 0, 100), number_between(79.5, 0, 100)
    (80.0, 79.5)
    """
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(?:%|/\s*100)?\s*", value)):
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{what} {shortened(str(value))} is no number")
    if not low <= value <= high:
        raise ValueError(f"{what} {value:g} is not from {low:g} to {high:g}")
    return float(value)


def shortened(text: str, most: int = 60) -> str:
    """A reply in quotation marks, on one line, cut short for a message."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else f"{line[: most - 1]}…")
