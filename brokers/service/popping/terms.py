"""What all parts of pop consumption on one broker have in common (PROTOCOL 4.9).

Responsible for: these parts, put together once. Refuses to know: what is done with them.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from brokers.clock import Clock
from brokers.replica.put_rules import PutStatus, code_of
from brokers.service.escape.awaited import Awaited
from brokers.service.popping.names import (
    RETRY_V1,
    RETRY_V2,
    REVIVE_QUEUES,
    retry_topic,
    revive_topic,
)
from brokers.service.popping.ordered import OrderedPops
from brokers.service.popping.records import RecordMaker, deliver_ms_of
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.tables.pending_resets import PendingResets
from brokers.service.tables.table_files import TableFiles
from brokers.store.log.records import MessageFields, host_text
from brokers.store.store import MessageStore


@dataclass(frozen=True, slots=True)
class PopTimer:
    """What pop needs of the timer, times in ms since 1970. `waiting(message, deliver_ms)`: the form
    in which a message waits for its time; itself when that is over by `now_ms()`. ValueError: it
    cannot be stored. `delivered_until_ms()`: everything that waited for an earlier time is in the
    log under its own topic.
    """

    waiting: Callable[[MessageFields, int], MessageFields]
    delivered_until_ms: Callable[[], int]
    now_ms: Callable[[], int]


@dataclass(frozen=True, slots=True)
class PopSettings:
    """RocketMQ's enableRetryTopicV2, retrieveMessageFromPopRetryTopicV1 and
    popFromRetryProbability, in percent.
    """

    retry_v2: bool = False
    v1_leftovers: bool = True
    retry_first_percent: int = 20


@dataclass(slots=True)
class PopTerms:
    """`timer`: None while this broker has none; then nothing is popped, since nothing would come
    back. `leads()`: this broker may write. `away`: where records go while this slave acts; None:
    nowhere. `is_here(record)`: one that leaves is dealt with here (`revive.left_soon`).
    """

    store: MessageStore
    tables: TableFiles
    puts: OwnPuts
    clock: Clock
    cluster_name: str
    broker_name: str
    timer: PopTimer | None = None
    settings: PopSettings = PopSettings()
    ordered: OrderedPops = field(default_factory=OrderedPops)
    pending: PendingResets = field(default_factory=PendingResets)
    leads: Callable[[], bool] = lambda: True
    away: Awaited | None = None
    is_here: Callable[[MessageFields], Awaitable[bool]] | None = None

    def __post_init__(self) -> None:
        self.revive_topic = revive_topic(self.cluster_name)
        self.records = RecordMaker(self.revive_topic, self.puts.store_host)
        self.address = host_text(self.puts.store_host).rpartition(":")[0]
        self._turn = itertools.count()

    revive_topic: str = field(init=False)
    records: RecordMaker = field(init=False)
    address: str = field(init=False)
    _turn: itertools.count[int] = field(init=False)

    def waiting(self, record: MessageFields) -> MessageFields:
        """A record of the revive topic in the form in which it waits. NotPut: there is no timer, or
        it cannot be stored.
        """
        if self.timer is None:
            raise NotPut(*code_of(PutStatus.SERVICE_NOT_AVAILABLE, "timerWheelEnable is false"))
        try:
            return self.timer.waiting(record, deliver_ms_of(record))
        except ValueError as error:
            raise NotPut(*code_of(PutStatus.MESSAGE_ILLEGAL, str(error))) from None

    @property
    def acts(self) -> bool:
        """A slave in place of its master: records go to another set."""
        return self.away is not None and self.away.acts()

    def gives(self) -> bool:
        """Whether messages may be popped here."""
        return self.leads() or self.acts

    async def note(self, *records: MessageFields) -> None:
        """Records of the revive topic, in one write: every member has them when it returns. NotPut:
        perhaps not.
        """
        status = await self.puts.put_all([self.waiting(record) for record in records])
        if status is not PutStatus.PUT_OK:
            raise NotPut(*code_of(status, status.value))

    async def note_away(self, record: MessageFields, *, withdraws: bool) -> None:
        """One record is at another set's master when it returns, but for an acknowledgement of a
        check point that is in this set's revive queues: its reviver takes it. `withdraws`: it is a
        check point, of no use when this raises NotPut.
        """
        assert self.away is not None
        if not withdraws and self.is_here is not None and await self.is_here(record):
            return
        await self.away.put(record, withdraws=withdraws)

    @property
    def revive_queues(self) -> int:
        config = self.tables.topics.get(self.revive_topic)
        return REVIVE_QUEUES if config is None else max(1, config.queues)

    def next_revive_queue(self) -> int:
        """They take turns."""
        return next(self._turn) % self.revive_queues

    def retry_topic(self, group: str, topic: str) -> str:
        """Where new copies go."""
        return retry_topic(group, topic, RETRY_V2 if self.settings.retry_v2 else RETRY_V1)
