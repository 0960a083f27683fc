"""A history in a file proves itself anywhere, and whatever is altered in it is found."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from events.codec import decode, encode
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.proof.anchors import Anchor
from lakehouse.proof.history_file import verify_file, write_history
from lakehouse.tables.delta import ensure_tables
from lakehouse.tables.lake import Lake
from tests.support.generated_history import GeneratedHistory, generate
from tests.support.generated_lake import land_generated
from tests.support.landed_log import append_to_bronze, command_records, land, outcome_records

HISTORY: GeneratedHistory = generate(40, 2, 7)
LAST = 39


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return land_generated(tmp_path_factory.mktemp("lake"), HISTORY)


@pytest.fixture
def file(landed: Lake, tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    write_history(landed, path)
    return path


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_what_was_written_is_proven_without_the_lake(landed: Lake, tmp_path: Path) -> None:
    for name in ("history.jsonl", "history.jsonl.gz"):
        path = tmp_path / name
        written = write_history(landed, path)
        found = verify_file(path)
        assert (found.exit_code, found.verified_up_to, found.commands) == (0, LAST, LAST + 1)
        assert found.digest == written.digest and str(written.digest) in written.text()
        assert f"{path} holds the history of cluster {landed.cluster_id}" in found.text()
    assert list(tmp_path.glob("*.part")) == []
    with gzip.open(path) as packed:
        assert json.loads(packed.readline())["commands"] == LAST + 1


def test_a_person_can_read_it(file: Path) -> None:
    head, first, *_, tail = lines(file)
    assert head == {"history": 1, "cluster_id": "generated", "commands": LAST + 1}
    assert (first["offset"], first["kind"]) == (0, "ClusterFormed")
    assert len(first["digest"]) == 64 and tail["end"] == LAST + 1


def with_line(at: int, **other: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda all_: [*all_[: at + 1], all_[at + 1] | other, *all_[at + 2 :]]


def lied(data: str) -> str:
    outcome = decode(base64.b64decode(data))
    return base64.b64encode(encode(replace(outcome, cause="another"))).decode()


def flipped(data: str) -> str:
    raw = base64.b64decode(data)
    return base64.b64encode(raw[:-1] + bytes([raw[-1] ^ 1])).decode()


ALTERED: dict[str, tuple[Callable[[list[dict[str, Any]]], list[dict[str, Any]]], str]] = {
    "a command": (
        lambda all_: with_line(9, command=flipped(all_[10]["command"]))(all_),
        "at offset 9; equal up to 8",
    ),
    "an outcome": (
        lambda all_: with_line(9, outcome=lied(all_[10]["outcome"]))(all_),
        "at offset 9; equal up to 8",
    ),
    "a digest beside it": (with_line(9, digest="0" * 64), "offset 9: its digest is not the"),
    "a command gone": (lambda all_: [*all_[:8], *all_[9:]], "offset 7"),
    "two commands": (lambda all_: [*all_[:8], all_[9], all_[8], *all_[10:]], "offset 7"),
    "another command's outcome": (
        lambda all_: with_line(9, outcome=all_[9]["outcome"])(all_),
        "offset 9: what was published is no outcome of it",
    ),
    "its time": (with_line(9, timestamp_ms=5), "SHA-256 differs"),
    "no base64": (with_line(9, command="%%"), "offset 9: its bytes are no base64"),
    "its end": (lambda all_: all_[:-3], "it is cut behind command 37"),
    "its last line": (lambda all_: all_[:-1], "its last line is missing"),
    "the digest at its end": (
        lambda all_: [*all_[:-1], all_[-1] | {"digest": "ab" * 32}],
        "the digest in its last line is not the last published one",
    ),
    "what a command is called": (
        with_line(9, kind="ClusterFormed"),
        "offset 9: it is called ClusterFormed of ",
    ),
    "whose command it is": (with_line(9, broker_name="other"), " of other, and is "),
    "an outcome gone": (
        lambda all_: with_line(9, outcome=None)(all_),
        "offset 9: its digest is that of no outcome",
    ),
    "whose history it is": (
        lambda all_: [all_[0] | {"cluster_id": "other"}, *all_[1:]],
        "it says that it is of cluster other, and its commands are of cluster generated",
    ),
    "an offset of no history": (with_line(9, offset=2**61), f"command {2**61} stands in it"),
    "an offset that is no number": (with_line(9, offset=float("nan")), "cut behind command 8"),
    "an offset beyond any number": (with_line(9, offset=2**70), "it is cut behind command 8"),
    "how many there are": (
        lambda all_: [all_[0] | {"commands": 2**61}, *all_[1:]],
        "it is cut behind command 39",
    ),
    "the first line alone": (lambda all_: all_[:1], "it is cut behind command -1"),
    "a line twice": (lambda all_: [*all_[:10], *all_[9:]], "command 8 stands behind 8"),
    "more behind it": (lambda all_: [*all_, all_[-1]], "something stands behind its last line"),
}


@pytest.mark.parametrize("what", ALTERED)
def test_whatever_is_altered_is_found(file: Path, what: str) -> None:
    change, expected = ALTERED[what]
    new = [json.dumps(line, separators=(",", ":")) for line in change(lines(file))]
    file.write_text("".join(f"{line}\n" for line in new), "utf-8")
    found = verify_file(file)
    assert found.exit_code == 1
    assert expected in found.text(), found.text()


@pytest.mark.parametrize("other", [b"\xff", b"[" * 5_000, b"\x00"])
@pytest.mark.parametrize("at", [1, 10, LAST + 1])
def test_bytes_that_are_no_line_are_found(file: Path, at: int, other: bytes) -> None:
    raw = file.read_bytes().splitlines(keepends=True)
    raw[at] = raw[at][:-20] + other + raw[at][-19:]
    file.write_bytes(b"".join(raw))
    found = verify_file(file)
    assert found.exit_code == 1
    said = f"it is cut behind command {at - 2}"
    assert (f"offset {at - 1}: its bytes are no base64" if b"[" in other else said) in found.text()


def test_a_packed_file_that_was_cut_is_found(landed: Lake, tmp_path: Path) -> None:
    path = tmp_path / "history.gz"
    write_history(landed, path)
    path.write_bytes(path.read_bytes()[:-200])
    found = verify_file(path)
    assert found.exit_code == 1 and "it cannot be read on" in found.text()


def anchor(offset: int, digest: str) -> Anchor:
    return Anchor(
        cluster_id="generated",
        topic="regent.commands",
        partition=0,
        offset=offset,
        link="00",
        digest=digest,
    )


def test_anchors_say_whether_it_is_the_history_that_was_decided(file: Path) -> None:
    right = anchor(20, lines(file)[21]["digest"])
    found = verify_file(file, [right, replace(right, cluster_id="other", digest="x")])
    assert found.exit_code == 0 and "1 anchors were held against it" in found.text()
    wrong = verify_file(file, [anchor(20, "ab" * 32)])
    assert wrong.exit_code == 1
    assert f"{file}, regent.commands-0 offset 20: its digest is" in wrong.text()
    others = verify_file(file, [replace(right, cluster_id="other")])
    assert others.exit_code == 1
    assert "it is of cluster generated, the anchors are only of other" in others.text()
    short = verify_file(file, [anchor(99, "ab" * 32)])
    assert short.exit_code == 1 and "it ends at command 39, anchored up to 99" in short.text()


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    for text in ("", "junk\n", '{"history":2,"cluster_id":"c","commands":1}\n'):
        (tmp_path / "file").write_text(text)
        with pytest.raises(LakehouseError, match="history"):
            verify_file(tmp_path / "file")
    with pytest.raises(LakehouseError, match="cannot be opened"):
        verify_file(tmp_path / "none")


def test_what_cannot_be_whole_is_not_written(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "history"
    ensure_tables(lake)
    with pytest.raises(NotLanded):
        write_history(lake, path)
    values = HISTORY.commands[:9]
    records = command_records(values)
    land(lake, [*records[:3], *outcome_records(values)])
    append_to_bronze(lake, records[4:])
    with pytest.raises(LakehouseError, match="offsets 3 never landed"):
        write_history(lake, path)
    assert list(tmp_path.glob("history*")) == []
    append_to_bronze(lake, records[3:4])
    write_history(lake, path)
    with pytest.raises(FileExistsError):
        write_history(lake, path)


def test_commands_without_an_outcome_are_folded_and_unproven(lake: Lake, tmp_path: Path) -> None:
    values, lake = HISTORY.commands[:9], lake.of(HISTORY.cluster_id)
    land(lake, [*command_records(values), *outcome_records(values)[:7]])
    write_history(lake, tmp_path / "history")
    found = verify_file(tmp_path / "history")
    assert (found.exit_code, found.verified_up_to, found.unproven) == (0, 6, 2)
