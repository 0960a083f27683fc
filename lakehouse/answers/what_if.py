"""What would have happened with other timers or another policy: every election of the controllers
and every silence of a master that ended, judged again.

Each incident is judged by itself, from the state that history had then. Responsible for finding the
incidents and for adding up what differs. Refuses to know tables, and to go on in a history that
never was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from events.changes import MasterElected
from events.commands import AlterSyncStateSet, ElectMaster
from events.envelope import ReplicaEvidence
from lakehouse.answers.what_if_rules import (
    LABELS_OF_RISK,
    Judged,
    Policy,
    Scene,
    Silence,
    Timers,
    behind_bytes,
    due_ms,
    judge,
)
from lakehouse.gold.fold import GoldFold, Published, Record, SetChange
from lakehouse.gold.spans import Row
from processors.fold.state import NO_BROKER_ID, ControllerState

SAME, EARLIER, LATER, OTHER_WINNER = "as it was", "earlier", "later", "other winner"
AVOIDED, ADDED, WITHOUT_WINNER = "avoided", "added", "nobody elected"


@dataclass(frozen=True, slots=True)
class Incident:
    """What was recorded, and what the rules say instead. Times in ms, sizes in bytes; None: not
    known, or there was none.
    """

    broker_name: str
    offset: int | None
    """Of the election's command; None for a silence that no election answered."""
    at_ms: int
    cause: str
    recorded_winner: int | None
    recorded_outage_ms: int | None
    recorded_risk_bytes: int
    result: str
    judged: Judged
    outage_ms: int | None

    @property
    def won_ms(self) -> int | None:
        """Unavailability that would not have been; negative: more of it."""
        if self.recorded_outage_ms is None or self.outage_ms is None:
            return None
        return self.recorded_outage_ms - self.outage_ms


