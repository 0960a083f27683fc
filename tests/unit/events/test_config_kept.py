"""What was changed at run time is found by the next start, until the broker's file is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.configuration.names import NAMES
from brokers.process.config import BrokerConfig
from brokers.remoting import fastjson
from events.config_kept import Kept, kept_of


def config(**fields: object) -> BrokerConfig:
    return BrokerConfig.model_validate({"store_dir": Path("/d"), "controllers": ["c:1"], **fields})


WRITTEN = config()
KEPT = Kept().with_changes(
    WRITTEN, config(file_reserved_hours=48, controllers=["d:1"], flush_disk="sync"), 9
)


def test_a_start_finds_the_changes_again_by_their_document() -> None:
    again = kept_of(fastjson.loads(fastjson.dumps(KEPT.document())))
    assert again == KEPT and (again.counter, again.changed_ms) == (1, 9)
    found, gone = again.over(NAMES, WRITTEN)
    assert gone == () and found.file_reserved_hours == 48
    assert (found.controllers, found.flush_disk) == (["d:1"], "sync")
    assert again.over(NAMES, found) == (found, ())


def test_what_the_file_says_since_wins_over_a_change() -> None:
    found, gone = KEPT.over(NAMES, config(file_reserved_hours=24))
    assert gone == ("file_reserved_hours",) and found.file_reserved_hours == 24
    assert found.flush_disk == "sync"


def test_a_change_back_is_no_change() -> None:
    assert KEPT.with_changes(WRITTEN, WRITTEN, 10).changes == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"file_reserved_hours": {"instead_of": 72, "value": 0}},
        {"message_delay_level": {"instead_of": WRITTEN.message_delay_level, "value": "x"}},
    ],
)
def test_a_value_that_this_release_does_not_take_leaves_the_file_alone(
    changes: dict[str, object],
) -> None:
    found, gone = kept_of({"changes": changes}).over(NAMES, WRITTEN)
    assert found == WRITTEN and gone == tuple(changes)


def test_a_setting_that_is_not_changed_at_run_time_is_not_changed_by_a_document() -> None:
    kept = kept_of(
        {"changes": {"broker_name": {"instead_of": "broker-a", "value": "b"}, "x": {"value": 1}}}
    )
    assert kept.over(NAMES, WRITTEN) == (WRITTEN, ("broker_name", "x"))


@pytest.mark.parametrize(
    "document",
    [
        *(None, [], {}, {"changes": []}, {"changes": {"a": 1}}, {"changes": {"a": {}}}),
        {"changes": {}, "counter": "x"},
    ],
)
def test_another_document_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="change"):
        kept_of(document)
