"""`regent doctor` on clusters that are sick, one after the other: each sickness is named, told from
the others, and has a way out that can be pasted.

One cluster is made sick and well again. Nothing here is made up: processes are stopped and killed,
topics changed and deleted, files edited.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from events.topics import BROKER_EVENTS_TOPIC, OUTCOMES_TOPIC
from infra.cluster.toml_text import dumps
from infra.jars import store
from infra.processes.ports import pick_block
from tests.support.local_cluster import COMMAND, ROOT, LocalCluster, regent, wait_until
from tests.support.pasted import why_not

pytestmark = [pytest.mark.kafka, pytest.mark.processes, pytest.mark.timeout(600)]

HOLD_S = 60.0
Findings = list[dict[str, str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """What stands still is not ended: it is to be seen."""
    words = ("--controllers", "2", "--watchdog-ms", "0")
    made = LocalCluster(tmp_path_factory.mktemp("sick") / "regent", *words)
    try:
        made.up()
        made.whole()
        yield made
    finally:
        made.end()


class Doctor:
    """The command, as somebody runs it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def says(self, *words: str) -> tuple[int, Findings]:
        where = words or ("--dir", str(self._cluster.folder.root))
        done = regent("doctor", "--json", *where)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)["findings"]

    def is_well(self) -> None:
        """Nothing is left of the last sickness."""
        seen: list[Findings] = []

        def well() -> bool:
            code, found = self.says()
            seen[:] = [[one for one in found if one["verdict"] != "ok"]]
            return code == 0 and not seen[0]

        try:
            wait_until(well, "the doctor finds nothing")
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen}") from None

    def finds(self, verdict: str, area: str, text: str, *words: str) -> dict[str, str]:
        """The finding of that kind, once it is there; its command can be pasted."""
        found: list[dict[str, str]] = []
        last: list[object] = []

        def named() -> bool:
            code, findings = self.says(*words)
            last[:] = [code, [one for one in findings if one["verdict"] != "ok"]]
            found[:] = [
                one
                for one in findings
                if (one["verdict"], one["area"]) == (verdict, area) and text in one["text"]
            ]
            if found and verdict == "fail":
                assert code == 1
            return bool(found)

        try:
            wait_until(named, f"{area}: {text}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from None
        assert found[0]["way_out"] and found[0]["command"], found
        assert why_not(found[0]["command"]) is None, found
        return found[0]


@pytest.fixture
def doctor(cluster: LocalCluster) -> Iterator[Doctor]:
    made = Doctor(cluster)
    made.is_well()
    yield made


@contextmanager
def held(cluster: LocalCluster, *names: str) -> Iterator[None]:
    for name in names:
        cluster.folder.ask({"action": "hold", "name": name}, HOLD_S)
    try:
        yield
    finally:
        for name in names:
            cluster.folder.ask({"action": "start", "name": name}, HOLD_S)


@contextmanager
def stopped(cluster: LocalCluster, name: str) -> Iterator[int]:
    pid = cluster.strike(name, signal.SIGSTOP)
    try:
        yield pid
    finally:
        cluster.strike(name, signal.SIGCONT)


@contextmanager
def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    before = path.read_text()
    fields = tomllib.loads(before)
    change(fields)
    path.write_text(dumps(fields))
    try:
        yield
    finally:
        path.write_text(before)


def slaves(cluster: LocalCluster) -> list[str]:
    master = cluster.whole().master_address
    return [one["name"] for one in cluster.processes("broker") if one["address"] != master]


def test_1_a_set_below_full_strength_is_a_warning(cluster: LocalCluster, doctor: Doctor) -> None:
    name = slaves(cluster)[0]
    with held(cluster, name):
        found = doctor.finds("warn", "sets", "not in sync, 2 are")
        assert "controller set broker-a" in found["command"]
        assert doctor.says()[0] == 0


def test_2_a_set_below_its_minimum_fails(cluster: LocalCluster, doctor: Doctor) -> None:
    with held(cluster, *slaves(cluster)):
        doctor.finds("fail", "stores", "is master and refuses sends: in-sync replicas not enough")


def test_3_a_process_that_was_stopped_by_a_signal(cluster: LocalCluster, doctor: Doctor) -> None:
    name = slaves(cluster)[0]
    with stopped(cluster, name) as pid:
        found = doctor.finds("fail", "processes", f"{name} (pid {pid}) was stopped by a signal")
        assert found["command"] == f"kill -CONT {pid}"
        subprocess.run(found["command"], shell=True, check=True)
        doctor.is_well()


def test_4_a_controller_that_is_gone(cluster: LocalCluster, doctor: Doctor) -> None:
    with held(cluster, "controller-2"):
        doctor.finds("fail", "controllers", "controller-2 at ")
        doctor.finds("warn", "processes", "controller-2")


def test_5_kafka_stands_still(cluster: LocalCluster, doctor: Doctor) -> None:
    """Nothing can be decided, and status says so too."""
    with stopped(cluster, "kafka-1"):
        doctor.finds("fail", "kafka", cluster.bootstrap)

        def told() -> bool:
            done = regent("status", "--dir", str(cluster.folder.root))
            return done.returncode == 1 and "NOTHING CAN BE DECIDED" in done.stdout

        wait_until(told, "regent status says that nothing can be decided")


def test_6_a_topic_is_missing_and_the_way_out_makes_it(
    cluster: LocalCluster, doctor: Doctor
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.delete_topics([BROKER_EVENTS_TOPIC])[BROKER_EVENTS_TOPIC].result(30)
    # A warning: controllers of a local cluster make what topics are missing when they start.
    found = doctor.finds("warn", "topics", f"{BROKER_EVENTS_TOPIC} is not there")
    words = found["command"].split()
    assert words[:3] == ["regent", "topics", "create"]
    done = regent(*words[1:])
    assert done.returncode == 0, done.stderr


def test_7_a_topic_that_forgets(cluster: LocalCluster, doctor: Doctor) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def keep_for(retention_ms: str) -> None:
        entry = ConfigEntry(
            "retention.ms", retention_ms, incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(
            ConfigResource.Type.TOPIC, OUTCOMES_TOPIC, incremental_configs=[entry]
        )
        for answer in admin.incremental_alter_configs([resource]).values():
            answer.result(30)

    keep_for("864000000")
    try:
        found = doctor.finds("fail", "topics", OUTCOMES_TOPIC)
        assert "retention" in found["text"]
    finally:
        keep_for("-1")


def test_8_one_address_is_given_twice(cluster: LocalCluster, doctor: Doctor) -> None:
    one, other = slaves(cluster)
    address = cluster.process(one)["address"]
    with edited(cluster.folder.config_of(other), lambda told: told.update(listen=address)):
        found = doctor.finds("fail", "addresses", f"have one address, {address}")
        assert one in found["text"] and other in found["text"]


@contextmanager
def running(words: list[str], address: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(
            lambda: regent("doctor", "--controller", address, "--json").returncode != 2,
            "it was started",
        )
        yield process
    finally:
        process.kill()
        process.wait()


def test_9_a_name_server_that_knows_no_route(
    cluster: LocalCluster, doctor: Doctor, tmp_path: Path
) -> None:
    """One that no broker registers at: clients who ask it find nobody."""
    address = f"127.0.0.1:{pick_block(1)}"
    config = tomllib.loads(cluster.folder.config_of("broker-a-1").read_text())
    own = tmp_path / "broker.toml"
    own.write_text(dumps(config | {"name_servers": [address]}))
    with running(["namesrv", "--listen", address], address):
        found = doctor.finds(
            "fail", "name servers", "has no route to broker-a", "--config", str(own)
        )
        assert address in found["text"]


def test_10_and_11_a_broker_that_nobody_reaches_and_a_set_whose_only_master_is_dead(
    cluster: LocalCluster, doctor: Doctor, tmp_path: Path
) -> None:
    """It gives an address of this machine at which it does not listen."""
    port = pick_block(2)
    config = tomllib.loads(cluster.folder.config_of("broker-a-1").read_text())
    own = {
        "broker_name": "broker-b",
        "listen": f"127.0.0.1:{port}",
        "ha_listen": f"127.0.0.1:{port + 1}",
        "advertise": f"127.0.0.2:{port}",
        "ha_advertise": f"127.0.0.2:{port + 1}",
        "store_dir": str(tmp_path / "store"),
        "min_in_sync_replicas": 1,
        "second_listen": False,
    }
    path = tmp_path / "broker.toml"
    path.write_text(dumps(config | own))
    where = ("--controller", cluster.processes("controller")[0]["address"])
    with running(["broker", "--config", str(path)], where[1]):
        found = doctor.finds("fail", "brokers", f"127.0.0.2:{port}", *where)
        assert "broker-b" in found["text"]
    found = doctor.finds("fail", "sets", "broker-b", *where)
    assert "MASTER" in found["text"] and "controller set broker-b" in found["command"]
    done = regent("controller", "clean", "broker-b", "--living", "--yes", *where)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


DIES = """
import os, sys
from pathlib import Path
from lakehouse.landing.status import StatusFile
status = StatusFile(Path(sys.argv[1]))
status.update(ready=True, stage="landing")
print(os.getpid(), flush=True)
"""


def test_12_a_landing_job_that_is_dead(
    cluster: LocalCluster, doctor: Doctor, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    words = [sys.executable, "-c", DIES, str(work)]
    died = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    path = tmp_path / "land.toml"
    fields = {
        "tables": str(tmp_path / "tables"),
        "checkpoint_dir": str(tmp_path / "checkpoints"),
        "work_dir": str(work),
        "jars_dir": str(store.check("spark")),
        "kafka": {"bootstrap.servers": cluster.bootstrap},
    }
    path.write_text(dumps(fields))
    text = f"the landing job (pid {died.stdout.strip()}) does not run"
    found = doctor.finds("fail", "landing", text, "--config", str(path))
    assert found["command"] == f"regent land --config {path}"


def test_13_a_cluster_that_does_not_run(cluster: LocalCluster, doctor: Doctor) -> None:
    cluster.down()
    found = doctor.finds("fail", "processes", "does not run")
    assert found["command"].startswith("regent up")
