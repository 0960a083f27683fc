"""Damaged messages are fetched from another replica; until then nobody gets them, nor what stands
behind them.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.server import RemotingServer
from brokers.service.reading import repair
from brokers.service.reading.query_requests import QueryRequests
from brokers.service.reading.repair import Repairs
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.integrity import BadRecord, Place
from brokers.store.log.records import decode_messages
from brokers.store.queues.entries import pack_entry
from tests.support.brokers import pull_request
from tests.support.client_service import Desk
from tests.unit.brokers.store.log.test_patch import flip
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, encoded, message, small_store

COUNT = 5


@pytest.fixture(autouse=True)
def patient_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a repair waits however long this machine takes for it."""
    monkeypatch.setattr(repair, "WAIT_MS", 20_000)
    monkeypatch.setattr(repair, "CALL_TIMEOUT_MS", 20_000)


class Pair:
    """A replica with a damaged message and another that has it. `java`: the other one knows 33
    only.
    """

    def __init__(self, root: Path, *, java: bool = False) -> None:
        self.root = root
        self.stores = []
        for name in ("own", "other"):
            store = small_store(root / name)
            self.offsets = [
                store.put(message(body=b"%d" % number), NOW_MS).physical_offset
                for number in range(COUNT)
            ]
            store.dispatch_to(store.log_end)
            self.stores.append(store)
        served = QueryRequests(self.stores[1], lambda bad, found_by: None).serves()
        handlers = {code: one.handler for code, one in served.items()}
        if java:
            del handlers[19011]
        self.asked: list[int] = []
        self.server = RemotingServer(
            Dispatcher({code: self._counted(handler) for code, handler in handlers.items()})
        )
        self.client, self.events = RemotingClient(), []
        self.sources: list[str] = []
        self.repairs = Repairs(
            self.stores[0], self.client, lambda: self.sources, self._report, Clock()
        )

    def _counted(self, handler):  # type: ignore[no-untyped-def]
        def handle(connection: Connection, request: RemotingCommand) -> RemotingCommand:
            self.asked.append(request.code)
            return handler(connection, request)

        return handle

    def _report(self, kind: str, fields: dict[str, object]) -> None:
        self.events.append((kind, fields))

    async def __aenter__(self) -> "Pair":
        await self.server.start()
        self.sources = [f"127.0.0.1:{self.server.port}"]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.repairs.close()
        await self.client.close()
        await self.server.close()

    def damage(self, number: int, at: int = 88) -> BadRecord:
        flip(self.root / "own", self.offsets[number] + at)
        answer = self.stores[0].query("T", 0, 0, 32)
        assert answer.refused is not None and answer.next_offset == number
        return answer.refused


