"""Each hole that DLedger had or has, dug again, and some that nobody had yet: worlds find them.

Names begin with the row of the history that PROTOCOL 10.11 keeps, or with the rule that they break.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

import pytest

from brokers.majority.entry import Place
from brokers.majority.quorum import candidacy, commit, handler, leadership
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.dispatcher import Dispatcher, Mode
from brokers.majority.quorum.effects import Commit, SaveTerm, TruncateFrom
from brokers.majority.quorum.handing_over import HandingOver
from brokers.majority.quorum.handler import Handler
from brokers.majority.quorum.leadership import Leadership
from brokers.majority.quorum.member import Member
from brokers.majority.quorum.search import Search
from brokers.majority.quorum.waiters import Waiters
from brokers.majority.quorum.window import Window
from brokers.majority.wire.codes import Code, PushType
from tests.simulation.known_seeds import first_found
from tests.simulation.majority.group import Shape
from tests.simulation.majority.mixes import ALL, LIVES, NETWORK, Mix
from tests.simulation.majority.run import run_world
from tests.simulation.world import InvariantBroken, World

SEEDS_MAX = 40
Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def nothing(*_: object, **__: object) -> None:
    """What a step comes to that was forgotten."""


# -- 14.1: safety and divergence -------------------------------------------------------------------


def the_first_index_with_a_majority(patch: Patch) -> None:
    patch.setattr(commit, "quorum_index", min)


def indexes_are_subtracted_into_32_bits(patch: Patch) -> None:
    key = cmp_to_key(lambda one, other: ctypes.c_int32(other - one).value)
    patch.setattr(commit, "quorum_index", lambda held: sorted(held, key=key)[len(held) // 2])


def _without_comparing(patch: Patch, begin: Callable[[Member], int]) -> None:
    """A leader's way begins with entries, as if the logs were known to agree."""
    right = Dispatcher.__init__

    def wrong(self: Dispatcher, member: Member, peer: str, now_ms: int) -> None:
        right(self, member, peer, now_ms)
        self._append_behind(begin(member))
        self.match_index = -1

    patch.setattr(Dispatcher, "__init__", wrong)


def what_is_there_is_not_compared(patch: Patch) -> None:
    _without_comparing(patch, lambda member: member.committed)

    def wrong(self: Handler, entry: Any) -> bool:
        return bool(entry.index <= self._member.last.index)

    patch.setattr(Handler, "_holds", wrong)


def committed_goes_back(patch: Patch) -> None:
    patch.setattr(handler, "follower_commits", lambda log, told, *_: min(told, log.last.index))

    def wrong(self: Member, index: int) -> bool:
        if 0 <= index != self.committed:
            self.committed = index
            self.emit(Commit(index))
        return True

    patch.setattr(Member, "commit", wrong)


def committed_beyond_the_own_end(patch: Patch) -> None:
    patch.setattr(handler, "follower_commits", lambda log, told, *_: told)

    def wrong(self: Member, index: int) -> bool:
        news = index > self.committed
        if news:
            self.committed = index
            self.emit(Commit(index))
        return news

    patch.setattr(Member, "commit", wrong)


def a_log_is_as_new_as_the_term(patch: Patch) -> None:
    voter = Member.voter

    def wrong(self: Member, taking: bool) -> Any:
        found = voter(self, taking)
        end = Place(self.standing.term, found.end.index)
        return type(found)(
            found.members, found.self_id, found.standing, end, found.spent_term, found.able, taking
        )

    patch.setattr(Member, "voter", wrong)
    request = candidacy.VoteRequest
    patch.setattr(
        candidacy,
        "VoteRequest",
        lambda **it: request(**{**it, "end": Place(it["term"], it["end"].index)}),
    )


def any_term_commits_by_counting(patch: Patch) -> None:
    def wrong(log: Any, held: list[int], term: int, committed: int) -> int:
        return max(committed, min(commit.quorum_index(held), log.last.index))

    patch.setattr(leadership, "leader_commits", wrong)


def _cuts_where_it_is_told(patch: Patch) -> None:
    """Behind the entry of a TRUNCATE, whatever is known or committed behind it."""

    def wrong(self: Handler, token: object, push: Any) -> None:
        (entry,) = push.entries
        if self._holds(entry):
            if entry.index < self._member.last.index:
                self._member.emit(TruncateFrom(entry.index + 1))
            self._answer(token, push, Code.SUCCESS, 1)
        else:
            right(self, token, push)

    right = Handler._truncate
    patch.setattr(Handler, "_truncate", wrong)


