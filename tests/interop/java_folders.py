"""One store folder, two owners: what a Java broker wrote is opened and served by a broker of
Regent and given back, and the reverse.

Responsible for: after an orderly end and after `kill -9`: every acknowledged message at its place,
answers by key, consumer groups that go on where they were, more written, and a folder that the
other kind opens again.
Refuses to know: sets of several replicas.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from brokers.remoting import fastjson
from infra.controllers.admin import ControllerAdmin
from infra.problems import Problem
from tests.interop.both_kinds import CLUSTER, controllers, records
from tests.interop.java_client import (
    PATIENT,
    Consumer,
    Producer,
    ReadBack,
    found_by_key,
    read_back_all,
)
from tests.interop.java_rocketmq import FAST_BROKER_SETTINGS
from tests.interop.java_set import ASK_MS, JavaSet
from tests.interop.ledger import LedgerRow, acknowledged_of, read_received
from tests.interop.program import Replica
from tests.interop.regent_broker import RegentBroker
from tests.interop.stage import Row, Stage

ALONE_JAVA = {
    **FAST_BROKER_SETTINGS,
    "minInSyncReplicas": "1",
    "inSyncReplicas": "1",
    "totalReplicas": "1",
}
ALONE_OURS = {"min_in_sync_replicas": 1}
RATE = 400
SENT_WITHIN_S = 120.0
OFFSETS_WITHIN_S = 30.0
DELAYED_WITHIN_S = 120.0
# so long that a log file of 16 MiB does not hold them: a blank record, a second file
TOPICS: dict[str, dict[str, str]] = {
    "Large": {"body": "65536"},
    "Small": {"body": "100"},
    "Batch": {"body": "100", "batch": "10"},
}
FIRST_ROUND, ROUND, IDLE, FILES_MAX = 300, 60, 12, 4
DELAYED, ONE_MINUTE = 8, "5"
LOG_FILE_NAME = re.compile(r"\d{20}")


def java_to_ours(stage: Stage) -> list[Row]:
    """Written by Java, opened by ours, opened by Java again."""
    return _both_endings(stage, "java-ours", lambda java, own: (java, own))


def ours_to_java(stage: Stage) -> list[Row]:
    """Written by ours, opened by Java, opened by ours again."""
    return _both_endings(stage, "ours-java", lambda java, own: (own, java))


def expired_java_to_ours(stage: Stage) -> list[Row]:
    """As `java_to_ours`, of queues whose messages are all gone when the folder changes hands."""
    return _both_endings(
        stage, "old-java-ours", lambda java, own: (java, own), lambda folder: folder.play_expired()
    )


def expired_ours_to_java(stage: Stage) -> list[Row]:
    """As `ours_to_java`, of queues whose messages are all gone when the folder changes hands."""
    return _both_endings(
        stage, "old-ours-java", lambda java, own: (own, java), lambda folder: folder.play_expired()
    )


def _both_endings(
    stage: Stage,
    name: str,
    order: Callable[[Replica, Replica], tuple[Replica, Replica]],
    play: Callable[[_Folder], list[Row]] = lambda folder: folder.play(),
) -> list[Row]:
    rows = []
    for ending, end in (("stopped", Replica.stop), ("killed", lambda one: one.kill())):
        with ExitStack() as stack:
            set_name = f"folder-{name}-{ending}"
            java, own = _owners(stage, stack, set_name)
            rows += play(_Folder(stage, set_name, order(java, own), ending, end))
    return rows


def _owners(stage: Stage, stack: ExitStack, set_name: str) -> tuple[Replica, Replica]:
    """A Java broker and one of ours that would both be the only replica of the set; none runs."""
    cluster = controllers(stage)
    where, names = cluster.folder.running_cluster()["controllers"], cluster.name_servers
    java = stage.java.broker(
        f"{set_name}-java",
        controllers=where,
        name_servers=names,
        broker_set=set_name,
        cluster=CLUSTER,
        settings=ALONE_JAVA,
        start=False,
    )
    own = RegentBroker(
        stage.java,
        f"{set_name}-ours",
        controllers=where,
        name_servers=names,
        broker_set=set_name,
        cluster=CLUSTER,
        settings=ALONE_OURS,
    )
    stack.callback(java.end)
    stack.callback(own.end)
    return java, own


class _Folder:
    """The folder's life with its two owners in turn. `ledgers`: what was sent, by topic."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        owners: tuple[Replica, Replica],
        ending: str,
        end: Callable[[Replica], object],
    ) -> None:
        cluster = controllers(stage)
        self._stage = stage
        self._name = name
        self._owners = owners
        self._ending = ending
        self._end = end
        self._set = JavaSet(
            stage.java,
            ControllerAdmin(cluster.folder.running_cluster()["controllers"], ASK_MS),
            name,
            cluster.name_servers[0],
            [],
            None,
            cluster,
        )  # type: ignore[arg-type]
        self._ledgers: dict[str, list[LedgerRow]] = {topic: [] for topic in TOPICS}
        self._round = 0

    def play(self) -> list[Row]:
        first, second = self._owners
        self._open(first)
        self._write(FIRST_ROUND)
        delayed = self._send_delayed() if first is self._java else set()
        self._consume(self._last_round("Small"))
        self._hand_over(first, second)
        rows = [*self._checked(second), self._only_log_files(second)]
        self._hand_over(second, first)
        rows += [*self._checked(first), self._only_log_files(first)]
        if delayed:
            rows.append(self._delivered(delayed))
        self._end(first)
        return rows

    def play_expired(self) -> list[Row]:
        """The idle topic's messages go with the oldest files of the log, each time before another
        owner opens it.
        """
        first, second = self._owners
        self._open(first)
        rows = []
        for one, other in ((first, second), (second, first), (first, second)):
            self._send_idle()
            self._send_until_idle_is_old(one)
            self._hand_over(one, other, expire=True)
            self._send_idle()
            rows.append(self._idle_row(other))
        self._end(second)
        return rows

    @property
    def _java(self) -> Replica:
        return next(one for one in self._owners if not isinstance(one, RegentBroker))

    def _kind(self, one: Replica) -> str:
        return "Java" if one is self._java else "ours"

    # -- owners ------------------------------------------------------------------------------------

    def _open(self, one: Replica) -> None:
        self._stage.say(f"{self._name}: {self._kind(one)} opens the folder")
        self._set.brokers[:] = [one]  # type: ignore[list-item]
        one.start(wait=False)
        self._stage.java.wait_until(
            lambda: one.identity() is not None or not one.is_running,
            f"{one.name} has an id",
            SENT_WITHIN_S,
        )
        if not one.is_running:
            raise Problem(f"{one.name} ended at start", " | ".join(one.logs(6)))
        self._set.wait(
            f"{one.name} leads",
            lambda view: view.master_address == one.address and view.in_sync == [one.broker_id],
        )

    def _hand_over(self, one: Replica, other: Replica, *, expire: bool = False) -> None:
        self._stage.say(
            f"{self._name}: {self._kind(one)} is {self._ending}, the folder goes to "
            f"{self._kind(other)}"
        )
        self._end(one)
        if (one.store / "abort").exists() != (self._ending == "killed"):
            raise Problem(f"{one.name} was {self._ending}, its folder says otherwise", "file abort")
        if expire:
            self._expire(one)
        shutil.move(one.store, other.store)
        self._open(other)

    # -- clients -----------------------------------------------------------------------------------

    def _write(self, messages: int) -> None:
        first, self._round = self._round * 1_000, self._round + 1
        made = {
            topic: self._producer(topic, messages, {**options, "first": str(first)})
            for topic, options in TOPICS.items()
        }
        try:
            for topic, producer in made.items():
                producer.wait(
                    lambda rows: len(acknowledged_of(rows)) == messages,
                    f"{messages} messages of {topic} are acknowledged",
                    SENT_WITHIN_S,
                )
                self._ledgers[topic] += producer.stop()
        finally:
            for producer in made.values():
                producer.end()

    def _producer(self, topic: str, messages: int, options: Mapping[str, str]) -> Producer:
        return Producer(
            self._stage,
            self._set.name_servers,
            self._topic(topic),
            settings=PATIENT,
            rate=RATE,
            count=messages,
            options=options,
            name=f"{self._topic(topic)}-{self._round}",
        )

    def _topic(self, topic: str) -> str:
        return f"{topic}-{self._name}"

    def _send_delayed(self) -> set[int]:
        producer = self._producer("Delayed", DELAYED, {"delayLevel": ONE_MINUTE})
        try:
            producer.wait(
                lambda rows: len(acknowledged_of(rows)) == DELAYED,
                "delayed messages are acknowledged",
                SENT_WITHIN_S,
            )
            return acknowledged_of(producer.stop())
        finally:
            producer.end()

    def _last_round(self, topic: str) -> set[int]:
        return {
            one for one in acknowledged_of(self._ledgers[topic]) if one >= (self._round - 1) * 1_000
        }

    def _consume(self, wanted: set[int]) -> set[int]:
        """One consumer group, each time a new process: what it was handed, once its offsets are in
        the folder's file.
        """
        consumer = Consumer(
            self._stage,
            self._set.name_servers,
            self._topic("Small"),
            name=f"{self._topic('Small')}-group-{self._round}",
            group=f"{self._name}-group",
        )
        try:
            self._stage.java.wait_until(
                lambda: wanted <= {row[0] for row in read_received(consumer.received)},
                "the group was handed the last round",
                SENT_WITHIN_S,
            )
            everything = len(acknowledged_of(self._ledgers["Small"]))
            self._stage.java.wait_until(
                lambda: self._consumed() >= everything,
                "the group's offsets are in the folder",
                OFFSETS_WITHIN_S,
            )
            return {row[0] for row in read_received(consumer.received)}
        finally:
            consumer.stop()

    def _consumed(self) -> int:
        """How far the group is by the folder's own file, all queues together."""
        path = self._set.brokers[0].store / "config" / "consumerOffset.json"
        try:
            table = fastjson.loads(path.read_bytes())["offsetTable"]
        except (OSError, ValueError, KeyError):
            return 0
        return sum(table.get(f"{self._topic('Small')}@{self._name}-group", {}).values())

    # -- idle queues -------------------------------------------------------------------------------

    def _send_idle(self) -> None:
        self._ledgers.setdefault("Idle", [])
        self._ledgers["Idle"] += self._sent("Idle", IDLE, {"body": "100"})

    def _send_until_idle_is_old(self, one: Replica) -> None:
        """Until the newest file of the log has none of its messages."""
        for _ in range(FILES_MAX):
            self._sent("Large", FIRST_ROUND, TOPICS["Large"])
            newest = max(self._log_files(one))
            if not any(
                record.topic == self._topic("Idle") for record in records(one, int(newest.name))
            ):
                return
        raise Problem(f"{one.name} begins no other file of its log", str(newest))

    def _expire(self, one: Replica) -> None:
        """As retention does it: the oldest files go, of queues nothing is touched."""
        *old, newest = [path for path in sorted(self._log_files(one)) if _holds_records(path)]
        self._stage.say(
            f"{self._name}: {len(old)} files of the log have expired, {newest.name} stays"
        )
        for path in old:
            path.unlink()

    def _log_files(self, one: Replica) -> list[Path]:
        return [path for path in (one.store / "commitlog").iterdir() if _holds_records(path)]

    def _idle_row(self, one: Replica) -> Row:
        sent = [row for row in self._ledgers["Idle"] if row.outcome == "SEND_OK"]
        places = sorted((row.queue, row.offset) for row in sent)
        counts = Counter(row.queue for row in sent)
        wanted = sorted(
            (queue, offset) for queue, count in counts.items() for offset in range(count)
        )
        what = (
            f"{self._kind(one)} opens what was {self._ending}: offsets of queues whose messages "
            "had expired"
        )
        return Row(
            what,
            f"{len(sent)} messages in {len(counts)} queues, {len(places) - len(set(places))} "
            "offsets given twice",
            places == wanted,
        )

    def _sent(self, topic: str, messages: int, options: Mapping[str, str]) -> list[LedgerRow]:
        first, self._round = self._round * 1_000, self._round + 1
        producer = self._producer(topic, messages, {**options, "first": str(first)})
        try:
            producer.wait(
                lambda rows: len(acknowledged_of(rows)) == messages,
                f"{messages} messages of {topic} are acknowledged",
                SENT_WITHIN_S,
            )
            return producer.stop()
        finally:
            producer.end()

    # -- what is judged ----------------------------------------------------------------------------

    def _checked(self, one: Replica) -> list[Row]:
        kind = self._kind(one)
        found = self._read_all("before")
        keys = self._answers_by_key(one)
        self._write(ROUND)
        last = self._last_round("Small")
        handed = self._consume(last)
        again = self._read_all("after")
        rows = [
            self._read_row(f"{kind} opens what was {self._ending}: acknowledged lost", found),
            keys,
        ]
        rows.append(
            Row(
                f"{kind}: the group goes on where it was",
                f"{len(handed)} handed out, {len(last)} new",
                handed == last,
            )
        )
        return [
            *rows,
            self._read_row(f"{kind}, more written: acknowledged lost", again),
            self._files(one),
        ]

    def _read_all(self, when: str) -> dict[str, ReadBack]:
        ledgers = {self._topic(topic): rows for topic, rows in self._ledgers.items()}
        found = read_back_all(
            self._stage, self._set.name_servers, ledgers, name=f"{self._name}-{when}-{self._round}"
        )
        return {topic: found[self._topic(topic)] for topic in self._ledgers}

    @staticmethod
    def _read_row(what: str, found: dict[str, ReadBack]) -> Row:
        return Row(
            what,
            "; ".join(f"{topic} {one}" for topic, one in found.items()),
            all(one.ok for one in found.values()),
        )

    def _answers_by_key(self, one: Replica) -> Row:
        """First, middle and last message of the topic with the large ones, by key.

        A killed folder's index file is removed by Java when it opens (its header is newer than the
        checkpoint's index time, whoever wrote it), and made again from the log file on where its
        recovery begins: what lies before is not found.
        """
        good = sorted(
            {
                row.sequence: row for row in self._ledgers["Large"] if row.outcome == "SEND_OK"
            }.items()
        )
        asked = [row for _, row in (good[0], good[len(good) // 2], good[-1])]
        found = found_by_key(
            self._stage,
            self._set.name_servers,
            self._topic("Large"),
            [row.sequence for row in asked],
        )
        missing = [row for row in asked if (row.sequence, row.queue, row.offset) not in found]
        text = f"{len(asked) - len(missing)} of {len(asked)}"
        if one is not self._java or self._ending == "stopped":
            return Row(f"{self._kind(one)}: found by key", text, not missing)
        newest = self._in_newest_file(one)
        return Row(
            "Java: found by key",
            f"{text}; it forgets those before its log's last file",
            not [row for row in missing if (row.queue, row.offset) in newest],
        )

    def _in_newest_file(self, one: Replica) -> set[tuple[int, int]]:
        start = max(
            int(path.name) for path in (one.store / "commitlog").iterdir() if _holds_records(path)
        )
        return {
            (record.queue_id, record.queue_offset)
            for record in records(one, start)
            if record.topic == self._topic("Large")
        }

    def _files(self, one: Replica) -> Row:
        files = sorted(path.name for path in (one.store / "commitlog").iterdir())
        return Row(
            "the log",
            f"{len(files)} files, {len(records(one))} messages, epochs {one.epochs()}",
            len(files) > 1,
        )

    def _only_log_files(self, one: Replica) -> Row:
        """Java ends at start on a file whose name is no number."""
        roots = [one.store / "commitlog", one.store / "consumequeue"]
        strange = [
            str(path.relative_to(one.store))
            for root in roots
            for path in _files_of(root)
            if not LOG_FILE_NAME.fullmatch(path.name)
        ]
        return Row(
            "nothing but log files in commitlog and consumequeue",
            ", ".join(strange) or "none",
            not strange,
        )

    def _delivered(self, wanted: set[int]) -> Row:
        """Delayed messages that Java took, and that lay in the folder while ours served it."""
        consumer = Consumer(
            self._stage,
            self._set.name_servers,
            self._topic("Delayed"),
            name=f"{self._topic('Delayed')}-read",
        )
        try:
            self._stage.java.wait_until(
                lambda: wanted <= {row[0] for row in read_received(consumer.received)},
                "delayed messages are delivered",
                DELAYED_WITHIN_S,
            )
        finally:
            consumer.stop()
        return Row(
            "delayed messages taken by Java, delivered when it is back",
            f"{len(wanted)} of {len(wanted)}",
        )


def _holds_records(path: Path) -> bool:
    """Whether a log file holds anything yet."""
    with path.open("rb") as file:
        return any(file.read(4))


def _files_of(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]
