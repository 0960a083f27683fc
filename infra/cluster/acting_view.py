"""The sets of a local cluster without controllers, as a name server and their brokers say: who is
registered, who acts, who lacks what.

Refuses to know how it is shown, and who acts by which rule (PROTOCOL 7.2): a name server lists the
smallest living slave in the master's place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from brokers.membership.member_group import member_group_question, read_member_group
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.cluster.plan import CLUSTER_NAME, MASTER_ID
from infra.workload.client import Route, decode_routes

ASK_MS = 1_000

Members = Mapping[int, str]
"""Broker id -> address, as registered."""
Process = Mapping[str, Any]


def ask_members(name_servers: Sequence[str], names: Iterable[str]) -> dict[str, Members | None]:
    """Of each set, by the first name server that answers; None: none does."""
    known = list(names)
    requests = [member_group_question(CLUSTER_NAME, name) for name in known]
    answers = asyncio.run(_ask(name_servers, requests))
    return {
        name: None if answer is None else read_member_group(answer)
        for name, answer in zip(known, answers, strict=True)
    }


def ask_routes(name_servers: Sequence[str], topic: str) -> dict[str, Route]:
    """Where the topic lives, by set; empty where no name server says."""
    request = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    (answer,) = asyncio.run(_ask(name_servers, [request]))
    return {} if answer is None else {one.broker_name: one for one in decode_routes(answer.body)}


async def _ask(
    name_servers: Sequence[str], requests: Sequence[RemotingCommand]
) -> list[RemotingCommand | None]:
    """Good answers."""
    client = RemotingClient(connect_timeout_ms=ASK_MS)

    async def first(request: RemotingCommand) -> RemotingCommand | None:
        for address in name_servers:
            try:
                answer = await client.call(address, request, ASK_MS)
            except (RemotingError, OSError):
                continue
            return answer if answer.code == 0 else None
        return None

    try:
        return await asyncio.gather(*map(first, requests))
    finally:
        await client.close()


def sets_of(
    processes: Sequence[Process], members: Mapping[str, Members | None]
) -> dict[str, dict[str, Any]]:
    """Each set: `master` (its address, None while it is away), `acting` (the name of the slave that
    acts for it, else None), `registered` (None: no name server says) and its `members`, each with
    what it lacks of the longest log of its set in bytes, and whether it is in sync (None where no
    controller leads the set: there is no such thing).
    """
    found = {}
    for name, registered in members.items():
        own = [one for one in processes if (one.get("status") or {}).get("broker_name") == name]
        ends = [int(one["status"]["log_end"]) for one in own]
        led = _led_by(own, (registered or {}).get(MASTER_ID))
        shown = [_member(one, registered, max(ends, default=0), led) for one in own]
        found[name] = {
            "master": (registered or {}).get(MASTER_ID),
            "acting": next((one["name"] for one in shown if one["acts"]), None),
            "registered": None if registered is None else sorted(registered),
            "members": sorted(shown, key=lambda one: int(one["id"])),
        }
    return found


def _led_by(own: Sequence[Process], master: str | None) -> Mapping[str, Any] | None:
    """What the master says, of a set that was adopted by controllers: with fixed ids there is no
    SyncStateSet.
    """
    leads = (one["status"] for one in own if one["address"] == master)
    return next((status for status in leads if status.get("sync_state_set")), None)


def _in_sync(status: Mapping[str, Any], led: Mapping[str, Any]) -> bool:
    """A member, in its master's epoch, that holds what was acknowledged: a set may still name one
    whose link is gone.
    """
    return bool(
        status["broker_id"] in led["sync_state_set"]
        and status["ready"]
        and status["master_epoch"] == led["master_epoch"]
        and status["log_end"] >= led["confirm_offset"]
    )


def _member(
    one: Process, registered: Members | None, longest: int, led: Mapping[str, Any] | None
) -> dict[str, Any]:
    status = one["status"]
    return {
        "name": one["name"],
        "id": status["broker_id"],
        "address": one["address"],
        # by whatever id: one that controllers lead since stands there as 0 while it leads
        "registered": one["address"] in (registered or {}).values(),
        "acts": bool(status.get("acts")),
        "waits_for": status.get("waits_for") or None,
        "store_refusal": status.get("store_refusal"),
        "log_end": status["log_end"],
        "behind": longest - int(status["log_end"]),
        "in_sync": None if led is None else _in_sync(status, led),
    }


def problems_of(sets: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What of these sets a person should know, in sentences."""
    found = []
    for name, one in sets.items():
        if one["registered"] is None:
            found.append(f"no name server says who is there of {name}")
        elif one["master"] is None:
            acting = one["acting"] or "nobody"
            found.append(
                f"{name} has no master: {acting} acts for it and is read from; sends go to other "
                "sets, and what is due leaves through their masters"
            )
        found += [
            f"{member['name']} is not online yet: it waits for {member['waits_for']}"
            for member in one["members"]
            if member["waits_for"]
        ]
        found += [
            f"{member['name']} takes nothing onto its disk: {member['store_refusal']}"
            for member in one["members"]
            if member.get("store_refusal")
        ]
    return found