def what_is_committed_is_cut(patch: Patch) -> None:
    _cuts_where_it_is_told(patch)


def positions_are_identity(patch: Patch) -> None:
    same = handler.same
    patch.setattr(
        handler, "same", lambda one, other: same(one, other) and one.position == other.position
    )


def an_old_leader_truncates(patch: Patch) -> None:
    _cuts_where_it_is_told(patch)
    push_of = QuorumCore._push

    def wrong(self: QuorumCore, token: object, push: Any, why: Any, now_ms: int) -> None:
        if push.type is PushType.TRUNCATE and self._handler is not None and why is None:
            self._handler.push(token, push, now_ms)
        else:
            push_of(self, token, push, why, now_ms)

    patch.setattr(QuorumCore, "_push", wrong)


def votes_go_by_the_end_before_the_cut(patch: Patch) -> None:
    voter, request, ends = Member.voter, candidacy.VoteRequest, {}

    def wrong(self: Member, taking: bool) -> Any:
        found = voter(self, taking)
        key = self.log
        ends[key] = max(ends.get(key, found.end), found.end)
        ends[found.self_id] = ends[key]
        return type(found)(
            found.members, found.self_id, found.standing, ends[key], found.spent_term, found.able,
            taking,
        )  # fmt: skip

    patch.setattr(Member, "voter", wrong)
    settle = QuorumCore._settle
    patch.setattr(
        QuorumCore,
        "_settle",
        lambda self, now_ms: (self._member.voter(False), settle(self, now_ms))[1],
    )
    patch.setattr(
        candidacy,
        "VoteRequest",
        lambda **it: request(**{**it, "end": ends.get(it["local_id"], it["end"])}),
    )


def the_begin_before_the_cleaning(patch: Patch) -> None:
    look_at, saw = Search.look_at, Search.saw
    patch.setattr(Search, "look_at", lambda self, begin, end: look_at(self, 0, end))
    patch.setattr(Search, "saw", lambda self, seen, begin, end: saw(self, seen, 0, end))


def cleaned_before_it_was_committed(patch: Patch) -> None:
    patch.setattr(QuorumCore, "droppable", lambda self, applied: self._member.log.last.index)


# -- 14.2: stalls and lost wake-ups ----------------------------------------------------------------


def _failures_are_passed_over(patch: Patch) -> None:
    hears = Dispatcher._hears_entries

    def wrong(self: Dispatcher, session: int, sent: Any) -> Any:
        hear = hears(self, session, sent)
        return lambda answer, now_ms: None if answer is None else hear(answer, now_ms)

    patch.setattr(Dispatcher, "_hears_entries", wrong)


def nothing_is_sent_again(patch: Patch) -> None:
    _failures_are_passed_over(patch)
    patch.setattr(Dispatcher, "_look_at_the_oldest", nothing)


def what_was_cleaned_is_waited_for(patch: Patch) -> None:
    append = Dispatcher._append

    def wrong(self: Dispatcher, now_ms: int) -> None:
        if self._next_index >= self._member.log.first_index:
            append(self, now_ms)

    patch.setattr(Dispatcher, "_append", wrong)
    patch.setattr(Dispatcher, "seen_end", nothing)


def waiters_come_too_late(patch: Patch) -> None:
    write, tick = Leadership._write, Leadership.tick

    def late_write(self: Leadership, entries: Any, until_ms: int | None) -> None:
        before = len(self.waiters)
        write(self, entries, until_ms)
        late = list(self.waiters._waiting)[before:]
        for waiter in late:
            self.waiters._waiting.remove(waiter)
        self.__dict__.setdefault("late", []).extend(late)

    def late_tick(self: Leadership, now_ms: int) -> None:
        self.waiters._waiting.extend(self.__dict__.pop("late", []))
        tick(self, now_ms)

    patch.setattr(Leadership, "_write", late_write)
    patch.setattr(Leadership, "tick", late_tick)


def a_conflict_leaves_the_peer_in_append(patch: Patch) -> None:
    patch.setattr("brokers.majority.quorum.dispatcher._ASKS_TO_COMPARE", ())
    patch.setattr(Dispatcher, "seen_end", nothing)


def nobody_looks_where_a_follower_ends(patch: Patch) -> None:
    patch.setattr(Dispatcher, "seen_end", nothing)


