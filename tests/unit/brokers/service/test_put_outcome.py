"""The table of outcomes, as RocketMQ has it."""

import pytest

from brokers.log.flush_queue import Flushed
from brokers.replica.waiters import Confirmation
from brokers.service.put_outcome import code_of


@pytest.mark.parametrize(
    ("replication", "flush", "code"),
    [
        (Confirmation.CONFIRMED, Flushed.DURABLE, 0),
        (Confirmation.CONFIRMED, Flushed.TIMED_OUT, 10),
        (Confirmation.CONFIRMED, Flushed.FAILED, 10),
        (Confirmation.TIMED_OUT, Flushed.DURABLE, 12),
        (Confirmation.TIMED_OUT, Flushed.TIMED_OUT, 12),
        (Confirmation.ABORTED, Flushed.DURABLE, 14),
        (Confirmation.TOO_MANY, Flushed.FAILED, 14),
    ],
)
def test_replication_is_said_over_the_flush_and_stored_messages_carry_no_remark(
    replication: Confirmation, flush: Flushed, code: int
) -> None:
    found, remark = code_of(replication, flush)
    assert found == code and (remark is None) == (code in (0, 10, 12))


def test_success_needs_both() -> None:
    good = [(one, two) for one in Confirmation for two in Flushed if code_of(one, two)[0] == 0]
    assert good == [(Confirmation.CONFIRMED, Flushed.DURABLE)]
