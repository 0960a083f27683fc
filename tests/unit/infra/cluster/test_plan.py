from pathlib import Path

import pytest

from brokers.process import config as broker_config
from infra.cluster import plan as cluster_plan
from infra.cluster.data_folder import DataFolder
from infra.cluster.options import ACTING, MAJORITY, ClusterOptions, with_defaults
from infra.cluster.plan import ClusterPlan
from infra.kafka import config as kafka_config
from infra.problems import EXIT_USAGE, Problem
from lakehouse.landing.config import LandConfig
from processors.nameserver import config as namesrv_config
from processors.settings import config as controller_config


def plan(tmp_path: Path, **options: object) -> ClusterPlan:
    return cluster_plan.make_plan(
        DataFolder(tmp_path), "c-1", ClusterOptions(**options), tmp_path, tmp_path
    )  # type: ignore[arg-type]


def test_no_two_processes_listen_on_the_same_address(tmp_path: Path) -> None:
    made = plan(tmp_path, kafka_nodes=3)
    addresses = [address for spec in made.processes for address in spec.listens]
    assert len(addresses) == len(set(addresses)) == 3 * 2 + 2 * 2 + 1 + 3 * 3 + 1


def test_every_process_gets_a_configuration_that_its_package_accepts(tmp_path: Path) -> None:
    loaders = {
        "kafka": kafka_config.KafkaConfig.model_validate,
        "controller": controller_config.ControllerConfig.model_validate,
        "namesrv": namesrv_config.NameServerConfig.model_validate,
        "broker": broker_config.BrokerConfig.model_validate,
        "land": LandConfig.model_validate,
    }
    made = plan(tmp_path)
    assert {spec.kind for spec in made.processes} == set(loaders)
    for spec in made.processes:
        loaders[spec.kind](spec.config)


def test_bind_and_advertised_addresses_are_apart(tmp_path: Path) -> None:
    made = plan(tmp_path, host="127.0.0.1", advertise_host="10.0.0.7", base_port=20_000)
    for spec in made.of_kind("broker") + made.of_kind("controller") + made.of_kind("kafka"):
        assert spec.config["listen"].startswith("127.0.0.1:") and spec.config[
            "advertise"
        ].startswith("10.0.0.7:")
    assert all(
        address.startswith("10.0.0.7:") for address in (*made.controllers, *made.name_servers)
    )
    assert made.kafka["bootstrap.servers"].startswith("10.0.0.7:")


def test_a_foreign_kafka_replaces_the_local_one_and_its_settings_reach_every_client(
    tmp_path: Path,
) -> None:
    settings = {
        "bootstrap.servers": "k:9092",
        "security.protocol": "SASL_SSL",
        "sasl.username": "u",
    }
    made = plan(tmp_path, kafka=settings)
    assert made.of_kind("kafka") == ()
    for spec in made.of_kind("controller") + made.of_kind("broker") + made.of_kind("land"):
        assert spec.config["kafka"] == settings


def test_a_later_broker_gets_the_ports_set_aside_for_it(tmp_path: Path) -> None:
    made = plan(tmp_path, replicas=2)
    taken = {address for spec in made.processes for address in spec.listens}
    more = cluster_plan.broker_spec(DataFolder(tmp_path), ClusterOptions(replicas=2), made, 3)
    assert more.name == "broker-a-3" and not taken & set(more.listens)
    again = cluster_plan.broker_spec(DataFolder(tmp_path), ClusterOptions(replicas=2), made, 2)
    assert again.config == made.of_kind("broker")[1].config


@pytest.mark.parametrize(
    "wrong", [{"replicas": -1}, {"controllers": 99}, {"kafka_nodes": 2}, {"base_port": 80}]
)
def test_numbers_that_make_no_cluster_are_wrong_usage(wrong: dict[str, int]) -> None:
    with pytest.raises(Problem) as caught:
        ClusterOptions(**wrong).check()  # type: ignore[arg-type]
    assert caught.value.exit_code == EXIT_USAGE


def test_a_cluster_for_the_brokers_of_others_has_none_of_its_own(tmp_path: Path) -> None:
    made = plan(tmp_path, replicas=0)
    assert not made.of_kind("broker") and made.of_kind("controller") and made.of_kind("namesrv")


def test_the_ports_of_http_lie_behind_all_others_so_that_older_clusters_keep_theirs(
    tmp_path: Path,
) -> None:
    made = plan(tmp_path)
    at = [
        *(spec.config["http_listen"] for spec in made.of_kind("controller")),
        *(spec.config["metrics_listen"] for spec in made.of_kind("land")),
    ]
    http = [int(one.rpartition(":")[2]) for one in at]
    assert http == sorted(http) and len(http) == 3
    others = {int(at.rpartition(":")[2]) for spec in made.processes for at in spec.listens} - set(
        http
    )
    assert min(http) > max(others)
    for spec in made.of_kind("controller"):
        assert set(spec.config["peers_http"]) == set(spec.config["peers"])


