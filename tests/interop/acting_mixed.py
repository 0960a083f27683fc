"""Sets whose slaves act for the master, of brokers of both kinds, beside another set that takes
what is due meanwhile, under stock Java clients with default settings: the master is killed, and
frozen, while delayed, timed and half messages wait, and comes back.

Responsible for: who is of which kind, the faults, what becomes of each message, how long each step
takes; the same with a whole Java set beside a whole set of ours. Refuses to know: how a broker
acts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from brokers.remoting.codes import RequestCode
from infra.problems import Problem
from tests.interop.acting_sets import SETTINGS as JAVAS
from tests.interop.acting_sets import body_of, lacking
from tests.interop.java_client import Consumer, Producer
from tests.interop.ledger import LedgerRow, acknowledged_of, whole_lines
from tests.interop.program import Program, Replica
from tests.interop.regent_broker import RegentBroker
from tests.interop.regent_name_server import RegentNameServer
from tests.interop.stage import Row, Stage
from tests.interop.transactions import is_committed

OURS, JAVA = "ours", "Java"
CLUSTER = "DefaultCluster"
READ, READ_WRITE = 4, 6
OF_NAME_SERVER = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}
ASKED_AFTER_MS, ASKED_EVERY_MS = 6_000, 10_000
OF_OURS: dict[str, Any] = {
    "all_ack": False,
    "in_sync_replicas": 2,
    "min_in_sync_replicas": 1,
    "slave_read_enable": True,
    "enable_slave_acting_master": True,
    "enable_remote_escape": True,
    "transaction_timeout_ms": ASKED_AFTER_MS,
    "transaction_check_interval_ms": ASKED_EVERY_MS,
}
OF_JAVA = {
    **JAVAS,
    "inSyncReplicas": "2",
    "transactionTimeOut": str(ASKED_AFTER_MS),
    "transactionCheckInterval": str(ASKED_EVERY_MS),
}
WHOLE_WITHIN_S, ACTS_WITHIN_S, RETURNS_WITHIN_S = 300.0, 60.0, 180.0
COPIED_WITHIN_S, COMES_WITHIN_S = 120.0, 150.0
# The fourth level, and the same by time: due when a slave acts, also for one that froze.
DELAY_MS, LEVEL = 30_000, "4"
MESSAGES, RATE_PER_S = 60, 30
SETTLE_S = 15.0
"""Behind a return: what is delivered once more comes by then."""
# A master of RocketMQ's writes down every 3 s which transactions were ended.
JAVA_WRITES_S = 5.0
# A slave of RocketMQ's copies topics every minute, places too.
JAVA_COPIES_S = 62.0


@dataclass(frozen=True, slots=True)
class Cast:
    """`brokers`: the kind of each id of the set; `elsewhere`: of the other set's master."""

    name: str
    brokers: tuple[str, ...]
    elsewhere: str
    name_servers: tuple[str, ...] = (OURS,)

    @property
    def has_java_slaves(self) -> bool:
        return JAVA in self.brokers[1:]

    def delivers_once(self, what: str) -> bool:
        """Whether nothing may come twice. A Java slave delivers until its master is named again; a
        Java master that was taken for dead knows nothing of it, and delivers what its slave did.
        """
        java_master = self.brokers[0] == JAVA
        return not self.has_java_slaves and not (java_master and what == "frozen")


JAVA_MASTER = Cast("acting-jm", (JAVA, OURS, OURS), OURS)
JAVA_SLAVES = Cast("acting-js", (OURS, JAVA, JAVA), JAVA)
AT_JAVAS = Cast("acting-jn", (OURS, OURS, OURS), OURS, (JAVA, OURS))
ALL_OURS = Cast("acting-oo", (OURS, OURS), OURS)
ALL_JAVA = Cast("acting-jj", (JAVA, JAVA), JAVA, (JAVA,))


