"""A landing job under test on a real Kafka: what is produced, starts of the job, and whether the
tables are the log.

Refuses to know: which blow hits whom.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from events.broker_events import BrokerEventHeader, HaLinkUp, RoleChanged
from events.codec import encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC, TOPICS
from infra.jars import store
from infra.kafka.server import create_topics
from lakehouse.landing.log_probe import log_ends
from lakehouse.landing.silver_rows import LogRecord, silver_rows
from lakehouse.landing.status import LandingStatus, read_status, wait_for_landed
from lakehouse.tables import delta
from lakehouse.tables.lake import lake_at
from lakehouse.tables.specs import BRONZE, BY_NAME, TABLES
from tests.support.control_history import CLUSTER_ID, NAME, History, seen, with_master
from tests.support.landed_log import outcome_records
from tests.support.landing_points import DIED_AT

# No healthy run needs as long: the job gives way to everything else that runs, and starts Spark.
WAIT_S = 600
POLL_S = 0.02
CARE_EVERY_S = 10
"""Often, so that tables are merged while Spark appends to them."""
GARBAGE = b"not a record"
TOPIC_NAMES = tuple(spec.name for spec in TOPICS)


def make_topics(bootstrap: str) -> None:
    """The three topics as the product makes them."""
    create_topics(
        bootstrap, [NewTopic(t.name, t.partitions, 1, config=dict(t.created)) for t in TOPICS]
    )


def long_history(alterations: int) -> History:
    """A set whose slave leaves and comes back again and again."""
    history = with_master(1, 2, 3)
    for i in range(alterations):
        members = (1, 2) if i % 2 == 0 else (1, 2, 3)
        assert history.alter(members, seen(1), seen(2), seen(3)).accepted
    history.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    history.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)
    history.append(GARBAGE)
    return history


def event(number: int) -> bytes:
    """One broker event; two kinds take turns."""
    header = BrokerEventHeader(number.to_bytes(16, "big"), "c", NAME, 1, "i1", number, number)
    if number % 2:
        return encode(HaLinkUp(header, 2, "out"))
    return encode(RoleChanged(header, "SLAVE", 1, 1, "notified"))


class Load:
    """Produces commands, their outcomes and broker events, one of each in turn, up to a number that
    only grows.
    """

    def __init__(self, bootstrap: str, history: History, pause_s: float = 0.04) -> None:
        self.commands = history.records
        self.outcomes = [value for *_, value in outcome_records(history.records)]
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                ("enable.idempotence"): True,
                "log_level": 0,
            }
        )
        self._pause_s, self._up_to, self._done = pause_s, 0, 0
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def allow(self, up_to: int) -> None:
        """Go on until so many of each have been produced; returns at once."""
        with self._changed:
            self._up_to = max(self._up_to, min(up_to, len(self.commands)))
            self._changed.notify_all()

    def more(self, count: int) -> None:
        """The same, for so many more than until now."""
        self.allow(self._up_to + count)

    def feed(self, job: Job, count: int) -> None:
        """So many more if the job has landed all that was to come: how many batches it makes of a
        log goes with how busy the machine is.
        """
        status = job.status
        if status is not None and status.landed.get(f"{COMMANDS_TOPIC}-0", 0) >= self._up_to:
            self.more(count)

    def wait_fed(self, up_to: int) -> None:
        """Return when the log has so many of each, or all there are."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._done >= min(up_to, len(self.commands)) or self._ended
            )

    def all_of_it(self) -> None:
        """What is left, at once; returns when the log has it."""
        self._pause_s = 0
        self.allow(len(self.commands))
        self.wait_fed(len(self.commands))

    def _run(self) -> None:
        self._producer.produce(OUTCOMES_TOPIC, GARBAGE)
        self._producer.produce(BROKER_EVENTS_TOPIC, GARBAGE, partition=3)
        for i, (command, outcome) in enumerate(zip(self.commands, self.outcomes, strict=True)):
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._up_to > i)
                if self._ended:
                    break
            self._producer.produce(COMMANDS_TOPIC, command)
            self._producer.produce(OUTCOMES_TOPIC, outcome)
            self._producer.produce(BROKER_EVENTS_TOPIC, event(i), partition=i % 4)
            if self._pause_s or i + 1 >= self._up_to:
                self._producer.flush()
                with self._changed:
                    self._done = i + 1
                    self._changed.notify_all()
            time.sleep(self._pause_s)


