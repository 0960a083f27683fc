"""The name server's settings: defaults, flags over the file, one clear line for what is wrong."""

import pytest

from events.config_file import ConfigError
from processors.nameserver.config import NameServerConfig, load


def test_without_a_file_the_defaults_hold():
    assert load(None) == NameServerConfig(listen="127.0.0.1:9876", scan_interval_ms=5_000)


def test_flags_win_over_the_file_and_absent_flags_say_nothing(tmp_path):
    path = tmp_path / "namesrv.toml"
    path.write_text('listen = "0.0.0.0:1"\nscan_interval_ms = 100\n')
    config = load(path, {"listen": "127.0.0.1:2", "scan_interval_ms": None})
    assert (config.listen, config.scan_interval_ms) == ("127.0.0.1:2", 100)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("listen = ", "not TOML"),
        ("\udcff", "not TOML"),
        ('listen = "here"', "listen"),
        ("scan_interval_ms = 1", "scan_interval_ms"),
        ("colour = 1", "colour"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it_and_the_reason(tmp_path, text, reason):
    path = tmp_path / "namesrv.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=reason) as failure:
        load(path)
    assert str(path) in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")


def test_a_wrong_flag_is_named():
    with pytest.raises(ConfigError, match="flags: listen"):
        load(None, {"listen": "nowhere"})


EMBEDDED_TOML = """
listen = "127.0.0.1:9876"
enableControllerInNamesrv = {enabled}
[controller]
controller_id = "n0"
listen = "127.0.0.1:9878"
data_dir = "data"
enableElectUncleanMaster = true
[controller.peers]
n1 = "10.0.0.2:9878"
[controller.kafka]
"bootstrap.servers" = "k:9092"
"""


def test_a_controller_inside_has_a_table_of_its_own_and_runs_only_when_enabled(tmp_path):
    path = tmp_path / "namesrv.toml"
    path.write_text(EMBEDDED_TOML.format(enabled="true"))
    inner = load(path).embedded
    assert inner is not None and (inner.controller_id, inner.listen) == ("n0", "127.0.0.1:9878")
    assert inner.peers == {"n1": "10.0.0.2:9878"} and inner.settings == {
        "enableElectUncleanMaster": "true"
    }
    assert inner.kafka_wait_ms > 86_400_000, "a name server serves without Kafka"
    path.write_text(EMBEDDED_TOML.format(enabled="false"))
    assert load(path).embedded is None
    assert load(path, {"enable_controller_in_namesrv": True}).embedded is not None


def test_a_wrong_or_missing_table_of_the_controller_is_named(tmp_path):
    path = tmp_path / "namesrv.toml"
    path.write_text("enableControllerInNamesrv = true")
    with pytest.raises(
        ConfigError, match=("controller: controller_id or controllerDLegerSelfId is missing")
    ):
        load(path)
    path.write_text(EMBEDDED_TOML.format(enabled="true").replace("n0", "n 0"))
    with pytest.raises(ConfigError, match=r"namesrv.toml: controller: controller_id"):
        load(path)


def test_a_properties_file_of_rocketmq_is_for_both(tmp_path):
    path = tmp_path / "namesrv.conf"
    path.write_text(
        "listenPort=9000\nenableControllerInNamesrv=true\ncontrollerDLegerGroup=group1\n"
        "controllerDLegerPeers=n0-127.0.0.1:9877;n1-127.0.0.1:9868\ncontrollerDLegerSelfId=n0\n"
        "controllerStorePath=store\nenableElectUncleanMaster=true\nkafka.bootstrap.servers=k:"
        "9092\nsomethingElse=1\n"
    )
    config = load(path)
    assert config.listen == "0.0.0.0:9000"
    inner = config.embedded
    assert (
        inner is not None and inner.advertised == "127.0.0.1:9877" and inner.cluster_id == "group1"
    )
    assert inner.peers == {"n1": "127.0.0.1:9868"} and str(inner.data_dir) == "store"
    assert inner.notes == ("somethingElse is not known here",)
    assert config.notes == config.warnings == inner.warnings == inner.notes, (
        "the process that it runs in says so"
    )
    path.write_text("listenPort=9000\n")
    assert load(path).embedded is None and load(path).notes == load(path).warnings == ()


def test_rocketmqs_names_for_sets_without_a_controller_are_read(tmp_path):
    path = tmp_path / "namesrv.conf"
    path.write_text(
        "supportActingMaster=false\nnotifyMinBrokerIdChanged=true\n"
        "unRegisterBrokerQueueCapacity=7\ndeleteTopicWithBrokerRegistration=true\n"
    )
    config = load(path)
    assert not config.support_acting_master and config.notify_min_broker_id_changed
    assert config.departures_max == 7 and config.delete_topic_with_registration
    default = load(None)
    assert default.support_acting_master and not default.notify_min_broker_id_changed
    assert default.departures_max == 3_000 and not default.delete_topic_with_registration


def test_the_log_for_facts_is_its_own_or_that_of_the_controller_inside(tmp_path):
    assert load(None).facts_kafka == {}
    told = {"bootstrap.servers": "k:1"}
    assert load(None, {"kafka": told}).facts_kafka == told
    path = tmp_path / "namesrv.properties"
    path.write_text("kafka.bootstrap.servers = k:1\n")
    assert load(path).facts_kafka == told
    inside = tmp_path / "inside.toml"
    inside.write_text(EMBEDDED_TOML.format(enabled="true"))
    assert load(inside).facts_kafka == {"bootstrap.servers": "k:9092"}
