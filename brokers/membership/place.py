"""What the process around asks of a broker's place in its set, whoever gives it.

Responsible for: the one list, for `Membership` (controllers), `FixedMembership` (configuration) and
a majority group (`brokers/process/majority/place.py`). Refuses to know: how a place comes about.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import ProposeSyncSet
from brokers.replica.hooks import AlterResult


class PlaceInSet(Protocol):
    """`broker_id`: None before it is known; `registered`: it has its place; `replicas`: addresses
    of the set by broker id.
    """

    broker_id: int | None
    registered: asyncio.Event

    @property
    def leader(self) -> str | None:
        """The controller that leads, as far as known; None without any."""
        ...

    @property
    def replicas(self) -> dict[int, str]: ...
    @property
    def elects(self) -> bool:
        """Somebody could elect another master now."""
        ...

    def start(self) -> None: ...
    async def close(self) -> None: ...
    async def register(self) -> None: ...
    def addresses(self) -> dict[int, str]: ...
    def ask(self, elect: bool) -> None: ...
    def register_again(self) -> None: ...
    def notified(self, message: RemotingCommand) -> None: ...
    async def propose(self, effect: ProposeSyncSet, command_id: str) -> AlterResult: ...
    async def elect(self, broker_id: int, *, designate: bool) -> RemotingCommand | None: ...
    def failed(self) -> asyncio.Future[None]: ...
