"""Asking producers about halves that nobody ended: 39, in rounds (PROTOCOL 4.7).

Responsible for: whom to ask, the copy that counts the questions, giving up. Refuses to know: what
a producer answers, when a half is due (`rules`).

A half that is asked about is copied behind the others, with one more question counted, and the
copy stands for it. One about which nobody can be asked stays where it is, uncounted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.role.services import Served, Service
from brokers.service.sending.delayed import HALF_TOPIC
from brokers.service.sending.half import QUEUE_ID
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.sending.request import Refusal
from brokers.service.tables.topics import TopicConfig
from brokers.service.transactions.decided import Decided, Decision
from brokers.service.transactions.forms import (
    GIVEN_UP_TOPIC,
    PRODUCER_GROUP,
    UNIQUE_KEY,
    again,
    property_text,
    question,
    times_asked,
)
from brokers.service.transactions.ledger import TransactionLedger
from brokers.service.transactions.rules import Next, TransactionTerms, immune_ms, what_next
from brokers.store.appender import PutResult
from brokers.store.log.integrity import BadRecord
from brokers.store.log.records import (
    MessageFields,
    RecordError,
    StoredMessage,
    decode_messages,
    offset_message_id,
)
from brokers.store.queues.query import MESSAGES_MAX, GetStatus
from brokers.store.store import MessageStore

# Halves looked at before everybody else has a turn.
READS_AT_ONCE = 4
# A round ends after it; what it did not come to is looked at first in the next one.
ROUND_MS_MAX = 60_000
# Questions that wait until the members hold their copies.
QUESTIONS_MAX = 10_000
# Halves that were seen and wait: they are not read again while they do.
SEEN_MAX = 65_536
# Stretches of decided halves behind one that waits; then it is copied behind them, uncounted.
BEHIND_MAX = 65_536
# As RocketMQ's: a put that was refused is tried again after it.
RETRY_MS = 1_000
# A damaged half holds the others up so long, for somebody may have it sound.
DAMAGED_WAIT_MS = 60_000

_log = logging.getLogger("regent.broker.transactions")


class _Question(NamedTuple):
    end_offset: int
    half: StoredMessage
    copy: PutResult


class _Seen(NamedTuple):
    """Why a half waits: for its group's producer, and not before a time of the wall clock."""

    group: str
    not_before_ms: int


class TransactionChecks(Service):
    """`producers(group)`: the connections of a group's producers. `hold(topics)`: these are on all
    members when it returns, or why not. `has_topic(name)`: it is. `broker_name`: as
    clients know this set.
    """

    def __init__(
        self,
        store: MessageStore,
        ledger: TransactionLedger,
        puts: OwnPuts,
        clock: Clock,
        terms: TransactionTerms,
        *,
        broker_name: str,
        producers: Callable[[str], Sequence[Connection]],
        hold: Callable[[list[TopicConfig]], Awaitable[Refusal | None]],
        has_topic: Callable[[str], bool],
        repair: Callable[[BadRecord, str], object],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._puts = puts
        self._clock = clock
        self._terms = terms
        self._broker_name = broker_name
        self._producers = producers
        self._hold = hold
        self._has_topic = has_topic
        self._repair = repair
        self._soon = soon
        self._next_round_ms: int | None = None
        self._round_ms = self._round_began_ms = 0
        self._place: int | None = None
        self._questions: deque[_Question] = deque()
        self._seen: dict[int, _Seen] = {}
        self._askable: dict[str, bool] = {}  # groups, in this round
        self._damaged_since: dict[int, int] = {}
        self._holding: asyncio.Task[Refusal | None] | None = None
        self.asked = self.given_up = 0

    def serves(self) -> dict[int, Served]:
        """Nothing: the broker asks."""
        return {}

    def mastership_begins(self) -> None:
        """The first round comes after an interval: producers have to find this broker."""
        self._next_round_ms = self._clock.now_ms() + self._terms.check_interval_ms

    def mastership_over(self) -> None:
        self._next_round_ms = self._place = None
        self._questions.clear()
        self._seen.clear()
        self._damaged_since.clear()

    def tick(self, now_ms: int) -> None:
        if self._next_round_ms is None:
            return
        self._ask()
        if self._place is None and now_ms >= self._next_round_ms and self._ledger.is_loaded:
            self._round_ms, self._round_began_ms = self._clock.wall_ms(), now_ms
            self._place = 0
            self._askable.clear()
            self._look()

    # -- one round ---------------------------------------------------------------------------------

    def _look(self) -> None:
        """Some halves; the rest in the next turn of the loop."""
        decided = self._ledger.decided
        if self._place is None or decided is None:
            return
        late = self._clock.now_ms() - self._round_began_ms > ROUND_MS_MAX
        try:
            for _ in range(READS_AT_ONCE):
                if late or len(self._questions) >= QUESTIONS_MAX or not self._some(decided):
                    self._round_over(self._terms.check_interval_ms)
                    return
        except NotPut as refusal:
            _log.debug("checks wait: %s", refusal)
            self._round_over(RETRY_MS)
            return
        self._soon(self._look)

    def _round_over(self, pause_ms: int) -> None:
        self._place = None
        self._next_round_ms = self._clock.now_ms() + pause_ms

    def _some(self, decided: Decided) -> bool:
        """Whether this round goes on. NotPut."""
        assert self._place is not None
        place = self._place = self._next_open(decided, self._place)
        found = self._store.query(HALF_TOPIC, QUEUE_ID, place, MESSAGES_MAX)
        if found.status is not GetStatus.FOUND:
            return self._without(decided, place, found.next_offset, found.refused)
        ask: list[StoredMessage] = []
        give_up: list[StoredMessage] = []
        goes_on = True
        for half in decode_messages(found.body):
            if (
                half.queue_offset < self._place
                or self._next_open(decided, half.queue_offset) != half.queue_offset
            ):
                continue
            what = self._what(half)
            if what is Next.STOP:
                goes_on = False
                break
            self._place = half.queue_offset + 1
            if what is Next.ASK:
                ask.append(half)
            elif what is Next.GIVE_UP:
                give_up.append(half)
            elif half.queue_offset == decided.half and decided.behind > BEHIND_MAX:
                self._copy_on(decided, half)
            else:
                self._remember(half)
        else:
            self._place = max(self._place, found.next_offset)
        self._copy(decided, ask)
        self._give_up(decided, give_up)
        return goes_on

    def _next_open(self, decided: Decided, offset: int) -> int:
        """The first half from there on that is to be looked at."""
        wall_ms = self._clock.wall_ms()
        while True:
            offset = decided.next_open(offset)
            seen = self._seen.get(offset)
            if seen is None or decided.behind > BEHIND_MAX:
                return offset
            if wall_ms >= seen.not_before_ms and self._can_ask(seen.group):
                del self._seen[offset]
                return offset
            offset += 1

    def _what(self, half: StoredMessage) -> Next:
        can_ask = self._can_ask(property_text(half.fields, PRODUCER_GROUP))
        return what_next(half, self._clock.wall_ms(), self._round_ms, self._terms, can_ask=can_ask)

    def _can_ask(self, group: str) -> bool:
        known = self._askable.get(group)
        if known is None:
            known = self._askable[group] = bool(self._producers(group))
        return known

    def _remember(self, half: StoredMessage) -> None:
        if len(self._seen) >= SEEN_MAX:
            return
        age_ms = self._clock.wall_ms() - half.fields.born_ms
        immune = half.fields.born_ms + immune_ms(half.fields, self._terms) if age_ms >= 0 else 0
        self._seen[half.queue_offset] = _Seen(property_text(half.fields, PRODUCER_GROUP), immune)

    def _copy(self, decided: Decided, halves: list[StoredMessage]) -> None:
        """Copies of these, with one more question counted, and the questions. NotPut: of none."""
        copies, ready = [], []
        for half in halves:
            try:
                copies.append(again(half.fields, times_asked(half.fields) + 1))
                ready.append(half)
            except ValueError as error:
                self._pass_over(decided, half.queue_offset, str(error))
        names = []
        for half, result in zip(ready, self._put(copies), strict=True):
            if isinstance(result, RecordError):
                self._pass_over(decided, half.queue_offset, str(result))
                continue
            decided.copied(half.queue_offset, result.queue_offset)
            names.append(half.queue_offset)
            self._questions.append(_Question(result.end_offset, half, result))
        self._ledger.record(names, ended=False)

    def _copy_on(self, decided: Decided, half: StoredMessage) -> None:
        """Behind all others as it is: too many that are decided wait behind it."""
        (result,) = self._put([again(half.fields, times_asked(half.fields))])
        if isinstance(result, RecordError):
            self._pass_over(decided, half.queue_offset, str(result))
            return
        decided.copied(half.queue_offset, result.queue_offset)
        self._ledger.record([half.queue_offset], ended=False)

    def _give_up(self, decided: Decided, halves: list[StoredMessage]) -> None:
        """These go where an operator finds them. NotPut: none did."""
        if not halves:
            return
        if not self._has_topic(GIVEN_UP_TOPIC):
            self._make_topic()
            raise NotPut(0, f"{GIVEN_UP_TOPIC} is not there yet")
        moved = [again(half.fields, times_asked(half.fields), GIVEN_UP_TOPIC) for half in halves]
        names = []
        for half, result in zip(halves, self._put(moved), strict=True):
            if isinstance(result, RecordError):
                self._pass_over(decided, half.queue_offset, str(result))
                continue
            decided.note(half.queue_offset, Decision.GIVEN_UP)
            self._seen.pop(half.queue_offset, None)
            self.given_up += 1
            names.append(half.queue_offset)
        self._ledger.record(names, ended=False)

    def _make_topic(self) -> None:
        if self._holding is None or self._holding.done():
            topic = TopicConfig(GIVEN_UP_TOPIC, 1, 1)
            self._holding = asyncio.ensure_future(self._hold([topic]))

    def _put(self, messages: list[MessageFields]) -> list[PutResult | RecordError]:
        return self._puts.append(messages) if messages else []

    def _pass_over(self, decided: Decided, offset: int, why: str) -> None:
        _log.error("half message %d is never asked about: %s", offset, why)
        decided.note(offset, Decision.GIVEN_UP)
        self._ledger.record([offset], ended=False)

    def _without(
        self, decided: Decided, place: int, next_offset: int, bad: BadRecord | None
    ) -> bool:
        """Nothing can be read at the place; whether the round goes on."""
        if bad is not None:
            self._repair(bad, "transactions")
            now_ms = self._clock.now_ms()
            since = self._damaged_since.setdefault(place, now_ms)
            if now_ms - since >= DAMAGED_WAIT_MS:
                self._pass_over(decided, place, bad.reason)
                del self._damaged_since[place]
            self._place = place + 1
            return True
        low, high = self._store.queue_bounds(HALF_TOPIC, QUEUE_ID)
        if place < next_offset < high or place < low:
            self._place = max(next_offset, low)
            return True
        return False

    # -- questions ---------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Those whose copies every member has: an answer names the copy, also to a successor."""
        while self._questions and self._questions[0].end_offset <= self._store.dispatched_offset:
            one = self._questions.popleft()
            decided = self._ledger.decided
            if decided is None or decided.is_decided(one.copy.queue_offset):
                continue
            producers = self._producers(property_text(one.half.fields, PRODUCER_GROUP))
            if not producers:
                continue
            try:
                body = question(one.half, one.copy.queue_offset, one.copy.physical_offset)
            except (ValueError, RecordError) as error:
                self._pass_over(decided, one.copy.queue_offset, str(error))
                continue
            self.asked += 1
            producers[self.asked % len(producers)].send(self._request(one, body))

    def _request(self, one: _Question, body: bytes) -> RemotingCommand:
        unique_key = property_text(one.half.fields, UNIQUE_KEY)
        message_id = offset_message_id(self._puts.store_host, one.copy.physical_offset)
        ext = {
            "topic": HALF_TOPIC,
            "tranStateTableOffset": str(one.copy.queue_offset),
            "commitLogOffset": str(one.copy.physical_offset),
            "offsetMsgId": message_id,
            "bname": self._broker_name,
        }
        if unique_key:
            ext["msgId"] = ext["transactionId"] = unique_key
        return RemotingCommand.request(
            RequestCode.CHECK_TRANSACTION_STATE, ext, body=body, oneway=True
        )
