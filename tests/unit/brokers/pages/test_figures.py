"""The figures of a broker under way."""

from dataclasses import replace
from pathlib import Path

import pytest

from brokers.pages import figures as figures_module
from brokers.pages.figures import Figures, Lag, figures, is_system
from tests.support.asked import commit, leading
from tests.support.brokers import pull_request, send_request
from tests.support.client_service import Desk
from tests.support.greeting_client import GreetingClient
from tests.unit.brokers.service.test_admin import STATUS


def seen(desk: Desk) -> Figures:
    status = replace(STATUS, role="MASTER")
    steps = list(figures(desk.service, desk.store, status, 6, desk.clock.wall_ms()))
    assert steps[:-1] == [None] * (len(steps) - 1)
    found = steps[-1]
    assert found is not None
    return found


async def test_96_what_is_stored_given_and_behind(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk, GreetingClient(desk):
        await commit(desk, 1)
        delayed = send_request("T", b"later")
        delayed.ext["i"] += "DELAY\x013\x02"
        assert (await desk.ask(delayed)).code == 0
        pull = pull_request("T", 1, 1, group="g")
        pull.ext["maxMsgNums"] = "1"
        assert (await desk.ask(pull)).code == 0
        found = seen(desk)
        assert dict(one[:2] for one in found.stored) == {("T", "normal"): 3, ("T", "delay"): 1}
        assert dict(one[:2] for one in found.given) == {("T", "g"): 1}
        (lag,) = found.lags
        assert (lag.group, lag.topic, lag.behind, lag.inflight) == ("g", "T", 2, 1)
        assert 0 <= lag.queueing_ms <= lag.behind_ms < 60_000
        assert sum(found.producers.values()) == 1 and found.stored_bytes > 0
        assert found.consumers[("g", "PYTHON", 479, "CONSUME_PASSIVELY")] == 1


async def test_pairs_beyond_the_limit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(tmp_path) as desk:
        monkeypatch.setattr(figures_module, "PAIRS_MAX", 1)
        for group in ("a", "b", "c"):
            await commit(desk, 1, group)
        found = seen(desk)
        assert (len(found.lags), found.lags_left_out) == (1, 2)


def test_what_rocketmq_itself_uses_is_named() -> None:
    assert is_system("TBW102") and is_system("rmq_sys_wheel_timer") and not is_system("T")
    assert is_system("T", "cid_RMQ_SYS_TRANS") and Lag("g", "%RETRY%g", 0, 0, 0, 0).is_retry