class Replay:
    """One pass over a history. `silences` are those of all sets, by name; `failovers` rows of
    `gold/failovers`.
    """

    def __init__(
        self,
        timers: Timers,
        policy: Policy,
        silences: Mapping[str, Sequence[Silence]],
        failovers: Iterable[Row],
        from_ms: int = 0,
        until_ms: int | None = None,
    ) -> None:
        self._timers = timers
        self._policy = policy
        self._silences = silences
        self._failovers = {(row["broker_name"], row["offset"]): row for row in failovers}
        self._from_ms, self._until_ms = from_ms, until_ms
        self._last_evidence: dict[str, tuple[ReplicaEvidence, ...]] = {}
        self._answered: dict[str, Incident] = {}
        """Sets that recorded history left without a master, while the policy would have found
        one.
        """

    def incidents(
        self, records: Iterable[Record], published: Mapping[int, Published] | None = None
    ) -> Iterator[Incident]:
        """The incidents in the order of time; `records` are all commands from offset 0 on."""
        fold = GoldFold()
        waiting = self._unanswered()
        for change in fold.changes(records, published):
            before = (
                fold.folder.state
                if change.before is None
                else fold.folder.state.with_set(change.before)
            )
            while waiting and waiting[-1][0] <= change.at_ms:
                yield from self._silent(before, *waiting.pop())
            yield from self._election(before, change)
            command = change.command
            if isinstance(command, (ElectMaster, AlterSyncStateSet)) and command.evidence:
                self._last_evidence[command.broker_name] = command.evidence
        while waiting:
            yield from self._silent(fold.folder.state, *waiting.pop())

    def _in_range(self, at_ms: int) -> bool:
        return at_ms >= self._from_ms and (self._until_ms is None or at_ms <= self._until_ms)

    def _unanswered(self) -> list[tuple[int, str, Silence]]:
        """Silences that these timers would not have waited for, the earliest last."""
        timeout_ms = self._timers.heartbeat_timeout_ms
        if timeout_ms is None:
            return []
        found = [
            (one.from_ms + timeout_ms + 1, name, one)
            for name, silences in self._silences.items()
            for one in silences
            if not one.was_gone and one.until_ms - one.from_ms > timeout_ms
        ]
        return sorted(found, key=lambda due: due[0], reverse=True)

    def _silent(
        self, state: ControllerState, at_ms: int, name: str, silence: Silence
    ) -> Iterator[Incident]:
        """A master was silent, and nobody called for an election: with a shorter timeout somebody
        would have.
        """
        broker_set = state.live_set(name)
        if (
            broker_set is None
            or broker_set.master_broker_id != silence.broker_id
            or not self._in_range(at_ms)
        ):
            return
        rows = tuple(
            replace_row(row, silence, at_ms)
            for row in self._last_evidence.get(name, ())
            if broker_set.replica(row.broker_id)
        )
        scene = Scene(
            state,
            name,
            at_ms,
            rows,
            [one for one in self._silences[name] if one.broker_id != silence.broker_id],
        )
        judged = judge(scene, at_ms, self._timers, self._policy)
        outage_ms = silence.until_ms - silence.from_ms
        elected = judged.winner not in (None, silence.broker_id)
        instead_ms = judged.at_ms - silence.from_ms + self._recovery_ms() if elected else outage_ms
        yield Incident(
            name,
            None,
            at_ms,
            "master silent for a while",
            None,
            outage_ms,
            0,
            ADDED if elected else SAME,
            judged,
            instead_ms,
        )

    def _election(self, before: ControllerState, change: SetChange) -> Iterator[Incident]:
        command = change.command
        if (
            not isinstance(command, ElectMaster)
            or command.designate
            or command.broker_id != NO_BROKER_ID
        ):
            return
        if change.before is None or not self._in_range(change.at_ms):
            return
        # Refused before anybody was looked at, e.g. by an old term: no incident of its own.
        if not change.outcome.accepted and all(
            one.verdict == "NOT_CONSIDERED" for one in change.outcome.candidates
        ):
            return
        silences = self._silences.get(command.broker_name, ())
        scene = Scene(before, command.broker_name, change.at_ms, command.evidence, silences)
        judged = judge(scene, due_ms(scene, self._timers), self._timers, self._policy)
        yield self._compared(change, command, judged)

    def _compared(self, change: SetChange, command: ElectMaster, judged: Judged) -> Incident:
        name = command.broker_name
        elected = next(
            (one for one in change.outcome.changes if isinstance(one, MasterElected)), None
        )
        winner = None if elected is None else elected.master_broker_id
        risky = elected is not None and LABELS_OF_RISK & {*change.outcome.labels}
        row = self._failovers.get((name, change.offset), {})
        recorded_ms = row.get("unavailable_ms")
        result, outage_ms = self._result(change, winner, judged, recorded_ms)
        incident = Incident(
            name,
            change.offset,
            change.at_ms,
            change.outcome.cause,
            winner,
            recorded_ms,
            behind_bytes(command.evidence, winner or NO_BROKER_ID) if risky else 0,
            result,
            judged,
            outage_ms,
        )
        earlier = self._answered.pop(name, None)
        if result == ADDED:
            self._answered[name] = earlier or incident
        elif earlier is not None and winner is not None:
            # The set would have had a master since then: that election would not have been.
            before_ms = change.at_ms - earlier.judged.at_ms
            instead_ms = None if recorded_ms is None else max(0, recorded_ms - before_ms)
            who = Judged(earlier.judged.at_ms, earlier.judged.winner, "a master was elected before")
            return replace(incident, result=AVOIDED, judged=who, outage_ms=instead_ms)
        elif earlier is not None:
            self._answered[name] = earlier
        return incident

    def _result(
        self, change: SetChange, winner: int | None, judged: Judged, recorded_ms: int | None
    ) -> tuple[str, int | None]:
        master = None if change.before is None else change.before.master_broker_id
        if winner is None:
            return (SAME, recorded_ms) if judged.winner in (None, master) else (ADDED, None)
        if judged.winner is None:
            return WITHOUT_WINNER, None
        shift_ms = judged.at_ms - change.at_ms
        if judged.reason != "elected":
            silence = self._silence(change, master)
            return AVOIDED, None if silence is None else silence.until_ms - silence.from_ms
        outage_ms = None if recorded_ms is None else max(0, recorded_ms + shift_ms)
        if judged.winner != winner:
            return OTHER_WINNER, outage_ms
        return (SAME if shift_ms == 0 else LATER if shift_ms > 0 else EARLIER), outage_ms

    def _silence(self, change: SetChange, master: int | None) -> Silence | None:
        known = self._silences.get(change.outcome.broker_name or "", ())
        return next(
            (one for one in known if one.broker_id == master and one.covers(change.at_ms)), None
        )

    def _recovery_ms(self) -> int:
        """From an election to the first acknowledged message: the median of this history, 0 when
        none is known.
        """
        took = sorted(
            row["first_acknowledged_ms"] - row["at_ms"]
            for row in self._failovers.values()
            if row["first_acknowledged_ms"] is not None
        )
        return max(0, took[len(took) // 2]) if took else 0


def replace_row(row: ReplicaEvidence, silence: Silence, at_ms: int) -> ReplicaEvidence:
    """What is known of a replica during a silence: the silent one was last heard at its begin,
    others go on as they were.
    """
    if row.broker_id != silence.broker_id:
        return row
    known = (row.epoch, row.max_offset, row.confirm_offset, row.election_priority, row.incarnation)
    return ReplicaEvidence(
        row.broker_id, False, "heartbeat_expired", at_ms - silence.from_ms, *known
    )


def totals(incidents: Iterable[Incident]) -> dict[str, int]:
    """What all of them come to: counts, ms of unavailability, bytes at risk."""
    found = list(incidents)
    measured = [one for one in found if one.won_ms is not None]
    return {
        "incidents": len(found),
        "elections": sum(one.recorded_winner is not None for one in found),
        "avoided": sum(one.result == AVOIDED for one in found),
        "added": sum(one.result == ADDED for one in found),
        "other_winner": sum(one.result == OTHER_WINNER for one in found),
        "nobody_elected": sum(one.result == WITHOUT_WINNER for one in found),
        "measured": len(measured),
        "unavailable_ms": sum(one.recorded_outage_ms or 0 for one in measured),
        "unavailable_instead_ms": sum(one.outage_ms or 0 for one in measured),
        "at_risk_bytes": sum(one.recorded_risk_bytes for one in found),
        "at_risk_instead_bytes": sum(
            one.judged.behind_bytes for one in found if one.result != AVOIDED
        ),
    }
