"""Locks of orderly consumers: given when the members know them, and kept by whoever leads next."""

import asyncio
import random
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.server import Dispatcher, RemotingServer
from brokers.service.tables.topics import TopicConfig
from tests.support.brokers import free_port
from tests.support.client_service import Desk

QUEUES = 4
LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


def asking(code: int, client_id: str, *queues: int, topic: str = "T") -> RemotingCommand:
    rows = [{"brokerName": "b", "queueId": queue, "topic": topic} for queue in queues]
    body = {"clientId": client_id, "consumerGroup": "g", "mqSet": rows}
    return RemotingCommand.request(code, body=fastjson.dumps(body))


async def locked(desk: Desk, client_id: str, *queues: int) -> list[int]:
    """The queues that the client holds of these."""
    answer = await desk.ask(asking(LOCK, client_id, *queues))
    assert answer.code == 0, answer.remark
    rows = fastjson.loads(answer.body)["lockOKMQSet"]  # type: ignore[index, call-overload]
    return [row["queueId"] for row in rows]


def known(*desks: Desk) -> None:
    """The topic is in their tables."""
    for desk in desks:
        desk.tables.topics.put([TopicConfig("T", QUEUES, QUEUES)], 0)


def push(epoch: int, number: int, *rows: object) -> RemotingCommand:
    facts = {"regentMasterEpoch": str(epoch), "regentNumber": str(number)}
    body = fastjson.dumps({"group": "g", "locks": list(rows)})
    return RemotingCommand.request(RequestCode.REGENT_PUSH_LOCKS, facts, body)


