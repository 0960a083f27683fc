"""TABLES.md says what the specifications say."""

from tests.support.tables_page import PAGE, page


def test_the_page_of_the_tables_is_that_of_their_specifications() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "python -m tests.support.tables_page writes it anew"
    )
