"""What a broker may ask of its replica before that runs, whichever way its set replicates."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.process.memberships import open_replica
from brokers.replica.replica_port import Replica
from tests.support.brokers import broker_config
from tests.support.majority_set import majority_config


@pytest.fixture(params=["in an in-sync set", "in a majority group"])
def replica(request: pytest.FixtureRequest, tmp_path: Path) -> Replica:
    if "majority" in request.param:
        return open_replica(majority_config(tmp_path, {"n0": "127.0.0.1:1"}, "n0"))
    return open_replica(broker_config(tmp_path, ["127.0.0.1:1"]))


def test_a_replica_that_does_not_run_yet_takes_nothing_and_says_so(replica: Replica) -> None:
    assert replica.core is None and replica.broker_id is None
    assert not replica.leads() and replica.write_refusal()
    assert replica.ha_status().slaves == () and replica.epochs.entries == ()
    assert replica.clean() and replica.incarnation
    replica.close()


async def test_it_may_be_stopped_and_closed_all_the_same(replica: Replica) -> None:
    waits = replica.failed()
    await replica.stop()
    replica.close()
    assert not waits.done()
