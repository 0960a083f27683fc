"""An SQL92 filter that is ready to be asked about messages (PROTOCOL 4.15).

Responsible for: what a tree gives for the text of a message's properties, in three values, and that
a client's text is run as nothing but comparisons.
Refuses to know: subscriptions, records, where a property text comes from.

Each part becomes a function of the property text that looks for the name it needs and decodes no
others, unless there are many. What Java throws an exception for is no match.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from brokers.service.filters.java_values import (
    WHOLE,
    Kind,
    NotComparable,
    Read,
    boolean_of,
    compared,
    double_of,
    kind_of,
    order_of,
    whole_of,
)
from brokers.service.filters.lexer import TOKENS_MAX
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
    Node,
    Not,
    Ordered,
    Property,
    Search,
)

Properties = Any
"""The text between two separators, or for filters that name many properties a table of it."""

Evaluate = Callable[[Properties], Read]
"""Gives the value of a part. NotComparable."""

Test = Callable[[bytes], Read]

Find = Callable[[str, Test], Evaluate]
"""What a test gives for the text of the property of a name; null without one."""

_MARK = b"\x02"
COST_MAX = 2 * TOKENS_MAX
# A filter that names properties more often decodes all of a message's instead.
SEARCHED_NAMES_MAX = 8


@dataclass(frozen=True, slots=True)
class Filter:
    """`matches(properties)`: whether a message with this property text is to be delivered. `cost`:
    parts that are asked in the worst case, COST_MAX at most.
    """

    text: str
    matches: Callable[[bytes], bool]
    cost: int


def compiled(text: str) -> Filter:
    """BadExpression, in RocketMQ's words, for a text that is no filter."""
    tree = parse(text)
    names = 0

    def counted(name: str, test: Test) -> Evaluate:
        nonlocal names
        names += 1
        return searched(name, test)

    evaluate = evaluator(tree, counted)
    if names <= SEARCHED_NAMES_MAX:
        return Filter(text, _matches(evaluate, lambda own: b"\x02%b\x02" % own), cost_of(tree))
    return Filter(text, _matches(evaluator(tree, looked_up), table_of), cost_of(tree))


def _matches(
    evaluate: Evaluate, prepared: Callable[[bytes], Properties]
) -> Callable[[bytes], bool]:
    def matches(properties: bytes) -> bool:
        try:
            return evaluate(prepared(properties)) is True
        except NotComparable:
            return False

    return matches


def cost_of(node: Node) -> int:
    """How many parts a tree has."""
    match node:
        case Constant() | Property():
            return 1
        case Cast(of) | In(of) | Negated(of) | Not(of) | IsNull(of) | Search(of=of):
            return 1 + cost_of(of)
        case Logic(of=parts):
            return 1 + sum(map(cost_of, parts))
        case Equal(left, right) | Ordered(left=left, right=right):
            return 1 + cost_of(left) + cost_of(right)
        case Between(of, low, high):
            return 1 + cost_of(of) + cost_of(low) + cost_of(high)


def searched(name: str, test: Test) -> Evaluate:
    """Of the text between two separators. Most of all filters is this."""
    mark = b"\x02%b\x01" % name.encode("ascii")
    length = len(mark)

    def value(text: bytes) -> Read:
        at = text.rfind(mark)
        while at >= 0:
            first = at + length
            last = text.find(_MARK, first)
            if last > first:
                return test(text[first:last])
            at = text.rfind(mark, 0, first - 1)  # one without a value is none
        return None

    return value


def looked_up(name: str, test: Test) -> Evaluate:
    """Of a table."""
    key = name.encode("ascii")

    def value(table: dict[bytes, bytes]) -> Read:
        found = table.get(key)
        return None if found is None else test(found)

    return value


def table_of(properties: bytes) -> dict[bytes, bytes]:
    """The last of equal names counts, one without a value does not."""
    entries = (entry.partition(b"\x01") for entry in properties.split(_MARK))
    return {name: value for name, _, value in entries if value}


def evaluator(node: Node, find: Find = searched) -> Evaluate:
    """What gives a part's value."""
    match node:
        case Constant(value):
            fixed: Read = (
                value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            )
            return lambda _: fixed
        case Property(name):
            return find(name, lambda found: found)
        case Negated(of):
            return _negated(of, find)
        case Cast(of):
            return find(of.name, lambda _: False)
        case Not(of):
            return _not(evaluator(of, find))
        case Logic(symbol, parts):
            return _logic(symbol == "OR", tuple(evaluator(part, find) for part in parts))
        case Equal(left, right):
            return _equal(left, right, find)
        case IsNull(of):
            value_of = evaluator(of, find)
            return lambda text: value_of(text) is None
        case Ordered(symbol, left, right):
            return _ordered(symbol, left, right, find)
        case Between():
            return _between(node, find)
        case In():
            return _in(node, find)
        case Search():
            return _search(node, find)


