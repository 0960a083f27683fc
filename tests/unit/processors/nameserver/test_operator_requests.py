"""What operators ask a name server, over real sockets, by the numbers of the check list (24, 80 to
87).
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting.command import RemotingCommand
from processors.nameserver.config import NameServerConfig, load
from processors.nameserver.names import NAMES
from processors.nameserver.operator_requests import OperatorRequests
from processors.nameserver.records import TopicQueues
from processors.nameserver.routes import RouteTable
from tests.unit.processors.nameserver.test_process import A, B, name_server

KV = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Life"}


async def perms(caller, topic="Life"):
    route = await caller.body(105, topic=topic)
    return [row["perm"] for row in route["queueDatas"]]


async def test_80_a_broker_without_writes_stays_so_while_it_says_nothing_new_and_comes_back():
    async with name_server() as caller:
        await caller.register()
        answer = await caller.call(205, {"brokerName": "g"})
        assert (answer.code, answer.ext) == (0, {"wipeTopicCount": "2"})
        assert (await caller.call(205, {"brokerName": "g"})).ext == {"wipeTopicCount": "2"}
        await caller.register()
        assert await perms(caller) == [4]
        assert (await caller.call(327, {"brokerName": "g"})).ext == {"addTopicCount": "2"}
        assert await perms(caller) == [6]
        await caller.call(205, {"brokerName": "g"})
        await caller.register(state_version=2)
        assert await perms(caller) == [6]
        assert (await caller.call(205, {"brokerName": "x"})).ext == {"wipeTopicCount": "0"}
        assert (await caller.call(205)).code == 1


async def test_81_keys_and_values_round_trip_and_survive_a_restart(tmp_path):
    async with name_server(data_dir=str(tmp_path)) as caller:
        assert (await caller.call(100, KV | {"value": "g:2"})).code == 0
        assert (await caller.call(100, {"namespace": "", "key": "k", "value": "v"})).remark == (
            "namespace or key is null"
        )
        assert (await caller.call(100, {"namespace": "n", "key": "k"})).code == 1
    async with name_server(data_dir=str(tmp_path)) as caller:
        assert (await caller.call(101, KV)).ext == {"value": "g:2"}
        listed = await caller.body(219, namespace="ORDER_TOPIC_CONFIG")
        assert listed == {"table": {"Life": "g:2"}}
        assert (await caller.call(102, KV)).code == (await caller.call(102, KV)).code == 0
        answer = await caller.call(101, KV)
        assert (answer.code, answer.remark) == (
            22,
            "No config item, Namespace: ORDER_TOPIC_CONFIG Key: Life",
        )
        answer = await caller.call(219, {"namespace": "N"})
        assert (answer.code, answer.remark) == (22, "No config item, Namespace: N")


async def test_what_would_not_survive_is_refused_with_the_way_out():
    async with name_server() as caller:
        for code, ext, body in (
            (100, KV | {"value": "v"}, b""),
            (318, {}, b"orderMessageEnable=true"),
        ):
            answer = await caller.call(code, ext, body)
            assert answer.code == 1 and "set data_dir" in answer.remark
        assert (await caller.call(102, KV)).code == 0


async def test_24_order_configuration_reaches_producers_only_where_it_is_enabled(tmp_path):
    async with name_server(data_dir=str(tmp_path)) as caller:
        await caller.call(100, KV | {"value": "g:2"})
        answer = await caller.register()
        assert json.loads(answer.body) == {"table": {"Life": "g:2"}}
        assert "orderTopicConf" not in await caller.body(105, topic="Life")
        assert (await caller.call(318, {}, b"orderMessageEnable=true")).code == 0
        assert (await caller.body(105, topic="Life"))["orderTopicConf"] == "g:2"
        assert "orderTopicConf" not in await caller.body(105, topic="TBW102")
        await caller.call(318, {}, b"returnOrderTopicConfigToBroker=false")
        assert (await caller.register()).body == b""


async def test_82_lists_of_topics_and_their_switches(tmp_path):
    async with name_server(data_dir=str(tmp_path)) as caller:
        await caller.register()
        assert await caller.body(304) == {"brokerAddr": A, "topicList": ["DefaultCluster", "g"]}
        assert (await caller.body(224, cluster="DefaultCluster"))["topicList"] == ["Life", "TBW102"]
        assert (await caller.body(224, cluster="x"))["topicList"] == []
        for code in (311, 312, 313):
            assert (await caller.body(code))["topicList"] == []
        await caller.call(318, {}, b"enableTopicList=false\nenableAllTopicList=false")
        for code, ext in ((206, {}), (224, {"cluster": "c"}), (311, {}), (312, {}), (313, {})):
            answer = await caller.call(code, ext)
            assert (answer.code, answer.remark) == (1, "disable")


def test_82_unit_topics_by_their_flags():
    table = RouteTable()
    table._topics = {
        name: {"b": TopicQueues(1, 1, 6, flags)}
        for name, flags in (("none", 0), ("unit", 1), ("sub", 2), ("both", 3))
    }
    assert table.topics_flagged(1) == ["both", "unit"]
    assert table.topics_flagged(2) == ["both", "sub"] and table.topics_flagged(2, 1) == ["sub"]


async def test_83_a_topic_goes_everywhere_or_in_one_cluster_until_its_broker_names_it_again():
    async with name_server() as caller:
        await caller.register()
        assert (await caller.call(216, {"topic": "Life", "clusterName": "other"})).code == 0
        assert await caller.route() == {"0": A}
        assert (
            await caller.call(216, {"topic": "Life", "clusterName": "DefaultCluster"})
        ).code == 0
        assert await caller.route() is None
        await caller.register(topics=("TBW102", "Other"))
        assert await caller.route() is None
        await caller.register()
        assert await caller.route() == {"0": A}
        assert (await caller.call(216, {"topic": "Life"})).code == 0
        assert (await caller.call(216, {"topic": "Life"})).code == 0
        assert await caller.route() is None and (await caller.call(216)).code == 1


async def test_217_a_topic_that_an_operator_names_is_taken_of_registered_brokers():
    rows = [
        {"brokerName": name, "perm": 6, "readQueueNums": 3, "writeQueueNums": 3}
        for name in ("g", "unknown")
    ]
    async with name_server() as caller:
        await caller.register()
        body = json.dumps({"queueDatas": rows, "brokerDatas": []}).encode()
        assert (await caller.call(217, {"topic": "New"}, body)).code == 0
        assert (await caller.call(217, {"topic": "Life"}, body)).code == 0
        assert [
            row["readQueueNums"] for row in (await caller.body(105, topic="New"))["queueDatas"]
        ] == [3]
        assert [
            row["readQueueNums"] for row in (await caller.body(105, topic="Life"))["queueDatas"]
        ] == [3]
        for bad in (
            b"",
            b"[]",
            b'{"queueDatas":[{"brokerName":3}]}',
            b'{"queueDatas":[{"brokerName":"g","perm":"x"}]}',
        ):
            assert (await caller.call(217, {"topic": "Bad"}, bad)).code == 1


async def test_84_settings_are_shown_changed_and_found_again(tmp_path):
    async with name_server(data_dir=str(tmp_path)) as caller:
        answer = await caller.call(
            318, {}, b"scanNotActiveBrokerInterval=7000\nneedWaitForService=true"
        )
        assert (answer.code, answer.remark) == (0, "from the next start on: need_wait_for_service")
        assert (await caller.call(318, {}, b"enableTopicList=false\nkvConfigPath=/x")).code == 16
        assert (await caller.call(318, {}, b"scan_interval_ms=1")).code == 1
        assert (await caller.call(318)).code == 0
    async with name_server(data_dir=str(tmp_path)) as caller:
        shown = (await caller.call(319)).body.decode().splitlines()
        assert shown == sorted(shown)
        lines = dict(line.split("=", 1) for line in shown)
        assert lines["scanNotActiveBrokerInterval"] == "7000" and lines["enableTopicList"] == "true"
        assert lines["listenPort"] == "0" and "controller" not in lines
        # and the setting that waited for the start counts now
        await caller.register()
        answer = await caller.call(105, {"topic": "Life"})
        assert (answer.code, answer.remark) == (1, "name server not ready")


async def test_86_routes_are_served_once_the_wait_is_over():
    async with name_server(need_wait_for_service=True, wait_for_service_s=0) as caller:
        await caller.register()
        assert await caller.route() == {"0": A}


async def test_87_a_client_of_a_zone_sees_its_own_brokers_and_those_without_a_master():
    async with name_server(3) as (here, there, lone):
        await here.register(0, A, __ZONE_NAME="z1")
        await there.register(0, B, brokerName="h", __ZONE_NAME="z2")
        await lone.register(2, "10.0.0.3:10911", brokerName="i", enableActingMaster="false")

        async def names(**ext):
            route = await here.body(105, topic="Life", **ext)
            assert {row["brokerName"] for row in route["queueDatas"]} == {
                one["brokerName"] for one in route["brokerDatas"]
            }
            return {one["brokerName"]: one.get("zoneName") for one in route["brokerDatas"]}

        everywhere = {"g": "z1", "h": "z2", "i": None}
        assert await names() == await names(__ZONE_NAME="z1") == everywhere
        assert await names(__ZONE_MODE="true", __ZONE_NAME="z1") == {"g": "z1", "i": None}
        # one that acts for its master stands there as a master of no zone
        acts = {"enableActingMaster": "true", "state_version": 2}
        await lone.register(2, "10.0.0.3:10911", brokerName="i", **acts)
        assert await names(__ZONE_MODE="true", __ZONE_NAME="z1") == {"g": "z1"}


def test_every_setting_has_a_place_and_javas_names_are_read(tmp_path):
    assert set(NAMES.settings) == set(NameServerConfig.model_fields)
    path = tmp_path / "namesrv.conf"
    path.write_text("orderMessageEnable=true\nkvConfigPath=/data/namesrv/kvConfig.json\n")
    config = load(path)
    assert config.order_message_enable and config.data_dir == "/data/namesrv"


CODES = [100, 101, 102, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 327]
WORDS = st.sampled_from(
    ["namespace", "key", "value", "topic", "cluster", "clusterName", "brokerName"]
)


@given(st.sampled_from(CODES), st.dictionaries(WORDS, st.text(max_size=4)), st.binary(max_size=30))
def test_whatever_comes_is_answered(code, ext, body):
    handlers = OperatorRequests(NameServerConfig(), RouteTable()).handlers()

    class Peer:
        peer = "x"

    answer = handlers[code](Peer(), RemotingCommand.request(code, ext, body))
    assert answer.code in (0, 1, 16, 22)


@pytest.mark.parametrize("code", CODES)
async def test_2_a_request_without_its_fields_leaves_the_connection_usable(code):
    async with name_server() as caller:
        assert (await caller.call(code)).code in (0, 1)
        assert (await caller.call(19002)).code == 0