def test_a_process_with_a_place_of_its_own_is_bound_told_and_started_there(tmp_path: Path) -> None:
    places = {
        "controller": {"host": "10.0.0.2"},
        "broker-a-2": {"host": "10.0.0.3", "prefix": ["nice"], "config": {"flush_disk": "sync"}},
    }
    made = plan(tmp_path, places=places)
    one, two, _ = made.of_kind("broker")
    assert (
        two.prefix == ("nice",)
        and two.config["flush_disk"] == "sync"
        and one.prefix == ()
        and "flush_disk" not in one.config
    )
    assert all(
        address.startswith("10.0.0.3:")
        for address in (*two.listens, two.config["advertise"], two.config["ha_advertise"])
    )
    assert (
        all(address.startswith("10.0.0.2:") for address in made.controllers)
        and list(made.controllers) == one.config["controllers"]
    )
    assert all(address.startswith("127.0.0.1:") for address in (*one.listens, *made.name_servers))
    again = cluster_plan.broker_spec(DataFolder(tmp_path), ClusterOptions(places=places), made, 2)
    assert (again.config, again.prefix) == (two.config, two.prefix)


@pytest.mark.parametrize(("replicas", "copies"), [(1, 1), (2, 2), (3, 2)])
def test_an_acknowledgement_needs_two_copies_and_of_one_replica_its_own(
    tmp_path: Path, replicas: int, copies: int
) -> None:
    made = plan(tmp_path, replicas=replicas)
    assert [one.config["min_in_sync_replicas"] for one in made.of_kind("broker")] == (
        replicas * [copies]
    )


def acting_plan(tmp_path: Path, **options: object) -> ClusterPlan:
    folder, chosen = DataFolder(tmp_path), with_defaults({"mode": ACTING, **options})
    return cluster_plan.make_plan(folder, "c-1", chosen, tmp_path, tmp_path)


def test_two_sets_without_controllers_need_nothing_but_a_name_server(tmp_path: Path) -> None:
    made = acting_plan(tmp_path)
    assert [spec.name for spec in made.processes] == [
        "namesrv-1",
        *(f"broker-{name}-{number}" for name in "ab" for number in range(3)),
    ]
    assert made.kafka == {} and made.controllers == ()
    addresses = [address for spec in made.processes for address in spec.listens]
    assert len(addresses) == len(set(addresses))


def test_each_of_their_brokers_is_configured_to_act_and_knows_its_set(tmp_path: Path) -> None:
    made = acting_plan(tmp_path, replicas=2, land=True)
    for spec in made.of_kind("broker"):
        config = broker_config.BrokerConfig.model_validate(spec.config)
        assert spec.name == f"{config.broker_name}-{config.broker_id}"
        assert config.enable_slave_acting_master and config.enable_remote_escape
        assert (config.total_replicas, config.lock_in_strict_mode) == (2, False)
        assert config.kafka == made.kafka
    (land,) = made.of_kind("land")
    assert LandConfig.model_validate(land.config).without_controllers


def name_server_log(made: ClusterPlan) -> object:
    (spec,) = made.of_kind("namesrv")
    return namesrv_config.NameServerConfig.model_validate(spec.config).facts_kafka


def test_their_name_server_tells_history_why_a_master_left(tmp_path: Path) -> None:
    made = acting_plan(tmp_path, land=True)
    assert name_server_log(made) == made.kafka != {}
    assert name_server_log(acting_plan(tmp_path)) == {}


def test_their_masters_start_before_their_slaves(tmp_path: Path) -> None:
    masters, slaves = acting_plan(tmp_path).start_groups("broker")
    assert [spec.name for spec in masters] == ["broker-a-0", "broker-b-0"]
    assert len(slaves) == 4
    assert [len(group) for group in plan(tmp_path).start_groups("broker")] == [1, 1, 1]


def test_they_get_no_more_replicas_than_they_were_told_of(tmp_path: Path) -> None:
    made, chosen = acting_plan(tmp_path), with_defaults({"mode": ACTING})
    with pytest.raises(Problem, match="were told"):
        cluster_plan.broker_spec(DataFolder(tmp_path), chosen, made, 4)


def majority_plan(tmp_path: Path, **options: object) -> ClusterPlan:
    folder, chosen = DataFolder(tmp_path), with_defaults({"replication": MAJORITY, **options})
    return cluster_plan.make_plan(folder, "c-1", chosen, tmp_path, tmp_path)


def test_members_of_a_majority_group_know_each_other_and_start_together(tmp_path: Path) -> None:
    made = majority_plan(tmp_path, replicas=5, advertise_host="10.0.0.7")
    assert [spec.name for spec in made.processes] == [
        "namesrv-1",
        *(f"broker-a-{number}" for number in range(1, 6)),
    ]
    assert [len(group) for group in made.start_groups("broker")] == [5]
    configs = [
        broker_config.BrokerConfig.model_validate(spec.config) for spec in made.of_kind("broker")
    ]
    assert len({config.majority_peers for config in configs}) == 1
    for config, spec in zip(configs, made.of_kind("broker"), strict=True):
        member = config.member
        assert config.by_majority and member.bound in spec.listens
        assert member.bound.startswith("127.0.0.1:")
        assert member.addresses[member.self_id] == member.bound.replace("127.0.0.1", "10.0.0.7")
        assert spec.name == f"broker-a-{int(member.self_id[1:]) + 1}", "its broker id"
    addresses = [address for spec in made.processes for address in spec.listens]
    assert len(addresses) == len(set(addresses))


def test_a_majority_group_gets_no_more_members(tmp_path: Path) -> None:
    made, chosen = majority_plan(tmp_path), with_defaults({"replication": MAJORITY})
    with pytest.raises(Problem, match="never change"):
        cluster_plan.broker_spec(DataFolder(tmp_path), chosen, made, 4)
