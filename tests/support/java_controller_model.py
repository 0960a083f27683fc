"""RocketMQ's own controller as RULES 5 and 6 describes it, defects included: what is
planned for it is tried here.

One leader, no unclean election, no log. Heartbeats count until `hang_up`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.migration.export_requests import Ask
from infra.migration.plan import JavaReplica, JavaSet


@dataclass
class _Set:
    replicas: dict[int, tuple[str, str]] = field(default_factory=dict)
    next_id: int = 1
    master: int | None = None
    epoch: int = 0
    members: set[int] = field(default_factory=set)
    set_epoch: int = 0


class JavaControllerModel:
    """`send` gives the code a Java controller answers with; `told` are the ids it sent a 1008, with
    the epoch.
    """

    def __init__(self) -> None:
        self.sets: dict[str, _Set] = {}
        self.alive: set[tuple[str, int]] = set()
        self.told: list[tuple[str, int, int]] = []

    def send(self, ask: Ask) -> int:
        name = ask.fields["brokerName"]
        match ask.code:
            case 904:
                beats = (
                    self.alive.add
                    if int(ask.fields["heartbeatTimeoutMills"]) > 0
                    else self.alive.discard
                )
                beats((name, int(ask.fields["brokerId"])))
                return 0
            case 1001:
                return self._alter(name, ask.fields, ask.body or {})
            case 1002:
                return self._elect(
                    name, int(ask.fields["brokerId"]), ask.fields["designateElect"] == "true"
                )
            case 1011:
                return self._clean(name, ask.fields)
            case 1013:
                return self._apply(
                    name, int(ask.fields["appliedBrokerId"]), ask.fields["registerCheckCode"]
                )
        return 3

    def hang_up(self) -> None:
        """The connection that heartbeats came over is closed: 5.3.3 forgets one of them, and only
        one.
        """
        if self.alive:
            self.alive.remove(min(self.alive))

    def seen(self, name: str) -> JavaSet | None:
        """What 1004, 1006 and 1012 show of a set."""
        one = self.sets.get(name)
        if one is None:
            return None
        replicas = tuple(
            JavaReplica(i, a, (name, i) in self.alive) for i, (a, _) in sorted(one.replicas.items())
        )
        return JavaSet(
            name,
            one.master,
            one.epoch,
            tuple(sorted(one.members)),
            one.set_epoch,
            replicas,
            one.next_id,
        )

    def _apply(self, name: str, broker_id: int, code: str) -> int:
        one = self.sets.get(name)
        if one is None:
            if broker_id != 1:
                return 2014
            one = self.sets[name] = _Set()
        if broker_id in one.replicas:
            return 0 if one.replicas[broker_id][1] == code else 2014
        one.replicas[broker_id] = (code.split(";")[0], code)
        one.next_id += 1
        return 0

    def _elect(self, name: str, broker_id: int, designate: bool) -> int:
        one = self.sets.get(name)
        if one is None:
            return 2010
        candidate = (
            broker_id
            if one.epoch == 0 and broker_id != -1
            else self._policy(name, one, broker_id if designate else None)
        )
        if candidate is not None and candidate == one.master:
            return 2011
        if candidate is None and broker_id != -1:
            return 2012
        one.epoch += 1
        one.master = candidate
        if candidate is None:
            return 2004
        one.members, one.set_epoch = {candidate}, one.set_epoch + 1
        self.told += [(name, i, one.epoch) for i in one.replicas if (name, i) in self.alive]
        return 0

    def _policy(self, name: str, one: _Set, preferred: int | None) -> int | None:
        living = sorted(i for i in one.members if (name, i) in self.alive)
        if one.master in living and preferred in (None, one.master):
            return one.master
        if preferred is not None:
            return preferred if preferred in living else None
        return living[0] if living else None

    def _alter(self, name: str, fields: Mapping[str, str], body: Mapping[str, Any]) -> int:
        one, wanted = self.sets[name], set(body["syncStateSet"])
        if wanted == one.members:
            return 2013
        if one.master is None or one.master != int(fields["masterBrokerId"]):
            return 2002
        if one.epoch != int(fields["masterEpoch"]):
            return 2000
        if one.set_epoch != body["syncStateSetEpoch"]:
            return 2001
        if not wanted <= set(one.replicas):
            return 2003
        if not all((name, i) in self.alive for i in wanted):
            return 2006
        if one.master not in wanted:
            return 2013
        one.members, one.set_epoch = wanted, one.set_epoch + 1
        return 0

    def _clean(self, name: str, fields: Mapping[str, str]) -> int:
        one = self.sets.get(name)
        ids = [
            int(part) for part in fields.get("brokerControllerIdsToClean", "").split(";") if part
        ]
        if (
            one is None
            or (not ids and one.master is not None)
            or any((name, i) in self.alive for i in ids)
        ):
            return 2009
        for broker_id in ids or list(one.replicas):
            one.replicas.pop(broker_id, None)
            one.members.discard(broker_id)
        if not one.members or not one.replicas:
            del self.sets[name]  # half of it in truth: it does not exist any more (section 6)
        return 0
