"""The body of 907 has Java's names, and what the importer of sets reads out of it."""

from __future__ import annotations

from brokers.replica.ha_status import HaStatus, MasterSeen, SlaveSeen
from brokers.service.ha_report import ha_runtime_info
from infra.migration.import_plan import ha_facts

LINKED = SlaveSeen("10.0.0.2:4711", 2, True, acked=150, next_offset=200, bytes_per_second=2048)
FRESH = SlaveSeen("10.0.0.3:4712", None, False, acked=-1, next_offset=-1, bytes_per_second=0)


def test_a_master_names_its_slaves_and_how_far_they_are() -> None:
    body = ha_runtime_info(
        HaStatus((LINKED, FRESH)), is_master=True, members=2, log_end=200, wall_ms=9
    )
    assert (
        body["master"] is True
        and body["masterCommitLogMaxOffset"] == 200
        and body["inSyncSlaveNums"] == 1
    )
    assert body["haConnectionInfo"] == [
        {
            "addr": "10.0.0.2:4711",
            "diff": 50,
            "inSync": True,
            "slaveAckOffset": 150,
            "transferFromWhere": 200,
            "transferredByteInSecond": 2048,
        },
        {
            "addr": "10.0.0.3:4712",
            "diff": 201,
            "inSync": False,
            "slaveAckOffset": -1,
            "transferFromWhere": -1,
            "transferredByteInSecond": 0,
        },
    ]
    assert body["haClientRuntimeInfo"] == {
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterFlushOffset": 0,
        "maxOffset": 0,
        "transferredByteInSecond": 0,
    }


def test_a_slave_names_where_its_master_takes_links() -> None:
    body = ha_runtime_info(
        HaStatus(master=MasterSeen("m:4711", 10, 20, 5)),
        is_master=False,
        members=2,
        log_end=200,
        wall_ms=1000,
    )
    assert body == {
        "haClientRuntimeInfo": {
            "masterAddr": "m:4711",
            "maxOffset": 200,
            "lastReadTimestamp": 990,
            "lastWriteTimestamp": 980,
            "masterFlushOffset": 0,
            "transferredByteInSecond": 5,
        },
        "haConnectionInfo": [],
        "inSyncSlaveNums": 0,
        "master": False,
        "masterCommitLogMaxOffset": 0,
    }


def test_without_a_link_no_time_is_made_up() -> None:
    body = ha_runtime_info(
        HaStatus(master=MasterSeen(None)), is_master=False, members=0, log_end=200, wall_ms=1000
    )
    assert body["haClientRuntimeInfo"] == {
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterFlushOffset": 0,
        "maxOffset": 200,
        "transferredByteInSecond": 0,
    }


def test_the_importer_finds_what_proves_a_set() -> None:
    master = ha_facts(
        "m:1",
        ha_runtime_info(HaStatus((LINKED,)), is_master=True, members=2, log_end=200, wall_ms=0),
    )
    assert master is not None and (
        master.is_master,
        master.in_sync_slaves,
        master.links_in_sync,
        master.end_offset,
    ) == (True, 1, 1, 200)
    follower = ha_runtime_info(
        HaStatus(master=MasterSeen("m:4711", 0, 0)),
        is_master=False,
        members=2,
        log_end=200,
        wall_ms=0,
    )
    slave = ha_facts("s:1", follower)
    assert slave is not None and (slave.is_master, slave.master_ha_address, slave.end_offset) == (
        False,
        "m:4711",
        200,
    )
