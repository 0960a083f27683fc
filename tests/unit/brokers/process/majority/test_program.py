"""A member as a process: configuration, exit codes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from brokers.process.majority import program
from brokers.process.majority.__main__ import main
from brokers.process.majority.listener import MemberListener
from tests.support.brokers import until
from tests.support.majority_group import GroupClient, MemberProgram, addresses

pytestmark = pytest.mark.processes


def test_a_configuration_that_cannot_be_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "member.toml"
    file.write_text('self_id = "n0"\npeers = "n1-127.0.0.1:1"\nstore_dir = "s"\n')
    assert main(["--config", str(file)]) == program.EXIT_REFUSED
    (said,) = caplog.messages
    assert "n0 is not among the peers" in said and "\n" not in said


async def test_it_serves_ends_in_order_and_refuses_a_folder_in_use(tmp_path: Path) -> None:
    members = addresses(1)
    member = MemberProgram(tmp_path, members, "n0")
    client = GroupClient(members)
    await member.start()
    try:
        assert await client.append(b"one") == 1
        second = MemberProgram(tmp_path, members, "n0")
        await second.start()
        assert second.process is not None
        assert await second.process.wait() == program.EXIT_REFUSED
        assert await member.end(signal.SIGTERM) == program.EXIT_OK
    finally:
        await client.close()
        await member.end()
    assert client.lost(member.identities()) == []
    await until(lambda: "takes appends in term" in member.said(), "it said so")


def test_a_listener_hears_everything_and_does_nothing() -> None:
    listener = MemberListener()
    listener.leader_ready(3)
    listener.committed(4)
    listener.left("why")
