"""Atomic facts: what metrics that count them share, and how replies list them."""

from __future__ import annotations

import ast
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from captious.captions import CaptionSet, Item
from captious.errors import InputError
from captious.metrics.judges.judged import (
    PROMPTS,
    CallPlan,
    JudgedMetric,
    JudgeSetup,
    json_values,
    plan_requests,
    read_prompt,
    shortened,
)
from captious.models.chat.judge import Judge, ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request

S = TypeVar("S")
T = TypeVar("T")
# Facts of a caption for the estimate before a run: 53 a description of 170 words in DeCapBench.
FACTS_PER_WORD = 0.3
_BULLET = re.compile(r"^\s*(?:[-*•–—]|\d+[.):])\s+(.*\S)", re.MULTILINE)
_NUMBERED = re.compile(r"^\W*(\d+)[.):\]*]*\s+(.*\S)", re.MULTILINE)
_NOTHING = re.compile(r"\W*(?:none|nothing|no facts|n/a|empty)\W*", re.IGNORECASE)


@dataclass(frozen=True)
class FactMetric(JudgedMetric):
    """A metric that counts facts. ``prompt`` names a folder, whose files replace those of the package by name."""

    part_unit: ClassVar[str] = "fact"
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The prompts by name, each with what it must have in braces."""

    def prompts(self) -> dict[str, str]:
        """The texts that are asked, by name."""
        return folder_prompts(self.prompt, self.files)

    @abstractmethod
    def later_calls(self, item: Item, facts: int, setup: JudgeSetup) -> list[tuple[Request, int, int]]:
        """What follows the first question about a caption of so many facts: request, how often, tokens of a reply."""

    def plan(self, captions: CaptionSet, setup: JudgeSetup) -> CallPlan:
        """What `verdicts` would ask: nothing of captions whose replies are all stored; of others it is an estimate."""
        waiting, stored = list[int](), 0
        for index in range(len(captions)):
            replaying = setup.replaying()
            try:
                self.verdicts(captions.take([index]), replaying)
                stored += replaying.judge.usage.stored
            except InputError:
                waiting.append(index)
        items = captions.take(waiting)
        plan = plan_requests(setup.judge, self.requests(items, setup), self.reply_tokens)
        later = CallPlan(stored=stored)
        for item in items:
            for request, calls, tokens in self.later_calls(item, estimated_facts(item.candidate), setup):
                later += CallPlan(calls, 0, calls * request.estimated_tokens, calls * tokens)
        return plan + later


def folder_prompts(prompt: str, files: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Prompts by name: ours, or those that a user's folder has under the same names."""
    folder = Path(prompt) if prompt else PROMPTS
    own = {name: folder / f"{name}.txt" for name in files}
    if not any(path.is_file() for path in own.values()):
        names = ", ".join(path.name for path in own.values())
        raise InputError(f"{prompt}: expected a folder with another prompt, one or more of {names}")
    paths = {name: path if path.is_file() else PROMPTS / path.name for name, path in own.items()}
    return {name: read_prompt(paths[name], fields) for name, fields in files.items()}


def count_phrase(verdicts: Sequence[bool], unit: str, word: str) -> str:
    """How many verdicts are positive, in words.

    >>> count_phrase([True, False, True], "fact", "true")
    '2 of 3 facts true'
    """
    return f"{sum(verdicts)} of {len(verdicts)} {unit}{'' if len(verdicts) == 1 else 's'} {word}"


def unless_failed(values: Sequence[S | Failure], make: Callable[[S], T | Failure]) -> list[T | Failure]:
    """What is made of each value; a failure of an earlier step stays."""
    return [one if isinstance(one, Failure) else make(one) for one in values]


def ask_each(
    judge: Judge,
    requests: Sequence[Request | Failure],
    parsers: Sequence[Callable[[Reply], T]],
    what: str,
) -> list[T | Failure]:
    """What each parser reads in the reply to its request. A failure of an earlier step stays."""
    asked = [index for index, request in enumerate(requests) if isinstance(request, Request)]
    questions = [request for request in requests if isinstance(request, Request)]
    replies = ask_and_parse(judge, questions, [parsers[index] for index in asked], what=what)
    by_index = dict(zip(asked, replies, strict=True))
    return [one if isinstance(one, Failure) else by_index[index] for index, one in enumerate(requests)]


def estimated_facts(text: str) -> int:
    """About how many facts a text has."""
    return max(1, round(FACTS_PER_WORD * len(text.split())))


def list_tokens(text: str, each: int) -> int:
    """Most tokens of a reply that lists the facts of a text, at so many tokens a word: long captions are not cut."""
    return 512 + each * len(text.split())


def whole(reply: Reply) -> str:
    """The text of a reply that ended by itself; a list that was cut off is unreadable."""
    if reply.finish == "length":
        raise ValueError(f"cut off after {reply.reply_tokens} tokens")
    return reply.text


def numbered(texts: Sequence[str]) -> str:
    r"""Texts as numbered lines.

    >>> numbered(["a dog", "two\ncats"])
    '1. a dog\n2. two cats'
    """
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def read_bullets(text: str) -> list[str]:
    r"""The lines of a reply that have a hyphen or a number before them; nothing where it says that there are none.

    >>> read_bullets("Facts:\n- There is a dog.\n2. It is big.\n"), read_bullets("None.")
    (['There is a dog.', 'It is big.'], [])
    """
    lines = [line for line in _BULLET.findall(text) if not _NOTHING.fullmatch(line)]
    if not lines and not _BULLET.search(text) and not _NOTHING.fullmatch(text):
        raise ValueError(f"no list in {shortened(text)}")
    return lines


def read_numbered(text: str, number: int) -> list[str]:
    r"""The lines of a reply by their numbers, which must be 1 to ``number``, each once.

    >>> read_numbered("1. Is it red?\n2) Is it big?", 2)
    ['Is it red?', 'Is it big?']
    """
    lines = [(int(mark), line) for mark, line in _NUMBERED.findall(text)]
    require_all([mark for mark, _ in lines], number, text)
    return [line for _, line in sorted(lines)]


def require_all(numbers: Sequence[int], number: int, text: str) -> None:
    """A ValueError unless these are the numbers from 1 on, each once."""
    if sorted(numbers) != list(range(1, number + 1)):
        raise ValueError(f"expected the numbers 1 to {number}, each once, in {shortened(text)}")


def json_list(text: str) -> list[dict[str, Any]]:
    r"""The last list of objects in a reply, whatever stands around it, in JSON or as Python writes it.

    >>> json_list('Sure:\n```json\n[{"fact": 1, "true": 0}]\n```'), json_list("[{'fact': 1, 'match': None}]")
    ([{'fact': 1, 'true': 0}], [{'fact': 1, 'match': None}])
    """
    lists = list(json_values(text, "["))
    if fitting := [value for value in lists if _objects(value)]:
        return list(fitting[-1])
    empty = [] in lists
    try:
        value = ast.literal_eval(text[text.index("[") : text.rindex("]") + 1])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if _objects(value):
        return list(value)
    if empty:
        return []
    raise ValueError(f"no JSON list in {shortened(text)}")


def _objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def read_flag(value: Any, what: str) -> bool:
    """1 or 0 of a reply, however it is written.

    >>> read_flag("1", "relevance"), read_flag(False, "true")
    (True, False)
    """
    flags = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    word = str(value).strip().lower().removesuffix(".0")
    if word not in flags:
        raise ValueError(f"{what} {shortened(str(value))} is neither 1 nor 0")
    return flags[word]
