"""The digest of the state itself: everything in it counts, however it was come by."""

import pytest
from immutables import Map
from msgspec.structs import replace

from events.codec import decode, encode, peek_fingerprint
from processors.fold import snapshot_codec, state_digest
from processors.fold.folder import Folder
from processors.fold.recent_commands import FirstOutcome, RecentCommands
from processors.fold.state import ControllerState
from processors.fold.state_digest import StateDigests, has_state_digest, newest_state_digest
from tests.support.control_history import with_master

RECORDS = with_master(1, 2, 3).records


def folded(records: list[bytes]) -> Folder:
    folder = Folder()
    for offset, data in enumerate(records):
        folder.apply(offset, data)
    return folder


def test_every_field_of_the_state_counts() -> None:
    """A snapshot in which only one of them is another is not the state that was published."""
    folder = folded(RECORDS)
    good = StateDigests().digest(folder.state, folder.recent)
    others = {
        "cluster_id": "x",
        "term": 99,
        "leader_id": "x",
        "leader_address": "x",
        "rules_version": 99,
        "leader_release": "x",
        "settings": Map({"a": "b"}),
        "fingerprints": ("x",),
        "sets": Map(),
    }
    assert others.keys() == set(ControllerState.__struct_fields__)
    for name, value in others.items():
        assert (
            StateDigests().digest(replace(folder.state, **{name: value}), folder.recent) != good
        ), name


def test_every_field_of_a_set_that_is_not_its_default_counts() -> None:
    folder = folded(RECORDS)
    name, broker_set = next(iter(folder.state.sets.items()))
    good = folder.state_digest()
    replica = broker_set.replicas[0]
    changed = [
        replace(broker_set, **{field: not value if isinstance(value, bool) else value + 1})
        for field in broker_set.__struct_fields__
        if isinstance(value := getattr(broker_set, field), int)
    ] + [
        replace(broker_set, sync_state_set=(1,)),
        replace(broker_set, cluster_name="x"),
        replace(broker_set, replicas=(replace(replica, address="x"), *broker_set.replicas[1:])),
    ]
    for other in changed:
        assert (
            StateDigests().digest(
                replace(folder.state, sets=folder.state.sets.set(name, other)), folder.recent
            )
            != good
        )


def test_what_repeats_will_be_told_counts() -> None:
    folder = folded(RECORDS)
    good = folder.state_digest()
    shorter, other = RecentCommands(), RecentCommands()
    for number, (command_id, first) in enumerate(folder.recent.items()):
        if number:
            shorter.remember(command_id, first)
        other.remember(command_id, replace(first, code=first.code + (number == 1)))
    for recent in (shorter, other):
        assert StateDigests().digest(folder.state, recent) != good


def test_going_on_gives_the_same_as_beginning_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept parts of former digests, ids that were forgotten within a block, and a loaded snapshot
    change nothing.
    """
    monkeypatch.setattr(state_digest, "STATE_DIGEST_EVERY", 4)
    recent, kept, seen = RecentCommands(), StateDigests(), set()
    state = folded(RECORDS).state
    for offset in range(64):
        if offset % 3:
            recent.remember(
                offset.to_bytes(16), FirstOutcome(offset, "ElectMaster", "a", True, None, 0)
            )
        recent.forget_before(offset - 17)
        if has_state_digest(offset):
            digest = kept.digest(state, recent)
            assert digest == StateDigests().digest(state, recent), offset
            seen.add(digest)
    assert len(seen) == 16


def test_a_loaded_snapshot_and_bulk_folding_have_the_digest_of_the_fold() -> None:
    folder, bulk = folded(RECORDS), Folder()
    bulk.apply_many(0, RECORDS)
    assert (
        snapshot_codec.load(snapshot_codec.dump(folder)).state_digest()
        == folder.state_digest()
        == bulk.state_digest()
    )


def test_every_hundredth_outcome_carries_it_and_only_that_one_has_the_new_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Releases before this one read all others, and their landed history goes on."""
    monkeypatch.setattr(state_digest, "STATE_DIGEST_EVERY", 5)
    folder, records = Folder(), with_master(1, 2, 3, rules=2).records
    outcomes = [folder.apply(offset, data).outcome for offset, data in enumerate(records)]
    assert [bool(one.state_digest) for one in outcomes] == [
        has_state_digest(offset) for offset in range(len(records))
    ]
    assert all(decode(encode(one)) == one for one in outcomes)
    forms = {bool(one.state_digest): peek_fingerprint(encode(one)) for one in outcomes}
    assert forms[True] != forms[False] == "c9d8fa550e432cc1"
    assert folder.digest == folded(records).digest  # The chain is the one of all releases.


def test_the_newest_offset_that_can_be_proven() -> None:
    assert [newest_state_digest(end) for end in (0, 99, 100, 101, 250)] == [-1, -1, 99, 99, 199]
