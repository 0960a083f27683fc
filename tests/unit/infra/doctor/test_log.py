from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC, TOPICS
from infra.doctor import log
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK, WARN, Finding
from processors.log.start_notes import StartNotes
from tests.support.brokers import free_port
from tests.support.mock_kafka import mock_kafka


def checked(kafka: dict[str, str], *, local: bool) -> list[Finding]:
    return log.check(kafka, log.Wish(local, local), (), Commands(kafka=kafka))


def test_a_kafka_that_is_not_there_is_one_failure(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(log, "ASK_TIMEOUT_S", 0.5)
    (one,) = checked({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, local=True)
    assert (
        one.verdict == FAIL
        and "is not reachable" in one.text
        and "bootstrap.servers" in one.way_out
    )


def test_without_an_address_it_is_not_looked_at() -> None:
    assert [one.verdict for one in checked({}, local=False)] == [OK]


def test_topics_that_lack_are_made_by_a_local_cluster_and_by_nobody_elsewhere() -> None:
    with mock_kafka() as kafka:
        local = checked(kafka, local=True)
        elsewhere = checked(kafka, local=False)
    assert [one.verdict for one in local] == [OK, WARN, WARN, WARN]
    assert [one.verdict for one in elsewhere] == [OK, FAIL, FAIL, FAIL]
    where = kafka["bootstrap.servers"]
    assert elsewhere[1].command == f"regent topics create --kafka bootstrap.servers={where}"


def test_without_controllers_only_the_topic_that_brokers_report_to_is_asked_for() -> None:
    with mock_kafka() as kafka:
        found = log.check(kafka, log.REPORTS, (), Commands(kafka=kafka))
    assert [one.verdict for one in found] == [OK, FAIL]
    assert f"{BROKER_EVENTS_TOPIC} is not there" in found[1].text
    assert "--replication 1" in str(found[1].command), "this Kafka has one node"


def test_topics_that_only_have_to_be_there_are_not_judged_by_settings_or_times() -> None:
    waits = replace(log.REPORTS, there=TOPICS)
    long_hence_ms = time.time_ns() // 1_000_000 + 3_600_000
    with mock_kafka() as kafka:
        producer = Producer(kafka)
        for name in (COMMANDS_TOPIC, OUTCOMES_TOPIC):
            producer.produce(name, b"x", partition=0, timestamp=long_hence_ms)
        assert producer.flush(10) == 0
        found = log.check(kafka, waits, (), Commands(kafka=kafka))
    told = [one.text for one in found if "nobody writes to it" in one.text]
    assert len(told) == 2, found
    (missing,) = (one for one in found if one.verdict != OK)
    assert BROKER_EVENTS_TOPIC in missing.text


def test_the_time_of_the_newest_record_is_read() -> None:
    with mock_kafka() as kafka:
        producer = Producer(kafka)
        wanted = time.time_ns() // 1_000_000 + 3_600_000
        for stamp in (1_000_000, wanted):
            producer.produce(COMMANDS_TOPIC, b"x", partition=0, timestamp=stamp)
        assert producer.flush(10) == 0
        assert log.newest_ms(kafka, COMMANDS_TOPIC) == wanted


def test_a_record_from_the_future_means_that_a_clock_is_wrong(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    now_ms = time.time_ns() // 1_000_000
    with mock_kafka() as kafka:
        producer = Producer(kafka)
        producer.produce(COMMANDS_TOPIC, b"x", partition=0, timestamp=now_ms + 60_000)
        assert producer.flush(10) == 0
        cluster = log.AdminClient(kafka).list_topics(timeout=10)
        (one,) = log._times(kafka, cluster, log.Wish())
    assert one.verdict == WARN and "in the future" in one.text


def test_a_log_that_is_shorter_than_a_controller_had_applied_is_told(tmp_path: Path) -> None:
    (tmp_path / "a-broker").mkdir()
    short, fine = tmp_path / "c1", tmp_path / "c2"
    StartNotes(short).keep_applied_offset(2)
    StartNotes(fine).keep_applied_offset(1)
    with mock_kafka() as kafka:
        producer = Producer(kafka)
        for _ in range(2):
            producer.produce(COMMANDS_TOPIC, b"x", partition=0)
        assert producer.flush(10) == 0
        found = log.lost(kafka, [tmp_path / "a-broker", short, fine], Commands())
        sound = log.lost(kafka, [fine], Commands())
    assert (
        [one.verdict for one in found] == [FAIL]
        and str(short) in found[0].text
        and "ends at offset 2" in found[0].text
    )
    assert ("regent controller rebuild") in found[0].command and [one.verdict for one in sound] == [
        OK
    ]
    assert not list((tmp_path / "a-broker").iterdir()), "nothing is written into a broker's folder"
