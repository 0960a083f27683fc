"""What of a message is indexed, and under which number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.log.index_keys import KeyHashes, keys_of
from brokers.log.properties import encode_properties, java_string_hash
from brokers.log.records import SYS_FLAG_COMMIT, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK, Record


def java_index_hash(text: str) -> int:
    value = abs(java_string_hash(text))
    return value if value < 1 << 31 else 0


def record(flags: int = 0, **properties: str) -> Record:
    return Record(700, 100, "T", 0, 0, 0, 5, flags, encode_properties(properties))


def test_the_unique_key_comes_first_then_each_word_of_the_keys() -> None:
    assert keys_of(b"KEYS\x01b a  c\x02TAGS\x01x\x02UNIQ_KEY\x01u\x02") == [b"u", b"b", b"a", b"c"]
    assert keys_of(b"KEYS\x01 \x02MY_KEYS\x01x\x02") == []
    assert keys_of(b"") == []


@given(st.text(min_size=1, max_size=60), st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=80))
def test_hashes_are_those_of_java(topic: str, key: str) -> None:
    hashes = KeyHashes()
    for _ in range(2):  # first and remembered
        assert hashes.of(topic, key.encode()) == java_index_hash(f"{topic}#{key}")


def test_many_clients_leave_the_memory_of_hashes_small_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokers.log.index_keys._HEADS_MAX", 3)
    hashes = KeyHashes()
    for number in range(20):
        key = f"client{number}" + "0" * 12
        assert hashes.of("T", key.encode()) == java_index_hash(f"T#{key}")
    assert len(hashes._heads) <= 3


def test_only_rollbacks_are_left_out() -> None:
    of = KeyHashes().of_records
    wanted = [(java_index_hash("T#u"), 700, 5)]
    for flags in (0, SYS_FLAG_PREPARED, SYS_FLAG_COMMIT):
        assert of([record(flags, UNIQ_KEY="u")]) == wanted
    assert of([record(SYS_FLAG_ROLLBACK, UNIQ_KEY="u"), record(TAGS="x")]) == []
