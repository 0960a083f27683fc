"""Bugs that the store had, planted back by these tests; the store's worlds must find each within a
few.

Each bug is a patch of one product function. A found seed is run once more without the patch: then
every promise holds, so that it is the bug that was found and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from brokers.service.reading import repair
from brokers.store import store, trimming
from brokers.store.files import disk
from brokers.store.log import commit_log
from brokers.store.log.side_reader import side_read
from brokers.store.queues import consume_queue, entries, query
from brokers.store.queues.consume_queue import ConsumeQueue
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.queue_ends import QueueEnds
from brokers.store.queues.repair import Misplaced
from brokers.store.recovery import plan, recovery
from tests.simulation.judged import say
from tests.simulation.known_seeds import first_found
from tests.simulation.store import realm as realm_of_stores
from tests.simulation.store.faults import Mix
from tests.simulation.store.mixes import FILES, LIVES, ORDINARY
from tests.simulation.store.realm import Shape
from tests.simulation.store.run import run_world
from tests.simulation.world import InvariantBroken, World

FIRST_SEED = 1
Patch = pytest.MonkeyPatch

POWER = Mix(ORDINARY | {"lose_power": 4, "all_lose_power": 3, "checkpoint": 10, "flush": 6})
DAMAGE = Mix(ORDINARY | LIVES | {"flip_record": 6, "spoil_page": 4})
ENTRIES = Mix(
    ORDINARY
    | {"look": 8, "checkpoint": 20, "zero_entries": 8, "flip_entry": 4, "lose_power": 3, "kill": 2}
)
PLACES = Mix(ORDINARY | LIVES | {"flip_place": 10})
GAPS = Mix(
    ORDINARY | {"gap": 8, "look": 8, "trim": 10, "checkpoint": 15, "wipe": 3, "remove_queues": 3}
)
QUEUE_FILES = Mix(
    ORDINARY | FILES | {"trim": 15, "checkpoint": 15, "remove_queues": 4, "empty_queue_file": 4}
)
SHORT = Mix(ORDINARY | {"no_descriptors": 8})
CUTS = Mix(
    ORDINARY
    | {
        "lose_power": 4,
        "all_lose_power": 2,
        "hand_over": 6,
        "flip_record": 8,
        "trim": 12,
        "look": 1,
    }
)
MADE_AGAIN = Mix(
    ORDINARY | {"flip_record": 6, "remove_queues": 6, "checkpoint": 12, "lose_power": 4, "look": 8}
)
SPOILED = Mix(ORDINARY | {"spoil_entries": 8, "checkpoint": 15, "kill": 4, "lose_power": 2})
EMPTIED = Mix(ORDINARY | {"empty_queue_file": 10, "checkpoint": 12, "send": 40, "copy": 40})
PAGES = Mix(ENTRIES.weights | {"spoil_page": 8})
LONG_FILES = Shape(1, 32_768, 2_000, 256)
ALONE = Shape(1, 4_096, 2_000, 256)


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, the worlds it is looked for in, and within how many of them it must be found."""

    plant: Callable[[Patch], None]
    mix: Mix
    within: int
    shape: Shape | None = None


def ends_of_queues_are_not_remembered(patch: Patch) -> None:
    patch.setattr(QueueEnds, "settle", lambda self, queues, log_end: None)
    patch.setattr(recovery, "lacks_from", lambda queues, ends, log_min: None)


