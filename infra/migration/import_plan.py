"""The way in: a broker set of a running RocketMQ controller becomes one of ours, without touching
a broker's disk.

Responsible for: judging from what that controller and the brokers answer whether a set can be taken
over, the fields of the `ImportBrokerSet` that does it, the proof afterwards by the brokers alone,
and the operator's steps.
Refuses to know: sockets; how facts were gathered.

Why the steps are as they are. Two controllers must never decide about one set. So the Java
controllers stop after the sets were read and written here: from then on nobody can elect a master
or change a SyncStateSet, while the brokers go on serving. What changed between reading and stopping
is found by asking the brokers (`proof`): the master counts its own SyncStateSet members (907), and
a member that it did not drop holds all that was acknowledged. The brokers then get the new address
at run time (they read `controllerAddr` again every two minutes), in any order: this controller does
not take a master that has not arrived yet for dead as long as its port is open. No restart, so no
write waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.migration.plan import (
    BrokerFacts,
    Check,
    JavaReplica,
    JavaSet,
    Step,
    failed,
    masters_check,
    reached_check,
)

NEEDED_RULES = 2
HEARD = "heartbeat"
NEW, SAME, AGAIN, CONFLICT = "new", "same", "again", "conflict"
BROKERS_READ_ADDRESS_S = 120
"""A Java broker looks at its controllerAddr this often (`ReplicasManager.updateControllerAddr`)."""


@dataclass(frozen=True, slots=True)
class SetPlan:
    """What importing one set means. `fields` is the body of REGENT_IMPORT_SET, None when a check
    forbids it.
    """

    name: str
    presence: str
    checks: tuple[Check, ...]
    fields: Mapping[str, Any] | None

    @property
    def is_ready(self) -> bool:
        """Nothing forbids it."""
        return not failed(self.checks)


@dataclass(frozen=True, slots=True)
class HaFacts:
    """What a broker says of its HA links (907). A master counts members and links, a slave names
    its master.
    """

    address: str
    is_master: bool
    end_offset: int
    in_sync_slaves: int
    links_in_sync: int
    links: int
    master_ha_address: str


def plan_set(
    seen: JavaSet,
    brokers: Mapping[str, BrokerFacts | None],
    here: Mapping[str, Any] | None,
    source: str,
) -> SetPlan:
    """Judge one set and say what to write.

    `brokers`: facts by address, None for one that did not answer; `here`: our own document of a set
    of that name, None when there is none; `source`: the address that was read.
    """
    presence = _presence(seen, here)
    checks = (*_shape_checks(seen), *_broker_checks(seen, brokers), _here_check(seen, presence))
    fields = None if failed(checks) else _fields(seen, brokers, source)
    return SetPlan(seen.name, presence, checks, fields)


def _shape_checks(seen: JavaSet) -> list[Check]:
    name, ids = seen.name, {one.broker_id for one in seen.replicas}
    master = seen.replica(seen.master_id)
    alive = master is not None and master.alive
    strangers = [one for one in seen.sync_state_set if one not in ids]
    outside = [one.broker_id for one in seen.replicas if one.broker_id not in seen.sync_state_set]
    return [
        Check(
            "master alive",
            alive,
            f"{name}: master {seen.master_id} is {'alive' if alive else 'not there'}",
            "Let the set elect a master first (start its brokers, or mqadmin electMaster), "
            "then import.",
        ),
        Check(
            "master in set",
            seen.master_id in seen.sync_state_set,
            f"{name}: in sync {_ids(seen.sync_state_set)}, master {seen.master_id}",
            "Let the set elect a master first, then import.",
        ),
        Check(
            "members known",
            not strangers,
            f"{name}: members {_ids(seen.sync_state_set)}, registered {_ids(ids)}",
            f"Remove {_ids(strangers)} there: mqadmin cleanBrokerMetadata -bn {name} -b "
            f"'{_ids(strangers, ';')}'.",
        ),
        Check(
            "ids",
            bool(ids) and max(ids) < seen.next_broker_id,
            f"{name}: ids {_ids(ids)}, next {seen.next_broker_id}",
            "That controller has lost part of the set (its next id is taken): clean the set "
            "there, then let the brokers register anew.",
        ),
        Check(
            "all in sync",
            not outside,
            f"{name}: not in sync: {_ids(outside) or 'nobody'}",
            "They are imported outside the set and must catch up.",
            fatal=False,
        ),
        Check(
            "can fail over",
            len(seen.sync_state_set) > 1,
            f"{name}: {len(seen.sync_state_set)} in sync",
            "With one member nobody can take over: wait until a slave has caught up.",
            fatal=False,
        ),
    ]


def _broker_checks(seen: JavaSet, brokers: Mapping[str, BrokerFacts | None]) -> list[Check]:
    name = seen.name
    master = seen.replica(seen.master_id)
    wanted = [(one.broker_id, one.address) for one in seen.replicas]
    found = {address: brokers.get(address) for _, address in wanted}
    ahead = sorted(
        (f"{address} has epoch {one.last_epoch}")
        for address, one in found.items()
        if one and one.last_epoch > seen.master_epoch
    )
    clusters = sorted({one.cluster_name for one in found.values() if one})
    gone = ";".join(str(broker_id) for broker_id, address in wanted if found[address] is None)
    return [
        reached_check(
            name,
            wanted,
            found,
            "Start it, or let the old controller forget it:"
            f" mqadmin cleanBrokerMetadata -bn {name} -c CLUSTER -b '{gone}'.",
        ),
        masters_check(name, master.address if master else "nobody", found),
        Check(
            "cluster",
            len(clusters) == 1,
            f"{name}: cluster {', '.join(clusters) or 'unknown'}",
            "One set cannot be in two clusters: correct the brokers' configuration.",
        ),
        Check(
            "epochs",
            not ahead,
            f"{name}: controller's epoch {seen.master_epoch}; "
            f"{', '.join(ahead) or 'no broker is ahead'}",
            "These brokers come from another controller: import from that one.",
        ),
    ]


def _here_check(seen: JavaSet, presence: str) -> Check:
    texts = {
        NEW: "not here yet",
        SAME: ("here already, the same"),
        AGAIN: "here from an earlier import, to be read again",
        CONFLICT: "here already, and different",
    }
    return Check(
        "place",
        presence != CONFLICT,
        f"{seen.name}: {texts[presence]}",
        "If its brokers heartbeat here, it is run from here and nothing is to be "
        "imported. Otherwise its epochs stand for something else here: have it elect "
        "there until they are above ours (mqadmin electMaster), then import.",
    )


def _presence(seen: JavaSet, here: Mapping[str, Any] | None) -> str:
    if here is None:
        return NEW
    if here["tombstone"]:
        # What cleaning left of a set: ids and epochs must not restart (S9).
        above = (
            seen.master_epoch > here["highest_epoch_seen"]
            and seen.sync_state_set_epoch > here["sync_state_set_epoch"]
        )
        return NEW if above and seen.next_broker_id >= here["next_broker_id"] else CONFLICT
    known = (
        here["master"],
        here["master_epoch"],
        tuple(here["sync_state_set"]),
        here["sync_state_set_epoch"],
        here["next_broker_id"],
        tuple((one["id"], one["address"]) for one in here["replicas"]),
    )
    wanted = (
        seen.master_id,
        seen.master_epoch,
        seen.sync_state_set,
        seen.sync_state_set_epoch,
        seen.next_broker_id,
        tuple((one.broker_id, one.address) for one in seen.replicas),
    )
    if known == wanted:
        return SAME
    return AGAIN if _may_be_read_again(seen, here) else CONFLICT


def _may_be_read_again(seen: JavaSet, here: Mapping[str, Any]) -> bool:
    """Nobody has arrived, nothing falls, and no epoch would stand for two masters or two sets
    (S13).
    """
    master_moved = seen.master_epoch - here["master_epoch"]
    set_moved = seen.sync_state_set_epoch - here["sync_state_set_epoch"]
    return (
        here["imported"]
        and not arrived(here)
        and seen.next_broker_id >= here["next_broker_id"]
        and (master_moved > 0 or (master_moved == 0 and seen.master_id == here["master"]))
        and (
            set_moved > 0
            or (set_moved == 0 and seen.sync_state_set == tuple(here["sync_state_set"]))
        )
    )


def _fields(
    seen: JavaSet, brokers: Mapping[str, BrokerFacts | None], source: str
) -> dict[str, Any]:
    facts = [one for replica in seen.replicas if (one := brokers.get(replica.address)) is not None]
    return {
        "cluster_name": facts[0].cluster_name,
        "broker_name": seen.name,
        "next_broker_id": seen.next_broker_id,
        "master_broker_id": seen.master_id,
        "master_epoch": seen.master_epoch,
        "sync_state_set": list(seen.sync_state_set),
        "sync_state_set_epoch": seen.sync_state_set_epoch,
        "replicas": [_replica_fields(one) for one in seen.replicas],
        "source": source,
        "evidence_epoch": max([seen.master_epoch, *(one.last_epoch for one in facts)]),
    }


def _replica_fields(replica: JavaReplica) -> dict[str, Any]:
    # The check code cannot be read from anybody; an empty one fits nobody.
    return {"broker_id": replica.broker_id, "address": replica.address, "register_check_code": ""}


def ha_facts(address: str, body: object) -> HaFacts | None:
    """Read a 907; None when it cannot be read."""
    if not isinstance(body, Mapping):
        return None
    links = [one for one in body.get("haConnectionInfo") or () if isinstance(one, Mapping)]
    client = body.get("haClientRuntimeInfo") or {}
    is_master = bool(body.get("master"))
    end = body.get("masterCommitLogMaxOffset") if is_master else client.get("maxOffset")
    in_sync = sum(1 for one in links if one.get("inSync"))
    return HaFacts(
        address,
        is_master,
        int(end or 0),
        int(body.get("inSyncSlaveNums") or 0),
        in_sync,
        len(links),
        str(client.get("masterAddr") or ""),
    )


def proof(
    name: str,
    here: Mapping[str, Any],
    brokers: Mapping[str, BrokerFacts | None],
    links: Mapping[str, HaFacts | None],
) -> list[Check]:
    """Whether what is written here still is what the brokers do, asked when no other controller
    can decide any more.

    `here`: our document of the set; `links`: the 907 of its members, the master's asked first.
    """
    replicas = {one["id"]: one for one in here["replicas"]}
    members = {broker_id: replicas[broker_id]["address"] for broker_id in here["sync_state_set"]}
    master_address = members.get(here["master"], "nobody")
    found = {address: brokers.get(address) for address in members.values()}
    ahead = [
        (f"{address}: {one.last_epoch}")
        for address, one in found.items()
        if one and one.last_epoch > here["master_epoch"]
    ]
    again = (
        "It changed before the Java controllers stopped. Start them again, import again, stop "
        "them, check again."
    )
    return [
        reached_check(
            name, members.items(), found, "Start it, or wait until it is up, then check again."
        ),
        masters_check(name, master_address, brokers),
        Check(
            "epochs",
            not ahead,
            f"{name}: epoch {here['master_epoch']} here; ahead: {', '.join(ahead) or 'nobody'}",
            again,
        ),
        _members_check(name, members, links.get(master_address), again),
        *_slave_checks(
            name,
            {i: a for i, a in members.items() if a != master_address},
            links,
            links.get(master_address),
        ),
    ]


def _members_check(
    name: str, members: Mapping[int, str], master: HaFacts | None, again: str
) -> Check:
    """The master's own count of members and of members that are linked: neither may differ from the
    set.
    """
    if master is None or not master.is_master:
        return Check(
            "members",
            False,
            f"{name}: the master does not say who is in sync (907)",
            "Wait until it answers, then check again.",
        )
    slaves = len(members) - 1
    same = master.in_sync_slaves == slaves == master.links_in_sync
    text = (
        f"{name}: in sync here {_ids(members)}; the master counts {master.in_sync_slaves} slaves, "
        f"{master.links_in_sync} of them linked"
    )
    return Check("members", same, text, again)


def _slave_checks(
    name: str,
    slaves: Mapping[int, str],
    links: Mapping[str, HaFacts | None],
    master: HaFacts | None,
) -> list[Check]:
    checks = []
    target = 0 if master is None else master.end_offset
    for broker_id, address in slaves.items():
        one = links.get(address)
        ok = (
            one is not None
            and not one.is_master
            and one.master_ha_address != ""
            and one.end_offset >= target
        )
        text = (
            "does not answer"
            if one is None
            else (
                f"follows {one.master_ha_address or 'nobody'}, has {one.end_offset} of "
                f"{target} bytes"
            )
        )
        checks.append(
            Check(
                f"slave {broker_id}",
                ok,
                f"{name}: slave {broker_id} {text}",
                "Wait until it has caught up, then check again.",
            )
        )
    return checks


def arrived(here: Mapping[str, Any]) -> list[int]:
    """The ids of a set whose brokers are heard here."""
    # An awaited master counts as alive, and has not arrived.
    return [one["id"] for one in here["replicas"] if one["alive"] and one["reason"] == HEARD]


def steps(
    plans: Sequence[SetPlan], java: Sequence[str], regent: Sequence[str], from_address: str
) -> list[Step]:
    """What the operator does, in this order. `java`, `regent`: the controllers of either side."""
    names = ",".join(plan.name for plan in plans)
    target = ";".join(regent)
    check = (
        f"regent controller import --from {from_address} --sets {names} --check --controller "
        f"'{target}'"
    )
    moves = [
        f"mqadmin updateBrokerConfig -b {replica['address']} -k controllerAddr -v '{target}'"
        for plan in plans
        if plan.fields is not None
        for replica in _masters_first(plan.fields)
    ]
    return [
        Step(
            "Write the sets here (nobody decides differently because of it).",
            (
                (
                    f"regent controller import --from {from_address} --sets {names} --controller "
                    f"'{target}'"
                ),
            ),
            "every set is 'imported' or 'here already'",
        ),
        Step(
            f"Stop every Java controller ({', '.join(java)}). Brokers serve on; until they have "
            "arrived here nobody elects. Start no broker in this time."
        ),
        Step(
            "Prove by the brokers that nothing changed in between.",
            (check,),
            "all checks ok; otherwise it says the way back",
        ),
        Step(
            f"Tell each broker its new controllers. It reads them within {BROKERS_READ_ADDRESS_S} "
            "s, without a restart, and keeps them in its configuration file.",
            tuple(moves),
            "'update broker config success' from each",
        ),
        Step(
            "Wait until all have arrived, then they are run from here.",
            (check, f"regent controller sets --controller '{target}'"),
            "arrived: all; master, epoch and members as before",
        ),
        Step(
            "Put the new address into whatever deploys the brokers, and retire the Java "
            "controllers. Way back before the brokers were told: start the Java controllers "
            "again. Afterwards: 'regent controller export'."
        ),
    ]


def _masters_first(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return sorted(
        fields["replicas"], key=lambda one: one["broker_id"] != fields["master_broker_id"]
    )


def _ids(ids: object, separator: str = ",") -> str:
    return separator.join(str(one) for one in ids)  # type: ignore[attr-defined]
