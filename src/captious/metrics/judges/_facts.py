"""Atomic facts: the base class of metrics that count them, and parsers of replies that list them."""

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
    find_json_values,
    plan_requests,
    read_prompt,
    shorten,
)
from captious.models.chat.judge import Judge, ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request

S = TypeVar("S")
T = TypeVar("T")
# Estimated facts per word for dry runs: DeCapBench has 53 facts per description of 170 words.
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

    def read_prompts(self) -> dict[str, str]:
        """Read the prompts by name."""
        return read_prompt_folder(self.prompt, self.files)

    @abstractmethod
    def estimate_later_calls(self, item: Item, facts: int, setup: JudgeSetup) -> list[tuple[Request, int, int]]:
        """Estimate the calls after the first for a caption of `facts` facts: request, number of calls, tokens of a
        reply.
        """

    def plan(self, captions: CaptionSet, setup: JudgeSetup) -> CallPlan:
        """Plan the calls of a set: none for captions whose replies are all stored, an estimate for others."""
        waiting, stored = list[int](), 0
        # Later requests depend on earlier replies, so only a replay of each caption shows whether all are stored.
        for index in range(len(captions)):
            replaying = setup.as_replay()
            try:
                self.collect_verdicts(captions.take([index]), replaying)
                stored += replaying.judge.usage.stored
            except InputError:
                waiting.append(index)
        items = captions.take(waiting)
        plan = plan_requests(setup.judge, self.build_requests(items, setup), self.reply_tokens)
        later = CallPlan(stored=stored)
        for item in items:
            for request, calls, tokens in self.estimate_later_calls(item, estimate_facts(item.candidate), setup):
                tokens_in = calls * request.estimated_tokens
                later += CallPlan(calls, 0, tokens_in, calls * tokens, calls * request.images)
        return plan + later


def read_prompt_folder(prompt: str, files: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Read prompts by name, from the user's folder if it has them, else from the package."""
    folder = Path(prompt) if prompt else PROMPTS
    own = {name: folder / f"{name}.txt" for name in files}
    if not any(path.is_file() for path in own.values()):
        names = ", ".join(path.name for path in own.values())
        raise InputError(f"{prompt}: expected a folder with another prompt, one or more of {names}")
    paths = {name: path if path.is_file() else PROMPTS / path.name for name, path in own.items()}
    return {name: read_prompt(paths[name], fields) for name, fields in files.items()}


def format_count(verdicts: Sequence[bool], unit: str, word: str) -> str:
    """Format how many verdicts are positive.

    >>> format_count([True, False, True], "fact", "true")
    '2 of 3 facts true'
    """
    return f"{sum(verdicts)} of {len(verdicts)} {unit}{'' if len(verdicts) == 1 else 's'} {word}"


def map_unless_failed(values: Sequence[S | Failure], make: Callable[[S], T | Failure]) -> list[T | Failure]:
    """Apply `make` to each value; a Failure of an earlier step is kept."""
    return [one if isinstance(one, Failure) else make(one) for one in values]


def ask_each(
    judge: Judge,
    requests: Sequence[Request | Failure],
    parsers: Sequence[Callable[[Reply], T]],
    what: str,
) -> list[T | Failure]:
    """Send requests and parse each reply with its own parser. A Failure of an earlier step is kept."""
    asked = [index for index, request in enumerate(requests) if isinstance(request, Request)]
    questions = [request for request in requests if isinstance(request, Request)]
    replies = ask_and_parse(judge, questions, [parsers[index] for index in asked], what=what)
    by_index = dict(zip(asked, replies, strict=True))
    return [one if isinstance(one, Failure) else by_index[index] for index, one in enumerate(requests)]


def estimate_facts(text: str) -> int:
    """Estimate the number of facts in a text."""
    return max(1, round(FACTS_PER_WORD * len(text.split())))


def limit_list_tokens(text: str, each: int) -> int:
    """Return the token limit of a reply that lists the facts of a text, at `each` tokens per word, so that long lists
    are not cut off.
    """
    return 512 + each * len(text.split())


def require_complete(reply: Reply) -> str:
    """Return the text of a reply; raise ValueError if it was cut off at the token limit."""
    if reply.finish == "length":
        raise ValueError(f"cut off after {reply.reply_tokens} tokens")
    return reply.text


def number_lines(texts: Sequence[str]) -> str:
    r"""Join texts as numbered lines.

    >>> number_lines(["a dog", "two\ncats"])
    '1. a dog\n2. two cats'
    """
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def read_bullets(text: str) -> list[str]:
    r"""Read the lines of a reply after a bullet or a number; an empty list if it says that there are none.

    >>> read_bullets("Facts:\n- There is a dog.\n2. It is big.\n"), read_bullets("None.")
    (['There is a dog.', 'It is big.'], [])
    """
    lines = [line for line in _BULLET.findall(text) if not _NOTHING.fullmatch(line)]
    if not lines and not _BULLET.search(text) and not _NOTHING.fullmatch(text):
        raise ValueError(f"no list in {shorten(text)}")
    return lines


def read_numbered(text: str, number: int) -> list[str]:
    r"""Read the lines of a reply by their numbers, which must be 1 to ``number``, each once.

    >>> read_numbered("1. Is it red?\n2) Is it big?", 2)
    ['Is it red?', 'Is it big?']
    """
    lines = [(int(mark), line) for mark, line in _NUMBERED.findall(text)]
    require_all([mark for mark, _ in lines], number, text)
    return [line for _, line in sorted(lines)]


def require_all(numbers: Sequence[int], number: int, text: str) -> None:
    """Raise ValueError unless the numbers are 1 to `number`, each once."""
    if sorted(numbers) != list(range(1, number + 1)):
        raise ValueError(f"expected the numbers 1 to {number}, each once, in {shorten(text)}")


def read_json_list(text: str) -> list[dict[str, Any]]:
    r"""Read the last list of objects in a reply, in JSON or in Python syntax, ignoring text around it.

    >>> read_json_list('Sure:\n```json\n[{"fact": 1, "true": 0}]\n```'), read_json_list("[{'fact': 1, 'match': None}]")
    ([{'fact': 1, 'true': 0}], [{'fact': 1, 'match': None}])
    """
    lists = list(find_json_values(text, "["))
    if fitting := [value for value in lists if _is_object_list(value)]:
        return list(fitting[-1])
    empty = [] in lists
    try:
        # Some models write a Python list: single quotes, None, True.
        value = ast.literal_eval(text[text.index("[") : text.rindex("]") + 1])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if _is_object_list(value):
        return list(value)
    if empty:
        return []
    raise ValueError(f"no JSON list in {shorten(text)}")


def _is_object_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def read_flag(value: Any, what: str) -> bool:
    """Read a 1 or 0 of a reply, also if written as a word.

    >>> read_flag("1", "relevance"), read_flag(False, "true")
    (True, False)
    """
    flags = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    word = str(value).strip().lower().removesuffix(".0")
    if word not in flags:
        raise ValueError(f"{what} {shorten(str(value))} is neither 1 nor 0")
    return flags[word]
