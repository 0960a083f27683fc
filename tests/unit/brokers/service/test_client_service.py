"""The table of handlers, and what changes of role mean for the services."""

import re
from pathlib import Path

import pytest

from brokers.membership.namesrv_client import RouteEntry, register_request
from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.replica.store_port import complete_end
from brokers.service.role.services import Where
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import TopicConfig, TopicTable
from brokers.store.log.records import MessageFields, host_bytes
from brokers.store.queues.consume_queues import ConsumeQueues
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk

HOST = host_bytes("127.0.0.1", 1)
SERVED = {
    12,
    33,
    19011,
    10,
    310,
    320,
    11,
    361,
    14,
    15,
    29,
    30,
    31,
    32,
    34,
    35,
    38,
    46,
    41,
    42,
    17,
    18,
    215,
    200,
    225,
    21,
    201,
    43,
    19010,
    19013,
    19014,
    19015,
    19016,
    19017,
    19019,
    19020,
    45,
    402,
    60,
    61,
    36,
    37,
    323,
    *(202, 300, 305, 321, 351, 208, 317, 343, 345, 352, 203, 204, 328, 307, 309, 222),
    *(207, 223, 303, 308, 314, 353),
    315,
    324,
    325,
    370,
    400,
    401,
    200050,
    200051,
    200052,
    200053,
    200054,
    200055,
    200056,
    200151,
}


async def test_every_code_of_the_client_service_has_a_handler_and_others_are_unsupported(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert set(desk.service.handlers()) == SERVED
        assert (await desk.ask(RemotingCommand.request(200057))).code == 3


async def test_queue_offsets_go_on_behind_what_is_not_confirmed_yet(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        desk.confirm_at_once = False
        await desk.client.send_oneway(desk.address, send_request("T", b"unconfirmed", oneway=True))
        await desk.ask(RemotingCommand.request(38, {"consumerGroup": "g"}))
        desk.follow("127.0.0.1:1", 2)
        desk.lead(3).confirm_at_once = True
        assert (await desk.ask(send_request("T", b"y"))).ext["queueOffset"] == "2"


async def test_a_mastership_shows_in_the_tables_version(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead(7)
        assert desk.tables.topics.version.state_version == 7


async def test_a_retry_topic_made_by_a_greeting_is_held_by_the_members_before_a_send_to_it_counts(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        master.service.ensure_groups(["g"])
        assert (await master.ask(send_request("%RETRY%g", b"x"))).code == 0
        assert slave.tables.topics.get("%RETRY%g") is not None


async def test_a_promotion_walks_neither_queues_nor_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1", 1)
        names = [f"topic-{number}" for number in range(500)]
        desk.changes.adopt(
            TopicTable([TopicConfig(name, 2, 2) for name in names], DataVersion(1, 1, 9)), 1
        )
        await desk.tables.topics_file.until_saved()
        desk.store.put_many(
            [
                [MessageFields(name, queue, b"x", b"", 1, HOST, HOST)]
                for name in names
                for queue in (0, 1)
            ],
            1,
        )
        desk.service.confirmed(desk.store.log_end)
        desk.store.put(MessageFields("topic-0", 0, b"torn", b"", 1, HOST, HOST), 1)

        def walked(*_: object) -> None:
            raise AssertionError("walked")

        for name in ("truncate", "last_physical", "__iter__"):
            monkeypatch.setattr(ConsumeQueues, name, walked)
        monkeypatch.setattr(TopicConfig, "to_wire", walked)
        desk.store.truncate(desk.store.log_end - 1)  # a record whose last byte never came
        desk.store.truncate(complete_end(desk.store, 1 << 20))
        desk.lead(2)
        entry = RouteEntry("c", "b", 0, "h:1", "h:2", 1, desk.tables.topics.text())
        assert register_request(entry).body.count(b"topic-499") == 2
        assert (await desk.ask(send_request("topic-7", b"y", 1))).ext["queueOffset"] == "1"
        monkeypatch.undo()


@pytest.mark.parametrize("group", ["my.group", "g/../../x", "g" * 249, "g" * 255])
async def test_a_greeting_whose_retry_topic_can_have_no_name_is_answered_and_harms_no_table(
    tmp_path: Path, group: str
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        body = {"clientID": "c@1", "consumerDataSet": [{"groupName": group}, {"groupName": "fine"}]}
        assert (await master.ask(RemotingCommand.request(34, body=fastjson.dumps(body)))).code == 0
        assert (
            f"%RETRY%{group}" not in master.tables.topics.configs
            and "%RETRY%fine" in master.tables.topics.configs
        )
        assert (
            await master.ask(send_request("orders", b"x"))
        ).code == 0 and slave.tables.topics.get("orders") is not None
    assert "%RETRY%fine" in TableFiles(tmp_path / "m").topics.configs


async def test_a_group_that_an_operator_made_gets_its_retry_topic_with_its_first_greeting(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        assert (
            await master.ask(
                RemotingCommand.request(200, body=(b'{"groupName":"g","retryQueueNums":3}'))
            )
        ).code == 0
        master.service.ensure_groups(["g"])
        assert master.tables.topics.get("%RETRY%g") == TopicConfig("%RETRY%g", 3, 3)


@pytest.mark.parametrize("code", [19010, 19011, 19013, 19014, 19019, 19020])
async def test_what_replicas_tell_each_other_strangers_may_not_ask(
    tmp_path: Path, code: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(send_request("T", b"secret"))).code == 0
        desk.believes = False
        ext = {"regentMasterEpoch": "9", "offset": "0", "count": str(desk.store.log_end)}
        answer = await desk.ask(RemotingCommand.request(code, ext, b'{"topicConfigTable":{}}'))
        assert answer.code == 16 and answer.body == b""


def codes_of(cell: str) -> set[int]:
    """The codes of a cell such as `14, 15, 29 to 32`."""
    found: set[int] = set()
    for part in cell.split(","):
        first, _, last = part.strip().partition(" to ")
        found |= set(range(int(first), int(last or first) + 1))
    return found


async def test_the_page_of_the_protocol_says_who_serves_what(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[4] / "brokers/PROTOCOL.md").read_text("utf-8")
    rows = re.findall(r"^\| ([\d, to]+) \| [^|]+ \| (the master|every replica)", page, re.MULTILINE)
    said = {code: who == "the master" for cell, who in rows for code in codes_of(cell)}
    async with Desk(tmp_path) as desk:
        served = desk.service.served
    ours = range(19_000, 20_000)
    assert set(served) - set(ours) <= set(said), "codes that the page does not have"
    for code, is_masters in said.items():
        if code in served and code not in ours:
            assert (served[code].where is Where.MASTER) == is_masters, code


async def test_a_service_that_fails_costs_no_other_one_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(now_ms: int) -> None:
        raise ValueError("a record that nobody thought of")

    async with Desk(tmp_path) as desk:
        desk.lead()
        monkeypatch.setattr(desk.service.sends, "tick", fails)
        sampled = desk.service.statistics._seconds
        await until(lambda: len(sampled) > 2, "the others go on")
        assert (await desk.ask(send_request("T", b"x"))).code == 0
    told = [one for one in caplog.records if "SendService cannot do its work" in one.message]
    assert len(told) == 1 and "nobody thought of" in caplog.text


async def test_a_disk_that_refuses_a_service_is_the_brokers_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(now_ms: int) -> None:
        raise OSError("no disk")

    async with Desk(tmp_path) as desk:
        monkeypatch.setattr(desk.service.sends, "tick", fails)
        assert desk._running is not None
        with pytest.raises(OSError, match="no disk"):
            await desk._running
