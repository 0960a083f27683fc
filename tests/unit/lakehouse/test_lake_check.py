"""What has landed is checked without Spark: gaps and broken invariants are told with their offsets, and nothing else is."""

import json

import pytest

from events.changes import MasterElected
from events.codec import encode
from lakehouse import lake_check
from lakehouse.errors import NotLanded
from lakehouse.lake_check import check
from lakehouse.lake import Lake
from tests.support.judged_history import Voices, altered, at_change, decided, sound_history, sound_voices
from tests.support.landed_log import append_to_bronze, command_records, event_records, land, outcome_records

RECORDS = sound_history().records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)
SOUND = decided(RECORDS)


def events_of(voices: Voices, partition: int = 0) -> list:  # type: ignore[type-arg]
    return event_records([encode(row.event) for row in voices.rows], partition)


def test_a_sound_history_is_sound(lake: Lake) -> None:
    repeated = [(topic, partition, offset + 3, value) for topic, partition, offset, value in OUTCOMES[-3:]]
    land(lake, [*COMMANDS, *OUTCOMES, *repeated, *events_of(sound_voices(), 2)])
    report = check(lake)
    assert (report.exit_code, report.decisions, report.broker_events) == (0, len(RECORDS), len(sound_voices().rows))
    assert report.text() == f"sound: {len(RECORDS)} decisions and {report.broker_events} broker events, 10 invariants"


def test_broken_invariants_are_told_with_their_offsets(lake: Lake) -> None:
    index = at_change(SOUND, MasterElected, 1)
    lie = encode(altered(SOUND, index, MasterElected, master_epoch=1)[index].outcome)
    outcomes = [*OUTCOMES[:index], (*OUTCOMES[index][:3], lie), *OUTCOMES[index + 1 :]]
    land(lake, [*COMMANDS, *outcomes, *events_of(sound_voices().leads(3, 1), 1)])
    report = check(lake)
    assert report.exit_code == 1
    assert {"epochs_only_grow", "one_master_per_epoch"} <= set(report.violations)
    told = report.text()
    assert f"regent.commands-0 offset {index}: broker-a: master epoch 1 after 1" in told
    assert f"regent.broker-events-1 offset {len(sound_voices().rows)}: broker-a: broker 3 leads epoch 1" in told
    document = json.loads(json.dumps(report.as_dict()))
    assert document["exit_code"] == 1
    assert document["counter_examples"][0]["offset"] == index


def test_gaps_are_told_and_what_lies_behind_them_is_judged(lake: Lake) -> None:
    land(lake, [*COMMANDS[:5], *OUTCOMES[:7]])
    append_to_bronze(lake, COMMANDS[7:])
    append_to_bronze(lake, OUTCOMES[9:])
    report = check(lake)
    assert [(gap["topic"], gap["first"], gap["last"]) for gap in report.gaps] == [("regent.commands", 5, 6), ("regent.outcomes", 7, 8)]
    assert (report.exit_code, report.decisions) == (1, len(RECORDS) - 2)
    assert "regent.commands-0 offsets 5 to 6 never landed" in report.text()


def test_only_broker_events_may_begin_above_offset_0(lake: Lake) -> None:
    land(lake, [])
    append_to_bronze(lake, COMMANDS[1:])
    append_to_bronze(lake, OUTCOMES[1:])
    append_to_bronze(lake, events_of(sound_voices())[1:])
    assert [(gap["topic"], gap["first"], gap["last"]) for gap in check(lake).gaps] == [("regent.commands", 0, 0), ("regent.outcomes", 0, 0)]


def test_outcomes_ahead_of_their_commands_and_unreadable_ones_are_counted(lake: Lake) -> None:
    land(lake, [*COMMANDS[:-2], *OUTCOMES, ("regent.outcomes", 0, len(OUTCOMES), b"x"), *event_records([b"y"])])
    report = check(lake)
    assert (report.exit_code, report.ahead, report.unreadable) == (0, 2, 2)
    assert "2 outcomes landed before their commands" in report.text()
    assert "2 records cannot be read" in report.text()


def test_counter_examples_are_bounded_and_still_counted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_check, "COUNTER_EXAMPLES_SHOWN_MAX", 2)
    voices = sound_voices()
    for _ in range(4):
        voices.wrote(1, 2, 950)
    land(lake, [*COMMANDS, *OUTCOMES, *events_of(voices)])
    report = check(lake)
    assert (len(report.counter_examples), report.violations) == (2, {"epoch_files_agree_with_elections": 4})


def test_no_tables_are_said_so(lake: Lake) -> None:
    with pytest.raises(NotLanded):
        check(lake)
    land(lake, [])
    assert check(lake).exit_code == 0
