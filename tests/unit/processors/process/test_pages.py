from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from events.http_front import HttpFront
from processors.controller.core import ControllerCore
from processors.controller.metrics import Metrics
from processors.fold import snapshot_codec
from processors.log.controller_log import ControllerLog
from processors.log.snapshots import FetchFailed, SnapshotFolder, fetch
from processors.process.metrics_text import Disk
from processors.process.pages import (
    ControllerPages,
    disk_of,
    is_logger,
    levels,
    loggers,
    snapshot_route,
)
from processors.settings.config import ControllerConfig
from tests.support.controller_rig import Rig


class Process:
    """What the pages ask of the process around them."""

    core: ControllerCore | None = None


def config(folder: Path, http_listen: str = "127.0.0.1:0") -> ControllerConfig:
    return ControllerConfig(
        controller_id="c1",
        data_dir=folder,
        kafka={"bootstrap.servers": "k:9092"},
        http_listen=http_listen,
    )


def log(folder: Path) -> ControllerLog:
    return ControllerLog(
        config(folder), on_record=lambda offset, data: None, on_halt=lambda reason: None
    )


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
async def pages(tmp_path: Path, process: Process) -> AsyncIterator[ControllerPages]:
    made = ControllerPages(config(tmp_path), Metrics(), lambda: process.core, log(tmp_path))
    await made.start()
    yield made
    await made.close()


