"""An SQL92 filter as a tree, and as texts (PROTOCOL 4.15).

Responsible for: the nodes; a text that reads as the same tree; RocketMQ's text of a tree, which
stands in its refusals.
Refuses to know: tokens, which trees there may be, messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from brokers.service.filters.java_values import Value, double_text

JAVA_TEXT_CHARACTERS_MAX = 1_000
JAVA_SYMBOLS = {"=": "==", "AND": "&&", "OR": "||"}


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: text, number, TRUE, FALSE or NULL."""

    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    """A message's property by its name: a text, or null when it has none."""

    name: str


@dataclass(frozen=True, slots=True)
class Negated:
    """`- of`: a number's negative, null of everything else."""

    of: Node


@dataclass(frozen=True, slots=True)
class Cast:
    """A property where a condition stands: false when the message has it, else unknown."""

    of: Property


@dataclass(frozen=True, slots=True)
class Not:
    of: Condition


@dataclass(frozen=True, slots=True)
class Logic:
    """`operator`: AND or OR, between two or more."""

    operator: str
    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class IsNull:
    of: Node


@dataclass(frozen=True, slots=True)
class Ordered:
    """`operator`: > >= < <=."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """`of >= low AND of <= high`; `inverted`: `of < low OR of > high`."""

    of: Node
    low: Node
    high: Node
    inverted: bool


@dataclass(frozen=True, slots=True)
class In:
    of: Property
    texts: tuple[str, ...]
    inverted: bool


@dataclass(frozen=True, slots=True)
class Search:
    """`operator`: CONTAINS, STARTSWITH or ENDSWITH."""

    operator: str
    of: Node
    text: str
    inverted: bool


Condition = Constant | Cast | Not | Logic | Equal | IsNull | Ordered | Between | In | Search
"""What is true, false or unknown; of constants only TRUE, FALSE and NULL."""

Node = Condition | Property | Negated


def is_condition(node: Node) -> bool:
    """Whether it may stand where a condition must."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property | Negated)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def constant_text(value: Value) -> str:
    """A literal as RocketMQ writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return quoted(value)
        case float():
            return double_text(value)
        case int():
            return str(value)


def written(node: Node) -> str:
    """A text that reads as this tree."""
    inverted = "NOT " if isinstance(node, Between | In | Search) and node.inverted else ""
    match node:
        case Constant(value):
            return constant_text(value)
        case Property(name) | Cast(Property(name)):
            return name
        case Negated(of):
            return f"- {_grouped(of)}"
        case Not(of):
            return f"NOT {_grouped(of)}"
        case Logic(operator, of):
            return f" {operator} ".join(map(_grouped, of))
        case Equal(left, right):
            return f"{_grouped(left)} = {_grouped(right)}"
        case IsNull(of):
            return f"{_grouped(of)} IS NULL"
        case Ordered(operator, left, right):
            return f"{_grouped(left)} {operator} {_grouped(right)}"
        case Between(of, low, high, _):
            return f"{_grouped(of)} {inverted}BETWEEN {_grouped(low)} AND {_grouped(high)}"
        case In(of, texts, _):
            return f"{of.name} {inverted}IN ({', '.join(map(quoted, texts))})"
        case Search(operator, of, text, _):
            return f"{_grouped(of)} {inverted}{operator} {quoted(text)}"


def _grouped(node: Node) -> str:
    return written(node) if isinstance(node, Constant | Property) else f"({written(node)})"


def java_text(node: Node) -> str:
    """The tree as RocketMQ writes it, its begin if that is long."""
    text = ""
    for piece in _pieces(node):
        text += piece
        if len(text) > JAVA_TEXT_CHARACTERS_MAX:
            return text[:JAVA_TEXT_CHARACTERS_MAX]
    return text


def _pieces(node: Node) -> Iterator[str]:
    # What is still to be written, the next at the end: a chain may be longer than Python nests.
    left: list[Node | str] = [node]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        else:
            left.extend(reversed(_parts(one)))


def _parts(node: Node) -> tuple[Node | str, ...]:
    match node:
        case Constant(value):
            return (constant_text(value),)
        case Property(name) | Cast(Property(name)):
            return (name,)
        case Negated(of):
            return "(- ", of, ")"
        case Not(of):
            return "(NOT ", of, ")"
        case Logic(operator, of):
            joined: list[Node | str] = ["(" * (len(of) - 1), of[0]]
            for one in of[1:]:
                joined += [f" {JAVA_SYMBOLS[operator]} ", one, ")"]
            return tuple(joined)
        case Equal(left, right):
            return "(", left, " == ", right, ")"
        case IsNull(of):
            return "(", of, " == NULL)"
        case Ordered(operator, left, right):
            return "(", left, f" {operator} ", right, ")"
        case Between(of, low, high, inverted):
            first, join, second = ("<", "||", ">") if inverted else (">=", "&&", "<=")
            return "((", of, f" {first} ", low, f") {join} (", of, f" {second} ", high, "))"
        case In(of, texts, inverted):
            return (f"{of.name} {'NOT ' if inverted else ''}IN ( {', '.join(texts)} )",)
        case Search(operator, of, _, inverted):
            return f"({'NOT ' if inverted else ''}{operator} ", of, ")"
