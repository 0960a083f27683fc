"""Sets without controllers, of both kinds: a fixed master and two slaves over RocketMQ's default HA
stream.

Responsible for: a Java master with slaves of ours and the reverse, at a name server of ours, under
a stock Java client: slaves killed, paused, wiped, the master killed, each comes back; what was
acknowledged is there, logs are equal byte by byte.
Refuses to know: how either end works.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from infra.problems import Problem
from infra.processes.ports import pick_block
from tests.interop.both_kinds import EQUAL_WITHIN_S, FILE_BYTES, log_end
from tests.interop.java_client import PATIENT, Producer, read_back
from tests.interop.java_rocketmq import JavaWorld
from tests.interop.ledger import acknowledged_of
from tests.interop.program import Program, Replica
from tests.interop.regent_broker import ROOT, RegentBroker
from tests.interop.stage import Row, Stage

CLUSTER = "DefaultCluster"
SLAVES = (1, 2)
LINKED_WITHIN_S = 90.0
IDLE_LIMIT_S = 20.0
MASTER_AWAY_S = 3.0
# So that the log is longer than one file at the end; the client compresses larger bodies.
BODY_BYTES = 3_000
ASK_MS = 3_000
# Both ends alike: two copies before a send is answered, files of one size, slaves that may be read.
OF_JAVA = {
    "enableControllerMode": "false",
    "allAckInSyncStateSet": "false",
    "controllerAddr": "",
    "inSyncReplicas": "2",
    "minInSyncReplicas": "1",
    "totalReplicas": "3",
    "slaveReadEnable": "true",
}
OF_OURS: dict[str, Any] = {
    "all_ack": False,
    "in_sync_replicas": 2,
    "min_in_sync_replicas": 1,
    "slave_read_enable": True,
    "name_server_register_ms": 10_000,
}


class NameServerOfOurs(Program):
    """`regent namesrv` alone, without anything else of a cluster."""

    def __init__(self, world: JavaWorld, name: str) -> None:
        super().__init__(world, name, world.folder / name, f"127.0.0.1:{pick_block(1)}")
        self.home.mkdir(parents=True, exist_ok=True)

    def command(self) -> tuple[list[str], dict[str, str]]:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        words = [sys.executable, "-m", "infra", "namesrv", "--listen", self.address]
        return words, {**os.environ, "PYTHONPATH": path}


class FixedSet:
    """A master and its slaves, by broker id."""

    def __init__(self, stage: Stage, stack: ExitStack, name: str, *, java_leads: bool) -> None:
        self.stage, self.name = stage, name
        self.name_server = NameServerOfOurs(stage.java, f"{name}-namesrv")
        stack.callback(self.name_server.end)
        self.name_server.start()
        self.brokers: dict[int, Replica] = {}
        for broker_id in (0, *SLAVES):
            made = self.made(broker_id, is_java=java_leads == (broker_id == 0))
            self.brokers[broker_id] = made
            stack.callback(made.end)
            made.start()

    def made(self, broker_id: int, *, is_java: bool, again: str = "") -> Replica:
        """A broker of that kind, not started."""
        return self._java(broker_id, again) if is_java else self._ours(broker_id, again)

    def _java(self, broker_id: int, again: str) -> Replica:
        role = "SLAVE" if broker_id else "SYNC_MASTER"
        self.stage.configured(f"Java broker of a set without controllers: {OF_JAVA}")
        return self.stage.java.broker(
            f"{self.name}-java-{broker_id}{again}",
            controllers=[],
            name_servers=[self.name_server.address],
            broker_set=self.name,
            cluster=CLUSTER,
            settings={**OF_JAVA, "brokerId": str(broker_id), "brokerRole": role},
            start=False,
        )

    def _ours(self, broker_id: int, again: str) -> Replica:
        return RegentBroker(
            self.stage.java,
            f"{self.name}-ours-{broker_id}{again}",
            controllers=[],
            name_servers=[self.name_server.address],
            broker_set=self.name,
            cluster=CLUSTER,
            settings={**OF_OURS, "broker_id": broker_id},
        )

    @property
    def master(self) -> Replica:
        return self.brokers[0]

    def ask(self, broker_id: int, request: RemotingCommand) -> RemotingCommand | None:
        """The answer of one broker, None where it does not answer."""
        return asyncio.run(_asked(self.brokers[broker_id].address, request))

    def linked(self) -> list[int]:
        """What the slaves of the master acknowledge, by the master's own word (907)."""
        answer = self.ask(0, RemotingCommand.request(907))
        if answer is None or answer.code:
            return []
        links = fastjson.loads(answer.body).get("haConnectionInfo") or []
        return [one["slaveAckOffset"] for one in links if one["slaveAckOffset"] >= 0]

    def wait(self, condition: Any, what: str, limit_s: float = LINKED_WITHIN_S) -> float:
        try:
            return self.stage.java.wait_until(condition, what, limit_s)
        except Problem as problem:
            said = [line for one in self.brokers.values() for line in one.logs(3)]
            raise Problem(problem.what, " | ".join(said)) from None

    def whole(self, slaves: int = len(SLAVES)) -> float:
        return self.wait(lambda: len(self.linked()) >= slaves, f"{slaves} slaves are linked")

    def equal(self, what: str) -> Row:
        """The logs of those that run, each from its own first byte on: one that was wiped begins
        with what was the master's last file then.
        """
        said: list[str] = []

        def alike() -> bool:
            said.clear()
            for broker_id in SLAVES:
                first, differs = _unlike(self.master, self.brokers[broker_id])
                said.append(f"{broker_id} from {first}" + f", not {differs}" * bool(differs))
            return not any(" not " in one for one in said)

        try:
            self.stage.java.wait_until(alike, "the logs are equal", EQUAL_WITHIN_S)
        except Problem:
            return Row(what, "; ".join(said), ok=False)
        return Row(what, f"{log_end(self.master)} bytes, byte by byte: {'; '.join(said)}")


