"""Fixtures of the tests that run brokers without Kafka: the controller's part is scripted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from brokers.remoting.client import RemotingClient
from tests.support.scripted_controller import ScriptedController


@pytest.fixture
async def controller() -> AsyncIterator[ScriptedController]:
    scripted = ScriptedController()
    await scripted.start()
    yield scripted
    await scripted.close()


@pytest.fixture
async def client() -> AsyncIterator[RemotingClient]:
    made = RemotingClient()
    yield made
    await made.close()
