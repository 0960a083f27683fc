"""What the way in from a Java controller and the way back to one have in common.

Responsible for: reading what Java controllers and brokers answer (RULES 3.5 to 3.7, 3.11,
3.13) into plain facts, and for the shape of a plan: checks with their way out, and steps for the
operator.
Refuses to know: sockets, and which of the two ways is being planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MASTER_ROLE_ID = 0


class OddAnswer(ValueError):
    """A peer's answer has not the shape that its protocol promises."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold. `way_out` says what to do when it does not; `fatal` False is a
    warning.
    """

    name: str
    ok: bool
    what: str
    way_out: str = ""
    fatal: bool = True

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            "ok": self.ok,
            "fatal": self.fatal,
            "what": self.what,
            "way_out": "" if self.ok else self.way_out,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the operator does: why, the commands as they are typed, and what shows that it
    worked.
    """

    title: str
    commands: tuple[str, ...] = ()
    expect: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"title": self.title, "commands": list(self.commands), "expect": self.expect}


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """What one controller says of itself and its group (1005). `leader` is empty when it knows
    none.
    """

    address: str
    leader: str
    peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JavaReplica:
    """A registered replica as the Java controller lists it; `alive` is that controller's own
    view.
    """

    broker_id: int
    address: str
    alive: bool


@dataclass(frozen=True, slots=True)
class JavaSet:
    """One broker set in a Java controller: 1006 joined with 1004 (the raw set) and 1012."""

    name: str
    master_id: int | None
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    replicas: tuple[JavaReplica, ...]
    next_broker_id: int

    def replica(self, broker_id: int | None) -> JavaReplica | None:
        """The replica with that id, or None."""
        return next((one for one in self.replicas if one.broker_id == broker_id), None)

    @property
    def anyone_alive(self) -> bool:
        """Whether the controller hears any replica of this set."""
        return any(one.alive for one in self.replicas)


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What a broker says of itself (1007). `role_id` is 0 on a master; `last_epoch` is -1 with an
    empty epoch file.
    """

    address: str
    cluster_name: str
    broker_name: str
    role_id: int
    last_epoch: int
    max_offset: int

    @property
    def is_master(self) -> bool:
        """Whether it serves as master."""
        return self.role_id == MASTER_ROLE_ID


def controller_facts(address: str, ext: Mapping[str, str]) -> ControllerFacts:
    """Read a 1005. DLedger writes peers as `n0:h:p;`, jRaft as `h:p;` (RULES 3.6)."""
    peers = tuple(
        ":".join(part.split(":")[-2:]) for part in ext.get("peers", "").split(";") if part
    )
    return ControllerFacts(address, ext.get("controllerLeaderAddress", ""), peers)


def java_set(name: str, listed: Mapping[str, Any], raw: object, next_broker_id: int) -> JavaSet:
    """Join what 1006 lists of a set with `raw`, the body of its 1004, and the next id of 1012.

    1006 alone hides an id that is in the set without being registered (RULES 3.7).
    """
    try:
        replicas = [
            JavaReplica(
                int(one["brokerId"]), str(one.get("brokerAddress", "")), bool(one.get("alive"))
            )
            for one in [*listed.get("inSyncReplicas", ()), *listed.get("notInSyncReplicas", ())]
        ]
        if not isinstance(raw, Mapping):
            raise OddAnswer(f"set {name}: the replica info has no SyncStateSet")
        master = listed.get("masterBrokerId")
        return JavaSet(
            name,
            None if master is None else int(master),
            int(listed.get("masterEpoch", 0)),
            tuple(sorted(int(one) for one in raw.get("syncStateSet", ()))),
            int(raw.get("syncStateSetEpoch", 0)),
            tuple(sorted(replicas, key=lambda one: one.broker_id)),
            next_broker_id,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OddAnswer(f"set {name}: the controller's answer cannot be read ({error})") from None


def broker_facts(address: str, body: object) -> BrokerFacts:
    """Read a 1007."""
    try:
        if not isinstance(body, Mapping):
            raise OddAnswer(f"broker {address} answers no epoch list")
        epochs = [int(entry["epoch"]) for entry in body.get("epochList") or ()]
        return BrokerFacts(
            address,
            str(body.get("clusterName", "")),
            str(body.get("brokerName", "")),
            int(body["brokerId"]),
            max(epochs, default=-1),
            int(body.get("maxOffset", -1)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OddAnswer(f"broker {address}: its epoch list cannot be read ({error})") from None


def leader_check(asked: ControllerFacts, others: Iterable[ControllerFacts]) -> Check:
    """One leader, and every controller of the group that answers names the same."""
    named = sorted({one.leader for one in [asked, *others] if one.leader})
    if not named:
        return Check(
            "leader",
            False,
            f"{asked.address} knows no leader",
            "Wait until its group has elected one, then try again.",
        )
    if len(named) > 1:
        return Check(
            "leader",
            False,
            f"the controllers name different leaders: {', '.join(named)}",
            "Wait until they agree, or name controllers of one group only.",
        )
    return Check("leader", True, f"{named[0]} leads")


def masters_check(
    broker_set: str, master_address: str, facts: Mapping[str, BrokerFacts | None]
) -> Check:
    """The recorded master serves as master, and nobody else does."""
    serving = sorted(address for address, one in facts.items() if one is not None and one.is_master)
    if serving == [master_address]:
        return Check(
            "master serves",
            True,
            f"{broker_set}: {master_address} serves as master, nobody else does",
        )
    who = ", ".join(serving) or "nobody"
    return Check(
        "master serves",
        False,
        f"{broker_set}: the master is to be {master_address}, but {who} serves as master",
        "Wait until the set is calm (a failover is under way), then run this command again.",
    )


def reached_check(
    broker_set: str,
    wanted: Iterable[tuple[int, str]],
    facts: Mapping[str, BrokerFacts | None],
    way_out: str,
) -> Check:
    """Every replica answers and belongs to the set. `wanted`: (id, address)."""
    silent = [
        (f"id {broker_id} at {address}")
        for broker_id, address in wanted
        if facts.get(address) is None
    ]
    strange = [
        (f"{address} is of set {one.broker_name}")
        for address, one in facts.items()
        if one and one.broker_name != broker_set
    ]
    if silent or strange:
        return Check(
            "replicas",
            False,
            (f"{broker_set}: no answer from {', '.join(silent)}")
            if silent
            else f"{broker_set}: {'; '.join(strange)}",
            way_out,
        )
    return Check("replicas", True, f"{broker_set}: every replica answers")


def failed(checks: Iterable[Check]) -> list[Check]:
    """The checks that forbid going on."""
    return [one for one in checks if one.fatal and not one.ok]