@dataclass(slots=True)
class Sets:
    """A cast on the stage, whole when it is made."""

    stage: Stage
    stack: ExitStack
    cast: Cast
    name_servers: list[str] = field(default_factory=list)
    brokers: list[Replica] = field(default_factory=list)

    def __post_init__(self) -> None:
        cast = self.cast
        for number, kind in enumerate(cast.name_servers):
            server = self._name_server(kind, f"{cast.name}-names-{number}")
            self._started(server)
            self.name_servers.append(server.address)
        self._started(self._broker(cast.elsewhere, f"{cast.name}-b", 0, 1))
        for broker_id, kind in enumerate(cast.brokers):
            broker = self._broker(kind, cast.name, broker_id, len(cast.brokers))
            self.brokers.append(self._started(broker))
            if broker_id == 0:
                self.wait(self._both_lead, "both masters lead", WHOLE_WITHIN_S)
                for topic in self.topics:
                    self._make(topic)
        self.wait(self.is_whole, f"set {cast.name} is whole", WHOLE_WITHIN_S)

    def _name_server(self, kind: str, name: str) -> Program:
        if kind == OURS:
            return RegentNameServer(self.stage.java, name, OF_NAME_SERVER)
        return self.stage.java.name_server(name, OF_NAME_SERVER, start=False)

    def _broker(self, kind: str, set_name: str, broker_id: int, replicas: int) -> Replica:
        common: dict[str, Any] = {
            "controllers": [],
            "name_servers": self.name_servers,
            "broker_set": set_name,
            "cluster": CLUSTER,
        }
        name, needed = f"{set_name}-{kind.lower()}-{broker_id}", min(2, replicas)
        if kind == OURS:
            own = {"broker_id": broker_id, "total_replicas": replicas, "in_sync_replicas": needed}
            return RegentBroker(self.stage.java, name, settings={**OF_OURS, **own}, **common)
        role = "SLAVE" if broker_id else "SYNC_MASTER"
        settings = {
            **OF_JAVA,
            "brokerId": str(broker_id),
            "brokerRole": role,
            "totalReplicas": str(replicas),
            "inSyncReplicas": str(needed),
        }
        self.stage.configured(f"Java broker of an acting set: {settings}")
        return self.stage.java.broker(name, settings=settings, start=False, **common)

    def _started(self, one: Any) -> Any:
        self.stack.callback(one.end)
        one.start(wait=False)  # what follows waits for more than that it listens
        return one

    def _both_lead(self) -> bool:
        """At every name server, so that a topic is made on both."""
        return all(self._masters(one) == 2 for one in self.name_servers)

    def _masters(self, name_server: str) -> int:
        ext = {"topic": "TBW102", "acceptStandardJsonOnly": "true"}
        body = body_of(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext) or {}
        return sum("0" in one["brokerAddrs"] for one in body.get("brokerDatas", ()))

    def _make(self, topic: str) -> None:
        words = ("-n", self.name_servers[0], "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4")
        done = self.stage.java.mqadmin("updateTopic", *words)
        if "success" not in done.text:
            raise Problem(f"topic {topic} was not made", done.text[-300:])

    # -- what is seen ------------------------------------------------------------------------------

    @property
    def master(self) -> Replica:
        return self.brokers[0]

    @property
    def topics(self) -> tuple[str, str, str]:
        """Of messages with a level, with a time, of transactions."""
        name = self.cast.name
        return f"{name}-level", f"{name}-time", f"{name}-half"

    @property
    def clients(self) -> str:
        return ";".join(self.name_servers)

    def wait(self, condition: Callable[[], bool], what: str, limit_s: float = 90.0) -> float:
        return self.stage.java.wait_until(condition, what, limit_s)

    def leads(self, topic: str, name_server: str = "") -> tuple[str | None, int]:
        """(who stands as the set's master in the route of a topic, what is allowed there)."""
        ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
        at = name_server or self.name_servers[0]
        body = body_of(at, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext) or {}
        name = self.cast.name
        data = [one for one in body.get("brokerDatas", ()) if one["brokerName"] == name]
        queues = [one for one in body.get("queueDatas", ()) if one["brokerName"] == name]
        if not data or not queues:
            return None, 0
        return data[0]["brokerAddrs"].get("0"), queues[0]["perm"]

    def everywhere(self, broker: Replica, perm: int) -> bool:
        topic = self.topics[0]
        return all(self.leads(topic, one) == (broker.address, perm) for one in self.name_servers)

    def lacking(self) -> list[int]:
        """What each slave lacks, in bytes, by the master's word."""
        return lacking(self.master.address)

    def is_whole(self) -> bool:
        slaves = len(self.brokers) - 1
        return self.everywhere(self.master, READ_WRITE) and len(self.lacking()) == slaves


