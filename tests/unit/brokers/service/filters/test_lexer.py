"""Tokens, row by row of RocketMQ's lexer."""

import pytest

from brokers.service.filters.lexer import (
    END,
    EXPRESSION_CHARACTERS_MAX,
    FLOAT,
    INTEGER,
    KEYWORDS,
    NAME,
    STRING,
    SYMBOLS,
    TOKENS_MAX,
    BadExpression,
    Lexer,
)


def tokens(text: str) -> list[tuple[str, str]]:
    lexer, found = Lexer(text), []
    while (token := lexer.token(len(found))).kind != END:
        found.append((token.kind, token.text))
    return found


@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\r", "\f", " \t\r\n\f "])
def test_blanks_separate(blank: str) -> None:
    assert tokens(f"{blank}a{blank}b{blank}") == [(NAME, "a"), (NAME, "b")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a -- b\nc", ["a", "c"]),
        ("a --b\rc", ["a", "c"]),
        ("a --b", ["a", "-", "-", "b"]),  # a comment needs the end of its line
        ("a /* b */ c", ["a", "c"]),
        ("a/***/c", ["a", "c"]),
        ("a /* -- \n */ c", ["a", "c"]),
        ("a -- /*\n c", ["a", "c"]),
    ],
)
def test_comments_are_passed_over(text: str, found: list[str]) -> None:
    assert [token for _, token in tokens(text)] == found


def test_a_comment_must_end() -> None:
    with pytest.raises(BadExpression, match="Encountered: <EOF> after"):
        tokens("a /* b")


@pytest.mark.parametrize("word", KEYWORDS)
def test_keywords_are_written_in_any_case(word: str) -> None:
    mixed = word.lower().capitalize()
    assert tokens(f"{word} {word.lower()} {mixed}") == [
        (word, word),
        (word, word.lower()),
        (word, mixed),
    ]
    assert tokens(f"{word}x") == [(NAME, f"{word}x")]


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_operators(symbol: str) -> None:
    assert tokens(f"a{symbol}b") == [(NAME, "a"), (symbol, symbol), (NAME, "b")]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("0", [INTEGER]),
        ("17", [INTEGER]),
        ("17l", [INTEGER]),
        ("17L", [INTEGER]),
        ("007", [INTEGER] * 3),
        ("0L", [INTEGER, NAME]),
        ("1.5", [FLOAT]),
        (".5", [FLOAT]),
        ("1.", [FLOAT]),
        ("1e3", [FLOAT]),
        ("1.5E-3", [FLOAT]),
        ("1e+3", [FLOAT]),
        ("1e", [INTEGER, NAME]),
        ("00.5", [INTEGER, FLOAT]),
        ("1.5.5", [FLOAT, FLOAT]),
        ("5a", [INTEGER, NAME]),
    ],
)
def test_numbers(text: str, kinds: list[str]) -> None:
    assert [kind for kind, _ in tokens(text)] == kinds


@pytest.mark.parametrize("text", ["''", "'x'", "'it''s'", "'a\nb'", "'\\'", "'標籤 😀'", "'--'"])
def test_texts(text: str) -> None:
    assert tokens(text) == [(STRING, text)]


@pytest.mark.parametrize("name", ["a", "_a", "$a", "a1", "A_b$9", "__STARTDELIVERTIME"])
def test_names(name: str) -> None:
    assert tokens(name) == [(NAME, name)]


@pytest.mark.parametrize(
    "text",
    ["a != b", "a * b", "a / b", "a % b", "a || b", "a && b", 'a = "x"', "a.b", "é", "a ~ b", "`"],
)
def test_what_rocketmq_does_not_know_is_a_lexical_error(text: str) -> None:
    with pytest.raises(BadExpression, match=r"TokenMgrError: Lexical error at line 1, column \d+"):
        tokens(text)


def test_words_that_are_absent_are_names() -> None:
    assert tokens("a LIKE b")[1] == (NAME, "LIKE")
    assert [kind for kind, _ in tokens("a == b")] == [NAME, "=", "=", NAME]


def test_nothing_is_read_before_it_is_asked_for() -> None:
    lexer = Lexer("a b #")
    assert [lexer.token(number).text for number in (0, 1)] == ["a", "b"]
    with pytest.raises(BadExpression):
        lexer.token(2)


def test_a_text_is_bounded_in_characters_and_in_words() -> None:
    with pytest.raises(BadExpression, match="65537 characters"):
        Lexer("a" * (EXPRESSION_CHARACTERS_MAX + 1))
    with pytest.raises(BadExpression, match=f"more than {TOKENS_MAX} words"):
        tokens("a " * (TOKENS_MAX + 1))
    assert len(tokens("a " * TOKENS_MAX)) == TOKENS_MAX