def _unlike(master: Replica, slave: Replica) -> tuple[int, str]:
    """The slave's first offset, and the first of its files that is not the master's."""
    here, there = (one.store / "commitlog" for one in (master, slave))
    names = sorted(path.name for path in there.glob("*") if path.stat().st_size == FILE_BYTES)
    if not names:
        return -1, "a byte"
    files = sorted({*names, *(path.name for path in here.glob("*") if path.name >= names[0])})
    return int(names[0]), next(
        (one for one in files if _held(here / one) != _held(there / one)), ""
    )


def _held(path: Path) -> bytes:
    """A digest of what is there; zeros at the end, and files made ahead, count as nothing."""
    data = path.read_bytes().rstrip(b"\0") if path.exists() else b""
    return hashlib.sha256(data).digest()


async def _asked(address: str, request: RemotingCommand) -> RemotingCommand | None:
    client = RemotingClient()
    try:
        return await client.call(address, request, ASK_MS)
    except RemotingError:
        return None
    finally:
        await client.close()


def java_leads(stage: Stage) -> list[Row]:
    """A Java master, two slaves of ours."""
    return _play(stage, "fixed-java", java_leads=True)


def ours_leads(stage: Stage) -> list[Row]:
    """A master of ours, two Java slaves."""
    return _play(stage, "fixed-ours", java_leads=False)


def _play(stage: Stage, name: str, *, java_leads: bool) -> list[Row]:
    stage.drop_shared()
    with ExitStack() as stack:
        stage.say(f"starting set {name}: a master, two slaves, a name server of ours")
        brokers = FixedSet(stage, stack, name, java_leads=java_leads)
        rows = [Row("both slaves linked after", f"{brokers.whole():.1f} s")]
        settings = {**PATIENT, "body": str(BODY_BYTES)}
        producer = Producer(stage, brokers.name_server.address, name, settings=settings)
        stack.callback(producer.end)
        producer.flows()
        rows.append(_slave_killed(brokers, producer))
        rows.append(_slave_paused(brokers, producer))
        rows.append(_slave_wiped(brokers, producer))
        rows += _master_killed(brokers, producer)
        ledger = producer.stop()
        rows.append(brokers.equal("logs of all three"))
        back = read_back(stage, brokers.name_server.address, name, ledger)
        failed = sum(row.outcome != "SEND_OK" for row in ledger)
        said = f"{back}; {len(ledger)} sends, {failed} failed or unsure"
        rows.append(Row("acknowledged, lost", said, back.ok and back.acknowledged > 0))
        rows.append(_begins_late(brokers))
        if java_leads:
            rows.append(_read_from_slave(brokers, ledger, name))
        rows.append(_no_epochs(brokers))
        rows.append(_opened_by_the_other_kind(brokers, stack, is_java=not java_leads))
        return rows


