"""Questions that several parties must answer alike: the Spark-free reader, Spark, whoever folded
the log itself, and, where they hold what is asked for, the running controllers and the verbs of the
command line.

Responsible for the questions, in SQL that both dialects have, and for the answers that a log allows
no other of. Refuses to know how tables come to be, and how anybody is asked (`table_answers`,
`controller_answers`, `verb_answers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from events.codec import decode
from events.outcomes import Outcome
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from processors.fold.folder import Folder
from processors.fold.state import BrokerSet
from tests.support.generated_blows import Blow
from tests.support.generated_history import GeneratedHistory, TimedRecord

Rows = list[tuple[Any, ...]]
HEAD, HALFWAY, LEADER = "digest at the head", "digest halfway", "leader"
SETS, SET_FACTS, REPLICAS, IDS, HISTORY = (
    "sets now",
    "facts of sets",
    "replicas",
    "ids",
    "history of a set",
)
REPLICA_FIELDS = (
    "broker_id",
    "address",
    "ha_address",
    "incarnation",
    "clean",
    "is_regent",
    "is_registered",
)
"""What controllers tell of a replica beside what they last heard of it."""


class KnownLog:
    """All records of a log. `blows`: what is known beforehand of the failovers in it; None:
    nothing.
    """

    def __init__(self, records: Iterable[TimedRecord], blows: Sequence[Blow] | None = None) -> None:
        self.blows = blows
        self.commands: list[bytes] = []
        self.commands_ms: list[int] = []
        self.outcome_records: list[bytes] = []
        self.events = 0
        for topic, _, offset, at_ms, value in records:
            if topic == COMMANDS_TOPIC:
                assert offset == len(self.commands)
                self.commands.append(value)
                self.commands_ms.append(at_ms)
            elif topic == OUTCOMES_TOPIC:
                self.outcome_records.append(value)
            else:
                self.events += 1

    @classmethod
    def of(cls, history: GeneratedHistory) -> KnownLog:
        """A generated history as it is."""
        return cls(history.records(), history.blows)

    @cached_property
    def folder(self) -> Folder:
        """What a controller holds after it."""
        return self.folded(len(self.commands))

    def folded(self, commands: int) -> Folder:
        """What a controller holds after so many."""
        folder = Folder()
        folder.apply_many(0, self.commands[:commands])
        return folder

    @cached_property
    def sets(self) -> list[BrokerSet]:
        """All sets at its end, by name."""
        return [self.folder.state.sets[name] for name in sorted(self.folder.state.sets)]

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """The first that was published of each command."""
        first: dict[int, Outcome] = {}
        for data in self.outcome_records:
            outcome = decode(data)
            assert isinstance(outcome, Outcome)
            first.setdefault(outcome.command_offset, outcome)
        return [first[offset] for offset in sorted(first)]


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `truth` None: the log alone does not tell; it gives None where this log does
    not tell.
    """

    name: str
    query: str
    truth: Callable[[KnownLog], Rows | None] | None = None
    fields: tuple[str, ...] = ()
    """So many fields count of each struct in the answer; empty: all."""
    about: int | str | None = None
    """The offset, or the set, that is asked about."""


def rows_of(answer: Any, question: Question) -> Rows:
    """An answer's rows as tuples."""
    return [
        tuple(_told(value, question.fields) for value in row.values())
        for row in answer.rows.to_pylist()
    ]


def _told(value: Any, fields: Sequence[str]) -> Any:
    if not fields or not isinstance(value, list):
        return value
    return [{name: one[name] for name in fields} for one in value]


# -- what the log allows no other answer of --------------------------------------------------------


def _sets(log: KnownLog) -> Rows:
    return [
        (
            one.broker_name,
            one.master_broker_id,
            one.master_epoch,
            one.sync_state_set_epoch,
            list(one.sync_state_set),
        )
        for one in log.sets
    ]


def _set_facts(log: KnownLog) -> Rows:
    return [
        (
            one.broker_name,
            one.cluster_name,
            one.next_broker_id,
            one.highest_epoch_seen,
            list(one.unclean_members),
            one.master_restarted,
            one.at_risk,
            one.imported,
            one.tombstone,
        )
        for one in log.sets
    ]


def _replicas(log: KnownLog) -> Rows:
    return [
        (
            one.broker_name,
            [{name: getattr(each, name) for name in REPLICA_FIELDS} for each in one.replicas],
        )
        for one in log.sets
    ]


def _ids(log: KnownLog) -> Rows:
    return [
        (one.broker_name, each.broker_id, each.address) for one in log.sets for each in one.replicas
    ]


def _leader(log: KnownLog) -> Rows:
    return [(log.folder.state.term, log.folder.state.leader_id)]


def _head(log: KnownLog) -> Rows:
    return [(log.folder.offset, log.folder.digest.hex())]


def _failovers(log: KnownLog) -> Rows | None:
    if log.blows is None:
        return None
    return sorted(
        (log.commands_ms[one.election_offset], one.broker_name, one.old_master, one.new_master)
        for one in log.blows
    )


