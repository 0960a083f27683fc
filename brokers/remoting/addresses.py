"""Addresses as text.

Responsible for: `host:port` both ways, and what people write by mistake. Refuses to know: who
listens there.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

NO_HOST = re.compile(r"[^\w.:%-]")
"""What stands in no host's name and in no number of one."""

ANY_HOSTS = ("0.0.0.0", "::")
"""Hosts to listen at that name every address of the machine, and can be reached under none."""


def address_text(name: object) -> str:
    """Of a socket's name; as good as it goes for other kinds of sockets."""
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else str(name or "")


def host_of(address: str) -> str:
    """The host of "host:port" as it stands there, without brackets; empty when there is no port."""
    return address.rpartition(":")[0].strip("[]")


def is_number(host: str) -> bool:
    """Whether a host is an IP address, or nothing, and not a name."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return host == ""
    return True


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" ("[::1]:9876" too). Raises ValueError."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)


def written_address(text: str) -> str:
    """An address out of settings, without blanks around it. Raises ValueError that says what is
    wrong with it: a scheme, several addresses in one, no host.
    """
    address = text.strip()
    scheme, slashes, _ = address.partition("://")
    if slashes:
        raise ValueError(f"{address!r} is not host:port: leave out {scheme + slashes!r}")
    host, _ = split_address(address)
    if not host:
        raise ValueError(
            f"{address!r} names no host: write 0.0.0.0{address} to listen at every address of "
            "this machine"
        )
    if found := NO_HOST.search(host):
        raise ValueError(f"{address!r} is not one host:port: {found[0]!r} stands in no host")
    return address


def join_address(host: str, port: int) -> str:
    """The text of which `split_address` makes these."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(address: str) -> bool:
    """Whether "host:port" is reached from its own machine only. Names but "localhost" are not
    looked up.
    """
    host = host_of(address)
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"
