"""Pop with the broker's own wheel, in real time."""

from pathlib import Path

from infra.features.pop_requests import ack_request, pop_request
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk
from tests.support.pops import popped

INVISIBLE_MS = 1_000


async def test_59_60_what_is_not_acknowledged_in_time_comes_back_and_the_rest_does_not(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        for number in range(4):
            assert (await desk.ask(send_request("T", b"%d" % number, 0))).code == 0
        first = await popped(desk, invisibleTime=INVISIBLE_MS)
        assert [each.body for each in first] == [b"0", b"1", b"2", b"3"]
        for each in first[:3]:
            assert (await desk.ask(ack_request(each.handle))).code == 0
        assert await popped(desk) == []
        await until(lambda: desk.service.popping.revive.revived == 1, "it is copied")
        (back,) = await popped(desk, invisibleTime=60_000)
        assert (back.body, back.record.fields.reconsume_times) == (b"3", 1)
        assert (await desk.ask(ack_request(back.handle))).code == 0
        assert (await desk.ask(pop_request())).code == 210