def _causes(log: KnownLog) -> Rows | None:
    if log.blows is None:
        return None
    kinds = Counter(one.kind for one in log.blows)
    return [(kinds["silent"], kinds["handed over"], kinds["power"])]


def _refusals(log: KnownLog) -> Rows:
    return sorted(Counter(one.refusal for one in log.outcomes if not one.accepted).items())  # type: ignore[type-var]


def _commands(log: KnownLog) -> Rows:
    return [(len(log.commands), len(log.outcome_records), log.events)]


def _elections(log: KnownLog) -> Rows:
    times = Counter((one.cause, one.accepted) for one in log.outcomes if one.kind == "ElectMaster")
    return sorted((cause, accepted, count) for (cause, accepted), count in times.items())


QUESTIONS: tuple[Question, ...] = (
    Question(
        SETS,
        "SELECT broker_name, master_broker_id, master_epoch, sync_state_set_epoch, sync_state_set "
        "FROM gold.broker_sets ORDER BY broker_name",
        _sets,
    ),
    Question(
        SET_FACTS,
        "SELECT broker_name, cluster_name, next_broker_id, highest_epoch_seen, unclean_members, "
        "master_restarted, at_risk, imported, tombstone FROM gold.broker_sets ORDER BY broker_name",
        _set_facts,
    ),
    Question(
        REPLICAS,
        "SELECT broker_name, replicas FROM gold.broker_sets ORDER BY broker_name",
        _replicas,
        REPLICA_FIELDS,
    ),
    Question(
        IDS,
        "SELECT broker_name, broker_id, address FROM gold.broker_identity ORDER BY broker_name, "
        "broker_id",
        _ids,
    ),
    Question(
        LEADER,
        "SELECT term, controller_id FROM gold.controller_terms WHERE to_offset IS NULL",
        _leader,
    ),
    Question(
        HEAD,
        "SELECT command_offset, digest FROM silver.decisions ORDER BY command_offset DESC LIMIT 1",
        _head,
    ),
    Question(
        "failovers",
        "SELECT at_ms, broker_name, old_master, new_master FROM gold.failovers ORDER BY at_ms, "
        "broker_name",
        _failovers,
    ),
    Question(
        "causes",
        "SELECT count(CASE WHEN cause = 'master_heartbeat_expired' THEN 1 END) AS silent, "
        "count(CASE WHEN cause = 'operator_request' THEN 1 END) AS asked, count(CASE WHEN reason "
        "IS NOT NULL THEN 1 END) AS risky FROM gold.failovers LEFT JOIN (SELECT broker_name AS "
        "name, master_epoch, reason FROM gold.messages_at_risk) AS risk ON name = broker_name AND "
        "master_epoch = new_epoch",
        _causes,
    ),
    Question(
        "refusals",
        "SELECT refusal, count(DISTINCT command_offset) AS times FROM silver.decisions WHERE NOT "
        "accepted GROUP BY refusal ORDER BY refusal",
        _refusals,
    ),
    Question(
        "records",
        "SELECT count(CASE WHEN topic = 'regent.commands' THEN 1 END) AS commands, count(CASE "
        "WHEN topic = 'regent.outcomes' THEN 1 END) AS outcomes, count(CASE WHEN topic = "
        "'regent.broker-events' THEN 1 END) AS events FROM bronze.records",
        _commands,
    ),
    Question(
        "elections",
        "SELECT cause, accepted, count(*) AS times FROM gold.elections GROUP BY cause, accepted "
        "ORDER BY cause, accepted",
        _elections,
    ),
    Question(
        "availability",
        "SELECT broker_name, CAST(day AS VARCHAR(10)) AS day, unavailable_ms, masterless_ms, "
        "failovers, longest_gap_ms FROM gold.availability ORDER BY broker_name, day",
    ),
    Question(
        "cut off",
        "SELECT broker_name, CAST(sum(truncated_bytes) AS BIGINT) AS bytes FROM gold.failovers "
        "GROUP BY broker_name ORDER BY broker_name",
    ),
    Question(
        "membership",
        "SELECT broker_name, sync_state_set, count(*) AS times, CAST(sum(to_ms - from_ms) AS "
        "BIGINT) AS ms FROM gold.sync_state_set_intervals GROUP BY broker_name, sync_state_set "
        "ORDER BY broker_name, sync_state_set",
    ),
)


def questions_about(log: KnownLog) -> tuple[Question, ...]:
    """All of them, with those that name an offset and a set of this very log."""
    half, name = len(log.commands) // 2, log.sets[0].broker_name
    about_set = [one for one in log.outcomes if one.broker_name == name]
    return (
        *QUESTIONS,
        Question(
            HALFWAY,
            "SELECT DISTINCT command_offset, digest FROM silver.decisions WHERE command_offset = "
            f"{half}",
            lambda log: [(half, log.folded(half + 1).digest.hex())],
            about=half,
        ),
        Question(
            HISTORY,
            "SELECT DISTINCT command_offset, kind, accepted, refusal FROM silver.decisions WHERE "
            f"broker_name = '{name}' ORDER BY command_offset",
            lambda log: [
                (one.command_offset, one.kind, one.accepted, one.refusal) for one in about_set
            ],
            about=name,
        ),
    )
