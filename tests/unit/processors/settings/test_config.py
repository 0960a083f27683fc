"""A controller's configuration: TOML, flags, one clear line for what is wrong."""

from pathlib import Path

import pytest

from events.config_file import ConfigError
from events.properties import parse
from processors.settings.config import ControllerConfig, load

TEXT = """
controller_id = "c1"
listen = "0.0.0.0:9878"
advertise = "10.0.0.1:9878"
data_dir = "data"
[peers]
c2 = "10.0.0.2:9878"
[kafka]
"bootstrap.servers" = "k:9092"
"socket.keepalive.enable" = true
"socket.timeout.ms" = 3000
[settings]
enableElectUncleanMaster = "true"
"""


def written(folder: Path, text: str = TEXT) -> Path:
    path = folder / "controller.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_bind_and_advertised_addresses_are_apart(tmp_path: Path) -> None:
    config = load(written(tmp_path))
    assert (config.listen, config.advertised) == ("0.0.0.0:9878", "10.0.0.1:9878")
    assert (
        load(written(tmp_path), {"advertise": "", "listen": "10.0.0.7:1"}).advertised
        == "10.0.0.7:1"
    )
    with pytest.raises(ConfigError, match="advertise must say"):
        load(written(tmp_path), {"advertise": ""})


def test_kafka_settings_are_passed_on_as_texts(tmp_path: Path) -> None:
    kafka = load(written(tmp_path)).kafka
    assert kafka == {
        "bootstrap.servers": "k:9092",
        ("socket.keepalive.enable"): "true",
        "socket.timeout.ms": "3000",
    }


def test_flags_win_over_the_file_and_none_says_nothing(tmp_path: Path) -> None:
    config = load(written(tmp_path), {"controller_id": "c9", "listen": None})
    assert (config.controller_id, config.listen) == ("c9", "0.0.0.0:9878")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (('listen = "0.0.0.0:9878"', 'listen = "nowhere"'), "listen"),
        (('controller_id = "c1"', ""), "controller_id"),
        (('"bootstrap.servers" = "k:9092"', ""), "bootstrap.servers"),
        (
            ('enableElectUncleanMaster = "true"', 'enableElectUncleanMaster = "maybe"'),
            "enableElectUncleanMaster",
        ),
        (('data_dir = "data"', 'data_dir = "data"\nunknown = 1'), "unknown"),
        (('c2 = "10.0.0.2:9878"', 'c2 = "x"'), "peers"),
        (('c2 = "10.0.0.2:9878"', 'c2 = "http://10.0.0.2:9878"'), "peers: .*leave out"),
        (('c2 = "10.0.0.2:9878"', 'c2 = "h:1"\nc3 = "h:1"'), "c2 and c3 have one address, h:1"),
        (('c2 = "10.0.0.2:9878"', 'c1 = "h:1"\nc2 = "h:1"'), "c1 and c2 have one address"),
        (('data_dir = "data"', 'data_dir = " "'), "data_dir: names no folder"),
        (('controller_id = "c1"', "controller_id ="), "not TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, change: tuple[str, str], text: str
) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        load(written(tmp_path, TEXT.replace(*change)))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "nosuch.toml")


JAVA = """
# three controllers
controllerDLegerGroup = group1
controllerDLegerPeers = n0-10.0.0.1:9878;\\
    n1-10.0.0.2:9878
controllerDLegerSelfId = n0
controllerStorePath = /data/controller
enableElectUncleanMaster = true
mappedFileSize = 4194304
kafka.bootstrap.servers = k:9092
kafka.sasl.password = geheim
advertise_by_network.192.168.0.0/16 = 192.168.0.1:9878
tick_ms = 10
brokerIP1 = 10.0.0.1
"""


def java(folder: Path, text: str = JAVA) -> Path:
    path = folder / "controller.properties"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_properties_file_of_rocketmq_is_enough(tmp_path: Path) -> None:
    config = load(java(tmp_path))
    assert (config.cluster_id, config.controller_id, config.listen, config.advertised) == (
        "group1",
        "n0",
        "0.0.0.0:9878",
        "10.0.0.1:9878",
    )
    assert config.peers == {"n1": "10.0.0.2:9878"} and str(config.data_dir) == "/data/controller"
    assert (
        config.settings == {"enableElectUncleanMaster": "true"}
        and config.kafka["bootstrap.servers"] == "k:9092"
    )
    assert (
        config.advertise_by_network == {"192.168.0.0/16": "192.168.0.1:9878"}
        and config.tick_ms == 10
    )
    assert config.notes == (
        "brokerIP1 is not known here",
        "mappedFileSize has no meaning here: Kafka keeps the log",
    )
    assert config.warnings == ("brokerIP1 is not known here",)


