"""Filters: a tree that is written reads the same; any text is a filter or the one kind of error;
three-valued logic is the textbook's.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.service.filters.compiled import compiled, cost_of, evaluator
from brokers.service.filters.java_values import NotComparable
from brokers.service.filters.lexer import KEYWORDS, SYMBOLS, BadExpression
from brokers.service.filters.parser import parse
from brokers.service.filters.tree import (
    Between,
    Cast,
    Constant,
    Equal,
    In,
    IsNull,
    Logic,
    Negated,
    Not,
    Ordered,
    Property,
    Search,
    java_text,
    written,
)
from brokers.store.log.properties import encode_properties
from tests.support.examples import examples

NAMES = st.sampled_from(["a", "b", "c", "_x$1", "nOt1"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
FLOATS = st.floats(min_value=4.9e-324, allow_infinity=False, allow_nan=False, exclude_min=True)
NUMBERS = st.one_of(st.integers(0, 2**63 - 1), FLOATS).map(Constant)
PROPERTIES = NAMES.map(Property)
SIGNED = st.one_of(NUMBERS, NUMBERS.map(Negated), PROPERTIES.map(Negated))
ORDERABLE = st.one_of(PROPERTIES, SIGNED)
COMPARABLE = st.one_of(ORDERABLE, TEXTS.map(Constant))
CASTS = PROPERTIES.map(Cast)
LEAVES = st.one_of(
    st.sampled_from([None, True, False]).map(Constant),
    st.builds(Equal, PROPERTIES, COMPARABLE),
    st.builds(Equal, COMPARABLE, COMPARABLE),
    st.builds(IsNull, COMPARABLE),
    st.builds(Ordered, st.sampled_from([">", ">=", "<", "<="]), ORDERABLE, ORDERABLE),
    st.builds(Between, ORDERABLE, PROPERTIES, ORDERABLE, st.booleans()),
    st.builds(In, PROPERTIES, st.lists(TEXTS, min_size=1, max_size=4).map(tuple), st.booleans()),
    st.builds(
        Search,
        st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]),
        COMPARABLE,
        TEXTS,
        st.booleans(),
    ),
)


def grown(inner):
    condition = st.one_of(inner, CASTS)
    return st.one_of(
        condition.map(Not),
        st.builds(
            Logic,
            st.sampled_from(["AND", "OR"]),
            st.lists(condition, min_size=2, max_size=4).map(tuple),
        ),
        st.builds(IsNull, inner),
        st.builds(Equal, inner.filter(lambda one: not isinstance(one, Constant)), PROPERTIES),
    )


TREES = st.recursive(LEAVES, grown, max_leaves=12)
OTHERS = ["a", "b", "5", "7.5", "1e9", "0.0", "'x'", "''", "--", "/*", "*/", "#", ".", "'", "\n"]
WORDS = st.sampled_from([*KEYWORDS, *SYMBOLS, *OTHERS, "99999999999999999999"])
HOSTILE = st.one_of(
    st.text(max_size=60),
    st.lists(WORDS, max_size=25).map(" ".join),
    st.lists(WORDS, max_size=25).map("".join),
    TREES.map(written).flatmap(
        lambda text: st.integers(0, len(text)).map(lambda at: text[:at] + text[at + 1 :])
    ),
)
MESSAGES = st.dictionaries(
    NAMES,
    st.one_of(
        st.sampled_from(["5", "-7", "7.5", "x", "true", "NaN", "1e3", "3000000000"]),
        st.text(
            st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=6
        ),
    ),
)


def value(tree, message):
    return evaluator(tree)(b"\x02%b\x02" % encode_properties(message))


@settings(max_examples=examples(400), deadline=None)
@given(TREES)
def test_a_tree_that_is_written_reads_the_same(tree):
    again = parse(written(tree))
    assert repr(again) == repr(tree)
    assert written(again) == written(tree)


@settings(max_examples=examples(600), deadline=None)
@given(HOSTILE, MESSAGES, st.binary(max_size=60))
def test_any_text_is_a_filter_or_the_one_error_and_any_message_an_answer(text, message, noise):
    try:
        found = compiled(text)
    except BadExpression as error:
        assert str(error)
        return
    assert found.matches(encode_properties(message)) in (True, False)
    assert found.matches(noise) in (True, False)
    assert found.cost == cost_of(parse(text)) and java_text(parse(text))


UNKNOWN_OR = st.sampled_from([True, False, None])
FORMS = st.recursive(
    st.integers(0, 3),
    lambda inner: st.one_of(
        st.tuples(st.just("NOT"), inner), st.tuples(st.sampled_from(["AND", "OR"]), inner, inner)
    ),
    max_leaves=12,
)


def as_text(form):
    if isinstance(form, int):
        return f"p{form} = 'yes'"
    if form[0] == "NOT":
        return f"NOT ({as_text(form[1])})"
    return f"({as_text(form[1])}) {form[0]} ({as_text(form[2])})"


def by_the_book(form, facts):
    """Kleene's tables, written out: false is 0, unknown 1, true 2."""
    if isinstance(form, int):
        return facts[form]
    if form[0] == "NOT":
        return 2 - by_the_book(form[1], facts)
    sides = [by_the_book(side, facts) for side in form[1:]]
    return min(sides) if form[0] == "AND" else max(sides)


@settings(max_examples=examples(400), deadline=None)
@given(FORMS, st.lists(UNKNOWN_OR, min_size=4, max_size=4))
def test_three_valued_logic_is_the_textbooks(form, facts):
    message = {
        f"p{number}": "yes" if fact else "no"
        for number, fact in enumerate(facts)
        if fact is not None
    }
    numbers = [1 if fact is None else 2 * fact for fact in facts]
    expected = {0: False, 1: None, 2: True}[by_the_book(form, numbers)]
    assert value(parse(as_text(form)), message) is expected
    assert compiled(as_text(form)).matches(encode_properties(message)) is (expected is True)


@settings(max_examples=examples(300), deadline=None)
@given(TREES, MESSAGES)
def test_what_matches_matches_as_a_whole_and_its_contrary_does_not(tree, message):
    try:
        found, contrary = value(tree, message), value(Not(tree), message)
    except NotComparable:
        assert not compiled(written(tree)).matches(encode_properties(message))
        return
    assert contrary is (None if found is None else not found)
