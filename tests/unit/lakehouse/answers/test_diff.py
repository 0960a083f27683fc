import json

from lakehouse.answers.diff import StateAt, diff_text, difference
from lakehouse.gold.fold import GoldFold
from tests.support.control_history import NAME, History, seen, with_master
from tests.unit.lakehouse.gold.gold_cases import at, landed


def between(past: History, first: int, last: int) -> dict[str, object]:
    fold, records = GoldFold(), landed(past)
    list(fold.changes(records[: first + 1]))
    before = StateAt(fold.folder.offset, at(first), fold.folder.digest, fold.folder.state)
    steps = list(fold.changes(records[first + 1 : last + 1]))
    model = difference(
        before, StateAt(fold.folder.offset, at(last), fold.folder.digest, fold.folder.state), steps
    )
    json.dumps(model)
    return model


def test_a_failover_differs_in_master_epoch_and_set_and_names_the_decision_that_did_it() -> None:
    past = with_master(1, 2, 3)
    first = len(past.records) - 1
    past.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    model = between(past, first, first + 1)
    [one] = model["sets"]
    fields = {field["field"]: (field["before"], field["after"]) for field in one["fields"]}
    assert fields["master_broker_id"] == (1, 2)
    assert fields["master_epoch"] == (1, 2)
    assert fields["sync_state_set"] == ([1, 2, 3], [2, 3])
    assert [(row["offset"], row["kind"]) for row in one["decisions"]] == [
        (first + 1, "ElectMaster")
    ]
    assert (one["is"], one["replicas"], model["cluster"]) == ("changed", [], [])
    assert "sync_state_set: {1,2,3} -> {2,3}" in diff_text(model)


def test_nothing_differs_between_a_moment_and_itself() -> None:
    past = with_master(1, 2, 3)
    model = between(past, 6, 6)
    assert (model["sets"], model["cluster"], model["commands"]) == ([], [], 0)
    assert "nothing is different" in diff_text(model)


def test_a_set_that_is_as_it_was_names_the_decisions_that_led_away_and_back() -> None:
    past = with_master(1, 2)
    first = len(past.records) - 1
    past.register(3, "other")
    past.register(3)
    model = between(past, first, first + 2)
    [one] = model["sets"]
    assert (one["fields"], one["replicas"], len(one["decisions"])) == ([], [], 2)
    assert "as it was, after these decisions" in diff_text(model)


def test_new_sets_new_replicas_and_cleaned_ones_are_told_and_check_codes_are_not() -> None:
    past = with_master(1, 2, 3)
    whole = between(past, 1, len(past.records) - 1)
    assert [(one["broker_name"], one["is"]) for one in whole["sets"]] == [(NAME, "added")]
    assert [one["is"] for one in whole["sets"][0]["replicas"]] == ["added"] * 3
    assert "secret" not in json.dumps(whole["sets"][0]["replicas"])
    past.clean((3,), living=True)
    cleaned = between(past, len(past.records) - 2, len(past.records) - 1)
    assert [(one["broker_id"], one["is"]) for one in cleaned["sets"][0]["replicas"]] == [
        (3, "cleaned")
    ]
    assert "replica 3: cleaned" in diff_text(cleaned)


def test_the_cluster_differs_in_leader_term_and_settings() -> None:
    past = with_master(1)
    first = len(past.records) - 1
    past.claim(past.folder.state.term)
    past.setting("dedupeWindowOffsets", "1000")
    past.apply_id(1, "another;code")
    model = between(past, first, first + 3)
    assert ("term", 1, 2) in [
        (one["field"], one["before"], one["after"]) for one in model["cluster"]
    ]
    assert model["settings"] == [{"field": "dedupeWindowOffsets", "before": None, "after": "1000"}]
    assert [one["kind"] for one in model["cluster_decisions"]] == [
        "ClaimLeadership",
        "ChangeSettings",
    ]
    assert model["refused"] == 1
    text = diff_text(model)
    assert "leader_id: n0 -> n1" in text
    assert "setting dedupeWindowOffsets: - -> 1000" in text
