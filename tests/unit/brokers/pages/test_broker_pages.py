"""`/metrics`, `/healthz` and `/readyz` of a broker, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from brokers.pages.broker_pages import BrokerPages
from tests.unit.brokers.pages.seen import figures_of
from tests.unit.brokers.service.test_admin import STATUS


class Shown:
    """One broker's pages."""

    def __init__(self) -> None:
        self.status = replace(
            STATUS, ready=True, role="MASTER", leaves_in_ms=None, store_refusal=None
        )
        self.pages = BrokerPages(
            "127.0.0.1:0", {"cluster": "c"}, lambda: self.status, lambda: iter([None, figures_of()])
        )

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{self.pages.port}{path}") as answer:
                return answer.status, await answer.text()


@pytest.fixture
async def shown() -> AsyncIterator[Shown]:
    made = Shown()
    await made.pages.start()
    yield made
    await made.pages.close()


async def test_96_metrics_are_served(shown: Shown) -> None:
    status, page = await shown.get("/metrics")
    assert status == 200 and 'rocketmq_broker_permission{cluster="c"' in page.replace(
        'otel_scope_name="broker-meter",', ""
    )


async def test_health_says_that_it_lives_and_readiness_whether_it_serves(shown: Shown) -> None:
    assert await shown.get("/healthz") == (200, "ok\n")
    assert await shown.get("/readyz") == (200, "ready, MASTER\n")
    for change, word in (
        ({"ready": False}, "role"),
        ({"leaves_in_ms": 5}, "stop"),
        ({"store_refusal": "the disk is full"}, "the disk is full"),
    ):
        shown.status = replace(STATUS, **{"ready": True, "leaves_in_ms": None} | change)
        status, text = await shown.get("/readyz")
        assert status == 503 and word in text
    assert (await shown.get("/else"))[0] == 404


async def test_without_an_address_nothing_is_listened_on() -> None:
    pages = BrokerPages("", {}, lambda: STATUS, lambda: iter(()))
    await pages.start()
    assert pages.port is None
    await pages.close()
