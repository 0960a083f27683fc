"""How addresses are read and written."""

import pytest

from brokers.remoting.addresses import (
    address_text,
    host_of,
    is_number,
    split_address,
    written_address,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        (" h:0 ", ("h", 0)),
        ("[::1]:80", ("::1", 80)),
        (":9876", ("", 9876)),
    ],
)
def test_an_address_is_a_host_and_a_port(text, parts):
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:70000", "host:-1", "host:²"])
def test_anything_else_is_no_address(text):
    with pytest.raises(ValueError, match="no host:port|not host:port"):
        split_address(text)


@pytest.mark.parametrize("text", ["10.0.0.1:5", "b1.example:5", "[::1]:80", "my_host-1:80"])
def test_an_address_of_a_setting_is_taken_without_its_blanks(text):
    assert written_address(f" {text} ") == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://h:9876", "leave out 'http://'"),
        ("h:1;i:2", "';' stands in no host"),
        ("h:1,i:2", "',' stands in no host"),
        ("h/x:1", "'/' stands in no host"),
        ("a b:1", "' ' stands in no host"),
        (":9876", "names no host: write 0.0.0.0:9876"),
        ("h", "is not host:port"),
    ],
)
def test_what_people_write_instead_of_an_address_is_told(text, said):
    with pytest.raises(ValueError, match=said):
        written_address(text)


@pytest.mark.parametrize(
    ("name", "text"), [(("10.0.0.1", 5), "10.0.0.1:5"), ("/run/x", "/run/x"), (None, "")]
)
def test_the_name_of_any_socket_has_a_text(name, text):
    assert address_text(name) == text


@pytest.mark.parametrize(
    ("text", "host"),
    [("10.0.0.1:5", "10.0.0.1"), ("[::1]:80", "::1"), ("::1:80", "::1"), ("nothing", ""), ("", "")],
)
def test_the_host_of_an_address(text, host):
    assert host_of(text) == host


def test_a_host_is_a_number_or_a_name() -> None:
    assert all(map(is_number, ("10.0.0.1", "::1", "fe80::1%eth0", "")))
    assert not any(map(is_number, ("b1", "broker.example", "10.0.0")))
