"""
What a simulated broker says to clients: sends into its log, reads out of its queue.

Responsible for: carrying a send to the store, to whom confirms and to whom syncs, and a read to the queue.
Refuses to know: which outcome is called what (brokers.replica.put_rules), what makes a message a good one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from brokers.log import segments
from brokers.log.errors import DiskFull
from brokers.log.flush_queue import Flushed, FlushQueue
from brokers.log.records import MessageFields, encode_blank, encode_message, host_bytes, message_size
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.replica import put_rules
from brokers.replica.put_rules import PutStatus
from brokers.replica.waiters import Confirmation
from brokers.service import send_request
from brokers.service.topics import TopicConfig
from tests.simulation.blocks import PowerCut
from tests.simulation.disk import FILE_BYTES
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

SEND_DEADLINE_MS = 3_000
SYNC_DEADLINE_MS = 600
SYNC_USUAL_MS = (1, 8)
TOPIC = "simulated"
CONFIG = TopicConfig(TOPIC)
# As clients write them; no checksum covers them.
PROPERTIES = b"UNIQ_KEY\x017F00000100002A9F0000018BCFE56801\x02WAIT\x01true\x02"
HOST = host_bytes("127.0.0.1", 1)


class Put:
    """A message that is in the log and not answered yet."""

    def __init__(self, wire: Wire, request: RemotingCommand, epoch: int, start: int, end: int) -> None:
        self.wire = wire
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

    def request(self, wire: Wire, request: RemotingCommand) -> None:
        """10 and 11."""
        if request.code == RequestCode.PULL_MESSAGE:
            self._read(wire, request)
        else:
            self._send(wire, request)

    def _answer(self, wire: Wire, request: RemotingCommand, code: int, remark: str | None = None, body: bytes = b"") -> None:
        self.world.count(f"answer.{int(code)}")
        wire.send(request.reply(code, body=body, remark=remark))

    # -- sends -------------------------------------------------------------------------------------

    def _send(self, wire: Wire, request: RemotingCommand) -> None:
        shell = self.node.shell
        if shell is None or not shell.core.is_master:
            return self._answer(wire, request, ResponseCode.NO_PERMISSION)
        unfit = send_request.refusal(send_request.parse_v1(request.ext), CONFIG, request.body) if request.ext else None
        if unfit is not None:
            return self._answer(wire, request, unfit.code, unfit.remark)
        kept_out = self._gate.refusal(self.world.now_ms, self.world.now_ms) or put_rules.admit(shell.core.can_accept_writes(), waits=True)
        if kept_out is not None:
            return self._answer(wire, request, *kept_out)
        try:
            start = self._append(request.body)
        except DiskFull as error:
            return self._answer(wire, request, *put_rules.code_of(PutStatus.SERVICE_NOT_AVAILABLE, str(error)))
        except OSError as error:
            self._answer(wire, request, *put_rules.code_of(PutStatus.SERVICE_NOT_AVAILABLE, str(error)))
            self.world.count("disk.error")
            return shell.storage_failed(str(error))
        except PowerCut:
            return self.node.power_cut()
        hung_ms = self.node.stand_still_for_append()
        self._gate.appended(self.world.now_ms, self.world.now_ms + hung_ms)
        put = Put(wire, request, shell.core.master_epoch, start, self.disk.log_end)
        if self.node.cluster.shape.sync_flush:
            self._flushes.add(put.end, put)
            self.node.later(SYNC_DEADLINE_MS, lambda: self._flushed(put, Flushed.TIMED_OUT))
            self._begin_flush()
        else:
            put.flushed = Flushed.DURABLE
        shell.log_grew(put.end)
        shell.confirmation(put.end, SEND_DEADLINE_MS, partial(self._confirmed, put))

    def _append(self, body: bytes) -> int:
        """Write one message at the end of the log, behind a blank record when the file is full; its offset."""
        fields = MessageFields(TOPIC, 0, body, PROPERTIES, self.world.wall_ms, HOST, HOST)
        size = message_size(fields)
        at = self.disk.log_end
        left = FILE_BYTES - at % FILE_BYTES
        if segments.needs_new_file(left, size):
            blank = encode_blank(left)
            self.disk.append(blank + bytes(left - len(blank)))
            at += left
        self.disk.append(encode_message(fields, size, 0, at, self.world.wall_ms))
        return at

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
        if put.request is None or put.confirmed is None or put.confirmed is Confirmation.CONFIRMED and put.flushed is None:
            return
        code, remark = put_rules.code_of(put_rules.combine(put.confirmed, put.flushed or Flushed.DURABLE))
        request, put.request = put.request, None
        if code in (ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT):
            data = bytes(self.disk.log[put.start : put.end])
            self.node.cluster.checkers.acknowledged(self.node, put.epoch, put.start, data, durable=code == ResponseCode.SUCCESS)
        self._answer(put.wire, request, code, remark)

    # -- reads -------------------------------------------------------------------------------------

    def _read(self, wire: Wire, request: RemotingCommand) -> None:
        """One message of the queue, from the slot that the body names; the master serves."""
        shell, slot = self.node.shell, int(request.body)
        if shell is None or not shell.core.is_master:
            self._answer(wire, request, ResponseCode.NO_PERMISSION)
        elif slot >= len(self.disk.queue):
            self._answer(wire, request, ResponseCode.PULL_NOT_FOUND)
        else:
            data, problem = self.disk.served(slot)
            code = ResponseCode.SYSTEM_ERROR if problem else ResponseCode.SUCCESS
            self._answer(wire, request, code, problem or None, b"" if problem else data)
