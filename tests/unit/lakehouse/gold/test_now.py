import shutil
from typing import Any

import pytest

from events.broker_events import BrokerEventHeader, EpochAppended, FirstMessageAcknowledged
from events.codec import encode
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.gold import now as module
from lakehouse.gold import progress
from lakehouse.gold.now import gold_now
from lakehouse.gold.specs import (
    BROKER_SET_HISTORY,
    CONTROLLER_TERMS,
    FAILOVERS,
    GOLD_BY_NAME,
    GOLD_TABLES,
)
from lakehouse.tables.lake import Lake
from tests.support.control_history import CLUSTER, NAME, History
from tests.support.examples import some
from tests.support.landed_log import (
    BEGAN_MS,
    Record,
    command_records,
    event_records,
    land,
    outcome_records,
)
from tests.support.made_gold import bring_up, job_of, rows_of
from tests.unit.lakehouse.gold.gold_cases import failed_over, wandering


def records_of(history: History) -> list[Record]:
    return [*command_records(history.records), *outcome_records(history.records)]


def spoken(history: History) -> list[Record]:
    """What brokers say of the last mastership."""
    now = history.folder.state.sets[NAME]
    head = BrokerEventHeader(
        bytes(16), CLUSTER, NAME, now.master_broker_id or 1, "i", BEGAN_MS + 100_000, 1
    )
    other = BrokerEventHeader(
        bytes([1] * 16), CLUSTER, NAME, now.master_broker_id or 1, "i", BEGAN_MS + 100_002, 2
    )
    return event_records(
        [
            encode(EpochAppended(head, now.master_epoch, 900, BEGAN_MS)),
            encode(FirstMessageAcknowledged(other, now.master_epoch, 950)),
        ]
    )


def told(lake: Lake, **other: Any) -> dict[str, list[Any]]:
    """All gold as of now, in no order."""
    found = gold_now(lake, GOLD_TABLES, **other)
    return {name: sorted(map(str, found.rows(GOLD_BY_NAME[name]))) for name in found.tables}


def made(lake: Lake) -> dict[str, list[Any]]:
    return {name: sorted(map(str, rows)) for name, rows in rows_of(lake).items()}


@pytest.mark.parametrize("seed", some([3, 4]))
def test_with_gold_without_it_and_with_gold_that_is_behind_the_answer_is_the_same(
    lake: Lake, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = wandering(seed, 40)
    lake = lake.of(history.folder.state.cluster_id)
    records = records_of(history)
    cut = len(records) // 3
    land(lake, records[:cut])
    land(lake, outcome_records(history.records)[: cut - 3])
    bring_up(job_of(lake))
    land(lake, [*records, *spoken(history)])
    behind, count = told(lake), gold_now(lake, [FAILOVERS]).folded
    assert 0 < count < len(history.records)
    monkeypatch.setattr(module, "PIECE_COMMANDS_MAX", 7)
    assert told(lake) == behind, "in pieces as at once"
    bring_up(job_of(lake))
    assert gold_now(lake, [FAILOVERS]).folded == 0
    assert told(lake) == made(lake) == behind
    shutil.rmtree(f"{lake.root}/gold")
    assert told(lake) == behind
    assert gold_now(lake, [FAILOVERS]).folded == len(history.records)


def test_broker_events_that_came_after_the_last_run_are_in_the_answer(lake: Lake) -> None:
    history, _ = failed_over()
    land(lake, records_of(history))
    bring_up(job_of(lake))
    assert gold_now(lake, [FAILOVERS]).rows(FAILOVERS)[0]["unavailable_ms"] is None
    land(lake, spoken(history))
    found = gold_now(lake, [FAILOVERS])
    assert (found.rows(FAILOVERS)[0]["unavailable_ms"], found.folded) == (100_002, 0)


def test_one_set_is_read_alone_and_tables_without_sets_whole(lake: Lake) -> None:
    history, _ = failed_over()
    land(lake, records_of(history))
    for _ in range(2):
        assert gold_now(lake, [BROKER_SET_HISTORY], "broker-x").rows(BROKER_SET_HISTORY) == []
        assert gold_now(lake, [BROKER_SET_HISTORY], NAME).rows(BROKER_SET_HISTORY)
        assert gold_now(lake, [CONTROLLER_TERMS], "broker-x").rows(CONTROLLER_TERMS)
        bring_up(job_of(lake))


def test_commands_without_a_landed_outcome_are_not_in_it_and_are_counted(lake: Lake) -> None:
    history, _ = failed_over()
    land(lake, [])
    with pytest.raises(NotLanded, match="no decision has landed"):
        gold_now(lake, [FAILOVERS])
    land(lake, [*command_records(history.records), *outcome_records(history.records)[:-2]])
    found = gold_now(lake, [FAILOVERS])
    assert (found.offset, found.waiting, found.rows(FAILOVERS)) == (len(history.records) - 3, 2, [])
    assert "2 commands behind it wait" in found.text()


def test_gold_of_other_builders_is_not_believed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, _ = failed_over()
    land(lake, records_of(history))
    bring_up(job_of(lake))
    monkeypatch.setattr(progress, "BUILDERS_VERSION", 999)
    assert gold_now(lake, [FAILOVERS]).folded == len(history.records)


def test_a_damaged_gold_table_is_named(lake: Lake) -> None:
    history, _ = failed_over()
    land(lake, records_of(history))
    bring_up(job_of(lake))
    assert lake.folder is not None
    for path in lake.folder.glob("gold/failovers/**/*.parquet"):
        path.write_bytes(b"nothing of a table")
    with pytest.raises(LakehouseError, match="gold/failovers"):
        gold_now(lake, [FAILOVERS])