# -- what is under way -----------------------------------------------------------------------------


@dataclass(slots=True)
class Batch:
    """Messages of one kind that wait while the master is away."""

    what: str
    producer: Producer
    consumer: Consumer
    waits_ms: int

    @property
    def rows(self) -> list[LedgerRow]:
        return self.producer.rows()

    @property
    def wanted(self) -> set[int]:
        good = acknowledged_of(self.rows)
        return {one for one in good if is_committed(one)} if not self.waits_ms else good

    def came(self) -> dict[int, dict[tuple[int, int], int]]:
        """Number -> its copies, by queue and offset: when each was handed out first, ms of the wall
        clock. A client that takes a queue up again may hand out a copy more than once.
        """
        found: dict[int, dict[tuple[int, int], int]] = {}
        for line in whole_lines(self.consumer.received):
            number, queue, offset, at_ms = map(int, line.split(","))
            found.setdefault(number, {}).setdefault((queue, offset), at_ms)
        return found

    def is_there(self) -> bool:
        return self.wanted <= self.came().keys()

    def late_ms(self) -> list[int]:
        """Behind their time, of those that were handed out."""
        came = self.came()
        return [
            min(came[row.sequence].values()) - row.end_ms - self.waits_ms
            for row in self.rows
            if row.outcome == "SEND_OK" and row.sequence in came
        ]

    def early(self) -> list[int]:
        begun: dict[int, int] = {}
        for row in self.rows:
            begun[row.sequence] = min(row.start_ms, begun.get(row.sequence, row.start_ms))
        return [
            number
            for number, copies in self.came().items()
            if number in begun and min(copies.values()) < begun[number] + self.waits_ms
        ]

    def wrong(self) -> list[int]:
        """Visible, and rolled back."""
        return [] if self.waits_ms else [one for one in self.came() if not is_committed(one)]

    def judged(self, when: str, *, once: bool) -> Row:
        """`once`: nothing may come twice."""
        wanted, came, calls = self.wanted, self.came(), Counter(row.sequence for row in self.rows)
        lost = wanted - came.keys()
        # Whose first call had no answer may be stored twice.
        twice = sum(len(came[one]) > 1 for one in wanted & came.keys() if calls[one] == 1)
        said = (
            f"{len(lost)} of {len(wanted)} lost, {len(self.early())} early, {twice} twice"
            f"{f', {len(self.wrong())} rolled back and visible' if not self.waits_ms else ''}"
        )
        bad = bool(lost) or not wanted or bool(self.early()) or bool(self.wrong())
        return Row(f"{when}: {self.what}", said, not bad and not (once and twice))


def _sent(sets: Sets, stack: ExitStack, round_name: str) -> list[Batch]:
    """One batch of each kind, all acknowledged when this returns."""
    asked = sets.stage.work / "clients" / f"{sets.cast.name}-{round_name}-asked.csv"
    kinds: tuple[tuple[str, int, dict[str, str]], ...] = (
        ("of a delay level", DELAY_MS, {"delayLevel": LEVEL}),
        ("of a time", DELAY_MS, {"delayMs": str(DELAY_MS)}),
        ("of transactions", 0, {"mode": "transact", "asked": str(asked)}),
    )
    found = []
    for topic, (what, waits_ms, options) in zip(sets.topics, kinds, strict=True):
        name = f"{topic}-{round_name}"
        first = {"first": "1000"} if round_name == "frozen" else {}
        consumer = Consumer(sets.stage, sets.clients, topic, settings={}, name=name, group=name)
        stack.callback(consumer.stop)
        producer = Producer(
            sets.stage,
            sets.clients,
            topic,
            settings={},
            rate=RATE_PER_S,
            count=MESSAGES,
            name=name,
            options={**options, **first},
        )
        stack.callback(producer.end)
        found.append(Batch(f"messages {what}", producer, consumer, waits_ms))
    for one in found:
        one.producer.wait(
            lambda rows: len(acknowledged_of(rows)) >= MESSAGES, f"{one.what} are acknowledged"
        )
    return found


# -- the play --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Times:
    """In seconds; `late`: of messages with a level or a time, behind their time."""

    acts: float
    late: list[float]
    back: float


