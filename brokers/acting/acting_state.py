"""Whose turn it is: the smallest id of a set that lives acts for it (PROTOCOL 7.2).

Responsible for: what follows, and in which order, when another id becomes the smallest. Refuses to
know: where the news come from, times, whether this broker is to be believed alive.

A master never enters this machine; it delivers while it is online.
"""

from __future__ import annotations

from brokers.acting import effects as fx
from brokers.acting.messages import MASTER_ID

ACTING_VERSION_STEP = 1 << 20
"""RocketMQ counts one step of a version for 500 commits or 200 deliveries, and a slave begins with
the master's last copied version: after a short time in office its version could be the same, or
behind, though its places are newer. So who begins to act goes ahead by more than anybody may have
counted between two copies.
"""


class ActingState:
    """Of one slave. `min_id` 0 and no address: nothing was heard yet. `follows`: the master whose
    tables are copied.
    """

    def __init__(self, own_id: int, *, static_ha_address: bool) -> None:
        self._own_id = own_id
        self._static = static_ha_address
        self.min_id = MASTER_ID
        self.min_address: str | None = None
        self.follows: str | None = None
        self._ha_address: str | None = None
        self.acts = False

    def begin(self, min_id: int, min_address: str) -> list[fx.Effect]:
        """The broker goes online and hears who is the smallest."""
        self.min_id, self.min_address = min_id, min_address
        return self._act(f"broker {min_id} is the smallest of the set")

    def smallest_is(
        self,
        min_id: int,
        min_address: str | None,
        *,
        offline_address: str | None = None,
        ha_address: str | None = None,
        token: int = 0,
    ) -> list[fx.Effect]:
        """Nothing happens when the id is the same one: another address says nothing.

        `offline_address`, `ha_address`: as 905 names them; a poll names neither, and then the
        former smallest one is gone where a larger one follows it. `token`: for a question.
        """
        if min_id == self.min_id:
            return []
        if offline_address is None and ha_address is None and min_id > self.min_id:
            offline_address = self.min_address
        self.min_id, self.min_address = min_id, min_address
        effects = self._act(f"broker {min_id} is the smallest of the set")
        if offline_address is not None and offline_address == self.follows:
            self.follows = self._ha_address = None
            effects.append(fx.ForgetMaster(offline_address))
        if min_id == MASTER_ID and min_address is not None:
            if ha_address is None:
                effects.append(fx.AskHaInfo(token, min_address))
            else:
                effects += self.follow(min_address, ha_address)
        if min_id == MASTER_ID:
            effects.append(fx.RerunHeldPulls())
        return effects

    def follow(self, address: str, ha_address: str | None, *, wake: bool = True) -> list[fx.Effect]:
        """A master says, or somebody says of it, where it takes links. A static address stays.
        `wake`: the link is tried at once, even when nothing is new.
        """
        if self._own_id == MASTER_ID:
            return []
        ha_address = None if self._static else ha_address
        if not wake and (address, ha_address) == (self.follows, self._ha_address):
            return []
        self.follows, self._ha_address = address, ha_address
        return [fx.FollowMaster(address, ha_address)]

    def _act(self, reason: str) -> list[fx.Effect]:
        acts = self._own_id == self.min_id
        if acts == self.acts:
            return []
        self.acts = acts
        begins = acts and self._own_id != MASTER_ID
        bump: list[fx.Effect] = [fx.BumpVersions(ACTING_VERSION_STEP)] if begins else []
        return [*bump, fx.SpecialServices(acts, reason)]
