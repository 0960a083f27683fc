"""A set of Java brokers with fixed ids joins Regent's controllers, and goes back, stopped and by
hand: the steps of OPERATING.md, 'From fixed ids to controllers, and back', one after the other.

Responsible for: those steps, that nothing acknowledged is lost on either way, that logs are equal.
Refuses to know: how sets with a broker of ours change over while they run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from infra.controllers.admin import ControllerAdmin
from infra.workload.client import CallFailed, Pulled, WorkloadClient
from tests.interop.java_rocketmq import FAST_BROKER_SETTINGS, JavaBroker
from tests.interop.java_set import SetView, commit_logs_differ, view_of
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

NAME, CLUSTER, TOPIC, GROUP = "java-by-hand", "DefaultCluster", "Moved", "hand"
QUEUES, MESSAGES, BODY_BYTES = 4, 200, 1_000
ASK_MS, WITHIN_S = 3_000, 300.0
FIXED = {
    "enableControllerMode": "false",
    "allAckInSyncStateSet": "false",
    "controllerAddr": "",
    "inSyncReplicas": "2",
    "minInSyncReplicas": "1",
    "slaveReadEnable": "true",
}
"""Of a set without controllers, beside its id and its role."""
LEFT_BEHIND = ("epochFileCheckpoint", "epochFileCheckpoint.bak", "brokerIdentity")
"""What the way back removes from a store folder."""


def run(stage: Stage) -> list[Row]:
    """There and back, with sends before, between and afterwards."""
    with (
        own_cluster(stage, "--replicas", "0", java_client=False) as regent,
        _brokers(stage, regent) as brokers,
    ):
        hand = _Hand(stage, regent, brokers)
        return [*hand.joins(), *hand.loses_its_master(), *hand.goes_back()]


@contextmanager
def _brokers(stage: Stage, regent: LocalCluster) -> Iterator[list[JavaBroker]]:
    """A master and two slaves, linked."""
    made: list[JavaBroker] = []
    try:
        for broker_id in range(3):
            broker = stage.java.broker(
                f"{NAME}-{broker_id}",
                controllers=[],
                name_servers=regent.name_servers,
                broker_set=NAME,
                cluster=CLUSTER,
                settings={**FAST_BROKER_SETTINGS, **FIXED, **_place(broker_id)},
                start=False,
            )
            made.append(broker.start(wait=False))
        yield made
    finally:
        for broker in made:
            broker.end()


def _place(broker_id: int) -> dict[str, str]:
    role = "SLAVE" if broker_id else "SYNC_MASTER"
    return {"brokerId": str(broker_id), "brokerRole": role}


class _Hand:
    """What an operator types, and what shows that it worked."""

    def __init__(self, stage: Stage, regent: LocalCluster, brokers: Sequence[JavaBroker]) -> None:
        self._stage, self._brokers = stage, list(brokers)
        self._name_server = regent.name_servers[0]
        self._controllers = regent.folder.running_cluster()["controllers"]
        self._admin = ControllerAdmin(self._controllers, ASK_MS)
        self._sent = 0
        self._failed: Counter[str] = Counter()
        self._waited_s = 0.0

    # -- there -------------------------------------------------------------------------------------

    def joins(self) -> list[Row]:
        """Sends taken away, offsets equal, all stopped, the former master first."""
        before = self._send("before")
        self._quiet(self._brokers)
        for broker in self._brokers:
            broker.settings |= {
                "enableControllerMode": "true",
                "controllerAddr": ";".join(self._controllers),
                "allAckInSyncStateSet": "true",
                "minInSyncReplicas": "2",
            }
            del broker.settings["brokerId"], broker.settings["brokerRole"]
        first, *others = self._brokers
        first.start(wait=False)
        self._wait(lambda: self._view_has([1]), "the former master leads")
        for broker in others:
            broker.wipe()
            broker.start(wait=False)
        self._wait(lambda: self._view_has([1, 2, 3]), "all are in sync")
        moved = self._send("with controllers")
        view = self._view()
        assert view is not None
        return [
            before,
            moved,
            Row("the former master leads", str(view), view.master_address == first.address),
            self._equal("with controllers"),
            self._all_there("with controllers"),
        ]

    def loses_its_master(self) -> list[Row]:
        """What moved is a set of controllers like any other."""
        view = self._view()
        assert view is not None and view.master_address is not None
        killed = self._broker_at(view.master_address)
        killed.kill()
        self._wait(lambda: self._leads_other_than(killed.address), "another one is elected")
        killed.start(wait=False)
        self._wait(lambda: self._view_has([1, 2, 3]), "the killed one is in sync again")
        sent = self._send("after a failover")
        return [sent, self._equal("after a failover"), self._all_there("after a failover")]

    # -- back --------------------------------------------------------------------------------------

    def goes_back(self) -> list[Row]:
        """Who leads gets id 0 and starts first."""
        view = self._view()
        assert view is not None and view.master_address is not None
        led = self._broker_at(view.master_address)
        ordered = [led, *(one for one in self._brokers if one is not led)]
        self._quiet(ordered)
        for broker_id, broker in enumerate(ordered):
            broker.settings |= {**FIXED, **_place(broker_id)}
            for name in LEFT_BEHIND:
                (broker.store / name).unlink(missing_ok=True)
            broker.start(wait=False)
        self._brokers = ordered
        sent = self._send("with fixed ids again")
        self._admin.clean(CLUSTER, NAME, living=True)
        gone = self._view()
        return [
            sent,
            Row("the controllers forgot it", str(gone), gone is None or not gone.ids),
            self._equal("with fixed ids again"),
            self._all_there("with fixed ids again"),
        ]

    # -- steps -------------------------------------------------------------------------------------

    def _quiet(self, brokers: Iterable[JavaBroker]) -> None:
        """No sends, everybody has everything, all are stopped."""
        self._stage.java.mqadmin("wipeWritePerm", "-n", self._name_server, "-b", NAME)
        self._wait(lambda: not commit_logs_differ(self._brokers), "all have the same bytes")
        for broker in brokers:
            broker.stop()

    def _view(self) -> SetView | None:
        return view_of(self._admin, NAME)

    def _view_has(self, ids: list[int]) -> bool:
        view = self._view()
        return view is not None and view.has_master and view.in_sync == ids

    def _leads_other_than(self, address: str) -> bool:
        view = self._view()
        return view is not None and view.has_master and view.master_address != address

    def _broker_at(self, address: str) -> JavaBroker:
        return next(one for one in self._brokers if one.address == address)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        self._stage.java.wait_until(condition, what, WITHIN_S)

    # -- messages ----------------------------------------------------------------------------------

    def _send(self, when: str) -> Row:
        """Each until it is acknowledged: a set that has just begun takes none yet. What was not
        answered with success is told, not judged: whoever moves a set by hand has taken the sends
        away.
        """
        self._stage.say(f"{when}: {MESSAGES} messages")
        self._failed.clear()
        self._waited_s = 0.0
        asyncio.run(self._sending(self._sent, self._sent + MESSAGES))
        self._sent += MESSAGES
        why = ", ".join(f"{count} {reason}" for reason, count in self._failed.most_common())
        said = f"{MESSAGES}, {self._failed.total()} calls failed" + (f" ({why})" if why else "")
        row = Row(f"sends, {when}", f"{said}, longest {self._waited_s:.2f} s")
        self._stage.say(f"{row.what}: {row.result}")
        return row

    async def _sending(self, first: int, end: int) -> None:
        async with self._client() as client:
            for number in range(first, end):
                await self._stored(client, number)

    async def _stored(self, client: WorkloadClient, number: int) -> None:
        body = f"{number:08}".encode().ljust(BODY_BYTES, b".")
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                await client.send(str(number), body, number % QUEUES)
                self._waited_s = max(self._waited_s, loop.time() - began)
                return
            except CallFailed as failed:
                self._failed[failed.reason.partition(" BROKER:")[0]] += 1
                if loop.time() - began > WITHIN_S:
                    raise AssertionError(f"message {number}: {failed.reason}") from failed
                await client.refresh()
                await asyncio.sleep(0.1)

    def _client(self) -> WorkloadClient:
        names = [self._name_server]
        return WorkloadClient(names, TOPIC, GROUP, queues=QUEUES, timeout_ms=ASK_MS)

    def _all_there(self, when: str) -> Row:
        found = asyncio.run(self._stored_numbers())
        lost = sorted(set(range(self._sent)) - found)
        return Row(f"nothing lost, {when}", f"{self._sent} sent, lost {lost[:5]}", not lost)

    async def _stored_numbers(self) -> set[int]:
        found: set[int] = set()
        async with self._client() as client:
            for queue in range(QUEUES):
                offset = 0
                while True:
                    pulled = await self._pulled(client, queue, offset)
                    if not pulled.messages:
                        break
                    found.update(int(one.fields.body[:8]) for one in pulled.messages)
                    offset = pulled.next_offset
        return found

    async def _pulled(self, client: WorkloadClient, queue: int, offset: int) -> Pulled:
        """Again where no answer comes in time: a busy machine lets a broker wait."""
        loop = asyncio.get_running_loop()
        until = loop.time() + WITHIN_S
        while True:
            try:
                return await client.pull(queue, offset, suspend_ms=0)
            except CallFailed:
                if loop.time() > until:
                    raise
                await client.refresh()

    def _equal(self, when: str) -> Row:
        self._wait(lambda: not commit_logs_differ(self._brokers), f"logs are equal {when}")
        return Row(f"logs are equal, {when}", "byte by byte", True)
