"""States to go on from: as they are kept now, as earlier releases kept them, and what is none."""

import zlib
from hashlib import sha256

import pytest
from msgspec import msgpack

from lakehouse.proof import kept_state
from processors.fold import snapshot_codec
from tests.support.control_history import with_master

FOLDER = with_master(1, 2, 3).folder
PLAIN = snapshot_codec.dump(FOLDER)


def test_a_state_comes_back_as_it_was_kept() -> None:
    name, snapshot = kept_state.snapshot_of(FOLDER)
    assert name == sha256(PLAIN).hexdigest() and zlib.decompress(snapshot) == PLAIN
    state = kept_state.packed(snapshot, b'{"a":1}')
    found = kept_state.unpacked(state)
    assert found is not None
    assert (found.state, found.folder.offset, found.carried) == (name, FOLDER.offset, b'{"a":1}')
    assert kept_state.carried_in(state) == b'{"a":1}'
    assert kept_state.kept_name(state) == sha256(state).hexdigest()


def test_a_state_of_an_earlier_release_has_the_name_that_it_gave_it() -> None:
    plain = msgpack.encode((PLAIN, b"{}"))
    state = zlib.compress(plain)
    found = kept_state.unpacked(state)
    assert found is not None and found.state == sha256(PLAIN).hexdigest()
    assert kept_state.kept_name(state) == sha256(plain).hexdigest()
    assert kept_state.carried_in(state) == b"{}"


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"x",
        zlib.compress(b"x"),
        zlib.compress(msgpack.encode((PLAIN, b"{}")))[:-9],
        msgpack.encode((PLAIN, b"{}")),
        msgpack.encode((zlib.compress(PLAIN)[:-5], b"{}")),
        msgpack.encode((zlib.compress(b"x"), b"{}")),
    ],
)
def test_what_is_no_state_is_not_used(state: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_state.unpacked(state) is None
    good = kept_state.packed(zlib.compress(PLAIN), b"{}")
    monkeypatch.setattr(kept_state, "COMPRESSED_BYTES_MAX", len(PLAIN) - 1)
    assert kept_state.unpacked(good) is None
