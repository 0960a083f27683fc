"""The doctor tells what brokers know of damage in their stores."""

from __future__ import annotations

import json

import pytest

from infra.doctor import stores
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK, WARN
from tests.support import remoting_thread
from tests.support.brokers import free_port

COMMANDS = Commands()
SOUND = {
    "kind": "broker",
    "records_damaged": 0,
    "slots_taken": 0,
    "queue_ends_behind": 0,
    "start_passed_over": 0,
}


@pytest.mark.parametrize(
    ("field", "verdict", "text"),
    [
        ("records_damaged", FAIL, "a/1 holds 3 damaged message(s)"),
        ("start_passed_over", WARN, "a/1's last start passed over 3 damaged"),
        ("queue_ends_behind", FAIL, "a/1 has seen more of 3 queue(s) than its master"),
        ("slots_taken", FAIL, "a/1 has 3 message(s) that no queue shows"),
    ],
)
def test_each_kind_of_damage_is_a_finding_with_a_way_out(
    field: str, verdict: str, text: str
) -> None:
    (one,) = stores.told_by("a/1", {**SOUND, field: 3}, COMMANDS)
    assert one.verdict == verdict and one.text.startswith(text) and one.command


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"role": "SLAVE", "write_refusal": "a slave"}, None),
        ({"role": "MASTER", "write_refusal": None, "store_refusal": None}, None),
        (
            {"role": "MASTER", "write_refusal": "1 of 2 replicas are in sync"},
            "a/1 is master and refuses sends: 1 of 2 replicas are in sync",
        ),
        ({"role": "SLAVE", "store_refusal": "disk is full"}, "a/1 takes no messages onto its disk"),
    ],
)
def test_a_master_that_refuses_sends_and_a_disk_that_takes_nothing_fail(
    told: dict[str, object], text: str | None
) -> None:
    found = stores.told_by("a/1", {**SOUND, "broker_name": "a", **told}, COMMANDS)
    assert [one.verdict for one in found] == ([] if text is None else [FAIL])
    assert text is None or (found[0].text.startswith(text) and found[0].command)


def test_sound_stores_are_told_as_such_and_those_of_an_older_release_too() -> None:
    assert not stores.told_by("a/1", SOUND, COMMANDS)
    assert not stores.told_by("a/1", {"records_damaged": 0}, COMMANDS)


def test_a_broker_is_asked_and_one_that_is_silent_says_nothing() -> None:
    gone = f"127.0.0.1:{free_port()}"
    assert stores.check(stores.ask({"a/1": gone}), COMMANDS) == []
    answer = lambda _, request: request.reply(body=json.dumps(SOUND).encode())
    with remoting_thread.serving(answer) as address:
        (found,) = stores.check(stores.ask({"a/1": address, "a/2": gone}), COMMANDS)
    assert found.verdict == OK and found.text == "1 broker(s) know of no damage in their stores"
