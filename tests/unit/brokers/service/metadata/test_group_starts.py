"""A consumer never jumps to the end because its first offset was lost with a master."""

import errno
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.tables.topics import TopicConfig
from brokers.store.files.json_files import JsonFile
from tests.support.brokers import free_port, send_request
from tests.support.client_service import Desk

QUEUE = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
ASKS = RemotingCommand.request(14, QUEUE)


def heartbeat(where: str = "CONSUME_FROM_LAST_OFFSET") -> RemotingCommand:
    consumer = {
        "groupName": "g",
        "consumeFromWhere": where,
        "subscriptionDataSet": [{"topic": "T", "subString": "*"}],
    }
    return RemotingCommand.request(
        34, body=fastjson.dumps({"clientID": "c@1", "consumerDataSet": [consumer]})
    )


def make_old(desk: Desk) -> None:
    """Its oldest messages are no longer in memory: a group that is new begins at the end."""
    desk.service._offsets._begins_at_zero = lambda smallest, largest: False  # type: ignore[method-assign]


@asynccontextmanager
async def a_set(folder: Path, *, old: bool) -> AsyncIterator[tuple[Desk, Desk]]:
    """A master with three messages in queue 0, and its slave, which has copied its tables."""
    async with Desk(folder / "m") as master, Desk(folder / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        for desk in (master, slave):
            if old:
                make_old(desk)
        for number in range(3):
            assert (await master.ask(send_request("T", b"%d" % number))).code == 0
        assert await slave.shared.copy_whole(master.address, 1) is None
        yield master, slave


@pytest.mark.parametrize("commits", [False, True])
async def test_a_group_whose_first_commit_was_lost_goes_on_where_it_began(
    tmp_path: Path, commits: bool
) -> None:
    async with a_set(tmp_path, old=True) as (master, slave):
        await master.ask(heartbeat())
        assert (await master.ask(ASKS)).code == 22  # the client asks for the end, 3
        await master.ask(send_request("T", b"unread"))
        if commits:
            await master.ask(RemotingCommand.request(15, QUEUE | {"commitOffset": "4"}))
        slave.lead(2)  # the master dies before the next copy
        answer = await slave.ask(ASKS)
        assert (answer.code, answer.ext) == (0, {"offset": "3"})


async def test_who_dies_with_all_members_at_once_finds_on_any_disk_where_a_group_began(
    tmp_path: Path,
) -> None:
    async with a_set(tmp_path, old=True) as (master, _slave):
        await master.ask(heartbeat())
        assert (await master.ask(ASKS)).code == 22
        for name in ("m", "s"):  # as a kill leaves them, long before the next write of all offsets
            (tmp_path / "killed" / name / "config").mkdir(parents=True)
            shutil.copy(
                tmp_path / name / "config" / ("consumerOffset.json"),
                tmp_path / "killed" / name / "config",
            )
    for name in ("m", "s"):
        async with Desk(tmp_path / "killed" / name) as again:
            make_old(again)
            again.tables.topics.put([TopicConfig("T", 4, 4)], 5)
            again.lead(2)
            answer = await again.ask(ASKS)
            assert (answer.code, answer.ext) == (0, {"offset": "3"})


async def test_a_disk_that_refuses_keeps_no_group_from_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_set(tmp_path, old=True) as (master, _):
        await master.ask(heartbeat())

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "planted")

        with monkeypatch.context() as patched:
            patched.setattr(JsonFile, "save", full)
            assert (await master.ask(ASKS)).code == 22


async def test_a_group_that_began_a_young_topic_at_zero_does_so_at_the_next_master(
    tmp_path: Path,
) -> None:
    async with a_set(tmp_path, old=False) as (master, slave):
        await master.ask(heartbeat())
        assert (await master.ask(ASKS)).ext == {"offset": "0"}
        slave.lead(2)
        make_old(slave)
        assert (await slave.ask(ASKS)).ext == {"offset": "0"}


async def test_a_group_that_never_began_here_is_new_at_the_next_master_too(tmp_path: Path) -> None:
    async with a_set(tmp_path, old=True) as (_, slave):
        slave.lead(2)
        await slave.ask(heartbeat())
        assert [(await slave.ask(ASKS)).code for _ in range(2)] == [22, 22]


async def test_under_the_same_master_an_answer_stays_what_it_was(tmp_path: Path) -> None:
    async with a_set(tmp_path, old=True) as (master, _):
        await master.ask(heartbeat())
        await master.ask(ASKS)
        await master.ask(send_request("T", b"x"))
        assert (await master.ask(ASKS)).code == 22


