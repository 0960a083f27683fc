"""Ports for a local cluster: find free ones that stay free, and say which are taken.

Refuses to know who will listen.
"""

from __future__ import annotations

import errno
import os
import random
import socket

from infra.problems import Problem

# Below 32768, where Linux starts to hand out ports for outgoing connections: a port of ours must
# not be taken by somebody's client while its process restarts.
PORT_FIRST = 15_000
PORT_LAST = 32_000
PICK_TRIES = 2_000
RANGE_VARIABLE = "REGENT_PORTS"
"""FIRST-LAST in the environment: ports are picked from there, for all whom a process starts, too.
A cluster that is down holds no port: two who pick from one range may give one's to the other.
"""
PORT_MAX = 65_535


def split_address(address: str) -> tuple[str, int]:
    """`host:port` as a pair; ValueError otherwise."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit():
        raise ValueError(f"{address!r} is no host:port")
    if int(port) > PORT_MAX:
        raise ValueError(f"{address!r} has no port that exists")
    return host, int(port)


def is_free(address: str) -> bool:
    """Somebody could listen there now. A host that is not ours counts as not free."""
    host, port = split_address(address)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
                return False
            raise
    return True


def pick_block(count: int, host: str = "127.0.0.1") -> int:
    """The first of `count` ports in a row that are all free now. Problem when there are none, or
    when the range that the environment names is none.
    """
    lowest, highest = _range()
    for _ in range(PICK_TRIES if highest - lowest >= count else 0):
        first = random.randint(lowest, highest - count)
        if all(is_free(f"{host}:{port}") for port in range(first, first + count)):
            return first
    raise Problem(f"no {count} free ports in a row on {host}", "Name a --base-port yourself.")


def _range() -> tuple[int, int]:
    """The lowest port to pick, and the one behind the highest."""
    named = os.environ.get(RANGE_VARIABLE)
    if not named:
        return PORT_FIRST, PORT_LAST
    first, _, last = named.partition("-")
    if not all(part.isascii() and part.isdigit() for part in (first, last)) or not (
        0 < int(first) <= int(last) <= PORT_MAX
    ):
        raise Problem(
            f"{RANGE_VARIABLE} is {named!r}, which is no range of ports",
            f"Write it as FIRST-LAST, for example {PORT_FIRST}-{PORT_LAST - 1}, or leave it out.",
        )
    return int(first), int(last) + 1


def require_free(name: str, address: str) -> None:
    """Problem when the address of process `name` is taken."""
    if not is_free(address):
        raise Problem(
            f"port in use: {name} wants to listen on {address}",
            "End what listens there, or use another --dir or --base-port.",
        )
