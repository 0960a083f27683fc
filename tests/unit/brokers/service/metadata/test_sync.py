"""A slave copies its master's tables."""

import asyncio
import struct
from pathlib import Path

from brokers.service.metadata.sync import MetadataSync
from brokers.service.tables.topics import TopicConfig, TopicTable
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk

KEPT = {
    45: b'{"offsetTable":{"1":5}}',
    402: b'{"messageRequestModeMap":{"T":{"g":{"mode":"POP"}}}}',
    60: struct.pack(">7q", 9_000, 0, 0, 3, 1, 9_100, 4),
    61: b'{"timingCount":{"T":{"count":1,"timeStamp":2}}}',
}


async def test_topics_offsets_and_groups_follow_the_master(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        await master.ask(send_request("T", b"x"))
        master.tables.groups.ensure("g", 1)
        master.tables.offsets.commit("g", "T", 0, 1, 1)
        for code, body in KEPT.items():
            master.tables.kept.adopt(code, body)
        running = asyncio.ensure_future(slave.shared.sync.run())
        slave.follow(master.address)
        await until(lambda: slave.tables.offsets.query("g", "T", 0) == 1, "offsets came")
        master.tables.offsets.commit("g", "T", 0, 2, 2)
        await until(lambda: slave.tables.offsets.query("g", "T", 0) == 2, "offsets came again")
        assert slave.tables.topics.get("T") is not None and slave.tables.groups.get("g") is not None
        await until(
            lambda: all(slave.tables.kept.body(code, 0) == body for code, body in KEPT.items()),
            "what is kept came",
        )
        running.cancel()


async def test_an_answer_that_comes_after_a_change_of_role_is_not_taken(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        master.tables.offsets.commit("g", "T", 0, 1, 1)
        master.tables.kept.adopt(45, KEPT[45])
        slave.follow(master.address)
        round_of_epoch_1 = asyncio.ensure_future(slave.shared.sync.copy_from(master.address, 1))
        slave.lead(2)
        await round_of_epoch_1
        assert slave.tables.offsets.query("g", "T", 0) is None and not slave.tables.kept.unsaved


async def test_a_new_process_at_its_masters_address_is_not_copied(tmp_path: Path) -> None:
    """It leads in no epoch, and its tables are those of its disk."""
    async with Desk(tmp_path / "m") as restarted, Desk(tmp_path / "s") as slave:
        restarted.tables.offsets.commit("g", "T", 0, 1, 1)
        for code, body in KEPT.items():
            restarted.tables.kept.adopt(code, body)
        slave.tables.offsets.commit("g", "T", 0, 2, 1)
        slave.follow(restarted.address)
        refused = await slave.shared.sync.copy_from(restarted.address, 1)
        assert "does not lead in epoch 1" in str(refused)
        assert slave.tables.offsets.query("g", "T", 0) == 2 and not slave.tables.kept.unsaved
        restarted.lead(2)
        assert await slave.shared.sync.copy_from(restarted.address, 1) is not None
        restarted.lead(1)
        await slave.shared.sync.copy_from(restarted.address, 1)
        assert slave.tables.offsets.query("g", "T", 0) == 1 and slave.tables.kept.unsaved


async def test_a_master_that_is_not_there_leaves_the_tables_alone(tmp_path: Path) -> None:
    async with Desk(tmp_path) as slave:
        slave.follow("127.0.0.1:1")
        topics = dict(slave.tables.topics.configs)
        await slave.shared.sync.copy_from("127.0.0.1:1", 1)
        assert slave.tables.topics.configs == topics


async def test_topics_that_are_the_same_already_are_not_decoded_again(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        taken: list[TopicTable] = []
        take = lambda table, epoch: taken.append(table) or slave.changes.adopt(table, epoch)
        sync = MetadataSync(
            slave.tables,
            slave.roles,
            slave.client,
            20,
            take,
            slave.shared.groups.adopt,
            slave.shared.ends,
            slave.shared.clients,
            slave.shared.locks,
        )
        for rounds in (1, 1, 2):
            if rounds == 2:
                master.tables.topics.put([TopicConfig("T")], 9)
            await sync.copy_from(master.address, 1)
            assert len(taken) == rounds
        assert slave.tables.topics.get("T") is not None


async def test_one_entry_that_is_not_valid_stops_no_copy(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        # as an older release let it in
        master.tables.topics.configs["%RETRY%my.group"] = TopicConfig("%RETRY%my.group")
        master.tables.topics.put([TopicConfig("T")], 9)
        told: list[object] = []
        slave.tables.left_out.report_to(lambda kind, fields: told.append(fields["names"]))
        for _ in range(2):
            await slave.shared.sync.copy_from(master.address, 1)
        assert (
            slave.tables.topics.get("T") is not None
            and "%RETRY%my.group" not in slave.tables.topics.configs
        )
        assert told == [("%RETRY%my.group",)]
