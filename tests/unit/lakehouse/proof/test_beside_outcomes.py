"""Commands folded beside the digests that were published for them."""

from msgspec.structs import replace

from events.codec import encode
from lakehouse.proof.beside_outcomes import Proof, ProvingFold, PublishedDigests
from processors.fold.folder import Folder
from tests.support.control_history import with_master
from tests.support.landed_log import outcome_records

RECORDS = with_master(1, 2, 3).records
OUTCOMES = [value for *_, value in outcome_records(RECORDS)]
LAST = len(RECORDS) - 1


def folded(records: list[bytes], outcomes: list[bytes | None]) -> Proof:
    published = PublishedDigests()
    for value in outcomes:
        published.add(value)
    fold = ProvingFold(published)
    for offset, value in enumerate(records):
        fold.apply(offset, value)
    return fold.proof


def test_equal_digests_prove_all_up_to_the_last_published_one() -> None:
    folder = Folder()
    for offset, value in enumerate(RECORDS):
        folder.apply(offset, value)
    assert folded(RECORDS, OUTCOMES) == Proof(len(RECORDS), folder.digest.hex(), LAST, None)
    assert folded(RECORDS, OUTCOMES[:-2]).proven == LAST - 2
    assert folded(RECORDS, []).proven == -1


def test_repeats_and_garbage_among_the_outcomes_change_nothing() -> None:
    assert folded(RECORDS, [b"garbage", None, *OUTCOMES, *OUTCOMES[-3:]]).proven == LAST


def test_a_changed_command_and_a_foreign_history_are_named_with_their_offset() -> None:
    changed = [*RECORDS[:3], RECORDS[3][:-1] + bytes([RECORDS[3][-1] ^ 1]), *RECORDS[4:]]
    proof = folded(changed, OUTCOMES)
    assert proof.proven == 2 and "up to offset 3 gives another digest" in (proof.problem or "")


def test_two_digests_for_one_command_are_told() -> None:
    other = [value for *_, value in outcome_records(RECORDS[:2] + RECORDS[3:])]
    assert ("two different digests were published for offset 2") in (
        folded(RECORDS, [*OUTCOMES, other[2]]).problem or ""
    )


def with_states(change: bytes = b"") -> list[bytes]:
    """Outcomes as controllers publish them where each tells of its state; `change` stands for what
    one of them tells.
    """
    folder, found = Folder(), []
    for offset, value in enumerate(RECORDS):
        outcome = folder.apply(offset, value).outcome
        told = change if change and offset == LAST - 1 else folder.state_digest()
        found.append(encode(replace(outcome, state_digest=told)))
    return found


def test_the_state_itself_is_compared_where_it_was_published() -> None:
    assert folded(RECORDS, with_states()).proven == LAST
    proof = folded(RECORDS, with_states(bytes(32)))
    assert proof.proven == LAST - 2
    assert f"the state behind offset {LAST - 1} has another digest" in (proof.problem or "")


def test_two_digests_of_one_state_are_told() -> None:
    proof = folded(RECORDS, [*with_states(), with_states(bytes(32))[LAST - 1]])
    assert (f"two different digests of the state were published for offset {LAST - 1}") in (
        proof.problem or ""
    )