async def ask(pages: ControllerPages, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{pages.port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def test_it_is_healthy_while_it_starts_and_says_why_it_is_not_ready(
    pages: ControllerPages, process: Process
) -> None:
    assert await ask(pages, "/healthz") == (200, "ok\n")
    assert await ask(pages, "/readyz") == (
        503,
        "not ready: starting, commands are applied up to offset -1\n",
    )
    rig = Rig().lead()
    process.core = rig.core
    assert await ask(pages, "/readyz") == (200, "ready\n")
    assert "\nregent_leader_known 1.0\n" in (await ask(pages, "/metrics"))[1]
    process.core = Rig().core
    assert await ask(pages, "/readyz") == (503, "not ready: no controller leads\n")


async def test_the_newest_snapshot_is_given_away(pages: ControllerPages, tmp_path: Path) -> None:
    assert await ask(pages, "/snapshot") == (404, f"no snapshot at or below offset {2**63 - 1}\n")
    (tmp_path / "snapshots" / f"snapshot-{7:020d}.bin").write_bytes(b"state")
    assert await ask(pages, "/snapshot?not_above=9") == (200, "state")


async def test_metrics_are_there_before_anything_else_is(pages: ControllerPages) -> None:
    status, text = await ask(pages, "/metrics")
    assert (
        status == 200
        and ("# TYPE request_total counter") in text
        and "regent_snapshot_offset -1.0" in text
    )


async def test_a_log_level_is_changed_and_shown(pages: ControllerPages) -> None:
    name = "regent.controller"
    try:
        assert await ask(pages, f"/loglevel?level=debug&logger={name}", "PUT") == (
            200,
            f"{name} DEBUG\n",
        )
        assert f"{name} DEBUG" in (await ask(pages, "/loglevel"))[1].splitlines()
    finally:
        logging.getLogger(name).setLevel(logging.NOTSET)


async def test_a_name_that_is_no_logger_of_ours_is_refused_and_makes_none(
    pages: ControllerPages,
) -> None:
    before = set(logging.root.manager.loggerDict)
    for name in ("invented", "regent.invented", "asyncio"):
        status, said = await ask(pages, f"/loglevel?level=debug&logger={name}", "PUT")
        assert status == 400 and f"no logger {name!r}" in said and "regent.controller" in said
    assert not {"invented", "regent.invented"} & (set(logging.root.manager.loggerDict) - before)


async def test_a_level_that_is_none_is_refused_with_an_example(pages: ControllerPages) -> None:
    status, text = await ask(pages, "/loglevel?level=loud", "PUT")
    assert status == 400 and "PUT /loglevel?level=DEBUG&logger=regent.controller" in text


async def test_without_an_address_there_is_no_port(tmp_path: Path) -> None:
    off = ControllerPages(config(tmp_path, ""), Metrics(), lambda: None, log(tmp_path))
    await off.start()
    assert off.port is None
    await off.close()


def test_the_newest_snapshot_and_the_space_of_all_files_are_told(tmp_path: Path) -> None:
    assert disk_of(tmp_path, 0.0) == Disk(0, -1, -1.0)
    for offset in (5, 12):
        path = tmp_path / "snapshots" / f"snapshot-{offset:020d}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"12345")
        os.utime(path, (1_000.0, 1_000.0 + offset))
    (tmp_path / "notes.json").write_bytes(b"123")
    assert disk_of(tmp_path, 1_020.0) == Disk(13, 12, 8.0)


async def test_a_leader_that_lost_the_log_is_not_ready_until_it_is_back(
    pages: ControllerPages, process: Process
) -> None:
    rig = Rig().lead()
    process.core = rig.core
    rig.auto = False
    rig.pass_time(30_000)
    assert rig.core.is_active
    assert await ask(pages, "/readyz") == (503, "not ready: the log does not answer\n")
    status = json.loads((rig.request(19002) or pytest.fail("no answer")).body)
    assert (status["role"], status["ready"], status["log_answers"]) == ("active", False, False)


async def test_a_standby_that_lost_the_log_with_everybody_says_so_rather_than_that_nobody_leads(
    pages: ControllerPages, process: Process
) -> None:
    rig = Rig("c2", peers={"c1": "c1:9878"})
    process.core = rig.core
    rig.auto = False
    rig.pass_time(30_000)
    assert not rig.core.is_active and not rig.core.knows_leader
    assert await ask(pages, "/readyz") == (503, "not ready: the log does not answer\n")


async def test_the_newest_snapshot_that_is_old_enough_goes_to_whoever_asks(tmp_path: Path) -> None:
    rig = Rig().lead().three()
    snapshots = SnapshotFolder(tmp_path, 3)
    front = HttpFront("127.0.0.1", 0, {"/snapshot": snapshot_route(snapshots)})
    await front.start()
    address = f"127.0.0.1:{front.port}"
    try:
        with pytest.raises(FetchFailed, match="404: no snapshot"):
            await asyncio.to_thread(fetch, address, 99)
        snapshots.write(rig.folder)
        early = rig.folder.offset
        rig.alter("1", rig.state.sets["a"].sync_state_set_epoch)
        snapshots.write(rig.folder)
        newest = snapshot_codec.load(await asyncio.to_thread(fetch, address, 10**9))
        older = snapshot_codec.load(await asyncio.to_thread(fetch, address, early))
        assert (newest.digest, older.offset) == (rig.folder.digest, early)
        with pytest.raises(FetchFailed, match="400: not_above is an offset"):
            await asyncio.to_thread(fetch, address, -1)
    finally:
        await front.close()


def test_a_module_of_ours_that_logs_and_its_package_are_loggers() -> None:
    logging.getLogger("regent.controller")
    for name in ("regent", "regent.controller"):
        assert is_logger(name) and name in loggers()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "root",
        "nobody",
        "regent.invented",
        "processors.",
        "asyncio",
        "processorsx",
        "PROCESSORS",
    ],
)
def test_other_names_are_not_and_asking_makes_none(name: str) -> None:
    logging.getLogger("asyncio")
    before = dict(logging.root.manager.loggerDict)
    assert not is_logger(name) and name not in loggers()
    assert logging.root.manager.loggerDict == before


def test_the_levels_that_somebody_set_are_shown() -> None:
    logger = logging.getLogger("regent.controller")
    before = logger.level
    try:
        logger.setLevel(logging.ERROR)
        assert levels()["regent.controller"] == "ERROR" and "root" in levels()
        logger.setLevel(logging.NOTSET)
        assert "regent.controller" not in levels()
    finally:
        logger.setLevel(before)
