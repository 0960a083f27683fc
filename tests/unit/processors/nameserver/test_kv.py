"""Keys and values of operators (PROTOCOL 4.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting import fastjson
from processors.nameserver import kv as kv_module
from processors.nameserver.kv import KvConfig, KvRefused, kv_of


def test_81_what_is_put_is_found_listed_and_deleted():
    kv = KvConfig().with_value("N", "a", "1").with_value("N", "b", "2").with_value("N", "a", "3")
    assert (kv.get("N", "a"), kv.listed("N"), kv.listed("O")) == ("3", {"a": "3", "b": "2"}, None)
    without = kv.without("N", "a").without("N", "a").without("O", "x")
    assert without.listed("N") == {"b": "2"} and kv.get("N", "a") == "3"
    assert kv.without("N", "a").without("N", "b").listed("N") == {}


def test_81_the_document_is_rocketmqs():
    text = b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"b:4"}}}'
    assert fastjson.dumps(kv_of(fastjson.loads(text)).document()) == text


@pytest.mark.parametrize(("namespace", "key"), [("", "k"), ("n", "")])
def test_a_key_without_a_name_is_refused_in_rocketmqs_words(namespace, key):
    with pytest.raises(KvRefused, match="namespace or key is null"):
        KvConfig().with_value(namespace, key, "v")


def test_the_table_has_limits(monkeypatch):
    with pytest.raises(KvRefused, match="longer"):
        KvConfig().with_value("n", "k", "v" * 5_000)
    for name in ("KEYS_MAX", "NAMESPACES_MAX", "CHARACTERS_MAX"):
        with monkeypatch.context() as patched:
            patched.setattr(kv_module, name, 1)
            with pytest.raises(KvRefused, match="room"):
                KvConfig({"a": {"k": "v"}}).with_value("b", "l", "w")


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(JSON | st.fixed_dictionaries({"configTable": JSON}))
def test_whatever_stands_in_the_file_is_a_table_or_refused(document):
    try:
        found = kv_of(document)
    except ValueError:
        return
    assert kv_of(found.document()).document() == found.document()
