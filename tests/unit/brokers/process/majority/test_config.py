"""What is configured of a member: DLedger's list of peers, limits, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from brokers.majority.quorum.config import NO_MESSAGE, Durability
from brokers.majority.quorum.effects import NewEntry
from brokers.process.config import BrokerConfig, place_refusal
from brokers.process.majority.config import MemberConfig, broker_id_of, parse_peers

PEERS = "n0-127.0.0.1:20911;n1-db-7.example:20912;n2-[::1]:20913"
MESSAGE = NewEntry(None, 3, lambda position: b"abc")


def config(**changes: object) -> MemberConfig:
    given = {"self_id": "n1", "peers": PEERS, "store_dir": Path("store"), **changes}
    return MemberConfig.model_validate(given)


def test_an_id_ends_at_the_first_dash_and_the_rest_is_the_address() -> None:
    assert parse_peers(PEERS) == {
        "n0": "127.0.0.1:20911",
        "n1": "db-7.example:20912",
        "n2": "[::1]:20913",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n0",
        "n0-",
        "-127.0.0.1:1",
        "n0-127.0.0.1",
        "n0-127.0.0.1:x",
        "n0-127.0.0.1:1;n0-127.0.0.1:2",
        "n 0-127.0.0.1:1",
        ";".join(f"n{number}-127.0.0.1:{number + 1}" for number in range(65)),
    ],
)
def test_what_is_no_list_of_peers_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_peers(text)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"self_id": "n9"}, "not among the peers"),
        ({"preferred_leader_ids": "n0;n9"}, "n9 is preferred"),
        ({"vote_pause_min_ms": 9, "vote_pause_max_ms": 8}, "longer than the longest"),
        ({"index_file_bytes": 100}, "multiple of 32"),
        ({"data_file_bytes": 100}, "greater than or equal to 4096"),
        ({"flush": "never"}, "before_acknowledged"),
        ({"unknown": 1}, "not permitted"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        config(**changes)


def test_a_member_listens_where_the_others_find_it_unless_it_says_otherwise() -> None:
    assert config().bound == "db-7.example:20912"
    assert config(listen="0.0.0.0:20912").bound == "0.0.0.0:20912"


def test_the_member_has_what_was_configured() -> None:
    made = config(preferred_leader_ids="n0; n2", vote_pause_min_ms=5, append_wait_ms=7)
    quorum = made.quorum(MESSAGE)
    assert (quorum.self_id, quorum.members) == ("n1", ("n0", "n1", "n2"))
    assert quorum.preferred == ("n0", "n2")
    assert (quorum.vote_pause_ms, quorum.append_wait_ms) == ((5, 1_000), 7)
    assert (quorum.durability, quorum.first_entry) == (Durability.FLUSHED, MESSAGE)


def test_the_weaker_level_and_the_empty_entry_have_to_be_named() -> None:
    quorum = config(flush="later", first_entry="empty").quorum(MESSAGE)
    assert (quorum.durability, quorum.first_entry) == (Durability.WRITTEN, NO_MESSAGE)


def broker(**changes: object) -> BrokerConfig:
    given = {"replication": "majority", "majority_self_id": "n1", "majority_peers": PEERS}
    listen = {"listen": "127.0.0.1:1", "store_dir": "s"}
    return BrokerConfig.model_validate({**given, **listen, **changes})


def test_a_broker_of_a_majority_group_configures_its_member() -> None:
    made = broker(broker_name="b", majority_flush="later", commit_log_file_bytes=1 << 20)
    member = made.member
    assert (member.group, member.self_id, member.bound) == ("b", "n1", "db-7.example:20912")
    assert (member.flush, member.data_file_bytes) == ("later", 1 << 20)
    assert member.index_file_bytes == 1 << 20 and member.store_dir == made.store_dir
    assert broker(majority_group="g").member.group == "g"
    assert made.by_majority and place_refusal(made) is None
    assert [broker_id_of(one) for one in ("n0", "n7")] == [1, 8]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"replication": "in-sync-set"}, "are for replication"),
        ({"controllers": ["c:1"]}, "controllers is for in-sync sets.*one way"),
        ({"broker_id": 0}, "for in-sync sets"),
        ({"enable_slave_acting_master": True}, "enable_slave_acting_master is for in-sync sets"),
        ({"majority_self_id": "n9"}, "not among the peers"),
        ({"majority_self_id": ""}, "not among the peers"),
        ({"majority_peers": "n1"}, "majority_peers: 'n1' is not id-host:port"),
        ({"majority_self_id": "db", "majority_peers": "db-h:1"}, "no letter and a number"),
        ({"majority_listen": "127.0.0.1:1"}, "each needs its own port"),
    ],
)
def test_a_broker_that_cannot_be_a_member_is_told_why(changes: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        broker(**changes)
