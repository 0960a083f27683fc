"""The fold under random histories: total, deterministic, and true to its promises.

Histories are drawn as moves, not as bytes: the expected epochs and evidence of a move are taken
from the state at that point, and disturbed often, so that rows are reached that bytes never find.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.changes import CHANGES, SyncStateSetAltered
from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules, ApplyBrokerId
from events.envelope import ReplicaEvidence
from events.outcomes import LABELS, Outcome
from processors.fold import canonical, decide_remembered
from processors.fold.decide_positions import position_of
from processors.fold.folder import Folder
from processors.fold.refusals import Refusal
from processors.fold.snapshot_codec import dump, load
from processors.fold.state import BrokerSet, ControllerState, check_invariants
from tests.support.control_history import CLUSTER, NAME, History, with_master, with_replicas
from tests.support.examples import examples

ROOT = Path(__file__).parents[2]
MOVES_PER_HISTORY = 40
# Most moves need most replicas alive to lead anywhere.
ALIVE = [(1, 2, 3, 4)] * 3 + [(2, 3, 4), (1, 3), (1, 2), (3,), ()]
MEMBERS = [(1, 2, 3), (1, 2), (2, 3), (1, 2, 3, 4), (2, 4), (1,), ()]


def told_by(seed_number: int):
    """Return a beginning and moves; a seed reaches far more than drawing each part would."""
    draw = Random(seed_number)
    moves = [_move(draw) for _ in range(MOVES_PER_HISTORY)]
    return draw.choice(list(BEGINNINGS)), moves


def _move(draw: Random):
    replica, noise, alive = draw.randint(1, 4), draw.randint(0, 9), draw.choice(ALIVE)
    kind = draw.choice(["elect", "alter", "register"] * 4 + list(RARE))
    match kind:
        case "elect":
            asking = draw.choice([-1, -1, 1, 2, 3, 4])
            return kind, asking, draw.random() < 0.2, alive, noise
        case "alter":
            return kind, draw.choice(MEMBERS), alive, noise
        case "register":
            return kind, replica, draw.choice("abcdef"), draw.random() < 0.6, noise - 1
        case _:
            return kind, *RARE[kind](draw, replica, alive)


RARE = {
    "apply": lambda draw, replica, alive: (draw.random() < 0.7, replica, draw.random() < 0.7),
    "java": lambda draw, replica, alive: (replica,),
    "clean": lambda draw, replica, alive: (
        draw.choice([None, (), (replica,), (replica,), (1, 2)]), draw.random() < 0.5, alive,
    ),
    "claim": lambda draw, replica, alive: (draw.choice([0, 0, 1, 2]),),
    "unclean": lambda draw, replica, alive: (draw.choice(["true", "false", "false"]),),
    "window": lambda draw, replica, alive: (draw.choice(["1", "3", "10000", "10000"]),),
    "patience": lambda draw, replica, alive: (draw.choice(["0", "5"]),),
    "waited": lambda draw, replica, alive: (alive, draw.choice([4, 5])),
    "dark": lambda draw, replica, alive: (),
    "doubt": lambda draw, replica, alive: (draw.choice([0, 1, 1000]),),
    "lost": lambda draw, replica, alive: (replica, alive),
    "import": lambda draw, replica, alive: (
        draw.choice([(1, 2, 3), (2, 1), (1,), (2, 4)]), draw.choice([1, 2, 9]),
        draw.choice([0, 0, 5, 20]), draw.random() < 0.8,
    ),
    "upgrade": lambda draw, replica, alive: (draw.choice([1, 2, 2]),),
    "again": lambda draw, replica, alive: (draw.randint(0, 50),),
    "stale": lambda draw, replica, alive: (replica,),
    "bytes": lambda draw, replica, alive: (draw.randbytes(draw.randint(0, 30)),),
}  # fmt: skip
HISTORIES = st.integers(0, 2**32 - 1).map(told_by)


def imported() -> History:
    """A set of Java replicas that has just come over."""
    history = History()
    history.import_set(1, 2, 3)
    return history


BEGINNINGS = {
    "empty": History,
    "replicas": lambda: with_replicas(1, 2, 3),
    "master": lambda: with_master(1, 2, 3),
    "before the upgrade": lambda: with_master(1, 2, 3, rules=1),
    "imported": imported,
}


def evidence(history: History, alive: tuple[int, ...], noise: int) -> tuple[ReplicaEvidence, ...]:
    """Return evidence for each replica; `noise` makes lengths, priorities and starts differ."""
    broker_set = history.folder.state.sets.get(NAME)
    entries = []
    for replica in broker_set.replicas if broker_set else ():
        start = "stale" if noise == replica.broker_id else replica.incarnation
        end = noise * 100 // replica.broker_id
        epoch = (noise * replica.broker_id) % 4 - 1 if noise % 3 else broker_set.master_epoch
        entries.append(
            ReplicaEvidence(
                replica.broker_id,
                replica.broker_id in alive,
                "heartbeat",
                1,
                epoch,
                end,
                end * (noise % 2),
                noise % 3,
                start,
            )
        )
    return tuple(entries)


def steps_of(told) -> Iterator[tuple[Any, ControllerState, Outcome, ControllerState]]:
    """Each move with the state before it, its outcome, and the state after it."""
    beginning, moves = told
    history = BEGINNINGS[beginning]()
    for move in moves:
        before = history.folder.state
        yield move, before, step(history, *move), history.folder.state


def play(told) -> History:
    """Return the history of a beginning and moves; the builder checks each record."""
    beginning, moves = told
    history = BEGINNINGS[beginning]()
    for move in moves:
        before = history.folder.state.sets.get(NAME)
        step(history, *move)
        after = history.folder.state.sets.get(NAME)
        check_progress(before, after, is_import=move[0] == "import")
    return history


def step(history: History, kind: str, *arguments) -> Outcome:
    """Append the record of one move; return its outcome."""
    broker_set = history.folder.state.sets.get(NAME)
    match kind, arguments:
        case "apply", (proper, broker_id, same_code):
            wanted = broker_set.next_broker_id if broker_set and proper else max(broker_id, 1)
            return history.apply_id(wanted, None if same_code else "other")
        case "register", (broker_id, start, clean, epoch):
            # Who starts with an odd letter tells its minimum, so that sets fall below it.
            minimum = {"a": 2, "c": 3}.get(start)
            return history.register(
                broker_id, start, clean=clean, last_epoch=epoch, min_in_sync=minimum
            )
        case "java", (broker_id,):
            return history.register_java(broker_id)
        case "elect", (broker_id, designate, alive, noise):
            has_seen = broker_set is not None and noise % 3 == 0
            expected = broker_set.master_epoch - noise // 9 if has_seen else None
            entries = evidence(history, alive, noise)
            return history.elect(broker_id, *entries, designate=designate, master_epoch=expected)
        case "alter", (members, alive, noise):
            entries = evidence(history, alive, noise)
            wanted = members if noise == 9 else (*members, *_master(broker_set))
            return history.alter(wanted, *entries, set_epoch=0 if noise == 8 else None)
        case "patience", (limit_ms,):
            return history.setting("atRiskWaitMs", limit_ms)
        case "waited", (alive, waited_ms):
            return history.elect(-1, *evidence(history, alive, 0), waited_ms=waited_ms)
        case "doubt", (lifted,):
            return history.doubt(lifted)
        case "dark", ():
            for replica in broker_set.replicas if broker_set else ():
                last = history.register(
                    replica.broker_id, f"dark{len(history.records)}", clean=False
                )
            return last if broker_set and broker_set.replicas else history.claim(-1)
        case "lost", (broker_id, alive):
            members = broker_set.sync_state_set if broker_set else ()
            return history.alter(members, *evidence(history, alive, 0), lost=(broker_id,))
        case "clean", (ids, living, alive):
            return history.clean(ids, *evidence(history, alive, 0), living=living)
        case "claim", (behind,):
            return history.claim(history.folder.state.term - behind)
        case "unclean", (value,):
            return history.setting("enableElectUncleanMaster", value)
        case "window", (value,):
            return history.setting("dedupeWindowOffsets", value)
        case "import", (ids, factor, more, has_master):
            epoch = (broker_set.highest_epoch_seen if broker_set else 0) * (factor > 1) + more + 1
            set_epoch = (broker_set.sync_state_set_epoch if broker_set else 0) + factor - 1
            master = {} if has_master else {"master_broker_id": None}
            next_id = max(*ids, broker_set.next_broker_id - 1 if broker_set else 0) + factor
            return history.import_set(
                *ids,
                master_epoch=epoch,
                sync_state_set_epoch=set_epoch,
                evidence_epoch=epoch + more,
                next_broker_id=next_id,
                **master,
            )
        case "upgrade", (version,):
            return history.do(ActivateRules(history.envelope(), version, COMMAND_FINGERPRINTS))
        case "again", (at,):
            return history.append(history.records[at % len(history.records)]).outcome
        case "stale", (broker_id,):
            envelope = history.envelope(term=history.folder.state.term - 1)
            return history.do(ApplyBrokerId(envelope, CLUSTER, NAME, broker_id, "code"))
        case "bytes", (data,):
            return history.append(data).outcome
    raise AssertionError(f"no move {kind}")


def _master(broker_set: BrokerSet | None) -> tuple[int, ...]:
    if broker_set is None or broker_set.master_broker_id is None:
        return ()
    return (broker_set.master_broker_id,)


def check_progress(
    before: BrokerSet | None, after: BrokerSet | None, *, is_import: bool = False
) -> None:
    """Ids and epochs only grow; each mastership has an epoch of its own (S6, S7, S9).

    An import brings ids that another controller gave, and a master that it elected.
    """
    if before is None or after is None:
        assert before is None
        return
    assert after.next_broker_id >= before.next_broker_id
    assert after.master_epoch >= before.master_epoch
    assert after.sync_state_set_epoch >= before.sync_state_set_epoch
    assert after.highest_epoch_seen >= before.highest_epoch_seen
    if after.master_broker_id != before.master_broker_id:
        assert after.master_epoch > before.master_epoch
    if after.sync_state_set != before.sync_state_set:
        assert after.sync_state_set_epoch > before.sync_state_set_epoch
    if is_import:
        return
    if after.master_epoch > before.master_epoch and after.master_broker_id is not None:
        assert after.master_epoch > before.highest_epoch_seen
    known = {replica.broker_id for replica in before.replicas}
    for replica in after.replicas:
        assert replica.broker_id in known or replica.broker_id >= before.next_broker_id


@settings(max_examples=examples(100), deadline=None)
@given(HISTORIES)
def test_any_history_keeps_every_invariant(told):
    history = play(told)
    assert check_invariants(history.folder.state) == []


@settings(max_examples=examples(15), deadline=None)
@given(HISTORIES, st.data())
def test_the_fold_does_not_depend_on_where_it_was_interrupted(told, data):
    history = play(told)
    folder = Folder()
    for offset, record in enumerate(history.records):
        if data.draw(st.integers(0, 3)) == 0:
            folder = load(dump(folder))
        folder.apply(offset, record)
    assert folder.digest == history.folder.digest
    assert canonical.state_text(folder.state) == canonical.state_text(history.folder.state)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=20))
def test_the_fold_is_total_over_bytes(records):
    history = History()
    for record in records:
        assert not history.append(record).outcome.accepted


def folded(history: History) -> Folder:
    """Its records by another folder."""
    folder = Folder()
    for offset, record in enumerate(history.records):
        folder.apply(offset, record)
    return folder


@settings(max_examples=examples(40), deadline=None)
@given(HISTORIES)
def test_folding_the_same_bytes_again_gives_the_same_digest(told):
    history = play(told)
    assert folded(history).digest == history.folder.digest


@settings(max_examples=examples(60), deadline=None)
@given(HISTORIES)
def test_the_short_way_round_the_memory_remembers_the_same(told):
    history = play(told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decide_remembered, "_leaves_the_memory", lambda *_: False)
        assert folded(history).digest == history.folder.digest


@settings(max_examples=examples(60), deadline=None)
@given(HISTORIES)
def test_only_the_set_as_it_is_makes_a_master_unless_labelled(told):
    """S7: without a label, who is elected was a clean member, or there had never been a master."""
    for move, state, outcome, now in steps_of(told):
        before, after = state.sets.get(NAME), now.sets.get(NAME)
        if (
            move[0] == "import"
            or before is None
            or after is None
            or after.master_epoch == before.master_epoch
        ):
            continue
        if after.master_broker_id is None:
            continue
        if {"AT_RISK", "UNCLEAN"} & set(outcome.labels) or not before.has_had_master:
            continue
        holders = {*before.sync_state_set, *before.remembered, *before.uncertain}
        assert after.master_broker_id in holders
        assert set(after.sync_state_set) <= holders


@settings(max_examples=examples(60), deadline=None)
@given(HISTORIES)
def test_who_is_known_to_have_lost_data_is_trusted_no_more(told):
    """S15: not a start below what it showed, nor whom its master proves to have lost what it
    acknowledged.
    """
    for move, state, outcome, now in steps_of(told):
        before, after = state.sets.get(NAME), now.sets.get(NAME)
        if before is None or not outcome.accepted or now.rules_version < 3:
            continue
        if move[0] == "register":
            was, now = before.replica(move[1]), after.replica(move[1])
            row = position_of(before.positions, move[1])
            below = row is not None and (now.last_epoch, now.end_offset) < (
                row.epoch,
                row.end_offset,
            )
            lost = below and was.incarnation != now.incarnation
        else:
            lost = move[0] == "lost"
            assert not lost or after.master_broker_id != move[1]
        if lost and move[1] in before.former:
            assert not after.replica(move[1]).clean
            assert move[1] not in (*after.sync_state_set, *after.remembered)


@settings(max_examples=examples(60), deadline=None)
@given(HISTORIES)
def test_nobody_is_given_up_before_the_time_for_it_has_passed(told):
    for move, state, outcome, _ in steps_of(told):
        limit_ms = state.at_risk_wait_ms
        if "WAIT_OVER" in {row.verdict for row in outcome.candidates}:
            assert "AT_RISK" in outcome.labels
            assert move[0] == "again" or (move[0] == "waited" and 0 < limit_ms <= move[2])


def test_the_moves_reach_what_they_are_there_for():
    """Or the properties above would hold for histories in which nothing happens."""
    seen: Counter[str] = Counter()

    for seed_number in range(250):
        folder = Folder()
        for offset, record in enumerate(play(told_by(seed_number)).records):
            outcome = folder.apply(offset, record).outcome
            seen.update([outcome.refusal or "", *outcome.labels])
            seen.update(type(change).__name__ for change in outcome.changes)
            seen.update(row.verdict for row in outcome.candidates)
            seen.update(
                change.reason
                for change in outcome.changes
                if isinstance(change, SyncStateSetAltered)
            )
    beyond = {  # What well-formed moves of one leader cannot do.
        "NOT_FORMED",
        "WRONG_CLUSTER",
        "ALREADY_FORMED",
        "INVALID_SETTING",
        "INVALID_FINGERPRINTS",
        "INVALID_REGISTRATION",
        "COMMAND_ID_REUSED",
        "UNKNOWN_SCHEMA",
        "EPOCH_EXHAUSTED",
        "MASTER_EPOCH_FENCED",
        "IMPORT_UNKNOWN",
    }
    wanted = {refusal.name for refusal in Refusal} - beyond
    wanted |= {"LOSS_PROVEN", "WENT_BACK", "UNCLEAN_START", "AWAITED", "WAIT_OVER"}
    wanted |= set(LABELS) | {cls.__name__ for cls in CHANGES}
    assert wanted - set(seen) == set()


FOLD_GOLDEN = """
import json, sys
from processors.fold import canonical
from processors.fold.folder import Folder
for story in ("", "-2", "-upgrade", "-3"):
    folder = Folder()
    for line in open(f"tests/golden/folds/history{story}.jsonl", encoding="ascii"):
        folder.apply(folder.next_offset, bytes.fromhex(json.loads(line)["record"]))
    print(folder.digest.hex(), canonical.state_text(folder.state))
"""


def test_the_order_of_hashes_does_not_reach_the_digest():
    """The same histories in two processes with different hash seeds."""
    said = []
    for seed in ("1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", FOLD_GOLDEN],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        said.append(done.stdout)
    assert said[0] == said[1] != ""
