"""The two parts of an outcome's bytes: what the fold gives is what everybody publishes, and behind
it stands what the publisher stamped.
"""

import pytest
from msgspec.structs import replace

from events import codec
from events.codec import HEADER_BYTES, RECORD_BYTES_MAX, decode, encode
from events.outcome_bytes import HEADERS, Stamps, stamps_behind, unstamped
from events.outcomes import Outcome
from processors.fold.folder import Folder
from tests.support.control_history import seen, with_master

PHASES = {"received": 1_767_225_600_000, "applied": 1_767_225_600_007}


def outcomes() -> list[Outcome]:
    past = with_master(1, 2, 3)
    past.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    past.append(b"garbage")
    folder = Folder()
    return [folder.apply(offset, value).outcome for offset, value in enumerate(past.records)]


@pytest.mark.parametrize("state_digest", [b"", bytes(range(32))])
@pytest.mark.parametrize(
    "stamps", [("", 0, {}), ("controller-1", 1_767_225_600_009, PHASES), ("ü" * 99, 5, {"a": -1})]
)
def test_what_is_published_begins_with_what_the_fold_gives(
    stamps: tuple[str, int, dict[str, int]], state_digest: bytes
) -> None:
    publisher, at_ms, phases = stamps
    for outcome in outcomes():
        folded = replace(outcome, state_digest=state_digest)
        published = encode(
            replace(folded, publisher=publisher, published_at_ms=at_ms, phases=phases)
        )
        head = unstamped(folded)
        assert published.startswith(head) and head.endswith(outcome.digest)
        assert stamps_behind(published, len(head)) == Stamps(publisher, at_ms, phases, state_digest)


def test_every_form_that_was_released_is_known() -> None:
    assert set(HEADERS) == set(codec.outcome_forms()) and len(HEADERS) > 1
    assert all(len(one) == HEADER_BYTES for one in HEADERS)


def test_what_decode_refuses_has_no_stamps() -> None:
    outcome = outcomes()[3]
    data = encode(replace(outcome, publisher="controller-1", phases=PHASES))
    at = len(unstamped(outcome))
    for bad in (*(data[:end] for end in range(at, len(data))), data + b"\0", b"x" * len(data)):
        assert stamps_behind(bad, at) is None
        with pytest.raises(codec.CodecError):
            decode(bad)
    long = replace(outcome, phases={str(n): n for n in range(RECORD_BYTES_MAX // 8)})
    with pytest.raises(codec.MalformedRecord):
        encode(long)
    assert stamps_behind(data[:at] + bytes(RECORD_BYTES_MAX), at) is None
