from msgspec.structs import replace

from events.changes import MasterElected
from lakehouse.invariants import epochs
from lakehouse.invariants.epochs import EpochLedger, advance, claim_of
from tests.support.control_history import NAME
from tests.support.judged_history import Voices, at_change, decided, imported_history, sound_history

SOUND = decided(sound_history().records)


def book_after(rows: list) -> EpochLedger:  # type: ignore[type-arg]
    book = EpochLedger()
    for row in rows:
        book, _ = advance(book, NAME, row)
    return book


def test_a_claim_waits_until_an_election_reached_its_epoch() -> None:
    [word] = Voices().leads(2, 2).rows
    election = at_change(SOUND, MasterElected, 1)
    book, ready = advance(book_after(SOUND[:election]), NAME, word)
    assert (ready, len(book.waiting)) == ((), 1)
    book, ready = advance(book, NAME, SOUND[election])
    assert ([claim.epoch for claim in ready], book.waiting) == ([2], ())


def test_claims_that_wait_are_bounded(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(epochs, "CLAIMS_WAITING_MAX", 2)
    book = book_after(Voices().leads(1, 1).leads(1, 2).leads(1, 3).rows)
    assert [claim.epoch for claim in book.waiting] == [2, 3]


def test_forgotten_epochs_are_not_judged(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(epochs, "EPOCHS_KEPT", 2)
    book = book_after(SOUND)
    assert sorted(book.epochs) == [2, 3]
    assert [book.judged(epoch) for epoch in (0, 1, 2, 3, 4)] == [False, False, True, True, False]


def test_an_import_ends_what_can_be_judged_below_it() -> None:
    book = book_after(decided(imported_history().records))
    assert (book.floor, book.newest, book.elected_here) == (8, 9, True)


def test_an_election_that_may_lose_messages_is_marked() -> None:
    assert [facts.may_lose for _, facts in sorted(book_after(SOUND).epochs.items())] == [
        False,
        False,
        True,
    ]


def test_what_is_not_about_epochs_claims_nothing() -> None:
    from events.broker_events import HaLinkUp

    [word] = Voices().leads(2, 2).rows
    assert claim_of(replace(word, event=HaLinkUp(word.event.header, 1, "out"))) is None
