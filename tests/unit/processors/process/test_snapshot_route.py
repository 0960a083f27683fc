"""One controller gives a snapshot, another fetches it, over a real socket (design D4)."""

import asyncio
from pathlib import Path

import pytest

from processors.fold import snapshot_codec
from processors.log.snapshot_fetch import FetchFailed, fetch
from processors.log.snapshots import SnapshotFolder
from processors.process.http_front import HttpFront
from processors.process.snapshot_route import snapshot_route
from tests.support.controller_rig import Rig


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
