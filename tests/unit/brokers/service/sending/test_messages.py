"""What a send stores: one message or a batch, where it was born, what is added and taken away."""

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR
from brokers.service.sending.messages import MessageMaker, UniqueKeys, packed_peer
from brokers.service.sending.request import parse_v2
from brokers.store.log.records import host_bytes
from tests.support.brokers import send_request

STORE_HOST = host_bytes("10.0.0.9", 10911)


class Peer:
    peer = "10.0.0.1:1234"

    def __init__(self) -> None:
        self.attributes: dict[str, object] = {}


def made(request: RemotingCommand) -> list:
    return MessageMaker("c", STORE_HOST).messages(Peer(), request, parse_v2(request.ext), 3)  # type: ignore[arg-type]


def test_hosts_are_packed_as_stored() -> None:
    assert (
        packed_peer("10.0.0.1:1234").hex() == "0a000001000004d2"
        and len(packed_peer("[::1]:1")) == 20
    )
    assert packed_peer("nonsense").hex() == packed_peer("127.0.0.1:0").hex()


def test_a_message_is_born_at_its_client_and_stored_here() -> None:
    (message,) = made(send_request("T", b"body"))
    assert message.body == b"body" and message.queue_id == 3
    assert (message.born_host, message.store_host) == (packed_peer("10.0.0.1:1234"), STORE_HOST)
    assert message.properties.endswith(
        b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01c\x02"
    )


def test_a_forwarded_message_keeps_where_it_was_born() -> None:
    request = send_request("T", b"x")
    request.ext[FORWARDED_FOR] = "10.0.0.7:77"
    assert made(request)[0].born_host == packed_peer("10.0.0.7:77")


def test_a_mark_of_pop_consumers_is_not_stored() -> None:
    request = send_request("T", b"x")
    request.ext["i"] = "a\x01b\x02POP_CK\x01z\x02"
    assert made(request)[0].properties.startswith(b"a\x01b\x02MSG_REGION")


def test_properties_that_are_too_long_are_no_message() -> None:
    request = send_request("T", b"x")
    request.ext["i"] = "a\x01" + "b" * 40_000 + "\x02"
    with pytest.raises(ValueError, match="larger"):
        made(request)


def test_keys_have_rocketmqs_layout_and_differ() -> None:
    keys = UniqueKeys(bytes((10, 0, 0, 1)), 0x12345, 7)
    first, second = keys.next_key(0x1_0000_0005), keys.next_key(5)
    assert first == "0A000001" + "2345" + "00000007" + "00000005" + "0001" and second.endswith(
        "0002"
    )
    assert len(UniqueKeys(bytes(16), 1, 1).next_key(1)) == 56


def test_the_counter_goes_round() -> None:
    keys = UniqueKeys(bytes(4), 1, 1)
    assert len({keys.next_key(1) for _ in range(65_536)}) == 65_536
