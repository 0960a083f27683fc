"""Many broker sets that come up in the same moment, over real sockets: id, registration, heartbeat,
master.

Refuses to know the rules of the controller: it asks as brokers ask, and asks again as they do.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand

CALL_TIMEOUT_MS = 5_000
WITHIN_S = 120.0
PAUSE_S = 0.2
UNKNOWN = 1
"""The code of an answer that came without a decision: it may still be taken."""
MASTER_KEPT = 2011
"""An earlier attempt, whose answer was lost, has made a master of it."""
HEARTBEAT_TIMEOUT_MS = 120_000
CLUSTER = "chaos"


@dataclass(slots=True)
class Registered:
    """`wrong`: sets that have no id, no registration or no master at the end, each with the
    reason.
    """

    connections: int = 0
    seconds: float = 0.0
    asked_again: int = 0
    wrong: list[str] = field(default_factory=list)


class ScriptedSet:
    """One broker of one set, on a socket of its own to each controller it talks to."""

    def __init__(self, number: int, controllers: Sequence[str], result: Registered) -> None:
        self._name = f"many-{number}"
        self._address = f"127.0.0.1:{10_000 + number}"
        self._controllers = list(controllers)
        self._at = number % len(self._controllers)
        self._client = RemotingClient()
        self._result = result

    async def come_up(self, deadline: float) -> None:
        names = {"clusterName": CLUSTER, "brokerName": self._name}
        mine = {"brokerId": "1", "brokerAddress": self._address}
        check = {"appliedBrokerId": "1", "registerCheckCode": f"{self._address};1"}
        living = {
            "regentIncarnation": self._name,
            "regentClean": "true",
            "regentHaAddress": self._address,
        }
        await self._ask(1012, names, deadline)
        await self._ask(1013, names | check, deadline)
        await self._ask(1003, names | mine | living, deadline)
        beat = names | {
            "brokerAddr": self._address,
            "brokerId": "1",
            "epoch": "0",
            "maxOffset": "0",
            "confirmOffset": "0",
            "heartbeatTimeoutMills": str(HEARTBEAT_TIMEOUT_MS),
            "regentIncarnation": self._name,
        }

        async def alive() -> None:
            for address in self._controllers:
                try:
                    await self._client.send_oneway(
                        address, RemotingCommand.request(904, beat, oneway=True)
                    )
                except RemotingError:
                    continue

        await alive()
        # Somebody who just leads may not have heard the heartbeat: it is sent again before each
        # attempt.
        await self._ask(1002, names | {"brokerId": "1"}, deadline, before=alive)

    async def master(self, deadline: float) -> str | None:
        answer = await self._ask(1004, {"brokerName": self._name}, deadline)
        return answer.ext.get("masterBrokerId")

    async def _ask(
        self,
        code: int,
        ext: dict[str, str],
        deadline: float,
        before: Callable[[], object] | None = None,
    ) -> RemotingCommand:
        """Ask until the answer is a yes, each time the next controller, under one command id, as
        brokers do.
        """
        why, ext = "no answer", {**ext, "regentCommandId": uuid.uuid4().hex}
        while time.monotonic() < deadline:
            try:
                answer = await self._client.call(
                    self._controllers[self._at],
                    RemotingCommand.request(code, dict(ext)),
                    CALL_TIMEOUT_MS,
                )
                if answer.code == 0 or (code, answer.code) == (1002, MASTER_KEPT):
                    return answer
                why = f"code {answer.code} {answer.remark or ''}"
                if answer.code != UNKNOWN:
                    # That one was refused; this is another attempt.
                    ext["regentCommandId"] = uuid.uuid4().hex
            except RemotingError as error:
                why = str(error)
            self._result.asked_again += 1
            self._at = (self._at + 1) % len(self._controllers)
            await asyncio.sleep(PAUSE_S)
            if before is not None:
                await before()  # type: ignore[misc]
        raise TimeoutError(f"{self._name}: {code}: {why}")

    async def close(self) -> None:
        await self._client.close()


async def register_all(
    controllers: Sequence[str], count: int, within_s: float = WITHIN_S
) -> Registered:
    """All of them at once; each must end with a master of its own."""
    result = Registered(connections=count * len(controllers))
    sets = [ScriptedSet(number, controllers, result) for number in range(count)]
    began = time.monotonic()
    deadline = began + within_s
    try:
        came = await asyncio.gather(
            *(one.come_up(deadline) for one in sets), return_exceptions=True
        )
        result.seconds = time.monotonic() - began
        result.wrong = [str(one) for one in came if isinstance(one, BaseException)]
        masters = await asyncio.gather(
            *(one.master(deadline + within_s) for one in sets), return_exceptions=True
        )
        result.wrong += [
            (f"set {number} has the master {one}")
            for number, one in enumerate(masters)
            if one != "1"
        ]
    finally:
        await asyncio.gather(*(one.close() for one in sets))
    return result
