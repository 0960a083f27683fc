"""The gold part of the catalogue: the tables that answer questions, as data.

Responsible for names, columns with meaning and unit, keys, clustering, checks and retention.
Refuses to know how rows come about (the other `gold_*` modules) and how they are written.

Gold holds nothing that bronze and silver do not give: it may be thrown away and built again with
the same content, so its rows are overwritten by key, unlike those below. Every key begins with the
cluster, because one lake holds several. Times are ms since 1970-01-01 UTC: those named after an
offset are the log's, those of phases and broker events are of the clock of whoever stamped them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakehouse.gold.columns import (
    ACTING_COLUMNS,
    CANDIDATE,
    EVIDENCE,
    FLAG,
    IDS,
    LONG,
    MAJORITY_COLUMNS,
    PHASE,
    REPLICA,
    STAMPS,
    TEXT,
    TRUNCATION,
)
from lakehouse.tables.columns import Column
from lakehouse.tables.row_checks import AtLeast, Present, TextLength
from lakehouse.tables.specs import TABLE_PROPERTIES, TableSpec

FOREVER = None

# Rows are replaced, so Delta must allow it; all else is as below.
GOLD_PROPERTIES: Mapping[str, str] = {**TABLE_PROPERTIES, "delta.appendOnly": "false"}


@dataclass(frozen=True)
class GoldTableSpec(TableSpec):
    """A table of the gold layer: its rows are replaced by key."""

    partition_column: str = "cluster_id"
    cluster_by: tuple[str, ...] = ("cluster_id", "broker_name")
    """Columns by which its files are ordered when they are compacted."""
    retention_days: int | None = FOREVER
    """After how many days a row is dropped, by its `offset_column`, which must be a time in ms
    then; None: never, these tables grow with decisions only.
    """
    properties: Mapping[str, str] = field(default_factory=lambda: GOLD_PROPERTIES, hash=False)


def _null(name: str, kind: pa.DataType, meaning: str) -> Column:
    return Column(name, kind, meaning, nullable=True)


CLUSTER = Column("cluster_id", TEXT, "The cluster that decided; empty before it was formed.")
SET_NAME = Column("broker_name", TEXT, "Name of the broker set.")
SPAN = (
    Column("from_offset", LONG, "Offset of the command from which on the row holds."),
    Column("from_ms", LONG, "When the log took that command, ms since 1970-01-01 UTC."),
    _null(
        "to_offset",
        LONG,
        "Offset of the command from which on it holds no more; null while it holds.",
    ),
    _null(
        "to_ms",
        LONG,
        "When the log took that command, ms since 1970-01-01 UTC; null while it holds.",
    ),
)
DECIDED = (
    Column("offset", LONG, "Offset of the command."),
    Column("at_ms", LONG, "When the log took it, ms since 1970-01-01 UTC."),
)
STATE = (
    Column("cluster_name", TEXT, "RocketMQ's cluster name of the set."),
    _null("master_broker_id", LONG, "The master; null when there is none."),
    _null("master_address", TEXT, "Its address, host:port."),
    Column("master_epoch", LONG, "Master epoch; a clearing raises it as well."),
    Column("highest_epoch_seen", LONG, "Highest epoch that anyone reported or that was given."),
    Column("sync_state_set", IDS, "Members of the SyncStateSet, ascending."),
    Column("sync_state_set_epoch", LONG, "Epoch of the SyncStateSet."),
    Column("next_broker_id", LONG, "Id that the next new replica gets."),
    Column(
        "replicas",
        pa.list_(REPLICA),
        "Every replica as last registered, ascending by id; offsets in bytes.",
    ),
    Column("unclean_members", IDS, "Members that left by an unclean start and are not back."),
    Column(
        "master_restarted",
        FLAG,
        "Whether the recorded master registered anew and waits for an election.",
    ),
    Column("has_had_master", FLAG, "Whether the set ever had a master since it was last empty."),
    Column("at_risk", FLAG, "Whether the mastership may lack acknowledged messages."),
    Column("imported", FLAG, "Whether it stands as another controller left it."),
    Column("tombstone", FLAG, "Whether every replica was cleaned."),
)
_SPAN_CHECKS = (AtLeast("from_offset", 0), AtLeast("to_offset", 1))
_SET_KEY = ("cluster_id", "broker_name")

BROKER_SETS = GoldTableSpec(
    name="gold/broker_sets",
    meaning="Each broker set as it is after the last command that changed it.",
    columns=(CLUSTER, SET_NAME, *DECIDED, *STATE),
    key=_SET_KEY,
    checks=(
        AtLeast("master_epoch", 0),
        AtLeast("sync_state_set_epoch", 0),
        AtLeast("next_broker_id", 1),
    ),
    offset_column="offset",
)

BROKER_SET_HISTORY = GoldTableSpec(
    name="gold/broker_set_history",
    meaning=(
        "Each broker set after every decision that changed it, with the offsets and times between "
        "which it was so."
    ),
    columns=(
        CLUSTER,
        SET_NAME,
        *SPAN,
        Column("kind", TEXT, "Kind of the command that led to it."),
        Column("cause", TEXT, "Cause that its issuer gave."),
        Column("term", LONG, "Controller term in which it was decided."),
        _null(
            "refusal",
            TEXT,
            "Refusal, when a refused command changed the set all the same; else null.",
        ),
        Column("digest", TEXT, "Chained digest after the command, 64 hex digits."),
        _null(
            "digest_agrees",
            FLAG,
            "Whether the controller published that digest; null when nothing was published yet.",
        ),
        *STATE,
    ),
    key=(*_SET_KEY, "from_offset"),
    checks=(*_SPAN_CHECKS, TextLength("digest", (64,)), AtLeast("master_epoch", 0)),
    offset_column="from_offset",
)

ELECTIONS = GoldTableSpec(
    name="gold/elections",
    meaning=(
        "Every election asked for, held or refused: on what evidence, among whom, who won by "
        "which rule, how fast."
    ),
    columns=(
        CLUSTER,
        SET_NAME,
        *DECIDED,
        Column("term", LONG, "Controller term in which it was decided."),
        Column("issuer", TEXT, "Controller that appended the command."),
        _null("requested_by", TEXT, "Who asked that controller; null when it acted by itself."),
        Column("cause", TEXT, "Why an election was asked for."),
        _null("designated_broker_id", LONG, "The replica that an operator named; null when none."),
        Column("accepted", FLAG, "Whether it was decided as asked."),
        _null("refusal", TEXT, "Why not; null when it was."),
        Column("code", LONG, "RocketMQ response code."),
        Column("labels", pa.list_(TEXT), "AT_RISK, DESIGNATED, REMEMBERED, REPEAT, UNCLEAN."),
        _null("previous_master", LONG, "Master before; null when there was none."),
        Column("previous_epoch", LONG, "Master epoch before."),
        Column("previous_set", IDS, "SyncStateSet before."),
        Column(
            "evidence",
            pa.list_(EVIDENCE),
            "What the issuer knew about each replica; -1 for unknown, offsets in bytes.",
        ),
        Column(
            "candidates",
            pa.list_(CANDIDATE),
            "Each replica with the rule that chose or rejected it.",
        ),
        _null("winner", LONG, "The new master; null when there is none."),
        _null("winner_address", TEXT, "Its address, host:port."),
        _null("master_epoch", LONG, "The epoch that began."),
        _null("sync_state_set", IDS, "Members of the set that began."),
        Column(
            "reason",
            TEXT,
            "In few words why it ended so: rules that beat the others, or the refusal.",
        ),
        Column(
            "phases", STAMPS, "Phase -> ms since 1970-01-01 UTC, as the controller stamped them."
        ),
        _null("took_ms", LONG, "From the first to the last phase, ms; null without phases."),
    ),
    key=("cluster_id", "offset"),
    checks=(
        AtLeast("offset", 0),
        AtLeast("winner", 1),
        AtLeast("master_epoch", 1),
        AtLeast("took_ms", 0),
    ),
    offset_column="offset",
)

FAILOVERS = GoldTableSpec(
    name="gold/failovers",
    meaning=(
        "Every change from one mastership of a set to the next: what messages saw of it, its "
        "phases, what was cut off."
    ),
    columns=(
        CLUSTER,
        SET_NAME,
        Column("new_epoch", LONG, "Master epoch that began."),
        *DECIDED,
        Column("cause", TEXT, "Cause of the election."),
        Column("labels", pa.list_(TEXT), "Labels of the election."),
        Column("old_epoch", LONG, "Master epoch that ended."),
        Column("old_master", LONG, "Its master."),
        Column("new_master", LONG, "The new master, possibly the same replica."),
        Column(
            "masterless_ms",
            LONG,
            "Between the clearing of the old master and the election, ms; 0 when one decision "
            "did both.",
        ),
        _null(
            "last_message_ms",
            LONG,
            "Store time of the last message below the new epoch in the new master's log.",
        ),
        _null(
            "first_acknowledged_ms",
            LONG,
            "When the new master acknowledged its first message in the new epoch.",
        ),
        _null(
            "unavailable_ms",
            LONG,
            "From that last to that first message, ms: also holds time in which nobody sent. "
            "Null unless both are known.",
        ),
        Column(
            "phases",
            pa.list_(PHASE),
            "Controller's and brokers' steps ascending by time; took_ms: since the step before.",
        ),
        Column(
            "truncations",
            pa.list_(TRUNCATION),
            "Ends of logs that brokers cut off until the next failover; offsets in bytes.",
        ),
        Column(
            "truncated_bytes",
            LONG,
            "Sum over these, bytes; the same message counts once for each log that lost it.",
        ),
    ),
    key=(*_SET_KEY, "new_epoch"),
    checks=(
        AtLeast("masterless_ms", 0),
        AtLeast("truncated_bytes", 0),
        AtLeast("unavailable_ms", 0),
        AtLeast("new_epoch", 1),
    ),
    offset_column="offset",
)

SYNC_STATE_SET_INTERVALS = GoldTableSpec(
    name="gold/sync_state_set_intervals",
    meaning="Each SyncStateSet with the offsets and times between which it stood.",
    columns=(
        CLUSTER,
        SET_NAME,
        *SPAN,
        Column("sync_state_set_epoch", LONG, "Epoch of the SyncStateSet."),
        Column("sync_state_set", IDS, "Members, ascending; empty when nobody is left."),
        Column("joined", IDS, "Who was not in the one before."),
        Column("left", IDS, "Who was in the one before and is no more."),
        Column(
            "reason",
            TEXT,
            "ELECTED, IMPORTED, PROPOSED, LOSS_PROVEN, WENT_BACK, UNCLEAN_START or CLEANED.",
        ),
        Column("missing", IDS, "Replicas registered when it began that are not in it."),
    ),
    key=(*_SET_KEY, "from_offset"),
    checks=(*_SPAN_CHECKS, AtLeast("sync_state_set_epoch", 0)),
    offset_column="from_offset",
)

AVAILABILITY = GoldTableSpec(
    name="gold/availability",
    meaning=(
        "How long each set could take messages on each day (UTC), as far as decisions and broker "
        "events tell."
    ),
    columns=(
        CLUSTER,
        SET_NAME,
        Column("day", pa.date32(), "The day, UTC."),
        Column(
            "observed_ms",
            LONG,
            "Time of the day in which the set was in service, ms: from its first master until it "
            "was cleaned, at most up to where history reaches.",
        ),
        Column(
            "masterless_ms",
            LONG,
            "Of that, time without a master by decision, ms: what is certain at least.",
        ),
        Column(
            "unavailable_ms",
            LONG,
            "Of that, time without a master or between last and first message of a failover, ms, "
            "each moment once: at most so long, for an idle set counts until its next message.",
        ),
        Column("availability", pa.float64(), "1 - unavailable_ms / observed_ms."),
        Column("longest_gap_ms", LONG, "Longest stretch unavailable within the day, ms."),
        Column("failovers", LONG, "Failovers decided on the day."),
        Column(
            "unmeasured",
            LONG,
            "Of these, those of which the brokers' messages are not known: they count by "
            "masterless time alone.",
        ),
        _null(
            "acting_ms",
            LONG,
            "Of the time observed, what slaves acted for their master, ms: clients could read and "
            "not write. 0 of sets that controllers lead; null in rows of earlier releases.",
        ),
    ),
    key=(*_SET_KEY, "day"),
    checks=(AtLeast("observed_ms", 1), AtLeast("unavailable_ms", 0), AtLeast("masterless_ms", 0)),
    offset_column="day",
)

REFUSED_COMMANDS = GoldTableSpec(
    name="gold/refused_commands",
    meaning="Every record of the command log that was refused, unreadable ones too.",
    columns=(
        CLUSTER,
        *DECIDED,
        Column("kind", TEXT, "Kind of the command; Unreadable for bytes that are none."),
        _null("broker_name", TEXT, "Set that it was about."),
        Column("refusal", TEXT, "Why it was refused."),
        Column("code", LONG, "RocketMQ response code."),
        Column("cause", TEXT, "Cause that its issuer gave."),
        _null("issuer", TEXT, "Controller that appended it; null when unreadable."),
        _null("requested_by", TEXT, "Who asked that controller."),
        _null("command_term", LONG, "Term that the issuer believed in; null when unreadable."),
        Column("term", LONG, "Term in force."),
        Column(
            "changed",
            FLAG,
            "Whether it changed the set all the same: a dead master is cleared although nobody "
            "can follow.",
        ),
    ),
    key=("cluster_id", "offset"),
    checks=(AtLeast("offset", 0), Present("refusal")),
    cluster_by=("cluster_id", "offset"),
    offset_column="offset",
)

CONTROLLER_TERMS = GoldTableSpec(
    name="gold/controller_terms",
    meaning="Which controller decided between which offsets and times.",
    columns=(
        CLUSTER,
        Column("term", LONG, "The term."),
        *SPAN,
        Column("controller_id", TEXT, "The controller that claimed it."),
        Column("controller_address", TEXT, "Its address, host:port."),
        Column("release", TEXT, "Its release."),
    ),
    key=("cluster_id", "term"),
    checks=(*_SPAN_CHECKS, AtLeast("term", 1)),
    cluster_by=("cluster_id", "term"),
    offset_column="from_offset",
)

BROKER_IDENTITY = GoldTableSpec(
    name="gold/broker_identity",
    meaning=(
        "Who got which id of a set when, with the check code that proves it, until it was cleaned."
    ),
    columns=(
        CLUSTER,
        SET_NAME,
        Column("broker_id", LONG, "Controller id of the replica."),
        *SPAN,
        Column(
            "register_check_code",
            TEXT,
            "What the replica proves its id with; empty after an import that knew none.",
        ),
        Column("address", TEXT, "Its address when it got the id, host:port."),
        Column("given_by", TEXT, "ApplyBrokerId or ImportBrokerSet."),
    ),
    key=(*_SET_KEY, "broker_id", "from_offset"),
    checks=(*_SPAN_CHECKS, AtLeast("broker_id", 1)),
    offset_column="from_offset",
)

MESSAGES_AT_RISK = GoldTableSpec(
    name="gold/messages_at_risk",
    meaning=(
        "Masterships that may lack acknowledged messages, with how much the evidence says and how "
        "much was cut off."
    ),
    columns=(
        CLUSTER,
        SET_NAME,
        Column("master_epoch", LONG, "Epoch of the mastership."),
        *DECIDED,
        Column(
            "reason",
            TEXT,
            "AT_RISK: nobody who could lead was known to hold all that was acknowledged; "
            "UNCLEAN: elected outside the SyncStateSet.",
        ),
        Column("new_master", LONG, "The master."),
        _null("winner_offset", LONG, "End of its log by the evidence, bytes; null when unknown."),
        _null(
            "highest_offset",
            LONG,
            "Highest end of log of any replica by the evidence, bytes; null when none is known.",
        ),
        _null(
            "behind_bytes",
            LONG,
            "What the master is behind that, bytes: not all of it need have been acknowledged; "
            "what nobody alive has is not in it.",
        ),
        Column(
            "truncated_bytes",
            LONG,
            "What brokers cut off their logs until the next failover, bytes, each log by itself.",
        ),
    ),
    key=(*_SET_KEY, "master_epoch"),
    checks=(AtLeast("behind_bytes", 0), AtLeast("truncated_bytes", 0), AtLeast("master_epoch", 1)),
    offset_column="offset",
)

ACTING_PERIODS = GoldTableSpec(
    name="gold/acting_periods",
    meaning=(
        "Every time that a slave acted for its master, in sets without controllers: why it began, "
        "why it ended, what left the set meanwhile. From broker events alone."
    ),
    columns=(CLUSTER, SET_NAME, *ACTING_COLUMNS),
    key=(*_SET_KEY, "broker_id", "since_ms"),
    checks=(AtLeast("broker_id", 1), AtLeast("messages", 0), AtLeast("since_ms", 0)),
    offset_column="since_ms",
)

MAJORITY_TERMS = GoldTableSpec(
    name="gold/majority_terms",
    meaning=(
        "Every term of groups that replicate by majority: who was elected by which votes, from "
        "when on it took appends, why it ended, what was cut for it. From broker events alone."
    ),
    columns=(CLUSTER, SET_NAME, *MAJORITY_COLUMNS),
    key=(*_SET_KEY, "term"),
    checks=(AtLeast("term", 0), AtLeast("entries_cut", 0), AtLeast("since_ms", 0)),
    offset_column="since_ms",
)

GOLD_TABLES: tuple[GoldTableSpec, ...] = (
    BROKER_SETS,
    BROKER_SET_HISTORY,
    ELECTIONS,
    FAILOVERS,
    SYNC_STATE_SET_INTERVALS,
    AVAILABILITY,
    REFUSED_COMMANDS,
    CONTROLLER_TERMS,
    BROKER_IDENTITY,
    MESSAGES_AT_RISK,
    ACTING_PERIODS,
    MAJORITY_TERMS,
)
GOLD_BY_NAME: Mapping[str, GoldTableSpec] = {table.name: table for table in GOLD_TABLES}
