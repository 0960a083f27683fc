"""Design S10: nobody relies on a topic before disk, members and name servers have it."""

import asyncio
from pathlib import Path

import pytest

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.server import RemotingServer
from brokers.service.metadata import table_pieces, topic_changes
from brokers.service.role.hand_over_requests import HandOverRequests
from brokers.service.tables import topics
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.topics import TopicConfig, TopicTable
from brokers.store.log.records import MessageFields, host_bytes
from tests.support.brokers import free_port, send_request, until
from tests.support.client_service import Desk

HOST = host_bytes("127.0.0.1", 1)


async def test_a_first_send_waits_for_members_routes_and_disk(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        assert (await master.ask(send_request("T", b"x"))).code == 0
        assert slave.tables.topics.get("T") == TopicConfig("T", 4, 4) and master.registrations == 1
        assert slave.tables.topics.version == master.tables.topics.version
        assert b'"T"' in (tmp_path / "s" / "config" / "topics.json").read_bytes()


async def test_equal_topics_are_not_sent_again_and_still_get_the_masterships_version(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        bodies: list[bytes] = []
        adopt = slave.service.handlers()[RequestCode.REGENT_PUSH_TOPICS]
        beside = RemotingServer(
            lambda link, request: bodies.append(request.body) or adopt(link, request)
        )
        await beside.start()
        master.members = {2: f"127.0.0.1:{beside.port}"}
        for epoch, name in ((1, "T"), (2, None), (3, "U")):
            master.lead(epoch)
            if name:
                master.tables.topics.put([TopicConfig(name)], 5)
            bodies.clear()
            assert await master.changes.agree()
            assert [b"topicConfigTable" in body for body in bodies] == (
                [False, True] if name else [False]
            )
            assert slave.tables.topics.version == master.tables.topics.version
            assert slave.tables.topics.configs == master.tables.topics.configs
        await beside.close()


async def test_a_member_that_cannot_be_told_holds_the_topic_up_until_it_leaves_the_set(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        master.members = {2: f"127.0.0.1:{free_port()}"}
        answer = await master.ask(send_request("T", b"x"))
        assert answer.code == 14 and master.store.log_end == 0
        assert (await master.ask(send_request("T", b"x"), 20_000)).code == 14
        master.members = {}
        assert (await master.ask(send_request("T", b"x"))).code == 0


async def test_a_topic_asked_for_by_many_is_created_once(tmp_path: Path) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        answers = await asyncio.gather(
            *(master.ask(send_request("T", b"%d" % number)) for number in range(20))
        )
        assert {answer.code for answer in answers} == {0} and master.registrations == 1


async def test_without_a_default_topic_nothing_is_created(tmp_path: Path) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        request = send_request("T", b"x")
        request.ext["c"] = "absent"
        assert (await master.ask(request)).code == 17


async def test_a_table_of_an_older_mastership_is_not_taken(tmp_path: Path) -> None:
    async with Desk(tmp_path) as slave:
        slave.follow("127.0.0.1:1", 3)
        assert not slave.changes.adopt(TopicTable([TopicConfig("T")]), 2)
        assert slave.changes.adopt(
            TopicTable([TopicConfig("T")], slave.tables.topics.version.changed(1, 3)), 3
        )
        assert list(slave.tables.topics.configs) == ["T"]


async def test_an_answer_from_before_the_last_push_changes_nothing(tmp_path: Path) -> None:
    async with Desk(tmp_path) as slave:
        slave.follow("127.0.0.1:1", 1)
        before = slave.tables.topics.version.changed(1, 1)
        after = before.changed(2)
        assert slave.changes.adopt(TopicTable([TopicConfig("T")], after), 1)
        assert not slave.changes.adopt(TopicTable([TopicConfig("U")], before), 1)
        # what is asked is here
        assert slave.changes.adopt(TopicTable([TopicConfig("T")], before), 1)
        assert slave.tables.topics.get("T") is not None


async def test_a_master_takes_no_table(tmp_path: Path) -> None:
    async with Desk(tmp_path) as master:
        master.lead(1)
        assert not master.changes.adopt(TopicTable([TopicConfig("T")]), 9)


async def test_a_lost_mastership_ends_the_waiting(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "n") as successor:
        master.lead()
        successor.lead(2)
        master.members = {2: f"127.0.0.1:{free_port()}"}
        waiting = asyncio.ensure_future(master.ask(send_request("T", b"x")))
        await until(lambda: master.changes.unheld, "the topic waits for its members")
        master.follow(successor.address, 2)
        assert (await waiting).code == 14 and master.store.log_end == 0


async def test_topics_that_a_slave_read_before_it_knew_them_come_back_with_a_mastership(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1", 2)
        for topic, queue_id in (("T", 0), ("T", 3), ("late", 0)):
            desk.store.put(MessageFields(topic, queue_id, b"x", b"", 1, HOST, HOST), 1)
        desk.service.confirmed(desk.store.log_end)
        desk.tables.topics.put([TopicConfig("late", 1, 1)], 1)
        desk.lead(3)
        assert desk.tables.topics.get("T") == TopicConfig("T", 4, 4) and desk.tables.topics.get(
            "late"
        ) == TopicConfig("late", 1, 1)
        assert desk.changes.unheld == {"T"}


async def test_topics_of_a_table_that_was_lost_come_back_and_deleted_ones_do_not(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        for topic in ("T", "D"):
            await desk.ask(send_request(topic, b"x", 3))
        await desk.ask(RemotingCommand.request(215, {"topic": "D"}))
        desk.follow("127.0.0.1:1", 2)
        desk.lead(3)
        assert desk.tables.topics.get("T") is not None and desk.tables.topics.get("D") is None
    for file in (tmp_path / "config").glob("topics.json*"):
        file.unlink()
    async with Desk(tmp_path) as desk:
        desk.lead(4)
        assert desk.tables.topics.get("T") == TopicConfig("T", 4, 4)


async def test_a_deleted_topic_leaves_table_and_offsets(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        desk.tables.offsets.commit("g", "T", 0, 1, 1)
        assert (await desk.ask(RemotingCommand.request(215, {"topic": "T"}))).code == 0
        assert (
            desk.tables.topics.get("T") is None and desk.tables.offsets.query("g", "T", 0) is None
        )


async def test_a_topic_that_came_back_from_the_log_waits_for_its_members_too(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.changes.restore([("T", 1)])
        master.members = {2: slave.address}
        assert (await master.ask(send_request("T", b"x", 1))).code == 0
        assert slave.tables.topics.get("T") == TopicConfig("T", 2, 2) and not master.changes.unheld


async def test_a_topic_that_found_no_room_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        monkeypatch.setattr(topics, "TOPICS_MAX", len(master.tables.topics.configs))
        assert (await master.ask(send_request("T", b"x"))).code == 1
        assert master.tables.topics.get("T") is None and not master.changes.unheld


async def test_a_full_table_does_not_keep_a_replica_from_leading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1", 2)
        desk.store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1)
        desk.service.confirmed(desk.store.log_end)
        monkeypatch.setattr(topics, "TOPICS_MAX", len(desk.tables.topics.configs))
        desk.lead(3)
        assert desk.roles.serving and desk.tables.topics.get("T") is None


async def test_topics_whose_queues_cannot_be_read_are_copied_and_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Desk(tmp_path) as slave:
        slave.follow("127.0.0.1:1", 1)
        for counter in (1, 2):
            table = TopicTable(
                [TopicConfig("B", attributes={"queue.type": "BatchCQ"})], DataVersion(1, 1, counter)
            )
            assert slave.changes.adopt(table, 1)
        assert [
            record.getMessage()
            for record in caplog.records
            if "batch queues" in record.getMessage()
        ] == ["topics with batch queues are copied but cannot be read here: B"]
        assert slave.tables.topics.get("B") is not None


async def test_a_strangers_table_is_refused_and_a_made_up_counter_does_not_count(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead(3)
        slave.follow(master.address, 3)
        for believed, counter, code in ((False, 2**62, 16), (False, 9_999, 16), (True, 2**62, 14)):
            slave.believes = believed
            evil = TopicTable([TopicConfig("x")], DataVersion(3, 0, counter))
            slave.tables.topics.state_version, slave.tables.topics.version = 3, DataVersion(3, 1, 1)
            answer = await slave.ask(
                RemotingCommand.request(19010, {"regentMasterEpoch": "3"}, evil.text().stored())
            )
            assert answer.code == code and slave.tables.topics.get("x") is None


async def test_a_table_poisoned_before_is_not_called_held_and_heals_with_the_next_push(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead(3)
        slave.follow(master.address, 3)
        slave.tables.topics.adopt(TopicTable([TopicConfig("x")], DataVersion(3, 0, 1_000_000)))
        master.members = {2: slave.address}
        assert (await master.ask(send_request("T", b"x"))).code == 0
        assert (
            slave.tables.topics.configs == master.tables.topics.configs
            and slave.tables.topics.get("x") is None
        )


async def test_deleted_topics_and_fewer_queues_stay_so_after_a_restart_and_at_the_next_master(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        for desk in (master, slave):  # the log is the same on both
            for topic in ("D", "S", "kept"):
                desk.store.put(MessageFields(topic, 3, b"x", b"", 1, HOST, HOST), 1)
        await master.changes.put([TopicConfig(name, 4, 4) for name in ("D", "S", "kept")])
        slave.service.confirmed(slave.store.log_end)
        slave.tables.offsets.commit("g", "D", 3, 1, 1)
        assert (await master.ask(RemotingCommand.request(215, {"topic": "D"}))).code == 0
        fewer = {
            "topic": "S",
            "readQueueNums": "2",
            "writeQueueNums": "2",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
        }
        assert (await master.ask(RemotingCommand.request(17, fewer))).code == 0
        assert slave.tables.offsets.query("g", "D", 3) is None
        slave.lead(2)
        assert slave.tables.topics.get("D") is None and slave.tables.topics.configs["S"].queues == 2
    for name in ("m", "s"):
        async with Desk(tmp_path / name) as desk:
            desk.lead(3)
            assert (
                desk.tables.topics.get("D") is None and desk.tables.topics.configs["S"].queues == 2
            )
            assert desk.tables.topics.configs["kept"].queues == 4
            if name == "m":
                continue
            # made again, it goes on behind what it had
            again = await desk.ask(send_request("D", b"y", 3))
            assert again.code == 0 and again.ext["queueOffset"] == "1"


async def test_a_deletion_is_answered_when_the_members_know_it(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        await master.ask(send_request("T", b"x"))
        master.members = {2: f"127.0.0.1:{free_port()}"}
        assert (await master.ask(RemotingCommand.request(215, {"topic": "T"}))).code == 14
        master.members = {2: slave.address}
        assert (await master.ask(RemotingCommand.request(215, {"topic": "T"}))).code == 0
        assert slave.tables.topics.dropped.covers(
            "T", 3
        ) and not slave.tables.topics.dropped.covers("T", 4)


async def test_topics_that_no_frame_holds_are_copied_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_changes, "WHOLE_BYTES_MAX", 100)
    monkeypatch.setattr(table_pieces, "PIECE_BYTES", 500)
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        bodies: list[int] = []
        handlers = slave.service.handlers() | {
            19012: HandOverRequests(
                slave.roles, lambda peer: True, None, slave.shared.copy_whole
            ).serve
        }  # type: ignore[arg-type]
        beside = RemotingServer(
            lambda link, request: (
                bodies.append(len(request.body)) or handlers[request.code](link, request)
            )
        )
        await beside.start()
        master.members = {2: f"127.0.0.1:{beside.port}"}
        assert (await master.ask(send_request("T", b"x"))).code == 0
        assert slave.tables.topics.configs == master.tables.topics.configs and max(bodies) < 100
        assert slave.tables.topics.version == master.tables.topics.version
        await beside.close()
