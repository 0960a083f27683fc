from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import decode, encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.landing.silver_rows import LogRecord, silver_rows
from tests.support.control_history import seen, with_master
from tests.support.landed_log import outcome_records

AT = datetime(2026, 1, 1, tzinfo=UTC)
HISTORY = with_master(1, 2, 3)
HISTORY.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
HISTORY.elect(-1, seen(1), seen(2), seen(3), master_epoch=9)
OUTCOMES = [value or b"" for *_, value in outcome_records(HISTORY.records)]
LINK = HaLinkUp(BrokerEventHeader(bytes(16), "c", "broker-a", 1, "i", 5, 0), 2, "out")


def rows(topic: str, value: bytes | None) -> dict[str, dict]:
    return dict(silver_rows(LogRecord("cluster-1", topic, 0, 7, AT, value)))


def test_a_command_becomes_one_row_that_says_where_it_is_from() -> None:
    found = rows(COMMANDS_TOPIC, HISTORY.records[-2])
    assert list(found) == ["silver/elect_master"]
    row = found["silver/elect_master"]
    assert (row["log_partition"], row["log_offset"], row["log_timestamp"]) == (0, 7, AT)
    assert (row["broker_name"], row["expected_master_epoch"]) == ("broker-a", 1)
    assert [(e["broker_id"], e["alive"]) for e in row["evidence"]] == [
        (1, False),
        (2, True),
        (3, True),
    ]


def test_an_election_stands_in_decisions_and_in_elections() -> None:
    found = rows(OUTCOMES_TOPIC, OUTCOMES[-2])
    assert list(found) == ["silver/decisions", "silver/elections"]
    election = found["silver/elections"]
    assert (election["master_broker_id"], election["master_epoch"]) == (2, 2)
    assert election["sync_state_set"] == [2, 3]
    assert [c["verdict"] for c in election["candidates"]] == ["NOT_ALIVE", "CHOSEN", "HIGHER_ID"]


def test_a_refused_election_has_no_result() -> None:
    election = rows(OUTCOMES_TOPIC, OUTCOMES[-1])["silver/elections"]
    assert (election["accepted"], election["refusal"]) == (False, "STATE_MOVED")
    assert election["master_broker_id"] is None
    assert election["sync_state_set"] is None


def test_other_outcomes_are_decisions_alone() -> None:
    assert list(rows(OUTCOMES_TOPIC, OUTCOMES[0])) == ["silver/decisions"]


@pytest.mark.parametrize(
    ("topic", "value", "reason"),
    [
        (COMMANDS_TOPIC, b"garbage", "MalformedRecord: no single-object marker"),
        (COMMANDS_TOPIC, None, "MalformedRecord"),
        (COMMANDS_TOPIC, b"\xc3\x01" + bytes(20), "UnknownFingerprint"),
        (COMMANDS_TOPIC, HISTORY.records[0][:-3], "MalformedRecord"),
        (COMMANDS_TOPIC, encode(LINK), "a HaLinkUp does not belong in this topic"),
        (BROKER_EVENTS_TOPIC, HISTORY.records[0], "a ClusterFormed does not belong"),
        (OUTCOMES_TOPIC, encode(replace(decode(OUTCOMES[0]), digest=b"x")), "digest is not 64"),
    ],
)
def test_what_is_no_row_elsewhere_is_unreadable_with_its_bytes(
    topic: str, value: bytes | None, reason: str
) -> None:
    found = rows(topic, value)
    assert list(found) == ["silver/unreadable"]
    assert reason in found["silver/unreadable"]["reason"]
    assert found["silver/unreadable"]["value"] == value
    assert found["silver/unreadable"]["topic"] == topic
