"""Java's properties text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.properties import KEYS_MAX, PROPERTIES_BYTES_MAX, PropertiesRejected, dump, parse


@pytest.mark.parametrize(("text", "found"), [
    ("a=1\nb = 2\nc:3\nd 4\ne", {"a": "1", "b": "2", "c": "3", "d": "4", "e": ""}),
    ("# no\n  ! no\n\n a = x # stays\n", {"a": "x # stays"}),
    ("peers=n0-h:1;\\\n   n1-h:2;\\\n\tn2-h:3\n", {"peers": "n0-h:1;n1-h:2;n2-h:3"}),
    ("a=ends\\\\\nb=1", {"a": "ends\\", "b": "1"}),
    ("a\\ b\\=c=d\\=e=f", {"a b=c": "d=e=f"}),
    ("t=a\\tb\\nc\\qd", {"t": "a\tb\ncqd"}),
    ("name=\\u0052egent \\uD83D\\uDE00 ü", {"name": "Regent \U0001f600 ü"}),
    ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    ("a=1\na=2", {"a": "2"}),
    ("a=1\\", {"a": "1"}),
    ("a==b", {"a": "=b"}),
    ("key=  kept at the end  ", {"key": "kept at the end  "}),
    ("", {}),
])  # fmt: skip
def test_a_text_is_read_as_java_reads_it(text: str, found: dict[str, str]) -> None:
    assert parse(text) == parse(text.encode()) == found


def test_the_first_key_of_a_windows_file_is_not_lost() -> None:
    assert parse(b"\xef\xbb\xbflistenPort=1\r\n") == {"listenPort": "1"}


@pytest.mark.parametrize(("text", "said"), [
    (b"a=\xff\xfe", "UTF-8"),
    (b"a=1\nb=\\u12", "line 2"),
    (b"a=\\uZZZZ", "no letter"),
    (b"#" * (PROPERTIES_BYTES_MAX + 1), "allowed"),
    ("\n".join(f"k{number}=" for number in range(KEYS_MAX + 1)).encode(), "keys"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_line(text: bytes, said: str) -> None:
    with pytest.raises(PropertiesRejected, match=said):
        parse(text)


def test_a_written_text_has_sorted_keys() -> None:
    assert dump({"b": "2", "a": "x=y"}) == b"a=x=y\nb=2\n"


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=("Cs",)), min_size=1),
        st.text(st.characters(exclude_categories=("Cs",))),
    )
)
def test_what_is_written_is_read_back(values: dict[str, str]) -> None:
    assert parse(dump(values)) == values
