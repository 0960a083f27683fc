"""Snapshots that are well-formed, of the right offset and history, and wrong.

Refuses to know: who would believe one.
"""

from __future__ import annotations

from msgspec.structs import replace

from processors.fold import snapshot_codec
from processors.fold.folder import Folder
from processors.fold.recent_commands import RecentCommands
from processors.fold.state import BrokerSet, ControllerState
from tests.simulation.world import World


def forged(data: bytes, set_name: str, world: World) -> bytes | None:
    """Another state under the same offset and digest; None when there is nothing to change."""
    folder = snapshot_codec.load(data)
    known = folder.state.sets.get(set_name)
    if known is None or known.master_broker_id is None:
        return None
    change = world.chance.choice(
        [_another_master, _smaller_set, _earlier_epoch, _nothing_remembered]
    )
    made = snapshot_codec.dump(change(folder, known))
    return None if made == data else made


def _with_set(folder: Folder, changed: BrokerSet) -> Folder:
    return _with_state(
        folder,
        replace(folder.state, sets=folder.state.sets.set(changed.broker_name, changed)),
        folder.recent,
    )


def _with_state(folder: Folder, state: ControllerState, recent: RecentCommands) -> Folder:
    return Folder(state, folder.offset, folder.digest, recent)


def _another_master(folder: Folder, known: BrokerSet) -> Folder:
    others = [one for one in known.sync_state_set if one != known.master_broker_id]
    return _with_set(
        folder, replace(known, master_broker_id=others[0] if others else known.master_broker_id)
    )


def _smaller_set(folder: Folder, known: BrokerSet) -> Folder:
    assert known.master_broker_id is not None
    return _with_set(folder, replace(known, sync_state_set=(known.master_broker_id,)))


def _earlier_epoch(folder: Folder, known: BrokerSet) -> Folder:
    return _with_set(folder, replace(known, master_epoch=known.master_epoch - 1))


def _nothing_remembered(folder: Folder, known: BrokerSet) -> Folder:
    """Commands that were decided look new."""
    return _with_state(folder, folder.state, RecentCommands())
