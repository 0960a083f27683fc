"""How long each set could take messages on each day, from masterships, failovers and acting
periods.

Responsible for `gold/availability`: for cutting gaps by days (UTC) and for counting each moment
once.
Refuses to know broker events: what they say of a failover stands in its row, and of a set without
controllers in `ActingSet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType

from lakehouse.gold.acting_periods import ActingSet
from lakehouse.gold.majority_terms import LedGroup
from lakehouse.gold.masterships import Mastership
from lakehouse.gold.spans import Row, Stretch, union, within, without

DAY_MS = 86_400_000
FIRST_DAY = date(1970, 1, 1)

NO_ACTING_SETS: Mapping[tuple[str, str], ActingSet] = MappingProxyType({})
NO_GROUPS: Mapping[tuple[str, str], LedGroup] = MappingProxyType({})


def availability_rows(
    found: Iterable[Mastership],
    failovers: Iterable[Row],
    until_ms: int,
    acting: Mapping[tuple[str, str], ActingSet] = NO_ACTING_SETS,
    groups: Mapping[tuple[str, str], LedGroup] = NO_GROUPS,
) -> list[Row]:
    """One row for each set and each day on which it was in service, ascending by set and day.

    `until_ms` is how far history reaches, ms since 1970-01-01 UTC: a set without a master at its
    end counts as unavailable up to there. `acting`: sets without controllers, by cluster and name;
    one that controllers lead later is in both. `groups`: groups that replicate by majority; of a
    name that others have as well, these do not count.
    """
    masterships: dict[tuple[str, str], list[Mastership]] = {}
    for one in found:
        masterships.setdefault(one.set_key, []).append(one)
    changes: dict[tuple[str, str], list[Row]] = {}
    for row in failovers:
        changes.setdefault((row["cluster_id"], row["broker_name"]), []).append(row)
    rows = [
        row
        for key in {*masterships, *acting}
        for row in _of_set(
            key, masterships.get(key, []), changes.get(key, []), until_ms, acting.get(key)
        )
    ]
    for key in {*groups} - {*masterships, *acting}:
        rows += _of_group(key, groups[key])
    return sorted(rows, key=lambda row: (row["cluster_id"], row["broker_name"], row["day"]))


def _of_group(key: tuple[str, str], group: LedGroup) -> Iterator[Row]:
    """Changes of leader count as failovers: each is measured, by what members told."""
    observed = _by_day([(group.since_ms, group.until_ms)])
    gaps = _by_day(within(group.unled, [(group.since_ms, group.until_ms)]))
    changes = [at_ms // DAY_MS for at_ms in group.changes]
    for day in sorted(observed):
        yield _day(
            key, day, observed[day], gaps.get(day, []), gaps.get(day, []), changes.count(day)
        )


def _of_set(
    key: tuple[str, str],
    found: Sequence[Mastership],
    failovers: Sequence[Row],
    until_ms: int,
    acting: ActingSet | None,
) -> Iterator[Row]:
    of_acting, joining = _fixed(acting, found)
    led = without(_service(found, until_ms), of_acting)
    service = union([*of_acting, *led])
    away = [*joining, *within(_masterless(found, until_ms), led)]
    if acting is not None:
        away += within(acting.masterless, of_acting)
    masterless = within(away, service)
    unavailable = within([*away, *_silent(failovers)], service)
    acted = _by_day(within(() if acting is None else acting.acting, of_acting))
    decided: dict[int, list[Row]] = {}
    for row in failovers:
        decided.setdefault(row["at_ms"] // DAY_MS, []).append(row)
    observed, certain, gaps = _by_day(service), _by_day(masterless), _by_day(unavailable)
    for day in sorted(observed):
        some = decided.get(day, ())
        yield {
            **_day(key, day, observed[day], certain.get(day, []), gaps.get(day, []), len(some)),
            "unmeasured": sum(row["unavailable_ms"] is None for row in some),
            "acting_ms": sum(acted.get(day, ())),
        }


def _day(
    key: tuple[str, str],
    day: int,
    observed: Sequence[int],
    certain: Sequence[int],
    lost: Sequence[int],
    failovers: int,
) -> Row:
    """One row; lengths of stretches in ms."""
    return {
        "cluster_id": key[0],
        "broker_name": key[1],
        "day": FIRST_DAY + timedelta(days=day),
        "observed_ms": sum(observed),
        "masterless_ms": sum(certain),
        "unavailable_ms": sum(lost),
        "availability": 1 - sum(lost) / sum(observed),
        "longest_gap_ms": max(lost, default=0),
        "failovers": failovers,
        "unmeasured": 0,
        "acting_ms": 0,
    }


def _fixed(
    acting: ActingSet | None, found: Sequence[Mastership]
) -> tuple[list[Stretch], list[Stretch]]:
    """The times with fixed ids, each until controllers lead the set, if they do; and the part of
    them in which the set had been adopted and no master was elected yet.
    """
    if acting is None:
        return [], []
    stretches, joining = [], []
    for begin, told_end in acting.fixed or ((acting.since_ms, None),):
        elected = (one.at_ms for one in found if one.at_ms > begin)
        end = next(elected, acting.until_ms if told_end is None else told_end)
        stretches.append((begin, end))
        joining.append((end if told_end is None else told_end, end))
    real = [(low, high) for low, high in stretches if low < high]
    return union(real), [(low, high) for low, high in joining if low < high]


def _service(found: Sequence[Mastership], until_ms: int) -> list[Stretch]:
    """From the first master until all replicas were cleaned, and again from the next one on."""
    stretches: list[Stretch] = []
    began_ms: int | None = None
    for one in found:
        began_ms = one.at_ms if began_ms is None else began_ms
        if one.gone_ms is not None:
            stretches.append((began_ms, one.gone_ms))
            began_ms = None
    if began_ms is not None:
        stretches.append((began_ms, until_ms))
    return stretches


def _masterless(found: Sequence[Mastership], until_ms: int) -> list[Stretch]:
    starts: list[int] = [one.at_ms for one in found[1:]]
    following = [*starts, until_ms] if found else []
    return [
        (one.end_ms, next_ms)
        for one, next_ms in zip(found, following, strict=True)
        if one.end_ms is not None
    ]


def _silent(failovers: Iterable[Row]) -> list[Stretch]:
    return [
        (row["last_message_ms"], row["first_acknowledged_ms"])
        for row in failovers
        if row["unavailable_ms"] is not None
    ]


def _by_day(stretches: Iterable[Stretch]) -> dict[int, list[int]]:
    """Lengths in ms of the parts of the stretches, by days since 1970-01-01."""
    found: dict[int, list[int]] = {}
    for start, end in stretches:
        while start < end:
            day = start // DAY_MS
            part_end = min(end, (day + 1) * DAY_MS)
            found.setdefault(day, []).append(part_end - start)
            start = part_end
    return found
