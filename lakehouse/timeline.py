"""
Promises that must hold over all of history, checked record by record (P).

Responsible for noticing where one is broken. A second, dumber look at what the fold decided:
it shares no code with the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from events.changes import (
    BrokerSetImported,
    BrokersCleaned,
    Change,
    LeadershipClaimed,
    MasterCleared,
    MasterElected,
    SyncStateSetAltered,
)


@dataclass(slots=True)
class _SetTimeline:
    master_epoch: int = 0
    set_epoch: int = 0
    master: int | None = None
    members: tuple[int, ...] = ()


@dataclass(slots=True)
class Timeline:
    """
    The last epochs of every set.

    Promises: a term, a master epoch and a set epoch only grow, so no epoch has two masters;
    after every record a master is in its SyncStateSet.
    """

    term: int = 0
    sets: dict[str, _SetTimeline] = field(default_factory=dict)

    def note(self, changes: Iterable[Change]) -> list[str]:
        """Go on by the changes of one record; one line per broken promise."""
        broken: list[str] = []
        touched: dict[str, _SetTimeline] = {}
        for change in changes:
            broken += self._note(change)
            name = getattr(change, "broker_name", None)
            if name in self.sets:
                touched[name] = self.sets[name]
        for name, known in sorted(touched.items()):
            if known.master is not None and known.master not in known.members:
                broken.append(f"{name}: master {known.master} not in its set {known.members}")
        return broken

    def _note(self, change: Change) -> Iterator[str]:
        match change:
            case LeadershipClaimed():
                yield from _grown("term", self.term, change.term)
                self.term = max(self.term, change.term)
            case MasterElected():
                known = self._set(change.broker_name)
                what = f"{change.broker_name}: master epoch"
                yield from _grown(what, known.master_epoch, change.master_epoch)
                known.master_epoch = max(known.master_epoch, change.master_epoch)
                known.master = change.master_broker_id
                yield from self._members(change)
            case MasterCleared():
                self._set(change.broker_name).master = None
            case SyncStateSetAltered():
                yield from self._members(change)
            case BrokerSetImported():
                yield from self._imported(change)
            case BrokersCleaned():
                known = self._set(change.broker_name)
                known.members = tuple(i for i in known.members if i not in change.broker_ids)
                if change.whole_set or known.master in change.broker_ids:
                    known.master = None

    def _members(self, change: MasterElected | SyncStateSetAltered) -> Iterator[str]:
        known = self._set(change.broker_name)
        what = f"{change.broker_name}: set epoch"
        yield from _grown(what, known.set_epoch, change.sync_state_set_epoch)
        known.set_epoch = max(known.set_epoch, change.sync_state_set_epoch)
        known.members = change.sync_state_set

    def _imported(self, change: BrokerSetImported) -> Iterator[str]:
        """It may be told again as long as nobody decided here: so the same epochs say the same."""
        known = self._set(change.broker_name)
        name = change.broker_name
        if change.master_broker_id not in (None, known.master):
            yield from _grown(f"{name}: imported master epoch", known.master_epoch, change.master_epoch)
        if tuple(change.sync_state_set) != known.members:
            yield from _grown(f"{name}: imported set epoch", known.set_epoch, change.sync_state_set_epoch)
        if change.master_epoch < known.master_epoch or change.sync_state_set_epoch < known.set_epoch:
            yield f"{name}: an import below what was"
        known.master_epoch = max(known.master_epoch, change.master_epoch)
        known.set_epoch = max(known.set_epoch, change.sync_state_set_epoch)
        known.master, known.members = change.master_broker_id, tuple(change.sync_state_set)

    def _set(self, name: str) -> _SetTimeline:
        return self.sets.setdefault(name, _SetTimeline())


def _grown(what: str, before: int, now: int) -> Iterator[str]:
    if now <= before:
        yield f"{what} {now} after {before}"
