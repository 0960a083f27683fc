"""What happens to a group: cuts, losses, deaths, pauses, slow and full disks, wiped ones.

Responsible for: how each is done, and that what was done is undone in the end. Refuses to know: how
often, and what has to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.simulation.majority.group import Group
from tests.simulation.majority.replica import Replica


class Faults:
    """`kinds`: by name; each tells whether it could be done."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._world = group.world
        self.kinds: Mapping[str, Callable[[], bool]] = {
            "cut_pair": self._cut_pair,
            "cut_one_way": self._cut_one_way,
            "isolate": self._isolate,
            "isolate_leader": self._isolate_leader,
            "depose": self._depose,
            "mend": self._mend,
            "lossy": self._lossy,
            "slow_net": self._slow_net,
            "doubles": self._doubles,
            "kill": self._kill,
            "kill_leader": self._kill_leader,
            "kill_between": self._kill_between,
            "stop": self._stop,
            "start": self._start,
            "all_lose_power": self._all_lose_power,
            "pause": self._pause,
            "slow_disk": self._slow_disk,
            "full_disk": self._full_disk,
            "unreadable": self._unreadable,
            "wipe": self._wipe,
            "clean": self._clean,
            "transfer": self._transfer,
            "usurp": self._usurp,
        }

    def heal(self) -> None:
        """Everything is as it should be, from here on."""
        links = self._group.links
        links.cuts.clear()
        links.loss = links.doubles = 0
        links.slow_ms = 4
        for one in self._group.replicas:
            one.flush_ms, one.log.full, one.log.unreadable, one.dies_in = 1, False, 0, None
            if not one.up:
                one.start()

    # -- network ---------------------------------------------------------------------------------

    def _some(self) -> Replica:
        return self._world.chance.choice(self._group.replicas)

    def _leader(self) -> Replica:
        leaders = self._group.leaders()
        return self._world.chance.choice(leaders) if leaders else self._some()

    def _others(self, one: Replica) -> list[Replica]:
        return [other for other in self._group.replicas if other is not one]

    def _pair(self, both: bool) -> bool:
        one = self._some()
        if not self._others(one):
            return False
        self._group.links.cut(one.name, self._world.chance.choice(self._others(one)).name, both)
        return True

    def _cut_pair(self) -> bool:
        return self._pair(both=True)

    def _cut_one_way(self) -> bool:
        return self._pair(both=False)

    def _away(self, one: Replica) -> bool:
        for other in self._others(one):
            self._group.links.cut(one.name, other.name)
        return True

    def _isolate(self) -> bool:
        return self._away(self._some())

    def _isolate_leader(self) -> bool:
        return self._away(self._leader())

    def _depose(self) -> bool:
        """A leader is alone for as long as it takes to elect another one."""
        one = self._leader()
        if not one.leads:
            return False
        self._away(one)
        self._world.after(2_600, self._mend)
        return True

    def _mend(self) -> bool:
        cuts = bool(self._group.links.cuts)
        self._group.links.cuts.clear()
        return cuts

    def _lossy(self) -> bool:
        self._group.links.loss = self._world.chance.choice([0, 5, 20])
        return True

    def _slow_net(self) -> bool:
        self._group.links.slow_ms = self._world.chance.choice([4, 60, 900])
        return True

    def _doubles(self) -> bool:
        self._group.links.doubles = self._world.chance.choice([0, 2, 8])
        return True

    # -- processes -------------------------------------------------------------------------------

    def _die(self, one: Replica, power: bool) -> bool:
        if not one.up:
            return False
        one.stop(power)
        self._world.after(self._world.between(200, 4_000), lambda: self._back(one))
        return True

    def _back(self, one: Replica) -> None:
        if not one.up:
            one.start()

    def _kill(self) -> bool:
        return self._die(self._some(), power=True)

    def _kill_leader(self) -> bool:
        return self._die(self._leader(), power=True)

    def _kill_between(self) -> bool:
        """Some effects from here on, in the middle of their list."""
        one = self._leader() if self._world.one_in(2) else self._some()
        one.dies_in = self._world.between(1, 40)
        self._world.after(5_000, lambda: self._back(one))
        return one.up

    def _stop(self) -> bool:
        return self._die(self._some(), power=False)

    def _start(self) -> bool:
        down = [one for one in self._group.replicas if not one.up]
        for one in down:
            one.start()
        return bool(down)

    def _all_lose_power(self) -> bool:
        for one in self._group.replicas:
            self._die(one, power=True)
        return True

    def _pause(self) -> bool:
        one = self._leader() if self._world.one_in(2) else self._some()
        until_ms = self._world.now_ms + self._world.chance.choice([300, 2_500, 6_000])
        one.paused_until_ms = max(one.paused_until_ms, until_ms)
        return True

    # -- disks -----------------------------------------------------------------------------------

    def _slow_disk(self) -> bool:
        self._some().flush_ms = self._world.chance.choice([1, 40, 400, 1_500])
        return True

    def _full_disk(self) -> bool:
        one = self._some()
        one.log.full = not one.log.full
        return True

    def _unreadable(self) -> bool:
        """A leader cannot read some of what it is to send; a follower would leave."""
        one = self._leader()
        if not one.leads:
            return False
        one.log.unreadable = 2
        self._world.after(60, lambda: setattr(one.log, "unreadable", 0))
        return True

    def _wipe(self) -> bool:
        """A replica comes back empty; its folder says that it once held something."""
        one = self._some()
        if len(self._group.replicas) == 1 or any(o.log.owed for o in self._group.replicas):
            return False
        was_up = self._die(one, power=True)
        if was_up:
            one.log.wipe()
        return was_up

    def _clean(self) -> bool:
        """Old entries go, as far as the product lets them; now and then what no follower that is
        away would want, as on a disk that is too full.
        """
        done = False
        for one in self._group.replicas:
            if one.core is not None and self._world.one_in(2):
                below = one.core.droppable(one.core.committed)
                if self._world.one_in(3):
                    below = one.core.committed
                done = done or below > one.log.first_index >= 0
                one.log.drop_below(below)
        return done

    # -- operators -------------------------------------------------------------------------------

    def _usurp(self) -> bool:
        """A leader hands over, and is cut off in the very moment in which its successor stands: it
        hears nothing of it. Of five, one stays with it.
        """
        leader = self._leader()
        if not self._transfer_of(leader) or leader.core is None:
            return False
        self._cut_off_when_replaced(leader, leader.core.standing.term, tries=40)
        return True

    def _cut_off_when_replaced(self, leader: Replica, term: int, tries: int) -> None:
        others = [one for one in self._others(leader) if one.core is not None]
        beyond = [one for one in others if one.core and one.core.standing.term > term]
        if not beyond:
            if tries:
                self._world.after(1, lambda: self._cut_off_when_replaced(leader, term, tries - 1))
            return
        behind = [one for one in others if one not in beyond]
        side = [leader, *behind[: len(self._group.replicas) // 2 - 1]]
        for one in side:
            for other in self._group.replicas:
                if other not in side:
                    self._group.links.cut(one.name, other.name)
        self._world.after(2_600, self._mend)

    def _transfer(self) -> bool:
        return self._transfer_of(self._leader())

    def _transfer_of(self, leader: Replica) -> bool:
        if not leader.leads or not self._others(leader):
            return False
        to = self._world.chance.choice(self._others(leader)).name
        now_ms = self._world.now_ms

        def told(answer: object) -> None:
            self._world.count(f"transfer.{getattr(answer, 'code', '')}")

        leader.hear(lambda core: core.transfer(told, to, now_ms))
        return True
