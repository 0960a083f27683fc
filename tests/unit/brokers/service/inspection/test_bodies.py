"""Bodies with objects as keys, as RocketMQ's tools read them."""

from brokers.remoting import fastjson
from brokers.service.clients.subscriptions import parse
from brokers.service.inspection.bodies import by_queue, queue_key, subscription_fields, with_table


def test_a_queue_is_a_key() -> None:
    assert queue_key("b", "T", 1) == b'{"brokerName":"b","queueId":1,"topic":"T"}'
    body = with_table("offsetTable", by_queue("b", [(("T", 1), {"x": 2})]), {"tps": 0.0})
    assert body == (
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:{"x":2}},"tps":0.0}'
    )
    assert fastjson.loads(body) == {
        "offsetTable": {'{"brokerName":"b","queueId":1,"topic":"T"}': {"x": 2}},
        "tps": 0.0,
    }
    assert with_table("a", b"{}", {}) == b'{"a":{}}'


def test_a_subscription_as_java_has_it() -> None:
    fields = subscription_fields(parse("T", "B || A", 7))
    assert (fields["subString"], fields["tagsSet"], fields["subVersion"]) == (
        "B || A",
        ["A", "B"],
        7,
    )
    assert fields["codeSet"] == [65, 66]
    everything = subscription_fields(parse("T", "*"))
    assert (everything["codeSet"], everything["tagsSet"]) == ([], [])
