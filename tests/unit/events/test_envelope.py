"""What travels with every command."""

import pytest

from events.envelope import ELECTION_PRIORITY_DEFAULT, Envelope, ReplicaEvidence


def test_an_envelope_cannot_be_changed():
    envelope = Envelope(bytes(16), "c", 1, "n0", 0, "asked")
    with pytest.raises(AttributeError):
        envelope.term = 2


def test_evidence_of_which_nothing_is_known_has_the_numbers_that_java_sends_for_nothing():
    evidence = ReplicaEvidence(1, False, "never_seen")
    assert (evidence.epoch, evidence.max_offset, evidence.confirm_offset) == (-1, -1, -1)
    assert evidence.election_priority == ELECTION_PRIORITY_DEFAULT == 2**31 - 1
