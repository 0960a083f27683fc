"""What a shell does with a log: how far it came, and what the member hears."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.majority.entry import Place
from brokers.majority.log_port import Taken, TermAndVote
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import (
    AppendAsFollower,
    AppendAsLeader,
    Commit,
    RestartAt,
    SaveTerm,
    TruncateFrom,
)
from brokers.majority.quorum.log_effects import do, new_entries
from brokers.majority.wire.codes import Code
from brokers.store.files.errors import LogError
from tests.simulation.majority.sim_log import SimulatedLog, SimulatedTerms
from tests.support.majority_member import entry, log_of


class Heard(QuorumCore):
    """Keeps what a step says."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def appended(self, failure: Code | None, now_ms: int) -> list[Any]:
        self.said.append(failure)
        return []

    def taken(self, taken: Taken, count: int, now_ms: int) -> list[Any]:
        self.said.append((taken, count))
        return []


def heard(log: SimulatedLog, effect: Any) -> list[Any]:
    core = Heard()
    step = do(log, SimulatedTerms(), effect, 7)
    if step is not None:
        step(core)
    return core.said


def test_the_entries_of_a_leader_are_written_and_only_the_last_has_a_client() -> None:
    log = log_of(1)
    effect = AppendAsLeader(1, tuple(new_entries("client", [b"a", b"b"])))
    assert heard(log, effect) == [None]
    assert [one.body for one in log.entries] == [b"x", b"a", b"b"]
    assert [one.token for one in effect.entries] == [None, "client"]


def test_a_full_disk_and_one_that_refuses_are_two_things() -> None:
    log = log_of(1)
    log.full = True
    assert heard(log, AppendAsLeader(1, tuple(new_entries("c", [b"a"])))) == [Code.DISK_FULL]
    log.full = False
    refused = AppendAsLeader(0, tuple(new_entries("c", [b"a"])))
    assert heard(log, refused) == [Code.DISK_ERROR]


def test_a_follower_says_how_many_it_took_and_what_stopped_it() -> None:
    log = log_of(1)
    assert heard(log, AppendAsFollower((entry(1, 1), entry(2, 1)))) == [(Taken.APPENDED, 2)]
    assert heard(log, AppendAsFollower((entry(3, 1), entry(5, 1)))) == [(Taken.GAP, 1)]


def test_a_log_begins_anew_and_is_cut() -> None:
    log = log_of(1, 1)
    assert heard(log, RestartAt(entry(7, 2))) == [(Taken.APPENDED, 1)]
    assert log.last == Place(2, 7)
    assert heard(log, TruncateFrom(7)) == []
    assert not log.entries


def test_a_commit_and_a_term_are_told_to_the_files() -> None:
    log, terms = log_of(1, 1), SimulatedTerms()
    assert do(log, terms, Commit(1), 0) is None
    assert do(log, terms, SaveTerm(TermAndVote(4, "m1")), 0) is None
    assert log.committed_index == 1 and terms.state == TermAndVote(4, "m1")


def test_to_cut_what_is_committed_is_refused_by_the_log() -> None:
    log = log_of(1, 1, committed=1)
    with pytest.raises(LogError):
        do(log, SimulatedTerms(), TruncateFrom(1), 0)
