"""Sends on a master: what is stored, and which answer each outcome of replication gives."""

import asyncio
from pathlib import Path

import pytest

from brokers.replica.waiters import Confirmation
from brokers.service.sending.send import WAITING_BYTES_MAX
from brokers.service.tables.table_files import TableFiles
from brokers.store.files.disk_space import full_remark
from brokers.store.log.batch_units import BatchUnit, encode_batch
from brokers.store.log.group_commit import Flushed
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import BODY_BYTES_MAX, decode_messages
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk
from tests.support.small_disk import small_disk


async def test_success_is_answered_only_after_the_confirmation(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().confirm_at_once = False
        waiting = asyncio.ensure_future(desk.ask(send_request("T", b"x")))
        await until(lambda: desk.waits, "the send is written")
        assert not waiting.done() and desk.service.sends.waiting == 1
        assert (await desk.ask(pull_request("T", 0, 0))).code == 19
        desk.confirm()
        assert (await waiting).code == 0 and desk.service.sends.waiting == 0


@pytest.mark.parametrize(
    ("how", "code"),
    [(Confirmation.TIMED_OUT, 12), (Confirmation.ABORTED, 14), (Confirmation.TOO_MANY, 14)],
)
async def test_anything_but_a_confirmation_is_no_success(
    tmp_path: Path, how: Confirmation, code: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().confirm_at_once = False
        waiting = asyncio.ensure_future(desk.ask(send_request("T", b"x")))
        await until(lambda: desk.waits, "the send is written")
        desk.confirm(how)
        assert (await waiting).code == code


async def test_sends_of_one_turn_are_written_and_confirmed_together(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        desk.confirm_at_once = False
        sends = [
            asyncio.ensure_future(desk.ask(send_request("T", b"%d" % number)))
            for number in range(50)
        ]
        await until(lambda: desk.service.sends.waiting == 50, "all are taken")
        assert len(desk.waits) < 10
        desk.confirm()
        answers = await asyncio.gather(*sends)
        assert sorted(int(answer.ext["queueOffset"]) for answer in answers) == list(range(1, 51))


async def test_a_write_without_hope_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        end, desk.refusal = desk.store.log_end, "in-sync replicas not enough: 1 of 2"
        answers = [await desk.ask(send_request(topic, b"y")) for topic in ("T", "U")]
        assert [(each.code, each.remark) for each in answers] == [
            (1, "in-sync replicas not enough")
        ] * 2
        assert desk.store.log_end == end and desk.tables.topics.get("U") is None


async def test_a_failed_log_ends_the_role_and_answers_everyone(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        desk.store.log.io_error = "planted"
        assert (await desk.ask(send_request("T", b"y"))).code == 14
        assert len(desk.storage_failures) == 1


async def test_a_replica_that_stopped_leading_hands_its_sends_on(tmp_path: Path) -> None:
    async with Desk(tmp_path / "a") as former, Desk(tmp_path / "b") as successor:
        former.lead()
        successor.lead(2)
        await former.ask(send_request("T", b"x"))
        former.leads = False
        waiting = asyncio.ensure_future(former.ask(send_request("T", b"y")))
        await until(lambda: former.forwarder.waiting, "the send is held")
        end = former.store.log_end
        former.follow(successor.address, 2)
        assert (
            (await waiting).code == 0
            and former.store.log_end == end
            and successor.store.log_end > 0
        )


async def test_a_message_without_an_id_gets_one(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        request = send_request("T", b"x")
        request.ext["i"] = "a\x01b\x02POP_CK\x01z\x02"
        answer = await desk.ask(request)
        (message,) = decode_messages((await desk.ask(pull_request("T", 0, 0))).body)
        properties = message.fields.properties
        assert (
            answer.ext["transactionId"].encode() in properties
            and b"POP_CK" not in properties
            and properties.startswith(b"a\x01b\x02")
        )


async def test_an_id_given_twice_is_answered_as_readers_decode_it(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        for text, answered in (
            ("UNIQ_KEY\x01first\x02UNIQ_KEY\x01last\x02", "last"),
            ("UNIQ_KEY\x01only\x02UNIQ_KEY\x01\x02", "only"),
        ):
            for code in (310, 10):
                request = send_request("T", b"x")
                request.ext["i"] = text
                if code == 10:
                    names = (
                        "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag "
                        "bornTimestamp flag properties reconsumeTimes unitMode batch"
                    )
                    request.ext = dict(
                        zip(
                            names.split(), (request.ext[key] for key in "abcdefghijkm"), strict=True
                        )
                    )
                    request.code = 10
                assert (await desk.ask(request)).ext["transactionId"] == answered
        stored = decode_messages((await desk.ask(pull_request("T", 0, 0))).body)
        assert [decode_properties(each.fields.properties)["UNIQ_KEY"] for each in stored] == [
            "last",
            "last",
            "only",
            "only",
        ]


async def test_a_batch_with_a_transaction_message_is_refused_whole(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        units = [
            BatchUnit(0, b"one", b"UNIQ_KEY\x01k1\x02"),
            BatchUnit(0, b"two", b"UNIQ_KEY\x01k2\x02a\x01b\x02TRAN_MSG\x01true\x02"),
        ]
        for batch, code in ((units, 13), (units[:1], 0)):
            request = send_request("T", encode_batch(batch))
            request.code, request.ext["m"] = 320, "true"
            assert (await desk.ask(request)).code == code
        assert [
            each.fields.body for each in decode_messages(desk.store.read_log(0, desk.store.log_end))
        ] == [b"one"]


@pytest.mark.parametrize("kind", [b"DELAY\x013\x02", b"TIMER_DELIVER_MS\x015\x02"])
async def test_20_a_batch_with_a_delay_in_one_unit_is_delivered_at_once_and_complete(
    tmp_path: Path, kind: bytes
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        units = [
            BatchUnit(0, b"one", b"UNIQ_KEY\x01k1\x02"),
            BatchUnit(0, b"two", b"UNIQ_KEY\x01k2\x02" + kind),
        ]
        request = send_request("T", encode_batch(units))
        request.code, request.ext["m"] = 320, "true"
        assert (await desk.ask(request)).code == 0
        answer = await desk.ask(pull_request("T", 0, 0))
        assert [each.fields.body for each in decode_messages(answer.body)] == [b"one", b"two"]


@pytest.mark.parametrize("level", ["x", "1.5", "99999999999"])
async def test_3_a_delay_that_is_no_number_is_refused_and_nothing_is_stored(
    tmp_path: Path, level: str
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        end, request = desk.store.log_end, send_request("T", b"y")
        request.ext["i"] = f"UNIQ_KEY\x01k\x02DELAY\x01{level}\x02"
        assert (await desk.ask(request)).code == 13 and desk.store.log_end == end


async def test_a_oneway_send_is_stored_and_not_answered(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        await desk.client.send_oneway(desk.address, send_request("T", b"y", oneway=True))
        answer = await desk.ask(send_request("T", b"z"))
        assert answer.ext["queueOffset"] == "2" and desk.service.sends.waiting == 0


async def test_a_torn_batch_is_refused(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        request = send_request("T", b"\x00\x00\x00\x05torn")
        request.code = 320
        assert (await desk.ask(request)).code == 13


async def test_a_log_that_cannot_be_read_answers_who_waits_as_one_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(send_request("T", b"x"))).code == 0

        def unreadable(*_: object) -> None:
            raise OSError(5, "planted")

        monkeypatch.setattr(desk.store, "put_many", unreadable)
        assert (await desk.ask(send_request("T", b"y"))).code == 14
        assert desk.service.sends.waiting == 0 and len(desk.storage_failures) == 1


async def test_a_send_that_cannot_be_handed_on_is_answered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(send_request("T", b"x"))).code == 0

        async def stumble(*_: object, **__: object) -> None:
            raise AssertionError("planted")

        desk.leads = False
        monkeypatch.setattr(desk.forwarder, "handle", stumble)
        answer = await desk.ask(send_request("T", b"y"))
        assert answer.code == 1 and "unknown" in (answer.remark or "")


async def test_a_full_disk_is_answered_as_rocketmq_does_and_passes(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        async with Desk(disk.root) as desk:
            desk.lead()
            await desk.ask(send_request("T", b"first"))
            while (await desk.ask(send_request("T", bytes(200_000)))).code == 0:
                disk.fill()  # no second file of the log
            end = desk.store.log_end
            for topic in ("T", "new"):
                answer = await desk.ask(send_request(topic, bytes(200_000)))
                assert answer.code == 14 and answer.remark is not None
            assert (await desk.ask(send_request("T", bytes(200_000)))).remark == full_remark(
                disk.root
            )
            assert (
                desk.store.log_end == end
                and not desk.storage_failures
                and desk.service.sends.waiting == 0
            )
            assert [
                one.fields.body
                for one in decode_messages((await desk.ask(pull_request("T", 0, 0))).body)
            ][0] == b"first"
            disk.free()
            desk.store.log._full_until = 0.0
            answers = [
                await desk.ask(send_request(topic, bytes(200_000))) for topic in ("T", "new")
            ]
            assert [answer.code for answer in answers] == [0, 0]
            assert TableFiles(disk.root).topics.get("new") is not None


class Flushes:
    """Whoever waits for the disk waits for the test."""

    def __init__(self) -> None:
        self.waits: list[asyncio.Future[Flushed]] = []

    def __call__(self, end_offset: int) -> asyncio.Future[Flushed]:
        self.waits.append(asyncio.get_running_loop().create_future())
        return self.waits[-1]


@pytest.mark.parametrize("replicas_first", [True, False])
async def test_with_sync_flush_success_needs_the_disk_as_well(
    tmp_path: Path, replicas_first: bool
) -> None:
    flushes = Flushes()
    async with Desk(tmp_path, flushed=flushes) as desk:
        desk.lead().confirm_at_once = False
        waiting = asyncio.ensure_future(desk.ask(send_request("T", b"x")))
        await until(lambda: desk.waits and flushes.waits, "the send is written and waits for both")
        if replicas_first:
            desk.confirm()
        else:
            flushes.waits[0].set_result(Flushed.DURABLE)
        await desk.ask(pull_request("T", 0, 0))  # a whole request later
        assert not waiting.done()
        if replicas_first:
            flushes.waits[0].set_result(Flushed.DURABLE)
        else:
            desk.confirm()
        assert (await waiting).code == 0 and desk.service.sends.waiting == 0


@pytest.mark.parametrize(
    ("how", "on_disk", "code"),
    [
        (Confirmation.CONFIRMED, Flushed.TIMED_OUT, 10),
        (Confirmation.TIMED_OUT, Flushed.TIMED_OUT, 12),
        (Confirmation.TIMED_OUT, None, 12),
        (Confirmation.ABORTED, None, 14),
    ],
)
async def test_stored_but_not_everywhere_in_time_says_where_and_what_is_missing(
    tmp_path: Path, how: Confirmation, on_disk: Flushed | None, code: int
) -> None:
    flushes = Flushes()
    async with Desk(tmp_path, flushed=flushes) as desk:
        desk.lead().confirm_at_once = False
        waiting = asyncio.ensure_future(desk.ask(send_request("T", b"x")))
        await until(lambda: desk.waits and flushes.waits, "the send is written and waits for both")
        if on_disk is not None:
            flushes.waits[0].set_result(on_disk)
        desk.confirm(how)
        answer = await waiting
        assert answer.code == code and answer.ext["queueOffset"] == "0"
        assert (answer.remark is None) == (code != 14)


async def test_first_sends_that_wait_for_the_members_count_as_sends_that_wait(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        asked, go_on = [], asyncio.Event()

        async def create(send: object) -> None:
            asked.append(send)
            await go_on.wait()

        desk.service.sends._create_topic = create  # a member that takes its time
        too_long = await desk.ask(send_request("fresh", bytes(BODY_BYTES_MAX + 1)))
        assert too_long.code == 13 and not asked
        waits = [
            asyncio.ensure_future(desk.ask(send_request("fresh", bytes(1_000)))) for _ in range(3)
        ]
        await until(lambda: len(asked) == 3, "three sends wait for their topic")
        assert (desk.service.sends.waiting, desk.service.sends._waiting_bytes) == (3, 3_000)
        desk.service.sends._waiting_bytes += WAITING_BYTES_MAX
        assert (await desk.ask(send_request("fresh", b"x"))).code == 2 and len(asked) == 3
        desk.service.sends._waiting_bytes -= WAITING_BYTES_MAX
        go_on.set()
        assert {answer.code for answer in await asyncio.gather(*waits)} == {17}
        assert (desk.service.sends.waiting, desk.service.sends._waiting_bytes) == (0, 0)
