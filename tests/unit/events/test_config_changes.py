"""What an operator may change of a running broker, and what he is answered (PROTOCOL 4.19)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.configuration.names import FACTS, NAMES, SETTINGS
from brokers.process.config import BrokerConfig
from events import config_changes
from events.config_changes import Changed, ChangeRefused, Counts

CONFIG = BrokerConfig(
    store_dir=Path("/d"), controllers=["c:1", "d:2"], kafka={"sasl.password": "hush"}
)


OURS = NAMES.ours


def changed(wanted: BrokerConfig, running: BrokerConfig, body: bytes) -> Changed[BrokerConfig]:
    return config_changes.changed(NAMES, wanted, running, body)


def refusal(body: bytes) -> tuple[int, str]:
    with pytest.raises(ChangeRefused) as caught:
        changed(CONFIG, CONFIG, body)
    return 16 if caught.value.forbidden else 1, str(caught.value)


@pytest.mark.parametrize(
    ("body", "field", "value", "counts"),
    [
        (b"fileReservedTime=48", "file_reserved_hours", 48, Counts.AT_ONCE),
        (b"file_reserved_hours=48\n", "file_reserved_hours", 48, Counts.AT_ONCE),
        (b"brokerPermission = 4", "broker_permission", 4, Counts.AT_ONCE),
        (b"enablePropertyFilter=false", "enable_property_filter", False, Counts.AT_ONCE),
        (b"flushDiskType=SYNC_FLUSH", "flush_disk", "sync", Counts.AT_NEXT_START),
        (b"flush_disk=sync", "flush_disk", "sync", Counts.AT_NEXT_START),
        (b"messageDelayLevel=1s 2m", "message_delay_level", "1s 2m", Counts.AT_NEXT_START),
        (b"controllerAddr=e:3;f:4", "controllers", ["e:3", "f:4"], Counts.AT_NEXT_START),
        (b"deleteWhen=02;14", "delete_when", "02;14", Counts.AT_ONCE),
    ],
)
def test_73_a_known_setting_is_changed_by_either_name(
    body: bytes, field: str, value: object, counts: Counts
) -> None:
    made = changed(CONFIG, CONFIG, body)
    assert made.fields == (field,) and getattr(made.wanted, field) == value
    at_once = counts is Counts.AT_ONCE
    assert getattr(made.running, field) == (value if at_once else getattr(CONFIG, field))
    assert made.remark == (None if at_once else f"from the next start on: {field}")


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("brokerConfigPath", "brokerConfigPath"),
        ("configBlackList", "configBlackList"),
        ("brokerName", "brokerName"),
        ("listen", "listen"),
        ("storePathRootDir", "storePathRootDir"),
        ("allAckInSyncStateSet", "allAckInSyncStateSet"),
        ("traceTopicEnable", "traceTopicEnable"),
        ("kafka", "kafka"),
    ],
)
def test_73_what_is_not_changed_at_run_time_is_16_for_the_whole_request(
    name: str, named: str
) -> None:
    code, remark = refusal(f"fileReservedTime=48\n{name}=x".encode())
    assert code == 16 and remark.startswith("Can not update config in black list.")
    assert named in remark


def test_73_an_unknown_name_is_ignored_and_named() -> None:
    made = changed(CONFIG, CONFIG, b"fileReservedTim=48\nsendMessageThreadPoolNums=8")
    assert made.fields == () and made.wanted == CONFIG
    assert made.remark is not None and "fileReservedTim, sendMessageThreadPoolNums" in made.remark
    assert "did you mean fileReservedTime?" in made.remark


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"fileReservedTime=soon", "fileReservedTime"),
        (b"fileReservedTime=0", "file_reserved_hours"),
        (b"fileReservedTime=48\nbrokerPermission=9", "brokerPermission"),
        (b"messageDelayLevel=1s 1y", "messageDelayLevel"),
        (b"flushDiskType=NEVER", "flushDiskType"),
        (b"controllerAddr=nowhere", "controllerAddr"),
        (b"fileReservedTime=1\nfile_reserved_hours=2", "one setting"),
        (b"\xff=1", "UTF-8"),
        (b"a=\\u12", "letter"),
        (b"a=" + b"x" * 1_048_576, "allowed"),
    ],
)
def test_what_cannot_be_is_refused_as_a_whole_and_named(body: bytes, named: str) -> None:
    code, remark = refusal(body)
    assert code == 1 and named in remark and "\n" not in remark


def test_the_same_value_again_changes_nothing() -> None:
    made = changed(CONFIG, CONFIG, b"fileReservedTime=72\nflushDiskType=ASYNC_FLUSH")
    assert made.fields == () and made.remark is None and changed(CONFIG, CONFIG, b"").fields == ()


def test_what_waits_for_the_next_start_does_not_slip_in_with_a_later_change() -> None:
    first = changed(CONFIG, CONFIG, b"flushDiskType=SYNC_FLUSH")
    then = changed(first.wanted, first.running, b"fileReservedTime=9")
    assert (then.running.flush_disk, then.running.file_reserved_hours) == ("async", 9)
    assert (then.wanted.flush_disk, then.wanted.file_reserved_hours) == ("sync", 9)


def test_73_the_configuration_is_shown_under_both_names_and_without_secrets() -> None:
    lines = NAMES.lines(CONFIG, {"brokerId": "0"})
    assert lines["fileReservedTime"] == lines["file_reserved_hours"] == "72"
    assert (lines["flush_disk"], lines["flushDiskType"]) == ("async", "ASYNC_FLUSH")
    assert lines["controllerAddr"] == "c:1;d:2" and lines["enablePropertyFilter"] == "true"
    assert lines["messageDelayLevel"].endswith("30m 1h 2h") and lines["advertise"] == ""
    assert lines["brokerId"] == "0" and "hush" not in str(lines) and "kafka" not in lines


def test_77_what_export_configs_copies_is_there() -> None:
    shown = NAMES.lines(CONFIG, dict.fromkeys(("brokerId", "brokerRole"), ""))
    wanted = (
        "brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums "
        "flushDiskType maxMessageSize messageDelayLevel msgTraceTopicName slaveReadEnable traceOn "
        "traceTopicEnable useTLS autoCreateTopicEnable autoCreateSubscriptionGroup "
        "clientCallbackExecutorThreads"
    )
    assert set(wanted.split()) <= set(shown) and not set(FACTS) & set(OURS)


ANY_NAME = st.sampled_from([*SETTINGS, *OURS, *FACTS, "other", ""])
VALUES = st.text(max_size=12) | st.sampled_from(["true", "6", "1s 2s", "SYNC_FLUSH", "c:1"])


@given(st.lists(st.tuples(ANY_NAME, VALUES), max_size=6), st.binary(max_size=20))
def test_whatever_comes_is_a_change_or_a_refusal_in_words(
    pairs: list[tuple[str, str]], tail: bytes
) -> None:
    body = "".join(f"{name}={value}\n" for name, value in pairs).encode("utf-8", "replace") + tail
    try:
        made = changed(CONFIG, CONFIG, body)
    except ChangeRefused as refused:
        assert len(str(refused)) < 4_096
    else:
        kept = {name for name in SETTINGS if SETTINGS[name].counts is Counts.NOT_CHANGED}
        assert not kept & set(made.fields)
        assert all(getattr(made.wanted, name) == getattr(CONFIG, name) for name in kept)