def _slave_killed(brokers: FixedSet, producer: Producer) -> Row:
    """Sends go on with the other one, and it copies what it missed."""
    one = brokers.brokers[1]
    one.kill()
    producer.flows()
    one.start()
    took = brokers.whole()
    producer.flows()
    return Row("a slave killed: sends go on, it comes back", f"linked {took:.1f} s after its start")


def _slave_paused(brokers: FixedSet, producer: Producer) -> Row:
    """Longer than the idle limit: the master gives the link up."""
    one, began = brokers.brokers[2], time.monotonic()
    one.pause()
    try:
        producer.flows()
        brokers.wait(
            lambda: len(brokers.linked()) == 1,
            "the master drops the paused slave",
            4 * IDLE_LIMIT_S,
        )
        dropped = time.monotonic() - began
        producer.flows()
    finally:
        one.resume()
    took = brokers.whole()
    producer.flows()
    ok = dropped >= IDLE_LIMIT_S - 2
    return Row("a slave paused: dropped after", f"{dropped:.1f} s, back {took:.1f} s later", ok)


def _slave_wiped(brokers: FixedSet, producer: Producer) -> Row:
    """With an empty store it begins with the master's last file."""
    one = brokers.brokers[2]
    one.stop()
    one.wipe()
    one.start()
    took = brokers.whole()
    producer.flows()
    return Row("a slave with an empty store: linked after", f"{took:.1f} s")


def _begins_late(brokers: FixedSet) -> Row:
    """An empty slave has the master's last file, and no byte before it."""
    one, end = brokers.brokers[2], log_end(brokers.master)
    one.stop()
    one.wipe()
    one.start()
    last = end - end % FILE_BYTES
    path, other = (broker.store / "commitlog" / f"{last:020d}" for broker in (brokers.master, one))
    brokers.wait(
        lambda: other.exists() and path.read_bytes().rstrip(b"\0") in other.read_bytes(),
        "the last file is copied",
    )
    first = min(file.name for file in other.parent.glob("*"))
    return Row(
        "an empty slave under a log of several files: begins at",
        f"{int(first)} of {end} bytes",
        int(first) == last > 0,
    )


def _master_killed(brokers: FixedSet, producer: Producer) -> list[Row]:
    """Nobody takes over: sends wait for it. Its log is all there, and the slaves find it again."""
    master = brokers.master
    acknowledged = len(acknowledged_of(producer.rows()))
    master.kill()
    time.sleep(MASTER_AWAY_S)
    began = time.monotonic()
    master.start()
    producer.flows()
    took, linked = time.monotonic() - began, brokers.whole()
    producer.flows()
    more = len(acknowledged_of(producer.rows())) - acknowledged
    back = f"{linked:.1f} s later, {more} acknowledged"
    return [
        Row("the master killed and back: 200 sends after its start", f"{took:.1f} s"),
        Row("both slaves linked to it again", back, more > 0),
    ]


def _read_from_slave(brokers: FixedSet, ledger: Any, topic: str) -> Row:
    """A slave of ours serves pulls from what it holds."""
    found = sum(_pulled(brokers, 1, topic, queue) for queue in range(4))
    wanted = len(acknowledged_of(ledger))
    return Row("messages read from a slave", f"{found}, {wanted} acknowledged", found >= wanted)


