"""What of a message is indexed, and under which number."""

from hypothesis import assume, given
from hypothesis import strategies as st

from brokers.store.index.keys import key_hash, keys_of, keys_of_records
from brokers.store.log.properties import decode_properties, encode_properties, java_string_hash
from brokers.store.log.records import SYS_FLAG_COMMIT, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK, Record


def java_index_hash(text: str) -> int:
    value = abs(java_string_hash(text))
    return value if value < 1 << 31 else 0


def record(flags: int = 0, **properties: str) -> Record:
    return Record(700, 100, "T", 0, 0, 0, 5, flags, encode_properties(properties))


def test_the_unique_key_comes_first_then_each_word_of_the_keys() -> None:
    assert keys_of(b"KEYS\x01b a  c\x02TAGS\x01x\x02UNIQ_KEY\x01u\x02") == [b"u", b"b", b"a", b"c"]
    assert keys_of(b"KEYS\x01 \x02MY_KEYS\x01x\x02") == []
    assert keys_of(b"") == []


@given(
    st.text(min_size=1, max_size=60),
    st.one_of(st.text(max_size=80), st.text("0123456789ABCDEFabcz-_~ ", max_size=300)),
)
def test_hashes_are_those_of_java(topic: str, key: str) -> None:
    assume(key.isascii() or not any(0xD800 <= ord(unit) < 0xE000 for unit in topic + key))
    assert key_hash(topic, key.encode("utf-8", "surrogatepass")) == java_index_hash(
        f"{topic}#{key}"
    )


def test_the_one_hash_without_absolute_value_is_zero() -> None:
    powers = [31**place for place in reversed(range(8))]
    rest = ((1 << 31) - (java_string_hash("T#") * 31**8 + 48 * sum(powers))) % (1 << 32)
    key = "".join(chr(48 + rest // power % 31) for power in powers)
    assert java_string_hash(f"T#{key}") == -(1 << 31)
    assert key_hash("T", key.encode()) == 0


def test_only_rollbacks_are_left_out() -> None:
    of = keys_of_records
    wanted = [(java_index_hash("T#u"), 700, 5)]
    for flags in (0, SYS_FLAG_PREPARED, SYS_FLAG_COMMIT):
        assert of([record(flags, UNIQ_KEY="u")]) == wanted
    assert of([record(SYS_FLAG_ROLLBACK, UNIQ_KEY="u"), record(TAGS="x")]) == []


NAMES = st.sampled_from(["KEYS", "UNIQ_KEY", "MY_KEYS", "TAGS", "KEYS_OF"])


@given(st.lists(st.tuples(NAMES, st.sampled_from(["", "a", "b c", "KEYS"])), max_size=6))
def test_the_last_of_equal_names_wins_and_look_alikes_do_not_count(
    properties: list[tuple[str, str]],
) -> None:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties).encode()
    known = decode_properties(text)
    wanted = [known.get("UNIQ_KEY", ""), *known.get("KEYS", "").split(" ")]
    assert keys_of(text) == [word.encode() for word in wanted if word]


TOPICS = st.sampled_from(["T", "Topic-b", "%RETRY%g"])
VALUES = st.one_of(
    st.text("0123456789ABCDEF", min_size=32, max_size=32),
    st.text("ab é~ N0", max_size=80),
    st.just("x" * 300),
)


@given(st.lists(st.tuples(TOPICS, VALUES, VALUES), min_size=1, max_size=6))
def test_the_quick_way_over_many_messages_finds_the_same_as_the_plain_one(
    messages: list[tuple[str, str, str]],
) -> None:
    records, wanted = [], []
    for place, (topic, unique, words) in enumerate(messages):
        properties = f"UNIQ_KEY\x01{unique}\x02KEYS\x01{words}\x02".encode()
        records.append(Record(place, 1, topic, 0, place, 0, 5, 0, properties))
        wanted += [(key_hash(topic, key), place, 5) for key in keys_of(properties)]
    assert keys_of_records(records) == wanted