async def test_a_damaged_message_is_told_and_put_back(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        bad = pair.damage(2)
        assert await pair.repairs.waited(bad, "pull")
        assert bodies(pair.stores[0]) == [b"0", b"1", b"2", b"3", b"4"]
        refused, repaired = pair.events
        where = {"offset": pair.offsets[2], "size": bad.place.size}
        assert refused == (
            "RecordRefused",
            {**where, "topic": "T", "queue_id": 0, "reason": bad.reason, "found_by": "pull"},
        )
        assert repaired == ("RecordRepaired", {**where, "source": pair.sources[0]})
        assert (pair.repairs.refused, pair.repairs.repaired, pair.repairs.damaged) == (1, 1, 0)


@pytest.mark.parametrize("damaged", [[0], [4], [0, 1], [*range(COUNT)]])
async def test_a_message_that_was_passed_over_when_its_queue_was_made_gets_its_entry(
    tmp_path: Path, damaged: list[int]
) -> None:
    async with Pair(tmp_path) as pair:
        pair.stores[0].close()
        for number in damaged:
            flip(tmp_path / "own", pair.offsets[number] + 88)
        shutil.rmtree(tmp_path / "own" / "consumequeue")
        store = pair.stores[0] = small_store(tmp_path / "own")
        store.dispatch_to(store.log_end)
        repairs = Repairs(store, pair.client, lambda: pair.sources, pair._report, Clock())
        assert [await repairs.waited(bad, "start") for bad in store.recovery.damaged] == [
            True
        ] * len(damaged)
        assert (store.queue_bounds("T", 0), bodies(store)) == ((0, COUNT), bodies(pair.stores[1]))
        assert store.put(message(), NOW_MS).queue_offset == COUNT


async def test_every_place_that_shows_damage_is_healed(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        for at in (0, 4, 8, 15, 27, 35, 87, 88, 89, 90, 92):
            assert await pair.repairs.waited(pair.damage(2, at), "pull"), at
        assert len(bodies(pair.stores[0])) == COUNT


async def test_an_entry_that_leads_elsewhere_is_put_right_from_the_log_and_nobody_is_asked(
    tmp_path: Path,
) -> None:
    async with Pair(tmp_path) as pair:
        store = pair.stores[0]
        queue = store.queues.get("T", 0)
        assert queue is not None
        for wrong in (
            (pair.offsets[3], 1, 0),
            (pair.offsets[3] + 1, 150, 0),
            (1 << 40, 150, 0),
            (0, 0, 0),
            (pair.offsets[2], 1 << 30, 0),
        ):
            queue.overwrite(2, pack_entry(*wrong))
            refused = store.query("T", 0, 2, 32).refused
            assert refused is not None and await pair.repairs.waited(refused, "pull")
            assert len(bodies(store)) == COUNT and pair.events[-1][1]["source"] == "log"
        assert pair.asked == [] and pair.repairs.damaged == 0


async def test_an_entry_is_put_right_behind_a_message_whose_length_is_wrong_and_that_nobody_has(
    tmp_path: Path,
) -> None:
    """It says that it goes on beyond the place where the next sound one begins."""
    async with Pair(tmp_path) as pair:
        pair.sources.clear()
        flip(tmp_path / "own", pair.offsets[1] + 2)
        queue = pair.stores[0].queues.get("T", 0)
        assert queue is not None
        queue.overwrite(2, pack_entry(1 << 54, 100, 0))
        bad = pair.stores[0].query("T", 0, 2, 1).refused
        assert bad is not None and await pair.repairs.waited(bad, "pull")
        assert queue.read(2, 1)[0].physical_offset == pair.offsets[2]


async def test_a_slot_that_no_message_has_is_passed_over_once_the_log_was_asked(
    tmp_path: Path,
) -> None:
    """Numbers that were never given: what another broker's log may hold."""
    async with Pair(tmp_path) as pair:
        store = pair.stores[0]
        for queue_id, slot in ((1, 0), (0, COUNT + 2)):
            fields = message(queue_id=queue_id, body=b"late")
            store.append_raw(store.log_end, encoded(fields, slot, store.log_end))
        store.dispatch_to(store.log_end)
        answer = store.query("T", 0, COUNT, 32)
        assert answer.refused is not None and answer.next_offset == COUNT
        assert await pair.repairs.waited(answer.refused, "pull")
        assert (
            bodies(store)[COUNT:] == [b"late"]
            and store.query("T", 0, COUNT, 32).next_offset == COUNT + 3
        )


@pytest.mark.parametrize(
    "entry", [bytes(20), b"\xff" * 20, pack_entry(10**12, 100, 0), pack_entry(0, 100, 0)]
)
async def test_a_destroyed_entry_hides_no_message_and_is_put_right(
    tmp_path: Path, entry: bytes
) -> None:
    async with Pair(tmp_path) as pair:
        own = pair.stores[0]
        with (tmp_path / "own" / "consumequeue" / "T" / "0" / f"{0:020d}").open("r+b") as queue:
            queue.seek(2 * len(entry))
            queue.write(entry)
        answer = own.query("T", 0, 0, 32)
        assert answer.next_offset == 2 and answer.refused is not None
        assert await pair.repairs.waited(answer.refused, "pull")
        assert bodies(own) == [b"0", b"1", b"2", b"3", b"4"] and pair.asked == []


async def test_a_damaged_message_behind_a_wrong_entry_comes_back_too(
    tmp_path: Path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(repair, "RETRY_MS", 0)
    async with Pair(tmp_path) as pair:
        store = pair.stores[0]
        queue = store.queues.get("T", 0)
        assert queue is not None
        flip(pair.root / "own", pair.offsets[2] + 88)
        (right,) = queue.read(2, 1)
        queue.overwrite(2, pack_entry(right.physical_offset + 1, right.size, 0))
        refused = store.query("T", 0, 2, 32).refused
        assert refused is not None and not await pair.repairs.waited(refused, "pull")
        # as the scrub will find it
        assert await pair.repairs.waited(BadRecord(Place(pair.offsets[2], 0), "its body"), "scrub")
        assert await pair.repairs.waited(refused, "pull") and len(bodies(store)) == COUNT


async def test_a_java_replica_is_asked_for_the_message_by_its_place(tmp_path: Path) -> None:
    async with Pair(tmp_path, java=True) as pair:
        assert await pair.repairs.waited(pair.damage(1), "pull")
        assert pair.asked == [33]
        assert len(bodies(pair.stores[0])) == COUNT


async def test_a_replica_that_is_damaged_too_or_away_helps_nothing_and_is_not_asked_all_the_time(
    tmp_path: Path,
) -> None:
    async with Pair(tmp_path) as pair:
        bad = pair.damage(1)
        flip(tmp_path / "other", pair.offsets[1] + 89)
        pair.sources = ["127.0.0.1:1", *pair.sources]
        assert not await pair.repairs.waited(bad, "pull")
        assert not await pair.repairs.waited(bad, "pull")
        assert pair.asked == [19011]
        assert [kind for kind, _ in pair.events] == ["RecordRefused"]
        assert pair.stores[0].query("T", 0, 1, 32).messages == 0


async def test_a_repair_many_wait_for_is_done_once(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        bad = pair.damage(3)
        assert all(await asyncio.gather(*(pair.repairs.waited(bad, "pull") for _ in range(20))))
        assert pair.asked == [19011]


async def test_a_slow_replica_keeps_nobody_longer_than_a_moment(
    tmp_path: Path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(repair, "WAIT_MS", 20)
    never = asyncio.Event()

    async def silent(*_: object) -> None:
        await never.wait()

    async with Pair(tmp_path) as pair:
        monkeypatch.setattr(pair.client, "call", silent)
        assert not await pair.repairs.waited(pair.damage(0), "pull")
        assert pair.repairs.damaged == 1


async def test_consumers_get_what_is_in_front_then_the_repaired_message_and_miss_nothing(
    tmp_path: Path,
) -> None:
    async with Pair(tmp_path) as pair, Desk(tmp_path / "desk") as desk:
        desk.lead()
        desk.tables.topics.put([TopicConfig("T", 1, 1)], 0)
        size = pair.stores[0].log_end
        desk.store.append_raw(0, pair.stores[0].read_log(0, size))
        desk.store.dispatch_to(size)
        flip(tmp_path / "desk", pair.offsets[2] + 88)
        repairs = Repairs(desk.store, desk.client, lambda: pair.sources, pair._report, desk.clock)
        seen, offset = [], 0
        desk.service.pulls._repairs = None
        refused = await desk.ask(pull_request("T", 0, 2))
        assert (refused.code, refused.body) == (1, b"") and "damaged" in (refused.remark or "")
        desk.service.pulls._repairs = repairs
        while offset < COUNT:
            answer = await desk.ask(pull_request("T", 0, offset))
            assert answer.code == 0
            seen += [read.fields.body for read in decode_messages(answer.body)]
            offset = int(answer.ext["nextBeginOffset"])
        assert seen == [b"0", b"1", b"2", b"3", b"4"]
        await repairs.close()


@pytest.mark.parametrize("others", [[], [(1, 35)], [(3, 88)]])
@pytest.mark.parametrize("at", [12, 15, 20, 26, 27])
@pytest.mark.parametrize("number", [0, 2, COUNT - 1])
async def test_a_header_that_asks_for_another_place_is_put_back_after_a_start(
    tmp_path: Path, number: int, at: int, others: list[tuple[int, int]]
) -> None:
    async with Pair(tmp_path) as pair:
        pair.stores[0].close()
        for message_hit, byte in [(number, at), *others]:
            flip(tmp_path / "own", pair.offsets[message_hit] + byte)
        store = pair.stores[0] = small_store(tmp_path / "own")
        repairs = Repairs(store, pair.client, lambda: pair.sources, pair._report, Clock())
        for bad in store.recovery.damaged:
            assert await repairs.waited(bad, "start")
        answer = store.query("T", 0, 0, 32)
        assert answer.refused is None or await repairs.waited(answer.refused, "pull")
        assert bodies(store) == bodies(pair.stores[1]) and sorted(store.queue_ids()) == [("T", 0)]


async def test_a_message_that_another_queue_leads_to_as_well_is_not_taken_from_its_own(
    tmp_path: Path,
) -> None:
    async with Pair(tmp_path) as pair:
        store = pair.stores[0]
        flip(tmp_path / "own", pair.offsets[2] + 15)
        named = int.from_bytes(store.read_log(pair.offsets[2] + 12, 4), "big")
        stranger = store.queues.get_or_create("T", named)
        assert stranger is not None and named > 0
        size = pair.offsets[3] - pair.offsets[2]
        stranger.append(2, pack_entry(pair.offsets[2], size, 0), pair.offsets[2])
        bad = store.query("T", 0, 0, 32).refused
        assert bad is not None and bad.place.slot == 2
        assert await pair.repairs.waited(bad, "pull")
        assert bodies(store) == bodies(pair.stores[1])