def _pulled(brokers: FixedSet, broker_id: int, topic: str, queue: int) -> int:
    offset = 0
    while True:
        ext = {
            "consumerGroup": "fixed-reader",
            "topic": topic,
            "queueId": str(queue),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        answer = brokers.ask(broker_id, RemotingCommand.request(11, ext))
        if answer is None or answer.code or int(answer.ext["nextBeginOffset"]) <= offset:
            return offset
        offset = int(answer.ext["nextBeginOffset"])


def _opened_by_the_other_kind(brokers: FixedSet, stack: ExitStack, *, is_java: bool) -> Row:
    """`is_java`: what the slave is; a broker of the other kind takes its folder, and its place."""
    before = brokers.brokers[1]
    before.stop()
    after = brokers.made(1, is_java=not is_java, again="-again")
    after.store.symlink_to(before.store)
    stack.callback(after.end)
    after.start()
    brokers.brokers[1] = after
    brokers.whole()
    return brokers.equal(f"the folder of {before.name} under {after.name}")


def _no_epochs(brokers: FixedSet) -> Row:
    """So that a broker of the other kind can open the folder."""
    written = [one.name for one in brokers.brokers.values() if one.epochs()]
    return Row("epoch files", ", ".join(written) or "none, on either kind", not written)


def java_goes_back(stage: Stage) -> list[Row]:
    """A Java master comes back with an older store, as after a loss of power: slaves of ours hold
    more than it, and are cut to what it has.
    """
    with ExitStack() as stack:
        brokers, ends = _gone_back(stage, stack, "older-java", java_leads=True)
        brokers.wait(
            lambda: all(log_end(one) == log_end(brokers.master) for one in _slaves(brokers)),
            "both slaves are cut to their master",
        )
        cut = [path.stat().st_size for one in _slaves(brokers) for path in _cut_files(one)]
        rows = [Row("kept of what slaves cut", f"{cut} bytes", cut == [ends[1] - ends[0]] * 2)]
        rows.append(_goes_on(brokers))
        return [*rows, brokers.equal("logs behind that")]


def ours_goes_back(stage: Stage) -> list[Row]:
    """The same with a master of ours: it refuses its Java slaves, which would mix two histories,
    also when its log has grown past theirs; with an empty folder they are taken.
    """
    with ExitStack() as stack:
        brokers, ends = _gone_back(stage, stack, "older-ours", java_leads=False)
        refused = "beyond this one's end"
        brokers.wait(lambda: brokers.master.log_lines(refused), "its slaves are refused")
        settings = {**PATIENT, "threads": "16", "body": "4000"}  # each send waits in vain
        producer = Producer(stage, brokers.name_server.address, brokers.name, settings=settings)
        stack.callback(producer.end)
        brokers.wait(lambda: log_end(brokers.master) > ends[1], "the log has grown past theirs")
        never = "bytes that this master never had"
        brokers.wait(lambda: brokers.master.log_lines(never), "they are refused again")
        producer.stop()
        untouched = [log_end(one) for one in _slaves(brokers)]
        rows = [Row("refused Java slaves have", f"{untouched} bytes", untouched == [ends[1]] * 2)]
        for one in _slaves(brokers):
            one.stop()
            one.wipe()
            one.start()
        brokers.whole()
        rows.append(_goes_on(brokers))
        return [*rows, brokers.equal("logs behind that")]


def _gone_back(
    stage: Stage, stack: ExitStack, name: str, *, java_leads: bool
) -> tuple[FixedSet, tuple[int, int]]:
    """A set whose master runs with the store that it had some messages ago; where its log ended
    then, and where at last.
    """
    stage.drop_shared()
    stage.say(f"starting set {name}: a master, two slaves, a name server of ours")
    brokers = FixedSet(stage, stack, name, java_leads=java_leads)
    brokers.whole()
    _goes_on(brokers)
    master = brokers.master
    master.stop()
    older = master.home / "older"
    shutil.copytree(master.store, older)
    first = log_end(master)
    master.start()
    brokers.whole()
    _goes_on(brokers)
    brokers.wait(
        lambda: all(log_end(one) == log_end(master) for one in _slaves(brokers)), "all are equal"
    )
    master.kill()
    last = log_end(master)
    master.wipe()
    shutil.copytree(older, master.store)
    stage.say(f"the master comes back with {first} bytes of log, its slaves hold {last}")
    master.start()
    return brokers, (first, last)


def _goes_on(brokers: FixedSet) -> Row:
    """Messages are acknowledged, by the master and a slave."""
    number = len(list((brokers.stage.work / "clients").glob(f"{brokers.name}-*-ledger.csv")))
    producer = Producer(
        brokers.stage,
        brokers.name_server.address,
        brokers.name,
        settings=PATIENT,
        name=f"{brokers.name}-{number}",
    )
    try:
        producer.flows()
        rows = producer.stop()
    finally:
        producer.end()
    return Row("messages acknowledged then", str(len(acknowledged_of(rows))))


def _slaves(brokers: FixedSet) -> list[Replica]:
    return [brokers.brokers[one] for one in SLAVES]


def _cut_files(one: Replica) -> list[Path]:
    return sorted((one.store / "cutAtStart").glob("*"))
