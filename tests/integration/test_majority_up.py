"""`regent up --replication majority` as a person has it: it elects, is restarted, and says when it
cannot be led.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cluster.majority_running import MajorityCluster
from tests.support.local_cluster import LocalCluster, regent, unhurried_places, wait_until

SET = "broker-a"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "d", "--replication", "majority", *unhurried_places(tmp_path))
    try:
        yield made
    finally:
        made.end()


def status(cluster: LocalCluster) -> tuple[int, dict[str, Any]]:
    done = regent("status", "--json", "--dir", str(cluster.folder.root))
    return done.returncode, json.loads(done.stdout)


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(300)
def test_it_is_led_restarted_and_says_when_nobody_leads(cluster: LocalCluster) -> None:
    cluster.up()
    kinds = {one["kind"] for one in cluster.processes()}
    assert kinds == {"namesrv", "broker"}, "neither controllers nor Kafka are needed"
    running = MajorityCluster(cluster.folder, lambda: None)
    wait_until(running.is_whole, "all follow")
    code, view = status(cluster)
    assert code == 0 and view["mode"] == "majority", view["problems"]
    term = view["majority_sets"][SET]["term"]
    done = regent("restart", "--rolling", "--dir", str(cluster.folder.root))
    assert done.returncode == 0 and done.stdout.count("has everything after") == 3, done.stderr
    assert running.look()["term"] > term, "the leader was last, and handed over"
    leader = running.look()["leader"]
    others = [one["name"] for one in running.processes("broker") if one["name"] != leader]
    for name in others:
        running.kill_and_hold(name)
    wait_until(lambda: running.look()["leader"] is None, "one of three leads nobody")
    code, view = status(cluster)
    assert code == 1 and "1 of its 3 members answer" in " ".join(view["problems"])
    for name in others:
        running.start(name)
    wait_until(running.is_whole, "all follow again")
    cluster.down()
