"""Folding in bulk: what comes out is what comes out one by one, and outcomes begin where none is
published.
"""

import pytest

from events.codec import encode
from events.commands import RegisterBroker
from events.envelope import DIGEST_BYTES
from processors.fold.folder import Folder
from processors.log import start
from processors.log.start import BulkFold
from tests.support.control_history import CLUSTER, NAME, History, address, with_master

OUTCOMES_MAX = 3


@pytest.fixture(autouse=True)
def _few_together(monkeypatch):
    monkeypatch.setattr(start, "RECORDS_TOGETHER", 4)


def longer_history() -> History:
    history = with_master(1, 2, 3)
    for number in range(11):
        history.register(1 + number % 3, incarnation=f"i{number}")
    return history


def folded(records, published: int) -> tuple[Folder, BulkFold, list[int]]:
    """All records; the offsets at which everything was applied are checked on the way."""
    folder, differ = Folder(), []
    bulk = BulkFold(folder, len(records), published, OUTCOMES_MAX, differ.append)
    for offset, data in enumerate(records):
        assert bulk.take(offset, data) == (folder.offset == offset)
    return folder, bulk, differ


@pytest.mark.parametrize("back", [0, 1, 2, 5, 99])
def test_the_fold_and_the_first_unpublished_outcomes_are_those_of_one_by_one(back):
    history = longer_history()
    one_by_one = Folder()
    outcomes = [
        one_by_one.apply(offset, data).outcome for offset, data in enumerate(history.records)
    ]
    published = max(-1, one_by_one.offset - back)
    folder, bulk, differ = folded(history.records, published)
    assert (folder.digest, folder.offset) == (one_by_one.digest, one_by_one.offset)
    assert bulk.outcomes == outcomes[published + 1 :][:OUTCOMES_MAX]
    assert differ == []


def test_what_waits_is_applied_when_no_more_comes():
    history = longer_history()
    folder = Folder()
    bulk = BulkFold(folder, 1_000, 1_000, OUTCOMES_MAX, lambda offset: None)
    taken = [bulk.take(offset, data) for offset, data in enumerate(history.records[:6])]
    assert taken == [False, False, False, True, False, False] and folder.offset == 3
    bulk.flush()
    assert folder.offset == 5
    bulk.flush()
    assert folder.offset == 5


@pytest.mark.parametrize("published", [-1, 1_000], ids=["one by one", "in bulk"])
def test_every_issuer_that_had_another_digest_is_told(published):
    history = with_master(1)
    wrong = history.envelope(applied_digest=b"x" * DIGEST_BYTES)
    strange = encode(RegisterBroker(wrong, CLUSTER, NAME, 1, address(1)))
    records = [*history.records, strange, strange]
    bulk_of_all = len(records)
    folder, differ = Folder(), []
    bulk = BulkFold(folder, bulk_of_all, published, bulk_of_all, differ.append)
    for offset, data in enumerate(records):
        bulk.take(offset, data)
    assert differ == [bulk_of_all - 2, bulk_of_all - 1]
