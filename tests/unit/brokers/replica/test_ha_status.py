"""What two linked replicas tell of their link, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.replica.ha_status import HaStatus, MasterSeen
from tests.support.replica_process import ReplicaProcess, elect, until


def address_of(process: ReplicaProcess) -> str:
    return f"127.0.0.1:{process.port}"


@pytest.fixture
async def pair(tmp_path: Path):
    both = [ReplicaProcess(tmp_path / str(number), number) for number in (1, 2)]
    yield both
    for one in both:
        await one.stop()


async def test_both_ends_tell_the_same_link(pair: list[ReplicaProcess]) -> None:
    master, slave = pair
    assert master.driver.ha_status() == HaStatus()
    elect(pair, master, 1, (1, 2))
    end = master.put(20)
    await until(
        lambda: [one.acked for one in master.driver.ha_status().slaves] == [end],
        "all is acknowledged",
    )
    (seen,) = master.driver.ha_status().slaves
    assert seen.broker_id == 2 and seen.in_sync and seen.next_offset == end
    assert seen.address.startswith("127.0.0.1:")
    upstream = slave.driver.ha_status().master
    assert upstream is not None and upstream.ha_address == address_of(master)
    assert upstream.read_ms_ago is not None and upstream.written_ms_ago is not None

    def flow_is_shown() -> bool:
        master.put(1)
        sent, heard = master.driver.ha_status().slaves[0], slave.driver.ha_status().master
        return sent.bytes_per_second > 0 and heard is not None and heard.bytes_per_second > 0

    await until(flow_is_shown, "a second of traffic is shown")


async def test_a_slave_without_a_link_names_where_it_tries(pair: list[ReplicaProcess]) -> None:
    master, slave = pair
    elect([slave], master, 1, (1, 2))  # the master does not lead yet: it takes no links
    await until(lambda: slave.core.role.value == "SLAVE", "it follows")
    assert master.driver.ha_status() == HaStatus()
    await until(
        lambda: slave.driver.ha_status().master == MasterSeen(address_of(master)),
        "no link, no times",
    )


async def test_one_that_is_no_member_is_shown_as_out_of_sync(pair: list[ReplicaProcess]) -> None:
    master, _slave = pair
    elect(pair, master, 1, (1,))
    await until(
        lambda: [one.broker_id for one in master.driver.ha_status().slaves] == [2],
        "the slave is linked",
    )
    assert not master.driver.ha_status().slaves[0].in_sync
