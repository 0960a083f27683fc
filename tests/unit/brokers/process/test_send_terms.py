"""The send service of a broker, as its configuration wants it."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.process.replica import LocalReplica
from brokers.process.send_terms import send_terms, timer_rules
from brokers.service.sending.timed import TimerRules
from brokers.store.log.records import host_bytes
from tests.support.brokers import broker_config


async def test_messages_carry_the_address_behind_an_advertised_name(tmp_path: Path) -> None:
    config = broker_config(tmp_path, ["127.0.0.1:1"], advertise="localhost:10911")
    replica = LocalReplica(config)
    assert send_terms(config, replica).store_host == host_bytes("127.0.0.1", 10911)
    replica.close()


async def test_an_advertised_name_without_an_address_is_named(tmp_path: Path) -> None:
    for name in ("no-such-host.invalid", "x" * 64):
        config = broker_config(
            tmp_path, ["127.0.0.1:1"], advertise=f"{name}:10911", ha_advertise=f"{name}:10912"
        )
        replica = LocalReplica(config)
        with pytest.raises(OSError, match=f"{name}' has no address, and others"):
            send_terms(config, replica)
        replica.close()


def test_rocketmqs_settings_of_the_wheel_reach_it(tmp_path: Path) -> None:
    fields = {
        "broker_name": "b-9",
        "timer_wheel_enable": False,
        "timer_precision_ms": 250,
        "timer_max_delay_s": 7,
        "timer_roll_window_slots": 700_000,
        "timer_slot_messages": 11,
        "timer_stop_enqueue": True,
        "timer_stop_dequeue": True,
        "timer_flush_interval_ms": 90,
        "timer_log_file_bytes": 8_192,
        "recall_message_enable": True,
    }
    rules = timer_rules(broker_config(tmp_path, ["127.0.0.1:1"], **fields))
    # as RocketMQ: the precision forced down to one that it knows, the window to half the wheel
    assert rules == TimerRules("b-9", False, 200, 7_000, 604_740, 11, True, True, 90, 8_192, True)
    defaults = timer_rules(broker_config(tmp_path, ["127.0.0.1:1"], broker_name="broker-a"))
    assert defaults == TimerRules()
