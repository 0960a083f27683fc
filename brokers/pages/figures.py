"""The figures of one broker at one moment, for its metrics (OPERATING, Metrics).

Responsible for: which part of the broker knows what; stepping, so that nobody waits for a scrape.
Refuses to know: names of series, HTTP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from brokers.service.admin import BrokerStatus
from brokers.service.client_service import ClientService
from brokers.service.tables.topics import RETRY_PREFIX, SYSTEM_TOPICS
from brokers.store.store import MessageStore

# Pairs of group and topic of which lag is told; the rest is left out and counted.
PAIRS_MAX = 5_000
SYSTEM_PREFIX, SYSTEM_GROUP = "rmq_sys_", "cid_rmq_sys_"


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is in a topic: messages behind the place that it stored, given and not
    stored, neither; and for how long (ms) the oldest of the first and of the last kind are stored.
    """

    group: str
    topic: str
    behind: int
    inflight: int
    behind_ms: int
    queueing_ms: int

    @property
    def is_retry(self) -> bool:
        return self.topic.startswith(RETRY_PREFIX)


@dataclass(slots=True)
class Figures:
    """Belongs to whoever shows it: nothing in it changes any more. `stored`: ((topic, message
    type), messages, bytes); `given`: ((topic, group), messages, bytes); `ended`: (topic, whether
    committed) -> transactions. Of a slave that acts: `escaped` messages by what they waited for,
    `escape_puts` by what came of them, `escape_waits` by why they wait.
    """

    status: BrokerStatus
    permission: int
    topics: int
    groups: int
    waiting: Mapping[str, int]
    stored_bytes: int
    flush_behind_bytes: int
    dispatch_behind_bytes: int
    reserve_ms: int
    producers: Counter[tuple[str, int]]
    consumers: Counter[tuple[str, str, int, str]]
    halves: int
    timing: Mapping[str, int]
    timer_behind: int
    timer_late_ms: int
    timer_waiting: int
    timer_counted: tuple[int, int]
    stored: list[tuple[tuple[str, str], int, int]]
    given: list[tuple[tuple[str, str], int, int]]
    dead_letters: Mapping[tuple[str, str], int]
    ended: Mapping[tuple[str, bool], int]
    failed: int
    slowest_ms: int
    p99_ms: int
    escaped: Mapping[str, int] = field(default_factory=dict)
    escape_puts: Mapping[str, int] = field(default_factory=dict)
    escape_waits: Mapping[str, int] = field(default_factory=dict)
    lags: list[Lag] = field(default_factory=list)
    lags_left_out: int = 0


def is_system(topic: str, group: str = "") -> bool:
    """Whether RocketMQ itself uses this topic, or this group."""
    of_system = topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)
    return of_system or group.lower().startswith(SYSTEM_GROUP)


def figures(
    service: ClientService, store: MessageStore, status: BrokerStatus, permission: int, wall_ms: int
) -> Iterator[Figures | None]:
    """None after each step of work; the figures last."""
    timers, groups, tables = service.timers, service.groups, service.tables
    earliest_ms = store.first_store_ms()
    found = Figures(
        status,
        permission,
        topics=len(tables.topics.configs),
        groups=len(tables.groups),
        waiting={
            "send": status.waiting_sends,
            "pull": status.held_pulls,
            "ack": service.puts.waiting,
            "transaction": service.transactions.waiting,
        },
        stored_bytes=store.log_end - store.log_min,
        flush_behind_bytes=max(0, store.log_end - store.durable_offset),
        dispatch_behind_bytes=max(0, store.confirm_offset - store.dispatched_offset),
        reserve_ms=max(0, wall_ms - earliest_ms) if earliest_ms > 0 else 0,
        producers=Counter(
            (one.language, one.version)
            for one in {
                channel.connection_id: channel
                for channels in list(groups.producers.values())
                for channel in channels.values()
            }.values()
        ),
        consumers=Counter(
            (group.name, one.language, one.version, group.consume_type)
            for group in list(groups.consumers.values())
            for one in group.channels.values()
        ),
        halves=service.ledger.undecided,
        timing={} if timers.waiting is None else timers.waiting.table(tables.topics.configs),
        timer_behind=timers.behind if timers.enabled else 0,
        timer_late_ms=timers.late_ms,
        timer_waiting=0 if timers.waiting is None else timers.waiting.total,
        timer_counted=timers.counted,
        stored=list(service.statistics.by_kind()),
        given=list(service.statistics.by_group()),
        dead_letters=dict(service.statistics.dead_letters),
        ended=dict(service.transactions.ended),
        failed=service.statistics.failed,
        slowest_ms=service.statistics.times.slowest_ms,
        p99_ms=service.statistics.times.below_ms(0.99),
    )
    _add_escape(found, service)
    yield None
    for topic, group, places in tables.offsets.entries():
        if tables.topics.get(topic) is None:
            continue
        if len(found.lags) >= PAIRS_MAX:
            found.lags_left_out += 1
            continue
        found.lags.append(_lag(service, store, topic, group, places, wall_ms))
        yield None
    yield found


def _lag(
    service: ClientService,
    store: MessageStore,
    topic: str,
    group: str,
    places: Mapping[int, int],
    wall_ms: int,
) -> Lag:
    behind = inflight = behind_ms = queueing_ms = 0
    for queue_id, place in list(places.items()):
        low, high = store.queue_bounds(topic, queue_id)
        at = max(place, low)
        if at >= high:
            continue
        given = min(high, max(at, service.pulls.given(group, topic, queue_id) or 0))
        behind, inflight = behind + high - at, inflight + given - at
        behind_ms = max(behind_ms, _age_ms(store, topic, queue_id, at, wall_ms))
        if given < high:
            queueing_ms = max(queueing_ms, _age_ms(store, topic, queue_id, given, wall_ms))
    return Lag(group, topic, behind, inflight, behind_ms, queueing_ms)


def _age_ms(store: MessageStore, topic: str, queue_id: int, offset: int, wall_ms: int) -> int:
    stored_ms = store.message_store_ms(topic, queue_id, offset)
    return max(0, wall_ms - stored_ms) if stored_ms > 0 else 0


def _add_escape(found: Figures, service: ClientService) -> None:
    if (escape := service.escape) is not None:
        found.escaped = escape.left
        found.escape_puts = escape.counts
        found.escape_waits = escape.waits_for
