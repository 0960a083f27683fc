"""Brokers that leave a name server wait here, and leave together (PROTOCOL 4.20).

Responsible for: why one leaves; that their number is bounded, and that nobody waits twice for the
same reason.
Refuses to know: what becomes of a route when they leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from processors.nameserver.effects import Effect
from processors.nameserver.records import LiveBroker


class Why(Enum):
    """Why a broker leaves."""

    GOODBYE = "it unregistered"
    LOST = "its connection closed"
    SILENT = "it was silent"


@dataclass(frozen=True, slots=True)
class Departure:
    """A broker that is to leave, if it has not registered again since: `registration`."""

    broker_name: str
    address: str
    registration: int
    why: Why


@dataclass(frozen=True, slots=True)
class Left:
    """Who left of those that were to leave, and what follows from it, in order."""

    brokers: tuple[tuple[LiveBroker, Why], ...] = ()
    effects: tuple[Effect, ...] = ()


class Departures:
    """At most `limit` of them. One that finds no room is told so: a request is answered with an
    error, and for a lost or silent broker the next look finds it again.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # In the order in which they came; the value is not used.
        self._waiting: dict[Departure, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, departure: Departure) -> bool:
        """False: there is no room."""
        if departure in self._waiting:
            return True
        if len(self._waiting) >= self._limit:
            return False
        self._waiting[departure] = None
        return True

    def take(self) -> tuple[Departure, ...]:
        """All that wait."""
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken
