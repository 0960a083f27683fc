"""What has landed is checked without Spark: gaps and broken invariants are told with their offsets,
and nothing else is.
"""

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from events.changes import MasterElected
from events.codec import encode
from lakehouse.errors import NotLanded
from lakehouse.invariants import check as lake_check
from lakehouse.invariants import kept
from lakehouse.invariants import report as check_report
from lakehouse.invariants.alarms import AHEAD, DOUBLED, GAP, SHORT
from lakehouse.invariants.check import check, standing_alarms
from lakehouse.invariants.kept import alarms
from lakehouse.invariants.lengths import AHEAD_MAX_MS, Witness
from lakehouse.tables.delta import OpenTables
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import Loss, loss_rows
from lakehouse.tables.specs import LOSSES
from tests.support.examples import some
from tests.support.judged_history import (
    Voices,
    altered,
    at_change,
    decided,
    sound_history,
    sound_voices,
)
from tests.support.landed_log import (
    BEGAN_MS,
    Record,
    append_to_bronze,
    command_records,
    event_records,
    lake_in,
    land,
    outcome_records,
)

RECORDS = sound_history().records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)
SOUND = decided(RECORDS)
EVENTS = len(sound_voices().rows)


def events_of(voices: Voices, partition: int = 0) -> list:  # type: ignore[type-arg]
    return event_records([encode(row.event) for row in voices.rows], partition)


def test_a_sound_history_is_sound(lake: Lake) -> None:
    repeated = [
        (topic, partition, offset + 3, value) for topic, partition, offset, value in OUTCOMES[-3:]
    ]
    land(lake, [*COMMANDS, *OUTCOMES, *repeated, *events_of(sound_voices(), 2)])
    report = check(lake)
    assert (report.exit_code, report.decisions, report.broker_events) == (
        0,
        len(RECORDS),
        len(sound_voices().rows),
    )
    assert report.text() == (
        f"sound: {len(RECORDS)} decisions and {report.broker_events} broker events, 13 invariants"
    )


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
    assert (
        f"regent.broker-events-1 offset {len(sound_voices().rows)}: broker-a: broker 3 leads "
        "epoch 1"
    ) in told
    document = json.loads(json.dumps(report.as_dict()))
    assert document["exit_code"] == 1
    assert document["alarms"][0]["offset"] == index and document["alarms"][0]["explanation"]


def test_gaps_are_told_and_what_lies_behind_them_is_judged(lake: Lake) -> None:
    land(lake, [*COMMANDS[:5], *OUTCOMES[:7]])
    append_to_bronze(lake, COMMANDS[7:])
    append_to_bronze(lake, OUTCOMES[9:])
    report = check(lake)
    assert [(gap["topic"], gap["first"], gap["last"]) for gap in report.gaps] == [
        ("regent.commands", 5, 6),
        ("regent.outcomes", 7, 8),
    ]
    assert (report.exit_code, report.decisions) == (1, len(RECORDS) - 2)
    assert "regent.commands-0 offsets 5 to 6 never landed" in report.text()


def test_only_broker_events_may_begin_above_offset_0(lake: Lake) -> None:
    land(lake, [])
    append_to_bronze(lake, COMMANDS[1:])
    append_to_bronze(lake, OUTCOMES[1:])
    append_to_bronze(lake, events_of(sound_voices())[1:])
    assert [(gap["topic"], gap["first"], gap["last"]) for gap in check(lake).gaps] == [
        ("regent.commands", 0, 0),
        ("regent.outcomes", 0, 0),
    ]


