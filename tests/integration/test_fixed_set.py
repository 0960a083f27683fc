"""A set without controllers in processes of its own: a master and a slave, killed and paused.

The logs are compared byte by byte, as they lie on the disk.
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from tests.support.broker_program import BrokerProgram
from tests.support.brokers import send_request, until

SETTINGS = """
cluster_name = "regent"
broker_name = "fixed"
broker_id = {broker_id}
listen = "127.0.0.1:{port}"
ha_listen = "127.0.0.1:{ha_port}"
second_listen = false
store_dir = "{folder}/store"
name_servers = ["{name_server}"]
commit_log_file_bytes = 1048576
name_server_register_ms = 1000
ack_timeout_ms = 20000
disk_clean_forcibly_percent = 100
disk_full_percent = 100
"""
eventually = partial(until, pause_s=0.02)


async def test_each_of_two_is_killed_and_paused_and_both_hold_all_that_was_acknowledged(
    tmp_path: Path, name_server: str, client: RemotingClient
) -> None:
    master, slave = (BrokerProgram(tmp_path, number, name_server, SETTINGS) for number in (0, 1))
    acknowledged: list[bytes] = []

    async def send(to: BrokerProgram, count: int) -> None:
        for _ in range(count):
            body = b"body-%05d;" % len(acknowledged)
            answer = await client.call(to.address, send_request("T", body), 30_000)
            assert answer.code == 0, answer.remark
            acknowledged.append(body)

    async def linked() -> bool:
        try:
            answer = await client.call(master.address, RemotingCommand.request(907), 3_000)
        except RemotingError:
            return False
        links = fastjson.loads(answer.body)["haConnectionInfo"]
        return any(one["slaveAckOffset"] >= 0 for one in links)

    async def equal() -> bool:
        return master.commit_log() == slave.commit_log()

    try:
        for one in (master, slave):
            await one.start()
        await eventually(linked, "the slave is linked")
        await send(master, 50)
        await slave.end()
        await slave.start()
        await eventually(linked, "the killed slave is linked again")
        await send(master, 50)
        slave.tell(signal.SIGSTOP)
        waiting = asyncio.ensure_future(send(master, 1))
        done, _ = await asyncio.wait((waiting,), timeout=0.5)
        assert not done, "nobody else had it"
        slave.tell(signal.SIGCONT)
        await waiting
        await master.end()
        await master.start()
        await eventually(linked, "the slave found the killed master")
        await send(master, 50)
        await send(slave, 10)
        await eventually(equal, "both logs are equal")
        assert all(body in slave.commit_log() for body in acknowledged) and len(acknowledged) == 161
        assert not (master.folder / "store" / "epochFileCheckpoint").exists()
        assert await slave.end(signal.SIGTERM) == 0 and await master.end(signal.SIGTERM) == 0
        assert master.commit_log() == slave.commit_log()
    finally:
        for one in (slave, master):
            await one.end()
