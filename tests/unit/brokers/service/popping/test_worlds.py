"""Random consumers, refused puts and changes of master: what was not acknowledged comes again,
what was acknowledged does not, and nothing comes early.
"""

import asyncio
import random
from pathlib import Path

import pytest

from brokers.replica.waiters import Confirmation
from brokers.service.popping.handles import Handle
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from tests.support.brokers import send_request
from tests.support.pops import Stage

MESSAGES, STEPS = 40, 60
DRAIN_MS = 70_000


class World:
    """One broker, two groups of consumers, and what they know."""

    def __init__(self, desk: Stage, seed: int, *, changes_master: bool) -> None:
        self.desk = desk
        self.chance = random.Random(seed)
        self.changes_master = changes_master
        self.ahead_ms = 0
        self.epoch = 1
        self.out: list[tuple[str, Gotten, int]] = []  # group, message, visible at
        self.visible: dict[tuple[str, bytes], int] = {}
        self.acked: set[tuple[str, bytes]] = set()
        self.late: set[tuple[str, bytes]] = set()
        self.seen: set[tuple[str, bytes]] = set()

    async def send(self) -> None:
        for number in range(MESSAGES):
            request = send_request("T", b"m%02d" % number, number % 3, key=f"K{number}")
            assert (await self.desk.ask(request)).code == 0

    def wall_ms(self) -> int:
        return self.desk.clock.wall_ms()

    async def pop(self, group: str, invisible_ms: int, most: int) -> int:
        ask = pop_request(group=group, invisibleTime=invisible_ms, maxMsgNums=most)
        answer = await self.desk.ask(ask)
        if answer.code != 0:
            return 0
        got = gotten(answer)
        for one in got:
            key = group, one.body
            self.seen.add(key)
            if not self.changes_master:
                assert key not in self.acked, f"{key} came back"
                before_ms = self.visible.get(key, 0)
                assert one.handle.pop_ms >= before_ms, f"{key} came early"
            self.visible[key] = one.handle.visible_ms
            self.out.append((group, one, one.handle.visible_ms))
        return len(got)

    async def ack(self) -> None:
        newest = self.chance.randrange(min(6, len(self.out)))
        group, one, visible_ms = self.out.pop(-1 - newest)
        in_time = self.wall_ms() < visible_ms
        answer = await self.desk.ask(ack_request(one.handle, group=group))
        # one that is late may count, or not
        (self.acked if answer.code == 0 and in_time else self.late).add((group, one.body))

    async def change(self) -> None:
        at = self.chance.randrange(len(self.out))
        group, one, visible_ms = self.out[at]
        if self.wall_ms() >= visible_ms:
            return
        invisible_ms = self.chance.choice((1_000, 5_000, 30_000))
        ask = ack_request(one.handle, group=group, code=200053, invisibleTime=invisible_ms)
        answer = await self.desk.ask(ask)
        if answer.code != 0:
            del self.out[at]  # who knows which of both times counts
            self.visible[group, one.body] = 0
            return
        fields = answer.ext
        fresh = Handle(
            one.handle.offset, int(fields["popTime"]), invisible_ms, int(fields["reviveQid"]),
            one.handle.kind, "b", one.handle.queue_id, one.handle.offset,
        )  # fmt: skip
        self.out[at] = group, Gotten(one.body, one.record, fresh), fresh.visible_ms
        self.visible[group, one.body] = fresh.visible_ms

    async def new_master(self) -> None:
        if self.chance.random() < 0.5:
            self.desk.store.checkpoint()
        self.desk.service.mastership_over()
        self.epoch += 1
        self.desk.lead(self.epoch)

    async def step(self) -> None:
        desk, chance = self.desk, self.chance
        what = chance.random()
        if what < 0.35:
            await self.pop(
                chance.choice("gh"), chance.choice((2_000, 9_000)), chance.choice((1, 9))
            )
        elif what < 0.65 and self.out:
            await self.ack()
        elif what < 0.75 and self.out:
            await self.change()
        elif what < 0.80:
            desk.refusal = None if desk.refusal else "in-sync replicas not enough: 1 of 2"
        elif what < 0.85 and self.changes_master:
            await self.new_master()
        else:
            self.ahead_ms += chance.choice((500, 3_000, 8_000))
            refusal, desk.refusal = desk.refusal, None
            await desk.settled(self.ahead_ms)
            desk.refusal = refusal

    async def drain(self) -> None:
        """All that is left, until nothing comes for two rounds."""
        self.desk.refusal = None
        quiet = 0
        self.seen.clear()
        while quiet < 2:
            self.ahead_ms += DRAIN_MS
            await self.desk.settled(self.ahead_ms)
            came = 0
            for group in "gh":
                while some := await self.pop(group, 20_000, 32):
                    came += some
                    for _ in range(some):
                        _, one, _ = self.out.pop()
                        code = (await self.desk.ask(ack_request(one.handle, group=group))).code
                        assert code == 0
            quiet = 0 if came else quiet + 1
        left = {(group, b"m%02d" % n) for group in "gh" for n in range(MESSAGES)}
        assert left - self.acked - self.late <= self.seen, "lost"
        assert self.desk.service.popping.revive.open == 0


@pytest.mark.parametrize("changes_master", [False, True], ids=["60-61", "81-86"])
@pytest.mark.parametrize("seed", range(4))
async def test_no_message_is_lost_or_comes_early(
    tmp_path: Path, seed: int, changes_master: bool
) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open()
        world = World(desk, seed, changes_master=changes_master)
        await world.send()
        for _ in range(STEPS):
            await world.step()
        await world.drain()


async def test_86_a_put_of_which_nobody_knows_loses_nothing(tmp_path: Path) -> None:
    """Each answer that did not come may have been either."""
    async with Stage(tmp_path) as desk:
        await desk.open(5)
        desk.confirm_at_once = False
        for _ in range(3):
            asked = asyncio.ensure_future(desk.ask(pop_request(queueId=0, invisibleTime=2_000)))
            while not desk.waits:
                await asyncio.sleep(0.001)
            desk.confirm(Confirmation.TIMED_OUT)
            assert (await asked).code not in (0, 210)
        desk.confirm_at_once = True
        desk.service.confirmed(desk.store.log_end)
        world = World(desk, 1, changes_master=True)
        await desk.settled(10_000)
        got = set()
        while await world.pop("g", 60_000, 32):
            got = {one.body for _, one, _ in world.out}
        assert got == {b"m00", b"m01", b"m02", b"m03", b"m04"}