def test_commands_on_their_way_are_counted_and_judged_when_they_are_there(lake: Lake) -> None:
    land(
        lake,
        [
            *COMMANDS[:-2],
            *OUTCOMES,
            ("regent.outcomes", 0, len(OUTCOMES), b"x"),
            *event_records([b"y"]),
        ],
    )
    report = check(lake, now_ms=BEGAN_MS + 1_000)
    assert (report.exit_code, report.ahead, report.unreadable, report.decisions) == (
        0,
        2,
        1,
        len(RECORDS) - 2,
    )
    assert "2 commands are still on their way" in report.text()
    assert "1 records cannot be read" in report.text()
    land(lake, COMMANDS, 1)
    report = check(lake, now_ms=BEGAN_MS + 2_000)
    assert (
        report.exit_code,
        report.ahead,
        report.unreadable,
        report.decisions,
        report.judged_now,
    ) == (0, 0, 2, len(RECORDS), 2)


def test_commands_that_stay_away_while_their_outcomes_are_there_are_an_alarm_until_they_come(
    lake: Lake,
) -> None:
    land(lake, [*COMMANDS[:-2], *OUTCOMES])
    late = BEGAN_MS + AHEAD_MAX_MS + 1
    report = check(lake, now_ms=late)
    [alarm] = standing_alarms(lake)
    last = len(RECORDS) - 1
    assert (report.exit_code, alarm.alarm, alarm.topic, alarm.offset, alarm.last_offset) == (
        1,
        AHEAD,
        "regent.commands",
        last - 1,
        last,
    )
    assert f"what commands {last - 1} to {last} led to has landed, they have not" in report.text()
    land(lake, COMMANDS, 1)
    assert check(lake, now_ms=late + 1).exit_code == 0 and not standing_alarms(lake)
    assert [one.cleared_ms for one in alarms(lake)] == [late + 1]


def test_commands_cut_at_the_end_after_they_were_judged_are_an_alarm(lake: Lake) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    assert check(lake).exit_code == 0
    report = check(with_other_bronze(lake, [*COMMANDS[:-2], *OUTCOMES]))
    assert {one.alarm for one in report.alarms} == {AHEAD, SHORT}


def with_other_bronze(lake: Lake, records: list[Record]) -> Lake:
    """The same checks and alarms beside other records."""
    other = Lake(f"{lake.root}-other", lake.cluster_id)
    land(other, records)
    for layer in ("proof", "gold"):
        if (Path(lake.root) / layer).exists():
            shutil.copytree(Path(lake.root) / layer, Path(other.root) / layer)
    return other


def test_alarms_shown_are_bounded_and_still_counted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_report, "ALARMS_SHOWN_MAX", 2)
    voices = sound_voices()
    for _ in range(4):
        voices.wrote(1, 2, 950)
    land(lake, [*COMMANDS, *OUTCOMES, *events_of(voices)])
    report = check(lake)
    assert report.violations == {"epoch_files_agree_with_elections": 4}
    assert (len(report.as_dict()["alarms"]), report.as_dict()["alarms_standing"]) == (2, 4)
    assert "2 more alarms stand in gold/alarms" in report.text()
    monkeypatch.setattr(lake_check, "VIOLATIONS_KEPT_MAX", 3)
    report = check(lake, from_start=True)
    assert (len(report.alarms), report.violations) == (3, {"epoch_files_agree_with_elections": 4})


def test_a_check_goes_on_where_the_last_one_ended_and_alarms_stand(lake: Lake) -> None:
    land(lake, [*COMMANDS, *OUTCOMES, *events_of(sound_voices().leads(3, 1))])
    first = check(lake, now_ms=1_000)
    assert (first.exit_code, first.judged_now) == (1, first.decisions + first.broker_events)
    again = check(lake, now_ms=2_000)
    assert (again.exit_code, again.judged_now, again.alarms) == (1, 0, first.alarms)
    assert (again.violations, again.decisions, again.broker_events) == (
        first.violations,
        first.decisions,
        first.broker_events,
    )
    assert (
        "first seen 1970-01-01 00:00:01.000 UTC"
    ) in again.text() and "0 of them are new" in again.text()
    whole = check(lake, from_start=True, now_ms=3_000)
    assert (whole.alarms, whole.judged_now) == (first.alarms, first.judged_now), (
        "first seen when it was first seen"
    )


