from infra.cli import status as cli_status
from tests.support import pasted

CONTROLLER_STATUS = {"http_address": "h:7"}
PROCESS = {
    "name": "broker-a-1",
    "kind": "broker",
    "state": "ready",
    "pid": 7,
    "address": "h:1",
    "answers": True,
    "role": {"kind": "master", "id": 1, "epoch": 3},
    "restarts": 0,
}
VIEW = {
    "cluster_id": "c",
    "state": "ready",
    "dir": "/d",
    "problems": [],
    "name_servers": ["h:9"],
    "controllers": ["h:8"],
    "processes": [PROCESS, {**PROCESS, "name": "broker-a-2", "answers": False}],
    "sets": {
        "broker-a": {
            "master": 1,
            "master_address": "h:1",
            "master_epoch": 4,
            "sync_state_set": [1, 2],
            "sync_state_set_epoch": 6,
            "members": [
                {
                    "id": 1,
                    "address": "h:1",
                    "alive": True,
                    "in_set": True,
                    "clean": True,
                    "epoch": 4,
                    "max_offset": 90,
                    "end_offset": 100,
                    "confirm_offset": 99,
                }
            ],
        }
    },
    "landing": {
        "stage": "landing",
        "rows": 5,
        "lag_records": 2,
        "error": None,
        "lag_ms": 3400,
        "lost_records": 0,
        "alarms": 0,
        "troubles": {},
        "metrics": "h:6",
    },
}


def test_a_person_sees_processes_sets_with_both_epochs_and_the_lag() -> None:
    text = "\n".join(cli_status.render(VIEW))
    assert "master id 1 at h:1, epoch 4, in sync [1, 2] (set epoch 6)" in text
    assert "ready, silent" in text and "2 records behind the log" in text
    assert "100  99" in text, "the broker's own end and confirm offset"


def test_lag_alarms_and_troubles_of_the_lake_are_told() -> None:
    text = "\n".join(cli_status.render(VIEW))
    assert (
        ("2 records behind the log, the oldest for 3 s") in text
        and "http://h:6/metrics" in text
        and "ALARMS" not in text
    )
    troubled = {**VIEW["landing"], "alarms": 3, "troubles": {"care": "no room"}}  # type: ignore[dict-item]
    text = "\n".join(cli_status.render({**VIEW, "landing": troubled}))
    assert (
        "3 ALARMS STAND: 'regent lake check' names them"
    ) in text and "care has failed and is tried again: no room" in text


def test_records_that_were_lost_before_they_landed_are_one_line() -> None:
    assert "gone from the log" not in "\n".join(cli_status.render(VIEW))
    landing = {**VIEW["landing"], "lost_records": 150}  # type: ignore[dict-item]
    assert (
        "lake: 150 records were gone from the log before they landed: 'regent lake check' names "
        "them"
    ) in cli_status.render({**VIEW, "landing": landing})


def test_a_set_without_a_master_says_so() -> None:
    sets = {"broker-a": {**VIEW["sets"]["broker-a"], "master": None}}  # type: ignore[index]
    assert "master none" in "\n".join(cli_status.render({**VIEW, "sets": sets, "landing": None}))


def test_a_process_that_does_not_answer_is_not_well() -> None:
    assert cli_status.is_well(PROCESS) and not cli_status.is_well({**PROCESS, "answers": False})
    assert cli_status.is_well({**PROCESS, "answers": None}), "Kafka cannot be asked"
    assert not cli_status.is_well({**PROCESS, "state": "restarting"})


def test_a_process_that_says_itself_that_it_does_nothing_is_not_well() -> None:
    controller = {**PROCESS, "kind": "controller"}
    for said, state in (
        ({"ready": True, "log_answers": True}, "ready"),
        ({"ready": False, "log_answers": False}, "ready, no log"),
        ({"ready": True, "log_answers": False}, "ready, no log"),
        ({"ready": False}, "ready, serves nobody"),
        ({}, "ready"),
    ):
        assert cli_status.state_of({**controller, "status": said}) == state
    assert not cli_status.is_well({**PROCESS, "paused": True})


def test_what_cannot_be_decided_is_a_problem_with_the_way_out() -> None:
    well = {**VIEW, "processes": [PROCESS]}
    assert "problem" not in "\n".join(cli_status.render(well)) and cli_status.all_well(well)
    sick = {**well, "problems": ["NOTHING CAN BE DECIDED"]}
    assert not cli_status.all_well(sick)
    assert cli_status.render(sick)[-2:] == [
        "problem: NOTHING CAN BE DECIDED",
        "why, and what to do: regent doctor --dir /d",
    ]
    assert pasted.why_not("regent doctor --dir /d") is None