def test_a_peer_may_speak_from_a_network_of_its_own(tmp_path: Path) -> None:
    assert load(java(tmp_path, JAVA + ("peer_networks.n1 = 192.168.0.0/16\n"))).peer_networks == {
        "n1": "192.168.0.0/16"
    }
    with pytest.raises(ConfigError, match="peer_networks"):
        load(java(tmp_path, JAVA + "peer_networks.n1 = elsewhere\n"))


def test_the_same_names_stand_in_toml_beside_ours(tmp_path: Path) -> None:
    text = TEXT.replace(
        'controller_id = "c1"',
        'controllerDLegerSelfId = "c1"\nenableElectUncleanMaster = true\nmappedFileSize = 4096',
    )
    config = load(written(tmp_path, text))
    assert (
        config.controller_id == "c1"
        and config.settings == {"enableElectUncleanMaster": "true"}
        and len(config.notes) == 1
    )


@pytest.mark.parametrize(("text", "said"), [
    (JAVA + "controller_id = c1\n", "controller_id is c1, and under RocketMQ's name n0"),
    (JAVA + "listenPort = 1\n", "listenPort is 1"),
    (JAVA + "x = \\u00zz\n", "no letter"),
    (JAVA + "advertise_by_network.nowhere = h:1\n", "advertise_by_network"),
    (JAVA.replace("kafka.bootstrap.servers = k:9092", ""), "bootstrap.servers"),
])  # fmt: skip
def test_a_contradiction_names_the_file_and_both_sides(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        load(java(tmp_path, text))
    assert "controller.properties" in str(caught.value) and "\n" not in str(caught.value)


def test_the_effective_configuration_is_a_properties_text_without_secrets(tmp_path: Path) -> None:
    shown = parse(load(java(tmp_path)).text())
    assert (
        shown["controllerDLegerPeers"] == ("n0-10.0.0.1:9878;n1-10.0.0.2:9878")
        and shown["listenPort"] == "9878"
    )
    assert shown["enableElectUncleanMaster"] == "true" and shown["mappedFileSize"] == "4194304"
    assert shown["kafka.sasl.password"] == "******" and list(shown) == sorted(shown)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ""),
        ({"http_listen": "127.0.0.1:5557"}, "127.0.0.1:5557"),
        ({"http_listen": "0.0.0.0:5557", "advertise": "c1.example:9878"}, "c1.example:5557"),
        ({"http_listen": "0.0.0.0:5557", "http_advertise": "m.example:80"}, "m.example:80"),
    ],
)
def test_the_http_port_is_told_where_others_reach_it(given: dict[str, str], told: str) -> None:
    config = ControllerConfig(
        controller_id="c1", data_dir=Path("d"), kafka={"bootstrap.servers": "k:1"}, **given
    )  # type: ignore[arg-type]
    assert config.http_advertised == told


@pytest.mark.parametrize("name", ["1a", "a-b", "", "peer_id", "le"])
def test_a_label_that_prometheus_or_java_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a label"):
        ControllerConfig(
            controller_id="c1",
            data_dir=Path("d"),
            kafka={"bootstrap.servers": "k:1"},
            metrics_labels={name: "x"},
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            JAVA.replace("controllerDLegerSelfId = n0", "").replace("controllerDLegerPeers", "x"),
            "controller_id or controllerDLegerSelfId is missing",
        ),
        (
            JAVA.replace("controllerStorePath = /data/controller", ""),
            "data_dir or controllerStorePath is missing",
        ),
        (
            JAVA + ("electMasterMaxRetryCount = 0\n"),
            "electMasterMaxRetryCount cannot be '0', it takes a whole number from 1 to 100",
        ),
        (JAVA + "controllerType = jRaft\n", "it is DLedger's names that are given"),
    ],
)
def test_what_is_missing_or_cannot_be_is_told_in_the_names_of_the_file(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load(java(tmp_path, text))


def test_a_name_that_is_nearly_right_is_asked_back(tmp_path: Path) -> None:
    assert load(java(tmp_path, JAVA + "enableElectUncleanMastr = true\n")).notes[1] == (
        "enableElectUncleanMastr is not known here; did you mean enableElectUncleanMaster?"
    )
    with pytest.raises(
        ConfigError, match=("controler_id is not known here; did you mean controller_id")
    ):
        load(written(tmp_path, 'controler_id = "c2"\n' + TEXT))


def test_every_field_says_what_it_is_for() -> None:
    assert all(field.description for field in ControllerConfig.model_fields.values())
