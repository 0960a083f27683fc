"""Who reads what of a topic table."""

from brokers.remoting import fastjson
from brokers.service.tables.table_text import TableText


def test_dropped_queues_are_for_us_and_java_reads_the_rest_unchanged() -> None:
    text = TableText(b'{"counter":1}', b'{"T":{}}', b'{"D":4}')
    assert text.document() == b'{"dataVersion":{"counter":1},"topicConfigTable":{"T":{}}}'
    assert fastjson.loads(text.stored()) == {
        **fastjson.loads(text.document()),
        "regentDroppedQueues": {"D": 4},
    }
    assert b"egentDropped" not in text.page()


def test_equal_digests_mean_equal_topics_and_equal_dropped_queues() -> None:
    plain = TableText(b"1", b"{}")
    assert plain.digest == TableText(b"2", b"{}").digest
    assert (
        len(
            {
                plain.digest,
                TableText(b"1", b'{"T":{}}').digest,
                TableText(b"1", b"{}", b'{"D":4}').digest,
            }
        )
        == 3
    )
