"""Facts of a name server arrive as broker events, and are bounded."""

from __future__ import annotations

import socket

from events.acting_events import ActingRouteGiven, MemberGroupSeen
from events.codec import decode
from processors.nameserver.facts import Fact
from processors.nameserver.reporting import FACTS_AT_ONCE, SetReporter, shown_address
from tests.support.landed_topics import whole_topics
from tests.support.mock_kafka import mock_kafka
from tests.unit.processors.nameserver.test_process import A, B, name_server, until

GIVEN = Fact("C", "g", "ActingRouteGiven", {
    "name_server": "ns:1", "acting_broker_id": 1, "acting_address": B,
})  # fmt: skip


async def test_what_happens_at_a_name_server_stands_in_the_topic() -> None:
    with mock_kafka() as kafka:
        async with name_server(2, kafka=kafka) as (master, slave):
            assert (await master.register(0, A, 0, enableActingMaster="true")).code == 0
            assert (await slave.register(1, B, 0, enableActingMaster="true")).code == 0
            await master.client.close()

            async def acts() -> bool:
                return await slave.route() == {"0": B}

            await until(acts)
        found = [decode(value) for *_, value in whole_topics(kafka["bootstrap.servers"])]
    found.sort(key=lambda one: one.header.sequence)
    seen = [one.broker_ids for one in found if isinstance(one, MemberGroupSeen)]
    assert seen[:3] == [(0,), (0, 1), (1,)]
    [given] = [one for one in found if isinstance(one, ActingRouteGiven)]
    assert (given.acting_broker_id, given.acting_address) == (1, B)
    assert given.header.broker_name == "g" and given.header.broker_id == -1
    assert given.header.incarnation.startswith(given.name_server)


async def test_without_kafka_a_name_server_tells_nothing_and_serves() -> None:
    reporter = SetReporter({}, "ns:1")
    reporter.report([GIVEN], 0)
    reporter.poll()
    await reporter.close()


async def test_a_set_that_changes_without_end_does_not_fill_the_topic() -> None:
    with mock_kafka() as kafka:
        reporter = SetReporter(kafka, "ns:1")
        reporter.report([GIVEN] * (3 * FACTS_AT_ONCE), 0)
        await reporter.close()
        assert len(whole_topics(kafka["bootstrap.servers"])) == FACTS_AT_ONCE


def test_one_that_listens_everywhere_has_its_hosts_name() -> None:
    assert shown_address("10.0.0.1:9876") == "10.0.0.1:9876"
    assert shown_address("0.0.0.0:9876") == f"{socket.gethostname()}:9876"
