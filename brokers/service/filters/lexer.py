"""Tokens of an SQL92 filter, one at a time (PROTOCOL 4.15).

Responsible for: what RocketMQ takes as a token, the place of one in lines and columns, its words
for what it cannot read.
Refuses to know: which tokens make an expression.

A token is read when it is asked for, and no earlier: RocketMQ looks one token behind an expression
and no further, so that what follows may be anything.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

EXPRESSION_CHARACTERS_MAX = 65_536
TOKENS_MAX = 4_096

LEXICAL_ERROR = "org.apache.rocketmq.filter.parser.TokenMgrError"
TAB_COLUMNS = 8

# The longest piece of a text that a message repeats.
AFTER_CHARACTERS_MAX = 1_000

KEYWORDS = (
    "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS",
    "CONTAINS", "STARTSWITH", "ENDSWITH",
)  # fmt: skip
INTEGER, FLOAT, STRING, NAME, END = (
    "<DECIMAL_LITERAL>",
    "<FLOATING_POINT_LITERAL>",
    "<STRING_LITERAL>",
    "<ID>",
    "<EOF>",
)
SYMBOLS = ("=", "<>", ">", ">=", "<", "<=", "(", ",", ")", "+", "-")
KINDS = (*KEYWORDS, INTEGER, FLOAT, STRING, NAME, *SYMBOLS)
"""In RocketMQ's order, in which it names what it expected."""

_TOKEN = re.compile(
    r"(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<float>(?:0|[1-9][0-9]*)(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"
    r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<integer>0|[1-9][0-9]*[lL]?)"
    r"|(?P<string>'(?:[^']|'')*')"
    r"|(?P<symbol><>|>=|<=|[=<>(),+-])"
)
_BLANKS = re.compile(r"[ \t\n\r\f]+")
_ESCAPES = str.maketrans(
    {
        "\b": "\\b",
        "\t": "\\t",
        "\n": "\\n",
        "\f": "\\f",
        "\r": "\\r",
        '"': '\\"',
        "'": "\\'",
        "\\": "\\\\",
    }
)


class BadExpression(Exception):
    """A subscription's text cannot be served; it says why as RocketMQ does. Answered with code
    23.
    """


class Token(NamedTuple):
    """`kind`: one of KINDS, or END. `text`: as it was written. `at`: index of its first character,
    of an end the one behind the last.
    """

    kind: str
    text: str
    at: int


class Lexer:
    """The tokens of one text. BadExpression for one that is none, and for too many."""

    def __init__(self, text: str) -> None:
        if len(text) > EXPRESSION_CHARACTERS_MAX:
            raise BadExpression(
                f"the filter has {len(text)} characters, and {EXPRESSION_CHARACTERS_MAX} at most "
                "are read"
            )
        text = java_chars(text)
        self._text = text
        self._tokens: list[Token] = []
        self._at = 0
        # A comment to the end of its line needs one.
        self._last_line_end = max(text.rfind("\n"), text.rfind("\r"))

    def token(self, number: int) -> Token:
        """The token of that number, from 0; END behind the last one."""
        while number >= len(self._tokens):
            if len(self._tokens) > TOKENS_MAX:
                raise BadExpression(f"the filter has more than {TOKENS_MAX} words")
            self._tokens.append(self._next())
        return self._tokens[number]

    def place(self, token: Token) -> str:
        """`line 1, column 5`: where a token begins, of an end where the last character is."""
        line, column = _place(self._text, token.at - (token.kind == END))
        return f"line {line}, column {column}"

    def _next(self) -> Token:
        self._pass_over()
        text, at = self._text, self._at
        if at >= len(text):
            return Token(END, "", len(text))
        found = _TOKEN.match(text, at)
        if found is None:
            raise self._unreadable(at)
        self._at = found.end()
        word = found.group()
        match found.lastgroup:
            case "name":
                upper = word.upper()
                return Token(upper if upper in KEYWORDS else NAME, word, at)
            case "float":
                return Token(FLOAT, word, at)
            case "integer":
                return Token(INTEGER, word, at)
            case "string":
                return Token(STRING, word if word.isascii() else joined_chars(word), at)
            case _:
                return Token(word, word, at)

    def _pass_over(self) -> None:
        """Blanks and comments."""
        text = self._text
        while True:
            if (blanks := _BLANKS.match(text, self._at)) is not None:
                self._at = blanks.end()
            elif text.startswith("--", self._at) and self._at < self._last_line_end:
                ends = (text.find(end, self._at) for end in "\n\r")
                self._at = min(end for end in ends if end >= 0) + 1
            elif text.startswith("/*", self._at):
                end = text.find("*/", self._at + 2)
                if end < 0:
                    raise self._unreadable(self._at)
                self._at = end + 2
            else:
                return

    def _unreadable(self, at: int) -> BadExpression:
        """RocketMQ names what it had read of a token, and the character with which it stopped; of
        the last one that it is the last.
        """
        text, last = self._text, len(self._text) - 1
        if text[at] == "'" or text.startswith("/*", at):  # never closed
            stopped = last
        else:
            stopped = min(at + (text[at] in "./"), last)
        line, column = _place(text, stopped)
        if stopped == last:
            line, column = (line + 1, 0) if text[last] in "\n\r" else (line, column + 1)
            encountered, after = "<EOF>", text[at:] if stopped > at else ""
        else:
            char, after = text[stopped], text[at:stopped]
            encountered = f'"{escaped(char)}" ({ord(char)}),'
        return BadExpression(
            f"{LEXICAL_ERROR}: Lexical error at line {line}, column {column}.  "
            f'Encountered: {encountered} after : "{escaped(after[:AFTER_CHARACTERS_MAX])}"'
        )


def escaped(text: str) -> str:
    """As RocketMQ writes a text into a message: ASCII only."""
    return "".join(
        char if " " <= char <= "~" else f"\\u{ord(char):04x}"
        for char in java_chars(text).translate(_ESCAPES)
    )


def java_chars(text: str) -> str:
    """A text as Java counts: what needs two of its characters becomes two."""
    if text.isascii() or max(text) < "\U00010000":
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))


def joined_chars(text: str) -> str:
    """What `java_chars` took apart."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _place(text: str, index: int) -> tuple[int, int]:
    """Line and column of a character, both from 1; (0, 0) in front of the first one."""
    if index < 0:
        return 0, 0
    line, column, before = 1, 0, ""
    for char in text[: index + 1]:
        if before == "\n" or (before == "\r" and char != "\n"):
            line, column = line + 1, 0
        column = column // TAB_COLUMNS * TAB_COLUMNS + TAB_COLUMNS if char == "\t" else column + 1
        before = char
    return line, column