def _struck(
    sets: Sets, what: str, strike: Callable[[], object], undo: Callable[[], object]
) -> tuple[Times, list[Row]]:
    stage, name = sets.stage, sets.cast.name
    when = f"master {what}"
    with ExitStack() as stack:
        batches = _sent(sets, stack, what)
        sets.wait(lambda: set(sets.lacking()) == {0}, "the slaves hold all", COPIED_WITHIN_S)
        if sets.cast.brokers[0] == JAVA:
            time.sleep(JAVA_WRITES_S)
        stage.say(f"{name}: the master is {what}")
        strike()
        slave = sets.brokers[1]
        acts = sets.wait(
            lambda: sets.everywhere(slave, READ), f"a slave acts, {when}", ACTS_WITHIN_S
        )
        came = _in_time(sets, batches)
        late = [ms / 1_000 for one in batches[:2] for ms in one.late_ms()]
        stage.say(f"{name}: the master returns")
        undo()
        back = sets.wait(
            lambda: sets.everywhere(sets.master, READ_WRITE), "the master is back", RETURNS_WITHIN_S
        )
        sets.wait(sets.is_whole, "the set is whole again", WHOLE_WITHIN_S)
        _in_time(sets, batches)
        time.sleep(SETTLE_S)
        once = sets.cast.delivers_once(what)
        rows = [
            Row(f"{when}: a slave stands in the route after", f"{acts:.1f} s"),
            Row(
                f"{when}: all came through the other set, behind their time",
                f"median {median(late):.1f} s, longest {max(late):.1f} s" if late else "none",
                came,
            ),
            Row(f"{when}: back in the route, to be written, after", f"{back:.1f} s"),
            *(one.judged(when, once=once) for one in batches),
        ]
        return Times(acts, late, back), rows


def _in_time(sets: Sets, batches: list[Batch]) -> bool:
    try:
        sets.wait(
            lambda: all(one.is_there() for one in batches), "all messages came", COMES_WITHIN_S
        )
    except Problem as problem:
        missing = {one.what: sorted(one.wanted - one.came().keys())[:9] for one in batches}
        sets.stage.say(f"{problem.what}; not there: {missing}")
        return False
    return True


def _played(stage: Stage, cast: Cast) -> tuple[list[Times], list[Row]]:
    stage.drop_shared()
    with ExitStack() as stack:
        kinds = ", ".join(cast.brokers)
        stage.say(f"starting set {cast.name} ({kinds}), another set's master ({cast.elsewhere})")
        sets = Sets(stage, stack, cast)
        if cast.has_java_slaves:
            time.sleep(JAVA_COPIES_S)
        master = sets.master
        killed = _struck(sets, "killed", master.kill, lambda: master.start(wait=False))
        frozen = _struck(sets, "frozen", master.pause, master.resume)
        return [killed[0], frozen[0]], [*killed[1], *frozen[1]]


def java_master(stage: Stage) -> list[Row]:
    """A Java master with two slaves of ours, at a name server of ours."""
    return _played(stage, JAVA_MASTER)[1]


def java_slaves(stage: Stage) -> list[Row]:
    """A master of ours with two Java slaves; what is due goes to a Java set."""
    return _played(stage, JAVA_SLAVES)[1]


def at_javas(stage: Stage) -> list[Row]:
    """A set of ours at a Java name server and, beside it, one of ours."""
    return _played(stage, AT_JAVAS)[1]


def beside(stage: Stage) -> list[Row]:
    """The same play with a Java set at a Java name server and with one of ours at ours, one after
    the other: how long each step takes.
    """
    theirs, rows = _played(stage, ALL_JAVA)
    mine, more = _played(stage, ALL_OURS)
    found = [Row(f"Java's: {row.what}", row.result) for row in rows]
    found += [Row(f"ours: {row.what}", row.result, row.ok) for row in more]
    for what, their, own in zip(("killed", "frozen"), theirs, mine, strict=True):
        for step, text in (
            ("to a slave in the route", lambda one: f"{one.acts:.1f} s"),
            ("a due message through the other set, median",
             lambda one: f"{median(one.late):.1f} s" if one.late else "none came"),
            ("return of the master, to be written", lambda one: f"{one.back:.1f} s"),
        ):  # fmt: skip
            found.append(Row(f"master {what}, {step}", f"ours {text(own)}, Java's {text(their)}"))
    return found
