"""Bringing back what was popped and not acknowledged in time, while this broker leads, or acts for
a master that is away (PROTOCOL 4.9, 7.4).

Responsible for: reading the revive queues, putting copies into retry topics, the place that a
successor may go on from. Refuses to know: what belongs together and what is due (`matching`), how a
copy looks (`retry_records`).

Every record is read once. A place is told when everything that was done in front of it is durable
on every member (as of delayed messages): a successor repeats, and never leaves out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from brokers.acting.forms import Kind
from brokers.acting.outcomes import Got
from brokers.clock import Clock
from brokers.replica.put_rules import PutStatus, code_of
from brokers.service.escape.away import Ways
from brokers.service.popping.matching import OpenPoint, OpenPoints
from brokers.service.popping.names import NORMAL, REVIVE_GROUP, kind_of
from brokers.service.popping.others_messages import Get, OthersMessages
from brokers.service.popping.records import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    BadRecord,
    CheckPoint,
    Key,
    read_ack,
    read_check_point,
)
from brokers.service.popping.retry_records import another_try
from brokers.service.popping.terms import PopTerms
from brokers.service.role.services import Served, Service
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.outlet import Outlet
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.checked_records import body_and_properties, size_and_places
from brokers.store.log.integrity import BadRecord as DamagedRecord
from brokers.store.log.properties import property_value
from brokers.store.log.records import MessageFields, RecordError, StoredMessage, decode_messages
from brokers.store.queues.query import MESSAGES_MAX, GetResult, GetStatus

# Records read, or messages brought back, before everybody else has a turn: some milliseconds.
SLICE_RECORDS = 4 * MESSAGES_MAX
SLICE_MESSAGES = 2 * MESSAGES_MAX
# A put that was refused is tried again after it.
RETRY_MS = 100
BARRIERS_MAX = 16
# Who says at the begin of acting what is done waits so long for its check point to be read.
READ_WAIT_MS = 2_000
# A damaged record holds its queue up so long, for somebody may have it sound.
DAMAGED_WAIT_MS = 60_000
# After how many seconds a message is tried again that could not be read, by how often.
RE_PUT_AFTER_S = (
    10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip

# A check point comes a second before its time. One that is so far ahead of it was sent by somebody,
# or stored under another clock.
EARLY_MS = 60_000

# Records that are passed over are told one by one, then one of so many.
TOLD_MAX = 100

_CHECK_POINT, _ACK, _BATCH_ACK = (tag.encode() for tag in (CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG))

_log = logging.getLogger("regent.broker.pop")


@dataclass(slots=True)
class Barrier:
    """When the log is dispatched to `log_end`, everything due before `time_ms` can be read."""

    time_ms: int
    log_end: int


class ReviveQueue:
    """One queue of the revive topic."""

    def __init__(self, queue_id: int, next_offset: int, processed: int) -> None:
        self.queue_id = queue_id
        self.early: list[OpenPoint] = []
        self.points = OpenPoints(next_offset, processed)
        self.told = processed
        self.damaged_since: int | None = None


class ReviveService(Service):
    """`revived`: messages that came back; `parked`: records that could not be read, and messages
    that cannot be copied; both since the process began. `soon(act)`: in the loop's next turn.
    `made(topics)`: these are in the table, and the members are to hold them. `ways`: out of the
    set; None: there are none, and what is due waits for a master. `get`: a message of another set,
    whose check point came here; None: there is no way to it.
    """

    def __init__(
        self,
        terms: PopTerms,
        repair: Callable[[DamagedRecord, str], object],
        soon: Callable[[Callable[[], None]], object],
        made: Callable[[list[TopicConfig]], None],
        ways: Ways | None = None,
        get: Get | None = None,
    ) -> None:
        self._others = OthersMessages(get)
        self._terms = terms
        self._ways = ways
        self._outlet: Outlet = terms.puts
        self._here: dict[int, dict[Key, set[tuple[int, int]]]] = {}
        self._readers: set[asyncio.Future[None]] = set()
        self._repair = repair
        self._soon = soon
        self._made = made
        self._clock: Clock = terms.clock
        self._queues: list[ReviveQueue] = []
        self._barriers: list[Barrier] = []
        self._until_ms = 0
        self._again_ms = 0
        self._going = False
        self._turn = 0
        self.revived = 0
        self.parked = 0

    def serves(self) -> dict[int, Served]:
        """Nothing: nobody asks for what comes back."""
        return {}

    def mastership_begins(self) -> None:
        """From the places on that the last master handed over, within what the queues hold."""
        terms = self._terms
        self._queues = []
        for queue_id in range(terms.revive_queues):
            low, high = terms.store.queue_bounds(terms.revive_topic, queue_id)
            known = terms.tables.offsets.query(REVIVE_GROUP, terms.revive_topic, queue_id)
            processed = -1 if known is None else min(known, high - 1)
            next_offset = min(max(processed + 1, low), high)
            self._queues.append(ReviveQueue(queue_id, next_offset, processed))
        self._barriers = []
        self._until_ms = self._again_ms = 0
        self._outlet = terms.puts
        self._here = {}
        self._others.forget()
        self._wake_readers()

    def mastership_over(self) -> None:
        self._queues = []
        self._outlet = self._terms.puts
        self._others.forget()
        self._wake_readers()

    def acting_begins(self) -> None:
        """From the same places on: of check points that this set's queues have. What its wheel
        still holds leaves as it is, and the other set's reviver sees to it.
        """
        if self._ways is not None:
            self.mastership_begins()
            self._outlet = self._ways("revival", Kind.RETRY)

    def acting_over(self) -> None:
        if self._acts:
            self._tell()
            self.mastership_over()

    @property
    def _acts(self) -> bool:
        return self._outlet is not self._terms.puts

    def leaving(self, record: MessageFields) -> bool:
        """A record of the revive topic comes out of the wheel of a slave that acts. True: nobody
        else needs it. It is a check point that the master's wheel had delivered here, and had not
        told so, or an acknowledgement of one that is here. NotPut: what is here is not read yet.
        """
        tag = (property_value(record.properties, b"TAGS") or b"").decode("utf-8", "replace")
        body, own = bytes(record.body), self._terms.broker_name
        if not 0 <= record.queue_id < len(self._queues):
            return False
        queue = self._queues[record.queue_id]
        here = self._names_here(queue)
        try:
            if tag == CHECK_POINT_TAG:
                point = read_check_point(body, own)
                known = here.get(point.key, set())
                return all((point.re_puts, offset) in known for offset in point.offsets)
            if tag in (ACK_TAG, BATCH_ACK_TAG):
                ack = read_ack(body, own, batch=tag == BATCH_ACK_TAG)
                return queue.points.ack(ack) or ack.key in here
        except BadRecord:
            pass
        return False

    async def left_soon(self, record: MessageFields) -> bool:
        """`leaving`, as soon as what is here has been read: who begins to act has not yet. NotPut:
        it takes too long, or this slave acts no more.
        """
        deadline_ms = self._clock.now_ms() + READ_WAIT_MS
        while True:
            try:
                return self.leaving(record)
            except NotPut:
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0:
                    raise
            if not await self._read_on(left_ms):
                raise NotPut(*code_of(PutStatus.SERVICE_NOT_AVAILABLE, "this slave acts no more"))

    async def _read_on(self, timeout_ms: int) -> bool:
        """Until more was read, at most so long; whether this slave still acts."""
        more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.add(more)
        try:
            await asyncio.wait((more,), timeout=timeout_ms / 1000)
        finally:
            self._readers.discard(more)
        return self._acts

    def _wake_readers(self) -> None:
        for more in self._readers:
            if not more.done():
                more.set_result(None)

    def _names_here(self, queue: ReviveQueue) -> dict[Key, set[tuple[int, int]]]:
        """Of the check points of this queue, which does not grow while its slave acts. NotPut."""
        here = self._here.get(queue.queue_id)
        if here is None:
            high = self._terms.store.queue_bounds(self._terms.revive_topic, queue.queue_id)[1]
            if queue.points.next_offset < high and not queue.points.full:
                raise NotPut(0, f"revive queue {queue.queue_id} is not read yet")
            here = self._here[queue.queue_id] = queue.points.names()
        return here

    @property
    def open(self) -> int:
        """Check points that are not decided yet."""
        return sum(queue.points.open for queue in self._queues)

    def tick(self, now_ms: int) -> None:
        if not self._queues or self._terms.timer is None:
            return
        self._note_barrier(self._terms.timer.delivered_until_ms())
        self._tell()
        if not self._going and now_ms >= self._again_ms:
            self._slice()

    def _note_barrier(self, until_ms: int) -> None:
        """What was delivered until now can be read when the log is dispatched to its present
        end.
        """
        store = self._terms.store
        if until_ms > (self._barriers[-1].time_ms if self._barriers else self._until_ms):
            if len(self._barriers) == BARRIERS_MAX:  # what comes later has what came before
                self._barriers.pop()
            self._barriers.append(Barrier(until_ms, store.log_end))
        while self._barriers and self._barriers[0].log_end <= store.dispatched_offset:
            self._until_ms = self._barriers.pop(0).time_ms

    def _slice(self) -> None:
        """Some of what is to be read and of what is due; the rest in the next turn of the loop."""
        self._going = False
        revived, until_ms, more = self.revived, self._until_ms, False
        try:
            for _ in range(len(self._queues)):
                self._turn = (self._turn + 1) % len(self._queues)
                queue = self._queues[self._turn]
                more |= self._read(queue, until_ms)
                more |= self._revive_due(queue, revived + SLICE_MESSAGES)
        except NotPut as refusal:
            _log.debug("what was not acknowledged waits: %s", refusal)
            self._again_ms = self._clock.now_ms() + RETRY_MS
            return
        finally:
            self._wake_readers()
        if more:
            self._going = True
            self._soon(self._go_on)

    def _go_on(self) -> None:
        if self._queues:
            self._slice()
        else:
            self._going = False

    # -- reading -----------------------------------------------------------------------------------

    def _read(self, queue: ReviveQueue, until_ms: int) -> bool:
        """Whether more is to be read. `until_ms` is read when the queue's end is."""
        store, topic, points = self._terms.store, self._terms.revive_topic, queue.points
        for _ in range(SLICE_RECORDS // MESSAGES_MAX):
            self._wait_again(queue)
            if points.full:
                return False
            high = store.queue_bounds(topic, queue.queue_id)[1]
            if points.next_offset >= high:
                points.read_until(until_ms)
                return False
            found = store.query(topic, queue.queue_id, points.next_offset, MESSAGES_MAX)
            if not self._take(queue, found):
                return False
        return True

    def _take(self, queue: ReviveQueue, found: GetResult) -> bool:
        """Whether the queue was gone on in."""
        points = queue.points
        if found.status is GetStatus.FOUND:
            body, at = found.body, 0
            while at < len(body):
                size, queue_offset, _ = size_and_places(body, at)
                self._record(queue, queue_offset, *body_and_properties(body, at, at + size))
                at += size
            points.next_offset = found.next_offset
            queue.damaged_since = None
            return True
        if found.refused is None:
            moved = found.next_offset > points.next_offset
            points.next_offset = max(points.next_offset, found.next_offset)
            return moved
        self._repair(found.refused, "revive")
        now_ms = self._clock.now_ms()
        queue.damaged_since = now_ms if queue.damaged_since is None else queue.damaged_since
        if now_ms - queue.damaged_since < DAMAGED_WAIT_MS:
            return False
        self._park(queue, points.next_offset, found.refused.reason)
        points.next_offset += 1
        queue.damaged_since = None
        return True

    def _record(
        self, queue: ReviveQueue, queue_offset: int, body: bytes, properties: bytes
    ) -> None:
        tag, own = property_value(properties, b"TAGS"), self._terms.broker_name
        try:
            if tag == _ACK:
                queue.points.ack(read_ack(body, own, batch=False))
            elif tag == _CHECK_POINT:
                point = read_check_point(body, own)
                known = queue.points.check_point(point, queue_offset)
                if point.visible_ms - self._now_ms() > EARLY_MS and known.is_open:
                    queue.early.append(known)
            elif tag == _BATCH_ACK:
                queue.points.ack(read_ack(body, own, batch=True))
        except BadRecord as error:
            self._park(queue, queue_offset, str(error))

    def _now_ms(self) -> int:
        """A clock that was set back makes nothing early: the timer would deliver it at once."""
        timer = self._terms.timer
        delivered_ms = 0 if timer is None else timer.delivered_until_ms()
        return max(self._clock.wall_ms(), delivered_ms)

    def _wait_again(self, queue: ReviveQueue) -> None:
        """What is far ahead of its time waits where it costs nothing. NotPut."""
        terms, wall_ms = self._terms, self._clock.wall_ms()
        if self._acts:  # it waits here, and so does the place
            queue.early.clear()
        while queue.early:
            known = queue.early[-1]
            if known.is_open:
                record = terms.records.check_point(known.point, queue.queue_id, wall_ms)
                (result,) = terms.puts.append([terms.waiting(record)])
                if isinstance(result, RecordError):
                    self._park(queue, known.revive_offset, str(result))
                else:
                    queue.points.settle(known, result.end_offset, comes_again=True)
            queue.early.pop()

    def _park(self, queue: ReviveQueue, offset: int, why: str) -> None:
        self.parked += 1
        if self.parked > TOLD_MAX and self.parked % TOLD_MAX:
            return  # anybody can send such records
        _log.error("record %d of revive queue %d is passed over: %s", offset, queue.queue_id, why)

    # -- bringing back -----------------------------------------------------------------------------

    def _revive_due(self, queue: ReviveQueue, revived_max: int) -> bool:
        """Whether more may be due. NotPut."""
        wall_ms = self._clock.wall_ms()
        while (known := queue.points.due(wall_ms)) is not None:
            if self.revived >= revived_max:
                return True
            if self._is_of_others(known) and not self._others.came(known):
                if self._others.full:
                    return False
                self._fetch(queue, known)
            else:
                self._revive(queue, known, wall_ms)
        return False

    def _is_of_others(self, known: OpenPoint) -> bool:
        """A slave of another set acted and sent it here."""
        of_others = known.point.key.broker_name != self._terms.broker_name
        return of_others and self._others.possible

    def _fetch(self, queue: ReviveQueue, known: OpenPoint) -> None:
        """Its messages come from their set; meanwhile it is due no more."""
        queue.points.set_aside(known)
        self._others.begin(known, lambda: queue.points.bring_back(known))

    def _revive(self, queue: ReviveQueue, known: OpenPoint, wall_ms: int) -> None:
        """Copies of what is left of one check point. NotPut: of none; it stays open."""
        point = known.point
        messages: list[MessageFields] = []
        if self._is_wanted(queue, known):
            topic = self._target(point.key)
            for offset in known.left:
                message = self._message(known, offset)
                if isinstance(message, DamagedRecord) or message is Got.RETRY:
                    messages.append(self._again(point, offset, queue.queue_id, wall_ms))
                elif isinstance(message, StoredMessage):
                    host = self._terms.puts.store_host
                    messages.append(another_try(message, topic, point.key.pop_ms, host))
        end_offset = 0
        if messages:
            for result in self._outlet.append(messages):
                if isinstance(result, RecordError):
                    self._park(queue, known.revive_offset, str(result))
                else:
                    end_offset = max(end_offset, result.end_offset)
                    self.revived += 1
        queue.points.settle(known, end_offset)
        self._others.done(known)

    def _is_wanted(self, queue: ReviveQueue, known: OpenPoint) -> bool:
        """Nobody misses messages of a topic or a group that is gone."""
        key, tables = known.point.key, self._terms.tables
        if self._is_of_others(known):
            return True
        if key.broker_name != self._terms.broker_name:
            self._park(queue, known.revive_offset, f"it is of broker {key.broker_name[:80]}")
            return False
        return tables.topics.get(key.topic) is not None and tables.groups.get(key.group) is not None

    def _target(self, key: Key) -> str:
        """The retry topic, which is made when it is missing."""
        topics = self._terms.tables.topics
        if kind_of(key.topic) != NORMAL:
            return key.topic
        name = self._terms.retry_topic(key.group, key.topic)
        if topics.get(name) is None and not self._acts:
            self._made([TopicConfig(name, 1, 1)])
        return name

    def _message(self, known: OpenPoint, offset: int) -> StoredMessage | DamagedRecord | Got | None:
        """A message that was popped; None when it is gone."""
        if self._is_of_others(known):
            return self._others.message(known, offset)
        key = known.point.key
        found = self._terms.store.query(key.topic, key.queue_id, offset, 1)
        if found.refused is not None:
            self._repair(found.refused, "revive")
            return found.refused
        records = decode_messages(found.body) if found.status is GetStatus.FOUND else []
        return records[0] if records and records[0].queue_offset == offset else None

    def _again(self, point: CheckPoint, offset: int, queue_id: int, wall_ms: int) -> MessageFields:
        """A check point for one message that cannot be read now."""
        re_puts = point.re_puts + 1
        key, terms = point.key, self._terms
        after_ms = 1_000 * RE_PUT_AFTER_S[min(re_puts, len(RE_PUT_AFTER_S)) - 1]
        invisible_ms = wall_ms - key.pop_ms + after_ms
        name = Key(key.topic, key.group, key.queue_id, offset, key.pop_ms, key.broker_name)
        fresh = CheckPoint(name, invisible_ms, (offset,), re_puts=re_puts)
        record = terms.records.check_point(fresh, queue_id, wall_ms)
        return record if self._acts else terms.waiting(record)

    # -- places ------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """The table that slaves copy and the disk keeps: safe places only."""
        terms = self._terms
        until, wall_ms = self._outlet.safe_offset, self._clock.wall_ms()
        for queue in self._queues:
            safe = queue.points.safe(until)
            if safe > queue.told:
                queue.told = safe
                terms.tables.offsets.commit(
                    REVIVE_GROUP, terms.revive_topic, queue.queue_id, safe, wall_ms
                )