def test_a_lag_that_nobody_can_know_is_not_told_as_none() -> None:
    landing = {**VIEW["landing"], "lag_records": None}  # type: ignore[dict-item]
    text = "\n".join(cli_status.render({**VIEW, "landing": landing}))
    assert "how far behind the log is not known" in text and "records behind" not in text


def test_where_a_controller_serves_its_metrics_is_shown() -> None:
    controller = {
        **PROCESS,
        "name": "controller-1",
        "kind": "controller",
        "status": CONTROLLER_STATUS,
    }
    text = "\n".join(cli_status.render({**VIEW, "processes": [controller, PROCESS]}))
    assert "controller-1 http://h:7/metrics" in text


def test_sets_too_many_to_be_told_are_counted() -> None:
    process = {**VIEW["processes"][0], "status": {"sets_known": 10_000}}  # type: ignore[index]
    text = "\n".join(cli_status.render({**VIEW, "processes": [process], "sets": {}}))
    assert "10000 broker sets" in text and "regent controller sets" in text


def test_a_broker_that_may_lose_what_it_acknowledged_is_named() -> None:
    modes = {"broker-a-1": "all-ack", "broker-a-2": "count 2 (may lose)"}
    processes = [
        {**PROCESS, "name": name, "status": {"ack_mode": mode}} for name, mode in modes.items()
    ]
    text = "\n".join(cli_status.render({**VIEW, "processes": processes}))
    assert (
        "broker-a-2 acknowledges in mode count 2 (may lose)"
    ) in text and "broker-a-1 acknowledges" not in text


def test_a_set_that_waits_for_an_operator_says_what_to_do() -> None:
    ((name, one),) = VIEW["sets"].items()  # type: ignore[attr-defined]
    waiting = {**one, "operator_needed": {"reason": "nobody lives", "way_out": "start replica 1"}}
    text = "\n".join(cli_status.render({**VIEW, "sets": {name: waiting}}))
    assert f"OPERATOR NEEDED for set {name}: nobody lives. Way out: start replica 1" in text
    assert "OPERATOR" not in "\n".join(cli_status.render(VIEW))


def test_a_broker_with_a_full_disk_or_damaged_messages_is_named() -> None:
    status = {
        "store_refusal": "no space left",
        "records_damaged": 2,
        "slots_taken": 3,
        "queue_ends_behind": 5,
        "start_passed_over": 4,
    }
    processes = [
        {**PROCESS, "name": "broker-a-2", "status": status},
        {**PROCESS, "name": "broker-a-1", "status": {"records_damaged": 0}},
    ]
    text = "\n".join(cli_status.render({**VIEW, "processes": processes}))
    assert (
        "broker-a-2 takes no messages: no space left"
    ) in text and "broker-a-2 holds 2 damaged messages" in text
    assert (
        "broker-a-2 has 3 messages that no queue shows"
    ) in text and "broker-a-2 passed over 4 damaged records" in text
    assert "broker-a-2 has seen more of 5 queues than its master" in text
    assert "broker-a-1 takes" not in text and "broker-a-1 holds" not in text


def test_a_broker_that_is_asked_to_stop_says_how_long_it_stays() -> None:
    found = cli_status._store_lines("broker-a-1", {"leaves_in_ms": 31_400})
    assert found == [
        "broker-a-1 is asked to stop, and stays 31 s at least for clients with an old route"
    ]


def test_sets_without_controllers_say_who_acts() -> None:
    member = {"id": 1, "address": "h:2", "registered": True, "log_end": 9, "behind": 0}
    acting = {"master": None, "acting": "broker-a-1", "members": [{**member, "acts": True}]}
    slave = {**PROCESS, "role": {"kind": "slave", "id": 1, "epoch": 0, "acts": True}}
    view = {
        **VIEW,
        "mode": "acting",
        "sets": {},
        "processes": [slave],
        "acting_sets": {"broker-a": acting},
        "landing": None,
        "problems": ["broker-a has no master"],
    }
    text = "\n".join(cli_status.render(view))
    assert "no controllers: a slave acts for a master that is away" in text
    assert "slave id 1, acts" in text
    assert "set broker-a: NO MASTER, broker-a-1 acts for it" in text
    assert not cli_status.all_well(view)
