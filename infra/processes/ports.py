"""Ports for a local cluster: find free ones that stay free, and say which are taken.

Refuses to know who will listen.
"""

from __future__ import annotations

import errno
import random
import socket

from infra.problems import Problem

# Below 32768, where Linux starts to hand out ports for outgoing connections: a port of ours must
# not be taken by somebody's client while its process restarts.
PORT_FIRST = 15_000
PORT_LAST = 32_000
PICK_TRIES = 2_000
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
    """The first of `count` ports in a row that are all free now."""
    for _ in range(PICK_TRIES):
        first = random.randint(PORT_FIRST, PORT_LAST - count)
        if all(is_free(f"{host}:{port}") for port in range(first, first + count)):
            return first
    raise Problem(f"no {count} free ports in a row on {host}", "Name a --base-port yourself.")


def require_free(name: str, address: str) -> None:
    """Problem when the address of process `name` is taken."""
    if not is_free(address):
        raise Problem(
            f"port in use: {name} wants to listen on {address}",
            "End what listens there, or use another --dir or --base-port.",
        )
