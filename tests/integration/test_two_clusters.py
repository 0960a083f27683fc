"""Two clusters land in one place at the same time, each from a Kafka of its own: every row is there
once, as its cluster's.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from events.topics import COMMANDS_TOPIC
from infra.kafka.server import LocalKafka
from lakehouse.answers.state_at import state_at
from lakehouse.errors import LakehouseError
from lakehouse.tables import delta
from lakehouse.tables.lake import lake_at, open_lake
from lakehouse.tables.specs import BRONZE, BY_NAME
from tests.support.control_history import History, seen
from tests.support.landing_stage import Job, Load, make_topics
from tests.unit.lakehouse.gold.gold_cases import OTHER_CLUSTER_ID, OtherCluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.processes,
    pytest.mark.timeout(1_800),
]

STEPS = 120
LIMIT_S = 900


def moved(history: History) -> History:
    """The history, with a replica that leaves and comes back again and again."""
    for number in (1, 2):
        assert history.apply_id(number).accepted
        assert history.register(number).accepted
    assert history.elect(1).accepted
    for step in range(STEPS):
        assert history.alter((1,) if step % 2 else (1, 2), seen(1), seen(2)).accepted
    return history


def test_two_clusters_land_side_by_side(tmp_path: Path, own_kafka: LocalKafka) -> None:
    tables = tmp_path / "lake"
    histories = {"cluster-1": moved(History()), OTHER_CLUSTER_ID: moved(OtherCluster())}
    homes = {name: tmp_path / name for name in histories}
    for home in homes.values():
        home.mkdir()
    with LocalKafka(homes[OTHER_CLUSTER_ID] / "kafka") as theirs:
        logs = {"cluster-1": own_kafka.bootstrap, OTHER_CLUSTER_ID: theirs.bootstrap}
        for bootstrap in logs.values():
            make_topics(bootstrap)
        jobs: dict[str, Job] = {}
        try:
            _land_both(jobs, histories, homes, logs, tables)
        finally:
            for job in jobs.values():
                job.end(signal.SIGKILL)
    _require_apart(tables, histories)


def _land_both(
    jobs: dict[str, Job],
    histories: dict[str, History],
    homes: dict[str, Path],
    logs: dict[str, str],
    tables: Path,
) -> None:
    """Both jobs start at once and write while the logs grow."""
    jobs.update({name: Job(homes[name], logs[name], "job", tables=tables) for name in histories})
    loads = [Load(logs[name], history) for name, history in histories.items()]
    with loads[0], loads[1]:
        for load in loads:
            load.allow(20)
        for job in jobs.values():
            job.wait_until(lambda status: status.batches >= 1, LIMIT_S)
        for load in loads:
            load.allow(len(load.commands))
        for load in loads:
            load.all_of_it()
        for name, job in jobs.items():
            job.finish(logs[name])


def _require_apart(tables: Path, histories: dict[str, History]) -> None:
    with pytest.raises(LakehouseError, match="holds 2 clusters"):
        open_lake(tables)
    for name, history in histories.items():
        lake = lake_at(tables, name)
        rows = delta.read(lake, BRONZE, filters=[("topic", "=", COMMANDS_TOPIC)])
        assert rows["offset"].to_pylist() == list(range(len(history.records)))
        assert rows["value"].to_pylist() == history.records
        assert state_at(lake)["digest"] == history.folder.digest.hex()
        assert delta.count_rows(lake, BY_NAME["silver/alter_sync_state_set"]) == STEPS
