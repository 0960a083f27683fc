"""Replies between clients: passed on to whoever asked, and kept."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.service.sending import replies
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk
from tests.support.greeting_client import GreetingClient


@asynccontextmanager
async def leading(folder: Path) -> AsyncIterator[Desk]:
    async with Desk(folder) as desk:
        desk.lead()
        yield desk


def reply(to: str | None, v1: bool = False) -> RemotingCommand:
    request = send_request("c_REPLY_TOPIC", b"answer", 0)
    request.ext["i"] = "MSG_TYPE\x01reply\x02CORRELATION_ID\x01id\x02UNIQ_KEY\x01K\x02"
    if to is not None:
        request.ext["i"] += f"REPLY_TO_CLIENT\x01{to}\x02"
    if v1:
        names = {
            "a": "producerGroup",
            "b": "topic",
            "c": "defaultTopic",
            "d": "defaultTopicQueueNums",
            "e": "queueId",
            "f": "sysFlag",
            "g": "bornTimestamp",
            "h": "flag",
            "i": "properties",
        }
        ext = {names[key]: value for key, value in request.ext.items() if key in names}
        return RemotingCommand.request(324, ext, request.body)
    return RemotingCommand.request(325, request.ext, request.body)


@pytest.mark.parametrize("v1", [False, True])
async def test_43_a_reply_reaches_the_client_that_asked_and_is_kept(
    tmp_path: Path, v1: bool
) -> None:
    async with (
        leading(tmp_path) as desk,
        GreetingClient(desk, answers=RemotingCommand.request(0)) as client,
    ):
        answer = await desk.ask(reply("me", v1))
        assert (answer.code, answer.ext["queueId"], answer.ext["queueOffset"]) == (0, "0", "0")
        (pushed,) = client.asked
        assert (pushed.code, pushed.body) == (326, b"answer")
        assert "CORRELATION_ID\x01id\x02" in pushed.ext["properties"]
        assert "PUSH_REPLY_TIME\x01" in pushed.ext["properties"]
        kept = await desk.ask(pull_request("c_REPLY_TOPIC", 0, 0))
        assert b"answer" in kept.body


@pytest.mark.parametrize("to", [None, "somebody"])
async def test_43_a_reply_to_nobody_is_refused(tmp_path: Path, to: str | None) -> None:
    async with leading(tmp_path) as desk:
        end = desk.store.log_end
        answer = await desk.ask(reply(to))
        assert answer.code == 1 and desk.store.log_end == end
        assert ("is null" if to is None else "not found") in (answer.remark or "")


async def test_43_a_client_that_cannot_take_its_reply_is_said_so(tmp_path: Path) -> None:
    refuses = RemotingCommand.request(1)
    async with leading(tmp_path) as desk, GreetingClient(desk, answers=refuses) as client:
        assert (await desk.ask(reply("me"))).code == 1
        assert len(client.asked) == 1


async def test_a_client_that_is_gone_is_not_asked(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        async with GreetingClient(desk):
            pass
        await until(lambda: desk.service.clients.client("me") is None, "it is gone")
        assert (await desk.ask(reply("me"))).code == 1


async def test_a_client_that_does_not_answer_in_time_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "CLIENT_TIMEOUT_MS", 20)
    async with leading(tmp_path) as desk, GreetingClient(desk):
        assert (await desk.ask(reply("me"))).code == 1
