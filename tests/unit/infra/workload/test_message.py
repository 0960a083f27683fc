from infra.workload.message import BODY_BYTES, body_of, sequence_of


def test_a_body_carries_its_number_and_shows_any_change() -> None:
    body = body_of(42)
    assert len(body) == BODY_BYTES and sequence_of(body) == 42
    assert body_of(43)[16:] != body[16:]
    for at in (0, 15, 16, BODY_BYTES - 1):
        changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        assert sequence_of(changed) is None


def test_what_is_no_body_has_no_number() -> None:
    assert sequence_of(b"") is None and sequence_of(b"x" * 1024) is None
