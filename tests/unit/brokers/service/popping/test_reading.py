"""Reading a queue for a pop: places of groups, and what lies in the way."""

from pathlib import Path

from brokers.remoting.command import RemotingCommand
from brokers.service.popping.reading import QueueReader
from tests.support.brokers import send_request
from tests.support.client_service import Desk
from tests.support.pops import Wheel, popped


def reader_of(desk: Desk) -> QueueReader:
    return desk.service.popping.collector._reader


async def opened(desk: Desk, messages: int) -> None:
    desk.lead()
    Wheel(desk)
    for number in range(messages):
        await desk.ask(send_request("T", b"%d" % number))


async def test_a_place_outside_of_the_queue_is_moved_into_it(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 3)
        desk.tables.offsets.commit("g", "T", 0, 99, 0)
        assert await popped(desk, queueId=0) == []
        assert desk.tables.offsets.query("g", "T", 0) == 3


async def test_a_new_master_that_confirms_again_moves_no_place_back(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 2)
        await popped(desk, queueId=0)
        desk.confirm_at_once = False
        desk.service.mastership_over()
        desk.lead(2)
        reader = reader_of(desk)
        reader._unconfirmed_until = desk.store.log_end + 1
        desk.tables.offsets.commit("g", "T", 0, 9, 0)
        assert await popped(desk, queueId=0) == []
        assert desk.tables.offsets.query("g", "T", 0) == 9


async def test_66_an_old_queue_is_begun_with_its_newest_message(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 3)
        reader = reader_of(desk)
        assert reader.first_place("T", 0, from_end=True) == 0
        log = type(desk.store).log_min
        try:
            type(desk.store).log_min = property(lambda _: 1)  # type: ignore[assignment,misc]
            assert reader.first_place("T", 0, from_end=True) == 2
            assert reader.first_place("%RETRY%g_T", 0, from_end=True) == 0
        finally:
            type(desk.store).log_min = log  # type: ignore[method-assign]


async def test_66_the_first_place_is_at_the_members_before_anything_is_popped(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 1)
        asked: list[tuple[str, str]] = []

        async def held(group: str, topic: str) -> None:
            asked.append((group, topic))

        desk.service.popping.collector._first_held = held
        for _ in range(2):
            await popped(desk)
        assert asked == [("g", "T")]


async def test_78_a_place_that_is_set_back_counts_at_the_next_pop_also_while_some_are_out(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 3)
        assert len(await popped(desk)) == 3
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
        assert (await desk.ask(RemotingCommand.request(15, ext))).code == 0
        assert [each.body for each in await popped(desk)] == [b"1", b"2"]
