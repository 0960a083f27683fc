"""HA sockets: non-blocking, callback-driven, log bytes by sendfile.

Responsible for: listening, connecting, reading into one buffer, writing each link's packets in
order with a bounded queue. Refuses to know: what the bytes mean, roles, the log but for where a
range lies.

All on one event loop. Nothing here calls back from inside a call into it: what happened is reported
from the loop, so the owner's steps never nest.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from brokers.remoting.addresses import split_address

RECEIVE_BYTES = 1024 * 1024
QUEUE_HIGH_PACKETS = 64
QUEUE_LOW_PACKETS = 16
QUEUE_PACKETS_MAX = 10_000
CONNECT_TIMEOUT_MS = 1000
LISTEN_BACKLOG = 64
ACCEPT_PAUSE_MS = 200
NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class FileRangeLike(Protocol):
    """Where log bytes lie: file descriptor, position in the file, bytes available there."""

    @property
    def fileno(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def count(self) -> int: ...


Resolve = Callable[[int, int], "FileRangeLike | None"]


class LinkOwner(Protocol):
    """The listener for events of links. `data` of on_data is valid during the call only."""

    def on_opened(self, link_id: int, *, outbound: bool) -> None: ...
    def on_data(self, link_id: int, data: memoryview) -> None: ...
    def on_closed(self, link_id: int, reason: str) -> None: ...
    def on_flow(self, link_id: int, *, blocked: bool) -> None: ...
    def on_connect_failed(self, reason: str) -> None: ...


@dataclass(slots=True)
class _Packet:
    """What is still to be written: `data`, then `count` log bytes from `offset`."""

    data: memoryview
    offset: int = 0
    count: int = 0


class _Link:
    """One socket. Writes at once while nothing is queued; else the loop goes on when writable."""

    def __init__(self, transport: HaTransport, link_id: int, sock: socket.socket) -> None:
        self.link_id = link_id
        self._transport = transport
        self._loop = transport.loop
        self._sock = sock
        self._queue: deque[_Packet] = deque()
        self._writing = False
        self._blocked = False
        self._closed = False
        self.peer = _peer(sock)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._loop.add_reader(sock.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        if self._closed:
            return
        buffer = self._transport.receive_buffer
        try:
            received = self._sock.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(f"read: {error}")
            return
        if received:
            self._transport.owner.on_data(self.link_id, buffer[:received])
        else:
            self._lost("closed by peer")

    def send(self, packet: _Packet) -> None:
        if self._closed:
            return
        if len(self._queue) >= QUEUE_PACKETS_MAX:
            self._lost(f"{len(self._queue)} packets not taken by the peer")
            return
        self._queue.append(packet)
        if self._writing:
            self._watch_queue()
        else:
            self._write()

    def _write(self) -> None:
        try:
            while self._queue and self._write_packet(self._queue[0]):
                self._queue.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._lost(f"write: {error}")
            return
        self._watch_queue()

    def _write_packet(self, packet: _Packet) -> bool:
        while len(packet.data):
            flags = socket.MSG_MORE if packet.count else 0
            packet.data = packet.data[self._sock.send(packet.data, flags) :]
        while packet.count:
            # Looked up every time: between two writes the file may have been closed or removed.
            place = self._transport.resolve(packet.offset, packet.count)
            if place is None:
                raise OSError(f"log bytes at {packet.offset} are gone")
            wanted = min(packet.count, place.count)
            sent = os.sendfile(self._sock.fileno(), place.fileno, place.position, wanted)
            if not sent:
                raise OSError(f"log file ends before {packet.offset + packet.count}")
            packet.offset += sent
            packet.count -= sent
        return True

    def _watch_queue(self) -> None:
        if bool(self._queue) != self._writing:
            self._writing = bool(self._queue)
            if self._writing:
                self._loop.add_writer(self._sock.fileno(), self._write)
            else:
                self._loop.remove_writer(self._sock.fileno())
        if not self._blocked and len(self._queue) >= QUEUE_HIGH_PACKETS:
            self._tell_flow(blocked=True)
        elif self._blocked and len(self._queue) <= QUEUE_LOW_PACKETS:
            self._tell_flow(blocked=False)

    def _tell_flow(self, *, blocked: bool) -> None:
        self._blocked = blocked
        self._loop.call_soon(self._transport.tell_flow, self.link_id, blocked)

    def _lost(self, reason: str) -> None:
        self.close()
        self._loop.call_soon(self._transport.tell_closed, self.link_id, reason)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._queue.clear()
        self._sock.close()


def _peer(sock: socket.socket) -> str:
    try:
        return host_and_port(*sock.getpeername()[:2])
    except OSError:  # gone already
        return ""


def host_and_port(host: str, port: int) -> str:
    """As `connect` takes it: IPv6 hosts in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HaTransport:
    """Links of one broker. `resolve(offset, count)` finds log bytes in an open file."""

    def __init__(self, owner: LinkOwner, resolve: Resolve) -> None:
        self.owner = owner
        self.resolve = resolve
        self.loop = asyncio.get_running_loop()
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._links: dict[int, _Link] = {}
        self._ids = count(1)
        self._listener: socket.socket | None = None
        self._connecting: asyncio.Task[None] | None = None

    # -- listening and connecting ------------------------------------------------------------------

    def listen(self, host: str, port: int) -> int:
        """Bind and accept; returns the port (0 asks for a free one). OSError when it is taken."""
        listener = socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM
        )
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(LISTEN_BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self._accept()
        return listener.getsockname()[1]

    def _on_acceptable(self) -> None:
        assert self._listener is not None
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            # a waiting connection keeps the listener readable, so it is not watched meanwhile
            if error.errno in NO_ROOM:
                self.loop.remove_reader(self._listener.fileno())
                self.loop.call_later(ACCEPT_PAUSE_MS / 1000, self._accept)
            return  # else the peer is gone again
        self._add(sock, outbound=False)

    def _accept(self) -> None:
        if self._listener is not None:
            self.loop.add_reader(self._listener.fileno(), self._on_acceptable)

    def connect(self, address: str) -> None:
        """Connect to "host:port" or "[host]:port"; an attempt under way is given up. Ends in
        on_opened or on_connect_failed.
        """
        self.cancel_connect()
        self._connecting = self.loop.create_task(
            self._connect(address), name=(f"ha connect {address}")
        )

    def cancel_connect(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None

    async def _connect(self, address: str) -> None:
        sock: socket.socket | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1000):
                (*kind, _, target), *_ = await self.loop.getaddrinfo(
                    *split_address(address), type=socket.SOCK_STREAM
                )
                sock = socket.socket(*kind)
                sock.setblocking(False)
                await self.loop.sock_connect(sock, target)
        except (OSError, ValueError, TimeoutError) as error:
            if sock is not None:
                sock.close()
            self._connecting = None
            self.owner.on_connect_failed(str(error) or type(error).__name__)
            return
        except asyncio.CancelledError:
            if sock is not None:
                sock.close()
            raise
        self._connecting = None
        self._add(sock, outbound=True)

    def _add(self, sock: socket.socket, *, outbound: bool) -> None:
        link = _Link(self, next(self._ids), sock)
        self._links[link.link_id] = link
        self.owner.on_opened(link.link_id, outbound=outbound)

    # -- links -------------------------------------------------------------------------------------

    def send(self, link_id: int, data: bytes, offset: int = 0, count: int = 0) -> None:
        """One packet: `data`, then `count` log bytes from `offset`. Ignored when the link is
        gone.
        """
        link = self._links.get(link_id)
        if link is not None:
            link.send(_Packet(memoryview(data), offset, count))

    def peer(self, link_id: int) -> str:
        """Address at the other end, empty when the link is gone."""
        link = self._links.get(link_id)
        return "" if link is None else link.peer

    def close_link(self, link_id: int) -> None:
        """Close at the owner's wish, without a call back to it."""
        link = self._links.pop(link_id, None)
        if link is not None:
            link.close()

    def tell_closed(self, link_id: int, reason: str) -> None:
        if self._links.pop(link_id, None) is not None:
            self.owner.on_closed(link_id, reason)

    def tell_flow(self, link_id: int, blocked: bool) -> None:
        if link_id in self._links:
            self.owner.on_flow(link_id, blocked=blocked)

    def close(self) -> None:
        """Close everything, without calls back."""
        self.cancel_connect()
        if self._listener is not None:
            self.loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        for link_id in list(self._links):
            self.close_link(link_id)
