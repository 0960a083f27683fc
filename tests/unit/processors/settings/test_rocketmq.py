"""RocketMQ's names for what is configured."""

import pytest

from events.properties import parse
from processors.fold.state import ControllerState
from processors.settings import rocketmq
from processors.settings.rocketmq import Contradiction, is_known, metrics_names, translate

STOCK = {
    "controllerDLegerGroup": "group1",
    "controllerDLegerPeers": ("n0-10.0.0.1:9878;n1-10.0.0.2:9868;n2-10.0.0.3:9858"),
    "controllerDLegerSelfId": "n1",
    "controllerStorePath": "/var/regent/controller",
    "enableElectUncleanMaster": "false",
    "notifyBrokerRoleChanged": "true",
}


def test_the_shipped_file_of_three_controllers() -> None:
    done = translate(STOCK)
    assert done.fields == {
        "cluster_id": "group1",
        "controller_id": "n1",
        "listen": "0.0.0.0:9868",
        "advertise": "10.0.0.2:9868",
        "peers": {"n0": "10.0.0.1:9878", "n2": "10.0.0.3:9858"},
        "data_dir": ("/var/regent/controller"),
        "settings": {"enableElectUncleanMaster": "false", "notifyBrokerRoleChanged": "true"},
    }
    assert done.notes == []


def test_a_file_for_the_other_java_kernel() -> None:
    done = translate(
        {
            "controllerType": "jRaft",
            "jRaftGroupId": "g",
            "jRaftServerId": "h2:9880",
            "jRaftInitConf": "h1:9880,h2:9880",
            "jRaftControllerRPCAddr": "h1:9770,h2:9771",
        }
    )
    assert done.fields == {
        "cluster_id": "g",
        "controller_id": "h2-9880",
        "listen": "0.0.0.0:9771",
        "advertise": "h2:9771",
        "peers": {"h1-9880": "h1:9770"},
    }


def test_settings_kafka_and_limits_find_their_places() -> None:
    done = translate(
        {
            "scanNotActiveBrokerInterval": " 2000 ",
            "isProcessReadEvent": "TRUE",
            ("kafka.bootstrap.servers"): "k:9092",
            "listenPort": "9878",
            "bindAddress": "10.0.0.9",
            "serverChannelMaxIdleTimeSeconds": "60",
            "controllerRequestThreadPoolQueueCapacity": "500",
        }
    )
    assert done.fields == {
        "settings": {"scanNotActiveBrokerInterval": "2000", "processReadEvent": "true"},
        "kafka": {"bootstrap.servers": "k:9092"},
        "listen": "10.0.0.9:9878",
        "idle_timeout_ms": 60_000,
        "requests_max": "500",
    }


@pytest.mark.parametrize(
    ("given", "listen"),
    [
        ({"metricsExporterType": "PROM"}, "0.0.0.0:5557"),
        (
            {
                "metricsExporterType": "2",
                "metricsPromExporterHost": "h",
                "metricsPromExporterPort": "9",
            },
            "h:9",
        ),
        ({"metricsExporterType": "DISABLE", "metricsPromExporterPort": "9"}, None),
        ({"metricsExporterType": "LOG"}, None),
    ],
)
def test_metrics_are_served_when_prometheus_was_asked_for(
    given: dict[str, str], listen: str | None
) -> None:
    done = translate(given)
    assert done.fields.get("http_listen") == listen
    assert bool(done.notes) == (given["metricsExporterType"] == "LOG")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"metricsExporterType": "OTLP_GRPC"},
            ["metricsExporterType OTLP_GRPC is not served: no metrics leave"],
        ),
        (
            {"metricsExporterType": "1"},
            ["metricsExporterType OTLP_GRPC is not served: no metrics leave"],
        ),
        (
            {"metricsExporterType": "LOG"},
            ["metricsExporterType LOG is not served: no metrics leave"],
        ),
        ({"metricsInDelta": "true"}, ["metricsInDelta is not served"]),
        ({"metricsInDelta": "false"}, []),
        (
            {"metricsGrpcExporterTarget": "h:1", "metricsExporterType": "PROM"},
            ["metricsGrpcExporterTarget is not served"],
        ),
        ({"metricsExporterType": "PROM", "mappedFileSize": "1"}, []),
    ],
)
def test_what_is_asked_for_and_not_served_is_a_warning(
    given: dict[str, str], said: list[str]
) -> None:
    done = translate(given)
    assert len(done.warnings) == len(said) and all(
        line.startswith(one) for line, one in zip(done.warnings, said, strict=True)
    )
    assert set(done.warnings) <= set(done.notes)


@pytest.mark.parametrize("name", ["processReadEvent", "isProcessReadEvent"])
def test_a_setting_that_changes_nothing_here_says_so(name: str) -> None:
    done = translate({name: "true", "electMasterMaxRetryCount": "4"})
    assert done.notes == [
        (
            f"{name} has no effect: every read is proven to be current before it is answered, "
            "whatever this says"
        )
    ]
    assert done.fields["settings"]["processReadEvent"] == "true" and done.warnings == []


