"""Damaged messages: told once, fetched from another member of the set, put back in their place.
Where only the queue's entry leads elsewhere, the entry is made anew from the log.

Responsible for: one repair at a time for each message, whom to ask, that only sound bytes get in.
Refuses to know: who found the damage, how a message is checked, who is a member.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from brokers.clock import Clock
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.store.files.errors import LogError
from brokers.store.log.integrity import RECORD_BYTES_MAX, BadRecord, Place
from brokers.store.log.patch import patch, patch_blank
from brokers.store.log.records import MAGIC_BLANK, Record, size_and_magic
from brokers.store.log.segments import file_start
from brokers.store.log.side_reader import SideRead, side_read_around
from brokers.store.queues.repair import (
    Looked,
    all_led_to,
    leads_to_a_message,
    look,
    put_right,
    where_to_look,
)
from brokers.store.store import MessageStore

CALL_TIMEOUT_MS = 3_000
# A message nobody could give is asked for again at most this often, while somebody wants it.
RETRY_MS = 5_000
WAIT_MS = 1_000
BAD_MAX = 10_000
# Of messages whose places in their queues others have.
FOUND_BY_DISPATCH = "dispatch"
HEAD_BYTES = 8
SEARCH_WINDOW_BYTES = 256 * 1024

_log = logging.getLogger("regent.broker.repair")

Report = Callable[[str, Mapping[str, object]], None]
Key = tuple[int, ...] | tuple[int, bytes, int | None, int]


class Repairs:
    """`sources()`: addresses of members that hold all confirmed messages, this broker not among
    them. Where a store is not mended, damage is told, and stays.
    """

    def __init__(
        self,
        store: MessageStore,
        client: RemotingClient,
        sources: Callable[[], Sequence[str]],
        report: Report,
        clock: Clock,
    ) -> None:
        self._store = store
        self._client = client
        self._sources = sources
        self._report = report
        self._clock = clock
        self._bad: dict[Key, int] = {}  # each message known to be damaged -> when to try again
        self._running: dict[Key, asyncio.Task[bool]] = {}
        self.refused = self.repaired = self.taken = 0

    @property
    def damaged(self) -> int:
        """Messages known to be damaged at present."""
        return len(self._bad)

    def wanted(self, bad: BadRecord, found_by: str) -> asyncio.Task[bool] | None:
        """Begins the repair unless it is under way or was tried just now. True in the end: the
        message is sound.

        A place that is not proven to be a record's start is only reported: nothing is ever written
        there (design S17).
        """
        key = _key(bad.place)
        if key not in self._bad and len(self._bad) < BAD_MAX:
            self._report_damage(bad, found_by)
        if not bad.proven or not self._store.is_mended:
            return None
        running = self._running.get(key)
        if running is None and self._clock.now_ms() >= self._bad.get(key, 0):
            running = self._running[key] = asyncio.ensure_future(self._repair(bad.place))
            running.add_done_callback(lambda _: self._running.pop(key, None))
        return running

    async def waited(self, bad: BadRecord, found_by: str) -> bool:
        """`wanted`, and whether the message is sound within a second."""
        running = self.wanted(bad, found_by)
        if running is None:
            return False
        done, _ = await asyncio.wait({running}, timeout=WAIT_MS / 1000)
        return bool(done) and not running.cancelled() and running.result()

    def _report_damage(self, bad: BadRecord, found_by: str) -> None:
        place = bad.place
        self._bad[_key(place)] = 0
        self.refused += 1
        self.taken += found_by == FOUND_BY_DISPATCH
        _log.error(
            "message at %d (%d bytes) is damaged and not served: %s",
            place.offset,
            place.size,
            bad.reason,
        )
        queue_id = -1 if place.queue_id is None else place.queue_id
        topic = place.topic.decode("utf-8", "replace")
        fields = {"offset": place.offset, "size": place.size, "topic": topic, "queue_id": queue_id}
        self._report("RecordRefused", {**fields, "reason": bad.reason, "found_by": found_by})

    async def _repair(self, place: Place) -> bool:
        if await self._entry_put_right(place):
            return True
        answered = False
        for address in self._sources():
            data = await self._fetched(address, place)
            answered = answered or data is not None
            if data is not None and await self._put(place, address, self._blank_with(data)):
                return True
            if data is not None and await self._put_back(
                address, place if place.size else place._replace(size=len(data)), data
            ):
                return True
        # The sound record in front ends there, and no message fits behind it: that proves a blank,
        # unless others know better.
        if not answered and await self._put(place, "log", self._blank_with(b"")):
            return True
        if _key(place) in self._bad:
            self._bad[_key(place)] = self._clock.now_ms() + RETRY_MS
        return False

    async def _entry_put_right(self, place: Place) -> bool:
        """Whether the entry led elsewhere than to the sound message of its slot, or to none
        although there is none.
        """
        store = self._store
        queue = (
            None
            if place.queue_id is None
            else store.queues.get(place.topic.decode("utf-8", "surrogateescape"), place.queue_id)
        )
        if queue is None:
            return False
        at, limit, closed = where_to_look(store.log, queue, place, store.confirm_offset)
        sound = closed
        window, found = SEARCH_WINDOW_BYTES, None
        try:
            while (at := max(at, store.log_min)) < limit and found is None:
                read = side_read_around(store.log, at, min(window, limit - at))
                whole = closed and at + window >= min(
                    limit, file_start(at, store.log.file_bytes) + store.log.file_bytes
                )
                looked = await asyncio.to_thread(
                    _looked, read, at, store.log.file_bytes, place, whole
                )
                found, sound = (
                    looked.found,
                    sound and looked.sound and all_led_to(store.queues, looked.others),
                )
                if looked.end == at and window > RECORD_BYTES_MAX:
                    return False
                at, window = looked.end, 2 * window if looked.end == at else SEARCH_WINDOW_BYTES
            # An entry that leads to just one message is right: the header is damaged, which others
            # have.
            if found is None and (not sound or leads_to_a_message(store.log, place)):
                return False
            return put_right(queue, place.slot, found) and self._is_right(place, found)
        except OSError as error:
            _log.error("slot %d of a queue cannot be put right: %s", place.slot, error)
            return False

    def _is_right(self, place: Place, found: Record | None) -> bool:
        self._bad.pop(_key(place), None)
        self.repaired += 1
        leads = (
            ("nowhere, there is no such message")
            if found is None
            else f"to {found.physical_offset}"
        )
        _log.warning(
            "slot %d of a queue led to %d, and leads %s now", place.slot, place.offset, leads
        )
        self._report(
            "RecordRepaired", {"offset": place.offset, "size": place.size, "source": "log"}
        )
        return True

    async def _fetched(self, address: str, place: Place) -> bytes | None:
        """What a replica of ours answers 19011 with, or one of Java's 33."""
        where = {"offset": str(place.offset)}
        try:
            answer = await self._read_log(address, place.offset, place.size or HEAD_BYTES)
            if (
                answer.code == ResponseCode.SUCCESS
                and not place.size
                and len(answer.body) == HEAD_BYTES
            ):
                size, magic = size_and_magic(answer.body, 0)
                if magic != MAGIC_BLANK:
                    answer = await self._read_log(address, place.offset, size)
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                request = RemotingCommand.request(RequestCode.VIEW_MESSAGE_BY_ID, where)
                answer = await self._client.call(address, request, CALL_TIMEOUT_MS)
        except RemotingError as error:
            _log.info("asking %s for the message at %d: %s", address, place.offset, error)
            return None
        return answer.body if answer.code == ResponseCode.SUCCESS else None

    async def _read_log(self, address: str, offset: int, count: int) -> RemotingCommand:
        ext = {"offset": str(offset), "count": str(count)}
        return await self._client.call(
            address, RemotingCommand.request(RequestCode.REGENT_READ_LOG, ext), CALL_TIMEOUT_MS
        )

    def _blank_with(self, told: bytes) -> Callable[[Place], Callable[[], None] | None]:
        log, confirmed = self._store.log, self._store.confirm_offset
        return lambda place: None if place.size else patch_blank(log, place.offset, confirmed, told)

    async def _put_back(self, address: str, place: Place, data: bytes) -> bool:
        store = self._store
        if not await self._put(
            place, address, lambda place: patch(store.log, place, data, store.confirm_offset)
        ):
            return False
        try:
            if entered := store.repaired(place.offset, len(data)):
                _log.warning(
                    "%d messages from %d on have their entries in their queues now",
                    entered,
                    place.offset,
                )
        except (OSError, LogError) as error:
            _log.error("the queue of the message at %d takes no entry: %s", place.offset, error)
        return True

    async def _put(
        self, place: Place, source: str, write: Callable[[Place], Callable[[], None] | None]
    ) -> bool:
        """Whether `write` knew the right bytes; they are durable then."""
        try:
            sync = write(place)
            if sync is None:
                return False
            await asyncio.to_thread(sync)
        except (OSError, LogError) as error:
            _log.error("the message at %d cannot be repaired: %s", place.offset, error)
            return False
        self._bad.pop(_key(place), None)
        self.repaired += 1
        _log.warning("message at %d repaired from %s", place.offset, source)
        self._report(
            "RecordRepaired", {"offset": place.offset, "size": place.size, "source": source}
        )
        return True

    async def close(self) -> None:
        """Ends what is under way."""
        tasks: list[Awaitable[bool]] = list(self._running.values())
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(place: Place) -> Key:
    """Identity of a damaged message: where it lies, or its slot, since all markers of a gap lead to
    one place.
    """
    return (
        (place.offset,)
        if place.size > 0 or place.queue_id is None
        else (place.offset, place.topic, place.queue_id, place.slot)
    )


def _looked(read: SideRead, start: int, file_bytes: int, place: Place, whole: bool) -> Looked:
    return look(read(), start, file_bytes, place, whole=whole)
