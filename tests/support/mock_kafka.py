"""A Kafka that lives in librdkafka: real TCP, in milliseconds, for tests of clients. It proves no
durability.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer


@contextmanager
def mock_kafka() -> Iterator[dict[str, str]]:
    """Client settings of a mock cluster of one node; topics come into being when they are used."""
    owner = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1})
    try:
        (broker,) = owner.list_topics(timeout=10).brokers.values()
        yield {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    finally:
        owner.purge()
        owner.flush(1)
