"""A snapshot over HTTP: limits, a torn answer, another answer than a snapshot."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from processors.log.snapshot_fetch import ETAG, FetchFailed, etag, fetch


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server with one answer; what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silence."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_the_bytes_come_as_they_are_and_the_question_names_the_limit() -> None:
    body = bytes(range(256)) * 5_000
    with answering(
        200, body, Content_Length=str(len(body)), **{ETAG: etag(7, sha256(body).hexdigest())}
    ) as (address, asked):
        assert fetch(address, not_above=41) == body
    assert asked == ["/snapshot?not_above=41"]


@pytest.mark.parametrize(
    ("status", "body", "headers", "text"),
    [
        (404, b"no snapshot", {}, "answered 404: no snapshot"),
        (200, b"x" * 101, {}, "more than 100 bytes"),
        (200, b"", {"Content_Length": "101"}, "101 bytes, limit 100"),
        (200, b"x" * 9, {"Content_Length": "20"}, "torn: 9 of 20 bytes|IncompleteRead"),
        (
            200,
            b"x" * 9,
            {"ETag": etag(1, sha256(b"y" * 9).hexdigest())},
            "not those that its ETag names",
        ),
    ],
)
def test_what_is_no_whole_snapshot_of_bearable_size_is_refused(
    status: int, body: bytes, headers: dict[str, str], text: str
) -> None:
    with answering(status, body, **headers) as (address, _), pytest.raises(FetchFailed, match=text):
        fetch(address, 5, bytes_max=100)


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    with answering(200, b"x" * 9) as (address, _), pytest.raises(FetchFailed, match="too long"):
        fetch(address, 5, deadline_s=-1.0)


def test_nobody_there_is_told() -> None:
    with pytest.raises(FetchFailed, match="127.0.0.1:1"):
        fetch("127.0.0.1:1", 5)


def test_a_header_that_never_ends_is_left_at_the_deadline() -> None:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not ended.wait(0.01):
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        try:
            with pytest.raises(FetchFailed):
                fetch(f"127.0.0.1:{server.getsockname()[1]}", not_above=1, deadline_s=0.2)
        finally:
            ended.set()
            thread.join()
