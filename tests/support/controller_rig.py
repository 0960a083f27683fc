"""A controller core on a log in memory: every append is applied at once, or when the test says
so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar

from brokers.remoting.command import RemotingCommand
from events.outcomes import Outcome
from processors.controller import effects as fx
from processors.controller.context import CoreConfig
from processors.controller.core import ControllerCore
from processors.fold.folder import Applied, Folder

CLUSTER = "C"
SET = "a"
WALL_MS = 1_700_000_000_000
E = TypeVar("E")


def ids(seed: int = 1) -> Iterator[bytes]:
    """Command ids in a fixed order."""
    number = seed << 64
    while True:
        number += 1
        yield number.to_bytes(16, "big")


class Log:
    """The records that all rigs of a test share."""

    def __init__(self) -> None:
        self.records: list[bytes] = []


class Rig:
    """One controller. `sent` holds every effect that was not performed by the rig itself."""

    def __init__(
        self,
        name: str = "c1",
        log: Log | None = None,
        peers: dict[str, str] | None = None,
        now_ms: int = 10_000,
        seed: int = 1,
        **options: Any,
    ) -> None:
        self.name = name
        self.address = f"{name}:9878"
        self.log = log or Log()
        self.now_ms = now_ms
        self.folder = Folder()
        config = CoreConfig(name, self.address, "cluster", peers or {}, release="test", **options)
        self.core_config = config
        self.core = ControllerCore(config, self.folder, ids(seed))
        self.sent: list[fx.Effect] = []
        self.published: list[Outcome] = []
        self.auto = True
        self.holds_appends = False
        self.held: list[fx.Append] = []
        self._queue: deque[fx.Effect] = deque()
        self._performing = False
        self.core.start(self.now_ms, self.wall_ms)

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    @property
    def state(self):  # type: ignore[no-untyped-def]
        return self.folder.state

    def lead(self) -> Rig:
        """Form the cluster and claim, or claim after the former leader fell silent."""
        for _ in range(400):
            if self.core.is_active:
                self.sent.clear()
                return self
            self.tick(25)
        raise AssertionError("nobody leads after 10 s")

    def tick(self, ms: int = 25) -> list[fx.Effect]:
        self.now_ms += ms
        return self.perform(self.core.tick(self.now_ms, self.wall_ms))

    def pass_time(self, ms: int, step: int = 100) -> None:
        """Tick through a stretch of time as the shell does."""
        for _ in range(ms // step):
            self.tick(step)

    def request(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        conn: int = 1,
        oneway: bool = False,
        host: str = "peer",
    ) -> RemotingCommand | None:
        """Send a request from `host` and return its answer if it came at once."""
        command = RemotingCommand.request(code, ext or {}, body, oneway)
        command.opaque = 4711
        before = len(self.sent)
        self.perform(
            self.core.on_request(conn, f"{host}:{conn}", command, self.now_ms, self.wall_ms)
        )
        replies = [
            one for one in self.sent[before:] if isinstance(one, fx.Reply) and one.conn_id == conn
        ]
        assert all(reply.response.opaque == 4711 for reply in replies)
        return replies[-1].response if replies else None

    def perform(self, effects: list[fx.Effect]) -> list[fx.Effect]:
        """Perform in the order of issue, as the shell does: what follows from an effect comes after
        it.
        """
        self._queue.extend(effects)
        if self._performing:
            return effects
        self._performing = True
        while self._queue:
            self._perform_one(self._queue.popleft())
        self._performing = False
        return effects

    def _perform_one(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Append() if self.auto and not self.holds_appends:
                self.append(effect)
            case fx.Append():
                self.held.append(effect)
            case fx.AskEndOffset(token) if self.auto:
                self.perform(self.core.on_end_offset(token, len(self.log.records)))
            case fx.AskLastPublished(token) if self.auto:
                last = self.published[-1].command_offset if self.published else -1
                self.perform(self.core.on_last_published(token, last, self.now_ms))
            case fx.Publish(outcome):
                self.published.append(outcome)
                self.perform(self.core.on_publish_result(outcome.command_offset, True, self.now_ms))
            case _:
                self.sent.append(effect)

    def append(self, effect: fx.Append) -> None:
        """Into the log, acknowledged, and applied here."""
        offset = len(self.log.records)
        self.log.records.append(effect.data)
        self.perform(self.core.on_append_result(effect.command_id, offset, self.now_ms))
        self.catch_up()

    def catch_up(self) -> Applied | None:
        """Apply what others appended."""
        applied = None
        while self.folder.next_offset < len(self.log.records):
            offset = self.folder.next_offset
            applied = self.folder.apply(offset, self.log.records[offset])
            self.perform(self.core.on_applied(applied, self.now_ms, self.wall_ms))
        return applied

    def take(self, kind: type[E]) -> list[E]:
        """The effects of a kind since the last time, removed."""
        found = [one for one in self.sent if isinstance(one, kind)]
        self.sent = [one for one in self.sent if not isinstance(one, kind)]
        return found

    # -- brokers -----------------------------------------------------------------------------------

    def heartbeat(
        self,
        broker: int,
        offset: int = 100,
        epoch: int = 0,
        timeout_ms: int = 3_000,
        conn: int | None = None,
    ) -> None:
        ext = {
            "clusterName": CLUSTER,
            "brokerName": SET,
            "brokerAddr": f"b{broker}:10911",
            "brokerId": str(broker),
            "epoch": str(epoch),
            "maxOffset": str(offset),
            "confirmOffset": "0",
            "heartbeatTimeoutMills": str(timeout_ms),
            "regentIncarnation": f"life-{broker}",
        }
        self.request(904, ext, conn=broker if conn is None else conn, oneway=True)

    def register(
        self, broker: int, incarnation: str | None = None, clean: str = "true", minimum: str = ""
    ) -> RemotingCommand:
        ext = {
            "clusterName": CLUSTER,
            "brokerName": SET,
            "brokerId": str(broker),
            "brokerAddress": f"b{broker}:10911",
            "regentIncarnation": incarnation or f"life-{broker}",
            "regentClean": clean,
            "regentHaAddress": f"b{broker}:10912",
            "regentLastEpoch": "0",
            "regentEndOffset": "100",
        }
        ext |= {"regentMinInSync": minimum} if minimum else {}
        answer = self.request(1003, ext, conn=broker)
        assert answer is not None
        return answer

    def join(self, broker: int) -> RemotingCommand:
        """An id, a registration, a heartbeat."""
        names = {"clusterName": CLUSTER, "brokerName": SET}
        offered = self.request(1012, names, conn=broker)
        assert offered is not None and offered.ext["nextBrokerId"] == str(broker)
        code = f"b{broker}:10911;1"
        applied = self.request(
            1013, names | {"appliedBrokerId": str(broker), "registerCheckCode": code}, conn=broker
        )
        assert applied is not None and applied.code == 0
        answer = self.register(broker)
        self.heartbeat(broker)
        return answer

    def elect(self, broker: int = -1, designate: bool = False) -> RemotingCommand:
        ext = {
            "clusterName": CLUSTER,
            "brokerName": SET,
            "brokerId": str(broker),
            "designateElect": str(designate).lower(),
        }
        answer = self.request(1002, ext, conn=max(broker, 0) or 77)
        assert answer is not None
        return answer

    def alter(
        self, members: str, base_epoch: int, master: int = 1, master_epoch: int | None = None
    ) -> RemotingCommand:
        epoch = self.state.sets[SET].master_epoch if master_epoch is None else master_epoch
        ext = {"brokerName": SET, "masterBrokerId": str(master), "masterEpoch": str(epoch)}
        body = f'{{"syncStateSet":[{members}],"syncStateSetEpoch":{base_epoch}}}'.encode()
        answer = self.request(1001, ext, body, conn=master)
        assert answer is not None
        return answer

    def three(self) -> Rig:
        """A set of three, broker 1 master, all in the SyncStateSet."""
        for broker in (1, 2, 3):
            self.join(broker)
            if broker == 1:
                assert self.elect(1).code == 0
        answer = self.alter("1,2,3", self.state.sets[SET].sync_state_set_epoch)
        assert answer.code == 0, answer.remark
        self.sent.clear()
        return self

    def close_connection(self, conn: int) -> list[str]:
        """The addresses that are probed because of it."""
        self.perform(self.core.on_connection_closed(conn, self.now_ms))
        return [probe.address for probe in self.take(fx.Probe)]

    def probe_result(self, address: str, result: str) -> None:
        self.perform(self.core.on_probe_result(address, result, self.now_ms, self.wall_ms))
