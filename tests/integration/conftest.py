"""Fixtures of the tests that run brokers without Kafka, where the controller's part is scripted,
and of those that need one for themselves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from infra.kafka.server import LocalKafka
from tests.support.kafka_topics import emptied
from tests.support.scripted_controller import ScriptedController


@pytest.fixture
async def controller() -> AsyncIterator[ScriptedController]:
    scripted = ScriptedController()
    await scripted.start()
    yield scripted
    await scripted.close()


@pytest.fixture(scope="module")
def own_kafka(kafka: LocalKafka) -> LocalKafka:
    """Topics of a controller have fixed names: one module after the other has the Kafka of the run,
    without the topics of the last.
    """
    return emptied(kafka)
