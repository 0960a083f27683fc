"""What a broker tells about itself."""

from __future__ import annotations

from dataclasses import replace

from brokers.clock import Clock
from brokers.ha.epochs import EpochHistory
from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.replica.ha_status import HaStatus, MasterSeen, SlaveSeen
from brokers.service.admin import AdminRequests, BrokerStatus, epoch_cache, ha_runtime_info
from infra.migration.import_plan import ha_facts

STATUS = BrokerStatus(
    ready=True,
    cluster_name="C",
    broker_name="b",
    broker_id=2,
    address="h:1",
    ha_address="h:2",
    incarnation="i",
    clean=True,
    role="MASTER",
    master_id=2,
    master_address="h:1",
    master_epoch=2,
    epochs=((1, 0), (2, 100)),
    sync_state_set=(1, 2),
    sync_state_set_epoch=3,
    log_min=0,
    log_end=200,
    confirm_offset=200,
    dispatched_offset=200,
    controller="c:1",
    ack_mode="all-ack",
    async_learner=False,
    write_refusal=None,
    store_refusal=None,
    records_damaged=0,
    records_refused=0,
    records_repaired=0,
    slots_taken=0,
    queue_ends_behind=0,
    start_passed_over=0,
    waiting_sends=0,
    held_pulls=0,
    forwarded=0,
    events_reported=0,
    events_dropped=0,
    topics=1,
    started_ms=5,
)
HA = HaStatus(slaves=(SlaveSeen("h:5", 1, True, 150, 200, 7),))
EPOCHS = EpochHistory.from_pairs([(1, 0), (2, 100)])


def answer_to(request: RemotingCommand, status: BrokerStatus = STATUS) -> RemotingCommand:
    admin = AdminRequests(
        lambda: status, lambda: EPOCHS, lambda: HA, Clock(), lambda: {"brokerVersionDesc": "V5_3_3"}
    )
    answer = admin.serves()[request.code].handler(None, request)  # type: ignore[arg-type]
    assert answer.code == 0
    return answer


def ask(code: int, status: BrokerStatus = STATUS) -> object:
    answer = answer_to(RemotingCommand.request(code), status)
    return fastjson.loads(answer.body)


def test_the_epoch_cache_has_javas_shape() -> None:
    assert epoch_cache(replace(STATUS, role="SLAVE", broker_id=1), EPOCHS) == {
        "brokerId": 1,
        "brokerName": "b",
        "clusterName": "C",
        "epochList": [
            {"endOffset": 100, "epoch": 1, "startOffset": 0},
            {"endOffset": 2**63 - 1, "epoch": 2, "startOffset": 100},
        ],
        "maxOffset": 200,
    }
    assert ask(1007) == epoch_cache(STATUS, EPOCHS) and epoch_cache(STATUS, EPOCHS)["brokerId"] == 0


def test_the_process_status_names_role_and_offsets() -> None:
    status = ask(19002)
    assert isinstance(status, dict)
    assert (
        status["kind"] == "broker"
        and status["role_id"] == 0
        and status["log_end"] == 200
        and "write_refusal" not in status
    )


def test_ha_status_and_runtime_info_have_what_admin_tools_read() -> None:
    ha, info = ask(907), ask(28)
    assert isinstance(ha, dict) and ha["master"] is True and ha["inSyncSlaveNums"] == 1
    assert ha["haConnectionInfo"][0]["addr"] == "h:5" and ha["haConnectionInfo"][0]["diff"] == 50
    assert info == {"table": {"brokerVersionDesc": "V5_3_3"}}


def test_only_a_master_says_where_it_takes_links() -> None:
    asked = RemotingCommand.request(906)
    assert answer_to(asked).ext == {"masterHaAddress": "h:2", "masterAddress": "h:1"}
    assert not answer_to(asked, replace(STATUS, role="SLAVE")).ext
    assert not answer_to(RemotingCommand.request(906, {"masterHaAddress": "x:1"})).ext


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
