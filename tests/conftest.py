"""Fixtures that every test folder may use: a real Kafka and a Spark session for the whole run, a
name server and a client of a test's own.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from brokers.remoting.client import RemotingClient
from infra.kafka.server import LocalKafka
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.support.examples import examples
from tests.support.own_ports import take_own_ports
from tests.support.spark_session import shared_session, stop_shared_session

# The same examples in every run, and no deadline: a run judges what was changed, not the draw and
# not how busy the machine is. `--hypothesis-profile=draws --hypothesis-seed=N` draws others.
settings.register_profile("draws", settings.get_profile("default"), deadline=None)
ci = settings.get_profile("ci")
settings.register_profile("ci", ci, max_examples=examples(ci.max_examples))
settings.load_profile("ci")

take_own_ports()

# Tests make many objects and few cycles: to look for them every 700 objects, which is what Python
# does, took a tenth of the time of many tests.
gc.set_threshold(100_000, 20, 50)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """One Kafka node for the whole session. Use topic names of your own: tests share it."""
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The Spark session of the run; at its end it is stopped."""
    yield shared_session()
    stop_shared_session()


@pytest.fixture
async def name_server() -> AsyncIterator[str]:
    """The address of one in the test's own event loop."""
    server = NameServer(NameServerConfig(listen="127.0.0.1:0"))
    await server.start()
    yield f"127.0.0.1:{server.port}"
    await server.close()


@pytest.fixture
async def client() -> AsyncIterator[RemotingClient]:
    """Its connections end with the test."""
    made = RemotingClient()
    yield made
    await made.close()
