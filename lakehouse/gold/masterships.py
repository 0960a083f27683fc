"""The masterships of a set, one after the other, and the times without one.

Responsible for saying where a mastership begins and ends. Failovers, availability and messages at
risk are made from these. Refuses to know what brokers report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from events.commands import ElectMaster
from events.envelope import ReplicaEvidence
from lakehouse.gold.fold import SetChange
from processors.fold.state import BrokerSet


@dataclass(frozen=True, slots=True)
class Mastership:
    """One replica as master of a set in one epoch.

    Invariants: `end_offset` is None exactly while it lasts; of one set they do not overlap.
    Times are ms since 1970-01-01 UTC.
    """

    cluster_id: str
    broker_name: str
    master: int
    epoch: int
    offset: int
    at_ms: int
    cause: str
    labels: tuple[str, ...]
    evidence: tuple[ReplicaEvidence, ...]
    phases: Mapping[str, int]
    end_offset: int | None = None
    end_ms: int | None = None
    gone_ms: int | None = None
    """When the set went out of service: all its replicas were cleaned; None while it did not."""

    @property
    def set_key(self) -> tuple[str, str]:
        """Cluster and name of the set."""
        return (self.cluster_id, self.broker_name)


def masterships(
    changes: Iterable[SetChange], earlier: Sequence[Mastership] = ()
) -> list[Mastership]:
    """All masterships of these changes, and the `earlier` ones of former runs, brought up to date.

    Ascending by offset. `earlier` needs the last one of each set; more do no harm.
    """
    done: list[Mastership] = []
    last: dict[tuple[str, str], Mastership] = {}
    for known in earlier:
        if known.set_key in last:
            done.append(last[known.set_key])
        last[known.set_key] = known
    for change in changes:
        after = change.after
        if after is None or not change.is_changed:
            continue
        key = (change.cluster_id, after.broker_name)
        if key in last:
            last[key] = _brought_up(last[key], change, after)
        if _begins(change.before, after):
            if key in last:
                done.append(last[key])
            last[key] = _begun(change, after)
    return sorted((*done, *last.values()), key=lambda one: (one.cluster_id, one.offset))


def successions(found: Iterable[Mastership]) -> Iterator[tuple[Mastership, Mastership]]:
    """Each mastership with the next one of the same set, while the set was in service."""
    last: dict[tuple[str, str], Mastership] = {}
    for one in found:
        before = last.get(one.set_key)
        if before is not None and before.gone_ms is None:
            yield before, one
        last[one.set_key] = one


def _begins(before: BrokerSet | None, after: BrokerSet) -> bool:
    if after.master_broker_id is None:
        return False
    if before is None or before.master_broker_id is None:
        return True
    return before.master_epoch != after.master_epoch


def _brought_up(last: Mastership, change: SetChange, after: BrokerSet) -> Mastership:
    if last.end_offset is None and (
        after.master_broker_id is None or after.master_epoch != last.epoch
    ):
        last = replace(last, end_offset=change.offset, end_ms=change.at_ms)
    if last.gone_ms is None and after.tombstone:
        last = replace(last, gone_ms=change.at_ms)
    return last


def _begun(change: SetChange, after: BrokerSet) -> Mastership:
    assert after.master_broker_id is not None
    command = change.command
    return Mastership(
        cluster_id=change.cluster_id,
        broker_name=after.broker_name,
        master=after.master_broker_id,
        epoch=after.master_epoch,
        offset=change.offset,
        at_ms=change.at_ms,
        cause=change.outcome.cause,
        labels=tuple(change.outcome.labels),
        evidence=command.evidence if isinstance(command, ElectMaster) else (),
        phases=dict(change.outcome.phases),
    )
