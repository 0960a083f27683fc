"""A broker set in one process for tests: real ReplicaCores, byte-array logs, links as queues, a
hand clock. It holds no rule of its own; the controller is the test, which hands out notices and
answers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from brokers.ha.epochs import EpochHistory
from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from brokers.replica.roles import RoleNotice

RECORD_BYTES = 10
FILE_BYTES = 1000


class ByteLog:
    """A commit log of fixed-size records in memory; a record's bytes name its writer's epoch."""

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def end_offset(self) -> int:
        return len(self.data)

    def is_record_boundary(self, offset: int) -> bool:
        return offset % RECORD_BYTES == 0


@dataclass
class Node:
    broker_id: int
    log: ByteLog
    core: ReplicaCore
    disk_epochs: tuple = ()
    disk_epoch_seen: int = 0
    performed: list[fx.Effect] = field(default_factory=list)
    proposals: list[fx.ProposeSyncSet] = field(default_factory=list)
    asked: list[bool] = field(default_factory=list)
    up: bool = True

    def of_kind(self, kind: type) -> list:
        return [effect for effect in self.performed if isinstance(effect, kind)]

    def reported(self, kind: str) -> list[dict]:
        return [item.fields for item in self.of_kind(fx.ReportEvent) if item.kind == kind]


@dataclass
class Pipe:
    """One TCP connection: two ends, two directions of bytes."""

    ends: dict[int, int]  # link id -> broker id
    queues: dict[int, deque[bytes]]  # destination link id -> bytes on the way
    cut: bool = False


class World:
    """`settle` delivers everything that is on the way; `advance` lets time pass in ticks."""

    def __init__(self, config: ReplicaConfig | None = None, chunk_bytes: int | None = None) -> None:
        self.config = replace(config or ReplicaConfig(), file_bytes=FILE_BYTES)
        self.now_ms = 1000
        self.nodes: dict[int, Node] = {}
        self.pipes: dict[int, Pipe] = {}  # by link id
        self.frozen: set[int] = set()
        self.unreachable: set[int] = set()
        self._link_ids = iter(range(1, 10**9))
        self._chunk_bytes = chunk_bytes

    # -- nodes ------------------------------------------------------------------------------------

    def add(self, broker_id: int, **kwargs: object) -> Node:
        return self._start(broker_id, ByteLog(), **kwargs)

    def _start(
        self, broker_id: int, log: ByteLog, epochs: tuple = (), seen: int = 0, clean: bool = True
    ) -> Node:
        core = ReplicaCore(
            self.config,
            broker_id=broker_id,
            incarnation=f"life-{self.now_ms}",
            clean=clean,
            epochs=EpochHistory(epochs),
            log_end=log.end_offset,
            confirm_offset=0,
            epoch_seen=seen,
        )
        self.nodes[broker_id] = Node(broker_id, log, core, epochs, seen)
        return self.nodes[broker_id]

    def crash(self, broker_id: int) -> None:
        self.nodes[broker_id].up = False
        for link_id, pipe in list(self.pipes.items()):
            if pipe.ends.get(link_id) == broker_id:
                self.cut_link(link_id)

    def restart(self, broker_id: int, *, clean: bool = True) -> Node:
        old = self.nodes[broker_id]
        return self._start(broker_id, old.log, old.disk_epochs, old.disk_epoch_seen, clean)

    # -- the controller's part --------------------------------------------------------------------

    def elect(
        self, master: int | None, epoch: int, members: tuple[int, ...], **kwargs: object
    ) -> None:
        for broker_id in self.nodes:
            self.notify(broker_id, master, epoch, members, **kwargs)
        self.settle()

    def notify(
        self,
        broker_id: int,
        master: int | None,
        epoch: int,
        members: tuple[int, ...] | None,
        *,
        set_epoch: int | None = None,
        at_risk: bool = False,
    ) -> None:
        node = self.nodes[broker_id]
        if not node.up or broker_id in self.frozen:
            return
        notice = RoleNotice(
            master,
            f"host:{master}",
            f"{master}" if master is not None else None,
            epoch,
            members,
            10 * epoch if set_epoch is None else set_epoch,
            at_risk=at_risk,
            source="test",
        )
        self.perform(node, node.core.on_role_notice(notice, self.now_ms))

    def accept(self, broker_id: int, proposal: fx.ProposeSyncSet | None = None) -> None:
        node = self.nodes[broker_id]
        proposal = proposal or node.proposals[-1]
        answer = (0, proposal.members, proposal.base_set_epoch + 1, proposal.master_epoch)
        effects = node.core.on_alter_result(proposal.token, *answer, self.now_ms)
        self.perform(node, effects)

    def answer(
        self, broker_id: int, code: int | None, members=None, set_epoch=None, master_epoch=None
    ):
        node = self.nodes[broker_id]
        token = node.proposals[-1].token
        self.perform(
            node,
            node.core.on_alter_result(token, code, members, set_epoch, master_epoch, self.now_ms),
        )

    # -- data -------------------------------------------------------------------------------------

    def write(self, broker_id: int, records: int = 1, *, settle: bool = True) -> int:
        node = self.nodes[broker_id]
        epoch = node.core.master_epoch
        for _ in range(records):
            number = len(node.log.data) // RECORD_BYTES
            node.log.data += b"e%02d.%05d\n" % (epoch, number)
        self.perform(node, node.core.log_grew(node.log.end_offset, self.now_ms))
        if settle:
            self.settle()
        return node.log.end_offset

    # -- network and time -------------------------------------------------------------------------

    def settle(self) -> None:
        moved = True
        while moved:
            moved = any([self._deliver(link_id) for link_id in list(self.pipes)])

    def _deliver(self, link_id: int) -> bool:
        pipe = self.pipes.get(link_id)
        if pipe is None or pipe.cut or not pipe.queues[link_id]:
            return False
        node = self.nodes[pipe.ends[link_id]]
        if node.broker_id in self.frozen:
            return False
        data = pipe.queues[link_id].popleft()
        if self._chunk_bytes and len(data) > self._chunk_bytes:
            pipe.queues[link_id].appendleft(data[self._chunk_bytes :])
            data = data[: self._chunk_bytes]
        self.perform(node, node.core.link_data(link_id, data, self.now_ms))
        return True

    def advance(self, total_ms: int, step_ms: int = 50) -> None:
        for _ in range(0, total_ms, step_ms):
            self.now_ms += step_ms
            for node in list(self.nodes.values()):
                if node.up and node.broker_id not in self.frozen:
                    self.perform(node, node.core.tick(self.now_ms))
            self.settle()

    def cut_link(self, link_id: int, *, tell: bool = True) -> None:
        pipe = self.pipes.pop(link_id, None)
        if pipe is None:
            return
        for other_id, broker_id in pipe.ends.items():
            self.pipes.pop(other_id, None)
            node = self.nodes[broker_id]
            if tell and node.up:
                self.perform(node, node.core.link_closed(other_id, "connection lost", self.now_ms))

    def links_of(self, broker_id: int) -> list[int]:
        return [key for key, pipe in self.pipes.items() if pipe.ends[key] == broker_id]

    # -- effects ----------------------------------------------------------------------------------

    def perform(self, node: Node, effects: list[fx.Effect]) -> None:
        queue = deque(effects)
        while queue:
            effect = queue.popleft()
            node.performed.append(effect)
            queue.extend(self._perform(node, effect) or ())

    def _perform(self, node: Node, effect: fx.Effect) -> list[fx.Effect] | None:
        match effect:
            case fx.SendBytes(link_id, data):
                self._send(link_id, data)
            case fx.SendRange(link_id, header, offset, count):
                assert offset // FILE_BYTES == (offset + count - 1) // FILE_BYTES
                body = bytes(node.log.data[offset : offset + count])
                assert len(body) == count
                self._send(link_id, header + body)
            case fx.CloseLink(link_id):
                self._close(node, link_id)
            case fx.ConnectHa(address):
                return self._connect(node, int(address))
            case fx.AppendRaw(offset, data):
                assert offset == node.log.end_offset
                node.log.data += data
            case fx.TruncateLog(to_offset):
                ok = node.log.is_record_boundary(to_offset)
                if ok:
                    del node.log.data[to_offset:]
                return node.core.truncated(ok, node.log.end_offset, self.now_ms)
            case fx.CutIncompleteTail():
                del node.log.data[node.log.end_offset // RECORD_BYTES * RECORD_BYTES :]
                return node.core.truncated(True, node.log.end_offset, self.now_ms)
            case fx.FindRecord(broker_id, offset, below):
                found = offset // RECORD_BYTES < below // RECORD_BYTES
                return node.core.record_found(broker_id, offset, found, self.now_ms)
            case fx.WriteEpochs(entries, epoch_seen):
                node.disk_epochs, node.disk_epoch_seen = entries, epoch_seen
            case fx.ProposeSyncSet():
                node.proposals.append(effect)
            case fx.AskController(elect):
                node.asked.append(elect)
        return None

    def _send(self, link_id: int, data: bytes) -> None:
        pipe = self.pipes.get(link_id)
        if pipe is not None:
            (other,) = [key for key in pipe.ends if key != link_id]
            pipe.queues[other].append(data)

    def _close(self, node: Node, link_id: int) -> None:
        pipe = self.pipes.pop(link_id, None)
        if pipe is None:
            return
        (other,) = [key for key in pipe.ends if key != link_id]
        self.pipes.pop(other, None)
        peer = self.nodes[pipe.ends[other]]
        if peer.up:
            self.perform(peer, peer.core.link_closed(other, "closed by peer", self.now_ms))

    def _connect(self, node: Node, target: int) -> list[fx.Effect]:
        peer = self.nodes.get(target)
        if peer is None or not peer.up or target in self.unreachable:
            return node.core.connect_failed(self.now_ms)
        near, far = next(self._link_ids), next(self._link_ids)
        pipe = Pipe({near: node.broker_id, far: target}, {near: deque(), far: deque()})
        self.pipes[near] = self.pipes[far] = pipe
        effects = node.core.link_opened(near, outbound=True, now_ms=self.now_ms)
        self.perform(node, effects)
        self.perform(peer, peer.core.link_opened(far, outbound=False, now_ms=self.now_ms))
        return []