def entries_behind_a_damaged_one_are_cut_after_a_loss_of_power(patch: Patch) -> None:
    def keep(self: ConsumeQueue, physical_offset: int, durable_end: int | None = None) -> None:
        for slot in range(self._starts[0] // 20, self.max_offset) if self._starts else ():
            entry = self.read(slot, 1)[0]
            if entry.size <= 0 or entry.physical_offset >= physical_offset:
                self._cut(slot)
                return

    patch.setattr(ConsumeQueue, "keep_valid_below", keep)


def a_start_ends_the_log_at_damage(patch: Patch) -> None:
    patch.setattr(recovery, "behind_damage", lambda *args: None)


def what_was_confirmed_counts_as_written_after_a_loss_of_power(patch: Patch) -> None:
    written = property(lambda self: max(self.flushed_offset, self.confirm_offset))
    patch.setattr(plan.Plan, "written_end", written)
    patch.setattr(plan.Plan, "power_lost", property(lambda self: False))


def a_span_ends_with_its_last_entry(patch: Patch) -> None:
    def spans(chosen: Any, file_bytes: int) -> list[tuple[int, int, int]]:
        last = chosen[-1][1]
        return [(0, len(chosen), last.physical_offset + last.size)]

    patch.setattr(query, "spans", spans)


def a_lack_of_descriptors_is_a_broken_disk(patch: Patch) -> None:
    patch.setattr(commit_log, "passes", disk.is_full)


def an_unreadable_page_stops_the_start(patch: Patch) -> None:
    from brokers.store.recovery import damage

    patch.setattr(damage, "_around", lambda read, at, count: read(at, count))


def an_unreadable_page_stops_a_cut(patch: Patch) -> None:
    patch.setattr(commit_log, "last_used_or_unreadable_byte", disk.last_used_byte)
    patch.setattr(disk, "last_used_or_unreadable_byte", disk.last_used_byte)


def an_unreadable_page_stops_the_search_for_an_entry(patch: Patch) -> None:
    patch.setattr(repair, "side_read_around", side_read)


def files_go_that_are_only_dispatched(patch: Patch) -> None:
    trim = trimming.trim
    patch.setattr(
        realm_of_stores,
        "trim",
        lambda log, queues, below, remembered: trim(log, queues, below, 1 << 62),
    )


def one_row_of_filler_hides_what_lies_in_front_of_the_next(patch: Patch) -> None:
    def behind(read: Any, slot: int, end: int, mute: Any = entries.is_filler) -> int:
        if not any(map(mute, read(slot, 1))):
            return slot
        far = end
        while far - slot > 1:
            middle = (slot + far) // 2
            slot, far = (middle, far) if any(map(mute, read(middle, 1))) else (slot, middle)
        return far

    patch.setattr(entries, "behind_mute", behind)


def a_first_entry_of_zeros_counts_as_deleted(patch: Patch) -> None:
    search = entries.first_where
    patch.setattr(
        entries,
        "first_where",
        lambda read, low, high, predicate, mute=None: search(read, low, high, predicate),
    )


def a_log_that_is_emptied_keeps_its_entries(patch: Patch) -> None:
    cut = store.cut_queues
    patch.setattr(
        store, "cut_queues", lambda log, queues, to: None if to < 0 else cut(log, queues, to)
    )


def a_message_that_is_repaired_gets_no_entry(patch: Patch) -> None:
    patch.setattr(store.MessageStore, "repaired", lambda self, offset, size: 0)


def an_empty_file_is_a_queue_without_messages(patch: Patch) -> None:
    lacks = ConsumeQueues.lacks_from

    def blind(self: ConsumeQueues, known_below: int = 0) -> int | None:
        for _, queue in self:
            queue.end_lost = False
        return lacks(self, known_below)

    patch.setattr(ConsumeQueues, "lacks_from", blind)


def an_unreadable_page_of_entries_stops_the_start(patch: Patch) -> None:
    patch.setattr(
        consume_queue,
        "_read",
        lambda fd, position, count: consume_queue.os.pread(fd, count, position),
    )


def a_start_believes_where_a_header_places_it(patch: Patch) -> None:
    patch.setattr(Misplaced, "look", lambda self, key, slot, physical, size: None)


PLANTED: Mapping[str, Planted] = {
    bug.plant.__name__: bug
    for bug in (
        Planted(ends_of_queues_are_not_remembered, QUEUE_FILES, 40),
        Planted(entries_behind_a_damaged_one_are_cut_after_a_loss_of_power, ENTRIES, 40),
        Planted(a_start_ends_the_log_at_damage, DAMAGE, 20),
        Planted(what_was_confirmed_counts_as_written_after_a_loss_of_power, POWER, 40),
        Planted(a_span_ends_with_its_last_entry, ENTRIES, 20),
        Planted(a_lack_of_descriptors_is_a_broken_disk, SHORT, 10),
        Planted(an_unreadable_page_stops_the_start, DAMAGE, 60, ALONE),
        Planted(an_unreadable_page_stops_a_cut, DAMAGE, 100),
        Planted(an_unreadable_page_stops_the_search_for_an_entry, PAGES, 100, LONG_FILES),
        Planted(files_go_that_are_only_dispatched, POWER, 60),
        Planted(one_row_of_filler_hides_what_lies_in_front_of_the_next, GAPS, 100),
        Planted(a_first_entry_of_zeros_counts_as_deleted, ENTRIES, 60),
        Planted(a_log_that_is_emptied_keeps_its_entries, CUTS, 300),
        Planted(a_message_that_is_repaired_gets_no_entry, MADE_AGAIN, 300),
        Planted(an_empty_file_is_a_queue_without_messages, EMPTIED, 300),
        Planted(an_unreadable_page_of_entries_stops_the_start, SPOILED, 60),
        Planted(a_start_believes_where_a_header_places_it, PLACES, 100),
    )
}


@pytest.mark.simulation
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PLANTED)
def test_a_bug_of_the_store_that_is_planted_back_is_found(
    name: str, request: pytest.FixtureRequest
) -> None:
    bug = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        found = first_found(
            f"store/{name}",
            range(FIRST_SEED, FIRST_SEED + bug.within),
            lambda seed: _broken(seed, bug),
        )
    assert found is not None, f"{name}: not found within {bug.within} worlds"
    seed, why = found
    say(request, f"{name}: seed {seed}: {why}")
    run_world(World(seed), bug.mix, bug.shape)


def _broken(seed: int, bug: Planted) -> str | None:
    try:
        run_world(World(seed), bug.mix, bug.shape)
    except InvariantBroken as error:
        return str(error)[:200]
    return None
