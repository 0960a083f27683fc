"""What orderly pops were given: each queue in turn, one batch at a time, nothing passed over.

Responsible for: the promises of PROTOCOL 4.9 about order, at every batch that a master gives, and
in the end. Refuses to know: how brokers keep them.

What is out stands in a table that slaves copy: a master that was promoted before it copied a batch
gives that one again, and counts as twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.features.pop_requests import Gotten
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from tests.simulation.services.member import Member
    from tests.simulation.services.realm import Realm

ORDERED_GROUP = "ordered"


@dataclass(slots=True)
class Out:
    """A batch in the hands of a client. `until`: offset -> when it may be given again."""

    epoch: int
    attempt: str | None
    pop_ms: int
    at_ms: int
    until: dict[int, int]


class OrderedPromises:
    """All of one world. `was_told(epoch, earlier, at_ms)`: the master of `epoch` knew what that of
    an earlier one had given by then. `spread_ms()`: by how much clocks of the set differ.
    """

    def __init__(
        self, realm: Realm, was_told: Callable[[int, int, int], bool], spread_ms: Callable[[], int]
    ) -> None:
        self.realm, self.world = realm, realm.world
        self._was_told, self._spread_ms = was_told, spread_ms
        self._out: dict[int, Out] = {}
        self._acked: dict[int, set[int]] = defaultdict(set)
        self.acked_keys: set[str] = set()

    def watch(self, member: Member) -> None:
        """A new life: which batches it gives is looked at."""
        ordered = member.serving.service.popping.terms.ordered
        popped = ordered.popped

        def given(
            key: tuple[str, str, int],
            attempt: str | None,
            pop_ms: int,
            invisible_ms: int,
            offsets: tuple[int, ...],
        ) -> Mapping[int, int]:
            self._given(member, key[2], attempt, pop_ms, invisible_ms, offsets)
            return popped(key, attempt, pop_ms, invisible_ms, offsets)

        ordered.popped = given  # type: ignore[method-assign]

    def _given(
        self,
        member: Member,
        queue_id: int,
        attempt: str | None,
        pop_ms: int,
        invisible_ms: int,
        offsets: tuple[int, ...],
    ) -> None:
        world, last = self.world, self._out.get(queue_id)
        world.count("ordered.given")
        passed = [place for place in range(offsets[0]) if place not in self._acked[queue_id]]
        if passed:
            raise InvariantBroken(
                f"{offsets[0]} of queue {queue_id} is given in order, and {passed[0]} was never "
                "acknowledged"
            )
        if last is not None and member.epoch < last.epoch:
            world.count("ordered.deposed")
            return
        if last is not None and attempt != last.attempt:
            self._judge_again(member, queue_id, last)
        until_ms = world.now_ms + invisible_ms
        until = dict.fromkeys(offsets, until_ms)
        self._out[queue_id] = Out(member.epoch, attempt, pop_ms, world.now_ms, until)

    def _judge_again(self, member: Member, queue_id: int, last: Out) -> None:
        now_ms = self.world.now_ms + self._spread_ms()
        hidden = [
            offset
            for offset, until_ms in last.until.items()
            if offset not in self._acked[queue_id] and now_ms < until_ms
        ]
        if not hidden:
            return
        self.world.count("ordered.twice")
        if member.epoch == last.epoch or self._was_told(member.epoch, last.epoch, last.at_ms):
            raise InvariantBroken(
                f"queue {queue_id} is popped in order in epoch {member.epoch}, and {hidden[0]} is "
                f"out since epoch {last.epoch}, which its master knows"
            )

    def acks(self, one: Gotten) -> None:
        """A client says that it is done with it, and may never hear whether that was heard."""
        self._acked[one.handle.queue_id].add(one.handle.offset)
        self.acked_keys.add(one.body.decode())

    def changes(self, one: Gotten, invisible_ms: int) -> None:
        """A client asks for another time; whether that was heard it may never hear."""
        out, offset = self._out.get(one.handle.queue_id), one.handle.offset
        if out is not None and out.pop_ms == one.handle.pop_ms and offset in out.until:
            until_ms = self.world.now_ms + invisible_ms
            out.until[offset] = min(out.until[offset], until_ms)
