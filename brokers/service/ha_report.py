"""The body of 907, as RocketMQ's HARuntimeInfo of AutoSwitch HA (`controller.md` 12, `haStatus`).

Responsible for: names and meaning of its fields. Refuses to know: where the facts come from.
"""

from __future__ import annotations

from brokers.replica.ha_status import HaStatus, MasterSeen, SlaveSeen


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
