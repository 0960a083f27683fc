"""The judge of the services' worlds: of which message it takes a check point to be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.service.popping.records import CheckPoint, Key, RecordMaker
from brokers.store.log.records import MessageFields, host_bytes
from tests.simulation.services.member import Member
from tests.simulation.services.promises import POP_GROUP, RETRIES, TOPIC
from tests.simulation.services.realm import Realm, Shape
from tests.simulation.store.medium import Medium
from tests.simulation.world import InvariantBroken, World

HOST = host_bytes("10.0.0.1", 10911)
OF_MASTER, OF_LOST_TAIL = "plain1x1", "plain1x2"
INVISIBLE_MS = 2_000

pytestmark = pytest.mark.simulation


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Realm]:
    """Two members that know of one mastership; nobody uses them."""
    world, medium = World(1), Medium(tmp_path)
    with medium.watched():
        realm = Realm(world, Shape(members=2, uses=()), medium)
        try:
            while realm.leader is None or any(one.epoch != 1 for one in realm.members):
                world.step()
            yield realm
        finally:
            realm.close()
            world.end()


def put(member: Member, fields: MessageFields) -> None:
    """Into this member's log alone."""
    store = member.serving.store
    store.put_many([[fields]], member.wall_ms)
    store.dispatch_to(store.log_end)


def message(topic: str, body: str) -> MessageFields:
    return MessageFields(topic, 0, body.encode(), b"", 0, HOST, HOST)


@pytest.mark.parametrize(
    ("comes_back", "broken"),
    [
        pytest.param(OF_MASTER, "before its invisible time is over", id="its own"),
        pytest.param(OF_LOST_TAIL, "was acknowledged in time each time", id="the other one's"),
    ],
)
def test_a_check_point_is_of_the_message_that_its_master_has_at_that_place(
    realm: Realm, comes_back: str, broken: str
) -> None:
    master, other = realm.leader, next(one for one in realm.members if not one.leads)
    assert master is not None
    # given: two members with two messages at the same place, as after a lost tail
    for member, body in ((master, OF_MASTER), (other, OF_LOST_TAIL)):
        realm.promises.sends(body)
        put(member, message(TOPIC, body))
    key = Key(TOPIC, POP_GROUP, 0, 0, master.wall_ms, "b")
    maker = RecordMaker("rmq_sys_REVIVE_LOG_c", HOST)
    # when: the master notes a check point of that place, and a copy comes at once
    put(master, maker.check_point(CheckPoint(key, INVISIBLE_MS, (0,)), 0, master.wall_ms))
    # then: only the master's message may come back, in its time
    with pytest.raises(InvariantBroken, match=broken):
        put(master, message(RETRIES[0], comes_back))
