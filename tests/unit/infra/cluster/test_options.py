"""What a person may choose of a local cluster, and what follows from it."""

from __future__ import annotations

import pytest

from infra.cluster.options import ACTING, MAJORITY, ClusterOptions, with_defaults
from infra.problems import EXIT_USAGE, Problem


def test_sets_without_controllers_need_neither_controllers_nor_kafka() -> None:
    options = with_defaults({"mode": ACTING})
    options.check()
    assert (options.controllers, options.kafka_nodes, options.land) == (0, 0, False)
    assert options.acts and not options.has_log


def test_who_lands_their_facts_gets_a_log() -> None:
    options = with_defaults({"mode": ACTING, "land": True})
    options.check()
    assert options.kafka_nodes == 1 and options.has_log


def test_a_log_of_ones_own_starts_none() -> None:
    options = with_defaults({"mode": ACTING, "land": True, "kafka": {"bootstrap.servers": "k:1"}})
    options.check()
    assert options.kafka_nodes == 0 and options.has_log


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"replicas": 1}, "out of range"),
        ({"controllers": 1}, "nobody elects"),
        ({"kafka_nodes": 2}, "no choice"),
        ({"land": True, "kafka_nodes": 0}, "needs a log"),
    ],
)
def test_what_makes_no_such_cluster_is_wrong_usage(given: dict[str, object], why: str) -> None:
    with pytest.raises(Problem, match=why) as raised:
        with_defaults({"mode": ACTING, **given}).check()
    assert raised.value.exit_code == EXIT_USAGE


def test_without_a_mode_controllers_elect() -> None:
    assert with_defaults({"replicas": 2}) == ClusterOptions(replicas=2)


def test_a_set_that_replicates_by_majority_needs_neither_controllers_nor_kafka() -> None:
    options = with_defaults({"replication": MAJORITY})
    options.check()
    assert (options.replicas, options.controllers, options.has_log) == (3, 0, False)
    assert options.by_majority and not options.land
    landed = with_defaults({"replication": MAJORITY, "land": True, "replicas": 5})
    landed.check()
    assert landed.kafka_nodes == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"replicas": 4}, "Use 3 or 5"),
        ({"controllers": 1}, "its members elect"),
        ({"mode": ACTING}, "replicates in one way"),
        ({"land": True, "kafka_nodes": 0}, "needs a log"),
    ],
)
def test_what_makes_no_majority_group_is_wrong_usage(given: dict[str, object], why: str) -> None:
    with pytest.raises(Problem) as raised:
        with_defaults({"replication": MAJORITY, **given}).check()
    assert why in raised.value.line() and raised.value.exit_code == EXIT_USAGE
