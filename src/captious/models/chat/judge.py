"""A judge: asks a chat model many questions at once, reuses stored replies, and stops at a budget."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import re
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from captious.captions import ImageData
from captious.errors import InputError
from captious.io.images import UnreadableImage
from captious.models.chat._endpoint import Endpoint, EndpointUnavailable, Unanswered, read_key
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.models.chat.replies import ReplyRecord, ReplyStore, get_default_path
from captious.options import Judging, get_runtime

T = TypeVar("T")
Ability = Literal["logprobs", "schema", "images", "n", "seed"]
# Prefix of the folder or hub id of a model that runs in this process.
LOCAL = "local:"
# Open stores by process and path: a connection to SQLite must not cross a fork.
_STORES: dict[tuple[int, Path], ReplyStore] = {}
_OPENING, _COUNTING = threading.Lock(), threading.Lock()
# Usage by options in this process: a budget is shared by all metrics and models.
_USAGE: dict[Judging, Usage] = {}


class Transport(Protocol):
    """Interface that sends a request to a model, in the JSON of the OpenAI protocol."""

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the raw response; raise `Unanswered` if this request fails, `EndpointUnavailable` if all would."""


@dataclass
class Usage:
    """Calls, tokens and time of a judge."""

    calls: int = 0
    stored: int = 0
    """Questions with a stored reply."""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    seconds: float = 0.0
    """The time from the first question of a run to its last reply."""
    estimated: int = 0
    """Calls without a plausible token count of the server."""

    def add(self, reply: Reply, times: int = 1) -> None:
        """Count a call; with -1, undo it."""
        with _COUNTING:
            self.calls += times
            self.estimated += times * (not reply.counted)
            self.prompt_tokens += times * reply.prompt_tokens
            self.reply_tokens += times * reply.reply_tokens

    def cost(self, prices: tuple[float, float]) -> float:
        """Return the cost in the currency of the prices, which are per million tokens of prompt and of reply."""
        return (self.prompt_tokens * prices[0] + self.reply_tokens * prices[1]) / 1e6

    def plus(self, other: Usage) -> Usage:
        """Add two usages."""
        return Usage(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def since(self, before: Usage) -> Usage:
        """Return the usage since an earlier one."""
        return Usage(*(getattr(self, one.name) - getattr(before, one.name) for one in fields(self)))

    def line(self, prices: tuple[float, float]) -> str:
        """Format everything in one line.

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
            parts.append(f"cost {format_cost(self.cost(prices))}")
        return ", ".join(parts)


def format_cost(cost: float) -> str:
    """Format money with two decimals, or with two digits if it is less than a hundredth.

    >>> format_cost(12.345), format_cost(0.000069), format_cost(0.0)
    ('12.35', '0.000069', '0.00')
    """
    return f"{cost:,.2f}" if cost >= 0.01 or not cost else np.format_float_positional(float(f"{cost:.1e}"))


@dataclass(eq=False)
class Judge:
    """A model that answers questions, made by `load_judge`."""

    model: str
    connect: Callable[[], AbstractAsyncContextManager[Transport]] = field(repr=False)
    store: ReplyStore = field(repr=False)
    judging: Judging = field(default_factory=Judging, repr=False)
    usage: Usage = field(default_factory=Usage)
    reported: set[str] = field(default_factory=set)
    """Model names that the server reported."""
    without: set[str] = field(default_factory=set)
    """Parameters that the model refused."""
    abilities: dict[Ability, bool] = field(default_factory=dict)
    """Results of the probes."""
    key: Callable[[], str] | None = field(default=None, repr=False)
    """Function that returns the model's key in digests; by default the key is the name."""

    def find_unanswered(self, requests: Sequence[Request]) -> tuple[dict[str, Request], set[str]]:
        """Return the distinct questions without a stored reply, by digest, and the digests of the others.

        Nothing is sent.
        """
        repeat = self.judging.repeat
        questions = {digest: one for one in requests if isinstance(digest := self._digest(one.repeat(repeat)), str)}
        stored = set(self.store.has(list(questions)))
        return {digest: request for digest, request in questions.items() if digest not in stored}, stored

    def ask(self, requests: Sequence[Request], what: str = "asking") -> list[Reply | Failure]:
        """Return a reply to each request, or the reason of its failure. Equal requests are sent once."""
        requests = [request.repeat(self.judging.repeat) for request in requests]
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
        """Return the key of the reply in the store, or a Failure if an image cannot be read."""
        try:
            return request.digest(self._model_key)
        except UnreadableImage as error:
            return Failure(f"image: {error}")

    def check_budget(self, usage: Usage) -> InputError | None:
        """Return an error if the token or cost budget is exhausted."""
        judging = self.judging
        tokens, cost = usage.prompt_tokens + usage.reply_tokens, usage.cost(judging.prices)
        if judging.most_tokens is not None and tokens >= judging.most_tokens:
            reached = f"{tokens:,} tokens used, the limit is {judging.most_tokens:,}"
        elif judging.most_cost is not None and cost >= judging.most_cost:
            reached = f"{format_cost(cost)} spent, the limit is {judging.most_cost:g}"
        else:
            return None
        kept = f"{usage.calls:,} replies are stored: raise the limit and run again to continue"
        return InputError(f"{self.model}: {reached}; {kept}")

    def can(self, ability: Ability) -> bool:
        """Test by a small call or two whether the server has an ability; the replies are stored like any other."""
        replies = self.ask(_make_probes(ability), f"probing {ability}")
        answered = [reply for reply in replies if isinstance(reply, Reply)]
        self.abilities[ability] = len(answered) == len(replies) and _check_probes(ability, *answered)
        return self.abilities[ability]

    def list_probes(self, ability: Ability) -> list[Request]:
        """Return the requests that `can` would send, for a plan."""
        return _make_probes(ability)

    def has_ability(self, ability: Ability) -> bool:
        """Return True if an earlier run saw the ability. Nothing is asked."""
        try:
            return replace(self, judging=replace(self.judging, replay=True), usage=Usage()).can(ability)
        except InputError:
            return False

    @cached_property
    def _model_key(self) -> str:
        return self.key() if self.key else self.model

    @property
    def identity(self) -> str:
        """Model in a signature: its name, the server's if it differs, refused parameters, the number of a repeat."""
        others = sorted({PurePath(name).name for name in self.reported} - {self.model})
        facts = [*others, *(f"no {name}" for name in sorted(self.without - {"max_tokens"}))]
        if self.judging.repeat:
            facts.append(f"repeat {self.judging.repeat}")
        return f"{self.model}[{','.join(facts)}]" if facts else self.model


# How servers say how many images they take: vLLM, and others that name a limit.
_MOST_IMAGES = re.compile(r"at most (\d+) image|image=(\d+)|limit\D{0,12}(\d+)|only (\d+) image", re.IGNORECASE)


def explain_refused_images(reason: str, images: int) -> str:
    """Return what to do if a server refused a request because it has too many images; other reasons stay.

    >>> explain_refused_images("status 400: At most 1 image(s) may be provided in one request.", 8)
    'the server took 1 image, the request has 8; raise its limit or use --judge-frames 1'
    >>> explain_refused_images("status 400: unknown model", 8)
    'status 400: unknown model'
    """
    refused = re.match(r"status 4(?:00|13|22)\b", reason) and re.search("image|multimodal|mm", reason, re.IGNORECASE)
    if images < 2 or not refused:
        return reason
    match = _MOST_IMAGES.search(reason)
    most = int(next(filter(None, match.groups()))) if match else 0
    if most >= images:
        return reason
    took = f"the server took {most:,} image{'' if most == 1 else 's'}, " if most else f"{reason}; "
    return f"{took}the request has {images:,}; raise its limit or use --judge-frames {most or 1}"


def load_judge(model: str, judging: Judging | None = None) -> Judge:
    """Load the judge of this name: behind the endpoint, or with the prefix ``local:`` a ``transformers`` model here.

    The endpoint is that of the current options, or the variable OPENAI_BASE_URL. Nothing is sent before `Judge.ask`.
    """
    judging = judging or get_runtime().judging
    path = Path(judging.replies or get_default_path()).absolute()
    if judging.replay and not path.exists():
        raise InputError(f"{path}: no such file, expected a store of replies for replay=True")
    place = (os.getpid(), path)
    with _OPENING:
        if place not in _STORES:
            _STORES[place] = ReplyStore(path)
        store, usage = _STORES[place], _USAGE.setdefault(replace(judging, repeat=0), Usage())
    if model.startswith(LOCAL):
        from captious.models.chat._local import LocalModel, compute_content_key

        alone, source = replace(judging, concurrency=1), model.removeprefix(LOCAL)
        asking = not (judging.replay or judging.dry_run)
        return Judge(
            model, partial(LocalModel, source), store, alone, usage, key=partial(compute_content_key, source, asking)
        )
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
    """Ask all requests and parse each reply; if `parse` raises a ValueError, ask again at a higher temperature.

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
            results[index] = _parse_reply(reply, parse if callable(parse) else parse[index])
        open_questions = {index: requests[index] for index in open_questions if isinstance(results[index], _Unreadable)}
        if not open_questions:
            break
    return results


class _Unreadable(Failure):
    """A reply that could not be parsed."""


def _parse_reply(reply: Reply | Failure, parse: Callable[[Reply], T]) -> T | Failure:
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
    """Run a coroutine to its end, even if an event loop is running already, as in a notebook.

    It runs in its own thread. An interrupt (Ctrl-C) cancels the coroutine and waits for its end; a second one
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
                thread.start()  # it waits for the thread, so an interrupt may arrive here too
            wait([outcome], timeout=1.0)  # on Windows a wait without a timeout cannot be interrupted
        except KeyboardInterrupt:
            interrupted = True
            if not begun.wait(5.0):  # interrupted before the thread began: nothing was asked
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


def _make_probes(ability: Ability) -> list[Request]:
    """Return small questions whose replies show whether the server has the ability."""
    if ability == "schema":
        return [Request((Turn("user", "Are you sure?"),), max_tokens=64, schema=_SURE, probe=True)]
    if ability == "logprobs":
        return [Request((Turn("user", "Say one digit."),), max_tokens=2, top_logprobs=5, probe=True)]
    if ability == "n":
        return [Request((Turn("user", "Say one digit."),), temperature=1.0, max_tokens=2, choices=2, probe=True)]
    if ability == "seed":  # with equal seeds the shorter reply is a prefix of the longer one
        turn = Turn("user", "Write ten words that have nothing to do with each other.")
        return [Request((turn,), temperature=1.0, max_tokens=length, sample=1, probe=True) for length in (24, 25)]
    red = ImageData(np.full((28, 28, 3), (255, 0, 0), np.uint8))
    return [Request((Turn("user", "Which color is this?", (red,)),), max_tokens=4, probe=True)]


def _check_probes(ability: Ability, reply: Reply, *others: Reply) -> bool:
    """Return True if the replies to the probes show the ability."""
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


# One run of questions: a bounded number in flight, replies stored in groups, and nothing paid is lost at the end.
# Seconds to wait for a reply that another process has requested; then it is requested here too.
OTHERS = 1200.0
# Seconds between two checks for replies of other processes.
GLANCE = 0.2
# Largest number of replies that wait to be written; then no further question is asked.
UNSTORED = 64


class StoredReply(NamedTuple):
    """A reply with its record in the store."""

    reply: Reply
    record: ReplyRecord


class Asking:
    """Asks the questions that are not stored. A reply is on disk before it counts; questions do not wait for the disk.

    Replies that come while others are written make the next group, so that a slow disk costs a wait per group.
    """

    def __init__(self, judge: Judge, waiting: Mapping[str, Request], replies: dict[str, Reply | Failure], what: str):
        """Take the open questions by their digests; answers are added to ``replies``."""
        self.judge, self.replies, self.what = judge, replies, what
        self.total = len(replies) + len(waiting)
        self._workers = min(judge.judging.concurrency, len(waiting))
        self._questions = iter(waiting.items())
        # Questions that another process or thread is asking.
        self._elsewhere: dict[str, Request] = {}
        self._claimed: set[str] = set()
        self._stop: list[InputError | asyncio.CancelledError] = []
        # Usage of replies that are not stored yet.
        self._unstored = judge.usage.since(judge.usage)
        # True once the estimate was logged.
        self._estimated = False
        self._runtime = get_runtime()

    @property
    def _paid(self) -> Usage:
        """Usage that counts towards the budget, including that of other runs that share it."""
        return self.judge.usage.plus(self._unstored)

    async def run(self) -> None:
        """Ask all questions, or until an error or the budget stops the run.

        The first cancellation stops new questions and waits for those in flight, which are paid for; a second one drops
        them.
        """
        work = asyncio.ensure_future(self._ask_and_store())
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            self._stop.append(error)
            self._runtime.log(f"{self.judge.model}: waiting for the pending replies; interrupt again to drop them")
            await work
        if self._stop:
            reached = self.judge.check_budget(self._paid)  # including the requests that were in flight
            raise reached or self._stop[0]

    async def _ask_and_store(self) -> None:
        queue = asyncio.Queue[StoredReply | None](UNSTORED)
        storing = asyncio.ensure_future(self._store(queue))
        try:
            async with self.judge.connect() as transport:
                await asyncio.gather(*(self._ask(transport, queue) for _ in range(self._workers)))
                end = time.monotonic() + OTHERS
                while self._elsewhere and not self._stop:
                    await asyncio.sleep(GLANCE)
                    self._questions, self._elsewhere = iter(self._elsewhere.items()), {}
                    insist = time.monotonic() > end
                    await asyncio.gather(*(self._ask(transport, queue, insist) for _ in range(self._workers)))
        finally:
            await queue.put(None)
            await storing
            self.judge.store.claims.give_back(*self._claimed)

    async def _ask(self, transport: Transport, queue: asyncio.Queue[StoredReply | None], insist: bool = False) -> None:
        """Ask one question after the other; several workers share the questions.

        A question that another process asks already is left for later, unless ``insist`` is set.
        """
        for digest, request in self._questions:
            if not self._stop and (ceiling := self.judge.check_budget(self._paid)):
                self._stop.append(ceiling)
            if self._stop:
                return
            if self.judge.store.claims.take(digest):
                self._claimed.add(digest)
            elif not insist:
                self._elsewhere[digest] = request
                continue
            if stored := self.judge.store.get([digest]):  # written by another process since the first lookup
                self.replies[digest] = Reply.of(stored[digest])
                self.judge.usage.stored += 1
                self.judge.store.claims.give_back(digest)
                self._runtime.progress(self.what, len(self.replies), self.total)
                continue
            try:
                answer = await self._ask_one(transport, digest, request)
            except EndpointUnavailable as error:
                self._stop.append(error)
                return
            if isinstance(answer, Failure):
                self.judge.store.put_failure(digest, answer.reason)
                self.replies[digest] = answer
                self.judge.store.claims.give_back(digest)
                self._runtime.progress(self.what, len(self.replies), self.total)
            else:
                self._unstored.add(answer.reply)
                await queue.put(answer)

    async def _ask_one(self, transport: Transport, digest: str, request: Request) -> StoredReply | Failure:
        started, model = time.monotonic(), self.judge.model
        try:
            # Images are read and encoded in a thread, so that the event loop is not blocked.
            body = (
                await asyncio.to_thread(request.build_payload, model)
                if request.images
                else request.build_payload(model)
            )
            response = await transport.complete(body)
            reply = self._fill_counts(Reply.of(response), request)
        except EndpointUnavailable:
            raise
        except UnreadableImage as error:
            return Failure(f"image: {error}")
        except (Unanswered, ValueError) as error:
            return Failure(explain_refused_images(str(error), request.images))
        asked = request.build_payload(model, encoded=False) if request.images else body
        return StoredReply(reply, ReplyRecord(digest, asked, response, time.monotonic() - started))

    def _fill_counts(self, reply: Reply, request: Request) -> Reply:
        """Return the reply with token counts for the budget, estimated if the server counts none."""
        if reply.counted:
            return reply
        judging = self.judge.judging
        if not self._estimated and (judging.most_tokens is not None or judging.most_cost is not None):
            self._estimated = True
            self._runtime.log(f"{self.judge.model}: the server counts no tokens; the limit applies to an estimate")
        return replace(reply, prompt_tokens=request.estimated_tokens)

    async def _store(self, queue: asyncio.Queue[StoredReply | None]) -> None:
        """Write replies in groups until None arrives; a reply counts once it is written."""
        answer = await queue.get()
        while answer is not None:
            group = [answer]
            while not queue.empty() and (answer := queue.get_nowait()) is not None:
                group.append(answer)
            await self._store_group(group)
            answer = await queue.get() if answer is not None else None

    async def _store_group(self, group: list[StoredReply]) -> None:
        try:
            await asyncio.to_thread(self.judge.store.put, *(one.record for one in group))
        except InputError as error:
            self._stop.append(error)
            return
        for one in group:
            self.replies[one.record.digest] = one.reply
            self.judge.usage.add(one.reply)
            self._unstored.add(one.reply, -1)
        self.judge.store.claims.give_back(*(one.record.digest for one in group))
        self._runtime.progress(self.what, len(self.replies), self.total)
