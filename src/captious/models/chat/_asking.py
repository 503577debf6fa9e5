"""One run of questions: a bounded number in flight, replies stored in groups, and nothing paid is lost at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from captious.errors import InputError
from captious.io.images import UnreadableImage
from captious.models.chat._endpoint import EndpointUnavailable, Unanswered
from captious.models.chat.messages import Failure, Reply, Request
from captious.models.chat.replies import ReplyRecord
from captious.options import get_runtime

if TYPE_CHECKING:
    from captious.models.chat.judge import Judge, Transport, Usage

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
        self._elsewhere: dict[str, Request] = {}
        """Questions that another process or thread is asking."""
        self._claimed: set[str] = set()
        self._stop: list[InputError | asyncio.CancelledError] = []
        self._unstored = judge.usage.since(judge.usage)
        """Usage of replies that are not stored yet."""
        self._estimated = False
        """True once the estimate was logged."""
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
            return Failure(str(error))
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
