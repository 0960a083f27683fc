"""Asking where a master of the Java kind takes HA links; a controller does not know it
(RULES 10.5).

Responsible for: asking the master itself (906 without fields, as RocketMQ's brokers ask each other)
and the name servers (the answer to a registration, as RocketMQ's slaves learn it), and handing on
what they say.
Refuses to know: whose word counts more, links.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from brokers.remoting.addresses import split_address
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.replica.ha_address import HaAddressSource

CALL_TIMEOUT_MS = 1_000

_log = logging.getLogger("regent.broker.ha_address")

Told = Callable[[str, str, HaAddressSource], None]


class HaLookup:
    """`told(master address, HA address, whose word)`; `register_anew` makes every name server
    answer once more.
    """

    def __init__(
        self, client: RemotingClient, register_anew: Callable[[], None], told: Told
    ) -> None:
        self._client = client
        self._register_anew = register_anew
        self._told = told
        self._asking: asyncio.Task[None] | None = None

    def ask(self, master_address: str) -> None:
        """Without waiting; one question at a time. An empty address: only name servers may know."""
        self._register_anew()
        if master_address and (self._asking is None or self._asking.done()):
            self._asking = asyncio.ensure_future(self._ask_master(master_address))

    def name_server_said(self, master_address: str, ha_address: str) -> None:
        self._hand_on(master_address, ha_address, HaAddressSource.NAME_SERVER)

    async def _ask_master(self, master_address: str) -> None:
        try:
            request = RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO)
            answer = await self._client.call(master_address, request, CALL_TIMEOUT_MS)
        except (RemotingError, ValueError) as error:
            _log.info("asking %s for its HA address: %s", master_address, error)
            return
        # Only an acting master fills the answer in; one that has not arrived in its role leaves it
        # empty.
        ha_address = answer.ext.get("masterHaAddress")
        if answer.code == ResponseCode.SUCCESS and ha_address:
            self._hand_on(master_address, ha_address, HaAddressSource.MASTER)

    def _hand_on(self, master_address: str, ha_address: str, word: HaAddressSource) -> None:
        try:
            split_address(ha_address)
        except ValueError:
            _log.warning(
                "%s is no HA address (of %s, by the %s)", ha_address, master_address, word.name
            )
            return
        self._told(master_address, ha_address, word)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
