"""What is not served is named (PROTOCOL 4.2)."""

from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.service.left_out import LEFT_OUT, LeftOut
from brokers.service.role.services import declared
from tests.support.client_service import Desk


@pytest.mark.parametrize("code", LEFT_OUT)
def test_1_a_request_that_is_left_out_is_3_and_says_what_it_belongs_to(code: int) -> None:
    request = RemotingCommand.request(code)
    answer = LeftOut().serves()[code].handler(None, request)  # type: ignore[arg-type]
    assert isinstance(answer, RemotingCommand) and answer.code == 3
    assert str(answer.remark).startswith(f" request type {code} not supported: ")


async def test_what_is_left_out_is_served_by_nobody_else(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert not set(LEFT_OUT) & set(desk.service.served)
    declared((LeftOut(),))
    desk.store.close()
