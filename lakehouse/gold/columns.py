"""What is in the lists of gold tables, as types, and the columns of `gold/acting_periods` and
`gold/majority_terms`.

Responsible for fields, meanings and units. Refuses to know keys and checks (`gold.specs`).
"""

from __future__ import annotations

import pyarrow as pa

from lakehouse.tables.columns import Column

TEXT, LONG, FLAG = pa.string(), pa.int64(), pa.bool_()
IDS = pa.list_(pa.int64())
STAMPS = pa.map_(pa.string(), pa.int64())


def struct(**fields: pa.DataType) -> pa.DataType:
    """A type of these fields."""
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


REPLICA = struct(
    broker_id=LONG,
    address=TEXT,
    ha_address=TEXT,
    incarnation=TEXT,
    clean=FLAG,
    is_regent=FLAG,
    is_registered=FLAG,
    last_epoch=LONG,
    end_offset=LONG,
)
EVIDENCE = struct(
    broker_id=LONG,
    alive=FLAG,
    reason=TEXT,
    silent_ms=LONG,
    epoch=LONG,
    max_offset=LONG,
    confirm_offset=LONG,
    election_priority=LONG,
    incarnation=TEXT,
)
CANDIDATE = struct(
    broker_id=LONG,
    address=TEXT,
    in_set=FLAG,
    alive=FLAG,
    clean=FLAG,
    epoch=LONG,
    max_offset=LONG,
    election_priority=LONG,
    chosen=FLAG,
    verdict=TEXT,
)
PHASE = struct(phase=TEXT, at_ms=LONG, took_ms=LONG)
TRUNCATION = struct(broker_id=LONG, from_offset=LONG, to_offset=LONG, at_ms=LONG, reason=TEXT)
ROUTE = struct(name_server=TEXT, from_ms=LONG, to_ms=LONG, reason=TEXT)
ESCAPED = struct(
    kind=TEXT,
    to_broker_name=TEXT,
    messages=LONG,
    soft=LONG,
    failed=LONG,
    size_bytes=LONG,
    first_ms=LONG,
    last_ms=LONG,
)
WAITED = struct(reason=TEXT, waiting=LONG, first_ms=LONG, last_ms=LONG)

GIVEN_VOTE = struct(member_id=TEXT, candidate_id=TEXT, at_ms=LONG)
KNOWN_COMMITTED = struct(member_id=TEXT, index=LONG, entry_term=LONG, at_ms=LONG)
ENTRIES_CUT = struct(
    member_id=TEXT, from_index=LONG, to_index=LONG, restarted=FLAG, why=TEXT, at_ms=LONG
)

MAJORITY_COLUMNS = (
    Column("term", LONG, "The term."),
    Column(
        "leader_id",
        TEXT,
        "Id of the member that was elected, by its own word or by that of who follows it; null "
        "when nobody told of one.",
        nullable=True,
    ),
    Column("broker_id", LONG, "Its number; null when it told nothing itself.", nullable=True),
    Column(
        "incarnation", TEXT, "Which start of it; null when it told nothing itself.", nullable=True
    ),
    Column("members", pa.list_(TEXT), "Ids of all members; empty when no leader told."),
    Column(
        "since_ms",
        LONG,
        "When it was elected, ms since 1970-01-01 UTC, by its own clock; where it told nothing, "
        "the first sign of the term.",
    ),
    Column(
        "ready_ms",
        LONG,
        "When it took appends first, ms since 1970-01-01 UTC; null when it never did.",
        nullable=True,
    ),
    Column(
        "until_ms",
        LONG,
        "When it led no more, ms since 1970-01-01 UTC: by its own word, or where it gave none by "
        "the first sign of it; null while it leads.",
        nullable=True,
    ),
    Column(
        "last_word_ms",
        LONG,
        "When it had heard a leader last before it was elected, ms since 1970-01-01 UTC; its own "
        "start where it had heard none.",
        nullable=True,
    ),
    Column("why_begun", TEXT, "Whose time was over and how long nobody was heard, in few words."),
    Column("why_over", TEXT, "In few words; null while it leads.", nullable=True),
    Column("votes", pa.list_(GIVEN_VOTE), "Votes that members gave, by member."),
    Column(
        "crossed",
        pa.list_(KNOWN_COMMITTED),
        "Members that first knew an entry of a later term committed, and which entry.",
    ),
    Column("cuts", pa.list_(ENTRIES_CUT), "Ends of logs that members cut for this leader."),
    Column("entries_cut", LONG, "Entries that were dropped so, each log by itself."),
    Column(
        "phases",
        pa.list_(PHASE),
        "What happened, ascending by time; took_ms: since the step before.",
    ),
)

ACTING_COLUMNS = (
    Column("broker_id", LONG, "The slave that acted."),
    Column("address", TEXT, "Its address, host:port."),
    Column("incarnation", TEXT, "Which start of it."),
    Column("since_ms", LONG, "When it began to act, ms since 1970-01-01 UTC, by its own clock."),
    Column(
        "until_ms",
        LONG,
        "When that was over, ms since 1970-01-01 UTC: by its own word, or where it gave none by "
        "the first sign of it; null while it lasts.",
        nullable=True,
    ),
    Column("why_begun", TEXT, "Who was gone and how that was known, in few words."),
    Column("why_over", TEXT, "In few words; null while it lasts.", nullable=True),
    Column(
        "master_left_ms",
        LONG,
        "When the broker with the smaller id left, ms since 1970-01-01 UTC, by its own word or a "
        "name server's; null when neither told.",
        nullable=True,
    ),
    Column(
        "master_back_ms",
        LONG,
        "When the master was online again, ms since 1970-01-01 UTC; null while it is not.",
        nullable=True,
    ),
    Column(
        "master_fenced",
        FLAG,
        "Whether the master lived all the while, found that it had been dropped and fenced itself.",
    ),
    Column(
        "left_out",
        IDS,
        "Members whose tables the master could not get before it went online again.",
    ),
    Column(
        "phases",
        pa.list_(PHASE),
        "What happened, ascending by time; took_ms: since the step before.",
    ),
    Column("routes", pa.list_(ROUTE), "Name servers that showed clients the slave, from when on."),
    Column(
        "escaped",
        pa.list_(ESCAPED),
        "What left the set, by what it had waited for and where it went; sizes in bytes.",
    ),
    Column("messages", LONG, "Messages that left, in all."),
    Column("soft", LONG, "Of these, those that were not known to be safe there yet."),
    Column("failed", LONG, "Puts that were refused or not answered; each was tried again."),
    Column("size_bytes", LONG, "Bodies and properties of the messages that left, bytes."),
    Column(
        "waits",
        pa.list_(WAITED),
        "Why messages that were due waited, and the most that waited for it at a time.",
    ),
    Column("lock_rounds", LONG, "Rounds of votes on locks of queues that it asked for."),
    Column("queues_lost", LONG, "Locks of queues that the set did not give in them."),
)
