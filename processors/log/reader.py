"""Reading the log in bulk, and asking where it begins and ends.

Responsible for: catch-up before Faust takes over, the newest record of a topic, the end offset, the
start offset for Faust's group, and recognising a log that is not the one this controller knows
(S11).
Refuses to know: what the records decide. Everything here blocks; callers use a thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from events.codec import CodecError, decode
from events.commands import ClusterFormed
from events.producer import LOG_CLIENT_SETTINGS
from events.topics import COMMANDS_TOPIC
from processors.log.health import RESTORE, beginning_lost, too_short

ASK_TIMEOUT_S = 1.0
BATCH_RECORDS = 1_000
SILENCE_MAX_S = 30.0
"""Bulk reading gives up when no record came for this long."""
PARTITION = 0
MEMBER_THERE = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.NON_EMPTY_GROUP,
)
"""Answers to a commit from outside a group that somebody is in."""
FETCH_WAIT_MS = 20
NEW_CLIENT_AFTER_S = 3.0
"""A client that was once told of a cluster without nodes (an overloaded one fences its only node)
forgets every address and says for ever that all are down (librdkafka issue 5301): after this long
another one is made.
"""
LEADER_KNOWN_FOR: Mapping[str, object] = {
    ("topic.metadata.refresh.interval.ms"): 1_000,
    "metadata.max.age.ms": 1_000,
}
"""Without a partition of its own the client keeps a leader in mind for a quarter of an hour, also
one that stands still: no read could be proven current until that one went on.
"""


class LogUnreachable(Exception):
    """Kafka did not answer in time; asking again may help."""


class GroupInUse(LogUnreachable):
    """The group has a member: one of a process that died shortly before, or of one that lives."""


class LogBroken(Exception):
    """The log is not whole, or not the one this controller has folded; the text has the way out."""


class LogReader:
    """One plain consumer without a group. Not thread-safe: one caller at a time."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._kafka = {**LOG_CLIENT_SETTINGS, **LEADER_KNOWN_FOR, **kafka}
        self._consumer = self._consumer_of("regent-reader")
        self._all_down_since_s: float | None = None

    def _consumer_of(self, group: str) -> Consumer:
        return Consumer(
            {
                **self._kafka,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_uncommitted",
                # A new read waits until the fetch of the former one has come back.
                "fetch.wait.max.ms": FETCH_WAIT_MS,
            }
        )

    def bounds(self, topic: str, timeout_s: float = ASK_TIMEOUT_S) -> tuple[int, int]:
        """(first offset kept, offset the next record will get). Raises LogUnreachable."""
        try:
            answer = self._consumer.get_watermark_offsets(
                TopicPartition(topic, PARTITION), timeout=timeout_s, cached=False
            )
        except KafkaException as error:
            self._note_down(error.args[0].code() == KafkaError._ALL_BROKERS_DOWN)
            raise LogUnreachable(f"{topic}: {error.args[0].str()}") from None
        self._note_down(False)
        if answer is None:
            raise LogUnreachable(f"{topic}: no answer within {timeout_s} s")
        return answer

    def _note_down(self, all_down: bool) -> None:
        now_s = time.monotonic()
        since_s = self._all_down_since_s or now_s
        self._all_down_since_s = since_s if all_down else None
        if all_down and now_s - since_s >= NEW_CLIENT_AFTER_S:
            self._consumer.close()
            self._consumer = self._consumer_of("regent-reader")
            self._all_down_since_s = None

    def read(
        self,
        topic: str,
        start: int,
        end: int,
        take: Callable[[int, bytes], None],
        silence_max_s: float = SILENCE_MAX_S,
    ) -> None:
        """Hand every record from `start` up to `end` (excluded) to `take`, in order.

        Raises LogUnreachable after a long silence, LogBroken when an offset is missing.
        """
        if start >= end:
            return
        self._consumer.assign([TopicPartition(topic, PARTITION, start)])
        try:
            expected, heard = start, time.monotonic()
            while expected < end:
                # Never more than there are: the client waits for as many as were asked for.
                asked = min(BATCH_RECORDS, end - expected)
                for message in self._consumer.consume(asked, timeout=ASK_TIMEOUT_S):
                    if not _is_record(topic, message):
                        if _ends_behind(message, expected):
                            raise LogBroken(hole(topic, expected, None))
                        continue
                    heard = time.monotonic()
                    if message.offset() != expected:
                        raise LogBroken(hole(topic, expected, message.offset()))
                    take(expected, message.value() or b"")
                    expected += 1
                    if expected == end:
                        break
                if time.monotonic() - heard > silence_max_s:
                    raise LogUnreachable(f"{topic}: nothing came for {silence_max_s:.0f} s")
        finally:
            self._consumer.unassign()

    def record(self, topic: str, offset: int, silence_max_s: float = SILENCE_MAX_S) -> bytes:
        """The bytes of one record."""
        found: list[bytes] = []
        self.read(topic, offset, offset + 1, lambda _, data: found.append(data), silence_max_s)
        return found[0]

    def commit_start(self, group: str, topic: str, offset: int) -> None:
        """Make `offset` the place where the group `group` (without members) begins. Raises
        LogUnreachable; GroupInUse when it has a member.
        """
        consumer = self._consumer_of(group)
        try:
            consumer.commit(offsets=[TopicPartition(topic, PARTITION, offset)], asynchronous=False)
        except KafkaException as error:
            kind = GroupInUse if error.args[0].code() in MEMBER_THERE else LogUnreachable
            raise kind(f"the start offset of {group}: {error.args[0].str()}") from None
        finally:
            consumer.close()

    def close(self) -> None:
        self._consumer.close()


