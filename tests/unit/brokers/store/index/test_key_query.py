"""Messages by place and by key."""

from pathlib import Path

from msgspec.structs import replace

from brokers.store.index.key_query import message_at, messages_with_key
from brokers.store.log.integrity import BadRecord
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import decode_message
from brokers.store.store import MessageStore
from tests.unit.brokers.store.log.test_patch import flip
from tests.unit.brokers.store.log_samples import NOW_MS, message, small_store


def keyed_store(root: Path, count: int = 4) -> tuple[MessageStore, list[int]]:
    store, offsets = small_store(root), []
    for number in range(count):
        properties = encode_properties(
            {"UNIQ_KEY": f"u{number}", "KEYS": "all even" if number % 2 == 0 else "all"}
        )
        offsets.append(
            store.put(
                replace(message(body=b"%d" % number), properties=properties), NOW_MS + number
            ).physical_offset
        )
    store.dispatch_to(store.log_end)
    return store, offsets


def asked(
    store: MessageStore,
    key: str,
    topic: str = "T",
    limit: int = 64,
    begin: int = 0,
    end: int = 1 << 60,
    **others: int,
):  # type: ignore[no-untyped-def]
    assert store.index is not None
    candidates = store.index.find(topic, key, begin, end)
    return messages_with_key(
        store.log, candidates, topic, key, limit, begin, end, others.get("readable", store.log_end)
    )


def numbers(found) -> list[bytes]:  # type: ignore[no-untyped-def]
    return [decode_message(data).fields.body for data in found.messages]


def test_the_newest_come_first_and_time_and_limit_count(tmp_path: Path) -> None:
    store, _ = keyed_store(tmp_path)
    assert numbers(asked(store, "all")) == [b"3", b"2", b"1", b"0"]
    assert numbers(asked(store, "even")) == [b"2", b"0"]
    assert numbers(asked(store, "u1")) == [b"1"]
    assert numbers(asked(store, "all", limit=2)) == [b"3", b"2"]
    assert numbers(asked(store, "all", begin=NOW_MS + 1, end=NOW_MS + 2)) == [b"2", b"1"]
    assert numbers(asked(store, "absent")) == numbers(asked(store, "all", topic="U")) == []


def test_candidates_that_have_another_key_or_are_no_messages_do_not_count(tmp_path: Path) -> None:
    store, offsets = keyed_store(tmp_path)
    wrong = [offsets[1], offsets[0] + 3, 10**9, -4, offsets[2]]
    found = messages_with_key(store.log, wrong, "T", "even", 64, 0, 1 << 60, store.log_end)
    assert numbers(found) == [b"2"] and not found.refused


def test_what_is_not_readable_yet_is_not_seen(tmp_path: Path) -> None:
    store, offsets = keyed_store(tmp_path)
    assert numbers(asked(store, "all", readable=offsets[2])) == [b"1", b"0"]
    assert message_at(store.log, offsets[2], offsets[3] - 1) is None


def test_a_damaged_message_is_told_and_not_given(tmp_path: Path) -> None:
    store, offsets = keyed_store(tmp_path)
    flip(tmp_path, offsets[2] + 88)
    found = asked(store, "all")
    assert numbers(found) == [b"3", b"1", b"0"]
    assert [bad.place.offset for bad in found.refused] == [offsets[2]]
    assert isinstance(message_at(store.log, offsets[2], store.log_end), BadRecord)
    assert isinstance(message_at(store.log, offsets[1], store.log_end), bytes)