def kind(node: Node) -> Kind:
    """Of what a part gives when it gives anything."""
    match node:
        case Constant(value):
            return kind_of(value)
        case Property():
            return Kind.TEXT
        case Negated(of):
            negated = kind(of)
            return negated if negated is Kind.DOUBLE or negated in WHOLE else Kind.NULL
        case _:
            return Kind.BOOLEAN


def _negated(of: Node, find: Find) -> Evaluate:
    value = evaluator(of, find)
    if kind(Negated(of)) is not Kind.NULL:
        return lambda text: -value(text)  # type: ignore[operator]  # a number

    def nothing(text: bytes) -> None:
        value(text)  # which may be no match

    return nothing


def _not(condition: Evaluate) -> Evaluate:
    def value(text: bytes) -> Read:
        found = condition(text)
        return found if found is None else not found

    return value


def _logic(decisive: bool, parts: tuple[Evaluate, ...]) -> Evaluate:
    """`decisive`: the value of a part after which no other is asked."""

    def value(text: bytes) -> Read:
        found: Read = not decisive
        for part in parts:
            one = part(text)
            if one is decisive:
                return decisive
            if one is None:
                found = None
        return found

    return value


def _equal(left: Node, right: Node, find: Find) -> Evaluate:
    one_kind, other_kind = kind(left), kind(right)
    if isinstance(left, Property) and (test := _constant_test("=", right)) is not None:
        return find(left.name, test)
    one, other = evaluator(left, find), evaluator(right, find)

    def value(text: bytes) -> Read:
        found, wanted = one(text), other(text)
        if found is None:
            return True if wanted is None else None
        if wanted is None:
            return False
        return compared(found, one_kind, wanted, other_kind) == 0

    return value


_HOLDS: dict[str, Callable[[int], bool]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


def _ordered(symbol: str, left: Node, right: Node, find: Find) -> Evaluate:
    one_kind, other_kind = kind(left), kind(right)
    if isinstance(left, Property) and (test := _constant_test(symbol, right)) is not None:
        return find(left.name, test)
    one, other = evaluator(left, find), evaluator(right, find)
    holds = _HOLDS[symbol]
    both_texts = one_kind is other_kind is Kind.TEXT

    def value(text: bytes) -> Read:
        found = one(text)
        if found is None:
            return None
        wanted = other(text)
        if wanted is None:
            return None
        if both_texts:
            return holds(order_of(double_of(found), double_of(wanted)))  # type: ignore[arg-type]
        return holds(compared(found, one_kind, wanted, other_kind))

    return value


def _constant_test(symbol: str, right: Node) -> Test | None:
    """Whether a property's text fulfils a comparison with a literal: what most filters ask. None
    for other comparisons.
    """
    if not isinstance(right, Constant | Negated):
        return None
    wanted_kind = kind(right)
    if wanted_kind is Kind.NULL:
        return None
    if wanted_kind is Kind.DOUBLE and symbol != "=":
        return None  # not every double has its place in Python's order
    wanted = evaluator(right)(b"")
    if wanted_kind is Kind.TEXT:
        return lambda found: found == wanted
    if wanted_kind is Kind.BOOLEAN:
        return lambda found: boolean_of(found) is wanted
    if wanted_kind is Kind.DOUBLE:
        return lambda found: double_of(found) == wanted
    assert isinstance(wanted, int)
    return _whole_test(symbol, wanted, wanted_kind)


_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def _whole_test(symbol: str, wanted: int, wanted_kind: Kind) -> Test:
    holds = _OPERATORS[symbol]
    return lambda found: holds(whole_of(found, wanted_kind), wanted)


def _between(node: Between, find: Find) -> Evaluate:
    if kind(node.of) is Kind.NULL:
        # Both comparisons are unknown; asked once, where Java asks twice, or what is nested in
        # itself would be asked for ever.
        return evaluator(node.of, find)
    first, second = ("<", ">") if node.inverted else (">=", "<=")
    low = _ordered(first, node.of, node.low, find)
    high = _ordered(second, node.of, node.high, find)
    return _logic(node.inverted, (low, high))


def _in(node: In, find: Find) -> Evaluate:
    texts = frozenset(text.encode("utf-8", "surrogatepass") for text in node.texts)
    if node.inverted:
        return find(node.of.name, lambda found: found not in texts)
    return find(node.of.name, lambda found: found in texts)


_FOUND: dict[str, Callable[[bytes, bytes], bool]] = {
    "CONTAINS": lambda value, wanted: wanted in value,
    "STARTSWITH": bytes.startswith,
    "ENDSWITH": bytes.endswith,
}


def _search(node: Search, find: Find) -> Evaluate:
    value = evaluator(node.of, find)
    wanted = node.text.encode("utf-8", "surrogatepass")
    inverted, is_found = node.inverted, _FOUND[node.operator]
    if not wanted:
        return lambda _: False

    def test(text: bytes) -> Read:
        found = value(text)
        return isinstance(found, bytes) and is_found(found, wanted) is not inverted

    return test
