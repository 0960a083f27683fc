"""Message ids for producers that set none."""

from brokers.service.sending.unique_key import UniqueKeys


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