def sent_is_kept_by_its_last_index(patch: Patch) -> None:
    def wrong(self: Window, sent: Any) -> None:
        self._sent[sent.last] = sent
        self.entries += sent.last - sent.first + 1
        self.bytes += sent.size

    patch.setattr(Window, "add", wrong)
    patch.setattr(Window, "held", nothing)
    patch.setattr(Dispatcher, "_look_at_the_oldest", nothing)


def _overlaps_are_refused(patch: Patch) -> None:
    append = Handler._append

    def wrong(self: Handler, token: object, push: Any, now_ms: int) -> None:
        if push.first_index <= self._member.last.index:
            self._answer(token, push, Code.REPEATED_PUSH)
        else:
            append(self, token, push, now_ms)

    patch.setattr(Handler, "_append", wrong)


def half_a_batch_is_not_answered(patch: Patch) -> None:
    _overlaps_are_refused(patch)
    taken = Handler.taken

    def wrong(self: Handler, what: Any, count: int, now_ms: int) -> None:
        if self._offered is not None and 0 < count < len(self._offered.entries):
            self._offered = None
        else:
            taken(self, what, count, now_ms)

    patch.setattr(Handler, "taken", wrong)


def a_count_of_0_is_believed(patch: Patch) -> None:
    def wrong(self: Dispatcher, sent: Any, answer: Any) -> None:
        last = sent.first + answer.count - 1
        self.match_index = max(self.match_index, last)
        still_out = sent in self._window
        self._window.held(self.match_index)
        if last < sent.last and still_out:
            self._again_from_match(self._last_push_ms + 100)

    patch.setattr(Dispatcher, "_taken", wrong)


def who_sends_no_batches_takes_none(patch: Patch) -> None:
    offer = Handler._offer

    def wrong(self: Handler, token: object, push: Any) -> None:
        if len(push.entries) > 1 and not self._member.config.batches:
            self._answer(token, push, Code.UNEXPECTED_ARGUMENT)
        else:
            offer(self, token, push)

    patch.setattr(Handler, "_offer", wrong)


def timeouts_are_not_found(patch: Patch) -> None:
    patch.setattr(Waiters, "too_late", lambda self, now_ms: [])


def the_last_one_waits(patch: Patch) -> None:
    patch.setattr(
        Waiters, "committed", lambda self, index: self._take(lambda waiter: waiter.index < index)
    )


def a_deposed_leader_forgets_its_waiters(patch: Patch) -> None:
    patch.setattr(Leadership, "end", nothing)


def no_entry_begins_a_term(patch: Patch) -> None:
    write = Leadership._write

    def wrong(self: Leadership, entries: Any, until_ms: int | None) -> None:
        if until_ms is None:
            self.ready = True
        else:
            write(self, entries, until_ms)

    patch.setattr(Leadership, "_write", wrong)


def an_error_ends_the_way_to_a_peer(patch: Patch) -> None:
    def wrong(self: Dispatcher, now_ms: int) -> None:
        if self.mode is Mode.APPEND:
            self._append(now_ms)
        elif not self._asked:
            self._ask_about_one(now_ms)

    patch.setattr(Dispatcher, "pump", wrong)


def an_overlap_is_refused(patch: Patch) -> None:
    _overlaps_are_refused(patch)


def a_first_push_of_a_term_is_not_missed(patch: Patch) -> None:
    _failures_are_passed_over(patch)
    look = Dispatcher._look_at_the_oldest

    def wrong(self: Dispatcher, now_ms: int) -> None:
        if self._member.log.term_of(self.match_index) == self._member.standing.term:
            look(self, now_ms)

    patch.setattr(Dispatcher, "_look_at_the_oldest", wrong)


def failed_pushes_keep_their_place(patch: Patch) -> None:
    def wrong(self: Dispatcher, until_ms: int | None = None) -> None:
        self._next_index = self.match_index + 1
        if until_ms is not None:
            self._wait_until_ms = until_ms

    patch.setattr(Dispatcher, "_again_from_match", wrong)


def one_alone_answers_at_once(patch: Patch) -> None:
    appended = Leadership.appended

    def wrong(self: Leadership, failure: Code | None) -> None:
        appended(self, failure)
        if not self.dispatchers and failure is None:
            for waiter in self.waiters.all():
                self._done(waiter, Code.SUCCESS)

    patch.setattr(Leadership, "appended", wrong)


