"""A judge: asks a model many questions at once, looks up what was asked before, and keeps within a ceiling."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from captious.captions import ImageData
from captious.errors import InputError
from captious.io.images import UnreadableImage
from captious.models.chat._asking import Asking
from captious.models.chat._endpoint import Endpoint, read_key
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.models.chat.replies import ReplyStore, default_path
from captious.options import Judging, get_runtime

T = TypeVar("T")
Ability = Literal["logprobs", "schema", "images", "n", "seed"]
# The prefix of a folder or hub id of a model that runs in this process.
LOCAL = "local:"
# Open stores by process and path: a connection to SQLite must not cross a fork.
_STORES: dict[tuple[int, Path], ReplyStore] = {}
_OPENING, _COUNTING = threading.Lock(), threading.Lock()
# What was spent under the same options in this process: a ceiling holds for all metrics and models together.
_USAGE: dict[Judging, Usage] = {}


class Transport(Protocol):
    """What brings a request to a model, in the JSON of the OpenAI protocol."""

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The raw response; `Unanswered` where this request has none, `EndpointUnavailable` where none has."""


@dataclass
class Usage:
    """What a judge has done so far."""

    calls: int = 0
    stored: int = 0
    """Questions whose reply was there already."""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    seconds: float = 0.0
    """The time from the first question of a run to its last reply."""
    estimated: int = 0
    """Calls whose tokens the server did not count, or counted in a way that cannot be."""

    def add(self, reply: Reply, times: int = 1) -> None:
        """Count a call; with -1, take it back."""
        with _COUNTING:
            self.calls += times
            self.estimated += times * (not reply.counted)
            self.prompt_tokens += times * reply.prompt_tokens
            self.reply_tokens += times * reply.reply_tokens

    def cost(self, prices: tuple[float, float]) -> float:
        """The cost in the currency of the prices, which are for a million tokens of prompt and of reply."""
        return (self.prompt_tokens * prices[0] + self.reply_tokens * prices[1]) / 1e6

    def plus(self, other: Usage) -> Usage:
        """Add two usages."""
        return Usage(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def since(self, before: Usage) -> Usage:
        """What was done since."""
        return Usage(*(getattr(self, one.name) - getattr(before, one.name) for one in fields(self)))

    def line(self, prices: tuple[float, float]) -> str:
        """Everything in one line.

        >>> Usage(2, 1, 300, 40, 1.25).line((0.15, 0.6))
        '2 calls, 1 reply from the store, 300 + 40 tokens, 1.2 s, cost 0.000069'
        """
        parts = [f"{self.calls:,} call{'' if self.calls == 1 else 's'}"]
        if self.stored:
            parts.append(f"{self.stored:,} {'reply' if self.stored == 1 else 'replies'} from the store")
        if self.calls:
            guessed = f" (estimated for {self.estimated:,}: the server counts none)" if self.estimated else ""
            parts += [f"{self.prompt_tokens:,} + {self.reply_tokens:,} tokens{guessed}", f"{self.seconds:.1f} s"]
        if self.calls and any(prices):
            parts.append(f"cost {shown_cost(self.cost(prices))}")
        return ", ".join(parts)


def shown_cost(cost: float) -> str:
    """Money with two decimals, or with two digits where it is less than a hundredth.

    >>> shown_cost(12.345), shown_cost(0.000069), shown_cost(0.0)
    ('12.35', '0.000069', '0.00')
    """
    return f"{cost:,.2f}" if cost >= 0.01 or not cost else np.format_float_positional(float(f"{cost:.1e}"))


@dataclass(eq=False)
class Judge:
    """A model that answers questions. Made by `load_judge`."""

    model: str
    connect: Callable[[], AbstractAsyncContextManager[Transport]] = field(repr=False)
    store: ReplyStore = field(repr=False)
    judging: Judging = field(default_factory=Judging, repr=False)
    usage: Usage = field(default_factory=Usage)
    reported: set[str] = field(default_factory=set)
    """What the server called itself in the replies that were used."""
    without: set[str] = field(default_factory=set)
    """Parameters that the model refused to be told."""
    abilities: dict[Ability, bool] = field(default_factory=dict)
    """What the server was seen to do or not, of what was asked for."""
    key: Callable[[], str] | None = field(default=None, repr=False)
    """What identifies a model in digests, where its name says too little; without it the name does."""

    def unanswered(self, requests: Sequence[Request]) -> tuple[dict[str, Request], set[str]]:
        """The different questions that have no stored reply, by digest, and the digests of those that have one.

        Nothing is sent.
        """
        questions = {digest: one for one in requests if isinstance(digest := self._digest(one), str)}
        stored = set(self.store.has(list(questions)))
        return {digest: request for digest, request in questions.items() if digest not in stored}, stored

    def ask(self, requests: Sequence[Request], what: str = "asking") -> list[Reply | Failure]:
        """A reply to each request, or why there is none. Equal requests are sent once."""
        digests = [self._digest(request) for request in requests]
        questions = {
            digest: request for digest, request in zip(digests, requests, strict=True) if isinstance(digest, str)
        }
        stored = self.store.get(list(questions))
        replies: dict[str, Reply | Failure] = {digest: Reply.of(response) for digest, response in stored.items()}
        self.usage.stored += len(stored)
        if self.judging.replay:
            failures = self.store.failures([digest for digest in questions if digest not in stored])
            replies |= {digest: Failure(reason) for digest, reason in failures.items()}
        waiting = {digest: request for digest, request in questions.items() if digest not in replies}
        if waiting and (self.judging.replay or self.judging.dry_run):
            option = "replay" if self.judging.replay else "dry_run"
            raise InputError(
                f"{self.store.path}: has no reply to {len(waiting):,} of {len(questions):,} questions for "
                f"{self.model}, and {option}=True allows no calls"
            )
        if waiting:
            started = time.monotonic()
            try:
                ordered = dict(sorted(waiting.items(), key=lambda pair: pair[1].beginning))
                run_anywhere(Asking(self, ordered, replies, what).run())
            finally:
                self.usage.seconds += time.monotonic() - started
        for reply in replies.values():
            if isinstance(reply, Reply):
                self.reported |= {reply.model} if reply.model else set()
                self.without |= set(reply.without)
        return [replies[digest] if isinstance(digest, str) else digest for digest in digests]

    def _digest(self, request: Request) -> str | Failure:
        """What the reply is stored under; an image that cannot be read has none."""
        try:
            return request.digest(self._model_key)
        except UnreadableImage as error:
            return Failure(f"image: {error}")

    def ceiling_reached(self, usage: Usage) -> InputError | None:
        """What ends a run that has used so much."""
        judging = self.judging
        tokens, cost = usage.prompt_tokens + usage.reply_tokens, usage.cost(judging.prices)
        if judging.most_tokens is not None and tokens >= judging.most_tokens:
            reached = f"{tokens:,} tokens used, the limit is {judging.most_tokens:,}"
        elif judging.most_cost is not None and cost >= judging.most_cost:
            reached = f"{shown_cost(cost)} spent, the limit is {judging.most_cost:g}"
        else:
            return None
        kept = f"{usage.calls:,} replies are stored: raise the limit and run again to continue"
        return InputError(f"{self.model}: {reached}; {kept}")

    def can(self, ability: Ability) -> bool:
        """Whether the server really does what it is asked: a small call or two, stored like any other."""
        replies = self.ask(_probes(ability), f"probing {ability}")
        answered = [reply for reply in replies if isinstance(reply, Reply)]
        self.abilities[ability] = len(answered) == len(replies) and _shows(ability, *answered)
        return self.abilities[ability]

    def probes(self, ability: Ability) -> list[Request]:
        """What `can` asks, for a plan."""
        return _probes(ability)

    def known_to_have(self, ability: Ability) -> bool:
        """Whether an earlier run saw the ability. Nothing is asked."""
        try:
            return replace(self, judging=replace(self.judging, replay=True), usage=Usage()).can(ability)
        except InputError:
            return False

    @cached_property
    def _model_key(self) -> str:
        return self.key() if self.key else self.model

    @property
    def identity(self) -> str:
        """The model for a signature: its name, what the server calls itself where that is another one, and what it
        refused to be told.
        """
        others = sorted({PurePath(name).name for name in self.reported} - {self.model})
        facts = [*others, *(f"no {name}" for name in sorted(self.without - {"max_tokens"}))]
        return f"{self.model}[{','.join(facts)}]" if facts else self.model


def load_judge(model: str, judging: Judging | None = None) -> Judge:
    """The judge of this name: behind the endpoint, or with ``local:`` before it a model of ``transformers`` here.

    The endpoint is that of the options in force, or the variable OPENAI_BASE_URL. Nothing is sent before `Judge.ask`.
    """
    judging = judging or get_runtime().judging
    path = Path(judging.replies or default_path()).absolute()
    if judging.replay and not path.exists():
        raise InputError(f"{path}: no such file, expected a store of replies for replay=True")
    place = (os.getpid(), path)
    with _OPENING:
        if place not in _STORES:
            _STORES[place] = ReplyStore(path)
        store, usage = _STORES[place], _USAGE.setdefault(judging, Usage())
    if model.startswith(LOCAL):
        from captious.models.chat._local import LocalModel, content_key

        alone, source = replace(judging, concurrency=1), model.removeprefix(LOCAL)
        asking = not (judging.replay or judging.dry_run)
        return Judge(model, partial(LocalModel, source), store, alone, usage, key=partial(content_key, source, asking))
    url = judging.endpoint or os.environ.get("OPENAI_BASE_URL", "")

    def connect() -> Endpoint:
        if not url:
            raise InputError(
                f"{model}: no server to ask; pass endpoint=..., such as http://127.0.0.1:8080/v1, or write "
                f"{LOCAL}FOLDER for a model of transformers in this process"
            )
        return Endpoint(url, read_key(judging.key_file), judging.concurrency)

    return Judge(model, connect, store, judging, usage)


def ask_and_parse(
    judge: Judge,
    requests: Sequence[Request],
    parse: Callable[[Reply], T] | Sequence[Callable[[Reply], T]],
    tries: int = 3,
    what: str = "asking",
) -> list[T | Failure]:
    """What `parse` reads in each reply. Where it raises a ValueError, the question is asked again, more freely.

    Requests that expect different things have a parser each. A server repeats itself at temperature 0, so every further
    try is a new sample at a higher temperature.
    """
    results: list[T | Failure] = [Failure("not asked")] * len(requests)
    open_questions = dict(enumerate(requests))
    for attempt in range(tries):
        asked = {
            index: request
            if not attempt
            else replace(
                request, sample=request.sample + 1000 * attempt, temperature=max(request.temperature, 0.5 * attempt)
            )
            for index, request in open_questions.items()
        }
        for index, reply in zip(asked, judge.ask(list(asked.values()), what), strict=True):
            results[index] = _parsed(reply, parse if callable(parse) else parse[index])
        open_questions = {index: requests[index] for index in open_questions if isinstance(results[index], _Unreadable)}
        if not open_questions:
            break
    return results


class _Unreadable(Failure):
    """A reply that came and could not be parsed."""


def _parsed(reply: Reply | Failure, parse: Callable[[Reply], T]) -> T | Failure:
    if isinstance(reply, Failure):
        return reply
    if reply.finish == "content_filter":
        return Failure("the model refused to answer", reply.text)
    try:
        return parse(reply)
    except ValueError as error:
        lost = reply.thoughts and not reply.text
        problem = f"only thoughts in {reply.reply_tokens} tokens" if lost else str(error)
        return _Unreadable(f"unreadable reply: {problem}", reply.text or reply.thoughts)


def run_anywhere(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where an event loop runs already, as in a notebook.

    It runs in a thread of its own. An interrupt (Ctrl-C) cancels the coroutine and waits for its end; a second one
    cancels it again.
    """
    outcome: Future[T] = Future()
    tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []
    begun = threading.Event()

    async def main() -> T:
        task = asyncio.ensure_future(work)
        tasks.append((asyncio.get_running_loop(), task))
        begun.set()
        return await task

    def target() -> None:
        try:
            outcome.set_result(asyncio.run(main()))
        except BaseException as error:  # raised in the caller's thread
            outcome.set_exception(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(target,), daemon=True)
    interrupted = False
    while not outcome.done():
        try:
            if thread.ident is None and not interrupted:
                thread.start()  # which waits, so that an interrupt may come here too
            wait([outcome], timeout=1.0)  # on Windows a wait without an end cannot be interrupted
        except KeyboardInterrupt:
            interrupted = True
            if not begun.wait(5.0):  # it came before the thread began: nothing was asked
                raise
            for loop, task in tasks:
                with suppress(RuntimeError):  # the loop has ended in the meantime
                    loop.call_soon_threadsafe(task.cancel)
    if interrupted:
        raise KeyboardInterrupt
    return outcome.result()


_SURE = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}},
    "required": ["sure"],
    "additionalProperties": False,
}


def _probes(ability: Ability) -> list[Request]:
    """Small questions that show whether the server has the ability."""
    if ability == "schema":
        return [Request((Turn("user", "Are you sure?"),), max_tokens=64, schema=_SURE)]
    if ability == "logprobs":
        return [Request((Turn("user", "Say one digit."),), max_tokens=2, top_logprobs=5)]
    if ability == "n":
        return [Request((Turn("user", "Say one digit."),), temperature=1.0, max_tokens=2, choices=2)]
    if ability == "seed":  # with one seed the longer reply begins as the shorter one does
        turn = Turn("user", "Write ten words that have nothing to do with each other.")
        return [Request((turn,), temperature=1.0, max_tokens=length, sample=1) for length in (24, 25)]
    red = ImageData(np.full((28, 28, 3), (255, 0, 0), np.uint8))
    return [Request((Turn("user", "Which color is this?", (red,)),), max_tokens=4)]


def _shows(ability: Ability, reply: Reply, *others: Reply) -> bool:
    """Whether the replies to the probes are those of a server that has the ability."""
    if ability == "logprobs":
        return bool(reply.tokens and reply.tokens[0].top)
    if ability == "n":
        return len(reply.others) == 1
    if ability == "seed":
        return bool(reply.text) and all(other.text.startswith(reply.text) for other in others)
    return ability == "images" or _follows_schema(reply.text)


def _follows_schema(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and isinstance(value.get("sure"), bool)
