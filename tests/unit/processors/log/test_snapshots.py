"""Snapshot files: whole or not at all, never the truth (design D4, S12)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from processors.log.snapshots import ETAG, FetchFailed, SnapshotFolder, etag, fetch
from tests.support.controller_rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig().lead().three()


def test_a_snapshot_gives_the_same_state_and_digest_back(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path / "s", kept=3)
    snapshots.write(rig.folder)
    loaded = next(snapshots.newest_first(not_above=10**9))
    assert (loaded.state, loaded.offset, loaded.digest) == (
        rig.folder.state,
        rig.folder.offset,
        rig.folder.digest,
    )
    assert list((tmp_path / "s").glob("*.part")) == []


def test_the_newest_that_is_old_enough_is_taken(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=3)
    snapshots.write(rig.folder)
    early = rig.folder.offset
    rig.alter("1", 2)
    snapshots.write(rig.folder)
    assert next(snapshots.newest_first(not_above=rig.folder.offset)).offset == rig.folder.offset
    assert next(snapshots.newest_first(not_above=rig.folder.offset - 1)).offset == early
    assert list(snapshots.newest_first(not_above=0)) == []


def test_a_torn_snapshot_is_passed_over(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=3)
    snapshots.write(rig.folder)
    early = rig.folder.offset
    rig.alter("1", 2)
    path = snapshots.write(rig.folder)
    path.write_bytes(path.read_bytes()[:-20])
    assert next(snapshots.newest_first(not_above=10**9)).offset == early


def test_a_snapshot_under_a_wrong_name_is_passed_over(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=3)
    path = snapshots.write(rig.folder)
    path.rename(tmp_path / f"snapshot-{999:020d}.bin")
    assert list(snapshots.newest_first(not_above=10**9)) == []


def test_only_the_newest_few_are_kept(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=2)
    for members in ("1", "1,2", "1,3"):
        assert rig.alter(members, rig.state.sets["a"].sync_state_set_epoch).code == 0
        snapshots.write(rig.folder)
    assert len(snapshots.offsets()) == 2 and snapshots.offsets()[-1] == rig.folder.offset


def test_the_file_of_the_newest_snapshot_that_is_old_enough_is_found_unread(
    tmp_path: Path, rig: Rig
) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=2)
    assert snapshots.newest_offset() == -1 and snapshots.newest_path(10**9) is None
    path, early = snapshots.write(rig.folder), rig.folder.offset
    rig.alter("1", 2)
    snapshots.write(rig.folder)
    assert snapshots.newest_offset() == rig.folder.offset
    assert snapshots.newest_path(early) == (early, path)


def test_what_no_start_would_read_is_not_written_and_told(
    tmp_path: Path, rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("processors.fold.snapshot_codec.SNAPSHOT_BYTES_MAX", 100)
    snapshots = SnapshotFolder(tmp_path, kept=2)
    assert snapshots.write(rig.folder) is None and snapshots.offsets() == []
    assert "limit 100; a start folds the log" in caplog.text


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
