"""How answers of two sides are laid beside each other."""

from tests.interop.admin_beside import compared, fields_of, read


def good(theirs: str, ours: str) -> bool:
    (row,) = compared({"question": theirs}, {"question": ours})
    return row.ok


def test_answers_are_read_by_their_questions() -> None:
    assert read('28 runtime\t{"a":1}\n203 nobody\t! CODE: 206\n') == {
        "28 runtime": '{"a":1}',
        "203 nobody": "! CODE: 206",
    }


def test_a_field_is_known_by_its_path_and_the_kind_of_its_value() -> None:
    text = '{"10.0.0.1:80":{"tps":"1.0 2.0 3.0","on":true},"list":[{"n":1}],"none":null,"t":"x"}'
    assert fields_of(text) == {
        "/ADDRESS/tps": "numbers",
        "/ADDRESS/on": "yes or no",
        "/list/-/n": "number",
        "/none": "nothing",
        "/t": "text",
    }


def test_what_java_has_must_be_there_and_more_may_be() -> None:
    assert good('{"a":1}', '{"a":2,"b":"x"}')
    assert not good('{"a":1,"b":"x"}', '{"a":2}')


def test_a_value_of_another_kind_is_named() -> None:
    assert not good('{"tps":"1 2 3"}', '{"tps":"1"}') and good('{"tps":"1 2 "}', '{"tps":"1 2 3"}')
    assert not good('{"a":1}', '{"a":"1"}')
    assert not good('{"a":"x"}', '{"a":null}')


def test_a_slave_is_asked_for_what_the_java_broker_alone_has() -> None:
    theirs = {"28 runtime of the master": '{"a_/x/y":"0.1"}'}
    ours = {"28 runtime of the master": '{"a_/z":"0.2"}', "28 runtime of a slave": "{}"}
    assert [row.ok for row in compared(theirs, ours)] == [True, False]


def test_failures_must_have_the_same_code() -> None:
    assert good("! X: CODE: 206  DESC: a", "! X: CODE: 206  DESC: b")
    assert not good("! X: CODE: 206  DESC: a", "! X: CODE: 17  DESC: b")
    assert not good("! X: CODE: 206  DESC: a", '{"a":1}')
    assert not good('{"a":1}', "! was not asked")
