"""`regent up --mode acting` as a person has it: two sets without controllers, of which one loses
its master and gets it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cluster.acting_running import ActingCluster
from tests.support.local_cluster import LocalCluster, regent, unhurried_places, wait_until

SET, MASTER, SLAVE = "broker-a", "broker-a-0", "broker-a-1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    places = unhurried_places(tmp_path)
    made = LocalCluster(tmp_path / "d", "--mode", "acting", "--replicas", "2", *places)
    try:
        yield made
    finally:
        made.end()


def status(cluster: LocalCluster) -> tuple[int, dict[str, Any]]:
    done = regent("status", "--json", "--dir", str(cluster.folder.root))
    return done.returncode, json.loads(done.stdout)


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_slave_acts_for_a_killed_master_until_it_is_back(cluster: LocalCluster) -> None:
    cluster.up()
    kinds = {one["kind"] for one in cluster.processes()}
    assert kinds == {"namesrv", "broker"}, "neither controllers nor Kafka are needed"
    code, view = status(cluster)
    assert code == 0 and view["acting_sets"][SET]["registered"] == [0, 1]
    running = ActingCluster(cluster.folder, lambda: None)
    running.kill_and_hold(MASTER)
    wait_until(lambda: running.sets()[SET]["acting"] == SLAVE, f"{SLAVE} acts")
    code, view = status(cluster)
    assert code == 1 and SLAVE in view["problems"][0]
    told = regent("doctor", "--dir", str(cluster.folder.root)).stdout
    assert f"{SLAVE} acts for it" in told
    running.start(MASTER)
    wait_until(lambda: running.is_whole(SET), f"{MASTER} is back")
    cluster.down()
