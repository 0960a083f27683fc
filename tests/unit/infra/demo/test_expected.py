from infra.demo import expected

GOOD = {
    "commands": {"ClusterFormed": 1},
    "refused": 1,
    "shrinks": 1,
    "expands": 4,
    "changes": {
        "LeadershipClaimed": 2,
        "BrokerIdApplied": 4,
        "BrokerRegistered": 6,
        "MasterElected": 3,
    },
    "elections": {"broker_request": 1, "master_probe_refused": 2},
}


def test_every_kind_that_the_steps_cause_is_asked_for() -> None:
    assert all(one["ok"] for one in expected.check(GOOD))


def test_a_kind_that_is_missing_is_named() -> None:
    found = expected.check({**GOOD, "refused": 0, "elections": {"broker_request": 3}})
    assert [one["name"] for one in found if not one["ok"]] == [
        "elections because the master was gone",
        "refusals",
    ]
