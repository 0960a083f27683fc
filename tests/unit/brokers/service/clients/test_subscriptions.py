"""Tag expressions and Java's string hash."""

import pytest

from brokers.service.clients.subscriptions import BadExpression, parse


@pytest.mark.parametrize("text", [None, "", "*", "  * "])
def test_everything_is_taken_without_tags(text: str | None) -> None:
    assert parse("T", text).codes is None


def test_tags_are_split_and_hashed_as_in_java() -> None:
    assert parse("T", "TagA || TagB||").codes == {2598919, 2598920}
    assert parse("T", "标签").codes == {857175}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a > 1", "SQL92"),
        ("||", "TAG"),
        ("||".join(map(str, range(2000))), "TAG"),
        ("x" * 70000, "TAG"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(text: str, kind: str) -> None:
    with pytest.raises(BadExpression):
        parse("T", text, 0, kind)
