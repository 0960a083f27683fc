"""What operators and other processes ask a broker about itself: 19002, 1007, 906, 907, 28
(RULES 3.13).

Responsible for: these answers, from facts it is given. Refuses to know: where the facts come from,
how they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from brokers.clock import Clock
from brokers.ha.epochs import EpochHistory
from brokers.remoting import fastjson
from brokers.remoting.addresses import split_address
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.ha_status import HaStatus, MasterSeen, SlaveSeen
from brokers.service.role.services import Served, Service


def ha_runtime_info(
    ha: HaStatus, *, is_master: bool, members: int, log_end: int, wall_ms: int
) -> dict[str, object]:
    """`members`: the size of the SyncStateSet, the master counted. A slave's counts are zero, as a
    Java slave's are.
    """
    return {
        "haClientRuntimeInfo": _client(
            MasterSeen(None) if ha.master is None else ha.master,
            0 if is_master else log_end,
            wall_ms,
        ),
        "haConnectionInfo": [_connection(one, log_end) for one in ha.slaves] if is_master else [],
        "inSyncSlaveNums": max(0, members - 1) if is_master else 0,
        "master": is_master,
        "masterCommitLogMaxOffset": log_end if is_master else 0,
    }


def _connection(slave: SlaveSeen, log_end: int) -> dict[str, object]:
    return {
        "addr": slave.address,
        "diff": log_end - slave.acked,
        "inSync": slave.in_sync,
        "slaveAckOffset": slave.acked,
        "transferFromWhere": slave.next_offset,
        "transferredByteInSecond": slave.bytes_per_second,
    }


def _client(master: MasterSeen, log_end: int, wall_ms: int) -> dict[str, object]:
    """`masterAddr` is where the master takes HA links, not where it serves. Ours never learns its
    flush offset.
    """
    fields: dict[str, object] = {
        "lastReadTimestamp": _moment(master.read_ms_ago, wall_ms),
        "lastWriteTimestamp": _moment(master.written_ms_ago, wall_ms),
        "masterFlushOffset": 0,
        "maxOffset": log_end,
        "transferredByteInSecond": master.bytes_per_second,
    }
    return fields if master.ha_address is None else {"masterAddr": master.ha_address, **fields}


def _moment(ms_ago: int | None, wall_ms: int) -> int:
    return 0 if ms_ago is None else wall_ms - ms_ago


OPEN_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One moment of a broker. Offsets in bytes of the log; `role_id` is 0 for the master, else the
    broker id. `write_refusal`: why the replica takes no send now, `store_refusal`: why its disk
    takes no bytes; `records_damaged` are those known now, the other two count since the start.
    `slots_taken`: messages that no queue shows, for others have their slots; `queue_ends_behind`:
    queues of which this slave has seen more than its master; `start_passed_over`: damaged records
    that the last start found; `leaves_in_ms`: it is asked to stop, and still passes on what clients
    with an old route send. Of a set without controllers, `acts`: this slave acts for its master
    (PROTOCOL 7.2), `waits_for`: what keeps it from going online (7.3).
    """

    ready: bool
    cluster_name: str
    broker_name: str
    broker_id: int | None
    address: str
    ha_address: str
    incarnation: str
    clean: bool
    role: str
    master_id: int | None
    master_address: str | None
    master_epoch: int
    epochs: tuple[tuple[int, int], ...]
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    log_min: int
    log_end: int
    confirm_offset: int
    dispatched_offset: int
    controller: str | None
    ack_mode: str
    async_learner: bool
    write_refusal: str | None
    store_refusal: str | None
    records_damaged: int
    records_refused: int
    records_repaired: int
    slots_taken: int
    queue_ends_behind: int
    start_passed_over: int
    waiting_sends: int
    held_pulls: int
    forwarded: int
    events_reported: int
    events_dropped: int
    topics: int
    started_ms: int
    leaves_in_ms: int | None = None
    acts: bool = False
    waits_for: str | None = None

    @property
    def role_id(self) -> int:
        return 0 if self.role == "MASTER" else self.broker_id or 0

    def to_json(self) -> dict[str, object]:
        """The body of 19002. None stays out of it."""
        fields: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        fields["epochs"] = [{"epoch": epoch, "startOffset": start} for epoch, start in self.epochs]
        return {"kind": "broker", "role_id": self.role_id, **fields}


def epoch_cache(status: BrokerStatus, epochs: EpochHistory) -> dict[str, object]:
    """The body of 1007; the newest entry has no end yet."""
    entries = epochs.entries
    ends = [entry.start_offset for entry in entries[1:]] + [OPEN_END]
    rows = [
        {"endOffset": end, "epoch": entry.epoch, "startOffset": entry.start_offset}
        for entry, end in zip(entries, ends, strict=True)
    ]
    return {
        "brokerId": status.role_id,
        "brokerName": status.broker_name,
        "clusterName": status.cluster_name,
        "epochList": rows,
        "maxOffset": status.log_end,
    }


def _is_address(text: str) -> bool:
    try:
        split_address(text)
    except ValueError:
        return False
    return True


class AdminRequests(Service):
    """`status()`, `epochs()`, `ha()` and `runtime()` tell the present. `told(master address, HA
    address, whose word)`: of a master that says where it takes links, where no controller does.
    """

    def __init__(
        self,
        status: Callable[[], BrokerStatus],
        epochs: Callable[[], EpochHistory],
        ha: Callable[[], HaStatus],
        clock: Clock,
        runtime: Callable[[], Mapping[str, str]],
        told: Callable[[str, str, HaAddressSource], None] | None = None,
    ) -> None:
        self._told = told
        self._status = status
        self._runtime = runtime
        self._epochs = epochs
        self._ha = ha
        self._clock = clock

    def serves(self) -> dict[int, Served]:
        """Every replica answers for itself."""
        return {
            RequestCode.REGENT_PROCESS_STATUS: Served(self.process_status),
            RequestCode.GET_BROKER_EPOCH_CACHE: Served(self._epoch_cache),
            RequestCode.EXCHANGE_BROKER_HA_INFO: Served(self._ha_address),
            RequestCode.GET_BROKER_HA_STATUS: Served(self._ha_status),
            RequestCode.GET_BROKER_RUNTIME_INFO: Served(self._runtime_info),
        }

    def process_status(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """19002."""
        return request.reply(body=fastjson.dumps(self._status().to_json()))

    def _epoch_cache(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.reply(body=fastjson.dumps(epoch_cache(self._status(), self._epochs())))

    def _ha_address(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """906: where a master takes links. A slave gives no answer, and adopts none where it
        follows the controller only.
        """
        status = self._status()
        given, master = request.ext.get("masterHaAddress"), request.ext.get("masterAddress")
        if given:
            if self._told is not None and master and _is_address(given):
                self._told(master, given, HaAddressSource.MASTER)
            return request.reply()
        if status.role != "MASTER":
            return request.reply()
        return request.reply(
            ext={"masterHaAddress": status.ha_address, "masterAddress": status.address}
        )

    def _ha_status(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        status = self._status()
        body = ha_runtime_info(
            self._ha(),
            is_master=status.role == "MASTER",
            members=len(status.sync_state_set),
            log_end=status.log_end,
            wall_ms=self._clock.wall_ms(),
        )
        return request.reply(body=fastjson.dumps(body))

    def _runtime_info(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.reply(body=fastjson.dumps({"table": self._runtime()}))
