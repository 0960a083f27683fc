"""An operator sets a group back, or forward."""

from pathlib import Path

import pytest

from brokers.service.inspection.resets import OffsetResets
from brokers.service.tables.pending_resets import PendingResets
from tests.support.asked import asked, body_of, commit, leading, queue
from tests.support.brokers import pull_request
from tests.support.greeting_client import GreetingClient


@pytest.mark.parametrize(
    ("ext", "places"),
    [
        ({"timestamp": -1}, [0, 3, 0, 0]),
        ({"timestamp": 1}, [0, 0, 0, 0]),
        ({"timestamp": -1, "queueId": 1, "offset": 2}, [None, 2, None, None]),
        ({"timestamp": -1, "queueId": 1, "offset": 4}, [None, 4, None, None]),
        ({"timestamp": -1, "queueId": 1}, [None, 3, None, None]),
    ],
)
async def test_28_an_operator_sets_a_group_to_another_place(
    tmp_path: Path, ext: dict[str, int], places: list[int | None]
) -> None:
    async with leading(tmp_path) as desk, GreetingClient(desk):
        await commit(desk, 1)
        found = await body_of(desk, 222, topic="T", group="g", isForce="true", **ext)
        wanted = {queue("T", at): place for at, place in enumerate(places) if place is not None}
        assert found["offsetTable"] == wanted
        for queue_id, place in enumerate(places):
            if place is not None:
                assert desk.tables.offsets.query("g", "T", queue_id) == place


async def test_28_until_the_next_pull_its_own_places_say_nothing(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk, GreetingClient(desk):
        await commit(desk, 3)
        await body_of(desk, 222, topic="T", group="g", timestamp=1, isForce="true")
        assert (await commit(desk, 3)).code == 0
        place = {"consumerGroup": "g", "topic": "T", "queueId": 1}
        assert (await asked(desk, 14, **place)).ext["offset"] == "0"
        moved = await desk.ask(pull_request("T", 1, 3, group="g"))
        assert (moved.code, moved.ext["nextBeginOffset"]) == (21, "0")
        assert (await desk.ask(pull_request("T", 1, 0, group="g"))).code == 0
        await commit(desk, 2)
        assert (await asked(desk, 14, **place)).ext["offset"] == "2"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "nobody"}, 17),
        ({"group": "nobody"}, 26),
        ({"queueId": 9}, 29),
        ({"queueId": 1, "offset": 5}, 1),
        ({"queueId": 1, "offset": -2}, 1),
    ],
)
async def test_29_a_reset_that_cannot_be_changes_nothing(
    tmp_path: Path, changes: dict[str, object], code: int
) -> None:
    async with leading(tmp_path) as desk, GreetingClient(desk):
        await commit(desk, 1)
        ext = {"topic": "T", "group": "g", "timestamp": 1, "isForce": "true", **changes}
        assert (await asked(desk, 222, **ext)).code == code
        assert desk.tables.offsets.query("g", "T", 1) == 1


async def test_33_what_consumers_did_not_hear_of_ends_with_the_mastership(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        pending = PendingResets()
        resets = OffsetResets(desk.store, desk.tables, desk.clock, "b", pending)
        pending.put("g", "T", 1, 0)
        resets.mastership_over()
        assert pending.get("g", "T", 1) is None
