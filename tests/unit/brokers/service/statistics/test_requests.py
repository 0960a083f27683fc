"""Statistics of a broker under way, as tools ask for them."""

from pathlib import Path

from brokers.service.statistics.requests import StatisticsRequests
from tests.support.asked import asked, body_of, leading
from tests.support.brokers import pull_request, until


async def test_75_what_is_stored_and_given_is_counted(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        assert (await desk.ask(pull_request("T", 1, 0, group="g"))).code == 0
        assert (await desk.ask(pull_request("T", 0, 0, group="g"))).code == 19
        statistics = desk.service.statistics
        await until(lambda: "statsDay" in statistics.stored_all.rows, "a second is over")
        found = await body_of(desk, 315, statsName="TOPIC_PUT_NUMS", statsKey="T")
        assert set(found) == {"statsMinute", "statsHour", "statsDay"}
        assert (statistics.stored_all.messages, statistics.given_all.messages) == (3, 3)
        assert statistics.missed == 1
        answer = await asked(desk, 315, statsName="TOPIC_PUT_NUMS", statsKey="nobody")
        assert answer.code == 1
        assert answer.remark == "The stats <TOPIC_PUT_NUMS> <nobody> not exist"


async def test_a_sample_is_taken_each_second(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        requests = StatisticsRequests(desk.service.statistics, desk.clock, lambda: (0, 0))
        before = len(desk.service.statistics._seconds)
        for now_ms in (1 << 50, (1 << 50) + 999, (1 << 50) + 1_000):
            requests.tick(now_ms)
        assert len(desk.service.statistics._seconds) >= before + 2
