"""Transactions on a real store: what producers end, what they are asked about, what stays when
masters change. Numbers are lines of the reference's list of behaviours.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.replica.waiters import Confirmation
from brokers.service.transactions import checks
from brokers.service.transactions.end_requests import COMMIT, ROLLBACK
from brokers.service.transactions.forms import GIVEN_UP_TOPIC, GROUP, OP_TOPIC
from brokers.service.transactions.ledger import TELL_MS
from brokers.service.transactions.rules import TransactionTerms
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import (
    StoredMessage,
    decode_message,
    decode_messages,
    parse_offset_message_id,
)
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
NEVER = TransactionTerms(check_interval_ms=3_600_000)
SOON = TransactionTerms(timeout_ms=0, check_interval_ms=20)


def half(key: str = "K1", queue_id: int = 0, *, age_ms: int = 0, **more: str) -> RemotingCommand:
    request = send_request("T", key.encode(), queue_id, key=key, tags="t")
    request.ext["g"] = str(int(time.time() * 1000) - age_ms)
    request.ext["f"] = "4"
    request.ext["i"] += "TRAN_MSG\x01true\x02PGROUP\x01pg\x02"
    request.ext["i"] += "".join(f"{name}\x01{value}\x02" for name, value in more.items())
    return request


def end(sent: dict[str, str], how: int = COMMIT, **ext: str) -> RemotingCommand:
    """37 as a producer makes it of the answer to its half."""
    _, offset = parse_offset_message_id(sent["msgId"])
    fields = {
        "producerGroup": "pg",
        "tranStateTableOffset": sent["queueOffset"],
        "commitLogOffset": str(offset),
        "commitOrRollback": str(how),
        "msgId": sent["transactionId"],
    }
    return RemotingCommand.request(37, {**fields, **ext})


def log(desk: Desk, topic: str) -> list[StoredMessage]:
    records = decode_messages(desk.store.read_log(0, desk.store.log_end))
    return [one for one in records if one.fields.topic == topic]


def bodies(desk: Desk, topic: str = "T") -> list[bytes]:
    return [bytes(one.fields.body) for one in log(desk, topic)]


async def sent(desk: Desk, **fields: str | int) -> dict[str, str]:
    answer = await desk.ask(half(**fields))  # type: ignore[arg-type]
    assert answer.code == 0, answer.remark
    return answer.ext


@asynccontextmanager
async def leading(folder: Path, terms: TransactionTerms = NEVER) -> AsyncIterator[Desk]:
    async with Desk(folder, transactions=terms) as desk:
        desk.lead()
        assert (await desk.ask(send_request("T", b"first"))).code == 0
        yield desk


class Producer:
    """A connected producer of a group, which keeps what it is asked."""

    def __init__(self, desk: Desk, group: str = "pg") -> None:
        self._desk, self._group = desk, group
        self.asked: list[RemotingCommand] = []
        self._client = RemotingClient(self._take)

    def _take(self, _connection: Connection, request: RemotingCommand) -> None:
        assert request.code == 39 and request.is_oneway
        self.asked.append(request)

    async def __aenter__(self) -> "Producer":
        await self.greet()
        return self

    async def greet(self) -> None:
        body = {
            "clientID": f"c{id(self)}",
            "producerDataSet": [{"groupName": self._group}],
            "consumerDataSet": [],
        }
        request = RemotingCommand.request(34, body=fastjson.dumps(body))
        assert (await self._client.call(self._desk.address, request, 30_000)).code == 0

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    def answer(self, asked: RemotingCommand, how: int = COMMIT) -> RemotingCommand:
        fields = {
            "producerGroup": self._group,
            "tranStateTableOffset": asked.ext["tranStateTableOffset"],
            "commitLogOffset": asked.ext["commitLogOffset"],
            "commitOrRollback": str(how),
            "fromTransactionCheck": "true",
            "msgId": asked.ext["msgId"],
        }
        return RemotingCommand.request(37, fields)


def counts(asked: list[RemotingCommand]) -> list[str]:
    found = [decode_message(one.body).fields.properties for one in asked]
    return [decode_properties(each)["TRANSACTION_CHECK_TIMES"] for each in found]


# -- what producers end ----------------------------------------------------------------------------


async def test_40_42_a_half_is_invisible_and_its_commit_makes_it_visible_once(
    tmp_path: Path,
) -> None:
    async with leading(tmp_path) as desk:
        told = await sent(desk, key="K1", queue_id=2)
        assert (told["queueId"], told["queueOffset"], told["transactionId"]) == ("2", "0", "K1")
        (waiting,) = log(desk, HALF_TOPIC)
        assert parse_offset_message_id(told["msgId"])[1] == waiting.physical_offset
        assert bodies(desk) == [b"first"]
        assert (await desk.ask(end(told))).code == 0
        _, final = log(desk, "T")
        assert (final.fields.body, final.fields.queue_id, final.fields.sys_flag) == (b"K1", 2, 8)
        assert final.fields.prepared_transaction_offset == waiting.physical_offset
        assert decode_properties(final.fields.properties)["TAGS"] == "t"
        (op,) = log(desk, OP_TOPIC)
        assert bytes(op.fields.body) == b"0,"
        assert op.physical_offset > final.physical_offset, "never the record without the message"


async def test_41_a_rollback_is_never_visible(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        told = await sent(desk)
        assert (await desk.ask(end(told, ROLLBACK))).code == 0
        assert bodies(desk) == [b"first"] and len(log(desk, OP_TOPIC)) == 1


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        ({"producerGroup": "other"}, 1, "The producer group wrong"),
        ({"tranStateTableOffset": "7"}, 1, "The transaction state table offset wrong"),
        ({"commitLogOffset": "0"}, 1, "Find prepared transaction message failed"),
        ({"commitLogOffset": "1"}, 1, "Find prepared transaction message failed"),
        ({"commitLogOffset": "-5"}, 1, "Find prepared transaction message failed"),
        ({"commitLogOffset": str(1 << 62)}, 1, "Find prepared transaction message failed"),
        ({"commitOrRollback": "5"}, 1, "commitOrRollback field wrong"),
        ({"commitOrRollback": "x"}, 1, None),
        ({"commitOrRollback": "0"}, 0, None),
    ],
)
async def test_43_44_an_end_that_fits_no_half_stores_nothing(
    tmp_path: Path, changes: dict[str, str], code: int, remark: str | None
) -> None:
    async with leading(tmp_path) as desk:
        told = await sent(desk)
        end_before = desk.store.log_end
        answer = await desk.ask(end(told, **changes))
        assert answer.code == code and (remark is None or answer.remark == remark)
        assert desk.store.log_end == end_before
        assert (await desk.ask(end(told))).code == 0, "the half can still be ended"


@pytest.mark.parametrize(
    ("first", "second", "code", "stored"),
    [(COMMIT, COMMIT, 0, 1), (COMMIT, ROLLBACK, 604, 1), (ROLLBACK, COMMIT, 604, 0)],
)
async def test_45_a_second_end_changes_nothing(
    tmp_path: Path, first: int, second: int, code: int, stored: int
) -> None:
    async with leading(tmp_path) as desk:
        told = await sent(desk)
        assert (await desk.ask(end(told, first))).code == 0
        assert (await desk.ask(end(told, second))).code == code
        assert bodies(desk) == [b"first"] + [b"K1"] * stored


async def test_45_ends_of_one_half_that_come_together_store_one_message(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        told = await sent(desk)
        answers = await asyncio.gather(*[desk.ask(end(told)) for _ in range(8)])
        assert {one.code for one in answers} == {0}
        assert bodies(desk) == [b"first", b"K1"]


async def test_ends_that_come_together_share_one_record(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        told = [await sent(desk, key=f"K{number}") for number in range(20)]
        connection = await desk.client.connect(desk.address)
        for one in told:
            command = end(one)
            connection.send(RemotingCommand.request(37, command.ext, oneway=True))
        await until(lambda: len(bodies(desk)) == 21, "all are committed")
        named = [one for op in log(desk, OP_TOPIC) for one in bytes(op.fields.body).split(b",")]
        assert sorted(int(one) for one in named if one) == [*range(20)]
        assert len(log(desk, OP_TOPIC)) < 20


async def test_a_commit_is_answered_when_the_members_have_it(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        told = await sent(desk)
        desk.confirm_at_once = False
        answer = asyncio.ensure_future(desk.ask(end(told)))
        await until(lambda: desk.waits, "the broker waits for the members")
        assert not answer.done() and desk.waits[0][0] == desk.store.log_end
        desk.confirm()
        assert (await answer).code == 0
        again = asyncio.ensure_future(desk.ask(end(told)))
        await until(lambda: desk.waits, "a second one waits as well")
        desk.confirm(Confirmation.ABORTED)
        assert (await again).code == 14


@pytest.mark.parametrize(
    "changes",
    [
        {"DELAY": "3"},
        {"TIMER_DELAY_MS": "5000"},
        {"TIMER_DELIVER_MS": "99999999999999"},
        {"TIMER_DELAY_SEC": "5"},
    ],
)
async def test_54_a_transaction_with_a_delay_is_refused(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    async with leading(tmp_path) as desk:
        end_before = desk.store.log_end
        assert (await desk.ask(half(**changes))).code == 13
        assert desk.store.log_end == end_before


@pytest.mark.parametrize("sys_flag", [4, 8, 12])
async def test_54_transaction_flags_without_the_property_are_refused(
    tmp_path: Path, sys_flag: int
) -> None:
    async with leading(tmp_path) as desk:
        request = send_request("T", b"x")
        request.ext["f"] = str(sys_flag)
        assert (await desk.ask(request)).code == 13


async def test_56_transactions_can_be_forbidden(tmp_path: Path) -> None:
    async with Desk(tmp_path, rejects_transactions=True) as desk:
        desk.lead()
        assert (await desk.ask(send_request("T", b"first"))).code == 0
        assert (await desk.ask(half())).code == 16
        request = send_request("T", b"plain")
        request.ext["i"] += "TRAN_MSG\x01false\x02"
        assert (await desk.ask(request)).code == 0
        assert bodies(desk) == [b"first", b"plain"]


# -- what they are asked about ---------------------------------------------------------------------


async def test_46_47_a_half_that_nobody_ends_is_asked_about_again_and_again(tmp_path: Path) -> None:
    async with leading(tmp_path, SOON) as desk, Producer(desk) as producer:
        told = await sent(desk, queue_id=1)
        await until(lambda: len(producer.asked) >= 3, "it was asked three times")
        assert counts(producer.asked[:3]) == ["1", "2", "3"]
        places = [int(one.ext["tranStateTableOffset"]) for one in producer.asked[:3]]
        assert places == [1, 2, 3]
        offsets = [int(one.ext["commitLogOffset"]) for one in producer.asked[:3]]
        assert offsets == sorted(offsets) and offsets[0] > 0
        one = producer.asked[0]
        assert (one.ext["topic"], one.ext["msgId"], one.ext["bname"]) == (HALF_TOPIC, "K1", "b")
        shown = decode_message(one.body)
        assert (shown.fields.topic, shown.fields.queue_id) == ("T", 1)
        assert shown.physical_offset == offsets[0] and shown.queue_offset == 1
        assert told["queueOffset"] == "0"


@pytest.mark.parametrize("by_original", [False, True])
async def test_49_an_answer_by_the_copy_or_by_the_original_ends_it_once(
    tmp_path: Path, by_original: bool
) -> None:
    async with leading(tmp_path, SOON) as desk, Producer(desk) as producer:
        told = await sent(desk)
        await until(lambda: producer.asked, "it was asked")
        command = end(told) if by_original else producer.answer(producer.asked[-1])
        answer = await desk.ask(command)
        while answer.code == 0 and len(bodies(desk)) < 2:  # a newer copy stood by then
            answer = await desk.ask(producer.answer(producer.asked[-1]))
        assert bodies(desk) == [b"first", b"K1"]
        asked = len(producer.asked)
        for one in producer.asked:
            assert (await desk.ask(producer.answer(one))).code == 0
        assert bodies(desk) == [b"first", b"K1"]
        assert desk.service.checks.asked <= asked + 1


async def test_48_producers_of_the_group_are_asked_in_turn_and_others_never(tmp_path: Path) -> None:
    async with (
        leading(tmp_path, SOON) as desk,
        Producer(desk) as one,
        Producer(desk) as two,
        Producer(desk, "other") as stranger,
    ):
        await sent(desk)
        await until(lambda: one.asked and two.asked, "both were asked")
        assert not stranger.asked


async def test_48_without_a_producer_nothing_is_copied_counted_or_lost(tmp_path: Path) -> None:
    terms = TransactionTerms(timeout_ms=0, check_interval_ms=10, checks_max=2)
    async with leading(tmp_path, terms) as desk:
        await sent(desk)
        end_before, rounds = desk.store.log_end, []
        over = desk.service.checks._round_over
        desk.service.checks._round_over = lambda pause: (rounds.append(pause), over(pause))[1]  # type: ignore[method-assign]
        await until(lambda: len(rounds) > 5, "rounds went by")
        assert desk.store.log_end == end_before and not log(desk, GIVEN_UP_TOPIC)
        async with Producer(desk) as producer:
            await until(lambda: producer.asked, "it is asked when it is there")
            assert counts(producer.asked[:1]) == ["1"]


async def test_50_after_so_many_questions_it_is_given_up_and_323_brings_it_back(
    tmp_path: Path,
) -> None:
    terms = TransactionTerms(timeout_ms=0, check_interval_ms=20, checks_max=2)
    async with leading(tmp_path, terms) as desk, Producer(desk) as producer:
        await sent(desk)
        await until(lambda: log(desk, GIVEN_UP_TOPIC), "it is given up")
        await until(lambda: len(producer.asked) >= 2, "the producer has heard what it was asked")
        assert counts(producer.asked) == ["1", "2"]
        (moved,) = log(desk, GIVEN_UP_TOPIC)
        assert decode_properties(moved.fields.properties)["TRANSACTION_CHECK_TIMES"] == "2"
        assert moved.fields.body == b"K1" and desk.tables.topics.get(GIVEN_UP_TOPIC) is not None
        last = await desk.ask(producer.answer(producer.asked[-1]))
        assert (last.code, len(bodies(desk))) == (604, 1)
        message_id = f"{moved.fields.store_host.hex()}{moved.physical_offset:016X}"
        request = RemotingCommand.request(323, {"topic": GIVEN_UP_TOPIC, "msgId": message_id})
        assert (await desk.ask(request)).code == 0
        # the first behind it: copies of the next questions may be there already
        back = next(
            one for one in log(desk, HALF_TOPIC) if one.physical_offset > moved.physical_offset
        )
        assert decode_properties(back.fields.properties)["TRANSACTION_CHECK_TIMES"] == "0"
        await until(lambda: len(producer.asked) > 2, "it is asked about again")


@pytest.mark.parametrize("message_id", ["", "zz", "00" * 16, "7F00000100002A9F" + "0" * 16])
async def test_323_for_what_was_not_given_up_is_refused(tmp_path: Path, message_id: str) -> None:
    async with leading(tmp_path) as desk:
        await sent(desk)
        end_before = desk.store.log_end
        request = RemotingCommand.request(323, {"topic": GIVEN_UP_TOPIC, "msgId": message_id})
        assert (await desk.ask(request)).code == 1
        assert desk.store.log_end == end_before


async def test_51_nobody_is_asked_before_the_time_that_a_message_asks_for(tmp_path: Path) -> None:
    terms = TransactionTerms(timeout_ms=0, check_interval_ms=10, checks_max=2)
    async with leading(tmp_path, terms) as desk, Producer(desk) as producer:
        immune = await sent(desk, key="A", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
        await sent(desk, key="B", CHECK_IMMUNITY_TIME_IN_SECONDS="0")
        await until(lambda: log(desk, GIVEN_UP_TOPIC), "the other one went its way")
        assert {one.ext["msgId"] for one in producer.asked} == {"B"}
        assert bodies(desk, HALF_TOPIC).count(b"A") == 1, "it is neither copied nor counted"
        assert (await desk.ask(end(immune))).code == 0
        assert bodies(desk) == [b"first", b"A"]


async def test_51_a_commit_behind_that_time_waits_for_the_question(tmp_path: Path) -> None:
    async with leading(tmp_path) as desk:
        told = await sent(desk, age_ms=20_000, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
        assert (await desk.ask(end(told))).code == 604
        assert bodies(desk) == [b"first"]
        assert (await desk.ask(end(told, fromTransactionCheck="true"))).code == 0
        assert bodies(desk) == [b"first", b"K1"]


async def test_one_that_waits_for_its_producer_holds_no_other_one_up(tmp_path: Path) -> None:
    async with leading(tmp_path, SOON) as desk, Producer(desk) as producer:
        waits = half("lonely")
        waits.ext["i"] = waits.ext["i"].replace("PGROUP\x01pg", "PGROUP\x01gone")
        assert (await desk.ask(waits)).code == 0
        await sent(desk, key="K2")
        await until(lambda: len(producer.asked) > 1, "the one behind it is asked about")
        assert {one.ext["msgId"] for one in producer.asked} == {"K2"}


async def test_one_that_waits_too_long_is_copied_behind_the_others_uncounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "BEHIND_MAX", 3)
    async with leading(tmp_path, SOON) as desk:
        told = [await sent(desk, key=f"K{number}") for number in range(10)]
        for one in told[1::2]:
            assert (await desk.ask(end(one))).code == 0
        await until(lambda: log(desk, HALF_TOPIC)[-1].fields.body == b"K0", "it is copied")
        found = decode_properties(log(desk, HALF_TOPIC)[-1].fields.properties)
        assert found["TRANSACTION_CHECK_TIMES"] == "0"


# -- when masters change ---------------------------------------------------------------------------


def places(desk: Desk) -> tuple[int | None, int | None]:
    offsets = desk.tables.offsets
    return offsets.query(GROUP, HALF_TOPIC, 0), offsets.query(GROUP, OP_TOPIC, 0)


async def test_53_55_a_successor_knows_what_was_decided_and_goes_on_at_the_places(
    tmp_path: Path,
) -> None:
    async with leading(tmp_path) as desk:
        told = [await sent(desk, key=f"K{number}") for number in range(4)]
        for number in (0, 2):
            assert (await desk.ask(end(told[number]))).code == 0
        desk.service.ledger.tick(1 << 50)
        assert places(desk) in ((None, None), (0, 0)), "nothing is durable yet"
        desk.store.checkpoint()
        desk.service.ledger.tick((1 << 50) + TELL_MS)
        assert places(desk) == (1, 1)
        desk.service.mastership_over()
        desk.lead(2)
        for one in told:
            assert (await desk.ask(end(one))).code == 0, "ended, or ended again"
        assert bodies(desk) == [b"first", b"K0", b"K2", b"K1", b"K3"]
        desk.store.checkpoint()
        await until(lambda: places(desk) == (4, 4), "the places are behind everything")


async def test_53_what_a_predecessor_committed_is_not_asked_about(tmp_path: Path) -> None:
    terms = TransactionTerms(timeout_ms=0, check_interval_ms=200)
    async with leading(tmp_path, terms) as desk, Producer(desk) as producer:
        decided = await sent(desk, key="decided")
        await sent(desk, key="open")
        assert (await desk.ask(end(decided))).code == 0
        desk.service.mastership_over()
        desk.lead(2)
        await until(lambda: producer.asked, "the open one is asked about")
        assert {one.ext["msgId"] for one in producer.asked} == {"open"}


@pytest.mark.parametrize("told", [(99, 99), (0, 0), (2, 1)])
async def test_places_outside_of_the_queues_are_moved_into_them(
    tmp_path: Path, told: tuple[int, int]
) -> None:
    async with leading(tmp_path) as desk:
        halves = [await sent(desk, key=f"K{number}") for number in range(3)]
        assert (await desk.ask(end(halves[0]))).code == 0
        desk.service.mastership_over()
        for topic, place in zip((HALF_TOPIC, OP_TOPIC), told, strict=True):
            desk.tables.offsets.commit(GROUP, topic, 0, place, 1)
        desk.lead(2)
        more = await sent(desk, key="more")
        assert (await desk.ask(end(more))).code == 0
        assert bodies(desk)[-1] == b"more"


async def test_a_slave_decides_nothing(tmp_path: Path) -> None:
    async with leading(tmp_path, SOON) as desk, Producer(desk) as producer:
        told = await sent(desk)
        desk.leads = False
        answer = asyncio.ensure_future(desk.ask(end(told)))
        await asyncio.sleep(0)
        desk.follow("127.0.0.1:1")
        assert (await answer).code != 0 and bodies(desk) == [b"first"]
        asked = len(producer.asked)
        desk.service.checks.tick(1 << 50)
        assert len(producer.asked) == asked


async def test_a_refused_record_is_written_later_and_nobody_is_answered_before(
    tmp_path: Path,
) -> None:
    async with leading(tmp_path) as desk:
        told = await sent(desk)
        desk.refusal = "in-sync replicas not enough: 1 of 2"
        refused = await desk.ask(end(told))
        assert refused.code == 1 and bodies(desk) == [b"first"]
        back = await desk.ask(end(told, ROLLBACK))
        assert back.code != 0, "no record says so yet"
        desk.refusal = None
        await until(lambda: log(desk, OP_TOPIC), "the record is written")
        assert (await desk.ask(end(told, ROLLBACK))).code == 0
        assert len(log(desk, OP_TOPIC)) == 1


async def test_49_a_successor_promises_nothing_about_a_half_of_which_a_copy_is_open(
    tmp_path: Path,
) -> None:
    terms = TransactionTerms(timeout_ms=0, check_interval_ms=100)
    async with leading(tmp_path, terms) as desk, Producer(desk) as producer:
        told = await sent(desk)
        await until(lambda: producer.asked, "it was asked: a copy stands for it")
        desk.store.checkpoint()
        await until(lambda: places(desk)[0], "the place is behind the first one")
        desk.service.mastership_over()
        desk.lead(2)
        answer = await desk.ask(end(told))
        assert answer.code == 604 and bodies(desk) == [b"first"]
        seen = len(producer.asked)
        await until(lambda: len(producer.asked) > seen, "it is asked again")
        while len(bodies(desk)) == 1:
            await desk.ask(producer.answer(producer.asked[-1]))
        assert bodies(desk) == [b"first", b"K1"]
