from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest

from events import http_front
from events.http_front import HttpAnswer, HttpFront, text


class Routes:
    """A page, a file, something to change, something that fails, something that waits."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "large"
        self.file.write_bytes(bytes(range(256)) * 20_000)
        self.level = "INFO"
        self.gate = asyncio.Event()

    def all(self) -> dict[str, http_front.Route]:
        return {
            "/page": self.page,
            "/file": self.whole,
            "PUT /page": self.change,
            "/fails": self.fails,
            "/waits": self.waits,
        }

    async def page(self, query: Mapping[str, str]) -> HttpAnswer:
        return HttpAnswer(200, "text/x-test", repr(sorted(query.items())).encode(), {"X-More": "1"})

    async def whole(self, _query: Mapping[str, str]) -> HttpAnswer:
        return HttpAnswer(200, "application/octet-stream", self.file, {"ETag": '"7-abc"'})

    async def change(self, query: Mapping[str, str]) -> HttpAnswer:
        self.level = query["level"]
        return text(200, "done")

    async def fails(self, _query: Mapping[str, str]) -> HttpAnswer:
        raise RuntimeError("secret")

    async def waits(self, _query: Mapping[str, str]) -> HttpAnswer:
        await self.gate.wait()
        return text(200, "at last")


@pytest.fixture
def routes(tmp_path: Path) -> Routes:
    return Routes(tmp_path)


@pytest.fixture
async def url(routes: Routes) -> AsyncIterator[str]:
    front = HttpFront("127.0.0.1", 0, routes.all())
    await front.start()
    yield f"http://127.0.0.1:{front.port}"
    await front.close()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def test_a_route_gets_the_query_and_answers_with_its_headers(
    url: str, client: aiohttp.ClientSession
) -> None:
    async with client.get(f"{url}/page?a=1&b=x%20y") as answer:
        assert (answer.status, answer.headers["Content-Type"], answer.headers["X-More"]) == (
            200,
            "text/x-test",
            "1",
        )
        assert await answer.text() == "[('a', '1'), ('b', 'x y')]"


async def test_a_head_request_has_no_body(url: str, client: aiohttp.ClientSession) -> None:
    async with client.head(f"{url}/page") as answer:
        assert answer.status == 200 and await answer.read() == b""


async def test_a_file_is_sent_whole_with_its_own_tag(
    url: str, client: aiohttp.ClientSession, routes: Routes
) -> None:
    async with client.get(f"{url}/file") as answer:
        assert (
            answer.headers["ETag"] == '"7-abc"' and await answer.read() == routes.file.read_bytes()
        )
        assert answer.headers["Content-Length"] == str(256 * 20_000)


async def test_a_file_that_is_gone_is_said_so(
    url: str, client: aiohttp.ClientSession, routes: Routes
) -> None:
    routes.file.unlink()
    async with client.get(f"{url}/file") as answer:
        assert (answer.status, await answer.text()) == (404, "it is gone; ask again\n")


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_changes_have_routes_of_their_own(
    url: str, client: aiohttp.ClientSession, routes: Routes, method: str
) -> None:
    async with client.request(method, f"{url}/page?level=DEBUG") as answer:
        assert answer.status == 200 and routes.level == "DEBUG"
    async with client.request(method, f"{url}/file") as answer:
        assert (answer.status, await answer.text()) == (405, f"/file is not for {method}\n")


async def test_an_unknown_path_names_those_there_are(
    url: str, client: aiohttp.ClientSession
) -> None:
    async with client.get(f"{url}/nothing") as answer:
        assert answer.status == 404
        assert await answer.text() == "there is no /nothing; there are /fails /file /page /waits\n"


async def test_an_error_of_a_route_tells_strangers_nothing(
    url: str, client: aiohttp.ClientSession
) -> None:
    async with client.get(f"{url}/fails") as answer:
        assert answer.status == 500 and "secret" not in await answer.text()


async def test_more_than_it_holds_is_turned_away(
    url: str, client: aiohttp.ClientSession, routes: Routes
) -> None:
    waiting = [
        asyncio.ensure_future(client.get(f"{url}/waits")) for _ in range(http_front.OPEN_MAX + 1)
    ]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [one.result().status for one in done] == [503]
    routes.gate.set()
    answers = await asyncio.gather(*waiting)
    assert sorted(one.status for one in answers) == [200] * http_front.OPEN_MAX + [503]


async def test_a_taken_address_is_an_error_of_the_start(url: str) -> None:
    second = HttpFront("127.0.0.1", int(url.rpartition(":")[2]), {})
    with pytest.raises(OSError):
        await second.start()
    await second.close()


async def test_closing_what_never_started_does_nothing() -> None:
    await HttpFront("127.0.0.1", 0, {}).close()


async def test_a_connection_that_asks_nothing_is_ended(routes: Routes) -> None:
    front = HttpFront("127.0.0.1", 0, routes.all(), quiet_s=0.05)
    await front.start()
    for spoken in (b"", b"GET /page HTTP/1.1\r\nHost: ", b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(spoken)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(-1), 30)
        writer.close()
    await front.close()


async def test_nothing_is_kept_of_those_who_were_turned_away(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_front, "OPEN_MAX", 0)
    # longer than this machine keeps us from asking
    front = HttpFront("127.0.0.1", 0, routes.all(), quiet_s=0.5)
    await front.start()
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            assert (await session.get(f"http://127.0.0.1:{front.port}/page")).status == 503
    async with asyncio.timeout(30):
        while front.watched:
            await asyncio.sleep(0)
    await front.close()


async def test_a_request_that_takes_long_is_not_taken_for_silence(routes: Routes) -> None:
    front = HttpFront("127.0.0.1", 0, routes.all(), quiet_s=0.5)
    await front.start()
    async with aiohttp.ClientSession() as session:
        asked = asyncio.ensure_future(session.get(f"http://127.0.0.1:{front.port}/waits"))
        await asyncio.wait({asked}, timeout=1.5)
        routes.gate.set()
        assert (await asked).status == 200
    await front.close()


async def test_one_connection_too_many_is_refused_and_the_others_stay(
    url: str, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_front, "CONNECTIONS_MAX", 1)
    async with client.get(f"{url}/page") as answer:
        assert answer.status == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(-1), 30) == b""
        writer.close()
    async with client.get(f"{url}/page") as answer:
        assert answer.status == 200