@pytest.mark.parametrize("where", ["CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"])
async def test_a_group_that_finds_its_place_by_itself_is_left_to_it(
    tmp_path: Path, where: str
) -> None:
    async with a_set(tmp_path, old=True) as (master, slave):
        await master.ask(heartbeat(where))
        assert (await master.ask(ASKS)).code == 22
        slave.lead(2)
        await slave.ask(heartbeat(where))
        assert (await slave.ask(ASKS)).code == 22 and not slave.tables.offsets.has_begun(
            "g", "T", 0
        )


async def test_an_offset_takes_the_place_of_the_beginning_everywhere(tmp_path: Path) -> None:
    async with a_set(tmp_path, old=True) as (master, slave):
        await master.ask(heartbeat())
        await master.ask(ASKS)
        assert slave.tables.offsets.has_begun("g", "T", 0) and slave.tables.offsets.has_begun(
            "g", "T", 1
        )
        await master.ask(RemotingCommand.request(15, QUEUE | {"commitOffset": "1"}))
        assert await slave.shared.copy_whole(master.address, 1) is None
        for desk in (master, slave):
            assert not desk.tables.offsets.has_begun("g", "T", 0) and desk.tables.offsets.has_begun(
                "g", "T", 1
            )
        java = (await master.ask(RemotingCommand.request(43))).body
        assert b"regentStarts" not in java and b'"T@g":{"0":1}' in java
        slave.lead(2)
        assert (await slave.ask(ASKS)).ext == {"offset": "1"}


async def test_a_beginning_outlives_restarts_and_goes_with_its_topic(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        make_old(desk)
        await desk.ask(send_request("T", b"x"))
        await desk.ask(heartbeat())
        assert (await desk.ask(ASKS)).code == 22
    async with Desk(tmp_path) as desk:
        desk.lead(2)
        make_old(desk)
        assert (await desk.ask(ASKS)).ext == {"offset": "1"}
        assert (
            await desk.ask(RemotingCommand.request(14, QUEUE | {"setZeroIfNotFound": "false"}))
        ).code == 22
        assert (await desk.ask(RemotingCommand.request(215, {"topic": "T"}))).code == 0
        assert (
            not desk.tables.offsets.has_begun("g", "T", 0)
            and b"regentStarts" not in desk.tables.offsets.text()
        )


async def test_a_member_that_does_not_answer_keeps_no_group_from_beginning(tmp_path: Path) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        make_old(master)
        await master.ask(send_request("T", b"x"))
        await master.ask(heartbeat())
        master.members = {2: f"127.0.0.1:{free_port()}"}
        assert (await master.ask(ASKS)).code == 22


async def test_strangers_make_no_beginnings(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        await master.ask(send_request("T", b"x"))
        for changed in ({"consumerGroup": "unknown"}, {"topic": "unknown"}, {"queueId": "99"}):
            await master.ask(RemotingCommand.request(14, QUEUE | changed))
        assert b"regentStarts" not in master.tables.offsets.text()
        body = b'{"offsetTable":{},"regentStarts":{"T@g":{"0":5}}}'
        slave.believes = False
        assert (
            await slave.ask(RemotingCommand.request(19014, {"regentMasterEpoch": "1"}, body))
        ).code == 16
        slave.believes = True
        for ext, text, code in (("0", body, 14), ("x", body, 1), ("1", b"x", 1), ("1", body, 0)):
            assert (
                await slave.ask(RemotingCommand.request(19014, {"regentMasterEpoch": ext}, text))
            ).code == code


async def test_a_first_commit_without_a_question_is_on_the_members_when_it_is_answered(
    tmp_path: Path,
) -> None:
    async with a_set(tmp_path, old=True) as (master, slave):
        assert (
            await master.ask(RemotingCommand.request(15, QUEUE | {"commitOffset": "2"}))
        ).code == 0
        assert slave.tables.offsets.query("g", "T", 0) == 2
        # later ones come with the copies
        await master.ask(RemotingCommand.request(15, QUEUE | {"commitOffset": "3"}))
        slave.tables.offsets.commit("g", "T", 0, 1, 1)
        late = RemotingCommand.request(
            19014,
            {"regentMasterEpoch": "1"},
            b'{"offsetTable":{"T@g":{"0":2,"1":5}},"regentStarts":{"T@g":{"0":1}}}',
        )
        assert (await slave.ask(late)).code == 0  # a word that comes late takes nothing back
        assert [slave.tables.offsets.query("g", "T", queue) for queue in (0, 1)] == [
            1,
            5,
        ] and not slave.tables.offsets.has_begun("g", "T", 0)


async def test_of_a_topic_with_very_many_queues_only_the_one_that_is_asked_for_is_noted(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        make_old(master)
        master.tables.topics.put([TopicConfig("T", 2_000, 2_000)], 1)
        await master.ask(heartbeat())
        assert (await master.ask(ASKS)).code == 22
        assert [master.tables.offsets.has_begun("g", "T", queue) for queue in (0, 1)] == [
            True,
            False,
        ]
