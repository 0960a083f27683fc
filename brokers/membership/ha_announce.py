"""A new master tells replicas of the Java kind where it takes HA links (906), so that they need not
wait for it.

A Java slave learns the address only from a name server's answer to its own registration, and
forgets it at every change of role. Registered before its new master was, it would stand idle until
its next registration, 10 to 60 s later; and the set may need it to acknowledge anything at all.

Responsible for: who is told, when, and for how long. Refuses to know: links, what the replica does
with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from brokers.clock import Clock
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand

PERIOD_MS = 1_000
# A Java broker registers at least this often; afterwards a word of ours could only be an old one.
TOLD_FOR_MS = 60_000
CALL_TIMEOUT_MS = 1_000

_log = logging.getLogger("regent.broker.ha_address")


@dataclass(frozen=True, slots=True)
class Mastership:
    """`epoch` is None while this broker does not lead. `replicas`: all of the set but itself, by
    broker id.
    """

    epoch: int | None
    address: str
    ha_address: str
    replicas: Mapping[int, str]
    linked: Collection[int]


class Announcements:
    """Replicas to announce to now: those without a link, early in a mastership."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._until_ms = 0

    def due(self, now: Mastership, now_ms: int) -> list[str]:
        if now.epoch != self._epoch:
            self._epoch, self._until_ms = now.epoch, now_ms + TOLD_FOR_MS
        if now.epoch is None or now_ms >= self._until_ms:
            return []
        return sorted(
            address
            for broker_id, address in now.replicas.items()
            if address and broker_id not in now.linked
        )


def announcement(now: Mastership) -> RemotingCommand:
    """906 with fields: its receiver adopts them, in any role."""
    ext = {
        "masterHaAddress": now.ha_address,
        "masterFlushOffset": "0",
        "masterAddress": now.address,
    }
    return RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO, ext)


async def run(
    client: RemotingClient, now: Callable[[], Mastership], clock: Clock, period_ms: int = PERIOD_MS
) -> None:
    """Runs as long as the broker. Announces to all side by side; a replica out of reach gets it
    next time.
    """
    announcements = Announcements()
    while True:
        present = now()
        addresses = announcements.due(present, clock.now_ms())
        await asyncio.gather(
            *(_tell(client, address, announcement(present)) for address in addresses)
        )
        await asyncio.sleep(period_ms / 1000)


async def _tell(client: RemotingClient, address: str, command: RemotingCommand) -> None:
    try:
        await client.call(address, command, CALL_TIMEOUT_MS)
    except (RemotingError, ValueError) as error:
        _log.info("telling %s where HA links are taken: %s", address, error)
