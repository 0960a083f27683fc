import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from events import codec
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError, LandingGap
from lakehouse.landing import log_probe
from lakehouse.landing.log_probe import LogEnds
from lakehouse.tables.high_water import HighWater
from tests.support.control_history import CLUSTER_ID, with_master
from tests.support.mock_kafka import mock_kafka

COMMANDS = [b"zero", b"one", b"two"]


@pytest.fixture(scope="module")
def kafka() -> Iterator[dict[str, str]]:
    """A log of three commands."""
    with mock_kafka() as settings:
        producer = Producer(settings)
        for value in COMMANDS:
            producer.produce(COMMANDS_TOPIC, value, partition=0)
        producer.flush()
        yield settings


def check(kafka: dict[str, str], last: int, landed: list[bytes]) -> None:
    mark = HighWater({(COMMANDS_TOPIC, 0): last} if last >= 0 else {})
    log_probe.check_same_log(kafka, mark, lambda place, offset: landed[offset])


def test_ends_and_records_are_read(kafka: dict[str, str]) -> None:
    assert log_probe.log_ends(kafka, (COMMANDS_TOPIC,))[COMMANDS_TOPIC, 0] == LogEnds(0, 3)
    assert log_probe.value_at(kafka, COMMANDS_TOPIC, 1) == b"one"


def test_the_log_the_tables_were_made_from_is_accepted(kafka: dict[str, str]) -> None:
    check(kafka, 2, COMMANDS)
    check(kafka, 1, COMMANDS)
    check(kafka, -1, [])


def test_a_log_that_was_made_anew_is_refused(kafka: dict[str, str]) -> None:
    """Else its records would be dropped as a replay."""
    with pytest.raises(LandingGap, match="another record at offset 0"):
        check(kafka, 1, [b"another", b"one"])
    with pytest.raises(LandingGap, match="another record at offset 2"):
        check(kafka, 2, [b"zero", b"one", b"another"])


def test_events_of_a_topic_that_was_made_anew_and_grew_longer_are_refused(
    kafka: dict[str, str],
) -> None:
    place = (BROKER_EVENTS_TOPIC, 3)
    producer = Producer(kafka)
    for number in range(5):
        producer.produce(BROKER_EVENTS_TOPIC, b"new %d" % number, partition=3)
    producer.flush()
    mark = HighWater({(COMMANDS_TOPIC, 0): 2, place: 2})

    def landed(where: tuple[str, int], offset: int) -> bytes | None:
        return COMMANDS[offset] if where[0] == COMMANDS_TOPIC else events.get(offset)

    events = {number: b"new %d" % number for number in range(3)}
    log_probe.check_same_log(kafka, mark, landed)
    events = {2: b"new 2"}  # landing began behind the first one
    log_probe.check_same_log(kafka, mark, landed)
    events = {number: b"old %d" % number for number in range(3)}
    with pytest.raises(LandingGap, match=r"regent.broker-events-3 holds another record at offset"):
        log_probe.check_same_log(kafka, mark, landed)


def test_a_log_that_lost_its_end_is_refused(kafka: dict[str, str]) -> None:
    with pytest.raises(LandingGap, match="ends at 3 but record 5 has landed"):
        check(kafka, 5, COMMANDS)


def test_waiting_for_topics_ends_when_they_are_there(kafka: dict[str, str]) -> None:
    told: list[str] = []
    log_probe.wait_for_topics(kafka, (COMMANDS_TOPIC,), stopped=lambda: False, tell=told.append)
    assert told == []


def test_waiting_for_topics_says_once_what_it_waits_for_and_ends_when_stopped(
    kafka: dict[str, str],
) -> None:
    told: list[str] = []
    rounds = iter([False, False, True])
    log_probe.wait_for_topics(
        kafka, (COMMANDS_TOPIC, OUTCOMES_TOPIC), stopped=lambda: next(rounds), tell=told.append
    )
    assert told == [f"waiting: topics {OUTCOMES_TOPIC}"]


