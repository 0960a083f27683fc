"""Places that an operator set and consumers have not heard of."""

import pytest

from brokers.service.tables import pending_resets
from brokers.service.tables.pending_resets import PendingResets


def test_a_place_stays_until_it_is_taken() -> None:
    resets = PendingResets()
    assert resets.take("g", "T", 0) is None
    resets.put("g", "T", 0, 7)
    assert (resets.get("g", "T", 0), resets.get("g", "T", 1)) == (7, None)
    assert (resets.take("g", "T", 0), resets.take("g", "T", 0)) == (7, None)


def test_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_resets, "RESETS_MAX", 2)
    resets = PendingResets()
    for queue_id in range(3):
        resets.put("g", "T", queue_id, 1)
    assert [resets.get("g", "T", queue_id) for queue_id in range(3)] == [None, 1, 1]
    resets.clear()
    assert resets.get("g", "T", 2) is None
