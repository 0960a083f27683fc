"""What Java's DLedger writes is read, and what ours write is the same, byte by byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers.majority.wire import json_bodies

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "bodies.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: f"{one['kind']} {one['name']}")
def test_a_body_is_read_and_written_as_java_writes_it(recorded: dict[str, object]) -> None:
    code, body = recorded["code"], recorded["body"]
    assert isinstance(code, int) and isinstance(body, str)
    if recorded["kind"] == "request":
        message = json_bodies.decode_request(code, body.encode())
    else:
        message = json_bodies.decode_response(code, body.encode())  # type: ignore[assignment]
    assert json_bodies.encode(message) == body.encode()


def test_every_kind_of_message_was_recorded() -> None:
    found = {(one["code"], one["kind"]) for one in RECORDED}
    codes = (50000, 50001, 50002, 51001, 51002, 51004, 51005)
    assert found == {(code, kind) for code in codes for kind in ("request", "response")}
