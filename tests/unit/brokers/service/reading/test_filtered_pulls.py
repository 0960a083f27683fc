"""Pulls of consumers that want some messages only: by tags, by SQL92."""

import asyncio
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.clients.wanted import Filters
from brokers.store.log.records import decode_messages
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk


def sql_pull(expression: str, offset: int = 0, suspend_ms: int = 0) -> RemotingCommand:
    request = pull_request("T", 0, offset, suspend_ms=suspend_ms, subscription=expression)
    request.ext["expressionType"] = "SQL92"
    return request


def told_pull(offset: int = 0, version: int = 0) -> RemotingCommand:
    """One that rests on the subscription of a heartbeat."""
    request = pull_request("T", 0, offset)
    request.ext |= {"sysFlag": "0", "subVersion": str(version)}
    return request


def greeting(expression: str, version: int = 5, kind: str = "SQL92") -> RemotingCommand:
    subscription = {
        "topic": "T",
        "subString": expression,
        "codeSet": [],
        "tagsSet": [],
        "subVersion": version,
        "expressionType": kind,
        "classFilterMode": False,
    }
    row = {"groupName": "cg", "subscriptionDataSet": [subscription]}
    return RemotingCommand.request(
        34, body=fastjson.dumps({"clientID": "c", "consumerDataSet": [row]})
    )


def with_properties(body: bytes, **properties: str) -> RemotingCommand:
    request = send_request("T", body, tags=properties.pop("TAGS", ""))
    request.ext["i"] += "".join(f"{key}\x01{value}\x02" for key, value in properties.items())
    return request


async def send_all(desk: Desk, *messages: dict[str, str]) -> None:
    for number, properties in enumerate(messages):
        await desk.ask(with_properties(b"%d" % number, **properties))


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [each.fields.body for each in decode_messages(answer.body or b"")]


async def test_line_49_messages_are_chosen_by_their_properties(tmp_path: Path) -> None:
    """What is absent never matches an order, nor NOT IN; what is no number is no match, and no
    error (52).
    """
    async with Desk(tmp_path) as desk:
        desk.lead()
        await send_all(
            desk,
            {"a": "6", "b": "x"},
            {"a": "5", "b": "x"},
            {"a": "7", "b": "y"},
            {"b": "x"},
            {"a": "many", "b": "x"},
            {"a": "10", "b": "x"},
        )
        answer = await desk.ask(sql_pull("a > 5 AND b = 'x'"))
        assert (answer.code, bodies(answer)) == (0, [b"0", b"5"])
        assert (answer.ext["nextBeginOffset"], answer.ext["maxOffset"]) == ("6", "6")
        assert bodies(await desk.ask(sql_pull("a NOT IN ('5', '6')"))) == [b"2", b"4", b"5"]
        assert bodies(await desk.ask(sql_pull("a IS NULL"))) == [b"3"]
        assert bodies(await desk.ask(sql_pull("TAGS IS NULL AND UNIQ_KEY = 'K1'"))) == [
            b"%d" % number for number in range(6)
        ]