def batches_know_no_limit_of_bytes(patch: Patch) -> None:
    patch.setattr(
        Window, "room", property(lambda self: (self._entries_max - self.entries, 1 << 30))
    )


def commits_are_sent_without_a_pause(patch: Patch) -> None:
    pump = Dispatcher.pump

    def wrong(self: Dispatcher, now_ms: int) -> None:
        if now_ms - self._last_push_ms >= 50:
            self._last_push_ms = now_ms - self._member.config.commit_silence_ms
        pump(self, now_ms)

    patch.setattr(Dispatcher, "pump", wrong)


# -- rules of ours ---------------------------------------------------------------------------------


def a_deposed_leader_speaks_in_the_new_term(patch: Patch) -> None:
    patch.setattr(Dispatcher, "end", nothing)
    term = property(lambda self: self._member.standing.term, nothing)
    patch.setattr(Dispatcher, "_term", term, raising=False)


def a_vote_is_not_saved(patch: Patch) -> None:
    stand = Member.stand

    def wrong(self: Member, *of: Any) -> None:
        before = self.standing.term
        stand(self, *of)
        last = self.effects[-1] if self.effects else None
        if isinstance(last, SaveTerm) and last.state.term == before:
            self.effects.pop()

    patch.setattr(Member, "stand", wrong)


def a_vote_is_saved_behind_its_answer(patch: Patch) -> None:
    take = Member.take_effects

    def wrong(self: Member) -> Any:
        return sorted(take(self), key=lambda effect: isinstance(effect, SaveTerm))

    patch.setattr(Member, "take_effects", wrong)


def a_term_is_led_again_after_a_start(patch: Patch) -> None:
    begin = Member.__init__

    def wrong(self: Member, *of: Any) -> None:
        begin(self, *of)
        self.spent_term = -1

    patch.setattr(Member, "__init__", wrong)


def a_follower_acknowledges_what_it_only_wrote(patch: Patch) -> None:
    def wrong(self: Handler, token: object, push: Any, through: int, count: int) -> None:
        self._answer(token, push, Code.SUCCESS, count)

    patch.setattr(Handler, "_answer_flushed", wrong)


def a_leader_counts_what_it_only_wrote(patch: Patch) -> None:
    patch.setattr(Member, "held_index", property(lambda self: self.log.last.index))


def answers_of_an_earlier_session_count(patch: Patch) -> None:
    compare = Dispatcher.compare

    def wrong(self: Dispatcher, now_ms: int, pause_ms: int = 0) -> None:
        compare(self, now_ms, pause_ms)
        self._session -= 1

    patch.setattr(Dispatcher, "compare", wrong)


def a_larger_term_is_passed_over(patch: Patch) -> None:
    patch.setattr(Leadership, "larger_term", property(lambda self: self._term))


def a_handover_is_never_undone(patch: Patch) -> None:
    patch.setattr(HandingOver, "_handed_over", nothing)


def a_vote_counts_twice(patch: Patch) -> None:
    patch.setattr("brokers.majority.quorum.votes._spent", lambda voter, candidate, term: None)


@dataclass(frozen=True, slots=True)
class Aim:
    """Worlds in which such a bug shows; None: of any shape."""

    weights: dict[str, int]
    shape: Shape | None = None


ANY = Aim(ALL)
CUTS = Aim(NETWORK | LIVES)
LONG_LOGS = Aim(NETWORK | LIVES, Shape(base=(1 << 31) - 20))
QUIET = Aim({"isolate_leader": 1, "mend": 1}, Shape(clients=2))
CLEANED = Aim({"clean": 8, "isolate": 3, "mend": 4, "wipe": 2, "kill": 1})
DEATHS = Aim({"kill": 4, "kill_between": 4, "isolate_leader": 3, "mend": 3, "slow_net": 1})
POWER = Aim({"slow_disk": 4, "all_lose_power": 2, "kill_leader": 3, "kill": 3})
FULL = Aim({"full_disk": 8, "slow_disk": 2, "lossy": 1}, Shape(clients=4))
LOSSY = Aim({"lossy": 6, "slow_net": 3, "doubles": 2})
NO_CLIENTS = Aim({"lossy": 4, "kill_leader": 6}, Shape(clients=0))
NARROW = Aim({"cut_pair": 4, "isolate": 3, "mend": 3}, Shape(window_entries=4))
FEW_BYTES = Aim(NETWORK, Shape(window_bytes=400))