def broken() -> tuple[list[Record], list[Record], list[Record]]:
    """Commands, outcomes and broker events with several breaches."""
    index = at_change(SOUND, MasterElected, 1)
    lie = encode(altered(SOUND, index, MasterElected, master_epoch=1)[index].outcome)
    voices = sound_voices().wrote(1, 2, 950).acknowledged(1, 1, 5000).leads(3, 2)
    return (
        COMMANDS,
        [*OUTCOMES[:index], (*OUTCOMES[index][:3], lie), *OUTCOMES[index + 1 :]],
        events_of(voices),
    )


@pytest.mark.parametrize("seed", some(range(4)))
def test_checks_of_pieces_find_what_one_check_of_all_finds(seed: int, tmp_path: Path) -> None:
    commands, outcomes, events = broken()
    whole, pieces = lake_in(tmp_path / "whole"), lake_in(tmp_path / "pieces")
    land(whole, [*commands, *outcomes, *events])
    land(pieces, [])
    random, at = Random(seed), [0, 0, 0]
    while at != [len(commands), len(outcomes), len(events)]:
        for place, log in enumerate((commands, outcomes, events)):
            to = min(len(log), at[place] + random.randrange(9))
            if to > at[place]:
                append_to_bronze(pieces, log[at[place] : to])
            at[place] = to
        check(pieces, now_ms=1_000)
    one, many = check(whole, now_ms=1_000), check(pieces, now_ms=1_000)
    assert one.alarms and set(one.alarms) == set(many.alarms)
    assert (one.violations, one.decisions, one.broker_events) == (
        many.violations,
        many.decisions,
        many.broker_events,
    )


def test_a_gap_stands_until_it_is_filled_and_what_it_hid_is_judged_then(lake: Lake) -> None:
    land(lake, [*COMMANDS, *OUTCOMES[:5]])
    append_to_bronze(lake, OUTCOMES[7:])
    assert [one.alarm for one in check(lake).alarms] == [GAP]
    assert check(lake).judged_now == 0 and [one.alarm for one in standing_alarms(lake)] == [GAP]
    append_to_bronze(lake, OUTCOMES[5:7])
    report = check(lake)
    assert (report.exit_code, report.decisions, report.judged_now) == (
        0,
        len(RECORDS),
        len(RECORDS),
    )
    assert [(one.alarm, one.stands) for one in alarms(lake)] == [(GAP, False)]


def test_a_breach_that_was_put_right_is_cleared_when_all_is_judged_again(lake: Lake) -> None:
    commands, outcomes, _ = broken()
    land(lake, [*commands, *outcomes])
    assert check(lake).exit_code == 1
    put_right = with_other_bronze(lake, [*COMMANDS, *OUTCOMES])
    assert check(put_right).exit_code == 1, "what was judged is not looked at again"
    assert check(put_right, from_start=True).exit_code == 0 and not standing_alarms(put_right)


def test_what_another_release_kept_is_judged_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    check(lake)
    monkeypatch.setattr(kept, "INVARIANTS", kept.INVARIANTS[:-1])
    assert check(lake).judged_now == len(RECORDS)


def test_clusters_of_one_lake_are_kept_apart(lake: Lake) -> None:
    land(lake, [*COMMANDS[:5], *OUTCOMES])
    append_to_bronze(lake, COMMANDS[7:])
    other = lake.of("other's")
    land(other, [*COMMANDS, *OUTCOMES])
    assert (check(lake).exit_code, check(other).exit_code) == (1, 0)
    assert (check(lake).judged_now, check(other).judged_now) == (0, 0)
    assert (len(standing_alarms(lake)), len(standing_alarms(other))) == (1, 0)


def test_who_may_only_read_the_lake_can_check_it_and_is_told(lake: Lake) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    (Path(lake.root) / "proof").write_text("no folder")
    report = check(lake)
    assert report.exit_code == 0 and "could not be kept" in report.text()


