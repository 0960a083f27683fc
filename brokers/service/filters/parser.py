"""Reading an SQL92 filter: a text becomes a tree, or is refused in RocketMQ's words
(PROTOCOL 4.15).

Responsible for: the grammar, which parts may be compared with which, the order in which mistakes
are found.
Refuses to know: messages, and what a tree gives for one.

RocketMQ's way is kept where it shows: `NOT` binds closer than a comparison, a mistake of types is
found while the text is read, and behind a whole expression anything may follow.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.service.filters.java_values import (
    I64_MAX,
    Kind,
    NotComparable,
    Read,
    Value,
    compared,
    kind_of,
)
from brokers.service.filters.lexer import (
    END,
    FLOAT,
    INTEGER,
    KINDS,
    NAME,
    STRING,
    BadExpression,
    Lexer,
    Token,
    escaped,
)
from brokers.service.filters.tree import (
    Between,
    Cast,
    Condition,
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
    constant_text,
    is_condition,
    java_text,
)

DEPTH_MAX = 64
"""Parentheses, signs and NOTs one within the other, and comparisons of comparisons in a row."""

CONTAINS_MAX = 64
"""Of one filter: each may go through a text of 32 KiB many times over."""

SYNTAX_ERROR = "org.apache.rocketmq.filter.parser.ParseException"
TYPE_ERROR = "java.lang.RuntimeException"

SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
ORDERS = (">", ">=", "<", "<=")
_BEHIND_NOT = ("BETWEEN", "IN", *SEARCHES)
_COMPARISONS = (*_BEHIND_NOT, *ORDERS)
_LITERALS = ("TRUE", "FALSE", "NULL", INTEGER, FLOAT, STRING)
_SMALLEST, _LARGEST = "4.9E-324", "1.7976931348623157E308"


def parse(text: str) -> Condition:
    """The tree of a text. BadExpression for what is no filter, is too long or too deep."""
    return _Parser(text).expression()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._at = 0
        self._depth = 0
        self._contains = 0
        # What could have stood where the next token stands.
        self._expected: set[str] = set()
        # Looking ahead behind a plus: mistakes of types do not count.
        self._only_looks = False
        self._looked_until = 0

    def expression(self) -> Condition:
        return self._condition(self._or())

    # -- the grammar, from what binds least --------------------------------------------------------

    def _or(self) -> Node:
        return self._logic("OR", self._and)

    def _and(self) -> Node:
        return self._logic("AND", self._equality)

    def _logic(self, operator: str, part: Callable[[], Node]) -> Node:
        first = part()
        parts: list[Condition] = []
        while self._takes(operator):
            right = part()
            parts = parts or [self._condition(first)]
            parts.append(self._condition(right))
        return Logic(operator, tuple(parts)) if parts else first

    def _equality(self) -> Node:
        left, links = self._comparison(), 0
        while found := self._takes("IS", "=", "<>"):
            links = self._linked(links)
            if found == "IS":
                inverted = self._takes("NOT") is not None
                self._take("NULL")
                left = Not(IsNull(left)) if inverted else IsNull(left)
            else:
                equal = self._equal(left, self._comparison())
                left = equal if found == "=" else Not(equal)
        return left

    def _comparison(self) -> Node:
        left, links = self._unary(), 0
        while True:
            found = self._takes(*_COMPARISONS)
            inverted = found is None and self._not_ahead()
            if inverted:
                found = self._take(*_BEHIND_NOT).kind
            if found is None:
                return left
            links = self._linked(links)
            left = self._compared(left, found, inverted)

    def _compared(self, left: Node, operator: str, inverted: bool) -> Node:
        if operator in ORDERS:
            return self._ordered(left, operator, self._unary())
        if operator in SEARCHES:
            self._contains += operator == "CONTAINS" and not self._only_looks
            if self._contains > CONTAINS_MAX:
                raise BadExpression(f"the filter has more than {CONTAINS_MAX} times CONTAINS")
            return Search(operator, left, _unquoted(self._take(STRING)), inverted)
        if operator == "BETWEEN":
            low = self._unary()
            self._take("AND")
            return self._between(left, low, self._unary(), inverted)
        self._take("(")
        texts = [_unquoted(self._take(STRING))]
        while self._takes(","):
            texts.append(_unquoted(self._take(STRING)))
        self._take(")")
        if isinstance(left, Property):
            return In(left, tuple(texts), inverted)
        self._refuse(f"Expected a property for In expression, got: {java_text(left)}")
        return IsNull(left)

    def _unary(self) -> Node:
        self._deeper()
        try:
            if self._peek() == "+":
                self._plus()
                return self._unary()
            if self._takes("-"):
                return Negated(self._unary())
            if self._takes("NOT"):
                return Not(self._condition(self._unary()))
            if self._takes("("):
                inner = self._or()
                self._take(")")
                return inner
            token = self._take(*_LITERALS, NAME, "(", "-", "NOT", "+")
            return Property(token.text) if token.kind == NAME else self._literal(token)
        finally:
            self._depth -= 1

    def _plus(self) -> None:
        """RocketMQ reads what follows a plus twice: where that cannot be read, it names the
        plus.
        """
        begin, depth = self._at, self._depth
        if not self._only_looks and begin >= self._looked_until:
            self._only_looks, self._at = True, begin + 1
            try:
                self._unary()
                self._looked_until = self._at
            except _Syntax:
                self._at, self._expected = begin, {*_LITERALS, NAME, "(", "-", "NOT"}
                raise self._unexpected() from None
            finally:
                self._only_looks, self._depth = False, depth
        self._at = begin + 1

    # -- which parts go together -------------------------------------------------------------------

    def _condition(self, node: Node) -> Condition:
        if isinstance(node, Property):
            return Cast(node)
        if not is_condition(node):
            self._refuse(
                f"Expression will not result in a boolean value: {java_text(node)}", SYNTAX_ERROR
            )
        return node  # type: ignore[return-value]  # refused, or only looked at

    def _literal(self, token: Token) -> Constant:
        match token.kind:
            case "TRUE" | "FALSE":
                return Constant(token.kind == "TRUE")
            case "NULL":
                return Constant(None)
            case str(kind) if kind == STRING:
                return Constant(_unquoted(token))
            case str(kind) if kind == INTEGER:
                return Constant(self._whole(token.text.rstrip("lL")))
            case _:
                return Constant(self._double(token.text))

    def _whole(self, digits: str) -> int:
        if len(digits) <= len(str(I64_MAX)) and int(digits) <= I64_MAX:
            return int(digits)
        text = f'For input string: "{digits}"'
        self._refuse(text, "java.lang.NumberFormatException")
        return 0

    def _double(self, text: str) -> float:
        value = float(text)
        if value == float("inf"):
            self._refuse(f"{text} is greater than {_LARGEST}")
        if value == 0:
            self._refuse(f"{text} is less than {_SMALLEST}")
        return value

    def _equal(self, left: Node, right: Node) -> Equal:
        for node in (left, right):
            if node == Constant(None):
                self._refuse("'NULL' cannot be compared.")
        if isinstance(left, Constant) and isinstance(right, Constant):
            if isinstance(left.value, bool) and not isinstance(right.value, bool):
                one, other = constant_text(left.value), constant_text(right.value)
                self._refuse(f"'{one}' cannot be compared with '{other}'")
        return Equal(left, right)

    def _ordered(self, left: Node, operator: str, right: Node) -> Ordered:
        self._orderable(left)
        self._orderable(right)
        return Ordered(operator, left, right)

    def _orderable(self, node: Node) -> None:
        if isinstance(node, Constant):
            if isinstance(node.value, int | float) and not isinstance(node.value, bool):
                return
        elif not is_condition(node):
            return
        self._refuse(f"Value '{java_text(node)}' cannot be compared.")

    def _between(self, of: Node, low: Node, high: Node, inverted: bool) -> Between:
        if not inverted and isinstance(low, Constant) and isinstance(high, Constant):
            self._check_bounds(low.value, high.value)
        for node in (of, low, of, high):
            self._orderable(node)
        return Between(of, low, high, inverted)

    def _check_bounds(self, low: Value, high: Value) -> None:
        if low is None or high is None:
            self._refuse("Illegal values of between, values can not be null!")
            return
        low_kind, high_kind = kind_of(low), kind_of(high)
        try:
            order = compared(_bound(high), high_kind, _bound(low), low_kind)
        except NotComparable:
            self._refuse_bounds(low, high)
            return
        if order < 0:
            self._refuse(
                f"Illegal values of between, left value({_plain(low)}) must less than or equal "
                f"to right value({_plain(high)})"
            )

    def _refuse_bounds(self, low: Value, high: Value) -> None:
        text = low if isinstance(low, str) else high
        kinds = (kind_of(low), kind_of(high))
        if Kind.BOOLEAN in kinds:
            self._refuse(
                "class java.lang.Boolean cannot be cast to class java.lang.String "
                "(java.lang.Boolean and java.lang.String are in module java.base of loader "
                "'bootstrap')",
                "java.lang.ClassCastException",
            )
        empty = Kind.DOUBLE in kinds and not str(text).strip()
        why = "empty String" if empty else f'For input string: "{text}"'
        self._refuse(f"java.lang.NumberFormatException: {why}")

    def _refuse(self, text: str, error: str = TYPE_ERROR) -> None:
        if not self._only_looks:
            raise BadExpression(f"{error}: {text}")

    # -- tokens ------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._lexer.token(self._at).kind

    def _takes(self, *kinds: str) -> str | None:
        """The next token's kind if it is one of these: it is taken."""
        kind = self._peek()
        if kind in kinds:
            self._at += 1
            self._expected.clear()
            return kind
        self._expected.update(kinds)
        return None

    def _take(self, *kinds: str) -> Token:
        """The next token, which must be one of these."""
        token = self._lexer.token(self._at)
        if self._takes(*kinds) is None:
            raise self._unexpected()
        return token

    def _not_ahead(self) -> bool:
        """Whether NOT follows: it is taken if it belongs to a comparison."""
        if self._peek() != "NOT":
            self._expected.add("NOT")
            return False
        if self._lexer.token(self._at + 1).kind not in _BEHIND_NOT:
            self._expected = set(_COMPARISONS)
            raise self._unexpected()
        self._at += 1
        return True

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadExpression(f"the filter is nested more than {DEPTH_MAX} deep")

    def _linked(self, links: int) -> int:
        if links:
            self._deeper()  # stays so: what follows holds all of it
        return links + 1

    def _unexpected(self) -> BadExpression:
        token = self._lexer.token(self._at)
        expected = [kind for kind in KINDS if kind in self._expected and kind != "+"]
        # RocketMQ finds the plus last
        expected += ["+"] if "+" in self._expected else []
        found = f' {_shown(token.kind)} "{escaped(token.text)} "'
        found = END if token.kind == END else found
        lines = "".join(f"    {one} ...\n" for one in map(_shown, expected))
        return _Syntax(
            f'{SYNTAX_ERROR}: Encountered "{found}" at {self._lexer.place(token)}.\n'
            f"Was expecting{':' if len(expected) == 1 else ' one of:'}\n{lines}    "
        )


class _Syntax(BadExpression):
    """A token that may not stand there."""


def _shown(kind: str) -> str:
    return kind if kind[:1] == "<" and kind[1:2].isalpha() else f'"{kind}"'


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _bound(value: Value) -> Read:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _plain(value: Value) -> str:
    """Without quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else constant_text(value)
