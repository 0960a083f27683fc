"""Fixtures that every test folder may use: a real Kafka and a Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from infra.kafka.server import LocalKafka
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