class Job:
    """One start of `regent land`.

    `dies_at`: point, table and number of the append, see `landing_points`; `care_every_s`: as the
    product has it unless given; `gold_every_s`: 0 leaves gold to others; `more`: other flags.
    """

    def __init__(
        self,
        base: Path,
        bootstrap: str,
        name: str,
        dies_at: tuple[str, str, int] | None = None,
        tables: Path | None = None,
        care_every_s: int | None = None,
        gold_every_s: int = 1,
        more: Sequence[str] = (),
    ) -> None:
        self.tables, self.folder = tables or base / "tables", base / "land"
        self.log, self._note = base / f"{name}.log", base / DIED_AT
        self._note.unlink(missing_ok=True)
        armed = [] if dies_at is None else [*map(str, dies_at), str(base)]
        command = [
            sys.executable,
            "-m",
            "tests.support.landing_points" if armed else "infra",
            *armed,
            "land",
            "--kafka",
            f"bootstrap.servers={bootstrap}",
            "--tables",
            str(self.tables),
            "--checkpoint-dir",
            str(self.folder / "checkpoints"),
            "--work-dir",
            str(self.folder),
            "--jars-dir",
            str(store.check("spark")),
            "--gold-every-s",
            str(gold_every_s),
            *([] if care_every_s is None else ["--maintain-every-s", str(care_every_s)]),
            *more,
        ]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    @property
    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    @property
    def status(self) -> LandingStatus | None:
        """The status of this very start, if it has one."""
        status = read_status(self.folder)
        return status if status is not None and status.pid == self.process.pid else None

    def wait_until(
        self, done: Callable[[LandingStatus], bool], limit_s: float = WAIT_S
    ) -> LandingStatus:
        """Wait for such a status of this very start."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.said
            status = self.status
            if status is not None and done(status):
                return status
            time.sleep(POLL_S)
        raise AssertionError(f"not within {limit_s} s: {self.said}")

    def wait_dead_at(self, point: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until it has died at its point; until then `meanwhile` is called again and again."""
        deadline = time.monotonic() + WAIT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"not dead within {WAIT_S} s: {self.said}"
            meanwhile()
            time.sleep(POLL_S)
        assert self._note.exists() and self._note.read_text() == point, self.said

    def java_pid(self) -> int:
        """Of its Spark, once that runs."""
        found: list[int] = []

        def runs(_: LandingStatus) -> bool:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{self.process.pid}/task").iterdir():
                    for pid in map(int, (task / "children").read_text().split()):
                        found.extend(
                            [pid]
                            if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
                            else []
                        )
            return bool(found)

        self.wait_until(runs)
        return found[-1]

    def end(self, number: int) -> int:
        """Send a signal and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(WAIT_S)

    def finish(self, bootstrap: str) -> None:
        """Let it land all that the log holds, and stop it in order."""
        wait_for_landed(self.folder, ends_of(bootstrap), WAIT_S * 1000)
        self.wait_until(lambda s: s.ready)
        assert self.end(signal.SIGTERM) == 0, self.said


def ends_of(bootstrap: str) -> dict[str, int]:
    """Where each partition of the log ends now, by `topic-partition`."""
    found = log_ends({"bootstrap.servers": bootstrap}, TOPIC_NAMES)
    return {f"{topic}-{number}": ends.end for (topic, number), ends in found.items()}


def whole_log(bootstrap: str) -> list[LogRecord]:
    """Every record that Kafka holds, by topic, partition and offset; keys are never set here."""
    return sorted(_records(bootstrap), key=lambda one: (one.topic, one.partition, one.offset))


def _records(bootstrap: str) -> Iterator[LogRecord]:
    ends = log_ends({"bootstrap.servers": bootstrap}, TOPIC_NAMES)
    left = sum(one.end - one.first for one in ends.values())
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "regent-test", ("enable.auto.commit"): False}
    )
    try:
        consumer.assign(
            [TopicPartition(topic, number, one.first) for (topic, number), one in ends.items()]
        )
        until = time.monotonic() + WAIT_S
        while left and time.monotonic() < until:
            for one in consumer.consume(10_000, 0.5):
                assert one.error() is None, one.error()
                yield LogRecord(
                    CLUSTER_ID, one.topic(), one.partition(), one.offset(), None, one.value()
                )  # type: ignore[arg-type]
                left -= 1
        assert not left, f"{left} records of the log did not come"
    finally:
        consumer.close()


def differences(tables: Path, log: Sequence[LogRecord]) -> list[str]:
    """How bronze and every silver table differ from what this log makes; empty when each row is
    there exactly once.
    """
    lake = lake_at(tables, CLUSTER_ID)
    bronze = delta.read(lake, BRONZE, columns=["topic", "partition", "offset", "value"]).to_pylist()
    landed = Counter(
        (row["topic"], row["partition"], row["offset"], row["value"]) for row in bronze
    )
    found = _told(
        BRONZE.name,
        Counter((one.topic, one.partition, one.offset, one.value) for one in log),
        landed,
    )
    wanted: dict[str, Counter[tuple[object, ...]]] = {
        table.name: Counter() for table in TABLES if table != BRONZE
    }
    for one in log:
        for name, _ in silver_rows(one):
            wanted[name][_position(one.topic, one.partition, one.offset, name)] += 1
    for name, rows in wanted.items():
        columns = [
            *(["topic"] if BY_NAME[name].topic is None else []),
            "log_partition",
            "log_offset",
        ]
        silver = delta.read(lake, BY_NAME[name], columns=columns)
        found += _told(
            name,
            rows,
            Counter(zip(*(silver[column].to_pylist() for column in columns), strict=True)),
        )
    return found


def _position(topic: str, partition: int, offset: int, table: str) -> tuple[object, ...]:
    return (topic, partition, offset) if BY_NAME[table].topic is None else (partition, offset)


def _told(
    name: str, wanted: Counter[tuple[object, ...]], landed: Counter[tuple[object, ...]]
) -> list[str]:
    missing, added = wanted - landed, landed - wanted
    told = (
        [f"{name} lacks {sum(missing.values())} rows, first {min(missing)[:3]}"] if missing else []
    )
    return [
        *told,
        *(
            [f"{name} has {sum(added.values())} rows too many, first {min(added)[:3]}"]
            if added
            else []
        ),
    ]
