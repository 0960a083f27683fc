"""The bodies of PROTOCOL 8.5, as Java's classes print them: read by ours, and
what ours writes says the same.

Java prints integer keys without quotes and objects as keys; ours writes standard JSON, which Java
reads as well. So texts are compared as values, and as they are where both dialects print the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.ha.epochs import OFFSET_MAX, EpochHistory
from brokers.membership.controller_messages import (
    Introduction,
    alter_sync_state_set,
    read_alter_answer,
)
from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.replica.ha_status import HaStatus, SlaveSeen
from brokers.service.admin import ha_runtime_info
from brokers.service.tables.offsets import ConsumerOffsets
from brokers.service.tables.topics import TopicConfig
from processors.nameserver.registration import decode_registration
from processors.nameserver.routes import RouteTable
from tests.support.client_service import Desk

TOPIC = (
    '"T":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
    '"topicName":"T","topicSysFlag":0,"writeQueueNums":4}'
)
VERSION = '{"counter":0,"stateVersion":0,"timestamp":1000}'
VECTORS = {
    "route": (
        '{"brokerDatas":[{"brokerAddrs":{0:"1.2.3.4:10911",1:"1.2.3.5:10911"},"brokerName":"b",'
        '"cluster":"C","enableActingMaster":false}],"filterServerTable":{},"queueDatas":'
        '[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    ),
    "lock request": (
        '{"clientId":"id","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":1,"topic":'
        '"T"}],"onlyThisBroker":false}'
    ),
    "lock response": '{"lockOKMQSet":[{"brokerName":"b","queueId":1,"topic":"T"}]}',
    "reset offset": '{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:9}}',
    "sync state set": '{"syncStateSet":[1,2],"syncStateSetEpoch":3}',
    "epoch cache": (
        '{"brokerId":1,"brokerName":"b","clusterName":"C","epochList":[{"endOffset":100,"epoch":1,'
        '"startOffset":0},{"endOffset":9223372036854775807,"epoch":2,"startOffset":100}],'
        '"maxOffset":200}'
    ),
    "elect master": (
        '{"brokerMemberGroup":{"brokerAddrs":{1:"1.2.3.4:10911",2:"1.2.3.5:10911"},"brokerName":'
        '"b","cluster":"C"},"syncStateSet":[1]}'
    ),
    "sync state data": (
        '{"replicasInfoTable":{"b":{"inSyncReplicas":[{"alive":false,"brokerAddress":"1.2.3.4:'
        '10911","brokerId":1,"brokerName":"b"}],"masterAddress":"1.2.3.4:10911","masterBrokerId":'
        '1,"masterEpoch":2,"notInSyncReplicas":[],"syncStateSetEpoch":3}}}'
    ),
    "register broker": ('{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":')
    + VERSION
    + ',"mappingDataVersion":'
    + VERSION
    + (',"topicConfigTable":{')
    + TOPIC
    + '},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}',
    "ha runtime": (
        '{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":'
        '0,"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"a","diff":0,'
        '"inSync":false,"slaveAckOffset":0,"transferFromWhere":0,"transferredByteInSecond":0}],'
        '"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":0}'
    ),
    "consumer offsets": (
        '{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"stateVersion":0,\n\t\t"timestamp":1000\n\t},'
        '\n\t"groupTopicMap":{},\n\t"offsetTable":{\n'
        '\t\t"T@g":{0:5,1:7\n\t\t}\n\t}\n}'
    ),
    "time span": (
        '{"consumeTimeSpanSet":[{"consumeTimeStamp":0,"delayTime":0,"maxTimeStamp":0,'
        '"messageQueue":{"brokerName":"b","queueId":1,"topic":"T"},"minTimeStamp":0}]}'
    ),
}


def value(name: str) -> object:
    return fastjson.loads(VECTORS[name])


@pytest.mark.parametrize("name", VECTORS)
def test_it_is_read_and_ours_writes_the_same(name: str) -> None:
    assert fastjson.loads(fastjson.dumps(value(name))) == value(name)


@pytest.mark.parametrize(
    "name",
    [
        "lock request",
        "lock response",
        "sync state set",
        "epoch cache",
        "sync state data",
        "register broker",
        "ha runtime",
    ],
)
def test_where_both_dialects_print_the_same_the_bytes_are_equal(name: str) -> None:
    assert fastjson.dumps(value(name)).decode() == VECTORS[name]


def test_route_and_registration() -> None:
    table = RouteTable()
    for broker_id, address in ((0, "1.2.3.4:10911"), (1, "1.2.3.5:10911")):
        ext = {
            "brokerName": "b",
            "brokerAddr": address,
            "clusterName": "C",
            "haServerAddr": "1.2.3.4:10912",
            "brokerId": str(broker_id),
            "compressed": "false",
            "bodyCrc32": "0",
            "enableActingMaster": "false",
        }
        # a first registration with one topic only is the kind that pitfall 15 tells of: a second
        # one beside it
        body = VECTORS["register broker"].replace(TOPIC, TOPIC + "," + TOPIC.replace('"T"', '"U"'))
        table.register(
            decode_registration(RemotingCommand.request(103, ext, body.encode())), broker_id, 1
        )
    assert fastjson.loads(fastjson.dumps(table.route("T"))) == value("route")


async def test_lock_request_and_its_answer(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().tables.topics.put([TopicConfig("T", 8, 8)], 0)
        answer = await desk.ask(RemotingCommand.request(41, body=VECTORS["lock request"].encode()))
        assert answer.body.decode() == VECTORS["lock response"]


def test_sync_state_set_as_question_and_as_answer() -> None:
    asked = alter_sync_state_set(
        Introduction("C", "b", "1.2.3.4:10911", "1.2.3.4:10912", "i"), 1, (1, 2), 3, 2, "c", 1
    )
    assert fastjson.loads(asked.body) == value("sync state set")
    answer = read_alter_answer(
        RemotingCommand.request(1001).reply(
            0, {"newSyncStateSetEpoch": "3"}, VECTORS["sync state set"].encode()
        )
    )
    assert (answer.code, answer.members, answer.set_epoch) == (0, (1, 2), 3)


def test_epoch_cache_has_an_open_end() -> None:
    found = value("epoch cache")
    assert isinstance(found, dict)
    history = EpochHistory.from_pairs(
        (row["epoch"], row["startOffset"]) for row in found["epochList"]
    )
    assert [history.end_of(row["epoch"], OFFSET_MAX) for row in found["epochList"]] == [
        row["endOffset"] for row in found["epochList"]
    ]


def test_ha_runtime_of_a_master() -> None:
    slave = SlaveSeen("a", 2, False, acked=0, next_offset=0, bytes_per_second=0)
    body = ha_runtime_info(HaStatus((slave,)), is_master=True, members=1, log_end=0, wall_ms=0)
    assert fastjson.dumps(body).decode() == VECTORS["ha runtime"]


def test_consumer_offsets_as_a_file() -> None:
    offsets = ConsumerOffsets.from_wire(value("consumer offsets"))
    table = fastjson.loads(offsets.text())["offsetTable"]
    assert fastjson.loads(fastjson.dumps(table)) == {"T@g": {"0": 5, "1": 7}}