def test_no_tables_are_said_so(lake: Lake) -> None:
    with pytest.raises(NotLanded):
        check(lake)
    land(lake, [])
    assert check(lake).exit_code == 0


def test_an_end_that_is_gone_with_all_that_speaks_of_it_is_remembered_by_the_check(
    lake: Lake,
) -> None:
    land(lake, [*COMMANDS, *OUTCOMES, *events_of(sound_voices())])
    assert check(lake).exit_code == 0
    last = len(RECORDS) - 1
    cut = with_other_bronze(lake, [*COMMANDS[:-3], *OUTCOMES[:-3], *events_of(sound_voices())[:-1]])
    for from_start in (False, True, False):
        report = check(cut, from_start=from_start)
        assert report.exit_code == 1
        assert [(one.alarm, one.topic, one.offset, one.last_offset) for one in report.alarms] == [
            (SHORT, "regent.broker-events", EVENTS - 1, EVENTS - 1),
            (SHORT, "regent.commands", last - 2, last),
            (SHORT, "regent.outcomes", last - 2, last),
        ]
        assert f"proof/check knows records up to {last}: the end was taken away" in report.text()
        assert "what to do: put files and commits back" in report.text()
    land(cut, [*COMMANDS, *OUTCOMES, *events_of(sound_voices())], 1)
    assert check(cut).exit_code == 0


class SomebodyRemembers:
    """Witnesses of a lake, as the test says."""

    def __init__(self, remembered: list[Witness], beyond: list[Witness]) -> None:
        self.remembered, self._beyond = remembered, beyond

    def beyond(self, ends: object) -> list[Witness]:
        return self._beyond


def test_others_who_remember_a_later_end_are_named(lake: Lake) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    end = len(RECORDS)
    gold = Witness("regent.commands", 0, end + 4, "gold/progress")
    new = Witness("regent.outcomes", 0, end + 1, "silver/decisions", BEGAN_MS)
    report = check(lake, now_ms=BEGAN_MS + 5, witnesses=SomebodyRemembers([gold], [new]))
    assert [one.alarm for one in report.alarms] == [SHORT]
    assert f"gold/progress knows records up to {end + 3}" in report.text()
    late = check(
        lake, now_ms=BEGAN_MS + AHEAD_MAX_MS + 1, witnesses=SomebodyRemembers([gold], [new])
    )
    assert [one.topic for one in late.alarms] == ["regent.commands", "regent.outcomes"]
    assert check(lake, witnesses=SomebodyRemembers([], [])).exit_code == 0


def test_what_is_noted_as_lost_behind_the_end_may_be_known_to_silver_and_to_nobody_else(
    lake: Lake,
) -> None:
    """The details may have had it; whoever reads bronze cannot."""
    land(lake, [*COMMANDS, *OUTCOMES, *event_records([b"x"] * 4)])
    noted = Loss("regent.broker-events", 0, 4, 8)
    asked: list[dict[tuple[str, int], int]] = []

    class Silver:
        remembered = (Witness("regent.broker-events", 0, 6, "proof/names"),)

        def beyond(self, ends: dict[tuple[str, int], int]) -> list[Witness]:
            asked.append(ends)
            return []

    OpenTables(lake).append(LOSSES, loss_rows(str(lake.cluster_id), [noted]))
    report = check(lake, witnesses=Silver())
    assert asked[0]["regent.broker-events", 0] == 9 and report.losses == [noted]
    assert [one.alarm for one in report.alarms] == [SHORT], "proof/names"


def test_records_that_landed_twice_are_an_alarm(lake: Lake) -> None:
    land(lake, [*COMMANDS, *OUTCOMES])
    append_to_bronze(lake, OUTCOMES[3:5])
    report = check(lake)
    [alarm] = report.alarms
    assert (alarm.alarm, alarm.topic, alarm.offset, alarm.last_offset) == (
        DOUBLED,
        "regent.outcomes",
        3,
        4,
    )
    assert "twice: bronze/records, regent.outcomes-0 offsets 3, 4 landed twice" in report.text()
