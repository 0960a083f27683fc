"""Which 1008 is followed at once, and which only makes the broker ask."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from brokers.membership.controller_messages import Introduction
from brokers.membership.role_notices import RoleNotices
from brokers.remoting.command import RemotingCommand
from brokers.replica.roles import RoleNotice
from tests.support.brokers import until

ME = Introduction("C", "b", "h:1", "h:2", "inc", notice_token="5ec2e7")
NOTICE = {"masterBrokerId": "2", "masterAddress": "h:9", "masterEpoch": "5"}


class Told:
    """What became of the notices; an answer comes when the test gives it."""

    def __init__(self, me: Introduction = ME) -> None:
        self.followed: list[RoleNotice] = []
        self.asked = 0
        self.answers = asyncio.Semaphore(0)
        self.notices = RoleNotices(me, self.followed.append, self._look)
        self._running = asyncio.ensure_future(self.notices.run())

    async def _look(self) -> None:
        self.asked += 1
        await self.answers.acquire()

    def take(self, **ext: str) -> None:
        self.notices.take(RemotingCommand.request(1008, NOTICE | ext))

    async def close(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


async def test_a_notice_with_the_token_is_followed_before_anybody_is_asked() -> None:
    told = Told()
    told.take(regentNoticeToken="5ec2e7")
    await asyncio.sleep(0)
    assert [notice.master_id for notice in told.followed] == [2] and told.asked == 0
    await told.close()


@pytest.mark.parametrize(
    "ext",
    [{}, {"regentNoticeToken": ""}, {"regentNoticeToken": "5ec2e8"}, {"regentNoticeToken": "é"}],
)
async def test_any_other_notice_is_a_reason_to_ask(ext: dict[str, str]) -> None:
    told = Told()
    told.take(**ext)
    await until(lambda: told.asked == 1, "a controller was asked")
    assert told.followed == []
    await told.close()


async def test_an_empty_token_proves_nothing_to_who_has_told_none() -> None:
    told = Told(replace(ME, notice_token=""))
    told.take(regentNoticeToken="")
    await until(lambda: told.asked == 1, "a controller was asked")
    assert told.followed == []
    await told.close()


async def test_hints_that_come_while_it_asks_make_it_ask_once_more() -> None:
    told = Told()
    told.take()
    await until(lambda: told.asked == 1, "a controller was asked")
    for _ in range(1_000):
        told.take()
    told.answers.release()
    await until(lambda: told.asked == 2, "it asked once more")
    told.answers.release()
    await asyncio.sleep(0.2)
    assert told.asked == 2
    await told.close()


async def test_what_cannot_be_read_is_no_hint_either() -> None:
    told = Told()
    told.notices.take(
        RemotingCommand.request(1008, {"masterEpoch": "x", "regentNoticeToken": "5ec2e7"})
    )
    await asyncio.sleep(0.05)
    assert told.followed == [] and told.asked == 0
    await told.close()
