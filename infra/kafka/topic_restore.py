"""Landed records back into a fresh topic, byte for byte, each at the offset it had.

Refuses to know what the records mean and where they come from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from events.producer import LOG_CLIENT_SETTINGS, PRODUCER_SETTINGS
from events.topics import (
    COMMANDS,
    FLUSH_SETTING,
    OUTCOMES,
    PRODUCTION_IN_SYNC_MIN,
    PRODUCTION_REPLICATION_MIN,
)
from infra import waiting
from infra.problems import EXIT_USAGE, Problem
from processors.log.reader import LogBroken, LogReader, LogUnreachable
from processors.log.topics import TopicsUnfit, settings_of, unfit

ASK_TIMEOUT_S = 10.0
CREATE_TIMEOUT_S = 20.0
FLUSH_TIMEOUT_S = 60.0
POLL_S = 0.05
POLL_EVERY = 500
PARTITION = 0

Progress = Callable[[int], None]


class Record(Protocol):
    """What is written."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class FreshTopic:
    """A topic like `regent.commands` that holds nothing yet."""

    def __init__(self, kafka: Mapping[str, str], name: str, accept_unflushed: bool = False) -> None:
        self._kafka: dict[str, Any] = {**LOG_CLIENT_SETTINGS, **kafka}
        self.name = name
        self._spec = OUTCOMES if name == OUTCOMES.name else replace(COMMANDS, name=name)
        self._accept_unflushed = accept_unflushed
        try:
            self._admin = AdminClient(self._kafka)
        except KafkaException as error:
            raise Problem(
                f"Kafka's client does not take these settings: {error.args[0].str()}",
                "Correct --kafka.",
                EXIT_USAGE,
            ) from error
        self._refused: str | None = None

    def require_fresh(self) -> bool:
        """Whether the topic is there already, empty and fit. Problem when it is not empty, not fit,
        or Kafka does not answer.
        """
        metadata = self._metadata()
        if self.name not in metadata.topics:
            return False
        first, end = self._bounds()
        if (first, end) != (0, 0):
            raise Problem(
                f"topic {self.name} is not fresh: its offsets run from {first} to {end}",
                "A history is restored into an empty topic only; delete it (kafka-topics.sh "
                f"--delete --topic {self.name}), or name another with --topic.",
            )
        local = len(metadata.brokers) < PRODUCTION_REPLICATION_MIN
        try:
            settings = settings_of(self._admin, [self.name])[self.name]
        except TopicsUnfit as error:
            raise Problem(str(error), "Try again.") from error
        wrong = unfit(
            self._spec, metadata.topics[self.name], settings, local, self._accept_unflushed
        )
        if wrong:
            raise Problem(
                f"topic {self.name}: {'; '.join(wrong)}",
                "Delete it; it is then created as it must be.",
            )
        return True

    def _metadata(self) -> ClusterMetadata:
        try:
            with waiting.told(
                f"waiting for Kafka at {self._kafka['bootstrap.servers']}, {ASK_TIMEOUT_S:g} s "
                "at most"
            ):
                found: ClusterMetadata = self._admin.list_topics(timeout=ASK_TIMEOUT_S)
        except KafkaException as error:
            raise Problem(
                f"Kafka at {self._kafka['bootstrap.servers']} is not reachable: "
                f"{error.args[0].str()}",
                "Start it (of a local cluster: 'regent kafka --config DIR/config/kafka-1.toml'), "
                "or correct --kafka.",
            ) from error
        return found

    def _bounds(self) -> tuple[int, int]:
        reader = LogReader(self._kafka)
        try:
            return reader.bounds(self.name, ASK_TIMEOUT_S)
        except LogUnreachable as error:
            raise Problem(f"Kafka does not say what is in {error}", "Try again.") from error
        finally:
            reader.close()

    def read_whole(self, take: Callable[[int, bytes], None]) -> int:
        """Everything in a topic that stays as it is; gives its end. Problem when it holds no
        history from offset 0 on.
        """
        first, end = self._bounds() if self.name in self._metadata().topics else (0, 0)
        if first > 0 or end == 0:
            raise Problem(
                f"topic {self.name} holds no whole history: its offsets run from {first} to {end}",
                "Restore it with --from-delta.",
            )
        reader = LogReader(self._kafka)
        try:
            reader.read(self.name, 0, end, take)
        except (LogBroken, LogUnreachable) as error:
            raise Problem(
                f"{self.name} cannot be read: {error}", "Nothing was written. Try again."
            ) from error
        finally:
            reader.close()
        return end

    def create(self) -> None:
        """Create it with what safety needs of it, if it is not there."""
        if self.require_fresh():
            return
        nodes = len(self._admin.list_topics(timeout=ASK_TIMEOUT_S).brokers)
        copies = PRODUCTION_REPLICATION_MIN if nodes >= PRODUCTION_REPLICATION_MIN else 1
        in_sync = PRODUCTION_IN_SYNC_MIN if copies > 1 else 1
        kept = {
            name: value
            for name, value in self._spec.created.items()
            if name != FLUSH_SETTING or not self._accept_unflushed
        }
        asked = NewTopic(self.name, 1, copies, config={**kept, "min.insync.replicas": str(in_sync)})
        try:
            self._admin.create_topics([asked], request_timeout=CREATE_TIMEOUT_S)[self.name].result(
                CREATE_TIMEOUT_S
            )
        except KafkaException as error:
            raise Problem(
                f"topic {self.name} cannot be created: {error.args[0].str()}",
                "Look into Kafka's log.",
            ) from error
        deadline = time.monotonic() + CREATE_TIMEOUT_S
        while self.name not in self._admin.list_topics(timeout=ASK_TIMEOUT_S).topics:
            if time.monotonic() > deadline:
                raise Problem(
                    f"topic {self.name} was created, but Kafka does not show it",
                    "Look into Kafka's log.",
                )
            time.sleep(POLL_S)

    def write(
        self,
        records: Iterable[Record],
        progress: Progress,
        way_out: str = ("Delete the topic and run this again."),
    ) -> int:
        """Append all of them; gives how many. Problem when one does not get the offset it has, with
        `way_out`.
        """
        producer = Producer(
            {**PRODUCER_SETTINGS, ("delivery.timeout.ms"): 60_000, "linger.ms": 5, **self._kafka}
        )
        written = 0
        for record in records:
            self._append(producer, record)
            written += 1
            if written % POLL_EVERY == 0:
                producer.poll(0)
                progress(written)
            if self._refused is not None:
                break
        if producer.flush(FLUSH_TIMEOUT_S) and self._refused is None:
            self._refused = "records were not acknowledged in time"
        if self._refused is not None:
            raise Problem(f"{self.name} is not written: {self._refused}", way_out)
        return written

    def _append(self, producer: Producer, record: Record) -> None:
        stamp: dict[str, Any] = (
            {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        )
        while True:
            try:
                producer.produce(
                    self.name,
                    value=record.value,
                    key=record.key,
                    partition=PARTITION,
                    on_delivery=lambda error, message: self._delivered(
                        record.offset, error, message
                    ),
                    **stamp,
                )
                return
            except BufferError:
                producer.poll(POLL_S)

    def _delivered(self, wanted: int, error: KafkaError | None, message: Message) -> None:
        if self._refused is not None:
            return
        if error is not None:
            self._refused = f"the record of offset {wanted} was not taken: {error.str()}"
        elif message.offset() != wanted:
            self._refused = (
                f"the record of offset {wanted} got offset {message.offset()}: somebody else "
                "writes there"
            )

    def read(self, take: Callable[[int, bytes], None], end: int) -> None:
        """Everything that was written, from offset 0 up to `end`. Problem when less is there."""
        reader = LogReader(self._kafka)
        try:
            if reader.bounds(self.name, ASK_TIMEOUT_S) != (0, end):
                raise Problem(
                    f"{self.name} does not hold the {end} records that were written",
                    "Delete it and run this again.",
                )
            reader.read(self.name, 0, end, take)
        except LogUnreachable as error:
            raise Problem(
                f"reading back failed: {error}", "Delete the topic and run this again."
            ) from error
        finally:
            reader.close()