def _is_record(topic: str, message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() == KafkaError._PARTITION_EOF or error.retriable():
        return False
    if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
        raise LogBroken(f"{topic}: {error.str()}; the log was cut or made anew, restore it")
    raise LogUnreachable(f"{topic}: {error.str()}")


def _ends_behind(message: Message, expected: int) -> bool:
    """Whether the log's end came although the record in front of it did not: at its offset is what
    no reader gets, as the mark behind a stranger's transaction.
    """
    error, offset = message.error(), message.offset()
    ended = error is not None and error.code() == KafkaError._PARTITION_EOF
    return ended and offset is not None and offset > expected


def hole(topic: str, expected: int, got: int | None) -> str:
    """The text for a log that goes on somewhere else than it should."""
    came = "the end" if got is None else got
    return (
        f"{topic} has a hole: offset {expected} was expected, {came} came; restore the topic from "
        "a backup or a replica, nothing can be decided without its whole history"
    )


def check_bounds(first: int, end: int, next_offset: int) -> None:
    """Compare the log's bounds with what this controller has applied. Raises LogBroken."""
    if first > 0:
        raise LogBroken(beginning_lost(first))
    if end < next_offset:
        raise LogBroken(too_short(end, next_offset))


def check_first_record(data: bytes, cluster_id: str, known_id: bytes | None) -> bytes:
    """The command id of record 0, which names this log for ever. Raises LogBroken.

    `known_id`: what was found there when this controller's snapshots were made, if ever.
    """
    try:
        record = decode(data)
    except CodecError as error:
        raise LogBroken(f"record 0 of {COMMANDS_TOPIC} is not a ClusterFormed: {error}") from None
    if not isinstance(record, ClusterFormed):
        raise LogBroken(
            f"record 0 of {COMMANDS_TOPIC} is a {type(record).__name__}, not a ClusterFormed: this "
            "is not a command log of Regent, or its beginning is lost; use another Kafka or "
            "restore it"
        )
    envelope = record.envelope
    if envelope.cluster_id != cluster_id:
        raise LogBroken(
            f"{COMMANDS_TOPIC} belongs to the cluster {envelope.cluster_id!r}, this controller to "
            f"{cluster_id!r}: correct cluster_id or bootstrap.servers"
        )
    if known_id is not None and envelope.command_id != known_id:
        raise LogBroken(
            f"{COMMANDS_TOPIC} was made anew: its record 0 is not the one this controller knows; "
            f"{RESTORE}"
        )
    return envelope.command_id


def newest_published(values: Iterable[bytes]) -> int:
    """The command offset of the newest readable outcome among `values` (newest first); -1 when none
    is.
    """
    from events.outcomes import Outcome

    for data in values:
        try:
            record = decode(data)
        except CodecError:
            continue
        if isinstance(record, Outcome):
            return record.command_offset
    return -1
