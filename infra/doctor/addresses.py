"""Addresses: what is bound, what is given to others, and whether it is reached from here."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from brokers.remoting.addresses import is_loopback
from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, well
from infra.doctor.target import Place
from infra.processes.ports import split_address

AREA = "addresses"
ELSEWHERE = "192.0.2.1"
"""An address that no network has: only the way to it is asked for."""
CONNECT_TIMEOUT_S = 2.0
AT_ONCE = 32


def is_any(address: str) -> bool:
    """An address that can be bound, and that nobody can call."""
    host = split_address(address)[0].strip("[]")
    return host in ("0.0.0.0", "::", "*")


def told(places: Sequence[Place], commands: Commands) -> list[Finding]:
    """Bound against advertised, without touching the network."""
    loopback = {place.advertised for place in places if is_loopback(place.advertised)}
    others = [place for place in places if place.advertised not in loopback]
    findings = _twice(places, commands)
    for place in places:
        text = f"{place.owner} tells others {place.advertised}"
        if is_any(place.advertised):
            findings.append(_wrong(place, f"{text}, which nobody can call", commands))
        elif is_loopback(place.listen) and place.advertised not in loopback:
            findings.append(
                fail(
                    AREA,
                    f"{text} but listens on {place.listen} only",
                    "Let it listen on every address, or on the advertised one.",
                    _listening(place, commands),
                )
            )
        elif place.advertised in loopback and others:
            text += (
                f", which is each machine itself, while {others[0].owner} is at "
                f"{others[0].advertised}"
            )
            findings.append(_wrong(place, text, commands))
    if findings or not places:
        return findings
    note = "; all are loopback: nobody outside of this machine reaches them" if loopback else ""
    return [
        well(AREA, f"{len(places)} addresses: what is bound and what others are told fit{note}")
    ]


def _twice(places: Sequence[Place], commands: Commands) -> list[Finding]:
    """An address that two are given: the one that starts later finds it taken, or clients of the
    one reach the other.
    """
    owners: dict[str, list[Place]] = {}
    for place in places:
        # Two that listen on every address may do so on two machines.
        bound = () if is_any(place.listen) else (place.listen,)
        for address in dict.fromkeys((*bound, place.advertised)):
            owners.setdefault(address, []).append(place)
    way_out = "Give each of them an address of its own, and start them again. What runs there:"
    return [
        fail(
            AREA,
            f"{' and '.join(one.owner for one in found)} have one address, {address}",
            way_out,
            commands.look(),
        )
        for address, found in owners.items()
        if len(found) > 1
    ]


def _wrong(place: Place, text: str, commands: Commands) -> Finding:
    address = f"{own_host()}:{split_address(place.advertised)[1]}"
    flag = f"--{place.setting}advertise"
    command = commands.start(place.process, flag, address) or commands.look()
    return fail(AREA, text, "Tell others an address that they reach, for example:", command)


def _listening(place: Place, commands: Commands) -> str:
    address = f"0.0.0.0:{split_address(place.listen)[1]}"
    return commands.start(place.process, f"--{place.setting}listen", address) or commands.look()


def own_host() -> str:
    """The address by which this machine reaches others; nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ELSEWHERE, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def reason_of(address: str) -> str | None:
    """None when a connection can be made, else why not."""
    try:
        with socket.create_connection(split_address(address), CONNECT_TIMEOUT_S):
            return None
    except TimeoutError:
        return f"no answer within {CONNECT_TIMEOUT_S:.0f} s"
    except OSError as error:
        return error.strerror or str(error)


def reasons(addresses: Iterable[str]) -> dict[str, str | None]:
    """`reason_of` for all, at once."""
    wanted = list(dict.fromkeys(addresses))
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted))) as pool:
        return dict(zip(wanted, pool.map(reason_of, wanted), strict=True))


def reached(
    area: str, named: Mapping[str, str], way_out: str, command_for: Callable[[str], str]
) -> list[Finding]:
    """`named`: process -> address. One line for all that are reached, one for each that is not,
    with what `command_for` says of it.
    """
    found = reasons(named.values())
    lost = [
        fail(area, f"{who} at {where}: {found[where]}", way_out, command_for(who))
        for who, where in named.items()
        if found[where] is not None
    ]
    there = [who for who, where in named.items() if found[where] is None]
    return [*([well(area, f"{len(there)} reached: {', '.join(there)}")] if there else []), *lost]
