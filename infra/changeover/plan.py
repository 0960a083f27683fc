"""What changing a set over means: whether it may, who becomes what, how far it is, what proves it.

Responsible for: judging from facts alone, for both ways; the orders; the steps and the lines that
an operator changes.
Refuses to know: sockets, files, how facts were gathered, what of the set controllers get.

The way in. Controllers know the set before anybody follows them: ids, every replica in the
SyncStateSet, no master, epoch E. Nobody of it speaks to them, so nobody is elected. Then the master
holds writes until every replica has every byte and table, and gives up on its own disk: from then
on no process leads. All replicas begin anew as the controllers', each with epoch E for all that its
log holds, and an ordinary election in epoch E+1 takes any of them.

The way back. While the master holds writes the others leave the controllers and become slaves by
configuration, which lead in no way. The master alone is left, gives up its place among controllers
and leads with id 0. Then the controllers forget the set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.changeover.order import Kind, Lines, Order
from brokers.changeover.placed import text_of
from infra.changeover.facts import NOT_OURS, Found, Look
from infra.changeover.set_fields import new_set, waits_for_brokers
from infra.migration.plan import Check, Step, failed

NEEDED_RULES = 2
MASTER_ID = 0
FRESH, BEGUN, DONE = "fresh", "begun", "done"


@dataclass(frozen=True, slots=True)
class SetPlan:
    """`stage`: FRESH, nothing has happened; BEGUN, the master has given up and not all have
    followed; DONE. `orders`: by broker id. `fields`: the set as controllers get it, on the way in.
    """

    name: str
    kind: Kind
    stage: str
    checks: tuple[Check, ...]
    orders: tuple[Order, ...] = ()
    fields: Mapping[str, Any] | None = None

    @property
    def is_ready(self) -> bool:
        """Nothing forbids it."""
        return not failed(self.checks)

    @property
    def leader(self) -> str:
        return self.orders[0].leader


@dataclass(frozen=True, slots=True)
class Changeover:
    """What is new with each: its name, and by address a code that proves an id (RULES 10.2)."""

    change: str
    codes: Mapping[str, str]


# -- the way in ------------------------------------------------------------------------------------


def plan_adoption(
    name: str,
    members: Mapping[int, str],
    looks: Mapping[str, Found],
    here: Mapping[str, Any] | None,
    controllers: Sequence[str],
    new: Changeover,
) -> SetPlan:
    """`members`: address by id, as a name server has them; `looks`: by address; `here`: the
    controllers' document of the set; `controllers`: whom the replicas shall ask.
    """
    seen = [one for one in looks.values() if isinstance(one, Look)]
    if begun := begun_orders(seen, Kind.CONTROLLERS):
        return _begun(name, Kind.CONTROLLERS, begun, looks)
    reached = tuple(_reached(name, looks))
    if not failed(reached) and seen and all(one.kind is Kind.CONTROLLERS for one in seen):
        return SetPlan(name, Kind.CONTROLLERS, DONE, reached)
    checks = (*reached, *_fixed_checks(name, members, seen), _place_check(name, here))
    if failed(checks):
        return SetPlan(name, Kind.CONTROLLERS, FRESH, checks)
    master = next(one for one in seen if one.address == members[MASTER_ID])
    checks = (*checks, *_minds(master, len(members)))
    fields = new_set(name, master, members, here, new.codes)
    orders = tuple(
        Order(
            new.change,
            Kind.CONTROLLERS,
            master.cluster_name,
            name,
            replica["address"],
            master.address,
            replica["broker_id"],
            master.copies,
            tuple(controllers),
            replica["register_check_code"],
            fields["master_epoch"],
        )
        for replica in fields["replicas"]
    )
    return SetPlan(name, Kind.CONTROLLERS, FRESH, checks, orders, fields)


def begun_orders(seen: Sequence[Look], kind: Kind) -> tuple[Order, ...]:
    """The orders of a changeover that has begun, of whoever gave up for it; empty without one."""
    return next(
        (one.orders for one in seen if one.orders and one.kind is kind is one.orders[0].kind), ()
    )


def _begun(name: str, kind: Kind, orders: tuple[Order, ...], looks: Mapping[str, Found]) -> SetPlan:
    left = left_of(orders, looks)
    what = ", ".join(left) or "nobody"
    check = Check("begun", True, f"{name}: changes over already; not there yet: {what}")
    return SetPlan(name, kind, BEGUN if left else DONE, (check,), orders)


def left_of(orders: Sequence[Order], looks: Mapping[str, Found]) -> list[str]:
    """Addresses of those that have not followed their order, as far as they say."""
    return [
        order.address
        for order in orders
        if not isinstance(one := looks.get(order.address), Look) or one.kind is not order.kind
    ]


def _reached(name: str, looks: Mapping[str, Found]) -> list[Check]:
    silent = [at for at, one in looks.items() if isinstance(one, str) and one != NOT_OURS]
    others = [at for at, one in looks.items() if one == NOT_OURS]
    seen = [one for one in looks.values() if isinstance(one, Look)]
    return [
        Check(
            "replicas",
            bool(looks) and not silent,
            f"{name}: no answer from {', '.join(silent) or 'nobody'}"
            if looks
            else f"{name}: the name server knows no broker of that name",
            "Start it; one that is gone for good leaves the name servers two minutes after its "
            "last word."
            if looks
            else "Is it registered there? 'mqadmin clusterList' shows who is.",
        ),
        Check(
            "kind",
            not others,
            f"{name}: {NOT_OURS}: {', '.join(others) or 'nobody'}",
            "RocketMQ's brokers and older releases change over stopped, by hand: see 'From fixed "
            "ids to controllers' in OPERATING.md. Or put a broker of this release into its place "
            "first, on its folder.",
        ),
        Check(
            "names",
            len({(one.cluster_name, one.broker_name) for one in seen}) <= 1,
            f"{name}: one cluster and one name",
            "Their files name different clusters: correct them.",
        ),
    ]


def _fixed_checks(name: str, members: Mapping[int, str], seen: Sequence[Look]) -> list[Check]:
    master = next((one for one in seen if one.address == members.get(MASTER_ID)), None)
    leads = master is not None and master.kind is Kind.FIXED and master.serving
    odd = [one.address for one in seen if one.kind is not Kind.FIXED]
    lost = [
        one.address
        for one in seen
        if one is not master and (one.role != "SLAVE" or one.broker_id == MASTER_ID)
    ]
    copies = 0 if master is None else master.copies
    total = 0 if master is None else master.total_replicas
    return [
        Check(
            "master",
            leads,
            f"{name}: {members.get(MASTER_ID, 'nobody')} {'leads' if leads else 'does not lead'}",
            "Let the set have its master with broker_id 0 online first: while it is away, what its "
            "slaves lack cannot be known.",
        ),
        Check(
            "places",
            not odd,
            f"{name}: {', '.join(odd) or 'nobody'} is with controllers",
            "Start it as the others are, or stop it and let the name servers forget it.",
        ),
        Check(
            "slaves",
            not lost,
            f"{name}: {', '.join(lost) or 'nobody'} follows no master",
            "Its log says why: let it follow first.",
        ),
        Check(
            "copies",
            1 <= copies <= max(1, len(seen)),
            f"{name}: an answer stands for {copies} copies, there are {len(seen)} replicas",
            "Start more replicas, or lower in_sync_replicas.",
        ),
        Check(
            "all there",
            len(members) >= total,
            f"{name}: {len(members)} of {total or len(members)} replicas are there",
            "Start those that are missing: left out, one would come back as the slave that it was, "
            "act, and deliver again what is long done. One that is gone for good: lower "
            "total_replicas on the others, and start them anew.",
        ),
    ]


def _place_check(name: str, here: Mapping[str, Any] | None) -> Check:
    free = here is None or here["tombstone"] or waits_for_brokers(here)
    return Check(
        "place",
        free,
        f"{name}: the controllers {'have room for it' if free else 'run such a set already'}",
        "Two sets of one name cannot be: 'regent controller set' shows the one that is there.",
    )


def _minds(master: Look, replicas: int) -> list[Check]:
    """What is no hindrance, and has to be known."""
    return [
        Check(
            "spare",
            master.copies < replicas,
            f"an answer stands for {master.copies} copies, there are {replicas} replicas",
            "Sends are held until all have begun anew, and afterwards while one of them is away.",
            fatal=False,
        ),
        Check(
            "acting",
            not master.acts,
            f"slaves of this set {'act' if master.acts else 'do not act'} for the master",
            "Among controllers they do not: one of them is elected instead.",
            fatal=False,
        ),
    ]


# -- the way back ----------------------------------------------------------------------------------


def plan_release(
    name: str, looks: Mapping[str, Found], here: Mapping[str, Any] | None, new: Changeover
) -> SetPlan:
    """`looks`: by address, of the replicas that controllers know; of a set that they do not run, of
    those that name servers know.
    """
    seen = [one for one in looks.values() if isinstance(one, Look)]
    if begun := begun_orders(seen, Kind.FIXED):
        return _begun(name, Kind.FIXED, begun, looks)
    known = here is not None and not here["tombstone"]
    if not known and _is_gone(here, seen):
        return SetPlan(name, Kind.FIXED, DONE, _gone_checks(name, looks, seen))
    checks: tuple[Check, ...] = (
        Check(
            "here",
            known,
            f"{name}: the controllers {'run it' if known else 'run no such set'}",
            "'regent controller sets' lists them; a set that was released is in none.",
        ),
    )
    if here is None or not known:
        return SetPlan(name, Kind.FIXED, FRESH, checks)
    checks = (*checks, *_reached(name, looks), *_led_checks(name, here, seen))
    if failed(checks):
        return SetPlan(name, Kind.FIXED, FRESH, checks)
    master = next(one for one in here["replicas"] if one["id"] == here["master"])
    copies = next(one.copies for one in seen if one.address == master["address"])
    checks = (*checks, *_promises(copies, len(here["replicas"])))
    others = sorted(one["id"] for one in here["replicas"] if one["id"] != here["master"])
    addresses = {one["id"]: one["address"] for one in here["replicas"]}
    orders = tuple(
        Order(
            new.change,
            Kind.FIXED,
            here["cluster"],
            name,
            addresses[key],
            master["address"],
            number,
            copies,
        )
        for number, key in enumerate([here["master"], *others])
    )
    return SetPlan(name, Kind.FIXED, FRESH, checks, orders)


def _is_gone(here: Mapping[str, Any] | None, seen: Sequence[Look]) -> bool:
    """Nobody of a set that the controllers do not run is with controllers, and it did exist: they
    remember it, or its brokers answer.
    """
    return (here is not None or bool(seen)) and all(one.kind is Kind.FIXED for one in seen)


def _gone_checks(name: str, looks: Mapping[str, Found], seen: Sequence[Look]) -> tuple[Check, ...]:
    leads = next((one.address for one in seen if one.serving), None)
    silent = [address for address, one in looks.items() if not isinstance(one, Look)]
    return (
        Check("here", True, f"{name}: the controllers do not run it any more"),
        Check(
            "master",
            leads is not None,
            f"{name}: {leads} leads with broker_id 0"
            if leads is not None
            else f"{name}: nobody was seen to lead it"
            + (f", no answer from {', '.join(silent)}" if silent else ""),
            "Name a name server that knows its brokers with --namesrv; 'mqadmin clusterList' "
            "shows who is there.",
            fatal=False,
        ),
    )


def _promises(copies: int, replicas: int) -> list[Check]:
    """What is no hindrance, and has to be known."""
    return [
        Check(
            "copies",
            copies >= replicas,
            f"an answer will stand for {copies} copies; now it waits for all {replicas} replicas "
            "that are in sync",
            "Set in_sync_replicas on all of them when it is to stand for more.",
            fatal=False,
        ),
        Check(
            "takes over",
            False,
            "without controllers nobody is elected when the master dies",
            "Slaves that act (enable_slave_acting_master) serve readers meanwhile.",
            fatal=False,
        ),
    ]


def _led_checks(name: str, here: Mapping[str, Any], seen: Sequence[Look]) -> list[Check]:
    by_address = {one.address: one for one in seen}
    ids = {one["address"]: one["id"] for one in here["replicas"]}
    address = next((at for at, key in ids.items() if key == here["master"]), "")
    master = by_address.get(address)
    leads = master is not None and master.kind is Kind.CONTROLLERS and master.serving
    behind = [
        one.address
        for one in seen
        if one.kind is Kind.CONTROLLERS and ids.get(one.address) not in here["sync_state_set"]
    ]
    lonely = [one.address for one in seen if not one.name_servers]
    return [
        Check(
            "master",
            leads,
            f"{name}: {address or 'nobody'} {'leads' if leads else 'does not lead'}",
            "Let the set have a living master first.",
        ),
        Check(
            "in sync",
            not behind,
            f"{name}: not in sync: {', '.join(behind) or 'nobody'}",
            "Wait until it has caught up, or forget it: 'regent controller clean'.",
        ),
        Check(
            "name servers",
            not lonely,
            f"{name}: {', '.join(lonely) or 'nobody'} has no name servers",
            "Without controllers only name servers tell a slave its master: set name_servers.",
        ),
    ]


# -- what an operator sees -------------------------------------------------------------------------


def steps(plan: SetPlan, command: str) -> list[Step]:
    """What happens, in this order. `command`: as it is typed to do it."""
    adopts = plan.kind is Kind.CONTROLLERS
    others = ", ".join(one.address for one in plan.orders if one.address != plan.leader) or "nobody"
    first = [
        Step(
            "The controllers learn the set: ids, no master, nobody speaks to them yet.", (command,)
        )
    ]
    hold = (
        f"{plan.leader} holds writes until {others} has every byte and table, and "
        f"{'gives up on its disk' if adopts else 'the others have left the controllers'}. "
        "If that does not come about within a second it serves on, and nothing has changed."
    )
    then = (
        f"{others} and {plan.leader} begin anew with the controllers, in their processes: an "
        "election follows, and what was held is answered."
        if adopts
        else f"{plan.leader} begins anew with broker_id 0, and what was held is answered; the "
        "controllers forget the set."
    )
    return [
        *(first if adopts else []),
        Step(hold, () if adopts else (command,)),
        Step(then, (), "every replica in sync; the command proves it"),
        Step(
            "Change these lines on each host, before its broker is started anew from another "
            "machine or folder; until then the record in its store folder counts, and its log "
            "says so.",
            tuple(line for order in plan.orders for line in lines_to_change(order)),
        ),
    ]


def lines_to_change(order: Order, now: Lines | None = None) -> list[str]:
    """For one host. `now`: what the file says, where that is known."""
    host = f"{order.address} ({'id' if order.kind is Kind.CONTROLLERS else 'broker_id'} "
    head = f"{host}{order.broker_id}):"
    if now is not None and now == order.lines:
        return [f"{head} its file says it already"]
    if order.kind is Kind.CONTROLLERS:
        gone = "broker_id, broker_role, ha_master_address, in_sync_replicas, what acting wants"
        more = f"min_in_sync_replicas = {order.copies}"
    else:
        gone = "controllers, all_ack, min_in_sync_replicas"
        more = f"in_sync_replicas = {order.copies}"
    return [f"{head} write  {text_of(order.lines)}; {more}", f"{' ' * len(head)} remove {gone}"]


def adopted(
    name: str, orders: Sequence[Order], looks: Mapping[str, Found], here: Mapping[str, Any] | None
) -> list[Check]:
    """What proves that a set was adopted."""
    left = left_of(orders, looks)
    members = set() if here is None else set(here["sync_state_set"])
    missing = [one.broker_id for one in orders if one.broker_id not in members]
    master = None if here is None else here["master"]
    return [
        _followed(name, left),
        Check(
            "master",
            master is not None,
            f"{name}: replica {master} is master"
            if master is not None
            else f"{name}: no master is elected",
            "'regent controller set' says why.",
        ),
        Check(
            "in sync",
            not missing,
            f"{name}: not in sync: {', '.join(map(str, missing)) or 'nobody'}",
            "Wait, then run this command again; the replica's log says what keeps it.",
        ),
    ]


def released(
    name: str, orders: Sequence[Order], looks: Mapping[str, Found], linked: int
) -> list[Check]:
    """What proves that a set was released. `linked`: slaves that acknowledged to the master."""
    found = looks.get(orders[0].leader)
    leads = isinstance(found, Look) and found.kind is Kind.FIXED and found.serving
    return [
        _followed(name, left_of(orders, looks)),
        Check(
            "master",
            leads,
            f"{name}: {orders[0].leader} {'leads' if leads else 'does not lead'} with broker_id 0",
            "Its log says what keeps it.",
        ),
        Check(
            "linked",
            linked >= len(orders) - 1,
            f"{name}: {linked} of {len(orders) - 1} slaves are linked",
            "Wait, then run this command again; the slave's log says what keeps it.",
        ),
    ]


def _followed(name: str, left: Sequence[str]) -> Check:
    return Check(
        "followed",
        not left,
        f"{name}: not there yet: {', '.join(left) or 'nobody'}",
        "Start it if it is down, then run this command again.",
    )
