"""Heartbeats of Java and Go clients."""

import pytest

from brokers.remoting import fastjson
from brokers.service.clients.heartbeat import BadHeartbeat, parse

JAVA = b"""{"clientID":"10.0.0.1@123#456","consumerDataSet":[
{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",
"consumeType":"CONSUME_PASSIVELY","groupName":"cg","messageModel":"CLUSTERING","subscriptionDataSet":[
{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG",
"subString":"TagA||TagB","subVersion":1,
"tagsSet":["TagA","TagB"],"topic":"T"}],"unitMode":false}],
"heartbeatFingerprint":7,"producerDataSet":[{"groupName":"pg"}],
"withoutSub":false}"""
GO = b"""{"clientID":"ip@1","consumerDataSet":[{"groupName":"cg",
"subscriptionDataSet":[{"codeSet":["2598919"],
"subString":"TagA","subVersion":1795213599961000000,"topic":"T"},
{"codeSet":[],"subString":"*","topic":"%RETRY%cg"}]}],
"producerDataSet":[]}"""


def test_a_java_heartbeat_is_read_whole() -> None:
    heartbeat = parse(fastjson.loads(JAVA))
    (consumer,) = heartbeat.consumers
    assert (
        heartbeat.client_id == "10.0.0.1@123#456"
        and heartbeat.producer_groups == ("pg",)
        and heartbeat.fingerprint == 7
    )
    assert consumer.group == "cg" and consumer.subscriptions[0].codes == {2598919, 2598920}


def test_a_go_heartbeat_with_text_hashes_is_read_too() -> None:
    (consumer,) = parse(fastjson.loads(GO)).consumers
    assert [subscription.codes for subscription in consumer.subscriptions] == [{2598919}, None]
    assert consumer.message_model == "CLUSTERING"


@pytest.mark.parametrize(
    ("fields", "codes", "kind"),
    [
        ({"subString": "A", "codeSet": [65]}, {65}, "TAG"),
        ({"subString": "A", "codeSet": []}, set(), "TAG"),
        ({"subString": "*", "codeSet": [65]}, None, "TAG"),
        ({"codeSet": []}, None, "TAG"),
        ({"subString": "a > 5", "codeSet": [], "expressionType": "SQL92"}, None, "SQL92"),
        ({"subString": "A", "codeSet": [65], "classFilterMode": True}, None, "TAG"),
    ],
)
def test_line_47_what_a_subscription_takes_by_tags(
    fields: dict[str, object], codes: set[int] | None, kind: str
) -> None:
    """Nothing when its text names tags and it has no hashes; no tags count where a filter does."""
    row = {"groupName": "g", "subscriptionDataSet": [{"topic": "T", **fields}]}
    (consumer,) = parse({"clientID": "a", "consumerDataSet": [row]}).consumers
    (subscription,) = consumer.subscriptions
    assert (subscription.codes, subscription.expression_type) == (codes, kind)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"clientID": ""},
        {"clientID": "x" * 300},
        {"clientID": "a", "consumerDataSet": {}},
        {"clientID": "a", "producerDataSet": [1]},
        {"clientID": "a", "producerDataSet": [{}] * 1001},
        {
            "clientID": "a",
            "consumerDataSet": [
                {"groupName": "g", "subscriptionDataSet": [{"topic": "T", "codeSet": ["x"]}]}
            ],
        },
    ],
)
def test_a_body_that_is_no_heartbeat_is_refused(body: object) -> None:
    with pytest.raises(BadHeartbeat):
        parse(body)