PLANTS: Mapping[str, tuple[Plant, Aim]] = {
    "14.1-1 the first index, not the largest": (the_first_index_with_a_majority, ANY),
    "14.1-2 32 bits": (indexes_are_subtracted_into_32_bits, LONG_LOGS),
    "14.1-3 a duplicate is not compared": (what_is_there_is_not_compared, CUTS),
    "14.1-4 committed goes back": (committed_goes_back, ANY),
    "14.1-5 the current term as the log's": (a_log_is_as_new_as_the_term, ANY),
    "14.1-7 any term commits": (any_term_commits_by_counting, CUTS),
    "14.1-9 positions are identity": (positions_are_identity, ANY),
    "14.1-12 the begin before the cleaning": (the_begin_before_the_cleaning, CLEANED),
    "14.1-13 committed beyond the own log": (committed_beyond_the_own_end, ANY),
    "14.1-14 cleaned too early": (cleaned_before_it_was_committed, CLEANED),
    "14.2-1 nothing is sent again": (nothing_is_sent_again, ANY),
    "14.2-2 what was cleaned is waited for": (what_was_cleaned_is_waited_for, CLEANED),
    "14.2-3 a waiter comes too late": (waiters_come_too_late, ANY),
    "14.2-4 a conflict leaves it in APPEND": (a_conflict_leaves_the_peer_in_append, ANY),
    "14.2-5 nobody looks where a follower ends": (nobody_looks_where_a_follower_ends, QUIET),
    "14.2-6 kept by the last index": (sent_is_kept_by_its_last_index, NARROW),
    "14.2-7 half a batch without an answer": (half_a_batch_is_not_answered, FULL),
    "14.2-8 a count of 0": (a_count_of_0_is_believed, Aim(LIVES, Shape(plain=2))),
    "14.2-9 batches for some": (
        who_sends_no_batches_takes_none, Aim(LIVES, Shape(batches=(True, False))),
    ),
    "14.2-10 timeouts are not found": (timeouts_are_not_found, FULL),
    "14.2-11 the last one waits": (the_last_one_waits, ANY),
    "14.2-14 waiters of a deposed leader": (a_deposed_leader_forgets_its_waiters, ANY),
    "14.2-15 no entry begins a term": (no_entry_begins_a_term, ANY),
    "14.2-16 an error ends the way": (
        an_error_ends_the_way_to_a_peer, Aim({"unreadable": 6, "kill": 1}),
    ),
    "14.2-17 an overlap is refused": (an_overlap_is_refused, LOSSY),
    "14.2-18 the first push of a term": (a_first_push_of_a_term_is_not_missed, NO_CLIENTS),
    "14.2-18 failed pushes keep their place": (failed_pushes_keep_their_place, NARROW),
    "14.2-19 one alone answers at once": (
        one_alone_answers_at_once, Aim(LIVES, Shape(members=1)),
    ),
    "14.2-21 no limit of bytes": (batches_know_no_limit_of_bytes, FEW_BYTES),
    "14.2-22 without a pause": (commits_are_sent_without_a_pause, ANY),
    "S2 a vote is not saved": (a_vote_is_not_saved, DEATHS),
    "S2 a vote is saved behind its answer": (a_vote_is_saved_behind_its_answer, DEATHS),
    "S2 a vote counts twice": (a_vote_counts_twice, DEATHS),
    "S3 a follower acknowledges before the flush": (
        a_follower_acknowledges_what_it_only_wrote, POWER,
    ),
    "S3 a leader counts before the flush": (a_leader_counts_what_it_only_wrote, POWER),
    "L12 a handover is never undone": (
        a_handover_is_never_undone, Aim(NETWORK | {"transfer": 8}),
    ),
}  # fmt: skip
"""By the row of PROTOCOL 10.11, or the rule that it breaks."""


@pytest.mark.simulation
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: Patch) -> None:
    plant, aim = PLANTS[name]
    plant(monkeypatch)

    def broken(seed: int) -> str | None:
        try:
            # Each reader makes a leader speak, and hides who is not heard.
            run_world(World(seed), Mix(aim.weights), aim.shape, readers=0)
        except InvariantBroken as found:
            return str(found)
        return None

    found = first_found(f"majority/{name}", range(1, SEEDS_MAX + 1), broken)
    assert found, f"{name} was not found in {SEEDS_MAX} worlds"
