"""The continuous invariants, as data, and how they are asked.

Responsible for their names, their explanations, for asking them row by row and for what is carried
from one batch of rows to the next. Refuses to know where rows come from and who reads the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from events.changes import (
    BrokerIdApplied,
    BrokerRegistered,
    BrokersCleaned,
    BrokerSetImported,
    LeadershipClaimed,
    MasterCleared,
    MasterElected,
    SyncStateSetAltered,
)
from lakehouse.invariants import of_brokers as brokers
from lakehouse.invariants import of_decisions as decisions
from lakehouse.invariants import of_groups as groups
from lakehouse.invariants.epochs import EpochLedger
from lakehouse.invariants.rows import (
    CLUSTER,
    CounterExample,
    Decided,
    Row,
    counter_example,
    subjects,
)

OF_A_MASTER: frozenset[type[Any]] = frozenset(
    {MasterElected, MasterCleared, BrokersCleaned, BrokerSetImported}
)
OF_MEMBERS: frozenset[type[Any]] = frozenset(
    {MasterElected, SyncStateSetAltered, BrokersCleaned, BrokerSetImported}
)
NO_CHANGES: frozenset[type[Any]] = frozenset()
"""Of what is about broker events alone."""
OF_EPOCHS: frozenset[type[Any]] = frozenset({MasterElected, BrokerRegistered, BrokerSetImported})

Step = Callable[[Any, str, Row], tuple[Any, list[Any]]]
"""What is known of a subject, the subject, a row -> what is known then, the breaches (`Breach`)."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that must hold over all of history."""

    name: str
    explanation: str
    known: type[Any]
    """What is carried per subject; without arguments it is what is known of nothing."""
    step: Step
    wakes: frozenset[type[Any]] | None
    """Changes that it looks at: a decision without any of them says nothing to it. None: it looks
    at every decision.
    """
    of_cluster: bool = False
    """Whether it is about the cluster as a whole, else about each broker set by itself."""


OF_DECISIONS: tuple[Invariant, ...] = (
    Invariant(
        "terms_only_grow",
        "Each claim of leadership that won began a term above all terms before it.",
        decisions.Newest,
        decisions.terms_grow,
        frozenset({LeadershipClaimed}),
        of_cluster=True,
    ),
    Invariant(
        "no_decision_by_an_old_term",
        "Whatever was decided was asked for by the controller of the term that held at that "
        "offset: one that was paused and woke up decided nothing.",
        decisions.Newest,
        decisions.no_decision_by_an_old_term,
        None,
        of_cluster=True,
    ),
    Invariant(
        "epochs_only_grow",
        "Each election of a set began a master epoch above all epochs before it, also over "
        "imports and cleanings.",
        decisions.Newest,
        decisions.epochs_grow,
        OF_A_MASTER,
    ),
    Invariant(
        "set_epochs_only_grow",
        "Each SyncStateSet of a set has a set epoch above all before it.",
        decisions.Newest,
        decisions.set_epochs_grow,
        OF_MEMBERS,
    ),
    Invariant(
        "master_in_its_sync_state_set",
        "After every record a set that has a master has it in its SyncStateSet.",
        decisions.Membership,
        decisions.master_is_in_its_set,
        OF_A_MASTER | OF_MEMBERS,
    ),
    Invariant(
        "one_broker_per_id",
        "No broker id of a set was ever given to two brokers; the check code says who a broker "
        "is, and an id that was forgotten is not given away again.",
        decisions.GivenIds,
        decisions.one_broker_per_id,
        frozenset({BrokerIdApplied, BrokerSetImported}),
    ),
)

OF_BROKERS: tuple[Invariant, ...] = (
    Invariant(
        "one_master_per_epoch",
        "An epoch has one master: the elections name one, and the brokers that say that they lead "
        "or follow in it name the same.",
        EpochLedger,
        brokers.one_master_per_epoch,
        OF_EPOCHS,
    ),
    Invariant(
        "epoch_files_agree_with_elections",
        "Every entry that a broker wrote into its epoch file stands for an election, and starts "
        "at the same offset on every broker unless old files below it were deleted.",
        EpochLedger,
        brokers.epoch_files_agree,
        OF_EPOCHS,
    ),
    Invariant(
        "truncations_agree_with_elections",
        "A log that was cut is shorter, ends in an epoch that an election began and not before "
        "its start, and was not cut by a broker that led.",
        brokers.BookAndVoices,
        brokers.truncations_agree,
        OF_EPOCHS,
    ),
    Invariant(
        "no_acknowledgement_after_the_successor_began",
        "What a master acknowledged first in its epoch lies below the start of every later epoch, "
        "and it acknowledged nothing once it knew a later one. Elections labelled AT_RISK, "
        "UNCLEAN or DESIGNATED may lose messages and are left out. Clocks of different machines "
        "are not compared.",
        brokers.BookAndVoices,
        brokers.acknowledged_before_the_successor,
        OF_EPOCHS,
    ),
)

