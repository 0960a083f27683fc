"""Signs of life, as systemd reads them."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from brokers.process.beats import PERIOD_S_MAX, PERIOD_S_MIN, Beats


@pytest.fixture
def heard(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


def environ(heard: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": heard.getsockname(), **more}


async def test_ready_and_beats_while_it_is_well_and_the_end(heard: socket.socket) -> None:
    beats = Beats(environ(heard, WATCHDOG_USEC="200000", WATCHDOG_PID=str(os.getpid())))
    well = True
    running = asyncio.ensure_future(beats.run(lambda: well))
    read = [await asyncio.to_thread(heard.recv, 100) for _ in range(3)]
    assert read == [b"READY=1\nWATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"]
    well = False
    while True:  # what was sent before
        heard.settimeout(1.0)
        try:
            await asyncio.to_thread(heard.recv, 100)
        except TimeoutError:
            break
    well = True
    heard.settimeout(60)
    assert await asyncio.to_thread(heard.recv, 100) == b"WATCHDOG=1"
    running.cancel()
    beats.close()
    beats.say("WATCHDOG=1")
    left = b""
    while left != b"STOPPING=1":
        left = heard.recv(100)
    heard.setblocking(False)
    with pytest.raises(BlockingIOError):
        heard.recv(100)


async def test_a_name_in_the_abstract_space() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("")
        name = listening.getsockname()[1:].decode()
        beats = Beats({"NOTIFY_SOCKET": "@" + name})
        beats.say("READY=1")
        listening.settimeout(60)
        assert listening.recv(100) == b"READY=1"
        beats.close()


@pytest.mark.parametrize(
    ("said", "period_s"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "2000000"}, 2.0),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "0"}, 0.0),
        ({"WATCHDOG_USEC": "-5"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({"WATCHDOG_USEC": "1"}, PERIOD_S_MIN),
        ({"WATCHDOG_USEC": "9" * 18}, PERIOD_S_MAX),
    ],
)
def test_how_often_it_is_asked_to_beat(said: dict[str, str], period_s: float) -> None:
    assert Beats(said).period_s == period_s


@pytest.mark.parametrize("name", ["", "relative", "/nowhere/at/all", "@nobody-listens"])
async def test_nobody_listens_and_nothing_fails(name: str) -> None:
    beats = Beats({"NOTIFY_SOCKET": name})
    beats.say("READY=1")
    await asyncio.wait_for(beats.run(lambda: True), 60)
    beats.close()
