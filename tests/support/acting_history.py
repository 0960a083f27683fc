"""What brokers and name servers of a set without controllers report, as they would.

Responsible for headers, times and the form in which tables hold it. Knows no rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec.structs import asdict

from events.acting_events import (
    ActingBegan,
    ActingOver,
    ActingRouteGiven,
    ActingRouteWithdrawn,
    EscapeBatch,
    EscapeWaits,
    LockRounds,
    MasterExpelled,
    MemberGroupSeen,
    MinBrokerIdChanged,
    NameServerMinIdChanged,
    PlaceChanged,
    PreOnlineOver,
    PreOnlineWithoutMember,
)
from events.broker_events import BrokerEvent, BrokerStarted, BrokerStopped
from events.codec import encode
from events.event_header import BrokerEventHeader
from lakehouse.tables.specs import snake_case
from tests.support.control_history import CLUSTER_ID
from tests.support.landed_log import BEGAN_MS, Record, event_records

SET, OTHER_SET, NAME_SERVER = "acting-set", "broker-b", "127.0.0.1:9876"
LOST = "its connection closed"


def at(seconds: float) -> int:
    """So long after the beginning, ms since 1970-01-01 UTC."""
    return BEGAN_MS + round(1000 * seconds)


def address(broker_id: int) -> str:
    """A broker's, by its id."""
    return f"127.0.0.1:{10911 + 10 * broker_id}"


