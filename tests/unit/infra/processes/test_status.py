import asyncio
import socket
import threading

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.server import RemotingServer
from infra.processes import status


async def serve(body: bytes, code: int = 0) -> RemotingServer:
    dispatcher = Dispatcher(
        {
            RequestCode.REGENT_PROCESS_STATUS: lambda connection, request: request.reply(
                code, body=body
            )
        }
    )
    server = RemotingServer(dispatcher, host="127.0.0.1", port=0)
    await server.start()
    return server


async def asked(body: bytes, code: int = 0) -> object:
    server = await serve(body, code)
    try:
        return await asyncio.to_thread(status.ask_once, f"127.0.0.1:{server.port}", 30_000)
    finally:
        await server.close()


async def test_a_process_tells_how_it_is() -> None:
    assert await asked(fastjson.dumps({"ready": True})) == {"ready": True}


async def test_an_answer_that_is_no_status_counts_as_none() -> None:
    assert await asked(b"[1]") is None
    assert await asked(b"nonsense") is None
    assert await asked(b"{}", code=1) is None


def test_nobody_there_or_a_silent_one_counts_as_none() -> None:
    assert status.ask_once("127.0.0.1:1", 100) is None
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert status.ask_once(f"127.0.0.1:{silent.getsockname()[1]}", 50) is None


def test_one_who_talks_nonsense_counts_as_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"\xff" * 64)

        thread = threading.Thread(target=talk)
        thread.start()
        assert status.ask_once(f"127.0.0.1:{server.getsockname()[1]}", 2_000) is None
        thread.join()


async def test_many_are_asked_at_once_and_each_has_its_answer() -> None:
    server = await serve(fastjson.dumps({"ready": True}))
    address = f"127.0.0.1:{server.port}"
    found = await asyncio.to_thread(status.ask_all, [address, "127.0.0.1:1"], 30_000)
    await server.close()
    assert found == {address: {"ready": True}, "127.0.0.1:1": None}


async def test_who_needs_no_sets_says_so() -> None:
    asked: list[dict[str, str]] = []

    def answer(_: object, request: RemotingCommand) -> RemotingCommand:
        asked.append(request.ext)
        return request.reply(0, body=b'{"ready":true}')

    server = RemotingServer(
        Dispatcher({RequestCode.REGENT_PROCESS_STATUS: answer}), host="127.0.0.1", port=0
    )
    await server.start()
    address = f"127.0.0.1:{server.port}"
    try:
        assert await asyncio.to_thread(lambda: status.ask_once(address, 5_000, sets=False)) == {
            "ready": True
        }
        assert await asyncio.to_thread(lambda: status.ask_all([address], 5_000, sets=False)) == {
            address: {"ready": True}
        }
        assert await asyncio.to_thread(status.ask_once, address, 5_000) == {"ready": True}
    finally:
        await server.close()
    assert asked == [{"sets": "false"}, {"sets": "false"}, {}]
