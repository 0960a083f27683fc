"""What a returning master takes over from those that acted for it (PROTOCOL 7.3).

Responsible for: reading the bodies of 43, 45 and 60 within limits; which of their places are taken,
and why. Refuses to know: who asks, files, where own tables are.

A place is taken when it lies further on, and its table is not older than the own one. Never lower:
nothing goes back while a slave acts, for it refuses resets, so a lower place is an older one. Equal
versions may hide news: RocketMQ counts one step for 500 commits, or 200 deliveries. The timer's
check point is one thing, though: its two places say together what was delivered, so both are taken
or none, and only of a newer version, for each change of it is one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from brokers.remoting import fastjson
from brokers.remoting.java_numbers import whole_number
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.offsets import GROUP_TOPICS_MAX, SEPARATOR
from brokers.service.tables.topics import QUEUES_PER_TOPIC_MAX
from brokers.store.log.delay_levels import LEVELS_MAX

I64_MAX = (1 << 63) - 1
KEY_CHARACTERS_MAX = 512
DELAY_BYTES_MAX = 65_536
_CHECK_POINT = struct.Struct(">7q")
_OLD_CHECK_POINT = struct.Struct(">4q")


@dataclass(frozen=True, slots=True)
class Places:
    """A table of places: of consumers by (topic@group, queue), or of delay levels by level."""

    version: DataVersion
    places: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class TimerCheckPoint:
    """60: slots in front of `read_ms` were delivered, of records in front of `queue_offset` (the
    master's offset of the timer's queue). `version` None: an old peer, that does not say.
    """

    read_ms: int
    log_flushed: int
    own_queue_offset: int
    queue_offset: int
    version: DataVersion | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """None where a broker has no such table."""

    offsets: Places | None = None
    delays: Places | None = None
    timers: TimerCheckPoint | None = None


@dataclass(frozen=True, slots=True)
class MemberTables:
    """What a member answered."""

    member_id: int
    address: str
    tables: Tables


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one table of one member, for people. `taken`: places, or check points."""

    member_id: int
    table: str
    taken: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The own tables as they are from now on; None: as they were."""

    offsets: Places | None = None
    delays: Places | None = None
    timers: TimerCheckPoint | None = None
    verdicts: tuple[Verdict, ...] = field(default=())


def decide(own: Tables, members: Sequence[MemberTables]) -> Decision:
    """Of several members one after the other, in the order of their ids, so that of each place the
    furthest one of all tables that are not old remains.
    """
    now, verdicts = own, []
    for member in sorted(members, key=lambda one: one.member_id):
        theirs = member.tables
        offsets, taken, why = _further(now.offsets, theirs.offsets, "500 commits")
        verdicts.append(Verdict(member.member_id, "consumer offsets", taken, why))
        delays, taken, why = _further(now.delays, theirs.delays, "200 deliveries")
        verdicts.append(Verdict(member.member_id, "delay offsets", taken, why))
        timers, taken, why = _newer(now.timers, theirs.timers)
        verdicts.append(Verdict(member.member_id, "timer check point", taken, why))
        now = Tables(offsets, delays, timers)
    return Decision(
        _if_other(now.offsets, own.offsets),
        _if_other(now.delays, own.delays),
        None if now.timers == own.timers else now.timers,
        tuple(verdicts),
    )


def without_epoch(tables: Tables) -> Tables:
    """The tables as a set without controllers has them. Under controllers a check point's version
    begins with the master's epoch: that of a slave which acted since would look older.
    """
    timers = tables.timers
    if timers is None or timers.version is None:
        return tables
    return replace(tables, timers=replace(timers, version=replace(timers.version, state_version=0)))


def _if_other(now: Places | None, before: Places | None) -> Places | None:
    return None if now is before else now


def _further(
    own: Places | None, theirs: Places | None, step: str
) -> tuple[Places | None, int, str]:
    if theirs is None:
        return own, 0, "the member has none"
    mine = own or Places(DataVersion(), {})
    if _order(theirs.version) < _order(mine.version):
        return own, 0, "the member's version is older"
    ahead = {key: to for key, to in theirs.places.items() if to > mine.places.get(key, -1)}
    if _order(theirs.version) > _order(mine.version):
        merged = Places(theirs.version, {**mine.places, **ahead})
        return merged, len(ahead), "the member's version is newer: what lies further on"
    if not ahead:
        return own, 0, "the versions are equal, and nothing lies further on"
    reason = f"the versions are equal, which may hide {step}: what lies further on"
    return replace(mine, places={**mine.places, **ahead}), len(ahead), reason


def _newer(
    own: TimerCheckPoint | None, theirs: TimerCheckPoint | None
) -> tuple[TimerCheckPoint | None, int, str]:
    if theirs is None:
        return own, 0, "the member has none"
    if own is None:
        return own, 0, "this broker has no timers"
    if theirs.version is None:
        return own, 0, "the member does not say how new it is"
    mine = own.version or DataVersion()
    if _order(theirs.version) < _order(mine):
        return own, 0, "the member's version is older"
    if _order(theirs.version) == _order(mine):
        return own, 0, "the versions are equal: each change makes a new one, so it is the same"
    taken = replace(
        own, read_ms=theirs.read_ms, queue_offset=theirs.queue_offset, version=theirs.version
    )
    return taken, 1, "the member's version is newer"


def _order(version: DataVersion) -> tuple[int, int, int]:
    """Java's: the state's version, then the counter, then the time."""
    return version.state_version, version.counter, version.timestamp_ms


# -- bodies ----------------------------------------------------------------------------------------


def read_offsets(body: bytes) -> Places:
    """Of 43. ValueError: it is none, or larger than allowed."""
    fields = _object(fastjson.loads(body, fastjson.TABLE_BYTES_MAX))
    table = _object(fields.get("offsetTable", {}))
    if len(table) > GROUP_TOPICS_MAX:
        raise ValueError(f"{len(table)} topics of groups, allowed are {GROUP_TOPICS_MAX}")
    places: dict[tuple[str, int], int] = {}
    for key, queues in table.items():
        name = str(key)
        if SEPARATOR not in name or len(name) > KEY_CHARACTERS_MAX:
            raise ValueError(f"{name[:40]!r} is no topic and group")
        for queue, offset in _object(queues).items():
            places[name, _number(queue, QUEUES_PER_TOPIC_MAX)] = _place(offset)
    return Places(DataVersion.from_wire(fields.get("dataVersion")), places)


def read_delays(body: bytes) -> Places:
    """Of 45. ValueError: it is none."""
    fields = _object(fastjson.loads(body, DELAY_BYTES_MAX))
    table = _object(fields.get("offsetTable", {}))
    places = {("", _number(level, LEVELS_MAX)): _place(to) for level, to in table.items()}
    return Places(DataVersion.from_wire(fields.get("dataVersion")), places)


def read_timers(body: bytes) -> TimerCheckPoint:
    """Of 60: 56 bytes, or 32 of an old peer. ValueError."""
    if len(body) == _OLD_CHECK_POINT.size:
        return TimerCheckPoint(*_OLD_CHECK_POINT.unpack(body))
    if len(body) != _CHECK_POINT.size:
        raise ValueError(f"a check point of {len(body)} bytes")
    read, flushed, own_offset, offset, state, timestamp_ms, counter = _CHECK_POINT.unpack(body)
    return TimerCheckPoint(
        read, flushed, own_offset, offset, DataVersion(state, timestamp_ms, counter)
    )


def timers_body(one: TimerCheckPoint) -> bytes:
    """The body that answers 60."""
    version = one.version or DataVersion()
    return _CHECK_POINT.pack(
        one.read_ms,
        one.log_flushed,
        one.own_queue_offset,
        one.queue_offset,
        version.state_version,
        version.timestamp_ms,
        version.counter,
    )


def _object(value: object) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise ValueError("the body is no object of tables")
    return value


def _number(key: object, most: int) -> int:
    number = whole_number(str(key), 32)
    if number is None or not 0 <= number <= most:
        raise ValueError(f"{str(key)[:40]!r} is no number up to {most}")
    return number


def _place(value: object) -> int:
    if type(value) is not int or not 0 <= value <= I64_MAX:
        raise ValueError("a place is no offset")
    return value
