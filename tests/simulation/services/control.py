"""Who leads the set: one controller that never fails, since the worlds are about what a promotion
does to services and not about how it comes about.

Responsible for: hearing of members, electing one that was acknowledged to hold everything, the
SyncStateSet, telling all of it late or not at all. Refuses to know: what a replica makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.replica.effects import ProposeSyncSet
from brokers.replica.hooks import AlterResult
from brokers.replica.roles import RoleNotice
from tests.simulation.network import wake

if TYPE_CHECKING:
    from tests.simulation.services.member import Member
    from tests.simulation.services.realm import Realm

BEAT_MS, LOOK_MS, SILENT_MS, TELL_EVERY_MS = 200, 100, 700, 1_000
WAY_MS = (0, 30)
NOT_MASTER, OUTDATED, NOT_ALIVE = 2001, 2002, 2003
NAME = "k1"


class Control:
    """`epoch`: of the present mastership; `members`: by number."""

    name, life, up, paused = NAME, 1, True, False

    def __init__(self, realm: Realm) -> None:
        self.realm, self.world = realm, realm.world
        self.epoch = self.set_epoch = 0
        self.master: int | None = None
        self.members: set[int] = set()
        self.unclean: set[int] = set()
        self._heard: dict[int, int] = {}
        self._again()

    @property
    def addresses(self) -> dict[int, str]:
        return {one.number: one.address for one in self.realm.members}

    def _again(self) -> None:
        self._look()
        self.world.after(LOOK_MS, self._again)

    def reaches(self, member: Member) -> bool:
        """Both ways."""
        network = self.realm.network
        return not (network.is_cut(NAME, member.name) or network.is_cut(member.name, NAME))

    # -- what members say

    def beat(self, member: Member) -> None:
        if self.reaches(member):
            self._heard[member.number] = self.world.now_ms

    def registered(self, member: Member) -> None:
        """A new life, or one that says that it is unclean."""
        if not self.reaches(member):
            member.later(LOOK_MS, lambda: self.registered(member))
            return
        number = member.number
        self._heard[number] = self.world.now_ms
        if member.clean:
            self.unclean.discard(number)
        else:
            self.unclean.add(number)
            if len(self.members) > 1:
                self.members.discard(number)
                self.set_epoch += 1
        if not self.epoch:
            self.members = {number}
        if self.master in (None, number):
            self.master = None
            self._elect()
        self.asked(member)

    def asked(self, member: Member) -> None:
        """A member wants to know how things stand."""
        self.world.after(self.world.between(*WAY_MS), lambda: self._tell(member))

    async def altered(self, member: Member, effect: ProposeSyncSet) -> AlterResult:
        """An answer that does not come is unknown."""
        world = self.world
        await member.loop.sleep(world.between(*WAY_MS))
        if not self.reaches(member) or world.one_in(20):
            return AlterResult(None)
        code = self._judged(member, effect)
        await member.loop.sleep(world.between(*WAY_MS))
        if not self.reaches(member) or world.one_in(20):
            return AlterResult(None)
        return AlterResult(code, tuple(sorted(self.members)), self.set_epoch, self.epoch)

    def _judged(self, member: Member, effect: ProposeSyncSet) -> int:
        if member.number != self.master or effect.master_epoch != self.epoch:
            return NOT_MASTER
        if effect.base_set_epoch != self.set_epoch:
            return OUTDATED
        if any(not self._alive(one) for one in set(effect.members) - self.members):
            return NOT_ALIVE
        self.members, self.set_epoch = set(effect.members), self.set_epoch + 1
        self.unclean -= self.members
        self.world.count("set.changed")
        self.world.note(f"in sync: {sorted(self.members)}")
        return 0

    # -- elections

    def _alive(self, number: int) -> bool:
        return self.world.now_ms - self._heard.get(number, -SILENT_MS) < SILENT_MS

    def _look(self) -> None:
        if self.epoch and (self.master is None or not self._alive(self.master)):
            self._elect()

    def _elect(self) -> None:
        """One of those that hold everything, but a former life of the master."""
        able = [one for one in sorted(self.members - self.unclean) if self._alive(one)]
        others = [one for one in able if one != self.master]
        if others:
            self.lead(self.world.chance.choice(others))

    def lead(self, number: int) -> None:
        """That one, from now on. The set keeps those that live."""
        self.master, self.epoch = number, self.epoch + 1
        self.members = {one for one in self.members if self._alive(one)} | {number}
        self.set_epoch += 1
        self.world.count("elected")
        self.world.note(f"b{number} leads in epoch {self.epoch}, in sync {sorted(self.members)}")
        for member in self.realm.members:
            self.asked(member)

    def hand_over(self) -> bool:
        """To another one, while the master lives."""
        able = [one for one in sorted(self.members - self.unclean) if self._alive(one)]
        others = [one for one in able if one != self.master]
        if others:
            self.lead(self.world.chance.choice(others))
        return bool(others)

    def _tell(self, member: Member) -> None:
        if not member.up or not self.reaches(member) or not self.epoch:
            return
        master = None if self.master is None else self.realm.members[self.master - 1]
        notice = RoleNotice(
            self.master,
            None if master is None else master.address,
            None if master is None else master.ha_address,
            self.epoch,
            tuple(sorted(self.members)),
            self.set_epoch,
            self.addresses,
            source="control",
        )
        wake(self.world, member, 0, lambda: member.notice(notice))
