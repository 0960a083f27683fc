"""From a subscription to what a read takes."""

import pytest

from brokers.remoting.codes import ResponseCode
from brokers.service.clients import wanted
from brokers.service.clients.subscriptions import Subscription
from brokers.service.clients.wanted import FilterRefused, Filters, Wanted
from brokers.service.filters.compiled import compiled
from brokers.store.log.properties import encode_properties, java_string_hash

NOT_SERVED = "The broker does not support consumer to filter message by SQL92"
NOT_READ = "The broker's consumer filter data is not exist!Your expression may be wrong!"


def sql(expression: str, kind: str = "SQL92") -> Subscription:
    return Subscription("T", expression, None, 1, kind)


@pytest.mark.parametrize("kind", ["TAG", ""])
def test_tags_are_taken_as_ever_whatever_is_said_of_properties(kind: str) -> None:
    filters = Filters(by_properties=False)
    codes = frozenset({java_string_hash("A"), java_string_hash("B")})
    assert filters.asked("T", "A || B", kind) == Wanted(codes)
    assert filters.asked("T", None, kind) == Wanted()
    assert filters.subscribed(Subscription("T", "A || B", codes, 1, kind)) == Wanted(codes)
    filters.check("A || B", kind)


def test_a_filter_is_asked_of_properties_and_of_no_tag() -> None:
    for found in (Filters().asked("T", "a > 5", "SQL92"), Filters().subscribed(sql("a > 5"))):
        assert found.codes is None and found.filter is not None
        assert found.filter.matches(encode_properties({"a": "6"}))
        assert not found.filter.matches(encode_properties({"a": "5"}))


@pytest.mark.parametrize(
    ("filters", "text", "kind", "asked", "subscribed", "checked"),
    [
        (Filters(), "a >", "SQL92", 23, 27, 23),
        (Filters(), "", "SQL92", 23, 27, 23),
        (Filters(), "a > 5", "SQL99", 23, 27, 23),
        (Filters(by_properties=False), "a > 5", "SQL92", 1, 1, 1),
        (Filters(by_properties=False), "a >", "SQL92", 1, 27, 1),
    ],
)
def test_line_48_what_cannot_be_served_is_refused_with_rocketmqs_codes(
    filters: Filters, text: str, kind: str, asked: int, subscribed: int, checked: int
) -> None:
    with pytest.raises(FilterRefused) as refused:
        filters.asked("T", text, kind)
    assert refused.value.code == asked
    assert str(refused.value).startswith(
        NOT_SERVED if asked == 1 else "parse the consumer's subscription failed"
    )
    with pytest.raises(FilterRefused) as refused:
        filters.subscribed(sql(text, kind))
    assert (refused.value.code, str(refused.value)) == (
        subscribed,
        NOT_SERVED if subscribed == 1 else NOT_READ,
    )
    with pytest.raises(FilterRefused) as refused:
        filters.check(text, kind)
    assert refused.value.code == checked


def test_line_51_a_client_that_asks_is_told_what_is_wrong_in_rocketmqs_words() -> None:
    with pytest.raises(FilterRefused) as refused:
        Filters().check("a = NULL", "SQL92")
    assert refused.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert str(refused.value) == "java.lang.RuntimeException: 'NULL' cannot be compared."


def test_tags_that_cannot_be_read_are_refused_when_asked() -> None:
    with pytest.raises(FilterRefused) as refused:
        Filters().asked("T", "||", "TAG")
    assert refused.value.code == 23


def test_a_filter_is_compiled_once_while_it_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(wanted, "compiled", lambda text: made.append(text) or compiled(text))
    filters = Filters()
    for _ in range(3):
        filters.subscribed(sql("a > 5"))
        with pytest.raises(FilterRefused):
            filters.subscribed(sql("a >"))
    assert made == ["a > 5", "a >"]


def test_what_is_kept_ready_is_bounded_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wanted, "KEPT_PARTS_MAX", 30)
    filters = Filters()
    for number in range(20):
        filters.asked("T", f"a > {number}", "SQL92")
        filters.asked("T", "a > 0", "SQL92")
    assert filters._parts <= 30
    assert list(filters._kept) == [f"a > {n}" for n in range(20 - len(filters._kept) + 1, 20)] + [
        "a > 0"
    ]
    for number in range(20):
        with pytest.raises(FilterRefused):
            filters.asked("T", "(" * (1000 + number), "SQL92")
    assert filters._parts <= 30
