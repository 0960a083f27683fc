"""Fixtures that every test folder may use: a real Kafka for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.kafka_server import LocalKafka


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """One Kafka node for the whole session. Use topic names of your own: tests share it."""
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running
