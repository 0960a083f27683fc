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

from lakehouse.tables.columns import Column
from lakehouse.tables.row_checks import AtLeast, Present, TextLength
from lakehouse.tables.specs import TABLE_PROPERTIES, TableSpec

FOREVER = None

# Rows are replaced, so Delta must allow it; all else is as below.
GOLD_PROPERTIES: Mapping[str, str] = {**TABLE_PROPERTIES, "delta.appendOnly": "false"}

_TEXT, _LONG, _FLAG = pa.string(), pa.int64(), pa.bool_()
_IDS = pa.list_(pa.int64())
_STAMPS = pa.map_(pa.string(), pa.int64())


def _struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


REPLICA = _struct(
    broker_id=_LONG,
    address=_TEXT,
    ha_address=_TEXT,
    incarnation=_TEXT,
    clean=_FLAG,
    is_regent=_FLAG,
    is_registered=_FLAG,
    last_epoch=_LONG,
    end_offset=_LONG,
)
EVIDENCE = _struct(
    broker_id=_LONG,
    alive=_FLAG,
    reason=_TEXT,
    silent_ms=_LONG,
    epoch=_LONG,
    max_offset=_LONG,
    confirm_offset=_LONG,
    election_priority=_LONG,
    incarnation=_TEXT,
)
CANDIDATE = _struct(
    broker_id=_LONG,
    address=_TEXT,
    in_set=_FLAG,
    alive=_FLAG,
    clean=_FLAG,
    epoch=_LONG,
    max_offset=_LONG,
    election_priority=_LONG,
    chosen=_FLAG,
    verdict=_TEXT,
)
PHASE = _struct(phase=_TEXT, at_ms=_LONG, took_ms=_LONG)
TRUNCATION = _struct(broker_id=_LONG, from_offset=_LONG, to_offset=_LONG, at_ms=_LONG, reason=_TEXT)


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


