"""Where the brokers of a majority group serve, by their own word, and who of them is to lead."""

from __future__ import annotations

from pathlib import Path

from brokers.process.majority.place import MajorityPlace
from brokers.remoting.codes import ResponseCode
from tests.support.brokers import until
from tests.support.majority_set import MajoritySet


def place(group: MajoritySet, name: str) -> MajorityPlace:
    found = group.brokers[name].membership
    assert isinstance(found, MajorityPlace)
    return found


async def test_members_tell_each_other_where_their_brokers_serve(tmp_path: Path) -> None:
    async with MajoritySet(tmp_path) as group:
        leader = await group.leader()
        told = {int(name[1:]) + 1: one.advertised for name, one in group.configs.items()}
        for name in group.brokers:
            await until(lambda name=name: place(group, name).addresses() == told, "all are known")
        view = group.brokers[leader].replica.core
        assert view is not None
        others = tuple(sorted(told.keys() - {int(leader[1:]) + 1}))
        await until(lambda: view.acknowledging_members == others, "both follow")
        assert place(group, leader).elects


async def test_whoever_is_chosen_leads_and_nobody_unknown_does(tmp_path: Path) -> None:
    async with MajoritySet(tmp_path) as group:
        leader = await group.leader()
        chosen = next(name for name in group.brokers if name != leader)
        assert await place(group, leader).elect(99, designate=True) is None
        await until(lambda: place(group, leader).elects, "somebody follows")
        answer = None
        while answer is None or answer.code:  # until its log is known to be level
            answer = await place(group, leader).elect(int(chosen[1:]) + 1, designate=True)
        assert await group.leader() == chosen
        refused = await place(group, leader).elect(int(chosen[1:]) + 1, designate=True)
        assert refused is not None and refused.code == ResponseCode.SYSTEM_ERROR


async def test_alone_nobody_could_take_over(tmp_path: Path) -> None:
    async with MajoritySet(tmp_path, 1) as group:
        only = await group.leader()
        assert place(group, only).addresses() == {1: group.configs[only].advertised}
        assert not place(group, only).elects and place(group, only).leader is None
