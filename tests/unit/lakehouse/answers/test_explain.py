import json

import pytest

from events.broker_events import (
    BrokerEventHeader,
    EpochAppended,
    FirstMessageAcknowledged,
    HaLinkUp,
    LogTruncated,
    RequestsForwarded,
    RoleChanged,
)
from events.codec import encode
from lakehouse.answers.explain import explain
from lakehouse.answers.explain_text import explain_text
from lakehouse.errors import NotLanded
from lakehouse.tables.lake import Lake
from tests.support.control_history import NAME, seen, with_master
from tests.support.landed_log import BEGAN_MS, command_records, event_records, land, outcome_records


def header(broker_id: int, at_ms: int) -> BrokerEventHeader:
    return BrokerEventHeader(bytes(16), "DefaultCluster", NAME, broker_id, "i", at_ms, 0)


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """The master's port refuses, broker 3 with the longer log takes over, 1 comes back."""
    past = with_master(1, 2, 3)
    failover = len(past.records)
    past.elect(
        -1,
        seen(1, alive=False, reason="probe_refused"),
        seen(2, offset=900),
        seen(3),
        master_epoch=1,
    )
    past.elect(-1, seen(1), seen(2), seen(3), master_epoch=1)
    past.alter((1, 2, 3), seen(1), seen(2), seen(3))
    at = BEGAN_MS + failover * 1000
    stamps = {
        "detected": at - 30,
        "probed": at - 28,
        "received": at - 27,
        "appended": at,
        "applied": at + 4,
        "answered": at + 5,
        "notified": at + 6,
    }
    events = [
        RoleChanged(header(1, at - 60_000), "MASTER", 1, 1, "elected"),
        RoleChanged(header(2, at + 9), "SLAVE", 2, 3, "notified"),
        RoleChanged(header(3, at + 8), "MASTER", 2, 3, "notified"),
        EpochAppended(header(3, at + 7), 2, 1000, at - 40),
        HaLinkUp(header(3, at + 30), 2, "in"),
        FirstMessageAcknowledged(header(3, at + 44), 2, 1200),
        LogTruncated(header(1, at + 300), 1100, 1000, 2, "epochs differ"),
        RequestsForwarded(header(2, at + 200), 17, 3),
    ]
    land(
        lake,
        command_records(past.records)
        + outcome_records(past.records, phases={failover: stamps})
        + event_records([encode(event) for event in events]),
    )
    return lake


def test_every_election_is_explained_refused_ones_too(landed: Lake) -> None:
    elections = explain(landed, NAME)["elections"]
    assert [e["result"] and e["result"]["master_epoch"] for e in elections] == [1, 2, None]
    assert elections[2]["refusal"] == "STATE_MOVED"
    json.dumps(elections)


def test_an_election_says_what_was_before_and_who_asked(landed: Lake) -> None:
    [election] = explain(landed, NAME, epoch=2)["elections"]
    assert election["previous"] == {
        "master_broker_id": 1,
        "master_epoch": 1,
        "sync_state_set": [1, 2, 3],
    }
    assert election["request"]["expected_master_epoch"] == 1
    assert [e["reason"] for e in election["request"]["evidence"]] == [
        "probe_refused",
        "heartbeat",
        "heartbeat",
    ]
    assert {c["broker_id"]: c["verdict"] for c in election["candidates"]} == {
        1: "NOT_ALIVE",
        2: "LOWER_OFFSET",
        3: "CHOSEN",
    }


def test_phases_run_from_detection_to_what_brokers_reported(landed: Lake) -> None:
    [election] = explain(landed, NAME, epoch=2)["elections"]
    phases = [(p["phase"], p["since_start_ms"], p["took_ms"]) for p in election["phases"]]
    assert phases[:3] == [("detected", 0, 0), ("probed", 2, 2), ("received", 3, 1)]
    assert ("broker 3 is master", 38, 1) in phases
    assert ("first message acknowledged", 74, 14) in phases
    assert ("broker 1 cut its log 1100 -> 1000", 330, 256) in phases
    # What belongs to the epoch before is not shown.
    assert not any("broker 1 is master" in words for words, _, _ in phases)
    assert election["clients"] == {
        "acknowledged_again_after_ms": 74,
        "set_whole_after_ms": 2030,
        "requests_forwarded": 17,
    }


def test_the_text_names_evidence_verdicts_and_times(landed: Lake) -> None:
    text = explain_text(explain(landed, NAME, epoch=2))
    for words in (
        f"{NAME}: epoch 2 began at offset",
        "before:  master 1 in epoch 1, set {1,2,3}",
        "gone       probe_refused",
        "refused: its log is shorter",
        "chosen",
        "+74 ms",
        "acknowledged again after 74 ms",
        "17 requests forwarded",
    ):
        assert words in text


def test_an_unknown_epoch_is_told_the_known_ones(landed: Lake) -> None:
    with pytest.raises(NotLanded, match="known epochs: 1, 2"):
        explain(landed, NAME, epoch=7)


def test_an_unknown_set_is_told_the_known_ones(landed: Lake) -> None:
    with pytest.raises(NotLanded, match=NAME):
        explain(landed, "broker-z")
