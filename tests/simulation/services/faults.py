"""What goes wrong in a set of brokers: one accident at a time, now and then.

Responsible for: doing it, and undoing what is not for ever. Never takes the last replica that is
known to hold everything: what is lost then was promised to nobody. Refuses to know: what must hold
all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.services.control import NAME
from tests.simulation.services.member import Member

if TYPE_CHECKING:
    from tests.simulation.services.realm import Realm

DOWN_MS = (50, 2_000)
PAUSE_MS = (50, 2_500)
HELD_MS, DIES_WITHIN_MS = 5_000, (100, 1_200)
CUT_MS = (100, 2_500)
BETWEEN_MS = (200, 2_500)
# What is popped under a clock that is ahead comes back so much later.
JUMPS_MS = (-3_600_000, -5_000, -1_000, 1_000, 5_000, 20_000)
JUMP_LASTS_MS = (500, 8_000)


@dataclass(frozen=True, slots=True)
class Mix:
    """Weights of the accidents, by name. `master`: one in so many hits whoever leads."""

    weights: dict[str, int]
    not_the_master_one_in: int = 3


class Faults:
    """Begins at once and goes on until `over`."""

    def __init__(self, realm: Realm, mix: Mix) -> None:
        self.realm, self.world, self.mix = realm, realm.world, mix
        self.over = False
        self._jumped: set[int] = set()
        self.kinds: dict[str, Callable[[Member], bool]] = {
            "kill": self._kill,
            "lose_power": self._lose_power,
            "lose_tail": self._lose_tail,
            "pause": self._pause,
            "cut_off": self._cut_off,
            "cut_from_control": self._cut_from_control,
            "hand_over": self._hand_over,
            "clock_jump": self._clock_jump,
        }
        self._again()

    def _again(self) -> None:
        self.world.after(self.world.between(*BETWEEN_MS), self._act)

    def _act(self) -> None:
        if self.over:
            return
        world = self.world
        name = world.chance.choices(list(self.mix.weights), list(self.mix.weights.values()))[0]
        member = self._whom()
        if member is not None and self.kinds[name](member):
            world.note(f"{name} {member.name}")
            world.count(f"fault.{name}")
        self._again()

    def _whom(self) -> Member | None:
        master = self.realm.control.master
        if master is not None and not self.world.one_in(self.mix.not_the_master_one_in):
            return self.realm.members[master - 1]
        return self.world.chance.choice(self.realm.members)

    def _may_go(self, member: Member) -> bool:
        """Another one that holds everything stays."""
        control = self.realm.control
        return any(
            other.up and other.clean and other is not member
            for number in control.members - control.unclean
            for other in (self.realm.members[number - 1],)
        )

    def _kill(self, member: Member) -> bool:
        if not member.up:
            return False
        member.kill()
        self._start_later(member)
        return True

    def _start_later(self, member: Member) -> None:
        self.world.after(self.world.between(*DOWN_MS), lambda: member.up or member.start())

    def _lose_power(self, member: Member) -> bool:
        if not member.up or not self._may_go(member):
            return False
        member.lose_power()
        self._start_later(member)
        return True

    def _lose_tail(self, member: Member) -> bool:
        """Its followers get its tables and not its log, and then it dies."""
        links, life = member.links, member.life
        if not member.up or links is None:
            return False
        links.hold(HELD_MS)

        def die() -> None:
            if member.up and member.life == life:
                self._kill(member)

        self.world.after(self.world.between(*DIES_WITHIN_MS), die)
        return True

    def _pause(self, member: Member) -> bool:
        if not member.up or member.paused:
            return False
        member.paused, life = True, member.life

        def go_on() -> None:
            if member.life == life:
                member.paused = False

        self.world.after(self.world.between(*PAUSE_MS), go_on)
        return True

    def _cut(self, member: Member, others: list[str]) -> bool:
        pairs = [pair for other in others for pair in ((member.name, other), (other, member.name))]
        mend = self.realm.network.cut(pairs)
        self.world.after(self.world.between(*CUT_MS), mend)
        return True

    def _cut_off(self, member: Member) -> bool:
        """From the other members, or from them and the control."""
        others = [one.name for one in self.realm.members if one is not member]
        return self._cut(member, others + ([NAME] if self.world.one_in(2) else []))

    def _cut_from_control(self, member: Member) -> bool:
        return self._cut(member, [NAME])

    def _hand_over(self, _member: Member) -> bool:
        return self.realm.control.hand_over()

    def _clock_jump(self, member: Member) -> bool:
        """For less than a minute: a longer one is meant."""
        if member.number in self._jumped:
            return False
        jump_ms = self.world.chance.choice(JUMPS_MS)
        self._jumped.add(member.number)
        self._shift(member, jump_ms)

        def back() -> None:
            self._jumped.discard(member.number)
            self._shift(member, -jump_ms)

        self.world.after(self.world.between(*JUMP_LASTS_MS), back)
        return True

    def _shift(self, member: Member, by_ms: int) -> None:
        member.wall_shift_ms += by_ms
        self.realm.promises.clock_jumped(member)

    def heal(self) -> None:
        """Nothing is wrong any more, and nothing will be."""
        self.over = True
        self.realm.network.heal()
        for member in self.realm.members:
            member.paused = False
            if not member.up:
                member.start()
