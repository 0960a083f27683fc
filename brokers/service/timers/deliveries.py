"""What became of messages of the wheel: put into the log, given up, waited for (PROTOCOL 4.18).

Responsible for: counting all of it; a damaged message is waited for and then passed, never in
silence. Refuses to know: where messages come from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from brokers.clock import Clock
from brokers.service.sending.outlet import Outlet
from brokers.service.tables.topics import REVIVE_PREFIX
from brokers.service.timers.slot_reader import Chunk
from brokers.store.log.integrity import BadRecord
from brokers.store.log.records import MessageFields, RecordError

# A damaged message holds the wheel up so long, for somebody may have it sound.
DAMAGED_WAIT_MS = 60_000

_log = logging.getLogger("regent.broker.timers")


class Deliveries:
    """Counts since the start of the process: `delivered`, `rolled`, `recalled` messages;
    `repeated`: left out, for their slot had them already, or a master before delivered them;
    `gone`: the log has them no more; `parked`: they cannot be delivered. `outlet`: where they go.
    """

    def __init__(
        self, puts: Outlet, clock: Clock, repair: Callable[[BadRecord, str], object]
    ) -> None:
        self.outlet = puts
        self._own = puts
        self.keeps: Callable[[MessageFields], bool] = lambda record: False
        """Of the revive topic, while this slave acts: whether it is dealt with here."""
        self._clock = clock
        self._repair = repair
        self._damaged_since: dict[str, int] = {}
        self.delivered = self.rolled = self.recalled = 0
        self.repeated = self.gone = self.parked = 0

    def forget(self) -> None:
        """Another role has begun: nothing is waited for."""
        self._damaged_since.clear()

    def put(self, copies: Sequence[MessageFields], rolls: int = 0) -> int:
        """Put one behind the other, `rolls` of them into the timer topic again; where the
        last one ends. NotPut: none is there.
        """
        end_offset = 0
        if self.outlet is not self._own and not self.outlet.is_full:
            copies = [copy for copy in copies if not self._is_kept(copy)]
        for result in self.outlet.append(copies) if copies else ():
            if isinstance(result, RecordError):
                self.park(str(result))
            else:
                end_offset = result.end_offset
                self.delivered += 1
        self.delivered -= rolls
        self.rolled += rolls
        return end_offset

    def _is_kept(self, copy: MessageFields) -> bool:
        return copy.topic.startswith(REVIVE_PREFIX) and self.keeps(copy)

    def put_chunk(self, chunk: Chunk) -> int:
        """As `put`, of a slot."""
        end_offset = self.put(chunk.copies, chunk.rolled)
        self.recalled += chunk.recalled
        self.repeated += chunk.repeated
        self.gone += chunk.gone
        for why in chunk.refused:
            self.park(why)
        return end_offset

    def park(self, why: str, queue_offset: int | None = None) -> None:
        """A message is not delivered."""
        self.parked += 1
        which = "" if queue_offset is None else f" {queue_offset} of its topic"
        _log.error("timed message%s is not delivered: %s", which, why)

    def gives_up(self, bad: BadRecord, where: str) -> bool:
        """Whether a damaged message is passed, for nobody had it sound for long enough."""
        self._repair(bad, "timers")
        since = self._damaged_since.setdefault(where, self._clock.now_ms())
        if self._clock.now_ms() - since < DAMAGED_WAIT_MS:
            return False
        self.park(bad.reason)
        self.sound(where)
        return True

    def sound(self, where: str) -> None:
        """What is read there is sound, or passed."""
        self._damaged_since.pop(where, None)

    def waits(self, where: str) -> bool:
        """Whether a damaged message is waited for there."""
        return where in self._damaged_since
