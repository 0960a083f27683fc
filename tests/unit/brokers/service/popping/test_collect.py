"""From where a pop takes, in which order."""

from pathlib import Path

import pytest

from brokers.service.popping.collect import Collector
from brokers.service.popping.parts import Popping
from brokers.service.popping.pop_request import parse
from brokers.service.popping.terms import PopSettings
from brokers.service.tables.topics import TopicConfig
from infra.features.pop_requests import gotten, pop_request
from tests.support.brokers import send_request
from tests.support.client_service import Desk
from tests.support.pops import Wheel, popped

V1, V2 = "%RETRY%g_T", "%RETRY%g+T"


def sources(collector: Collector, chance: int, **changes: object) -> list[tuple[str, int]]:
    return list(collector._sources(parse(pop_request(**changes).ext), chance))


def opened(desk: Desk) -> Popping:
    desk.lead()
    desk.tables.topics.put([TopicConfig("T", 4, 4), *(TopicConfig(n, 1, 1) for n in (V1, V2))], 0)
    return desk.service.popping


QUEUES = {turn: [("T", (turn + at) % 4) for at in range(4)] for turn in range(4)}


async def test_70_one_pop_in_five_begins_with_what_came_back(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        collector = opened(desk).collector
        for chance in range(100):
            queues, retry = QUEUES[chance % 4], [(V1, 0)]
            expected = [*retry, *queues] if chance < 20 else [*queues, *retry]
            assert sources(collector, chance) == expected
        assert sources(collector, 50, queueId=3) == [("T", 3), (V1, 0)]
        assert sources(collector, 5, order="true") == QUEUES[1]
        assert sources(collector, 5, topic=V1) == [(V1, 0)]


@pytest.mark.parametrize(("leftovers", "even"), [(True, V1), (False, V2)])
async def test_71_the_second_form_leaves_every_second_pop_to_the_first(
    tmp_path: Path, leftovers: bool, even: str
) -> None:
    async with Desk(tmp_path) as desk:
        popping = opened(desk)
        popping.terms.settings = PopSettings(retry_v2=True, v1_leftovers=leftovers)
        assert sources(popping.collector, 50)[-1] == (even, 0)
        assert sources(popping.collector, 51)[-1] == (V2, 0)
        assert popping.terms.retry_topic("g", "T") == V2


async def test_check_points_take_turns_in_the_revive_queues(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        opened(desk)
        Wheel(desk)
        used = []
        for number in range(9):
            await desk.ask(send_request("T", b"%d" % number))
            used.append((await popped(desk))[0].handle.revive_queue)
        assert sorted(used[:8]) == list(range(8)) and used[8] == used[0]


async def test_an_answer_stays_within_a_frame(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        opened(desk)
        Wheel(desk)
        for queue_id in range(4):
            await desk.ask(send_request("T", b"x" * 200_000, queue_id))
        answer = await desk.ask(pop_request())
        assert len(gotten(answer)) == 2 and answer.ext["restNum"] == "2"
