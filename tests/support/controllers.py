"""Controller processes on a real Kafka, and brokers as they see them."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.server import RemotingServer
from tests.support.brokers import free_port

RUN = (
    "import asyncio, logging, sys\n"
    "from processors.process import controller\n"
    "from processors.settings import config\n"
    "logging.basicConfig(level=logging.WARNING); "
    "logging.getLogger('regent').setLevel(logging.INFO);"
    "sys.exit(asyncio.run(controller.run(config.load(sys.argv[1]))))"
)
WAIT_S = 90.0
CALL_MS = 20_000
"""A controller answers sooner (`request_deadline_ms`), a machine that does much else may not let
it.
"""
UNDECIDED = (1, 2, 2007)
"""Unknown, busy, nobody leads: a broker asks again, and so do the tests, for any stall of the log
is answered so.
"""
PATIENT = "watchdog_ms = 90000\n"
"""How long Faust may bring nothing. It may be as late as a busy machine makes it: records are read
directly meanwhile.
"""
NAMES = {"clusterName": "C", "brokerName": "a"}


class Controllers:
    """Controller processes, two by default, and calls to them. `more`: further lines of each
    configuration.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        cluster: str,
        names: Sequence[str] = ("c1", "c2"),
        more: str = PATIENT,
    ) -> None:
        self.folder = folder
        self.addresses = {name: f"127.0.0.1:{free_port()}" for name in names}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.client = RemotingClient()
        for name, address in self.addresses.items():
            peers = "".join(
                (f'{other} = "{at}"\n') for other, at in self.addresses.items() if other != name
            )
            (folder / f"{name}.toml").write_text(
                f'controller_id = "{name}"\ncluster_id = "{cluster}"\nlisten = "{address}"\n'
                f'data_dir = "{folder / name}"\nlocal_cluster = true\nsnapshot_every_offsets = '
                f"10\n{more}"
                f'[peers]\n{peers}[kafka]\n"bootstrap.servers" = "{bootstrap}"\n',
                encoding="utf-8",
            )

    def start(self, name: str, planted: str = "") -> None:
        """Start one; `planted` is code that runs before it, to break something in it."""
        with (self.folder / f"{name}.log").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-c", f"{planted}\n{RUN}", str(self.folder / f"{name}.toml")],
                stdout=output,
                stderr=output,
            )

    def wait_end(self, name: str) -> tuple[int, str]:
        """Wait until a process has ended by itself; its exit code and everything it said."""
        code = self.processes[name].wait(WAIT_S)
        del self.processes[name]  # Not before: whoever does not end is ended by `close`.
        return code, self.said(name)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def end(self, name: str, number: int) -> int:
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(WAIT_S)

    async def close(self) -> None:
        for name in list(self.processes):
            self.end(name, signal.SIGKILL)
        await self.client.close()

    async def status(self, name: str) -> dict:  # type: ignore[type-arg]
        try:
            answer = await self.client.call(
                self.addresses[name], RemotingCommand.request(19002), 1_000
            )
        except RemotingError:
            return {"ready": False, "role": "none"}
        return json.loads(answer.body)

    async def asked(
        self,
        name: str,
        code: int,
        ext: dict[str, str],
        body: bytes = b"",
        client: RemotingClient | None = None,
    ) -> RemotingCommand:
        """The first answer that says what came of it. Repeats have one command id, so nothing is
        decided twice.
        """
        ext, client = {**ext, "regentCommandId": secrets.token_hex(16)}, client or self.client
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while True:
            try:
                answer = await client.call(
                    self.addresses[name], RemotingCommand.request(code, dict(ext), body), CALL_MS
                )
                if answer.code not in UNDECIDED or asyncio.get_running_loop().time() > deadline:
                    return answer
            except RemotingError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(0.05)

    async def until(self, condition, what: str) -> dict[str, dict]:  # type: ignore[no-untyped-def, type-arg]
        """The statuses that meet the condition. One that does not answer in time, or still starts,
        tells less: it is asked again.
        """
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while True:
            statuses = {name: await self.status(name) for name in self.processes}
            with suppress(KeyError):
                if condition(statuses):
                    return statuses
            logs = "".join(path.read_text() for path in self.folder.glob("*.log"))
            assert asyncio.get_running_loop().time() < deadline, (
                f"waited in vain until {what}: {statuses}\n{logs}"
            )
            await asyncio.sleep(0.02)

    async def until_of(self, name: str, condition, what: str) -> None:  # type: ignore[no-untyped-def]
        """As `until`, asking one process only."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while not condition(await self.status(name)):
            assert asyncio.get_running_loop().time() < deadline, f"waited in vain until {what}"
            await asyncio.sleep(0.02)

    async def both_follow(self) -> tuple[str, str]:
        """(active, standby)"""
        statuses = await self.until(
            lambda all_: (
                len(all_) == 2
                and sorted(one["role"] for one in all_.values()) == ["active", "standby"]
                and all(one["ready"] for one in all_.values())
            ),
            "one leads and one stands by",
        )
        active = next(name for name, one in statuses.items() if one["role"] == "active")
        return active, next(name for name in statuses if name != active)


class Broker:
    """A broker as controllers see it: a port, heartbeats, calls."""

    def __init__(self, number: int, controllers: Controllers) -> None:
        self.number = number
        self.controllers = controllers
        self.client = RemotingClient()
        self.notices: list[RemotingCommand] = []
        self.server = RemotingServer(lambda connection, request: self.notices.append(request))
        self._beating: asyncio.Task[None] | None = None

    async def call(
        self, controller: str, code: int, ext: dict[str, str], body: bytes = b""
    ) -> RemotingCommand:
        """The first answer, whatever it says."""
        return await self.client.call(
            self.controllers.addresses[controller],
            RemotingCommand.request(code, ext, body),
            CALL_MS,
        )

    async def asked(
        self, controller: str, code: int, ext: dict[str, str], body: bytes = b""
    ) -> RemotingCommand:
        """The first answer that says what came of it."""
        return await self.controllers.asked(controller, code, ext, body, self.client)

    async def join(self, controller: str) -> RemotingCommand:
        await self.server.start()
        self.address = f"127.0.0.1:{self.server.port}"
        offered = await self.asked(controller, 1012, NAMES)
        assert offered.ext["nextBrokerId"] == str(self.number)
        code = {"appliedBrokerId": str(self.number), "registerCheckCode": f"{self.address};1"}
        assert (await self.asked(controller, 1013, NAMES | code)).code == 0
        registered = await self.asked(
            controller,
            1003,
            NAMES
            | {
                "brokerId": str(self.number),
                "brokerAddress": self.address,
                "regentIncarnation": f"i{self.number}",
                "regentClean": "true",
                "regentHaAddress": f"127.0.0.1:{self.number}",
            },
        )
        self._beating = asyncio.ensure_future(self._beat())
        return registered

    async def _beat(self) -> None:
        ext = NAMES | {
            "brokerAddr": self.address,
            "brokerId": str(self.number),
            "epoch": "0",
            "maxOffset": "100",
            "heartbeatTimeoutMills": "20000",
            "regentIncarnation": f"i{self.number}",
        }
        while True:
            for address in self.controllers.addresses.values():
                try:
                    await self.client.send_oneway(
                        address, RemotingCommand.request(904, ext, oneway=True)
                    )
                except RemotingError:
                    continue
            await asyncio.sleep(0.1)

    async def die(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        await self.server.close()
        await self.client.close()
