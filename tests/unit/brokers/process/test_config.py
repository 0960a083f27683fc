"""The configuration of a broker: flags over file, one line for everything that is wrong."""

from pathlib import Path

import pytest

from brokers.process.config import ACTING, BrokerConfig, load
from events.config_file import ConfigError

FILE = """
broker_name = "broker-b"
store_dir = "/data"
controllers = "c1:9878;c2:9878"
name_servers = ["n1:9876"]
listen = "0.0.0.0:10911"
advertise = "10.0.0.1:10911"
[kafka]
"bootstrap.servers" = "k:9092"
"enable.ssl.certificate.verification" = true
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "broker.toml"
    path.write_text(text)
    return path


def test_a_file_is_read_and_flags_win(tmp_path: Path) -> None:
    config = load(written(tmp_path, FILE), {"broker_name": "broker-c", "listen": None})
    assert (
        config.broker_name == "broker-c"
        and config.listen == "0.0.0.0:10911"
        and config.advertised == "10.0.0.1:10911"
    )
    assert config.controllers == ["c1:9878", "c2:9878"] and config.ha_advertised == "10.0.0.1:10912"
    assert config.kafka == {
        "bootstrap.servers": "k:9092",
        ("enable.ssl.certificate.verification"): "true",
    }
    assert (
        config.min_in_sync_replicas == 2
        and config.all_ack
        and config.in_sync_replicas == 2
        and not config.auto_in_sync_replicas
    )


def test_flags_alone_are_enough() -> None:
    assert isinstance(load(None, {"store_dir": "/d", "controllers": ["c:1"]}), BrokerConfig)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x =", "TOML"),
        ("unknown = 1", "unknown"),
        ('listen = "nowhere"', "listen"),
        ('broker_name = "a#b"', "broker_name"),
        ("controllers = []", "controllers"),
        ('controllers = ["x"]', "controllers"),
        ("heartbeat_interval_ms = 0", "heartbeat_interval_ms"),
        ("heartbeat_interval_ms = 10000", "must be less than controller_heartbeat_timeout_ms"),
        ("disk_full_percent = 80", "must not be less than disk_clean_forcibly_percent"),
        ('name_servers = ["http://n:9876"]', "name_servers: 'http://n:9876' is not host:port"),
        ('name_servers = ["n:9876;m:9876"]', "name_servers"),
        ('listen = ":10911"', "write 0.0.0.0:10911"),
        ('listen = "h:9"\nha_listen = "h:9"', "listen and ha_listen are both h:9"),
        ('listen = "h:9"\nhttp_listen = "h:10"', "ha_listen and http_listen are both h:10"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(tmp_path: Path, text: str, named: str) -> None:
    base = "" if text.startswith("controllers") else 'controllers = ["c:1"]\n'
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, base + 'store_dir = "/d"\n' + text))
    assert named in str(caught.value) and "\n" not in str(caught.value)


def test_a_store_without_a_name_is_not_the_folder_that_one_happens_to_be_in() -> None:
    with pytest.raises(ConfigError, match="store_dir: names no folder"):
        load(None, {"store_dir": "", "controllers": ["c:1"]})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none.toml"):
        load(tmp_path / "none.toml")


def config_of(**fields: object) -> BrokerConfig:
    return load(None, {"store_dir": "s", "controllers": ["c:1"], **fields})


@pytest.mark.parametrize(
    ("fields", "ha"),
    [
        ({}, "127.0.0.1:10912"),
        ({"listen": "10.0.0.1:20911"}, "10.0.0.1:20912"),
        ({"listen": "[::1]:20911"}, "[::1]:20912"),
        ({"listen": "0.0.0.0:20911", "advertise": "b-1:20911"}, "b-1:20912"),
        ({"listen": "0.0.0.0:20911", "advertise": "b-1:80", "ha_listen": "0.0.0.0:5"}, "b-1:5"),
        ({"listen": "10.0.0.1:1", "ha_listen": "127.0.0.1:2", "ha_advertise": "p:9"}, "p:9"),
    ],
)
def test_where_replicas_link_follows_where_clients_come(fields: dict[str, object], ha: str) -> None:
    assert config_of(**fields).ha_advertised == ha


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"listen": "0.0.0.0:10911"}, "advertise must say where others reach this broker"),
        ({"listen": "[::]:10911"}, "advertise must say"),
        ({"advertise": "0.0.0.0:1"}, "advertise must say"),
        ({"ha_advertise": "0.0.0.0:1"}, "ha_advertise must say"),
        ({"listen": "10.0.0.1:1", "ha_listen": "127.0.0.1:2"}, "which other hosts cannot reach"),
        ({"listen": "h:1", "ha_listen": "localhost:2"}, "set ha_listen, or ha_advertise"),
        ({"listen": "nowhere"}, "is not host:port"),
    ],
)
def test_an_address_that_nobody_reaches_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config_of(**fields)


FIXED = {"store_dir": "s", "broker_id": 0}
SLAVE = {"store_dir": "s", "broker_id": 1, "name_servers": ["n:1"]}


@pytest.mark.parametrize(
    ("fields", "role", "copies"),
    [
        (FIXED, "SYNC_MASTER", 2),
        ({**FIXED, "broker_role": "ASYNC_MASTER"}, "ASYNC_MASTER", 1),
        ({**FIXED, "in_sync_replicas": 3}, "SYNC_MASTER", 3),
        (SLAVE, "SLAVE", 2),
        ({"store_dir": "s", "broker_id": 2, "ha_master_address": "m:2"}, "SLAVE", 2),
    ],
)
def test_without_controllers_the_id_says_who_leads(
    fields: dict[str, object], role: str, copies: int
) -> None:
    config = load(None, fields)
    assert (config.broker_role, config.copies_wanted, config.all_ack) == (role, copies, False)
    assert config.controllers == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"store_dir": "s"}, "controllers is missing"),
        ({**FIXED, "controllers": ["c:1"]}, "remove one of the two"),
        ({**FIXED, "broker_role": "SLAVE"}, "broker_id 0 is the master"),
        ({**SLAVE, "broker_role": "SYNC_MASTER"}, "broker_id 1 is a slave"),
        ({**FIXED, "ha_master_address": "m:2"}, "ha_master_address is for slaves"),
        ({"store_dir": "s", "broker_id": 1}, "give name_servers, or ha_master_address"),
        ({**FIXED, "all_ack": True}, "set in_sync_replicas"),
        ({**FIXED, "async_learner": True}, "async_learner is for sets with controllers"),
        ({**FIXED, "sync_from_last_file": True}, "sync_from_last_file is for sets with"),
        ({**FIXED, "broker_id": -1}, "broker_id"),
        ({**FIXED, "broker_role": "LEADER"}, "broker_role"),
        ({**SLAVE, "ha_master_address": "m"}, "ha_master_address"),
        ({"store_dir": "s", "controllers": ["c:1"], "broker_role": "SLAVE"}, "give broker_id"),
        ({"store_dir": "s", "controllers": ["c:1"], "ha_master_address": "m:2"}, "give broker_id"),
        *(
            ({"store_dir": "s", "controllers": ["c:1"], name: value}, f"{name} is for sets without")
            for name, value in (*((one, True) for one in ACTING), ("total_replicas", 2))
        ),
        *(({**FIXED, one: True}, f"{one} is for sets whose slaves act") for one in ACTING[2:]),
        ({**FIXED, "enable_slave_acting_master": True}, "needs name_servers"),
        (
            {**SLAVE, "enable_slave_acting_master": True, "broker_not_active_ms": 500},
            "less than broker_not_active_ms (500)",
        ),
    ],
)
def test_a_place_that_contradicts_itself_is_refused_with_the_way_out(
    fields: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, fields)
    assert said in str(caught.value) and "\n" not in str(caught.value)