class ActingHistory:
    """Of one set: `at(s)` says when the next things happen, s seconds after the beginning."""

    def __init__(self, name: str = SET) -> None:
        self.name, self.now_ms = name, BEGAN_MS
        self.told: list[BrokerEvent] = []
        self.lives: Counter[int] = Counter()
        self._sequences: Counter[str] = Counter()

    def at(self, seconds: float) -> ActingHistory:
        """What follows happens then."""
        self.now_ms = at(seconds)
        return self

    @contextmanager
    def clock_of(self, now_ms: int) -> Iterator[None]:
        """What is reported in here has a time of another clock."""
        before, self.now_ms = self.now_ms, now_ms
        yield
        self.now_ms = before

    def header(self, broker_id: int, who: str | None = None) -> BrokerEventHeader:
        """The next one of this start of a broker, or of a name server."""
        incarnation = who or f"b{broker_id}-{self.lives[broker_id]}"
        self._sequences[incarnation] += 1
        number = len(self.told) + 1
        event_id = f"{self.name[:8]:8}{number:8}".encode()[:16]
        return BrokerEventHeader(
            event_id, "C", self.name, broker_id, incarnation, self.now_ms,
            self._sequences[incarnation],
        )  # fmt: skip

    def tell(self, kind: type, broker_id: int, *fields: Any) -> None:
        """A broker reports."""
        self.told.append(kind(self.header(broker_id), *fields))

    def named(self, kind: type, *fields: Any, server: str = NAME_SERVER) -> None:
        """A name server reports."""
        self.told.append(kind(self.header(-1, f"{server}/1"), server, *fields))

    # -- what happens ------------------------------------------------------------------------------

    def starts(self, broker_id: int) -> None:
        self.lives[broker_id] += 1
        self.tell(BrokerStarted, broker_id, True, 0, 0)

    def stops(self, broker_id: int) -> None:
        self.tell(BrokerStopped, broker_id, "asked to")

    def online(self, broker_id: int, smallest: int = 0, left_out: tuple[int, ...] = ()) -> None:
        self.tell(PreOnlineOver, broker_id, smallest, left_out)

    def members(
        self, *ids: int, left: Mapping[int, str] | None = None, silent_ms: int = 0, **where: str
    ) -> None:
        gone = left or {}
        fields = True, ids, tuple(map(address, ids)), tuple(gone), tuple(gone.values())
        self.named(MemberGroupSeen, *fields, (silent_ms,) * len(gone), **where)

    def placed(self, broker_id: int, kind: str, leader: str, change: str = "c1") -> None:
        """A replica begins anew; the leader keeps its address, whatever its id."""
        own = leader if broker_id <= 1 else address(broker_id)
        self.tell(PlaceChanged, broker_id, change, kind, own, leader, int(kind != "fixed"), 2)

    def began(self, broker_id: int) -> None:
        self.tell(MinBrokerIdChanged, broker_id, broker_id, address(broker_id))
        self.tell(ActingBegan, broker_id, address(broker_id))

    def over(self, broker_id: int, smallest: int = 0) -> None:
        self.tell(ActingOver, broker_id, smallest, address(smallest))

    def batch(
        self, broker_id: int, messages: int, kind: str = "delay level", to: str = OTHER_SET,
        soft: int = 0, failed: int = 0,
    ) -> None:  # fmt: skip
        self.tell(
            EscapeBatch, broker_id, kind, to, messages, soft, failed, 10 * messages, ("T",), 1000
        )

    def waits(self, broker_id: int, **reasons: int) -> None:
        names = tuple(one.replace("_", " ") for one in reasons)
        self.tell(EscapeWaits, broker_id, sum(reasons.values()), names, tuple(reasons.values()))

    def locks(self, broker_id: int, rounds: int, lost: int) -> None:
        self.tell(LockRounds, broker_id, "G", rounds, 1, 4, lost, 2 * rounds, 0, 10_000)

    def expelled(self, broker_id: int = 0, *, fenced: bool = True) -> None:
        self.tell(MasterExpelled, broker_id, "name servers dropped this broker", fenced)

    def without(self, member: int) -> None:
        self.tell(PreOnlineWithoutMember, 0, member, "no answer", True)

    def master_lost(self, left: int = 0, *rest: int) -> None:
        """A name server sees it, and shows the smallest of the rest."""
        self.members(*rest, left={left: LOST})
        self.named(ActingRouteGiven, rest[0], address(rest[0]))
        self.named(NameServerMinIdChanged, rest[0], address(rest[0]), address(left), 0)

    def master_back(self, acted: int, shown_ms: int, *rest: int) -> None:
        """A name server has the master again."""
        self.members(0, *rest)
        why = "a master registered"
        self.named(ActingRouteWithdrawn, acted, address(acted), why, shown_ms)

    # -- as tables hold it -------------------------------------------------------------------------

    def records(self, partition: int = 0) -> list[Record]:
        """As one partition of the broker events."""
        return event_records([encode(one) for one in self.told], partition)

    def events(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """As rows of silver tables, by cluster and kind."""
        found: dict[str, list[dict[str, Any]]] = {}
        for one in self.told:
            row = asdict(one)
            header = asdict(row.pop("header"))
            header["event_id"] = header["event_id"].hex()
            found.setdefault(snake_case(type(one).__name__), []).append({**header, **row})
        return {CLUSTER_ID: found}


def whole_set() -> ActingHistory:
    """A master and two slaves, from the beginning."""
    past = ActingHistory()
    for broker_id in (0, 1, 2):
        past.starts(broker_id)
        past.members(*range(broker_id + 1))
    past.at(1).online(0)
    return past


def one_period() -> ActingHistory:
    """The master is killed after a minute; broker 1 acts until it is back ten seconds later."""
    past = whole_set()
    past.at(60).master_lost(0, 1, 2)
    past.at(60.4).began(1)
    past.at(61.5).batch(1, 3, soft=1)
    past.at(62).batch(1, 1, kind="timer", failed=2)
    past.at(63).waits(1, no_other_set_has_a_master_that_takes_the_topic=2)
    past.at(64).locks(1, rounds=3, lost=1)
    past.at(68).starts(0)
    past.at(70).online(0)
    past.at(70.1).master_back(1, 10_100, 1, 2)
    past.at(70.5).over(1)
    past.at(70.6).batch(1, 2)
    past.at(80).locks(0, rounds=1, lost=0)
    return past
