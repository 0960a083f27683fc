"""The library of the stock Java client 5.3.3 pops, acknowledges, changes times and asks for its
queues at a broker of ours, and reads all answers; a Java broker goes on with what is out at ours,
and ours with what is out at Java's.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from infra.features.pop_requests import ack_request
from infra.processes.ports import pick_block
from tests.interop.java_rocketmq import BROKER_JVM, BROKER_SETTINGS, fetch_jars, write_properties
from tests.interop.stage import HERE, client_jars, compiler
from tests.support.brokers import free_port, send_request
from tests.support.client_service import Desk
from tests.support.pops import popped

pytestmark = pytest.mark.long
# An invisible time of 40 s that had just begun, and a busy machine.
BACK_WITHIN_S = 90


def class_path(folder: Path) -> str:
    jars = client_jars(lambda _: None)
    program = str(HERE / "PopClient.java")
    subprocess.run([compiler(), "-cp", f"{jars}/*", "-d", str(folder), program], check=True)
    return f"{jars}/*:{folder}"


async def lines_of(address: str, folder: Path, classes: str, *words: str) -> list[str]:
    """What the program printed, without the library's own log."""
    java = await asyncio.create_subprocess_exec(
        "java",
        f"-Duser.home={folder}",
        "-cp",
        classes,
        "PopClient",
        address,
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(java.communicate(), 200)
    finally:
        if java.returncode is None:
            java.kill()
            await java.wait()
    assert java.returncode == 0, output.decode()
    return [line for line in output.decode().splitlines() if "|-" not in line]


def given(lines: list[str], what: str) -> dict[str, dict[str, str]]:
    """Body of each message under this heading, and what is told of it."""
    found, here = {}, False
    for line in lines:
        if not line.startswith("   "):
            here = line.startswith(f"{what} ")
        elif here:
            body, topic, rest = line.strip().split(" ", 2)
            times, told = rest.removeprefix("times=").split(" ck=")
            found[body] = {"topic": topic, "times": times, "ck": told.split(" 1st=")[0]}
    return found


async def test_the_java_client_pops(tmp_path: Path) -> None:
    classes = class_path(tmp_path)
    async with Desk(tmp_path / "store") as desk:
        desk.lead()
        for number in range(6):
            queue = 0 if number < 4 else 1
            request = send_request("T", b"m%d" % number, queue, key=f"K{number}")
            assert (await desk.ask(request)).code == 0
        for number in range(3):
            await desk.ask(send_request("O", b"o%d" % number, 0))
        lines = await lines_of(desk.address, tmp_path, classes)
        revive = desk.service.popping.revive
        assert (revive.open, revive.parked) == (0, 0)
    first = list(given(lines, "pop"))
    assert sorted(first) == [f"m{number}" for number in range(6)]
    assert "batch OK" in lines and "notified true" in lines
    assert any(line.startswith("change OK") for line in lines)
    assert any(line.startswith("empty POLLING_NOT_FOUND") for line in lines)
    # the first was acknowledged, the next two in a batch, the fourth has a later time
    back, changed = given(lines, "back"), given(lines, "changed")
    assert sorted(back) == sorted(first[4:]) and list(changed) == [first[3]]
    for one in (*back.values(), *changed.values()):
        assert (one["topic"], one["times"]) == ("topic=T", "1")
        assert one["ck"].split(" ")[4] == "1"
    assert list(given(lines, "ordered")) == ["o0", "o1", "o2"]
    assert any(line.startswith("blocked POLLING_NOT_FOUND") for line in lines)
    assert lines.count("ack OK") == 7
    assigned = next(line for line in lines if line.startswith("assigned"))
    assert "queueId=-1" in assigned and "Mode=POP" in assigned
    assert "Mode=PULL" in next(line for line in lines if line.startswith("retry assigned"))


@asynccontextmanager
async def java_broker(folder: Path) -> AsyncIterator[str]:
    """A Java broker on the store folder of ours; killed at the end."""
    port, store = pick_block(4) + 2, folder / "store"
    settings = BROKER_SETTINGS | {
        "enableControllerMode": "false",
        "brokerId": "0",
        "allAckInSyncStateSet": "false",
        "minInSyncReplicas": "1",
        "inSyncReplicas": "1",
        "totalReplicas": "1",
        "brokerClusterName": "c",
        "brokerName": "b",
        "namesrvAddr": f"127.0.0.1:{free_port()}",
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "listenPort": str(port),
        "haListenPort": str(port + 1),
        "mappedFileSizeCommitLog": str(1 << 20),
        "mappedFileSizeConsumeQueue": "20000",
    }
    write_properties(folder / "broker.properties", settings)
    jars = fetch_jars(lambda _: None)
    with (folder / "broker.out").open("w") as output:
        java = await asyncio.create_subprocess_exec(
            "java",
            *BROKER_JVM,
            f"-Duser.home={folder}",
            f"-Drocketmq.home.dir={folder}",
            "-cp",
            f"{jars}/*",
            "org.apache.rocketmq.broker.BrokerStartup",
            "-c",
            str(folder / "broker.properties"),
            stdout=output,
            stderr=output,
            env={**os.environ, "ROCKETMQ_HOME": str(folder), "JAVA_TOOL_OPTIONS": ""},
        )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        java.kill()
        await java.wait()


async def test_82_what_is_out_comes_back_at_a_java_broker_and_again_at_ours(tmp_path: Path) -> None:
    classes = class_path(tmp_path)
    async with Desk(tmp_path / "store") as desk:
        desk.lead()
        for number in range(6):
            request = send_request("T", b"m%d" % number, number % 2, key=f"K{number}")
            assert (await desk.ask(request)).code == 0
        got = await popped(desk, group="jg", invisibleTime=8_000)
        done, left = {one.body for one in got[:3]}, {one.body.decode() for one in got[3:]}
        for one in got[:3]:
            assert (await desk.ask(ack_request(one.handle, group="jg"))).code == 0
        desk.store.checkpoint()
    async with java_broker(tmp_path) as address:
        lines = await lines_of(address, tmp_path, classes, "40000", "3", "1")
    taken = given(lines, "taken")
    assert set(taken) == left  # what was acknowledged at ours stays away
    assert all(one["times"] == "1" for one in taken.values())
    acked = next(line.split(" ")[1] for line in lines if line.startswith("ack "))
    async with Desk(tmp_path / "store") as desk:
        desk.lead(2)
        desk.confirm()  # what a start found in the log is every member's
        # at its time, and if Java was killed before it wrote its places at once as well
        async with asyncio.timeout(BACK_WITHIN_S):
            while desk.service.popping.revive.revived < 2:
                await asyncio.sleep(0.05)
        back = {one.body.decode() for one in await popped(desk, group="jg")}
        assert back >= left - {acked} and not back & {body.decode() for body in done}
