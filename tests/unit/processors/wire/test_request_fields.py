"""Header fields as Java reads them (controller.md 1)."""

import pytest

from processors.wire.request_fields import BadRequest, Fields


@pytest.mark.parametrize("value", ["", "x", "1.5", "1_0", str(1 << 63)])
def test_a_number_that_is_needed_and_is_none_is_an_error(value: str) -> None:
    with pytest.raises(BadRequest):
        Fields({"n": value}).number("n")


def test_an_absent_number_has_its_default_and_an_unreadable_one_only_where_it_is_said() -> None:
    fields = Fields({"bad": "x", "good": "4"})
    assert (fields.number("none", 7), fields.number("good", 7)) == (7, 4)
    assert (
        fields.number_or("none", 7),
        fields.number_or("good", 7),
        fields.number_or("bad", 7),
    ) == (7, 4, 7)
    assert (fields.optional_number("none"), fields.optional_number("good")) == (None, 4)
    for unreadable in (lambda: fields.number("bad", 7), lambda: fields.optional_number("bad")):
        with pytest.raises(BadRequest):
            unreadable()


def test_texts_are_bounded_and_needed_unless_a_default_is_given() -> None:
    fields = Fields({"long": "x" * 256, "just": "x" * 255, "empty": ""})
    assert (
        fields.text("just") == "x" * 255
        and fields.text("none", "d") == "d"
        and fields.text("empty", "d") == ""
    )
    assert (fields.optional("empty"), fields.optional("none"), fields.optional("just")) == (
        None,
        None,
        "x" * 255,
    )
    for wrong in ("long", "empty", "none"):
        with pytest.raises(BadRequest):
            fields.text(wrong)


def test_a_flag_is_true_or_not() -> None:
    fields = Fields({"a": "TRUE", "b": "1", "c": ""})
    assert [fields.flag(name) for name in "abcd"] == [True, False, False, False]
    assert [fields.optional_flag(name) for name in "abcd"] == [True, False, None, None]
