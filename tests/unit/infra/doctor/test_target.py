from __future__ import annotations

from pathlib import Path

import pytest

from events.topics import TOPICS, WITHOUT_CONTROLLERS
from infra.cluster.data_folder import DataFolder
from infra.doctor import target
from infra.problems import EXIT_USAGE, Problem

CONTROLLER = """controller_id = "c1"
listen = "0.0.0.0:9878"
advertise = "10.0.0.1:9878"
http_listen = "0.0.0.0:5557"
data_dir = "{folder}/c1"
[peers]
c2 = "10.0.0.2:9878"
[kafka]
"bootstrap.servers" = "k:9092"
"""
BROKER = """broker_name = "a"
listen = "0.0.0.0:10911"
advertise = "10.0.0.3:10911"
ha_listen = "0.0.0.0:10912"
ha_advertise = "10.0.0.3:10912"
store_dir = "{folder}/b"
controllers = ["10.0.0.1:9878", "10.0.0.9:9878"]
name_servers = ["n:9876"]
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("{folder}", str(folder)), encoding="utf-8")
    return path


def test_a_controllers_file_names_its_peers_and_its_kafka(tmp_path: Path) -> None:
    found = target.of_file(write(tmp_path, "c.toml", CONTROLLER))
    assert found.controllers == {"c1": "10.0.0.1:9878", "c2": "10.0.0.2:9878"}
    assert (
        found.kafka == {"bootstrap.servers": "k:9092"}
        and not found.wish.few_copies
        and not found.starts_kafka
    )
    assert [(one.owner, one.advertised) for one in found.places] == [
        ("c1", "10.0.0.1:9878"),
        ("c1 HTTP", "10.0.0.1:5557"),
    ]


def test_a_brokers_file_names_controllers_and_name_servers(tmp_path: Path) -> None:
    found = target.of_file(write(tmp_path, "b.toml", BROKER))
    assert list(found.controllers.values()) == [
        "10.0.0.1:9878",
        "10.0.0.9:9878",
    ] and found.name_servers == ["n:9876"]
    assert [one.advertised for one in found.places] == ["10.0.0.3:10911", "10.0.0.3:10912"]


def test_a_folder_holds_the_files_of_a_whole_cluster(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.create("cluster", {"kafka": {}}, "0")
    write(tmp_path, "config/controller-1.toml", CONTROLLER)
    write(tmp_path, "config/broker-a-1.toml", BROKER)
    write(tmp_path, "config/kafka-1.toml", "node_id = 1\n")
    found = target.of_folder(folder)
    assert found.starts_kafka and list(found.controllers) == ["c1", "c2", "10.0.0.9:9878"]
    assert len(found.places) == 4 and found.folders == [tmp_path, tmp_path / "b"]
    assert found.states == [tmp_path / "c1"], "the log is held against what controllers had applied"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "ns.toml",
            (
                'listen = "127.0.0.1:9876"\nenableControllerInNamesrv = '
                'true\n[controller]\ncontroller_id = "c1"\ndata_dir = '
                '"d"\n[controller.kafka]\n"bootstrap.servers" = "k:1"\n'
            ),
        ),
        (
            "ns.properties",
            (
                "enableControllerInNamesrv=true\nlistenPort=9876\nbindAddress=127.0.0."
                "1\ncontroller_id=c1\ndata_dir=d\nkafka.bootstrap.servers=k:1\n"
            ),
        ),
    ],
)
def test_a_name_servers_file_names_the_controller_inside(
    tmp_path: Path, name: str, text: str
) -> None:
    found = target.of_file(write(tmp_path, name, text))
    assert (
        found.name_servers == ["127.0.0.1:9876"]
        and list(found.controllers) == ["c1"]
        and found.kafka == {"bootstrap.servers": "k:1"}
    )


@pytest.mark.parametrize("name", ["none.toml", "torn.toml"])
def test_a_file_that_cannot_be_read_is_wrong_usage(tmp_path: Path, name: str) -> None:
    write(tmp_path, "torn.toml", "a = [")
    with pytest.raises(Problem) as raised:
        target.of_file(tmp_path / name)
    assert raised.value.exit_code == EXIT_USAGE


def test_a_folder_of_sets_without_controllers_is_looked_at_too(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.create("cluster", {"mode": "acting", "kafka": {}, "kafka_nodes": 0, "land": False}, "0")
    write(tmp_path, "config/broker-a-0.toml", 'broker_id = 0\nstore_dir = "s"\n')
    found = target.of_folder(folder)
    assert found.acting_sets == ("broker-a", "broker-b") and not found.controllers
    assert not found.starts_kafka and not found.kafka


FIXED = """broker_name = "a"
broker_id = 0
listen = "127.0.0.1:10911"
ha_listen = "127.0.0.1:10912"
store_dir = "{folder}/b"
name_servers = ["n:9876"]
[kafka]
"bootstrap.servers" = "k:9092"
"""
LANDING = """tables = "{folder}/t"
checkpoint_dir = "{folder}/k"
cluster_id = "one"
without_controllers = true
jars_dir = "{folder}/j"
[kafka]
"bootstrap.servers" = "k:9092"
"""


@pytest.mark.parametrize("lands", [False, True])
def test_a_folder_without_controllers_needs_the_topics_that_somebody_writes_or_waits_for(
    tmp_path: Path, lands: bool
) -> None:
    folder = DataFolder(tmp_path)
    kafka = {"bootstrap.servers": "k:9092"}
    options = {"mode": "acting", "kafka": kafka, "kafka_nodes": 0, "land": lands}
    folder.create("cluster", options, "0")
    broker = write(tmp_path, "config/broker-a-0.toml", FIXED)
    land = write(tmp_path, "config/land.toml", LANDING)
    found = target.of_folder(folder)
    assert found.kafka == kafka and not found.wish.few_copies
    assert found.wish.fit == WITHOUT_CONTROLLERS, "nobody decides there"
    assert found.wish.there == (TOPICS if lands else WITHOUT_CONTROLLERS)
    assert found.kafka_file == (land if lands else broker), "what makes the topics knows them all"


@pytest.mark.parametrize("name", ["c.toml", "b.toml"])
def test_where_controllers_decide_every_topic_counts(tmp_path: Path, name: str) -> None:
    found = target.of_file(write(tmp_path, name, CONTROLLER if name == "c.toml" else BROKER))
    assert found.wish.there == found.wish.fit == TOPICS
