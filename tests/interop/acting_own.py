"""A set of ours without a controller whose slaves act for the master, at a name server of ours,
under stock Java clients.

Responsible for: the master killed, and frozen: a Java consumer that was there goes on, one that
comes while it is away reads everything from the slave; the master comes back with the places that
were committed at the slave, and takes sends again.
Refuses to know: how either end works; sets of Java's (`acting_nameserver`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.controllers.calls import NoAnswer, call
from tests.interop.acting_sets import body_of, lacking
from tests.interop.fixed_sets import NameServerOfOurs
from tests.interop.java_client import PATIENT, Consumer, Producer, first_message, read_back
from tests.interop.ledger import acknowledged_of
from tests.interop.regent_broker import RegentBroker
from tests.interop.stage import Row, Stage

NAME, CLUSTER, QUEUES = "acting-own", "DefaultCluster", 4
READ, READ_WRITE = 4, 6
ACTS_WITHIN_S, RETURNS_WITHIN_S = 60.0, 120.0
FOR_BOTH_S = 90.0
SETTINGS: dict[str, Any] = {
    "all_ack": False,
    "in_sync_replicas": 2,
    "min_in_sync_replicas": 1,
    "enable_slave_acting_master": True,
    "total_replicas": 3,
    "slave_read_enable": True,
    "broker_not_active_ms": 5_000,
}


@dataclass(slots=True)
class OwnSet:
    """A master and two slaves, started one after the other."""

    stage: Stage
    stack: ExitStack
    name_server: NameServerOfOurs = field(init=False)
    brokers: list[RegentBroker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name_server = NameServerOfOurs(self.stage.java, f"{NAME}-namesrv")
        self.stack.callback(self.name_server.end)
        self.name_server.start()
        for broker_id in range(3):
            one = RegentBroker(
                self.stage.java,
                f"{NAME}-{broker_id}",
                controllers=[],
                name_servers=[self.name_server.address],
                broker_set=NAME,
                cluster=CLUSTER,
                settings={**SETTINGS, "broker_id": broker_id},
            )
            self.stack.callback(one.end)
            self.brokers.append(one)
            one.start()
            self.wait(lambda one=one: one.address in self.members(), f"{one.name} is registered")
        self.wait(lambda: len(self.linked()) == 2, "both slaves are linked")

    @property
    def master(self) -> RegentBroker:
        return self.brokers[0]

    def wait(self, condition: Callable[[], bool], what: str, limit_s: float = FOR_BOTH_S) -> float:
        return self.stage.java.wait_until(condition, what, limit_s)

    def members(self) -> list[str]:
        ext = {"clusterName": CLUSTER, "brokerName": NAME}
        body = body_of(self.name_server.address, RequestCode.GET_BROKER_MEMBER_GROUP, ext)
        return list(body["brokerMemberGroup"]["brokerAddrs"].values()) if body else []

    def leads(self) -> tuple[str | None, int]:
        """(who stands as the master in the route of the topic, what is allowed there)."""
        ext = {"topic": NAME, "acceptStandardJsonOnly": "true"}
        body = body_of(self.name_server.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
        if not body or not body["brokerDatas"]:
            return None, 0
        return body["brokerDatas"][0]["brokerAddrs"].get("0"), body["queueDatas"][0]["perm"]

    def linked(self) -> list[int]:
        """What each slave lacks, in bytes, by the master's word."""
        return lacking(self.master.address)

    def places(self, broker: RegentBroker, group: str) -> list[int]:
        """What a broker knows of a group's places, by queue; -1: nothing."""
        return [self._place(broker, group, queue) for queue in range(QUEUES)]

    def _place(self, broker: RegentBroker, group: str, queue: int) -> int:
        ext = {"consumerGroup": group, "topic": NAME, "queueId": str(queue)}
        try:
            ask = RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, ext)
            answer = call(broker.address, ask)
        except NoAnswer:
            return -1
        return int(answer.ext["offset"]) if answer.code == 0 else -1


def run(stage: Stage) -> list[Row]:
    """The whole play."""
    with ExitStack() as stack:
        stage.say("starting a set of ours: a master, two slaves, a name server")
        own = OwnSet(stage, stack)
        server = own.name_server.address
        first_message(stage, server, NAME)
        consumer = Consumer(stage, server, NAME, settings=PATIENT)
        stack.callback(consumer.stop)
        producer = Producer(stage, server, NAME, settings=PATIENT)
        stack.callback(producer.end)
        producer.flows()
        rows: list[Row] = []
        with producer.paused():
            rows += _away(own, "killed", own.master.kill, own.master.start, producer)
        producer.flows()
        with producer.paused():
            rows += _away(own, "frozen", own.master.pause, own.master.resume, producer)
        producer.flows()
        ledger = producer.stop()
        got = consumer.wait_for(ledger)
        lost = acknowledged_of(ledger) - {row[0] for row in got}
        twice = len(got) - len(set(got))
        said = f"{len(lost)} lost, {twice} of {len(got)} handed out again"
        rows.append(Row("the consumer that was there all the time", said, not lost))
        back = read_back(stage, server, NAME, ledger, name=f"{NAME}-all")
        rows.append(Row("read from the master, lost", str(back), back.ok))
        return rows


def _away(
    own: OwnSet,
    what: str,
    strike: Callable[[], object],
    undo: Callable[[], object],
    producer: Producer,
) -> list[Row]:
    """The master goes and comes back; nothing is sent meanwhile."""
    stage, slave = own.stage, own.brokers[1]
    own.wait(lambda: own.linked() == [0, 0], "both slaves hold everything")
    time.sleep(2 * 3.0)  # their copies of the topics are as old as that (metadata_sync_ms)
    strike()
    acts = own.wait(
        lambda: own.leads() == (slave.address, READ), f"a slave acts ({what})", ACTS_WITHIN_S
    )
    group, ledger = f"{NAME}-{what}", producer.rows()
    consumer = Consumer(
        stage, own.name_server.address, NAME, settings=PATIENT, name=group, group=group
    )
    try:
        read = {row[0] for row in consumer.wait_for(ledger)}
        ends = {row.queue: row.offset + 1 for row in ledger if row.outcome == "SEND_OK"}
        own.wait(
            # A send that was under way when the producer was paused is stored as well.
            lambda: all(own.places(slave, group)[queue] >= end for queue, end in ends.items()),
            f"{group} commits at the slave",
        )
    finally:
        consumer.stop()
    kept = own.places(slave, group)
    undo()
    returned = own.wait(
        lambda: own.leads() == (own.master.address, READ_WRITE),
        f"the master is back ({what})",
        RETURNS_WITHIN_S,
    )
    places = own.places(own.master, group)
    lost = acknowledged_of(ledger) - read
    own.wait(lambda: len(own.linked()) == 2, "both slaves are linked again")
    return [
        Row(f"master {what}: a slave stands in the route after", f"{acts:.1f} s"),
        Row(
            f"master {what}: a new Java group reads from the slave, lost",
            f"{len(lost)} of {len(ledger)}",
            not lost,
        ),
        Row(f"master {what}: back in the route, to be written, after", f"{returned:.1f} s"),
        Row(
            f"master {what}: knows the places committed at the slave",
            f"{places}, committed {kept}",
            places == kept,
        ),
    ]
