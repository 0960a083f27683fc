"""A successor waits for what the process before it still holds, and not for ever."""

import asyncio
import socket
from functools import partial
from pathlib import Path

import pytest

from brokers.process.predecessor import (
    LEAVING,
    forget_leaving,
    leaves_in_ms,
    note_leaving,
    once_free,
)
from brokers.remoting.server import RemotingServer
from brokers.store.store import MessageStore


async def test_a_port_and_a_folder_are_taken_as_soon_as_they_are_free(tmp_path: Path) -> None:
    before = MessageStore(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        server = RemotingServer(lambda link, request: None, port=port)

        async def opened() -> MessageStore:
            return MessageStore(tmp_path)

        waiting = [
            asyncio.ensure_future(once_free(server.start, 20_000)),
            asyncio.ensure_future(once_free(opened, 20_000)),
        ]
        await asyncio.wait(waiting, timeout=0.1)
        assert not any(wait.done() for wait in waiting)
    before.close()
    await asyncio.gather(*waiting)
    assert server.port == port
    waiting[1].result().close()
    await server.close()


async def test_what_stays_taken_is_refused_in_the_end_and_another_error_at_once(
    tmp_path: Path,
) -> None:
    tries: list[int] = []

    async def broken() -> None:
        tries.append(1)
        raise OSError("planted")

    with pytest.raises(OSError, match="planted"):
        await once_free(broken, 20_000)
    assert len(tries) == 1
    with socket.create_server(("127.0.0.1", 0)) as held:
        server = RemotingServer(lambda link, request: None, port=held.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await once_free(server.start, 50)


async def test_a_process_that_left_word_is_waited_for_and_no_longer(tmp_path: Path) -> None:
    before = MessageStore(tmp_path)
    note_leaving(tmp_path, 60_000)
    assert 50_000 < leaves_in_ms(tmp_path) <= 60_000

    async def opened() -> MessageStore:
        return MessageStore(tmp_path)

    waiting = asyncio.ensure_future(once_free(opened, 1, partial(leaves_in_ms, tmp_path)))
    await asyncio.wait((waiting,), timeout=0.1)
    assert not waiting.done()
    before.close()
    (await waiting).close()
    forget_leaving(tmp_path)
    assert leaves_in_ms(tmp_path) == 0


@pytest.mark.parametrize("word", [b"", b"soon", b"-1", b"1", b"\xff" * 64])
def test_what_is_no_word_or_an_old_one_keeps_nobody_waiting(tmp_path: Path, word: bytes) -> None:
    (tmp_path / LEAVING).write_bytes(word)
    assert leaves_in_ms(tmp_path) == 0