async def test_queues_are_locked_for_one_client(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert await locked(desk, "a", 1) == []  # there is no such queue
        known(desk)
        assert await locked(desk, "a", QUEUES) == []
        assert await locked(desk, "a", 1) == [1]
        assert await locked(desk, "b", 1) == []
        assert (await desk.ask(asking(UNLOCK, "a", 1))).code == 0
        assert await locked(desk, "b", 1) == [1]


@pytest.mark.parametrize("body", [b"{}", b"[]", b"x", b'{"consumerGroup":"g","clientId":"c"}'])
async def test_a_request_that_names_no_queues_is_answered(tmp_path: Path, body: bytes) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        for code in (LOCK, UNLOCK):
            assert (await desk.ask(RemotingCommand.request(code, body=body))).code == 1


async def test_a_new_master_keeps_a_queue_for_the_client_that_was_told_it_holds_it(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        master.lead().members = {2: slave.address}
        slave.follow(master.address)
        assert await locked(master, "a", 0, 1) == [0, 1]
        # when: the member leads, at once, without having copied anything
        slave.lead(2)
        assert await locked(slave, "b", 0, 1, 2) == [2]
        assert await locked(slave, "a", 0, 1) == [0, 1]


async def test_what_was_given_back_is_free_at_a_new_master_that_copied_the_table(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        master.lead().members = {2: slave.address}
        slave.follow(master.address)
        assert await locked(master, "a", 0, 1) == [0, 1]
        assert (await master.ask(asking(UNLOCK, "a", 0))).code == 0
        assert await slave.shared.sync.copy_from(master.address, 1) is None
        slave.lead(2)
        assert await locked(slave, "b", 0, 1) == [0]


async def test_who_joins_later_has_the_locks_with_the_other_tables(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        assert await locked(master.lead(), "a", 0) == [0]
        slave.follow(master.address)
        assert await slave.shared.copy_whole(master.address, 1) is None
        slave.lead(2)
        assert await locked(slave, "b", 0) == []


async def test_a_queue_is_not_told_to_be_held_while_a_member_does_not_know_it(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        assert await locked(master.lead(), "a", 0) == [0]
        # given: a member that cannot be told
        master.members = {2: f"127.0.0.1:{free_port()}"}
        # then: neither what is new nor a renewal is told, and nobody else gets the queues
        asked = [master.ask(asking(LOCK, "a", *queues)) for queues in ((0,), (0, 1))]
        answers = await asyncio.gather(*asked)
        assert [answer.code for answer in answers] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
        assert await locked(master, "b", 0, 1) == []
        # when: it can be told again, the client asks again
        slave.follow(master.address)
        master.members = {2: slave.address}
        assert await locked(master, "a", 0, 1) == [0, 1]


async def test_a_master_that_was_replaced_meanwhile_does_not_tell_a_queue_to_be_held(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        master.lead().members = {2: f"127.0.0.1:{free_port()}"}
        asked = asyncio.ensure_future(master.ask(asking(LOCK, "a", 0)))
        while not master.service.locks.locks.table():
            await asyncio.sleep(0)
        # when: it hears that another one leads, while it waits for that one's word
        master.follow(slave.lead(2).address, 2)
        assert (await asked).code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_a_master_that_was_replaced_and_has_not_heard_of_it_renews_nothing(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        master.lead().members = {2: slave.address}
        slave.follow(master.address)
        assert await locked(master, "a", 0) == [0]
        # when: the member leads, takes the queue back, and gives it to another client
        slave.lead(2)
        assert (await slave.ask(asking(UNLOCK, "a", 0))).code == 0
        assert await locked(slave, "b", 0) == [0]
        answer = await master.ask(asking(LOCK, "a", 0))
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_a_queue_that_was_given_back_while_members_were_told_is_not_told_to_be_held(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        master.lead().members = {2: f"127.0.0.1:{free_port()}"}
        slave.follow(master.address)
        asked = asyncio.ensure_future(locked(master, "a", 0, 1))
        while not master.service.locks.locks.table():
            await asyncio.sleep(0)
        assert (await master.ask(asking(UNLOCK, "a", 0))).code == 0
        master.members = {2: slave.address}
        assert await asked == [1]


async def test_a_java_replica_does_not_hold_locks_up(tmp_path: Path) -> None:
    java = RemotingServer(Dispatcher())
    await java.start()
    async with Desk(tmp_path) as master:
        known(master)
        master.lead().members = {2: f"127.0.0.1:{java.port}"}
        assert await locked(master, "a", 0) == [0]
    await java.close()


@pytest.mark.parametrize(
    ("epoch", "leads", "code"),
    [
        pytest.param(3, False, ResponseCode.SUCCESS, id="its master"),
        pytest.param(4, False, ResponseCode.SUCCESS, id="one that it has not heard of"),
        pytest.param(2, False, ResponseCode.SERVICE_NOT_AVAILABLE, id="a former master"),
        pytest.param(3, True, ResponseCode.SERVICE_NOT_AVAILABLE, id="while it leads itself"),
    ],
)
async def test_locks_are_taken_from_the_present_master_only(
    tmp_path: Path, epoch: int, leads: bool, code: ResponseCode
) -> None:
    async with Desk(tmp_path) as desk:
        known(desk)
        desk.lead(3) if leads else desk.follow("127.0.0.1:1", 3)
        answer = await desk.ask(push(epoch, 1, ["b", "T", 0, "a"]))
        assert answer.code == code
        assert bool(desk.service.locks.locks.table()) is (code == ResponseCode.SUCCESS)


async def test_what_a_newer_master_said_is_not_undone_by_a_former_one(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1", 3)
        locks = desk.service.locks
        # given: a push of the next master, which this replica has not heard of
        assert (await desk.ask(push(4, 2, ["b", "T", 0, "a"]))).code == 0
        # then: neither a push nor a table of the former one counts
        late = await desk.ask(push(3, 9, ["b", "T", 0, "b"]))
        assert late.code == ResponseCode.SERVICE_NOT_AVAILABLE
        locks.adopt(fastjson.dumps({"number": 9, "locks": {}}))
        assert locks.locks.table() == {"g": {"a": [("b", "T", 0)]}}


async def test_a_push_that_comes_behind_a_later_one_is_refused(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1", 3)
        assert (await desk.ask(push(3, 7, ["b", "T", 0, "a"]))).code == 0
        assert (await desk.ask(push(3, 7, ["b", "T", 1, "a"]))).code == 0
        late = await desk.ask(push(3, 6, ["b", "T", 0, "b"]))
        assert late.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert desk.service.locks.locks.table() == {"g": {"a": [("b", "T", 0), ("b", "T", 1)]}}


async def test_a_copy_that_was_made_before_a_push_does_not_undo_it(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1", 3)
        locks = desk.service.locks
        assert (await desk.ask(push(3, 7, ["b", "T", 0, "a"], ["b", "T", 1, None]))).code == 0
        locks.adopt(fastjson.dumps({"number": 6, "locks": {}}))
        assert locks.locks.table() == {"g": {"a": [("b", "T", 0)]}}
        locks.adopt(fastjson.dumps({"number": 7, "locks": {"g": {"b": [["b", "T", 1]]}}}))
        assert locks.locks.table() == {"g": {"b": [("b", "T", 1)]}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"group":"g"}',
        b'{"group":7,"locks":[]}',
        b'{"group":"g","locks":[["b","T"]]}',
        b'{"group":"g","locks":[["b","T",0,7]]}',
        b'{"group":"g","locks":[["b","T","0",null]]}',
        b'{"group":"g","locks":[[1,"T",0,"a"]]}',
        b'{"group":"g","locks":[%s]}' % b",".join([b'["b","T",0,"a"]'] * 10_001),
    ],
)
async def test_a_push_that_says_nothing_is_answered_and_changes_nothing(
    tmp_path: Path, body: bytes
) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1", 3)
        facts = {"regentMasterEpoch": "3", "regentNumber": "1"}
        request = RemotingCommand.request(RequestCode.REGENT_PUSH_LOCKS, facts, body)
        assert (await desk.ask(request)).code == 1
        assert not desk.service.locks.locks.table()


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b'{"number":1}',
        b'{"number":"1","locks":{}}',
        b'{"number":1,"locks":[]}',
        b'{"number":1,"locks":{"g":[]}}',
        b'{"number":1,"locks":{"g":{"a":{}}}}',
        b'{"number":1,"locks":{"g":{"a":[["b","T"]]}}}',
        b'{"number":1,"locks":{"g":{"a":[["b",0,"T"]]}}}',
    ],
)
async def test_a_table_that_says_nothing_is_refused(tmp_path: Path, text: bytes) -> None:
    async with Desk(tmp_path) as desk:
        with pytest.raises(ValueError, match="no |without"):
            desk.service.locks.adopt(text)


async def test_where_replicas_vote_none_copies_another_ones_locks(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        for desk in (master, slave):
            desk.service.locks.is_shared = False
        assert await locked(master.lead(), "a", 0) == [0]
        slave.follow(master.address)
        assert await slave.shared.sync.copy_from(master.address, 1) is None
        assert not slave.service.locks.locks.table()


async def test_no_more_than_once_is_pushed_what_two_requests_ask_for_at_once(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        known(master, slave)
        master.lead().members = {2: slave.address}
        slave.follow(master.address)
        found = await asyncio.gather(*(locked(master, name, 0, 1, 2) for name in "abc"))
        assert sorted(queue for one in found for queue in one) == [0, 1, 2]
        table = slave.service.locks.locks.table()
        assert table == master.service.locks.locks.table()


PIECES = (
    "{", "}", "[", "]", ",", ":", '"group"', '"locks"', '"number"', '"mqSet"', '"clientId"',
    '"consumerGroup"', '"queueId"', '"g"', "null", "true", "1", "-1", "9" * 30, "1e400", '"T"',
    '{"brokerName":"b","queueId":0,"topic":"T"}', '["b","T",0,"a"]', '["b","T",0]', "\xff", '"\\u',
)  # fmt: skip


@pytest.mark.parametrize("leads", [True, False])
async def test_whatever_is_said_of_locks_is_answered_and_bounded(
    tmp_path: Path, leads: bool
) -> None:
    chance = random.Random(leads)
    whole = (
        asking(LOCK, "a", 0, 1).body,
        push(3, 1, ["b", "T", 0, "a"]).body,
        b'{"number":1,"locks":{"g":{"a":[["b","T",0]]}}}',
    )
    async with Desk(tmp_path) as desk:
        known(desk)
        desk.lead(3) if leads else desk.follow("127.0.0.1:1", 3)
        for _ in range(300):
            body = "".join(chance.choices(PIECES, k=chance.randint(0, 12))).encode("latin-1")
            if chance.random() < 0.7:
                text = bytearray(chance.choice(whole))
                text[chance.randrange(len(text))] = chance.randrange(256)
                body = bytes(text)
            facts = {"regentMasterEpoch": chance.choice(("3", "x", "")), "regentNumber": "1"}
            for code in (LOCK, UNLOCK, 19019, 19020) if leads else (19019, 19020):
                answer = await desk.ask(RemotingCommand.request(code, facts, body))
                assert len(answer.remark or "") < 2_000
            try:
                desk.service.locks.adopt(body)
            except ValueError:
                continue
        assert len(desk.service.locks.locks.table()) < 300
