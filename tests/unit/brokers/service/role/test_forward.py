"""Forwarding: one hop, a bounded wait, and nothing that may have arrived is sent twice."""

import asyncio
from pathlib import Path

from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.fields import FORWARDED_FOR
from brokers.remoting.server import RemotingServer
from brokers.service.role.forward import NOT_MASTER_REMARK
from brokers.store.log.records import decode_messages
from tests.support.brokers import free_port, pull_request, send_request, until
from tests.support.client_service import Desk


async def test_the_masters_answer_is_relayed_and_the_client_keeps_its_address(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        answer = await slave.ask(send_request("T", b"x"))
        assert (
            answer.code == 0 and answer.ext["queueOffset"] == "0" and slave.forwarder.forwarded == 1
        )
        refused = send_request("T", b"x")
        refused.ext["e"] = "99"
        assert (await slave.ask(refused)).code == 29


async def test_without_a_master_a_request_waits_until_there_is_one(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        waiting = asyncio.ensure_future(slave.ask(send_request("T", b"x")))
        await until(lambda: slave.forwarder.waiting, "the request is held")
        slave.follow(master.address)
        assert (await waiting).code == 0


async def test_who_becomes_master_serves_what_it_held(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        waiting = asyncio.ensure_future(desk.ask(send_request("T", b"x")))
        await until(lambda: desk.forwarder.waiting, "the request is held")
        desk.lead()
        assert (await waiting).code == 0 and desk.forwarder.forwarded == 0


async def test_what_waits_goes_to_the_next_life_of_the_broker(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        waiting = asyncio.ensure_future(desk.ask(send_request("T", b"x")))
        await until(lambda: desk.forwarder.waiting, "the request is held")
        desk.roles.over(lambda _connection, request: request.reply(77))
        assert (await waiting).code == 77 and desk.forwarder.waiting == 0


async def test_the_wait_has_an_end(tmp_path: Path) -> None:
    async with Desk(tmp_path, hold_ms=20) as desk:
        answer = await desk.ask(send_request("T", b"x"))
        assert (answer.code, answer.remark) == (
            14,
            NOT_MASTER_REMARK,
        ) and desk.forwarder.waiting == 0


async def test_a_forwarded_request_is_not_forwarded_again(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s", hold_ms=20) as slave:
        master.lead()
        slave.follow(master.address)
        request = send_request("T", b"x")
        request.ext[FORWARDED_FOR] = "10.0.0.1:1"
        assert (await slave.ask(request)).code == 14 and master.store.log_end == 0


async def test_a_stranger_cannot_speak_for_others(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s", hold_ms=20) as slave:
        master.lead()
        slave.follow(master.address)
        for desk, count in ((master, 1), (slave, 2)):
            desk.believes = False
            request = send_request("T", b"x")
            request.ext[FORWARDED_FOR] = "10.0.0.1:1"
            assert (await desk.ask(request)).code == 0
            (stored,) = decode_messages((await master.ask(pull_request("T", 0, count - 1))).body)
            assert stored.fields.born_host[:4] == bytes((127, 0, 0, 1))


async def test_two_that_take_each_other_for_the_master_do_not_play_ball(tmp_path: Path) -> None:
    async with Desk(tmp_path / "a", hold_ms=20) as one, Desk(tmp_path / "b", hold_ms=20) as other:
        one.follow(other.address)
        other.follow(one.address)
        for believes in (False, True):
            one.believes = other.believes = believes
            answer = await one.ask(send_request("T", b"x"))
            assert (answer.code, answer.remark) == (14, NOT_MASTER_REMARK)


async def test_a_master_that_cannot_be_reached_is_waited_for(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(f"127.0.0.1:{free_port()}")
        waiting = asyncio.ensure_future(slave.ask(send_request("T", b"x")))
        await until(lambda: slave.forwarder.waiting, "the request is held")
        slave.follow(master.address, 2)
        assert (await waiting).code == 0


async def dying_master(seen: list[int]) -> RemotingServer:
    """Takes a request and closes the connection without an answer."""

    def handle(connection: object, request: RemotingCommand) -> None:
        seen.append(request.code)
        connection.abort("planted")  # type: ignore[attr-defined]

    server = RemotingServer(handle)
    await server.start()
    return server


async def test_a_send_that_may_have_arrived_is_not_sent_again(tmp_path: Path) -> None:
    seen: list[int] = []
    server = await dying_master(seen)
    async with Desk(tmp_path) as slave:
        slave.follow(f"127.0.0.1:{server.port}")
        assert (await slave.ask(send_request("T", b"x"))).code == 14
        assert seen == [310]
    await server.close()


async def test_a_read_is_asked_again_at_the_next_master(tmp_path: Path) -> None:
    seen: list[int] = []
    server = await dying_master(seen)
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        await master.ask(send_request("T", b"x"))
        slave.follow(f"127.0.0.1:{server.port}")
        waiting = asyncio.ensure_future(slave.ask(pull_request("T", 0, 0)))
        await until(lambda: seen, "the dying master was asked")
        slave.follow(master.address, 2)
        assert (await waiting).code == 0
    await server.close()


async def test_a_master_that_is_none_any_more_did_nothing(tmp_path: Path) -> None:
    asked: list[int] = []

    def handle(_connection: object, request: RemotingCommand) -> RemotingCommand:
        asked.append(request.code)
        return request.reply(14, remark=NOT_MASTER_REMARK)

    server = RemotingServer(Dispatcher({310: handle}))
    await server.start()
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(f"127.0.0.1:{server.port}")
        waiting = asyncio.ensure_future(slave.ask(send_request("T", b"x")))
        await until(lambda: asked, "the former master was asked")
        slave.follow(master.address, 2)
        assert (await waiting).code == 0
    await server.close()


async def test_a_client_that_is_gone_is_not_served(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = RemotingClient()
        waiting = asyncio.ensure_future(client.call(desk.address, send_request("T", b"x"), 5_000))
        await until(lambda: desk.forwarder.waiting, "the request is held")
        await client.close()
        await asyncio.wait((waiting,))
        assert waiting.exception() is not None
        await until(lambda: desk.forwarder.waiting == 0, "the request was given up")
        desk.lead()
        assert desk.store.log_end == 0


async def test_during_a_hand_over_writes_wait_for_the_next_master_and_reads_do_not(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "n") as successor:
        master.lead()
        assert (await master.ask(send_request("T", b"first"))).code == 0
        end = master.store.log_end
        master.roles.drain(True)
        waiting = asyncio.ensure_future(master.ask(send_request("T", b"x")))
        await until(lambda: master.forwarder.writing, "the send is held")
        assert (await master.ask(pull_request("T", 0, 0))).code == 0 and not waiting.done()
        successor.lead(2)
        master.follow(successor.address, 2)
        assert (
            (await waiting).code == 0
            and master.store.log_end == end
            and master.forwarder.writing == 0
        )


async def test_a_hand_over_that_is_given_up_serves_what_was_held(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        desk.roles.drain(True)
        waiting = asyncio.ensure_future(desk.ask(send_request("T", b"x")))
        await until(lambda: desk.forwarder.writing, "the send is held")
        desk.roles.drain(False)
        assert (await waiting).code == 0 and desk.forwarder.forwarded == 0


async def test_a_held_request_of_another_broker_goes_back_when_a_third_one_leads(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path, hold_ms=60_000) as desk:
        request = send_request("T", b"x")
        request.ext[FORWARDED_FOR] = "10.0.0.1:1"
        waiting = asyncio.ensure_future(desk.ask(request))
        await until(lambda: desk.forwarder.waiting, "the request is held")
        desk.follow(f"127.0.0.1:{free_port()}", 2)
        answer = await waiting
        assert (answer.code, answer.remark) == (14, NOT_MASTER_REMARK) and desk.store.log_end == 0


async def test_a_broker_that_takes_a_former_master_for_the_master_gets_its_request_back_in_time(
    tmp_path: Path,
) -> None:
    async with (
        Desk(tmp_path / "f") as former,
        Desk(tmp_path / "n") as master,
        Desk(tmp_path / "s") as late,
    ):
        master.lead(2)
        former.follow(master.address, 2)
        late.follow(former.address)
        waiting = asyncio.ensure_future(late.ask(send_request("T", b"x")))
        await until(lambda: former.forwarder.waiting, "the former master was asked")
        late.follow(master.address, 2)
        assert (await waiting).code == 0 and master.store.log_end > 0