async def test_a_pull_that_finds_nothing_goes_on_behind_what_it_looked_at(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await send_all(desk, *[{"a": "1"}] * 4)
        answer = await desk.ask(sql_pull("a > 5", 1, suspend_ms=30_000))
        assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
        assert (answer.ext["nextBeginOffset"], bodies(answer)) == ("4", [])


async def test_the_filter_of_the_heartbeat_counts(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await send_all(desk, {"a": "1"}, {"a": "6"})
        await desk.ask(greeting("a > 5"))
        assert bodies(await desk.ask(told_pull())) == [b"1"]
        await desk.ask(greeting("a < 5", version=4))  # an older one changes nothing
        assert bodies(await desk.ask(told_pull())) == [b"1"]
        await desk.ask(greeting("a < 5", version=6))
        assert bodies(await desk.ask(told_pull(version=6))) == [b"0"]
        assert (await desk.ask(told_pull(version=7))).code == 25


@pytest.mark.parametrize(
    ("served", "expression", "kind", "code", "remark"),
    [
        (
            True,
            "a >",
            "SQL92",
            27,
            "The broker's consumer filter data is not exist!Your expression may be wrong!",
        ),
        (
            True,
            "a > 5",
            "SQL99",
            27,
            "The broker's consumer filter data is not exist!Your expression may be wrong!",
        ),
        (
            False,
            "a > 5",
            "SQL92",
            1,
            "The broker does not support consumer to filter message by SQL92",
        ),
    ],
)
async def test_line_48_a_filter_of_a_heartbeat_that_is_not_served(
    tmp_path: Path, served: bool, expression: str, kind: str, code: int, remark: str
) -> None:
    async with Desk(tmp_path, filters=Filters(served)) as desk:
        desk.lead()
        await send_all(desk, {"a": "6"})
        assert (await desk.ask(greeting(expression, kind=kind))).code == 0
        answer = await desk.ask(told_pull())
        assert (answer.code, answer.remark) == (code, remark)


async def test_line_54_a_new_master_serves_the_filters_that_the_old_one_was_told(
    tmp_path: Path,
) -> None:
    """It has not been greeted, and keeps no file of filters: it knows the texts."""
    async with Desk(tmp_path / "old") as old, Desk(tmp_path / "new") as new:
        old.lead()
        await old.ask(greeting("a > 5"))
        new.service.groups.known.adopt(old.service.groups.text, 1 << 20)
        new.service.groups.lead(new.clock.wall_ms())
        new.lead()
        await send_all(new, {"a": "1"}, {"a": "6"})
        assert bodies(await new.ask(told_pull())) == [b"1"]


@pytest.mark.parametrize(
    ("request_of", "passed_over", "wanted"),
    [
        (
            lambda offset: pull_request("T", 0, offset, suspend_ms=30_000, subscription="B"),
            {"TAGS": "A"},
            {"TAGS": "B"},
        ),
        (lambda offset: sql_pull("a > 5", offset, suspend_ms=30_000), {"a": "1"}, {"a": "6"}),
    ],
    ids=["tags", "properties"],
)
async def test_line_36_a_held_pull_is_woken_only_by_what_matches(
    tmp_path: Path, request_of: object, passed_over: dict[str, str], wanted: dict[str, str]
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await send_all(desk, wanted)
        held = asyncio.ensure_future(desk.ask(request_of(1)))  # type: ignore[operator]
        await until(lambda: desk.service.pulls.held.count == 1, "the pull is held")
        await send_all(desk, *[passed_over] * 3)
        (pull,) = next(iter(desk.service.pulls.held._queues.values()))
        assert (pull.offset, held.done(), desk.service.pulls.held.count) == (4, False, 1)
        await desk.ask(with_properties(b"it", **wanted))
        answer = await held
        assert (answer.code, bodies(answer), answer.ext["nextBeginOffset"]) == (0, [b"it"], "5")


async def test_a_held_pull_whose_time_is_over_goes_on_behind_what_was_not_for_it(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await send_all(desk, {"a": "6"})
        held = asyncio.ensure_future(desk.ask(sql_pull("a > 5", 1, suspend_ms=30_000)))
        await until(lambda: desk.service.pulls.held.count == 1, "the pull is held")
        await send_all(desk, *[{"a": "1"}] * 3)
        desk.service.pulls.tick(desk.clock.now_ms() + 60_000)
        answer = await held
        assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
        assert answer.ext["nextBeginOffset"] == "4"


async def test_line_52_a_hostile_filter_costs_one_pull_little(tmp_path: Path) -> None:
    """The dearer it is, the fewer messages one pull looks at: the client asks again."""
    async with Desk(tmp_path) as desk:
        desk.lead()
        await send_all(desk, *[{"a": "1"}] * 40)
        answer = await desk.ask(sql_pull(" OR ".join(["a > 5"] * 400)))
        assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "16")
