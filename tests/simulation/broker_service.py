"""What a simulated broker says to clients: sends into its log, reads out of its queue, by itself
or by its master.

Responsible for: carrying a send to the store, to whom confirms and to whom syncs, and a read to the
queue.
Refuses to know: which outcome is called what (brokers.replica.put_rules), what makes a message a
good one, who serves what for whom (brokers.service.role.forward).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer
from brokers.remoting.fields import FORWARDED_FOR
from brokers.replica import put_rules
from brokers.replica.effects import RoleChanged
from brokers.replica.put_rules import PutStatus
from brokers.replica.waiters import Confirmation
from brokers.service.reading import pull_request
from brokers.service.role.forward import Forwarder
from brokers.service.role.role_view import RoleView
from brokers.service.sending import request as send_request
from brokers.service.sending.messages import MessageMaker
from brokers.service.tables.topics import TopicConfig, TopicTable
from brokers.store.files.errors import DiskFull
from brokers.store.log.group_commit import Flushed, FlushQueue
from brokers.store.log.integrity import QueueCheck
from brokers.store.log.records import MessageFields, host_bytes
from brokers.store.queues import query
from brokers.store.queues.query import GetStatus
from tests.simulation.blocks import PowerCut
from tests.simulation.disk import QUEUE_ID, TOPIC
from tests.simulation.handing_over import HandingOver
from tests.simulation.passing_on import Asked, Calls, peer_of
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

SEND_DEADLINE_MS = 3_000
SYNC_DEADLINE_MS = 600
SYNC_USUAL_MS = (1, 8)
HOLD_MS = 600
HOST = host_bytes("127.0.0.1", 1)
CHECK = QueueCheck(TOPIC, QUEUE_ID)


class Put:
    """A message that is in the log and not answered yet."""

    def __init__(
        self, connection: Asked, request: RemotingCommand, epoch: int, start: int, end: int
    ) -> None:
        self.connection = connection
        self.request: RemotingCommand | None = request
        self.epoch, self.start, self.end = epoch, start, end
        self.confirmed: Confirmation | None = None
        self.flushed: Flushed | None = None


class BrokerService:
    """One life of a broker towards its clients."""

    def __init__(self, node: BrokerNode) -> None:
        self.node, self.world, self.disk = node, node.world, node.disk
        self._flushes: FlushQueue[Put] = FlushQueue(self._flushed)
        self._gate = put_rules.BusyGate()
        self._loop = VirtualLoop(node.world, node)
        self._roles = RoleView()
        self._topics = TopicTable([TopicConfig(TOPIC)])
        self._maker = MessageMaker(node.cluster.cluster_name, HOST)
        calls = Calls(node, self._loop)
        self._forwarder = Forwarder(self._roles, calls, HOLD_MS, self._is_replica)  # type: ignore[arg-type]
        self._sends = self._forwarder.by_master(self._send, writes=True)  # type: ignore[arg-type]
        self._reads = self._forwarder.by_master(self._read, repeatable=True)  # type: ignore[arg-type]
        self._unanswered = 0
        self.hand_over = HandingOver(
            node, self._loop, self._roles, self._forwarder, calls, lambda: self._unanswered, HOLD_MS
        )

    @property
    def takes_writes(self) -> bool:
        return self._roles.serves(writes=True)

    def _is_replica(self, peer: str) -> bool:
        return any(peer == peer_of(one) for one in self.node.cluster.brokers)

    def role_changed(self, effect: RoleChanged) -> None:
        """As `role_switch`: queues go on behind all of the log before anyone is served."""
        if effect.role == "MASTER":
            self.disk.mastership_begins()
        self._roles.changed(effect)

    def request(self, wire: Wire, request: RemotingCommand) -> None:
        """10, 11 and 19012."""
        connection = Asked(wire, self.node)
        if request.code == RequestCode.REGENT_HAND_OVER:
            self._answer(connection, self.hand_over.serve(connection, request))
            return
        handler = self._reads if request.code == RequestCode.PULL_MESSAGE else self._sends
        self._answer(connection, handler(connection, request))  # type: ignore[arg-type]

    def _answer(self, connection: Asked, answer: Answer) -> None:
        if isinstance(answer, RemotingCommand):
            connection.send(answer)
        elif answer is not None:
            task = self._loop.create_task(answer)  # type: ignore[arg-type]
            task.add_done_callback(lambda done: self._answer(connection, done.result()))

    # -- sends -------------------------------------------------------------------------------------

    def _send(self, connection: Asked, request: RemotingCommand) -> Answer:
        shell = self.node.shell
        if shell is None or not shell.core.is_master:  # the role view hears of it a moment later
            return self._forwarder.handle(connection, request, self._send, writes=True)  # type: ignore[arg-type]
        if FORWARDED_FOR in request.ext:
            self.world.count("forward.served")
        made = self._messages(connection, request)
        if isinstance(made, send_request.Refusal):
            return request.reply(made.code, remark=made.remark)
        kept_out = self._gate.refusal(self.world.now_ms, self.world.now_ms) or put_rules.admit(
            shell.core.write_refusal(), waits=True
        )
        if kept_out is not None:
            return request.reply(kept_out[0], remark=kept_out[1])
        try:
            start = self.disk.put(made, self.node.wall_ms)
        except DiskFull as error:
            return self._unavailable(request, error)
        except OSError as error:
            self.world.count("disk.error")
            shell.storage_failed(str(error))
            return self._unavailable(request, error)
        except PowerCut:
            self.node.power_cut()
            return None
        self.node.cluster.checkers.ledger.stored(made)
        self._stored(Put(connection, request, shell.core.master_epoch, start, self.disk.log_end))
        return None

    def _messages(
        self, connection: Asked, request: RemotingCommand
    ) -> list[MessageFields] | send_request.Refusal:
        """What is to be stored, or why not, as `SendService` finds it."""
        send = send_request.parse_v1(request.ext)
        config = self._topics.get(send.topic)
        unfit = (
            send_request.topic_refusal(send.topic)
            if config is None
            else send_request.refusal(send, config, request.body)
        )
        if (
            unfit is None
            and config is None
            and self._topics.for_first_send(send.topic, send.default_topic, 1, False) is None
        ):
            unfit = send_request.Refusal(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {send.topic} does not exist"
            )
        return unfit or self._maker.messages(connection, request, send, send.queue_id)  # type: ignore[arg-type]

    @staticmethod
    def _unavailable(request: RemotingCommand, error: Exception) -> RemotingCommand:
        code, remark = put_rules.code_of(PutStatus.SERVICE_NOT_AVAILABLE, str(error))
        return request.reply(code, remark=remark)

    def _stored(self, put: Put) -> None:
        shell = self.node.shell
        assert shell is not None
        self._unanswered += 1
        hung_ms = self.node.stand_still_for_append()
        self._gate.appended(self.world.now_ms, self.world.now_ms + hung_ms)
        if self.node.cluster.shape.sync_flush:
            self._flushes.add(put.end, put)
            self.node.later(SYNC_DEADLINE_MS, lambda: self._flushed(put, Flushed.TIMED_OUT))
            self._begin_flush()
        else:
            put.flushed = Flushed.DURABLE
        shell.log_grew(put.end)
        shell.confirmation(put.end, SEND_DEADLINE_MS, partial(self._confirmed, put))

    def _begin_flush(self) -> None:
        if self._flushes.begin():
            end = self.disk.begin_sync(self._flush_over)
            self.node.later(self.disk.slow_ms + self.world.between(*SYNC_USUAL_MS), end)

    def _flush_over(self, flushed_offset: int) -> None:
        self._flushes.done(flushed_offset)
        self._begin_flush()

    def _confirmed(self, put: Put, how: Confirmation) -> None:
        put.confirmed = how
        self._settle(put)

    def _flushed(self, put: Put, how: Flushed) -> None:
        if put.flushed is None:
            put.flushed = how
            self._settle(put)

    def _settle(self, put: Put) -> None:
        """As `SendService`: a confirmed message waits for the disk, another outcome does not."""
        if (
            put.request is None
            or put.confirmed is None
            or (put.confirmed is Confirmation.CONFIRMED and put.flushed is None)
        ):
            return
        code, remark = put_rules.code_of(
            put_rules.combine(put.confirmed, put.flushed or Flushed.DURABLE)
        )
        request, put.request = put.request, None
        self._unanswered -= 1
        if code in (ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT):
            data = bytes(self.disk.log[put.start : put.end])
            self.node.cluster.checkers.acknowledged(
                self.node, put.epoch, put.start, data, durable=code == ResponseCode.SUCCESS
            )
        put.connection.send(request.reply(code, remark=remark))

    # -- reads -------------------------------------------------------------------------------------

    def _read(self, connection: Asked, request: RemotingCommand) -> Answer:
        """One message of the queue, from the slot that the body names; another slot when that one
        is deleted.
        """
        slot, log, queue = int(request.body), self.disk.store_log, self.disk.queue
        result = query.get_messages(log, queue, slot, 1, None, len(self.disk.log), CHECK)  # type: ignore[arg-type]
        if result.status is GetStatus.FOUND:
            return request.reply(ResponseCode.SUCCESS, body=result.body)
        code = pull_request.code_of(result.status.value, slot)
        return request.reply(
            code, body=str(result.next_offset).encode(), remark=result.status.value
        )
