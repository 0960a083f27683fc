"""Name servers: whether they are reached, and whether clients that ask them find every set's
master.

Responsible for: what a name server says (106) against what the controllers decided. Refuses to
know: topics.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.controllers.calls import NoAnswer, call
from infra.doctor import addresses
from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, well
from infra.doctor.sets import living

Document = Mapping[str, Any]
Routes = dict[str, dict[str, str]]
"""Broker set -> broker id (0: the master) -> address."""
AREA = "name servers"
MASTER = "0"
ASK_TIMEOUT_MS = 2_000
SETTLE_S = 1.5
"""A new master is in the routes a moment later: what differs is asked for once more."""


def check(
    name_servers: Sequence[str], document: Document | None, commands: Commands
) -> list[Finding]:
    """`document`: the controllers' state; without it only the way to each name server is tried."""
    findings = []
    for address in name_servers:
        why = addresses.reason_of(address)
        if why is None:
            found, wrong = _asked(address, document, commands)
            if wrong and document is not None:
                time.sleep(SETTLE_S)
                found, wrong = _asked(address, document, commands)
            findings += wrong or [well(AREA, f"{address} is reached{_known(found)}")]
        else:
            text = f"{address} is not reached: {why}"
            way_out = "Is it running there, and the port open between the machines?"
            findings.append(fail(AREA, text, way_out, commands.revive(address)))
    return findings


def _known(found: Routes | None) -> str:
    return "" if found is None else f" and has routes to {len(found)} broker set(s)"


def _asked(
    address: str, document: Document | None, commands: Commands
) -> tuple[Routes | None, list[Finding]]:
    try:
        found = routes_of(address)
    except NoAnswer as error:
        text = f"{address} takes connections and does not answer: {error}"
        return None, [fail(AREA, text, "Start it again.", commands.revive(address))]
    if document is None:
        return found, []
    return found, [
        one
        for name, broker_set in living(document).items()
        for one in differences(address, found, name, broker_set, commands)
    ]


def routes_of(address: str) -> Routes:
    """What one name server knows. NoAnswer when it does not say."""
    request = RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO)
    answer = call(address, request, ASK_TIMEOUT_MS)
    try:
        found: Any = fastjson.loads(answer.body, fastjson.TABLE_BYTES_MAX)
        table = found["brokerAddrTable"].items()
        return {name: dict(one["brokerAddrs"]) for name, one in table}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise NoAnswer(f"its answer, code {answer.code}, is that of no name server", True) from None


def differences(
    address: str, found: Routes, name: str, one: Document, commands: Commands
) -> list[Finding]:
    """What clients of this name server do not find of one set that has a living master."""
    places = {replica["id"]: replica for replica in one["replicas"]}
    master = places.get(one["master"])
    if master is None or not master["alive"] or not master["address"]:
        return []  # told with the sets
    known = found.get(name, {})
    if known.get(MASTER) == master["address"]:
        return []
    if not known:
        text = f"{address} has no route to {name}: clients that ask it find no broker"
        way_out = (
            f"Name it among name_servers of every broker of {name}, and start them again; this "
            "says which they are:"
        )
    elif MASTER not in known:
        text = f"{address} knows no master of {name}, which is at {master['address']}"
        way_out = f"Is {address} among name_servers of that broker? Which it is:"
    else:
        text = (
            f"{address} sends clients of {name} to {known[MASTER]}, the master is at "
            f"{master['address']}"
        )
        way_out = f"Is {address} among name_servers of that broker? Which it is:"
    return [fail(AREA, text, way_out, commands.controller("set", name))]
