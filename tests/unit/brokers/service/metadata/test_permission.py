"""What a broker allows at all."""

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.metadata.permission import BrokerPermission
from brokers.service.role.services import Moves, Served
from brokers.service.tables.topics import TopicConfig, TopicTable
from tests.support.brokers import pull_request, send_request

CODES = {
    **dict.fromkeys((10, 310, 320), Moves.MESSAGES_IN),
    **dict.fromkeys((11, 361), Moves.MESSAGES_OUT),
    14: Moves.NOTHING,
}


def made(allowed: int) -> BrokerPermission:
    return BrokerPermission(
        allowed,
        TopicTable([TopicConfig("T"), TopicConfig("O", order=True), TopicConfig("R", perm=4)]),
        "h:1",
    )


def answers(allowed: int, *requests: RemotingCommand) -> list[int]:
    served = {code: Served(lambda _, request: request.reply(), moves=CODES[code]) for code in CODES}
    handlers = made(allowed).guarded({code: served[code].handler for code in served}, served)
    assert set(handlers) == set(CODES)
    found = [handlers[request.code](None, request) for request in requests]  # type: ignore[arg-type]
    assert all(isinstance(one, RemotingCommand) for one in found)
    return [one.code for one in found]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("allowed", "codes"),
    [(6, [0, 0, 0, 0]), (4, [0, 16, 16, 0]), (2, [0, 0, 0, 16]), (0, [0, 16, 16, 16])],
)
def test_order_topics_take_no_sends_and_nothing_is_pulled_where_that_is_not_allowed(
    allowed: int, codes: list[int]
) -> None:
    plain = RemotingCommand.request(10, {"topic": "O"})
    assert (
        answers(
            allowed,
            send_request("T", b"x"),
            send_request("O", b"x"),
            plain,
            pull_request("T", 0, 0),
        )
        == codes
    )
    assert answers(allowed, RemotingCommand.request(14)) == [0]


def test_routes_say_what_is_allowed_and_the_table_stays_as_it_is() -> None:
    for allowed, perms in ((6, [6, 4, 6]), (4, [4, 4, 4]), (2, [2, 0, 2])):
        permission = made(allowed)
        table = fastjson.loads(permission.route_text().topics)
        assert (
            isinstance(table, dict) and [table[name]["perm"] for name in ("O", "R", "T")] == perms
        )