def test_a_kafka_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_probe, "ASK_TIMEOUT_S", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(LakehouseError, match=f"{nowhere} is not reachable"):
            log_probe.missing_topics({"bootstrap.servers": nowhere, "log_level": "0"}, ("a",))


def cluster(
    values: list[bytes], wanted: str | None = None, rounds: int = 3, *, unformed: bool = False
) -> tuple[str | None, list[str]]:
    """Whose log it is, asked at most `rounds` times, and what was told meanwhile."""
    told: list[str] = []
    left = iter([False] * rounds + [True])
    with mock_kafka() as settings:
        producer = Producer(settings)
        for value in values:
            producer.produce(COMMANDS_TOPIC, value, partition=0)
        producer.flush()
        return log_probe.wait_for_cluster(
            settings, wanted, stopped=lambda: next(left), tell=told.append, may_be_unformed=unformed
        ), told


def test_record_0_says_whose_log_it_is() -> None:
    records = with_master(1).records
    assert cluster(records) == (CLUSTER_ID, [])
    assert cluster(records, CLUSTER_ID) == (CLUSTER_ID, [])
    with pytest.raises(
        LakehouseError, match=(f"log of cluster {CLUSTER_ID}, but cluster_id another is configured")
    ):
        cluster(records, "another")


def test_a_log_without_a_cluster_is_waited_for() -> None:
    assert cluster([]) == (None, ["waiting: no controller has formed a cluster yet"])


def test_a_log_without_controllers_is_the_configured_clusters_until_one_forms_another() -> None:
    assert cluster([], "fixed", unformed=True) == ("fixed", [])
    assert cluster([], None, unformed=True)[0] is None
    records = with_master(1).records
    assert cluster(records, CLUSTER_ID, unformed=True) == (CLUSTER_ID, [])
    with pytest.raises(LakehouseError, match="but cluster_id fixed is configured"):
        cluster(records, "fixed", unformed=True)


def test_a_log_that_begins_with_something_else_is_refused() -> None:
    with pytest.raises(LakehouseError, match="record 0 of regent.commands cannot be read"):
        cluster([b"garbage"])
    with pytest.raises(LakehouseError, match="record 0 of regent.commands is a ClaimLeadership"):
        cluster(with_master(1).records[1:])


def test_a_log_that_lost_its_beginning_is_the_configured_clusters_unless_it_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether landing goes on is decided by what has landed."""
    later = with_master(1).records[2:]
    begins = {(COMMANDS_TOPIC, 0): LogEnds(2, 2 + len(later))}
    monkeypatch.setattr(log_probe, "log_ends", lambda kafka, topics: begins)

    def whose(value: bytes, wanted: str | None) -> str | None:
        monkeypatch.setattr(log_probe, "value_at", lambda kafka, topic, offset: value)
        return log_probe.wait_for_cluster({}, wanted, stopped=lambda: False, tell=lambda text: None)

    assert whose(later[0], CLUSTER_ID) == whose(b"garbage", CLUSTER_ID) == CLUSTER_ID
    with pytest.raises(LakehouseError, match="begins at record 2, .* name the cluster with"):
        whose(later[0], None)
    with pytest.raises(LakehouseError, match=f"log of cluster {CLUSTER_ID}, but cluster_id other"):
        whose(later[0], "other")


@pytest.mark.parametrize("cluster_id", ["", "ü", "a/b", "a b", "x" * 65, "a\n"])
def test_a_cluster_of_a_name_that_no_controller_takes_is_refused(cluster_id: str) -> None:
    formed = codec.decode(with_master(1).records[0])
    named = replace(formed, envelope=replace(formed.envelope, cluster_id=cluster_id))
    with pytest.raises(LakehouseError, match="a cluster's id has 1 to 64 of"):
        log_probe.cluster_of(codec.encode(named))


def test_a_cluster_of_a_name_that_controllers_take_is_landed() -> None:
    formed = codec.decode(with_master(1).records[0])
    for cluster_id in ("regent", "..", "A.b_c-9", "x" * 64):
        named = replace(formed, envelope=replace(formed.envelope, cluster_id=cluster_id))
        assert log_probe.cluster_of(codec.encode(named)) == cluster_id
