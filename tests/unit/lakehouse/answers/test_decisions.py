import pytest

from lakehouse.answers.decisions import broker_sets, history, history_text, outcome_counts
from lakehouse.errors import NotLanded
from lakehouse.tables.delta import ensure_tables
from lakehouse.tables.lake import Lake
from tests.support.control_history import NAME, seen, with_master
from tests.support.landed_log import BEGAN_MS, command_records, land, outcome_records


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """A failover, a return, a refusal and bytes that are no command."""
    past = with_master(1, 2, 3)
    past.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    past.alter((1, 2, 3), seen(1), seen(2), seen(3))
    past.alter((2, 3), seen(1), seen(2), seen(3))
    past.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=1)
    past.append(b"garbage")
    records = command_records(past.records) + outcome_records(past.records)
    again = [(t, p, o + len(past.records), v) for t, p, o, v in outcome_records(past.records, "n1")]
    land(lake, records + again)
    return lake


def test_history_has_every_decision_once_in_order(landed: Lake) -> None:
    entries = history(landed)["decisions"]
    assert [e["offset"] for e in entries] == list(range(len(entries)))
    # The repeats that a second publisher wrote after a change of leader are dropped.
    assert {e["published_by"] for e in entries} == {"n0"}
    assert entries[3]["at_ms"] == BEGAN_MS + 3000
    assert [e["accepted"] for e in entries[-2:]] == [False, False]
    assert entries[-1]["kind"] == "Unreadable"


def test_history_of_a_set_is_its_own(landed: Lake) -> None:
    model = history(landed, NAME)
    assert {e["broker_name"] for e in model["decisions"]} == {NAME}
    text = history_text(model)
    assert "master 2 in epoch 2, set {2,3} epoch 3" in text
    assert "refused: SET_EPOCH_FENCED" in text
    assert text.splitlines()[-1] == f"{len(model['decisions'])} decisions about {NAME} (1 refused)"
    assert len(text.splitlines()) == len(model["decisions"]) + 2


def test_an_unknown_set_is_told_the_known_ones(landed: Lake) -> None:
    assert broker_sets(landed) == [NAME]
    with pytest.raises(NotLanded, match=f"known sets: {NAME}"):
        history(landed, "broker-z")


def test_no_tables_are_told_as_such(lake: Lake) -> None:
    with pytest.raises(NotLanded, match="regent land"):
        history(lake)


def test_empty_tables_have_an_empty_history(lake: Lake) -> None:
    ensure_tables(lake)
    assert history(lake) == {"broker_name": None, "decisions": []}


def test_outcomes_are_counted_by_kind(landed: Lake) -> None:
    counts = outcome_counts(landed)
    assert counts["commands"]["RegisterBroker"] == counts["commands"]["ApplyBrokerId"] == 3
    assert counts["refusals"] == {"SET_EPOCH_FENCED": 1, "UNREADABLE": 1}
    assert counts["elections"] == {"asked": 2}
    assert (counts["shrinks"], counts["expands"]) == (1, 2)
    assert counts["changes"]["LeadershipClaimed"] == 1
    assert counts["accepted"] + counts["refused"] == counts["decisions"]


def test_empty_tables_count_nothing(lake: Lake) -> None:
    ensure_tables(lake)
    counts = outcome_counts(lake)
    assert (counts["decisions"], counts["elections"]) == (0, {})
