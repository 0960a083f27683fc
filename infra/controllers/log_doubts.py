"""What is appended to a command log that may have lost its newest decisions: every set in it is
uncertain from there on.

Responsible for the records and for seeing that the fold accepts each. Refuses to know where they
are written, and what an uncertain set waits for (`processors.fold.decide_doubt`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from events.codec import COMMAND_FINGERPRINTS, encode
from events.commands import ActivateRules, Command, DoubtBrokerSet
from events.envelope import Envelope
from infra.problems import Problem
from processors.fold.decide_doubt import LIFTED_BY
from processors.fold.folder import Folder
from processors.fold.rules import RULES, RULES_VERSION

ISSUER = "regent controller rebuild"
CAUSE = "log_lost_decisions"


@dataclass(frozen=True, slots=True)
class AppendedRecord:
    """One record for the end of the log."""

    offset: int
    value: bytes
    timestamp_ms: int
    key: None = None


@dataclass(frozen=True, slots=True)
class Doubts:
    """`records` in the order of their offsets; `activated`: the rules that had to be made active
    for them, None if they are.
    """

    records: tuple[AppendedRecord, ...]
    sets: tuple[str, ...]
    activated: int | None


def doubts_behind(folder: Folder, new_id: Callable[[], bytes], wall_ms: int) -> Doubts:
    """The records to append to the log that `folder` has folded to its end; the folder goes on
    over them.

    Rules that cannot doubt are left for the newest ones in the same go: without that a restored log
    would elect any replica it calls a member. Problem when the fold refuses one.
    """
    first = folder.next_offset
    names = tuple(sorted(name for name, one in folder.state.sets.items() if not one.tombstone))
    if not names:
        return Doubts((), (), None)
    records: list[AppendedRecord] = []

    def append(make: Callable[[Envelope], Command]) -> None:
        state = folder.state
        envelope = Envelope(
            new_id(),
            state.cluster_id,
            state.term,
            ISSUER,
            wall_ms,
            CAUSE,
            None,
            folder.offset,
            folder.digest,
        )
        data = encode(make(envelope))
        outcome = folder.apply(folder.next_offset, data).outcome
        if not outcome.accepted:
            raise Problem(
                f"the rules refuse {outcome.kind}: {outcome.refusal}",
                "Nothing was appended; 'regent verify' looks closer at the log.",
            )
        records.append(AppendedRecord(first + len(records), data, wall_ms))

    activated = None
    if not _doubts_sets(folder):
        activated = RULES_VERSION
        marks = tuple(sorted({*folder.state.fingerprints, *COMMAND_FINGERPRINTS}))
        append(lambda envelope: ActivateRules(envelope, RULES_VERSION, marks))
    for name in names:
        append(partial(DoubtBrokerSet, broker_name=name, epochs_lifted=LIFTED_BY))
    return Doubts(tuple(records), names, activated)


def _doubts_sets(folder: Folder) -> bool:
    rules = RULES.get(folder.state.rules_version)
    return rules is not None and rules.doubts_sets
