"""What operators' tools ask a broker about topics, groups, clients and messages."""

from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.service.inspection import client_inspection, group_inspection, topic_inspection
from tests.support.asked import asked, body_of, commit, leading, queue
from tests.support.brokers import pull_request, send_request
from tests.support.greeting_client import JAVA_5_3_3, GreetingClient

# -- topics ----------------------------------------------------------------------------------------


async def test_62_a_topic_shows_its_queues(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        table = (await body_of(desk, 202, topic="T"))["offsetTable"]
        assert set(table) == {queue("T", number) for number in range(4)}
        filled = table[queue("T", 1)]
        assert (filled["minOffset"], filled["maxOffset"]) == (0, 3)
        assert filled["lastUpdateTimestamp"] > 1_600_000_000_000
        assert table[queue("T", 0)] == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
        assert (await asked(desk, 202, topic="nobody")).code == 17


async def test_351_tells_a_topic_or_that_there_is_none(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        found = await body_of(desk, 351, topic="T", lo="true")
        assert (found["topicName"], found["readQueueNums"], found["perm"]) == ("T", 4, 6)
        assert (await asked(desk, 351, topic="nobody")).code == 17


async def test_300_names_groups_that_subscribe_or_did(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        await commit(desk, 1, "once")
        async with GreetingClient(desk):
            assert await body_of(desk, 300, topic="T") == {"groupList": ["g", "once"]}
        assert await body_of(desk, 300, topic="U") == {"groupList": []}


async def test_305_names_what_is_no_users_topic(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        names = set((await body_of(desk, 305))["topicList"])
        assert {"TBW102", "c", "b", "c_REPLY_TOPIC", "SCHEDULE_TOPIC_XXXX"} <= names
        assert "rmq_sys_wheel_timer" in names and "T" not in names


async def test_70_a_queue_shows_its_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(tmp_path) as desk:
        found = await body_of(desk, 321, topic="T", queueId=1, index=1, count=10)
        assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 3)
        assert [one["tagsCode"] for one in found["queueData"]] == [0, 0]
        first, second = found["queueData"]
        assert second["physicOffset"] == first["physicOffset"] + first["physicSize"]
        beyond = await asked(desk, 321, topic="T", queueId=1, index=3, count=1)
        assert (beyond.code, beyond.body) == (0, b"")
        assert beyond.remark == "Index 3 of 1@T is not exist!"
        assert (await asked(desk, 321, topic="T", queueId=3, index=0, count=1)).code == 1
        group = {"topic": "T", "queueId": 1, "index": 0, "count": 1, "consumerGroup": "g"}
        assert "not online" in (await body_of(desk, 321, **group))["filterData"]
        monkeypatch.setattr(topic_inspection, "ENTRIES_MAX", 2)
        found = await body_of(desk, 321, topic="T", queueId=1, index=0, count=1 << 40)
        assert len(found["queueData"]) == 2


# -- groups ----------------------------------------------------------------------------------------


async def test_62_39_a_group_shows_how_far_it_is_and_what_it_was_given(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        await commit(desk, 1)
        assert (await desk.ask(pull_request("T", 1, 0, group="g"))).code == 0
        for chosen in ({}, {"topic": "T"}, {"topicList": "T;nobody"}):
            table = (await body_of(desk, 208, consumerGroup="g", **chosen))["offsetTable"]
            one = table[queue("T", 1)]
            last_ms = one.pop("lastTimestamp")
            assert one == {"brokerOffset": 3, "consumerOffset": 1, "pullOffset": 3}
            assert last_ms > 1_600_000_000_000 and len(table) == 4
        assert (await body_of(desk, 208, consumerGroup="nobody"))["offsetTable"] == {}


async def test_75_all_groups_of_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with leading(tmp_path) as desk:
        async with GreetingClient(desk):
            await commit(desk, 1)
            await commit(desk, 2, "unknown")
        found = await body_of(desk, 317, isOrder="false")
        (only,) = found["consumeStatsList"]
        assert found["totalDiff"] == 2 and found["brokerAddr"] == "127.0.0.1:10911"
        assert only["g"][0]["offsetTable"][queue("T", 1)]["consumerOffset"] == 1
        assert (await body_of(desk, 317, isOrder="true"))["consumeStatsList"] == []
        monkeypatch.setattr(group_inspection, "PAIRS_MAX", 0)
        assert (await body_of(desk, 317, isOrder="false"))["consumeStatsList"] == []


async def test_352_343_345_settings_topics_and_subscriptions_of_a_group(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk, GreetingClient(desk):
        await commit(desk, 1)
        assert (await body_of(desk, 352, group="g"))["retryMaxTimes"] == 16
        assert (await asked(desk, 352, group="nobody")).code == 26
        assert (await body_of(desk, 343, group="g"))["topicList"] == ["T"]
        found = await body_of(desk, 345, group="g", topic="T")
        assert found["subscriptionData"]["tagsSet"] == ["A"]
        assert "subscriptionData" not in await body_of(desk, 345, group="g", topic="U")


# -- clients ---------------------------------------------------------------------------------------


async def test_63_connected_clients(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk, GreetingClient(desk):
        found = await body_of(desk, 203, consumerGroup="g")
        (row,) = found["connectionSet"]
        assert (row["clientId"], row["language"], row["version"]) == ("me", "PYTHON", JAVA_5_3_3)
        assert row["clientAddr"].startswith("127.0.0.1:")
        assert found["subscriptionTable"]["T"]["subString"] == "A"
        assert found["messageModel"] == "CLUSTERING"
        assert (await asked(desk, 203, consumerGroup="nobody")).code == 206
        producers = await body_of(desk, 204, producerGroup="pg", topic="T")
        assert producers["connectionSet"] == [row]
        assert (await asked(desk, 204, producerGroup="nobody")).code == 1
        (one,) = (await body_of(desk, 328))["data"]["pg"]
        assert one["remoteIP"] == f"/{row['clientAddr']}"
        assert one["lastUpdateTimestamp"] > 1_600_000_000_000


async def test_63_questions_are_passed_on_to_the_client(tmp_path: Path) -> None:
    said = RemotingCommand.request(0, {"a": "b"}, b"info")
    async with leading(tmp_path) as desk, GreetingClient(desk, answers=said) as client:
        who = {"consumerGroup": "g", "clientId": "me"}
        answer = await asked(desk, 307, **who, jstackEnable="true")
        assert (answer.code, answer.ext["a"], answer.body) == (0, "b", b"info")
        assert client.asked[0].ext["jstackEnable"] == "true"
        sent = await desk.ask(send_request("T", b"again"))
        answer = await asked(desk, 309, **who, msgId=sent.ext["msgId"])
        assert answer.body == b"info" and b"again" in client.asked[1].body
        assert client.asked[1].ext["brokerName"] == "b"
        assert (await asked(desk, 309, **who, msgId="zz")).code == 1
        assert (await asked(desk, 309, **who, msgId="7F00000100002A9F" + "F" * 16)).code == 1
        assert (await asked(desk, 307, consumerGroup="g", clientId="other")).code == 1
        assert len(client.asked) == 2


async def test_a_client_that_does_not_answer_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_inspection, "CLIENT_TIMEOUT_MS", 20)
    async with leading(tmp_path) as desk, GreetingClient(desk):
        assert (await asked(desk, 307, consumerGroup="g", clientId="me")).code == 207


async def test_223_clients_tell_where_they_are(tmp_path: Path) -> None:
    table = b'{"messageQueueTable":{{"brokerName":"b","queueId":1,"topic":"T"}:5}}'
    said = RemotingCommand.request(0, {}, table)
    who = {"group": "g", "topic": "T"}
    async with leading(tmp_path) as desk:
        async with GreetingClient(desk, answers=said) as client:
            found = await body_of(desk, 223, **who)
            assert found == {"consumerTable": {"me": {queue("T", 1): 5}}}
            assert (client.asked[0].code, client.asked[0].ext["topic"]) == (221, "T")
            for one, told in (("me", {"me": {queue("T", 1): 5}}),):
                assert (await body_of(desk, 223, **who, clientAddr=one))["consumerTable"] == told
            answer = await asked(desk, 223, **who, clientAddr="other")
            assert answer.code == 1
        answer = await asked(desk, 223, group="nobody", topic="T")
        assert answer.remark == "No Any Consumer online in the consumer group: [nobody]"
        assert (await asked(desk, 223, group="g")).code == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"torn", b"[]", b'{"messageQueueTable":3}', b'{"messageQueueTable":{"x":1,"{}":"y"}}'],
)
async def test_223_a_client_that_tells_something_else_is_left_out(
    tmp_path: Path, body: bytes
) -> None:
    said = RemotingCommand.request(0, {}, body)
    async with leading(tmp_path) as desk, GreetingClient(desk, answers=said):
        told = (await body_of(desk, 223, group="g", topic="T"))["consumerTable"]
        assert told in ({}, {"me": {}})


async def test_303_times_between_which_a_group_is(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        await commit(desk, 1)
        found = (await body_of(desk, 303, group="g", topic="T"))["consumeTimeSpanSet"]
        assert [one["messageQueue"]["queueId"] for one in found] == [0, 1, 2, 3]
        one = found[1]
        assert 0 < one["minTimeStamp"] <= one["consumeTimeStamp"] <= one["maxTimeStamp"]
        assert 0 <= one["delayTime"] < 60_000
        assert found[0]["minTimeStamp"] == found[0]["delayTime"] == 0
        assert (await asked(desk, 303, group="g", topic="nobody")).code == 17


async def test_308_smallest_places_are_told_and_none_is_deleted(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        for offset, group in ((2, "a"), (1, "b"), (3, "c")):
            await commit(desk, offset, group)
        asks = {"topic": "T", "compareGroup": "c"}
        assert (await body_of(desk, 308, **asks))["correctionOffsets"] == {"1": 1}
        found = await body_of(desk, 308, **asks, filterGroups="b,x")
        assert found["correctionOffsets"] == {"1": 2}
        found = await body_of(desk, 308, topic="T", compareGroup="b", filterGroups="b")
        assert found["correctionOffsets"] == {"1": 2**63 - 1}
        assert desk.tables.offsets.query("b", "T", 1) == 1
