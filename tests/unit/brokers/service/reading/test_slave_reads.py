"""Which replica a consumer reads from (check list 8 and 38)."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.service.reading.slave_reads import SlaveReads
from brokers.store.log.records import decode_messages
from tests.support.brokers import pull_request, send_request
from tests.support.client_service import Desk


def reads(*slaves: int, enabled: bool = True, own_id: int | None = None) -> SlaveReads:
    made = SlaveReads(100, lambda: slaves, lambda: own_id)
    made.enabled = enabled
    return made


@pytest.mark.parametrize(
    ("made", "behind", "group", "suggested"),
    [
        (reads(1, 2, enabled=False), 101, None, 0),
        (reads(1, 2), 100, None, 0),
        (reads(1, 2), 100, {"brokerId": 2}, 2),
        (reads(1, 2), 101, None, 1),
        (reads(2, 3), 101, None, 2),
        (reads(2, 3), 101, {"whichBrokerWhenConsumeSlowly": 3}, 3),
        (reads(), 101, None, 1),
        (reads(2), 101, {"whichBrokerWhenConsumeSlowly": "x"}, 2),
    ],
)
def test_38_a_master_sends_who_is_far_behind_to_a_slave(
    made: SlaveReads, behind: int, group: dict[str, object] | None, suggested: int
) -> None:
    assert made.by_master(behind, group) == suggested


@pytest.mark.parametrize(
    ("made", "behind", "suggested"),
    [(reads(own_id=2), 101, 2), (reads(own_id=2), 100, 0), (reads(), 101, 0)],
)
def test_38_a_slave_sends_who_has_caught_up_to_the_master(
    made: SlaveReads, behind: int, suggested: int
) -> None:
    assert made.by_slave(behind) == suggested


def test_8_a_slave_serves_when_it_may_and_knows_its_master() -> None:
    assert reads(own_id=2).serves
    assert not reads(own_id=2, enabled=False).serves and not reads().serves


class Pair:
    """A master with three messages, and a slave with the same log."""

    def __init__(self, master: Desk, slave: Desk) -> None:
        self.master, self.slave = master, slave

    async def fill(self) -> None:
        self.master.lead()
        for number in range(3):
            await self.master.ask(send_request("T", b"%d" % number, 1))
        log = self.master.store
        self.slave.store.append_raw(0, log.read_log(0, log.log_end))
        self.slave.store.note_confirmed(log.log_end)
        self.slave.store.dispatch_to(log.log_end)
        self.slave.tables.topics.put(self.master.tables.topics.configs.values(), 1)
        self.slave.follow(self.master.address)
        # the slave's own way to say who it is
        self.slave.service.pulls.slave_reads._own_id = lambda: 2
        self.slave.service.pulls.slave_reads.enabled = True

    async def pulls(self, offset: int, **ext: str) -> RemotingCommand:
        request = pull_request("T", 1, offset)
        request.ext.update(ext)
        return await self.slave.ask(request)


async def test_8_38_a_slave_gives_what_it_holds_and_leaves_the_rest_to_its_master(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        pair = Pair(master, slave)
        await pair.fill()
        slave.service.pulls.slave_reads.memory_bytes = 0
        found = await pair.pulls(0, maxMsgNums="2")
        assert (found.code, found.ext["suggestWhichBrokerId"]) == (0, "2")
        assert [one.fields.body for one in decode_messages(found.body)] == [b"0", b"1"]
        assert slave.forwarder.forwarded == 0
        slave.service.pulls.slave_reads.memory_bytes = 1 << 40
        assert (await pair.pulls(0)).ext["suggestWhichBrokerId"] == "0"
        for offset in (3, 9):  # at the end, and beyond it: never moved by a slave
            answer = await pair.pulls(offset)
            assert (answer.code, answer.ext["nextBeginOffset"]) == (20, str(offset))
            assert answer.ext["suggestWhichBrokerId"] == "0"
        assert slave.forwarder.forwarded == 0
        # what it does not know, such as a subscription, its master may
        assert (await pair.pulls(0, sysFlag="0")).code == 24
        assert slave.forwarder.forwarded == 1
        slave.service.pulls.slave_reads.enabled = False
        assert (await pair.pulls(0)).code == 0 and slave.forwarder.forwarded == 2


async def test_38_a_master_suggests_by_what_lies_behind_the_last_message(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        for number in range(3):
            await desk.ask(send_request("T", b"%d" % number, 1))
        reads = desk.service.pulls.slave_reads
        reads.enabled, reads.memory_bytes = True, desk.store.log_end // 2
        reads._slaves = lambda: (2,)
        first = pull_request("T", 1, 0)
        first.ext["maxMsgNums"] = "1"
        assert (await desk.ask(first)).ext["suggestWhichBrokerId"] == "2"
        assert (await desk.ask(pull_request("T", 1, 0))).ext["suggestWhichBrokerId"] == "0"
        assert (await desk.ask(pull_request("T", 1, 9))).ext["suggestWhichBrokerId"] == "0"
