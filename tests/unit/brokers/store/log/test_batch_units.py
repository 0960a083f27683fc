"""Send batches: the vector of the reference, hostile bytes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.log.batch_units import BatchUnit, decode_batch, encode_batch
from brokers.store.log.records import RecordError

BATCH_VECTOR = bytes.fromhex(
    "00000025 00000000 00000000 00000000 00000001 78 000e 6b0176025741495401747275 6502"
)
I32 = st.integers(-(2**31), 2**31 - 1)


def test_the_batch_vector_of_the_reference() -> None:
    units = decode_batch(BATCH_VECTOR)
    assert units == [BatchUnit(0, b"x", b"k\x01v\x02WAIT\x01true\x02")]
    assert encode_batch(units) == BATCH_VECTOR


@given(
    st.lists(st.builds(BatchUnit, I32, st.binary(max_size=50), st.binary(max_size=50)), min_size=1)
)
def test_batches_come_back_as_they_were_written(units: list[BatchUnit]) -> None:
    assert decode_batch(encode_batch(units)) == units


@pytest.mark.parametrize("cut", range(1, len(BATCH_VECTOR)))
def test_a_cut_batch_is_refused(cut: int) -> None:
    with pytest.raises(RecordError):
        decode_batch(BATCH_VECTOR + BATCH_VECTOR[:cut])
    with pytest.raises(RecordError):
        decode_batch(b"")


@given(st.binary(max_size=300))
def test_hostile_bytes_end_in_record_errors(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        decode_batch(data)
