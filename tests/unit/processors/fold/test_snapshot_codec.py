"""Snapshots: the same folder back, or a clear refusal."""

import pytest

from processors.fold import canonical, snapshot_codec
from processors.fold.folder import Folder
from processors.fold.snapshot_codec import SnapshotError, dump, load
from tests.support.control_history import History, seen, with_master


def told() -> History:
    history = with_master(1, 2, 3)
    history.setting("enableElectUncleanMaster", "true")
    history.register(3, "i3-again", clean=False)
    history.elect(-1, seen(1, alive=False), seen(2))
    history.apply_id(4)
    return history


def test_a_folder_comes_back_as_it_was():
    history = told()
    again = load(dump(history.folder))
    assert again.state == history.folder.state
    assert (again.offset, again.digest) == (history.folder.offset, history.folder.digest)
    assert list(again.recent.items()) == list(history.folder.recent.items())
    assert dump(again) == dump(history.folder)


def test_an_empty_folder_comes_back_too():
    assert dump(load(dump(Folder()))) == dump(Folder())


def test_a_fold_goes_on_from_a_snapshot_as_if_it_had_never_stopped():
    history = told()
    for cut in range(len(history.records) + 1):
        first = Folder()
        for offset in range(cut):
            first.apply(offset, history.records[offset])
        second = load(dump(first))
        for offset in range(cut, len(history.records)):
            second.apply(offset, history.records[offset])
        assert second.digest == history.folder.digest
        assert canonical.state_text(second.state) == canonical.state_text(history.folder.state)


def test_a_repeat_is_recognised_after_a_snapshot():
    history = told()
    history.folder = load(dump(history.folder))
    assert history.append(history.records[-1]).outcome.labels == ("REPEAT",)


def test_a_torn_snapshot_is_refused():
    data = dump(told().folder)
    for length in [*range(100), len(data) // 2, len(data) - 1]:
        with pytest.raises(SnapshotError):
            load(data[:length])


def test_a_changed_byte_is_refused():
    data = dump(told().folder)
    for at in range(0, len(data), 97):
        with pytest.raises(SnapshotError):
            load(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_another_version_is_refused_by_name():
    data = dump(told().folder).replace(b"regent-snapshot 2\n", b"regent-snapshot 3\n", 1)
    with pytest.raises(SnapshotError, match="version 3, this release reads 2"):
        load(data)


def test_an_oversized_snapshot_is_refused_unread(monkeypatch):
    monkeypatch.setattr(snapshot_codec, "SNAPSHOT_BYTES_MAX", 100)
    with pytest.raises(SnapshotError, match="limit 100"):
        load(dump(told().folder))


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"null", b"{", b'{"sets":[1]}'], ids=repr)
def test_a_whole_snapshot_without_a_folder_is_refused(body):
    from hashlib import sha256

    with pytest.raises(SnapshotError):
        load(b"regent-snapshot 2\n" + sha256(body).hexdigest().encode() + b"\n" + body)


def test_rules_that_this_release_does_not_have_are_refused():
    from msgspec.structs import replace

    folder = told().folder
    folder.state = replace(folder.state, rules_version=99)
    with pytest.raises(SnapshotError, match="rules 99"):
        load(dump(folder))


def test_a_snapshot_under_rules_that_a_release_lacks_is_refused():
    data = dump(told().folder)
    with pytest.raises(SnapshotError, match="rules"):
        load(data, supported_rules=(99,))
    version = told().folder.state.rules_version
    assert load(data, supported_rules=(version,)).copy().supported_rules == (version,)


def test_what_rules_2_know_comes_back_too():
    history = with_master(1, 2)
    history.setting("enableElectUncleanMaster", "true")
    history.elect(-1, seen(3))
    again = load(dump(history.folder))
    assert again.state == history.folder.state
    assert again.state.sets["broker-a"].at_risk
    assert again.state.leader_release == "0.1.0"
    other = History()
    other.import_set(1, 2)
    assert load(dump(other.folder)).state == other.folder.state


def test_a_snapshot_of_the_first_release_is_ignored_and_not_misread():
    """Its form had fewer fields; the log is folded instead."""
    with pytest.raises(SnapshotError, match="version 1, this release reads 2"):
        load(b"regent-snapshot 1\n" + b"0" * 64 + b"\n{}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"offset":8', b'"offset":"8"'),
        (b'"term":1', b'"term":null'),
        (b'"settings":{', b'"settings":{"x":1,'),
        (b'"digest":"', b'"digest":"00'),
        (b'"sets":[', b'"sets":[' + b"[" * 100_000),
    ],
    ids=["text for a number", "nothing for a number", "number for a text", "long digest", "deep"],
)
def test_a_strangers_body_of_other_types_is_refused_before_anything_is_made_of_it(
    old: bytes, new: bytes
):
    from hashlib import sha256

    history = told()
    head, body = dump(history.folder).rsplit(b"\n", 1)
    old = old.replace(b"8", str(history.folder.offset).encode())
    new = new.replace(b"8", str(history.folder.offset).encode())
    assert old in body
    body = body.replace(old, new, 1)
    version = head.split(b"\n")[0]
    with pytest.raises(SnapshotError, match="unreadable"):
        load(version + b"\n" + sha256(body).hexdigest().encode() + b"\n" + body)
