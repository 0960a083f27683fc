"""What it means to start and to stop each of the services that deliver by themselves
(PROTOCOL 7.2).

Responsible for: the steps, in their order. Refuses to know: how a step is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brokers.acting.messages import MASTER_ID


class Special(Enum):
    """A service that puts messages without being asked."""

    LEVELS = "delay levels"
    TIMERS = "timer wheel"
    TRANSACTIONS = "questions about transactions"
    REVIVAL = "revival of pops"
    PLUGINS = "what is attached"


class Step(Enum):
    """What a service does when it is switched."""

    LOAD_PLACES = "read the places as they are told"
    CLAMP = "move them into what the queues hold"
    READ_TIME_FROM_CHECK_POINT = "go on from the check point's read time"
    START = "start"
    DEQUEUE = "deliver what is due"
    HOLD_DEQUEUE = "deliver nothing; follow the master's places"
    STOP = "stop at the next look, and wait for what is under way for 5 s at most"
    PERSIST = "write the places down"
    TELL = "hear that the status changed"


@dataclass(frozen=True, slots=True)
class Switch:
    """Steps of one service, in their order. `starts_as_master`: it runs from the start of the
    process on where the id is 0, before anybody went online.
    """

    on: tuple[Step, ...]
    off: tuple[Step, ...]
    starts_as_master: bool = False

    def initially_on(self, broker_id: int) -> bool:
        return self.starts_as_master and broker_id == MASTER_ID


SWITCHES: dict[Special, Switch] = {
    Special.LEVELS: Switch((Step.LOAD_PLACES, Step.CLAMP, Step.START), (Step.STOP, Step.PERSIST)),
    Special.TIMERS: Switch(
        (Step.READ_TIME_FROM_CHECK_POINT, Step.DEQUEUE),
        (Step.READ_TIME_FROM_CHECK_POINT, Step.HOLD_DEQUEUE),
        starts_as_master=True,
    ),
    Special.TRANSACTIONS: Switch((Step.START,), (Step.STOP,)),
    Special.REVIVAL: Switch((Step.START,), (Step.STOP,), starts_as_master=True),
    Special.PLUGINS: Switch((Step.TELL,), (Step.TELL,)),
}
"""In the order in which they are switched."""