OF_GROUPS: tuple[Invariant, ...] = (
    Invariant(
        "one_leader_per_term",
        "A term of a group that replicates by majority has one leader: the member that says that "
        "it leads, and those that say whom they follow, name the same, and it led in one start.",
        groups.Leaders,
        groups.one_leader_per_term,
        NO_CHANGES,
    ),
    Invariant(
        "one_vote_per_term",
        "A member of such a group votes for one candidate in a term.",
        groups.Votes,
        groups.one_vote_per_term,
        NO_CHANGES,
    ),
    Invariant(
        "committed_is_never_cut",
        "No member of such a group drops an entry that it knows committed, nor one that any member "
        "knew committed by the term in which it was dropped. Entries are known by term and index; "
        "clocks, and the order in which events landed, are not compared.",
        groups.Committed,
        groups.committed_is_never_cut,
        NO_CHANGES,
    ),
)

INVARIANTS: tuple[Invariant, ...] = (*OF_DECISIONS, *OF_BROKERS, *OF_GROUPS)
BY_NAME: Mapping[str, Invariant] = {invariant.name: invariant for invariant in INVARIANTS}

Carried = dict[str, dict[str, Any]]
"""Name of the invariant -> subject -> what is known."""


@dataclass(slots=True)
class Watch:
    """Asks invariants row by row; rows of the command log ascend by offset, broker events within
    their partition.
    """

    invariants: tuple[Invariant, ...] = INVARIANTS
    carried: Carried = field(default_factory=dict)
    _awake: dict[frozenset[type[Any]], tuple[Invariant, ...]] = field(default_factory=dict)
    """Kinds of changes of a decision -> the invariants that look at it."""

    def note(self, row: Row) -> list[CounterExample]:
        """Go on by a row; what it breaks."""
        found: list[CounterExample] = []
        named = subjects(row)
        for invariant in self._asked(row):
            known = self.carried.setdefault(invariant.name, {})
            for subject in (CLUSTER,) if invariant.of_cluster else named:
                before = known.get(subject)
                known[subject], breaches = invariant.step(
                    invariant.known() if before is None else before, subject, row
                )
                for breach in breaches:
                    found.append(counter_example(invariant.name, subject, row, breach))
        return found

    def _asked(self, row: Row) -> tuple[Invariant, ...]:
        if not isinstance(row, Decided):
            return self.invariants
        changed = frozenset(map(type, row.outcome.changes))
        asked = self._awake.get(changed)
        if asked is None:
            asked = self._awake[changed] = tuple(
                one
                for one in self.invariants
                if one.wakes is None or not one.wakes.isdisjoint(changed)
            )
        return asked


def judge(
    rows: Iterable[Row],
    carried: Carried | None = None,
    invariants: tuple[Invariant, ...] = INVARIANTS,
) -> tuple[Carried, list[CounterExample]]:
    """Ask invariants about rows that go on where `carried` ended; `carried` stays as it was.

    Of what landed together, decisions should come before broker events: then less has to wait.
    """
    watch = Watch(invariants, {name: dict(known) for name, known in (carried or {}).items()})
    found = [example for row in rows for example in watch.note(row)]
    return watch.carried, found


def carried_to_json(carried: Carried) -> bytes:
    """What is carried, to be kept between two runs."""
    return msgspec.json.encode(carried)


def carried_from_json(data: bytes) -> Carried:
    """Raises `msgspec.MsgspecError` for what this release did not write; names it does not know are
    left out.
    """
    raw = msgspec.json.decode(data, type=dict[str, dict[str, msgspec.Raw]])
    return {
        name: {
            subject: msgspec.json.decode(known, type=BY_NAME[name].known)
            for subject, known in subjects_of.items()
        }
        for name, subjects_of in raw.items()
        if name in BY_NAME
    }
