"""Histories for the invariants: decisions through the real fold, and what brokers would have said
of them.

Responsible for rows only: a test alters one and says what must be found. Knows no invariant.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from events.broker_events import (
    BrokerEvent,
    BrokerEventHeader,
    EpochAppended,
    FirstMessageAcknowledged,
    LogTruncated,
    RoleChanged,
)
from events.changes import Change
from lakehouse.invariants.rows import Decided, Reported
from processors.fold.folder import Folder
from tests.support.control_history import NAME, History, seen, with_master


def decided(records: Iterable[bytes]) -> list[Decided]:
    """Rows of these commands, as a controller decides them."""
    folder, rows = Folder(), []
    for offset, data in enumerate(records):
        applied = folder.apply(offset, data)
        rows.append(Decided(offset, applied.record, applied.outcome))
    return rows


def sound_history() -> History:
    """Elections, refusals, repeats, garbage, a change of leader, an import that goes on here,
    cleaned replicas.
    """
    past = with_master(1, 2, 3)  # epoch 1, set {1,2,3}
    past.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)  # epoch 2
    past.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)  # refused: old set epoch
    past.append(past.records[-2])  # a repeat
    past.append(b"garbage")
    stale = past.envelope()
    past.claim(past.folder.state.term)
    past.setting("dedupeWindowOffsets", "1000")
    assert past.apply_id(1).accepted
    assert stale.term < past.folder.state.term
    past.register(1, "i1b")
    assert past.elect(3, seen(1), seen(2), seen(3), designate=True).accepted  # epoch 3, may lose
    assert past.clean((1,), seen(1, alive=False)).accepted
    return past


def imported_history() -> History:
    """A set of another controller, told twice, then led here."""
    past = History()
    past.import_set(1, 2)
    past.import_set(1, 2, master_epoch=8, sync_state_set_epoch=10)
    past.register(1)
    past.register(2)
    past.elect(-1, seen(1, alive=False, epoch=8), seen(2, epoch=8), master_epoch=8)
    return past


def at_change(rows: list[Decided], kind: type[Change], nth: int = 0) -> int:  # type: ignore[type-arg]
    """Index of the nth row with a change of that kind."""
    return [
        i for i, row in enumerate(rows) if any(isinstance(c, kind) for c in row.outcome.changes)
    ][nth]


def altered(rows: list[Decided], index: int, kind: type[Change], **fields: object) -> list[Decided]:  # type: ignore[type-arg]
    """The rows with other fields in the changes of that kind of one row."""
    row = rows[index]
    changes = tuple(replace(c, **fields) if isinstance(c, kind) else c for c in row.outcome.changes)
    return [
        *rows[:index],
        replace(row, outcome=replace(row.outcome, changes=changes)),
        *rows[index + 1 :],
    ]


class Voices:
    """What the brokers of a set say, in the order of one partition."""

    def __init__(self) -> None:
        self.rows: list[Reported] = []
        self._told: Counter[int] = Counter()

    def _say(self, kind: type[BrokerEvent], broker_id: int, *fields: object) -> None:  # type: ignore[type-arg]
        offset, self._told[broker_id] = len(self.rows), self._told[broker_id] + 1
        event_id, incarnation = offset.to_bytes(16, "big"), f"i{broker_id}"
        head = BrokerEventHeader(
            event_id, "DefaultCluster", NAME, broker_id, incarnation, 1, self._told[broker_id]
        )
        self.rows.append(Reported(0, offset, kind(head, *fields)))  # type: ignore[call-arg]

    def leads(self, broker_id: int, epoch: int) -> "Voices":
        self._say(RoleChanged, broker_id, "MASTER", epoch, broker_id, "notify")
        return self

    def follows(self, broker_id: int, epoch: int, master: int) -> "Voices":
        self._say(RoleChanged, broker_id, "SLAVE", epoch, master, "notify")
        return self

    def wrote(self, broker_id: int, epoch: int, start: int) -> "Voices":
        self._say(EpochAppended, broker_id, epoch, start, -1)
        return self

    def acknowledged(self, broker_id: int, epoch: int, end: int) -> "Voices":
        self._say(FirstMessageAcknowledged, broker_id, epoch, end)
        return self

    def cut(self, broker_id: int, end: int, start: int, epoch: int) -> "Voices":
        """A log that ended at `end` ends at `start` now, in `epoch`."""
        self._say(LogTruncated, broker_id, end, start, epoch, "its master has other bytes")
        return self


def sound_voices() -> Voices:
    """What the replicas say of epochs 1 and 2 of `sound_history`: 1 led, then 2, and 1 came back
    with a tail to cut.
    """
    voices = Voices()
    voices.wrote(1, 1, 0).leads(1, 1).follows(2, 1, 1).wrote(2, 1, 0).follows(3, 1, 1).wrote(
        3, 1, 0
    )
    voices.acknowledged(1, 1, 400)
    voices.wrote(2, 2, 900).leads(2, 2).follows(3, 2, 2).wrote(3, 2, 900).acknowledged(2, 2, 1300)
    voices.follows(1, 2, 2).cut(1, 1100, 900, 1).wrote(1, 2, 900)
    return voices