def test_a_name_without_meaning_is_accepted_with_a_line_and_shown_again() -> None:
    done = translate({"mappedFileSize": "1073741824", "controllerThreadPoolNums": "16"})
    assert (
        done.fields == {}
        and len(done.notes) == 2
        and ("mappedFileSize has no meaning here") in done.notes[1]
    )
    assert done.shown == {"mappedFileSize": "1073741824", "controllerThreadPoolNums": "16"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (STOCK | {"listenPort": "9878"}, "listenPort is 9878"),
        (STOCK | {"controllerDLegerSelfId": "n7"}, "n7 is not among"),
        ({"controllerDLegerPeers": "n0-h:1"}, "without controllerDLegerSelfId"),
        ({"controllerDLegerPeers": "h:1", "controllerDLegerSelfId": "n0"}, "not id-host:port"),
        ({"controllerDLegerPeers": "n0-h:1;n0-h:2", "controllerDLegerSelfId": "n0"}, "twice"),
        ({"processReadEvent": "true", "isProcessReadEvent": "false"}, "both"),
        ({"controllerType": "Paxos"}, "controllerType"),
        ({"listenPort": "many"}, "not a number"),
        ({"metricsExporterType": "TELEGRAPH"}, "metricsExporterType"),
        (
            {
                "controllerType": "jRaft",
                "jRaftInitConf": "a:1,b:1",
                "jRaftControllerRPCAddr": "a:2",
            },
            "names 2",
        ),
    ],
)
def test_a_contradiction_is_one_clear_line(given: dict[str, str], said: str) -> None:
    with pytest.raises(Contradiction, match=said):
        translate(given)


def test_which_names_are_known() -> None:
    assert all(
        map(
            is_known,
            ("listenPort", "enableElectUncleanMaster", "kafka.ssl.ca.location", "jRaftGroupId"),
        )
    )
    assert not is_known("brokerIP1") and not is_known("data_dir")


def test_labels_of_the_metrics_are_taken_and_what_is_no_pair_is_noted() -> None:
    done = translate({"metricsLabel": "zone:a,rack:7,broken,a:b:c"})
    assert done.fields["metrics_labels"] == {"zone": "a", "rack": "7"}
    assert [note.split("'")[1] for note in done.notes] == ["broken", "a:b:c"]
    assert metrics_names("", {"zone": "a", "rack": "7"})["metricsLabel"] == "zone:a,rack:7"


def test_ids_and_hosts_may_hold_dashes() -> None:
    ours = "controller-1-127.0.0.1:9878;controller-2-127.0.0.1:9879"
    done = translate({"controllerDLegerPeers": ours, "controllerDLegerSelfId": "controller-2"})
    assert (
        done.fields["peers"] == {"controller-1": "127.0.0.1:9878"}
        and done.fields["advertise"] == "127.0.0.1:9879"
    )
    done = translate(
        {
            "controllerDLegerPeers": ("n0-my-host:1;n1-my-other-host:2"),
            "controllerDLegerSelfId": "n0",
        }
    )
    assert (
        done.fields["peers"] == {"n1": "my-other-host:2"}
        and done.fields["advertise"] == "my-host:1"
    )


STARTUP = {
    "listenPort": "9878",
    "controllerDLegerSelfId": "n0",
    ("kafka.sasl.password"): "p",
    "kafka.sasl.jaas.config": "j",
}


def test_names_are_sorted_and_the_text_is_never_empty() -> None:
    lines = rocketmq.shown({}, ControllerState()).decode().splitlines()
    assert lines == sorted(lines) and "configBlackList=configBlackList;configStorePath" in lines


def test_settings_in_force_stand_beside_start_up_values_under_javas_names() -> None:
    shown = parse(rocketmq.shown(STARTUP, ControllerState()))
    assert shown["listenPort"] == "9878" and shown["enableElectUncleanMaster"] == "false"
    assert shown["isProcessReadEvent"] == "false" and "processReadEvent" not in shown
    assert (
        shown["scanNotActiveBrokerInterval"] == "5000" and shown["electMasterMaxRetryCount"] == "3"
    )


def test_what_lets_others_in_is_not_shown() -> None:
    shown = parse(rocketmq.shown(STARTUP, ControllerState()))
    assert shown["kafka.sasl.password"] == shown["kafka.sasl.jaas.config"] == rocketmq.SECRET


def test_the_black_list_always_holds_three_names_and_those_of_the_file() -> None:
    for name in ("configBlackList", "configStorePath", "rocketmqHome"):
        assert rocketmq.touches_black_list({name: ""}, {"configBlackList": "other"})
    assert rocketmq.touches_black_list({"other": ""}, {"configBlackList": "a;other"})
    assert not rocketmq.touches_black_list({"other": ""}, {})


def test_a_start_up_value_may_be_repeated_but_not_changed() -> None:
    assert rocketmq.fixed_at_start({"listenPort": "9878 ", "unknown": "1"}, STARTUP) == []
    assert rocketmq.fixed_at_start({"listenPort": "1"}, STARTUP) == ["listenPort"]
    assert rocketmq.fixed_at_start({"mappedFileSize": "1"}, STARTUP) == ["mappedFileSize"]
    assert rocketmq.fixed_at_start({"enableElectUncleanMaster": "true"}, STARTUP) == []
