"""Scripted sets come up as brokers do: every step until a yes, at the next controller, under one
command id.
"""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from tests.chaos import registrations
from tests.chaos.registrations import register_all


async def test_an_answer_without_a_decision_is_asked_for_again_under_the_same_id() -> None:
    asked: list[tuple[int, str, str]] = []

    def handle(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == 904:
            return None
        name = request.ext["brokerName"]
        asked.append((request.code, name, request.ext["regentCommandId"]))
        times = sum(code == request.code and who == name for code, who, _ in asked)
        if request.code == 1013 and times == 1:
            return request.reply(1, remark="unknown")
        return request.reply(0, {"masterBrokerId": "1"})

    server = RemotingServer(handle, host="127.0.0.1", port=0)
    await server.start()
    try:
        result = await register_all([f"127.0.0.1:{server.port}"], 3)
    finally:
        await server.close()
    assert (result.wrong, result.asked_again) == ([], 3)
    for name in ("many-0", "many-1", "many-2"):
        mine = [(code, command_id) for code, who, command_id in asked if who == name]
        assert [code for code, _ in mine] == [1012, 1013, 1013, 1003, 1002, 1004]
        assert mine[1][1] == mine[2][1] and len({command_id for _, command_id in mine}) == 5


async def test_a_set_that_never_gets_a_yes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second goes by at each look at the clock: how often it is asked does not hang on how fast
    answers come.
    """
    seconds = count()
    monkeypatch.setattr(registrations, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(registrations, "PAUSE_S", 0.0)
    server = RemotingServer(
        lambda connection, request: request.reply(1, remark="no"), host="127.0.0.1", port=0
    )
    await server.start()
    try:
        result = await register_all([f"127.0.0.1:{server.port}"], 1, within_s=3.0)
    finally:
        await server.close()
    assert result.wrong[0] == "many-0: 1012: code 1 no" and len(result.wrong) == 2
