from lakehouse.gold.elections import election_rows, refused_rows
from lakehouse.gold.fold import Published
from lakehouse.gold.specs import ELECTIONS, REFUSED_COMMANDS
from tests.support.control_history import CLUSTER_ID, NAME, seen, with_master
from tests.unit.lakehouse.gold.gold_cases import (
    OTHER_CLUSTER_ID,
    at,
    changes_of,
    failed_over,
    nobody_left,
    other_cluster,
    require_sound,
)


def test_an_election_says_on_what_evidence_who_won_and_by_which_rules() -> None:
    past, failover = failed_over()
    digest = changes_of(past)[failover].outcome.digest.hex()
    phases = {"detected": 100, "received": 130, "applied": 150}
    rows = election_rows(changes_of(past, {failover: Published(digest, "n0", 160, phases)}))
    require_sound(ELECTIONS, rows)
    row = rows[-1]
    assert (row["offset"], row["at_ms"], row["winner"], row["master_epoch"]) == (
        failover,
        at(failover),
        3,
        2,
    )
    assert (row["previous_master"], row["previous_epoch"], row["previous_set"]) == (1, 1, [1, 2, 3])
    assert [(one["broker_id"], one["alive"]) for one in row["evidence"]] == [
        (1, False),
        (2, True),
        (3, True),
    ]
    assert {one["broker_id"]: one["verdict"] for one in row["candidates"]} == {
        1: "NOT_ALIVE",
        2: "LOWER_OFFSET",
        3: "CHOSEN",
    }
    assert row["reason"] == "chosen, the others: LOWER_OFFSET, NOT_ALIVE"
    assert (row["took_ms"], dict(row["phases"])) == (50, phases)


def test_an_election_nobody_could_win_stands_there_with_its_refusal() -> None:
    past, refused = nobody_left()
    rows = election_rows(changes_of(past))
    require_sound(ELECTIONS, rows)
    [row] = [row for row in rows if row["offset"] == refused]
    assert (row["accepted"], row["winner"], row["reason"]) == (False, None, "MASTER_NOT_AVAILABLE")
    assert row["took_ms"] is None


def test_the_replica_an_operator_named_stands_there_and_a_repeat_holds_no_new_election() -> None:
    past = with_master(1, 2)
    assert past.elect(2, seen(1, alive=False), seen(2), designate=True).accepted
    past.append(past.records[-1])
    designated, repeat = election_rows(changes_of(past))[-2:]
    assert (designated["designated_broker_id"], designated["winner"]) == (2, 2)
    assert (repeat["winner"], repeat["labels"]) == (None, ["REPEAT"])
    assert repeat["reason"] == "the answer of an earlier command was told again"


def test_an_election_in_a_set_nobody_knows_has_nothing_before_it() -> None:
    past = with_master(1)
    stranger = other_cluster()
    stranger.clean(None, living=True)
    stranger.elect(1)
    rows = election_rows(changes_of(past) + changes_of(stranger))
    require_sound(ELECTIONS, rows)
    assert {(row["cluster_id"], row["broker_name"]) for row in rows} == {
        (CLUSTER_ID, NAME),
        (OTHER_CLUSTER_ID, NAME),
    }
    assert (rows[-1]["refusal"], rows[-1]["previous_master"]) == ("NEED_TO_BE_REGISTERED", None)


def test_refused_commands_say_why_and_whether_they_changed_the_set_all_the_same() -> None:
    past, refused = nobody_left()
    assert not past.apply_id(9).accepted
    past.append(b"garbage")
    rows = refused_rows(changes_of(past))
    require_sound(REFUSED_COMMANDS, rows)
    assert [(row["kind"], row["refusal"], row["changed"]) for row in rows] == [
        ("ElectMaster", "MASTER_NOT_AVAILABLE", True),
        ("ApplyBrokerId", "BROKER_ID_INVALID", False),
        ("Unreadable", "UNREADABLE", False),
    ]
    assert rows[0]["offset"] == refused
    assert (rows[1]["issuer"], rows[1]["broker_name"]) == ("n0", NAME)
    assert (rows[2]["issuer"], rows[2]["command_term"], rows[2]["broker_name"]) == (
        None,
        None,
        None,
    )
