"""Assignments as RocketMQ 5.3.3 makes them."""

import pytest

from brokers.remoting.fields import BadField
from brokers.service.popping.assignment import (
    ENTRIES_MAX,
    POP,
    PULL,
    AssignmentRequest,
    Mode,
    ModeRequest,
    Queue,
    answer_body,
    assigned,
    mode_of,
    parse_mode,
    parse_query,
    with_mode,
)

QUEUES = [Queue("T", broker, number) for broker in ("b2", "b1") for number in range(4)]
IN_ORDER = [("b1", 0), ("b1", 1), ("b1", 2), ("b1", 3), ("b2", 0), ("b2", 1), ("b2", 2), ("b2", 3)]
CLIENTS = ["c3", "c1", "c2"]


def ask(client: str, strategy: str = "AVG", broadcasting: bool = False) -> AssignmentRequest:
    return AssignmentRequest("T", "g", client, broadcasting, strategy)


def places(found: list[Queue] | None) -> list[int] | None:
    return None if found is None else [IN_ORDER.index(queue[1:]) for queue in found]


@pytest.mark.parametrize(
    ("strategy", "shares"),
    [
        ("AVG", {"c1": [0, 1, 2], "c2": [3, 4, 5], "c3": [6, 7]}),
        ("AVG_BY_CIRCLE", {"c1": [0, 3, 6], "c2": [1, 4, 7], "c3": [2, 5]}),
    ],
)
def test_79_pulls_are_shared_out_over_all_brokers(
    strategy: str, shares: dict[str, list[int]]
) -> None:
    for client, share in shares.items():
        assert places(assigned(ask(client, strategy), Mode(), QUEUES, CLIENTS)) == share


def test_79_more_clients_than_queues_get_one_each_while_they_last() -> None:
    clients = [f"c{number:02}" for number in range(10)]
    shares = [places(assigned(ask(one), Mode(), QUEUES, clients)) for one in clients]
    assert shares == [*([number] for number in range(8)), [], []]
    popped = [places(assigned(ask(one), Mode(POP, 2), QUEUES, clients)) for one in clients]
    assert popped == [[number % 8] for number in range(10)]


@pytest.mark.parametrize("share", [0, -1, 2, 7])
def test_79_everybody_pops_every_queue(share: int) -> None:
    for client in CLIENTS:
        found = assigned(ask(client), Mode(POP, share), QUEUES, CLIENTS)
        assert found == [Queue("T", "b1", -1), Queue("T", "b2", -1)]


def test_79_a_share_is_that_of_the_next_members() -> None:
    found = {one: places(assigned(ask(one), Mode(POP, 1), QUEUES, CLIENTS)) for one in CLIENTS}
    assert found == {"c1": [0, 1, 2, 3, 4, 5], "c2": [3, 4, 5, 6, 7], "c3": [6, 7, 0, 1, 2]}


def test_79_strangers_get_nothing_and_who_asks_wrongly_keeps_what_he_has() -> None:
    assert assigned(ask("x"), Mode(), QUEUES, CLIENTS) == []
    assert assigned(ask("c1", "OTHER"), Mode(), QUEUES, CLIENTS) is None
    assert assigned(ask("c1"), Mode(), QUEUES, []) is None
    assert assigned(ask("c1"), Mode(), [], CLIENTS) is None
    assert len(assigned(ask("x", broadcasting=True), Mode(), QUEUES, []) or ()) == 8
    assert answer_body(None, Mode()) == b"{}"
    assert answer_body([], Mode()) == b'{"messageQueueAssignments":[]}'
    assert answer_body([Queue("P2", "b1", -1)], Mode(POP)) == (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"b1","queueId":-1,'
        b'"topic":"P2"},"mode":"POP"}]}'
    )


def test_79_modes_are_kept_in_the_form_of_java_and_retries_are_always_pulled() -> None:
    body = b'{"consumerGroup":"GS","mode":"POP","popShareQueueNum":1,"topic":"P2"}'
    table = with_mode({}, parse_mode(body))
    assert table == {
        "P2": {"GS": {"consumerGroup": "GS", "mode": "POP", "popShareQueueNum": 1, "topic": "P2"}}
    }
    assert mode_of(table, "P2", "GS") == Mode(POP, 1)
    assert mode_of(table, "P2", "other") == mode_of(table, "other", "GS") == Mode(PULL)
    retry = with_mode(table, ModeRequest("%RETRY%g", "g", Mode(POP)))
    assert mode_of(retry, "%RETRY%g", "g") == Mode(PULL)
    assert mode_of({"P2": {"GS": {"mode": "x"}}, "P3": 4}, "P2", "GS") == Mode(PULL)


def test_modes_are_bounded() -> None:
    full = {"T": {str(number): {} for number in range(ENTRIES_MAX)}}
    with pytest.raises(ValueError, match="modes"):
        with_mode(full, ModeRequest("P2", "g", Mode()))


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"topic":"","consumerGroup":"g","clientId":"c"}', b'{"topic":5}']
)
def test_hostile_bodies_are_refused(body: bytes) -> None:
    for parse in (parse_query, parse_mode):
        with pytest.raises(BadField):
            parse(body)
