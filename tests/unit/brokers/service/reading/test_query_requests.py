"""12, 33 and 19011 as their callers see them."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from brokers.remoting.command import RemotingCommand
from brokers.service.reading.query_requests import UNDER_WAY_MAX, QueryRequests
from brokers.store.log.integrity import BadRecord
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import decode_messages
from brokers.store.store import MessageStore, StoreConfig
from tests.support.descriptors import open_count
from tests.unit.brokers.store.log.test_patch import flip
from tests.unit.brokers.store.log_samples import NOW_MS, message


class Asked:
    def __init__(self, root: Path, *, index: bool = True, count: int = 70) -> None:
        self.store = MessageStore(root, StoreConfig(log_file_bytes=1 << 16, message_index=index))
        self.offsets = []
        for number in range(count):
            properties = encode_properties({"UNIQ_KEY": f"u{number % 50}", "KEYS": "all"})
            put = self.store.put(
                replace(message(body=b"%d" % number), properties=properties), NOW_MS + number
            )
            self.offsets.append(put.physical_offset)
        self.store.dispatch_to(self.store.log_end)
        self.told: list[tuple[BadRecord, str]] = []
        self.requests = QueryRequests(
            self.store, lambda bad, found_by: self.told.append((bad, found_by))
        )

    async def ask(self, code: int, **ext: object) -> RemotingCommand:
        request = RemotingCommand.request(code, {key: str(value) for key, value in ext.items()})
        answer = self.requests.serves()[code].handler(None, request)  # type: ignore[arg-type]
        return answer if isinstance(answer, RemotingCommand) else await answer

    async def query(self, key: str, **others: object) -> RemotingCommand:
        ext = {
            "topic": "T",
            "key": key,
            "maxNum": 100,
            "beginTimestamp": 0,
            "endTimestamp": 1 << 50,
        }
        return await self.ask(12, **(ext | others))


async def test_a_key_query_gives_at_most_64_newest_first_and_how_far_the_index_is(
    tmp_path: Path,
) -> None:
    asked = Asked(tmp_path)
    answer = await asked.query("all")
    found = [int(read.fields.body) for read in decode_messages(answer.body)]
    assert (answer.code, found) == (0, list(range(69, 5, -1)))
    assert answer.ext == {
        "indexLastUpdateTimestamp": str(NOW_MS + 69),
        "indexLastUpdatePhyoffset": str(asked.offsets[69]),
    }
    assert len(decode_messages((await asked.query("all", maxNum=3)).body)) == 3


async def test_a_unique_key_finds_its_message_whatever_number_was_asked_for(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    answer = await asked.query("u3", _UNIQUE_KEY_QUERY="true", maxNum=0)
    assert [read.fields.body for read in decode_messages(answer.body)] == [b"53", b"3"]


async def test_nothing_found_is_answered_22_and_a_missing_field_1(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    absent = await asked.query("absent")
    assert (absent.code, absent.remark) == (
        22,
        "can not find message, maybe time range not correct",
    )
    assert absent.ext["indexLastUpdatePhyoffset"] == str(asked.offsets[69])
    assert (
        (await asked.ask(12, topic="T")).code
        == (await asked.ask(33)).code
        == (await asked.ask(19011, offset=0)).code
        == 1
    )


async def test_without_an_index_there_is_nothing_to_find(tmp_path: Path) -> None:
    assert (await Asked(tmp_path, index=False).query("all")).code == 22


async def test_a_message_is_viewed_by_its_place(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    answer = await asked.ask(33, offset=asked.offsets[7], topic="T")
    assert (answer.code, [read.fields.body for read in decode_messages(answer.body)]) == (0, [b"7"])
    wrong = await asked.ask(33, offset=asked.offsets[7] + 1)
    assert (wrong.code, wrong.remark) == (
        1,
        f"can not find message by the offset, {asked.offsets[7] + 1}",
    )


async def test_damage_is_told_and_never_given(tmp_path: Path) -> None:
    asked = Asked(tmp_path, count=3)
    flip(tmp_path, asked.offsets[1] + 88)
    assert [read.fields.body for read in decode_messages((await asked.query("all")).body)] == [
        b"2",
        b"0",
    ]
    assert (await asked.ask(33, offset=asked.offsets[1])).code == 1
    assert [(bad.place.offset, by) for bad, by in asked.told] == [
        (asked.offsets[1], "query"),
        (asked.offsets[1], "view"),
    ]


async def test_replicas_get_confirmed_bytes_only(tmp_path: Path) -> None:
    asked = Asked(tmp_path, count=3)
    size = asked.offsets[1]
    assert (await asked.ask(19011, offset=size, count=size)).body == asked.store.read_log(
        size, size
    )
    asked.store.put(message(), NOW_MS)
    beyond = asked.store.log_end - 1
    for offset, count in ((beyond, 2), (-1, 2), (0, 0), (0, 1 << 40)):
        assert (await asked.ask(19011, offset=offset, count=count)).code == 22


async def test_an_old_time_of_a_popular_key_holds_up_nobody(tmp_path: Path) -> None:
    """The loop turns meanwhile, files of other times are not read, and the answer comes."""
    asked = Asked(tmp_path, count=3000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    answer = await asked.query("all", endTimestamp=NOW_MS + 1)
    task.cancel()
    assert [read.fields.body for read in decode_messages(answer.body)] == [b"1", b"0"] and turns > 1
    assert (await asked.query("all", endTimestamp=NOW_MS - 5_000)).code == 22


async def test_so_many_key_queries_at_once_and_no_more(tmp_path: Path) -> None:
    asked = Asked(tmp_path, count=5)
    assert (await asked.query("all")).code == 0
    before = open_count(tmp_path)
    answers = await asyncio.gather(*(asked.query("all") for _ in range(UNDER_WAY_MAX + 5)))
    assert sorted(answer.code for answer in answers) == [0] * UNDER_WAY_MAX + [2] * 5
    assert open_count(tmp_path) == before