CLUSTER = Column("cluster_id", _TEXT, "The cluster that decided; empty before it was formed.")
SET_NAME = Column("broker_name", _TEXT, "Name of the broker set.")
SPAN = (
    Column("from_offset", _LONG, "Offset of the command from which on the row holds."),
    Column("from_ms", _LONG, "When the log took that command, ms since 1970-01-01 UTC."),
    _null(
        "to_offset",
        _LONG,
        "Offset of the command from which on it holds no more; null while it holds.",
    ),
    _null(
        "to_ms",
        _LONG,
        "When the log took that command, ms since 1970-01-01 UTC; null while it holds.",
    ),
)
DECIDED = (
    Column("offset", _LONG, "Offset of the command."),
    Column("at_ms", _LONG, "When the log took it, ms since 1970-01-01 UTC."),
)
STATE = (
    Column("cluster_name", _TEXT, "RocketMQ's cluster name of the set."),
    _null("master_broker_id", _LONG, "The master; null when there is none."),
    _null("master_address", _TEXT, "Its address, host:port."),
    Column("master_epoch", _LONG, "Master epoch; a clearing raises it as well."),
    Column("highest_epoch_seen", _LONG, "Highest epoch that anyone reported or that was given."),
    Column("sync_state_set", _IDS, "Members of the SyncStateSet, ascending."),
    Column("sync_state_set_epoch", _LONG, "Epoch of the SyncStateSet."),
    Column("next_broker_id", _LONG, "Id that the next new replica gets."),
    Column(
        "replicas",
        pa.list_(REPLICA),
        "Every replica as last registered, ascending by id; offsets in bytes.",
    ),
    Column("unclean_members", _IDS, "Members that left by an unclean start and are not back."),
    Column(
        "master_restarted",
        _FLAG,
        "Whether the recorded master registered anew and waits for an election.",
    ),
    Column("has_had_master", _FLAG, "Whether the set ever had a master since it was last empty."),
    Column("at_risk", _FLAG, "Whether the mastership may lack acknowledged messages."),
    Column("imported", _FLAG, "Whether it stands as another controller left it."),
    Column("tombstone", _FLAG, "Whether every replica was cleaned."),
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
        Column("kind", _TEXT, "Kind of the command that led to it."),
        Column("cause", _TEXT, "Cause that its issuer gave."),
        Column("term", _LONG, "Controller term in which it was decided."),
        _null(
            "refusal",
            _TEXT,
            "Refusal, when a refused command changed the set all the same; else null.",
        ),
        Column("digest", _TEXT, "Chained digest after the command, 64 hex digits."),
        _null(
            "digest_agrees",
            _FLAG,
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
        Column("term", _LONG, "Controller term in which it was decided."),
        Column("issuer", _TEXT, "Controller that appended the command."),
        _null("requested_by", _TEXT, "Who asked that controller; null when it acted by itself."),
        Column("cause", _TEXT, "Why an election was asked for."),
        _null("designated_broker_id", _LONG, "The replica that an operator named; null when none."),
        Column("accepted", _FLAG, "Whether it was decided as asked."),
        _null("refusal", _TEXT, "Why not; null when it was."),
        Column("code", _LONG, "RocketMQ response code."),
        Column("labels", pa.list_(_TEXT), "AT_RISK, DESIGNATED, REMEMBERED, REPEAT, UNCLEAN."),
        _null("previous_master", _LONG, "Master before; null when there was none."),
        Column("previous_epoch", _LONG, "Master epoch before."),
        Column("previous_set", _IDS, "SyncStateSet before."),
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
        _null("winner", _LONG, "The new master; null when there is none."),
        _null("winner_address", _TEXT, "Its address, host:port."),
        _null("master_epoch", _LONG, "The epoch that began."),
        _null("sync_state_set", _IDS, "Members of the set that began."),
        Column(
            "reason",
            _TEXT,
            "In few words why it ended so: rules that beat the others, or the refusal.",
        ),
        Column(
            "phases", _STAMPS, "Phase -> ms since 1970-01-01 UTC, as the controller stamped them."
        ),
        _null("took_ms", _LONG, "From the first to the last phase, ms; null without phases."),
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
        Column("new_epoch", _LONG, "Master epoch that began."),
        *DECIDED,
        Column("cause", _TEXT, "Cause of the election."),
        Column("labels", pa.list_(_TEXT), "Labels of the election."),
        Column("old_epoch", _LONG, "Master epoch that ended."),
        Column("old_master", _LONG, "Its master."),
        Column("new_master", _LONG, "The new master, possibly the same replica."),
        Column(
            "masterless_ms",
            _LONG,
            "Between the clearing of the old master and the election, ms; 0 when one decision "
            "did both.",
        ),
        _null(
            "last_message_ms",
            _LONG,
            "Store time of the last message below the new epoch in the new master's log.",
        ),
        _null(
            "first_acknowledged_ms",
            _LONG,
            "When the new master acknowledged its first message in the new epoch.",
        ),
        _null(
            "unavailable_ms",
            _LONG,
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
            _LONG,
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
        Column("sync_state_set_epoch", _LONG, "Epoch of the SyncStateSet."),
        Column("sync_state_set", _IDS, "Members, ascending; empty when nobody is left."),
        Column("joined", _IDS, "Who was not in the one before."),
        Column("left", _IDS, "Who was in the one before and is no more."),
        Column(
            "reason",
            _TEXT,
            "ELECTED, IMPORTED, PROPOSED, LOSS_PROVEN, WENT_BACK, UNCLEAN_START or CLEANED.",
        ),
        Column("missing", _IDS, "Replicas registered when it began that are not in it."),
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
            _LONG,
            "Time of the day in which the set was in service, ms: from its first master until it "
            "was cleaned, at most up to where history reaches.",
        ),
        Column(
            "masterless_ms",
            _LONG,
            "Of that, time without a master by decision, ms: what is certain at least.",
        ),
        Column(
            "unavailable_ms",
            _LONG,
            "Of that, time without a master or between last and first message of a failover, ms, "
            "each moment once: at most so long, for an idle set counts until its next message.",
        ),
        Column("availability", pa.float64(), "1 - unavailable_ms / observed_ms."),
        Column("longest_gap_ms", _LONG, "Longest stretch unavailable within the day, ms."),
        Column("failovers", _LONG, "Failovers decided on the day."),
        Column(
            "unmeasured",
            _LONG,
            "Of these, those of which the brokers' messages are not known: they count by "
            "masterless time alone.",
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
        Column("kind", _TEXT, "Kind of the command; Unreadable for bytes that are none."),
        _null("broker_name", _TEXT, "Set that it was about."),
        Column("refusal", _TEXT, "Why it was refused."),
        Column("code", _LONG, "RocketMQ response code."),
        Column("cause", _TEXT, "Cause that its issuer gave."),
        _null("issuer", _TEXT, "Controller that appended it; null when unreadable."),
        _null("requested_by", _TEXT, "Who asked that controller."),
        _null("command_term", _LONG, "Term that the issuer believed in; null when unreadable."),
        Column("term", _LONG, "Term in force."),
        Column(
            "changed",
            _FLAG,
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
        Column("term", _LONG, "The term."),
        *SPAN,
        Column("controller_id", _TEXT, "The controller that claimed it."),
        Column("controller_address", _TEXT, "Its address, host:port."),
        Column("release", _TEXT, "Its release."),
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
        Column("broker_id", _LONG, "Controller id of the replica."),
        *SPAN,
        Column(
            "register_check_code",
            _TEXT,
            "What the replica proves its id with; empty after an import that knew none.",
        ),
        Column("address", _TEXT, "Its address when it got the id, host:port."),
        Column("given_by", _TEXT, "ApplyBrokerId or ImportBrokerSet."),
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
        Column("master_epoch", _LONG, "Epoch of the mastership."),
        *DECIDED,
        Column(
            "reason",
            _TEXT,
            "AT_RISK: nobody who could lead was known to hold all that was acknowledged; "
            "UNCLEAN: elected outside the SyncStateSet.",
        ),
        Column("new_master", _LONG, "The master."),
        _null("winner_offset", _LONG, "End of its log by the evidence, bytes; null when unknown."),
        _null(
            "highest_offset",
            _LONG,
            "Highest end of log of any replica by the evidence, bytes; null when none is known.",
        ),
        _null(
            "behind_bytes",
            _LONG,
            "What the master is behind that, bytes: not all of it need have been acknowledged; "
            "what nobody alive has is not in it.",
        ),
        Column(
            "truncated_bytes",
            _LONG,
            "What brokers cut off their logs until the next failover, bytes, each log by itself.",
        ),
    ),
    key=(*_SET_KEY, "master_epoch"),
    checks=(AtLeast("behind_bytes", 0), AtLeast("truncated_bytes", 0), AtLeast("master_epoch", 1)),
    offset_column="offset",
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
)
GOLD_BY_NAME: Mapping[str, GoldTableSpec] = {table.name: table for table in GOLD_TABLES}
