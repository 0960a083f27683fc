"""Pulses are looked at when they may have news, and only then."""

from processors.liveness.pulse_watch import ENTRIES_SPARE, PulseWatch
from processors.liveness.pulses import BrokerKey, Pulse


def watched(heard_ms: int = 0, timeout_ms: int = 1_000) -> tuple[PulseWatch, Pulse]:
    pulse = Pulse(("c", "b", 1), "h:1", 1, heard_ms, timeout_ms)
    pulses: dict[BrokerKey, Pulse] = {pulse.key: pulse}
    watch = PulseWatch(pulses)
    watch.keep(pulse)
    return watch, pulse


def test_a_pulse_is_due_when_its_silence_is_too_long_and_once() -> None:
    watch, pulse = watched()
    assert watch.due(1_000) == []
    assert watch.due(1_001) == [pulse]
    assert watch.due(9_999) == []


def test_heartbeats_add_nothing_and_the_old_entry_leads_to_the_new_time() -> None:
    watch, pulse = watched()
    for now_ms in range(1, 500):
        pulse.heard_ms = now_ms
        watch.keep(pulse)
    assert len(watch) == 1
    assert watch.due(1_001) == [pulse]
    watch.keep(pulse)
    assert watch.due(1_499) == []
    assert watch.due(1_500) == [pulse]


def test_a_shorter_timeout_and_a_probe_come_first() -> None:
    watch, pulse = watched()
    pulse.timeout_ms = 100
    watch.keep(pulse)
    pulse.probes_due_ms = [30, 60]
    watch.keep(pulse)
    assert watch.due(29) == []
    assert watch.due(30) == [pulse]
    pulse.probes_due_ms = []
    pulse.heard_ms = 1_000
    watch.keep(pulse)
    assert watch.due(1_100) == [], "outdated entries are nobody's news"
    assert watch.due(1_101) == [pulse]


def test_timeouts_that_keep_shrinking_do_not_fill_the_memory() -> None:
    watch, pulse = watched(timeout_ms=1_000_000)
    for shorter in range(100_000):
        pulse.timeout_ms = 999_999 - shorter
        watch.keep(pulse)
    assert len(watch) <= 2 + ENTRIES_SPARE
    assert watch.due(899_999 + 2) == [pulse]
