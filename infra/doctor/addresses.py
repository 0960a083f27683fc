"""Addresses: what is bound, what is given to others, and whether it is reached from here."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from brokers.remoting.addresses import is_loopback
from infra.doctor.findings import FAIL, OK, Finding
from infra.doctor.target import Place
from infra.processes.ports import split_address

CONNECT_TIMEOUT_S = 2.0
AT_ONCE = 32


def is_any(address: str) -> bool:
    """An address that can be bound, and that nobody can call."""
    host = split_address(address)[0].strip("[]")
    return host in ("0.0.0.0", "::", "*")


def told(places: Sequence[Place]) -> list[Finding]:
    """Bound against advertised, without touching the network."""
    loopback = {place.advertised for place in places if is_loopback(place.advertised)}
    others = [place for place in places if place.advertised not in loopback]
    findings = []
    for place in places:
        way_out = (
            f"Set its advertise to an address that others reach, or listen to {place.advertised}."
        )
        if is_any(place.advertised):
            findings.append(
                Finding(
                    "addresses",
                    FAIL,
                    f"{place.owner} tells others {place.advertised}, which nobody can call",
                    way_out,
                )
            )
        elif is_loopback(place.listen) and place.advertised not in loopback:
            text = (
                f"{place.owner} tells others {place.advertised} but listens on {place.listen} only"
            )
            findings.append(
                Finding(
                    "addresses",
                    FAIL,
                    text,
                    "Let it listen on 0.0.0.0 or on the advertised address.",
                )
            )
        elif place.advertised in loopback and others:
            text = (
                f"{place.owner} tells others {place.advertised}, which is each machine itself, "
                f"while {others[0].owner} is at {others[0].advertised}"
            )
            findings.append(Finding("addresses", FAIL, text, way_out))
    if findings or not places:
        return findings
    note = "; all are loopback: nobody outside of this machine reaches them" if loopback else ""
    return [
        Finding(
            "addresses",
            OK,
            f"{len(places)} addresses: what is bound and what others are told fit{note}",
        )
    ]


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


def reached(area: str, named: dict[str, str], missing: str = FAIL) -> list[Finding]:
    """`named`: process -> address. One line for all that are reached, one for each that is not."""
    found = reasons(named.values())
    lost = [
        Finding(
            area,
            missing,
            f"{who} at {where}: {found[where]}",
            "Is it running? Is the port open between the machines?",
        )
        for who, where in named.items()
        if found[where] is not None
    ]
    well = len(named) - len(lost)
    return (
        [
            Finding(
                area,
                OK,
                f"{well} reached: "
                f"{', '.join(who for who, where in named.items() if found[where] is None)}",
            )
        ]
        if well
        else []
    ) + lost
