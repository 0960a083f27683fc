"""Cleaning that operators ask for (check list 74)."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.service.housekeeping import Housekeeping
from tests.support.asked import leading
from tests.support.client_service import Desk


async def ask(desk: Desk, code: int, expired: list[str]) -> RemotingCommand:
    async def expire() -> None:
        expired.append("expired")

    handler = Housekeeping(desk.store, expire).serves()[code].handler
    answer = handler(None, RemotingCommand.request(code))  # type: ignore[arg-type]
    answer = answer if isinstance(answer, RemotingCommand) else await answer  # type: ignore[misc]
    assert isinstance(answer, RemotingCommand)
    return answer


@pytest.mark.parametrize(("code", "expired"), [(306, []), (316, []), (329, ["expired"])])
async def test_74_each_cleaning_is_done_and_answered(
    tmp_path: Path, code: int, expired: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(tmp_path) as desk:
        trimmed: list[int] = []
        monkeypatch.setattr(desk.store.queues, "trim", trimmed.append)
        seen: list[str] = []
        assert (await ask(desk, code, seen)).code == 0 and seen == expired
        assert trimmed == ([] if expired else [desk.store.log_min])


async def test_74_a_disk_that_refuses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_below: int) -> None:
        raise OSError("the disk is gone")

    async with leading(tmp_path) as desk:
        monkeypatch.setattr(desk.store.queues, "trim", refuse)
        answer = await ask(desk, 306, [])
        assert answer.code == 1 and "the disk is gone" in str(answer.remark)
