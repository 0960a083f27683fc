"""The report says first whether all is sound, then what is not, with what it means."""

import json

from msgspec.structs import replace

from lakehouse.invariants.alarms import of_commands_ahead, of_example, of_gap
from lakehouse.invariants.report import Report, standing
from lakehouse.invariants.rows import CounterExample

BREACH = of_example(
    CounterExample("epochs_only_grow", "broker-a", "regent.commands", 0, 9, "epoch 1 after 1")
)


def test_a_sound_history() -> None:
    report = Report(decisions=5, broker_events=3, judged_now=8)
    assert (report.exit_code, report.text()) == (
        0,
        "sound: 5 decisions and 3 broker events, 13 invariants",
    )


def test_each_alarm_has_its_line_and_the_exit_code_is_1() -> None:
    alarms = [
        of_gap("regent.outcomes", 0, 4, 4),
        BREACH,
        of_commands_ahead("regent.commands", 7, 9),
    ]
    report = Report(5, 3, 2, violations={"epochs_only_grow": 1}, alarms=alarms, ahead=3)
    told = report.text()
    assert (report.exit_code, told.splitlines()[0]) == (
        1,
        "NOT SOUND: 5 decisions and 3 broker events, 13 invariants",
    )
    assert "gap: bronze/records, regent.outcomes-0 offsets 4 to 4 never landed" in told
    assert told.count("what to do: ") == 3
    assert "regent.commands-0 offset 9: broker-a: epoch 1 after 1" in told
    assert (
        "what commands 7 to 9 led to has landed, they have not"
    ) in told and "on their way" not in told
    document = json.loads(json.dumps(report.as_dict()))
    assert [one["alarm"] for one in document["alarms"]] == [
        "GAP",
        "VIOLATION",
        "AHEAD",
    ] and document["exit_code"] == 1
    assert document["gaps"] == [{"topic": "regent.outcomes", "partition": 0, "first": 4, "last": 4}]


def test_what_is_on_its_way_is_no_alarm() -> None:
    report = Report(5, 3, 8, ahead=2)
    assert report.exit_code == 0 and "2 commands are still on their way" in report.text()


def test_what_was_cleared_stands_no_more() -> None:
    assert standing([BREACH, replace(BREACH, cleared_ms=7)]) == [BREACH]
